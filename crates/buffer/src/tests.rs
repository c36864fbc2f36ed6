use std::path::Path;
use std::sync::Arc;

use bucksaw_env::sim::{Fs, PowerCutLoss};
use proptest::prelude::*;

use crate::entry::{BufferEntryKind, EntryHeader, HEADER_LEN};
use crate::*;

/// A buffer whose state is the number of batches read from its source. The content of a batch follows from its number.
struct Harness {
    fs: Fs,
    buffer: DiskBuffer,
    position: u64,
    recovery: BufferRecovery,
}

const DIR: &str = "/buffer";

fn frame(number: u64, length: usize) -> Vec<u8> {
    let mut frame = vec![b'x'; length];
    frame.extend_from_slice(format!("BSWB batch {number}").as_bytes());
    frame
}

fn position(state: &[Vec<u8>]) -> u64 {
    state.last().map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()))
}

impl Harness {
    fn open(fs: Fs, bytes_max: u64) -> Self {
        let (buffer, recovery) = DiskBuffer::open(Arc::new(fs.clone()), Path::new(DIR), Config { bytes_max }).unwrap();
        Self { fs, buffer, position: position(&recovery.state), recovery }
    }

    fn append(&mut self, length: usize) -> Result<u64, BufferError> {
        let (before, after) = (self.position, self.position + 1);
        let frame = frame(before, length);
        let state = after.to_le_bytes();
        let batch = NewBatch { state: &state, labels: b"a=b", frame: &frame, records: 2 };
        let number = self.buffer.append(&batch, || before.to_le_bytes().to_vec())?;
        self.position = after;
        Ok(number)
    }

    /// Reads everything, and checks the content.
    fn read_all(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(batch) = self.buffer.read_next().unwrap() {
            assert_eq!((&batch.labels[..], batch.records), (&b"a=b"[..], 2));
            assert!(batch.frame.ends_with(b"") && batch.frame.windows(11).any(|part| part == b"BSWB batch "));
            numbers.push(batch.number);
        }
        numbers
    }

    fn files(&self) -> usize {
        self.fs.paths().len()
    }
}

#[test]
fn batches_are_read_once_in_order_and_removed_when_acknowledged() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    assert_eq!((one.recovery.clone(), one.buffer.read_next().unwrap()), (BufferRecovery::default(), None));
    for _ in 0..100 {
        one.append(9_000).unwrap();
    }
    assert_eq!(one.files(), 13);
    assert_eq!(one.read_all(), (0..100).collect::<Vec<u64>>());
    assert!(one.buffer.is_read() && one.buffer.unacked_batches() == 100);
    one.buffer.ack(50);
    assert_eq!(one.files(), 7);
    one.append(1).unwrap();
    assert_eq!(one.read_all(), [100]);
    one.append(2).unwrap();
    one.buffer.skip_unread();
    one.append(3).unwrap();
    assert_eq!(one.read_all(), [102]);
    one.buffer.ack(1_000);
    assert_eq!((one.files(), one.buffer.unacked_batches()), (1, 0));
}

#[test]
fn removed_files_are_no_damage_after_a_kill() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    for _ in 0..40 {
        one.append(5_000).unwrap();
    }
    one.read_all();
    one.buffer.ack(30);
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    assert_eq!(two.recovery.missing_batches, 0);
    assert_eq!((two.buffer.first_unread(), two.read_all()), (30, (30..40).collect()));
}

#[test]
fn files_that_were_removed_before_an_append_are_acknowledged() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    for _ in 0..40 {
        one.append(5_000).unwrap();
    }
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    two.read_all();
    two.buffer.ack(40);
    assert_eq!(two.files(), 1);
    let mut three = Harness::open(two.fs.kill(), 1 << 20);
    assert_eq!((three.recovery.missing_batches, three.buffer.first_unacked()), (0, three.buffer.first_unread()));
    assert_eq!(three.read_all().len() as u64, three.buffer.unacked_batches());
}

#[test]
fn a_killed_process_sends_unacknowledged_batches_again_and_reads_on_behind_them() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    for _ in 0..40 {
        one.append(5_000).unwrap();
    }
    one.read_all();
    one.buffer.ack(17);
    one.buffer.write_ack().unwrap();
    one.append(5).unwrap();
    one.buffer.ack(20);
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    let want = BufferRecovery { unacked_batches: 24, unacked_records: 48, ..BufferRecovery::default() };
    assert_eq!(BufferRecovery { state: Vec::new(), ..two.recovery.clone() }, want);
    assert_eq!(two.position, 41);
    assert_eq!(two.append(6).unwrap(), 41);
    assert_eq!(two.read_all(), (17..42).collect::<Vec<u64>>());
    two.buffer.ack(42);
    two.buffer.write_ack().unwrap();
    let mut three = Harness::open(two.fs.kill(), 1 << 20);
    assert_eq!((three.position, three.recovery.unacked_batches, three.read_all()), (42, 0, vec![]));
    // A start without a batch leaves one file.
    three.buffer.save(&42_u64.to_le_bytes()).unwrap();
    three.buffer.save(&42_u64.to_le_bytes()).unwrap();
    assert_eq!(three.files(), 1);
    assert_eq!(Harness::open(three.fs.kill(), 1 << 20).position, 42);
}

#[test]
fn a_full_buffer_refuses_or_drops_its_oldest_batches() {
    let mut one = Harness::open(Fs::new(), 300_000);
    let mut number = 0;
    let error = loop {
        match one.append(1_000) {
            Ok(next) => number = next + 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BufferError::Full { bytes: 298_000..=300_000 }), "{error}");
    assert_eq!(one.buffer.next_number(), number);
    one.buffer.read_next().unwrap();
    let dropped = one.buffer.drop_oldest().unwrap().unwrap();
    assert_eq!((dropped.batches, dropped.records, dropped.bytes), (62, 124, 66_454));
    one.append(1_000).unwrap();
    let remaining: Vec<u64> = (62..=number).collect();
    assert_eq!(one.read_all(), remaining);
    let mut two = Harness::open(one.fs.kill(), 300_000);
    assert_eq!((two.read_all(), two.recovery.missing_batches), (remaining, 0));
    let long = vec![0; 70 << 20];
    let batch = NewBatch { state: b"", labels: b"", frame: &long, records: 1 };
    assert!(matches!(two.buffer.append(&batch, Vec::new), Err(BufferError::TooLong(_))));
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    one.append(10).unwrap();
    one.fs.fill(500);
    assert!(matches!(one.append(1_000), Err(BufferError::Io(_))));
    one.fs.set_capacity(None);
    assert_eq!(one.append(1_000).unwrap(), 1);
    assert_eq!(one.read_all(), [0, 1]);
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    assert_eq!((two.recovery.missing_batches, two.read_all()), (0, vec![0, 1]));
}

#[test]
fn a_damaged_batch_is_counted_and_its_source_read_again() {
    let damaged_at = |offset: u64| {
        let mut one = Harness::open(Fs::new(), 1 << 20);
        for _ in 0..5 {
            one.append(100).unwrap();
        }
        let path = one.fs.paths().pop().unwrap();
        let entry = HEADER_LEN as u64 + 8 + 3 + 100 + 12;
        // Behind the snapshot and the first two batches.
        let at = HEADER_LEN as u64 + 8 + 2 * entry + offset;
        assert!(one.fs.flip_bit(&path, at * 8));
        assert_eq!(one.read_all(), [0, 1, 3, 4], "{offset}");
        let two = Harness::open(one.fs.kill(), 1 << 20);
        let recovery = BufferRecovery { state: Vec::new(), ..two.recovery };
        let want = BufferRecovery {
            unacked_batches: 4,
            unacked_records: 8,
            missing_batches: 1,
            repeated_batches: 2,
            ..BufferRecovery::default()
        };
        assert_eq!((recovery, two.position), (want, 2), "{offset}");
    };
    // In the marker, the length, a checksum, the state, the frame.
    [0, 9, 45, 50, 90].into_iter().for_each(damaged_at);
}

#[test]
fn the_changes_behind_a_damaged_snapshot_are_kept() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    one.append(100).unwrap();
    one.append(100).unwrap();
    let path = one.fs.paths().pop().unwrap();
    assert!(one.fs.flip_bit(&path, 50));
    let two = Harness::open(one.fs.kill(), 1 << 20);
    assert!(two.recovery.is_snapshot_missing && two.recovery.missing_batches == 0);
    assert_eq!(two.recovery.state, [vec![], 1_u64.to_le_bytes().to_vec(), 2_u64.to_le_bytes().to_vec()]);
    assert_eq!(two.position, 2);
}

/// The offset of a batch of 100 bytes in the first file.
fn offset_of(number: u64) -> u64 {
    let entry = HEADER_LEN as u64 + 8 + 3 + 100 + format!("BSWB batch {number}").len() as u64;
    HEADER_LEN as u64 + 8 + number * entry
}

/// A buffer whose batches 2 and 5 are damaged, after the start that has seen it. Batches 0 and 1 are acknowledged.
fn with_two_damaged_batches() -> Harness {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    for _ in 0..8 {
        one.append(100).unwrap();
    }
    let path = one.fs.paths().pop().unwrap();
    [2, 5].iter().for_each(|number| assert!(one.fs.flip_bit(&path, (offset_of(*number) + 90) * 8)));
    one.buffer.ack(2);
    one.buffer.write_ack().unwrap();
    let two = Harness::open(one.fs.kill(), 1 << 20);
    assert_eq!((two.position, two.recovery.missing_batches, two.recovery.repeated_batches), (2, 2, 4));
    assert!(two.buffer.is_save_due());
    two
}

#[test]
fn a_second_start_after_damage_continues_behind_the_first() {
    for appended in 0..3 {
        let mut two = with_two_damaged_batches();
        two.buffer.save(&2_u64.to_le_bytes()).unwrap();
        // As at the first scan and at a stop.
        two.buffer.save(&2_u64.to_le_bytes()).unwrap();
        for _ in 0..appended {
            two.append(100).unwrap();
        }
        assert_eq!(two.read_all().first(), Some(&3));
        assert_eq!((two.buffer.damaged_between(2, 3), two.buffer.damaged_between(4, 7)), (0, 2));
        // The second damaged batch is not acknowledged yet.
        two.buffer.ack(4);
        two.buffer.write_ack().unwrap();
        let mut three = Harness::open(two.fs.kill(), 1 << 20);
        assert_eq!((three.position, three.recovery.missing_batches), (2 + appended, 0));
        assert!(!three.buffer.is_save_due());
        assert_eq!((three.read_all().first(), three.buffer.damaged_between(5, 6)), (Some(&4), 0));
        // A batch that is damaged later is another matter: lines from before it are read again.
        let path = three.fs.paths().into_iter().next().unwrap();
        assert!(three.fs.flip_bit(&path, (offset_of(6) + 90) * 8));
        three.buffer.save(&three.position.to_le_bytes()).unwrap();
        let four = Harness::open(three.fs.kill(), 1 << 20);
        assert_eq!((four.position, four.recovery.missing_batches), (2, 1), "{appended}");
    }
}

#[test]
fn damage_before_a_known_missing_batch_moves_the_state_further_back() {
    let mut two = with_two_damaged_batches();
    two.buffer.save(&2_u64.to_le_bytes()).unwrap();
    two.append(100).unwrap();
    // No later start may read on before batch 5 only.
    two.buffer.ack(4);
    two.buffer.write_ack().unwrap();
    let path = two.fs.paths().into_iter().next().unwrap();
    assert!(two.fs.flip_bit(&path, (offset_of(4) + 90) * 8));
    let three = Harness::open(two.fs.kill(), 1 << 20);
    assert_eq!((three.position, three.recovery.missing_batches), (2, 1));
}

#[test]
fn a_damaged_snapshot_after_damage_is_there_twice() {
    for byte in [5, 50] {
        let mut two = with_two_damaged_batches();
        two.buffer.save(&2_u64.to_le_bytes()).unwrap();
        two.append(100).unwrap();
        two.buffer.ack(4);
        two.buffer.write_ack().unwrap();
        let path = two.fs.paths().pop().unwrap();
        assert!(two.fs.flip_bit(&path, byte * 8));
        let three = Harness::open(two.fs.kill(), 1 << 20);
        assert_eq!((three.position, three.recovery.missing_batches), (3, 0));
    }
}

#[test]
fn no_file_is_removed_before_the_state_after_damage_is_saved() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    for _ in 0..40 {
        one.append(5_000).unwrap();
    }
    let path = one.fs.paths().into_iter().next().unwrap();
    assert!(one.fs.flip_bit(&path, 70 * 8));
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    let files = two.files();
    assert!(files > 2);
    two.read_all();
    two.buffer.ack(40);
    assert_eq!((two.files(), two.buffer.drop_oldest().unwrap()), (files, None));
    let mut three = Harness::open(two.fs.kill(), 1 << 20);
    assert_eq!((three.position, three.files()), (0, files));
    three.read_all();
    three.buffer.ack(40);
    three.buffer.save(&0_u64.to_le_bytes()).unwrap();
    assert_eq!(three.files(), 1);
    assert_eq!(Harness::open(three.fs.kill(), 1 << 20).position, 0);
}

#[test]
fn bytes_are_counted_from_the_first_unacknowledged_batch() {
    let mut one = Harness::open(Fs::new(), 1 << 20);
    assert_eq!(one.buffer.unacked_bytes(), 0);
    for _ in 0..8 {
        one.append(100).unwrap();
    }
    let length = offset_of(8);
    assert_eq!((one.buffer.bytes(), one.buffer.unacked_bytes()), (length, length - offset_of(0)));
    one.buffer.ack(3);
    assert_eq!(one.buffer.unacked_bytes(), length - offset_of(3));
    one.buffer.write_ack().unwrap();
    one.buffer.ack(7);
    assert_eq!(one.buffer.unacked_bytes(), length - offset_of(7) + HEADER_LEN as u64);
    for _ in 0..40 {
        one.append(5_000).unwrap();
    }
    let all = one.buffer.unacked_bytes();
    one.buffer.ack(30);
    let rest = one.buffer.unacked_bytes();
    assert!(rest < all / 2, "{all}");
    let mut two = Harness::open(one.fs.kill(), 1 << 20);
    assert_eq!(two.buffer.unacked_bytes(), rest);
    two.buffer.ack(48);
    assert_eq!(two.buffer.unacked_bytes(), 0);
}

#[test]
fn headers_are_checked() {
    let header = EntryHeader {
        kind: BufferEntryKind::Batch,
        body_len: 6,
        state_len: 1,
        labels_len: 2,
        records: 3,
        number: 4,
        acked: 5,
        body_crc: crc32c::crc32c(b"abbccc"),
    };
    let bytes = header.encode();
    assert_eq!(EntryHeader::decode(&bytes), Some(header));
    assert_eq!(header.split(b"abbccc"), Some([&b"a"[..], b"bb", b"ccc"]));
    assert_eq!((header.split(b"abbccd"), header.split(b"abbcc")), (None, None));
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(EntryHeader::decode(&bytes), None, "{bit}");
    }
    let long = EntryHeader { state_len: 5, ..header };
    assert_eq!(EntryHeader::decode(&long.encode()), None);
}

#[derive(Clone, Debug)]
enum BufferStep {
    Append(usize),
    Ack(u64),
    WriteAck,
    Read(usize),
    Save,
    Kill,
    PowerCut(u64),
    FlipBit(u64),
}

fn step() -> impl Strategy<Value = BufferStep> {
    prop_oneof![
        12 => (0_usize..40_000).prop_map(BufferStep::Append),
        4 => (0_u64..9).prop_map(BufferStep::Ack),
        2 => Just(BufferStep::WriteAck),
        4 => (0_usize..9).prop_map(BufferStep::Read),
        1 => Just(BufferStep::Save),
        1 => Just(BufferStep::Kill),
        1 => any::<u64>().prop_map(BufferStep::PowerCut),
        1 => any::<u64>().prop_map(BufferStep::FlipBit),
    ]
}

proptest! {
    /// Whatever happens, each part of the source that is not acknowledged is in the buffer or is read again.
    #[test]
    fn no_part_of_the_source_is_lost(steps in prop::collection::vec(step(), 1..80)) {
        let mut one = Harness::open(Fs::new(), 1 << 20);
        // What was acknowledged, as parts of the source; the batches that were read, and of each batch, its part.
        let mut acked = std::collections::BTreeSet::new();
        let mut read = std::collections::BTreeSet::new();
        let mut parts = std::collections::BTreeMap::new();
        let mut end = 0;
        for step in steps {
            match step {
                BufferStep::Append(length) => {
                    let part = one.position;
                    if let Ok(number) = one.append(length) {
                        parts.insert(number, part);
                        end = end.max(part + 1);
                    }
                }
                BufferStep::Ack(count) => {
                    // No node has what was not read.
                    let until = (one.buffer.first_unacked() + count).min(one.buffer.first_unread());
                    acked.extend(read.range(..until).filter_map(|number| parts.get(number)).copied());
                    one.buffer.ack(until);
                }
                BufferStep::WriteAck => one.buffer.write_ack().unwrap(),
                BufferStep::Read(count) => {
                    read.extend((0..count).filter_map(|_| Some(one.buffer.read_next().unwrap()?.number)));
                    let (unacked, batches) = (one.buffer.unacked_bytes(), one.buffer.unacked_batches());
                    prop_assert!(unacked <= one.buffer.bytes() && (unacked == 0 || batches > 0));
                }
                BufferStep::Save => one.buffer.save(&one.position.to_le_bytes()).unwrap(),
                BufferStep::FlipBit(at) => {
                    let path = one.fs.paths().into_iter().find(|path| path.extension().is_some());
                    if let Some((path, bytes)) = path.and_then(|path| Some((path.clone(), one.fs.live_bytes(&path)?))) {
                        // The first snapshot stays: without it, all is read again.
                        let first = HEADER_LEN as u64 + 8;
                        let length = (bytes.len() as u64).saturating_sub(first);
                        if length > 0 {
                            one.fs.flip_bit(&path, (first + at % length) * 8);
                        }
                        // Without a restart, a damaged batch is not sent. It is known at the next start.
                        one = Harness::open(one.fs.kill(), 1 << 20);
                        read.clear();
                    }
                }
                BufferStep::Kill => {
                    let (position, missing) = (one.position, one.recovery.missing_batches);
                    let fs = one.fs.kill();
                    one = Harness::open(fs, 1 << 20);
                    read.clear();
                    if missing == 0 && one.recovery.missing_batches == 0 {
                        prop_assert_eq!(one.position, position);
                    }
                }
                BufferStep::PowerCut(seed) => {
                    let fs = one.fs.cut_power(PowerCutLoss::Torn, seed);
                    one = Harness::open(fs, 1 << 20);
                    read.clear();
                }
            }
        }
        let fs = one.fs.kill();
        let mut last = Harness::open(fs, 1 << 20);
        let position = last.position;
        let mut found: std::collections::BTreeSet<u64> = acked;
        found.extend(last.read_all().iter().filter_map(|number| parts.get(number)));
        found.extend(position..end);
        prop_assert_eq!(found.len() as u64, end, "{:?}", last.recovery);
    }

    #[test]
    fn any_bytes_are_opened(bytes in prop::collection::vec(any::<u8>(), 0..300), marker in 0_usize..300) {
        let fs = Fs::new();
        let mut content = bytes;
        if let Some(space) = content.get_mut(marker..marker + 4) {
            space.copy_from_slice(b"BSWB");
        }
        let one = Harness::open(fs, 1 << 20);
        bucksaw_env::replace(&one.fs, &Path::new(DIR).join("0000000000000000.buffer"), &[&content]).unwrap();
        let mut two = Harness::open(one.fs.kill(), 1 << 20);
        two.read_all();
        two.append(3).unwrap();
    }
}
