use std::collections::BTreeSet;

use bucksaw_record::{Labels, Millis, Producer};
use proptest::prelude::*;

use super::*;
use crate::stored::tests::{bytes_of, file};
use crate::stored::{HEADER_LEN, MergeInfo};
use crate::{BlockBuilder, Codec, Rows};

const ID: Id = Id::from_bits(77);

/// Blocks of each codec, of several sizes and streams, one of them of a keyed batch.
fn segment() -> Vec<u8> {
    let file = file(b"");
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: ID, version: VERSION }).unwrap();
    for (number, codec) in (0..).zip([Codec::Columns(1), Codec::Lz4, Codec::Zstd(1), Codec::Columns(1), Codec::Plain]) {
        let mut builder = BlockBuilder::default();
        for (stream, app) in ["web", "db"].into_iter().enumerate() {
            let count = 40 + 60 * number as u32;
            let mut rows = Rows { accepted: Millis(number), ..Rows::default() };
            let producer = if number == 2 { Producer::from_key(b"k") } else { Producer::new(stream as u64) };
            rows.push_run(Id::new(Millis(10 * number + 10), producer, stream as u32 * 10_000), count);
            let text: String = (0..count).map(|row| format!("level=info {app} at {number} {row} is done\n")).collect();
            builder.push(&Labels::new([("app", app)]).unwrap(), &rows, 0..count, text.as_bytes());
        }
        writer.append(&mut builder, codec).unwrap();
    }
    let merge = Some(MergeInfo { id: Id::from_bits(6), output_count: 1, inputs: vec![Id::from_bits(7)] });
    writer.seal(SegmentOrigin { sources: vec![Id::from_bits(5)], merge }).unwrap();
    bytes_of(&file)
}

type StoredRecord = (Id, Labels, Vec<u8>);

/// The records that a reader reads, block by block.
fn records(reader: &Reader) -> BTreeSet<StoredRecord> {
    let blocks = (0..reader.footer().blocks.len()).filter_map(|block| reader.block(block).ok());
    let mut all = BTreeSet::new();
    for block in blocks {
        for chunk in block.chunks() {
            for (row, text) in (0..).zip(chunk.records()) {
                assert!(all.insert((chunk.rows.id(row).unwrap(), chunk.labels.clone(), text.to_vec())), "twice");
            }
        }
    }
    all
}

fn verify(bytes: &[u8]) -> VerifiedSegment {
    VerifiedSegment::open(file(bytes), Path::new("s"), Some(ID)).unwrap()
}

/// The rewritten segment and its records.
fn rewritten(verified: &VerifiedSegment, id: Id) -> (BTreeSet<StoredRecord>, VerifiedSegment) {
    let to = file(b"");
    verified.write(Arc::clone(&to), Path::new("t"), id).unwrap();
    let after = VerifiedSegment::open(to, Path::new("t"), None).unwrap();
    assert!(after.health().is_intact() && after.health().loss.is_none(), "{:?}", after.health());
    assert_eq!(after.id(), id);
    (records(&after.reader), after)
}

/// Checks the guarantees for every damaged file.
fn assert_verified(damaged: &[u8], stored: &BTreeSet<StoredRecord>) -> VerifiedSegment {
    let verified = verify(damaged);
    let health = verified.health();
    let readable = records(&verified.reader);
    assert!(readable.is_subset(stored));
    assert_eq!(health.records, readable.len() as u64);
    if let Ok(reader) = Reader::open(file(damaged), Path::new("s")) {
        assert!(records(&reader).is_subset(&readable), "a plain reader reads more");
    }
    let lost = (stored.len() - readable.len()) as u64;
    assert_eq!(health.loss.is_none(), health.harmful.is_empty(), "{health:?}");
    match health.loss {
        RecordLoss { records, is_lower_bound: false } => assert_eq!(records, lost),
        RecordLoss { records, is_lower_bound: true } => assert!(records <= lost),
    }
    let id = if health.loss.is_none() { ID } else { Id::from_bits(78) };
    let (records, after) = rewritten(&verified, id);
    assert_eq!(records, readable);
    assert_eq!(after.summary(), verified.summary());
    verified
}

#[test]
fn an_intact_segment_is_intact() {
    let verified = assert_verified(&segment(), &records(&verify(&segment()).reader));
    assert!(verified.health().is_intact() && verified.health().loss.is_none());
}

#[test]
fn without_footers_all_but_sources_and_merge_is_recovered() {
    let bytes = segment();
    let intact = verify(&bytes);
    let stored = records(&intact.reader);
    let footer = intact.reader.footer();
    let last = footer.blocks.last().unwrap();
    let end = (last.offset + last.packed_bytes()) as usize;
    // Both footers, without their trailers, which state the end of the blocks.
    let backup = bytes.windows(8).rposition(|window| window == b"BSWFOOT2").unwrap() - 44;
    let mut damaged = bytes.clone();
    damaged[backup - 1] ^= 1;
    let at = damaged.len() - 33;
    damaged[at] ^= 1;
    for spoil_header in [false, true] {
        damaged[20] ^= u8::from(spoil_header);
        let verified = assert_verified(&damaged, &stored);
        assert!(verified.health().loss.is_none() && !verified.health().is_intact(), "{:?}", verified.health());
        let found = verified.reader.footer();
        assert_eq!(found.streams, footer.streams);
        assert_eq!(found.blocks, footer.blocks);
        assert!(found.sources.is_empty() && found.merge.is_none());
    }
    // Without the trailers nothing proves that the last block is the last.
    damaged.truncate(backup - 1);
    let verified = assert_verified(&damaged, &stored);
    assert_eq!((verified.health().loss, verified.health().records), (RecordLoss::UNKNOWN, stored.len() as u64));
    // The last recovery record is lost, and with it its block.
    damaged.truncate(end + 5);
    let verified = assert_verified(&damaged, &stored);
    assert_eq!(verified.health().records, stored.len() as u64 - footer.blocks[4].summary.records);
    damaged.clear();
    assert_eq!(assert_verified(&damaged, &stored).health().records, 0);
}

#[test]
fn a_lost_block_is_counted_and_the_others_are_kept() {
    let bytes = segment();
    let intact = verify(&bytes);
    let block = intact.reader.footer().blocks[1].clone();
    let mut damaged = bytes.clone();
    let end = (block.offset + block.packed_bytes()) as usize + 30;
    damaged[block.offset as usize..end].iter_mut().for_each(|byte| *byte ^= 1);
    let verified = assert_verified(&damaged, &records(&intact.reader));
    assert_eq!(verified.health().loss, RecordLoss::exact(block.summary.records));
    let (_, after) = rewritten(&verified, Id::from_bits(78));
    let footer = after.reader.footer();
    assert!(footer.sources.is_empty() && footer.merge.is_none(), "it replaces no other file");
    // Under its own id it is the same segment.
    let (_, after) = rewritten(&intact, ID);
    assert_eq!(after.reader.footer(), intact.reader.footer());
}

#[test]
fn a_damaged_filter_loses_no_record() {
    let bytes = segment();
    let intact = verify(&bytes);
    let entry = intact.reader.footer().blocks[3].clone();
    let filter_at = (entry.offset + entry.columns_bytes()) as usize;
    let mut damaged = bytes.clone();
    assert!(entry.filter_len > 0);
    // The filter and its recovery record.
    damaged[filter_at..filter_at + entry.filter_len as usize + 30].iter_mut().for_each(|byte| *byte ^= 1);
    let verified = assert_verified(&damaged, &records(&intact.reader));
    assert!(verified.health().loss.is_none() && !verified.health().is_intact());
}

#[derive(Clone, Debug)]
enum FileCorruption {
    Flip(usize, u8),
    Fill(usize, usize, u8),
    Cut(usize),
}

fn any_corruption() -> impl Strategy<Value = FileCorruption> {
    prop_oneof![
        4 => (any::<usize>(), 0..8_u8).prop_map(|(at, bit)| FileCorruption::Flip(at, bit)),
        2 => (any::<usize>(), 1..6_000_usize, any::<u8>()).prop_map(|(at, length, byte)| FileCorruption::Fill(at, length, byte)),
        1 => any::<usize>().prop_map(FileCorruption::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn readable_records_are_kept_and_losses_reported(corruptions in prop::collection::vec(any_corruption(), 1..5)) {
        let bytes = segment();
        let stored = records(&verify(&bytes).reader);
        let mut damaged = bytes;
        for corruption in corruptions {
            let length = damaged.len().max(1);
            match corruption {
                FileCorruption::Flip(at, bit) => damaged.iter_mut().skip(at % length).take(1).for_each(|byte| *byte ^= 1 << bit),
                FileCorruption::Fill(at, count, with) => {
                    // A file of a newer version is refused, so the header is not filled.
                    damaged.iter_mut().skip((at % length).max(HEADER_LEN)).take(count).for_each(|byte| *byte = with);
                }
                FileCorruption::Cut(at) => damaged.truncate(at % length),
            }
        }
        assert_verified(&damaged, &stored);
    }
}
