//! Finds what a previous run left: the state of the source, and which batches are unacknowledged.

use std::io;

use crate::buffer_file::{BufferFile, EntryReader, ReadEntry};
use crate::entry::{BufferEntryKind, EntryHeader};
use crate::rewind::{BatchRanges, Rewind};

/// What a previous run left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferRecovery {
    /// The state of the source: a snapshot, and then the change of each batch behind it, in order. Empty if there is none. If the
    /// snapshot is damaged, an empty one is in its place.
    pub state: Vec<Vec<u8>>,
    /// Whether that is so: what no later batch has changed is missing from the state.
    pub is_snapshot_missing: bool,
    /// Batches that are in the buffer and not acknowledged.
    pub unacked_batches: u64,
    /// Their records.
    pub unacked_records: u64,
    /// Unacknowledged batches that are damaged or missing, and that no earlier start has reported. The state is that before the
    /// first of them, or an earlier one, so the source is read again from there.
    pub missing_batches: u64,
    /// Undamaged batches behind a missing one. They are sent, and their lines are read again, so answers contain these
    /// twice.
    pub repeated_batches: u64,
}

/// What the buffer continues with.
#[derive(Debug, Default)]
pub(crate) struct RecoveredBuffer {
    pub(crate) recovery: BufferRecovery,
    /// The number of the next batch.
    pub(crate) next: u64,
    pub(crate) acked: u64,
    /// What is missing before the next batch, if its snapshot has to keep that.
    pub(crate) rewind: Option<Rewind>,
    /// Unacknowledged batches that are missing, those of earlier starts included.
    pub(crate) missing: BatchRanges,
}

/// Reads all files, the oldest first.
pub(crate) fn recover(files: &[BufferFile]) -> io::Result<RecoveredBuffer> {
    let (mut next, mut acked, mut known) = (0, 0, BatchRanges::default());
    for file in files {
        next = file.first_batch.max(next);
        let mut reader = EntryReader::new(file.file.clone());
        loop {
            let header = match reader.next_header(file.bytes)? {
                ReadEntry::End => break,
                ReadEntry::Damage => continue,
                ReadEntry::Entry(header, _) => header,
            };
            acked = header.acked.max(acked);
            next = next.max(header.number + u64::from(header.kind == BufferEntryKind::Batch));
            if let Some(rewind) = reader.read_rewind(&header)? {
                known.extend(rewind.missing.into_ranges());
            }
        }
    }
    // Files before the oldest one were removed because their batches are acknowledged, which may be written nowhere else.
    acked = acked.max(files.first().map_or(0, |file| file.first_batch));
    // An acknowledgement for a batch that is in no file: its file was lost to a power cut.
    next = next.max(acked);
    let mut replay = StateReplay {
        recovery: BufferRecovery::default(),
        expected: files.first().map_or(0, |file| file.first_batch),
        acked,
        known,
        missing: BatchRanges::default(),
        first_missing: None,
        last_rewind: None,
    };
    for file in files {
        let mut reader = EntryReader::new(file.file.clone());
        loop {
            match reader.next(file.bytes)? {
                ReadEntry::End => break,
                ReadEntry::Entry(header, Some(body)) => replay.add(&header, &body),
                // A missing batch is found by the numbers of those behind it.
                ReadEntry::Damage | ReadEntry::Entry(_, None) => {}
            }
        }
    }
    replay.expect(next);
    Ok(replay.finish(next))
}

/// Reads the undamaged headers of a file.
pub(crate) fn each_header(file: &BufferFile, mut visit: impl FnMut(&EntryHeader)) -> io::Result<()> {
    let mut reader = EntryReader::new(file.file.clone());
    loop {
        match reader.next_header(file.bytes)? {
            ReadEntry::End => return Ok(()),
            ReadEntry::Entry(header, _) => visit(&header),
            ReadEntry::Damage => {}
        }
    }
}

/// Rebuilds the state from undamaged entries.
struct StateReplay {
    recovery: BufferRecovery,
    /// The number of the next batch, if none is missing.
    expected: u64,
    acked: u64,
    /// Batches that earlier starts missed.
    known: BatchRanges,
    /// Other ones that are missing.
    missing: BatchRanges,
    /// The first of them. Later entries do not change the state.
    first_missing: Option<u64>,
    /// The last rewind, and the number of its snapshot.
    last_rewind: Option<(u64, Rewind)>,
}

impl StateReplay {
    fn add(&mut self, header: &EntryHeader, body: &[u8]) {
        let Some([state, _, frame]) = header.split(body) else { return };
        // A file may repeat what a lost one had.
        if header.kind == BufferEntryKind::Ack || header.number < self.expected && header.kind == BufferEntryKind::Batch
        {
            return;
        }
        self.expect(header.number);
        match header.kind {
            BufferEntryKind::Snapshot => {
                let rewind = Rewind::decode(frame);
                // Behind a missing batch, only a state that is before it has its lines.
                let is_before =
                    self.first_missing.is_none_or(|missing| rewind.as_ref().is_some_and(|rewind| rewind.to < missing));
                if is_before {
                    self.recovery.state = vec![state.to_vec()];
                    self.recovery.is_snapshot_missing = false;
                }
                self.last_rewind = rewind.map(|rewind| (header.number, rewind)).or(self.last_rewind.take());
            }
            BufferEntryKind::Batch => {
                let is_frozen = self.first_missing.is_some();
                self.expected = header.number + 1;
                if !is_frozen {
                    if self.recovery.state.is_empty() {
                        self.recovery.state.push(Vec::new());
                        self.recovery.is_snapshot_missing = true;
                    }
                    self.recovery.state.push(state.to_vec());
                }
                if header.number >= self.acked {
                    self.recovery.unacked_batches += 1;
                    self.recovery.unacked_records += u64::from(header.records);
                    self.recovery.repeated_batches += u64::from(is_frozen);
                }
            }
            BufferEntryKind::Ack => {}
        }
    }

    /// Counts the batches before `number` that did not come.
    fn expect(&mut self, number: u64) {
        let missing = self.known.outside(self.expected.max(self.acked)..number);
        self.expected = self.expected.max(number);
        let Some(first) = missing.first() else { return };
        self.first_missing.get_or_insert(first.start);
        self.recovery.missing_batches += missing.iter().map(|range| range.end - range.start).sum::<u64>();
        self.missing.extend(missing);
    }

    fn finish(self, next: u64) -> RecoveredBuffer {
        let Self { recovery, acked, known, mut missing, first_missing, last_rewind, .. } = self;
        missing.extend(known.into_ranges());
        missing.forget_below(acked);
        // The snapshot with that rewind is replaced by the one that is written next.
        let replaced = last_rewind.filter(|(number, _)| *number == next).map(|(_, rewind)| rewind.to);
        let to = first_missing.into_iter().chain(replaced).min();
        let rewind = to.map(|to| Rewind { to, missing: missing.clone() });
        RecoveredBuffer { recovery, next, acked, rewind, missing }
    }
}
