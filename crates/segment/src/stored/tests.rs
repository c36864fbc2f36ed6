use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, Fs, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};

use super::*;
use crate::{BlockBuilder, Codec, FileHeader, ReadError, Rows};

mod golden;

const ID: Id = Id::from_bits(77);

pub(super) fn file(bytes: &[u8]) -> Arc<dyn File> {
    let file = sim::Fs::new().create(Path::new("s")).unwrap();
    file.append(&[bytes]).unwrap();
    file
}

pub(super) fn bytes_of(file: &Arc<dyn File>) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn builder(app: &str, ms: u64, text: &[u8]) -> BlockBuilder {
    let mut rows = Rows { accepted: Millis(ms), ..Rows::default() };
    let count = text.iter().filter(|byte| **byte == b'\n').count() as u32;
    rows.push_run(Id::new(Millis(ms), Producer::new(1), 0), count);
    let mut builder = BlockBuilder::default();
    builder.push(&Labels::new([("app", app)]).unwrap(), &rows, 0..count, text);
    builder
}

/// Lines that are packed as columns.
fn log() -> String {
    (0..300)
        .map(|row| {
            format!("level=info at {row} GET /a/{} in {} ms, as it has ever been done here\n", row % 9, row * 7 % 50)
        })
        .collect()
}

fn segment() -> Arc<dyn File> {
    let file = file(b"");
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: ID, version: VERSION }).unwrap();
    writer.append(&mut builder("web", 10, b"a\nb\n"), Codec::Zstd(1)).unwrap();
    writer.append(&mut builder("db", 20, "long line\n".repeat(50).as_bytes()), Codec::Lz4).unwrap();
    writer.append(&mut builder("app", 30, log().as_bytes()), Codec::Columns(1)).unwrap();
    writer.append(&mut BlockBuilder::default(), Codec::Plain).unwrap();
    let merge = Some(MergeInfo { id: Id::from_bits(6), output_count: 1, inputs: vec![Id::from_bits(7)] });
    writer.seal(SegmentOrigin { sources: vec![Id::from_bits(5)], merge }).unwrap();
    file
}

fn texts(reader: &Reader) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut texts = Vec::new();
    for at in 0..reader.footer().blocks.len() {
        reader.filter(at)?;
        texts.extend(reader.block(at)?.chunks().map(|chunk| chunk.text.to_vec()));
    }
    Ok(texts)
}

fn open(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
    texts(&Reader::open(file(bytes), Path::new("s"))?)
}

#[test]
fn a_written_segment_is_read() {
    let reader = Reader::open(segment(), Path::new("s")).unwrap();
    assert_eq!(reader.id(), ID);
    assert_eq!(
        texts(&reader).unwrap(),
        [b"a\nb\n".to_vec(), "long line\n".repeat(50).into_bytes(), log().into_bytes()]
    );
    assert!(matches!(reader.searchable_block(1), Ok(SearchableBlock::Text(_))));
    assert!(matches!(reader.searchable_block(2), Ok(SearchableBlock::Columns(_))));
    let footer = reader.footer();
    assert_eq!(footer.sources, [Id::from_bits(5)]);
    assert_eq!(footer.merge.as_ref().map(|merge| (merge.output_count, merge.inputs.len())), Some((1, 1)));
    assert_eq!(footer.streams.len(), 3);
    assert_eq!(
        (footer.summary().records, footer.summary().low.time(), footer.summary().high.time()),
        (352, Millis(10), Millis(30))
    );
}

#[test]
fn blocks_are_copied_unchanged() {
    let from = Reader::open(segment(), Path::new("s")).unwrap();
    let file = file(b"");
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: Id::from_bits(78), version: VERSION }).unwrap();
    writer.append(&mut builder("db", 5, b"x\n"), Codec::Plain).unwrap();
    writer.copy_block(&from.packed_block(1).unwrap()).unwrap();
    writer.copy_block(&from.packed_block(2).unwrap()).unwrap();
    let footer = writer.seal(SegmentOrigin::default()).unwrap();
    assert_eq!((footer.streams.len(), &footer.blocks[1].streams), (2, &vec![0]));
    let reader = Reader::open(file, Path::new("t")).unwrap();
    assert_eq!(texts(&reader).unwrap(), [b"x\n".to_vec(), "long line\n".repeat(50).into_bytes(), log().into_bytes()]);
    let filter = reader.filter(2).unwrap();
    assert!(!filter.is_empty() && filter == from.filter(2).unwrap());
}

#[test]
fn no_flipped_bit_loses_a_record() {
    let bytes = bytes_of(&segment());
    let want = open(&bytes).unwrap();
    assert!(Reader::open(file(&bytes), Path::new("s")).unwrap().damaged_redundancy().unwrap().is_empty());
    let footer = Reader::open(file(&bytes), Path::new("s")).unwrap().footer().clone();
    let is_spare = |at: u64| {
        // Recovery records, the backup and its gap are read only if something else is damaged.
        let trailer_at = bytes.len() - TRAILER_LEN;
        let footer_at = u64::from_le_bytes(*bytes[trailer_at..].first_chunk().unwrap());
        let in_block =
            footer.blocks.iter().any(|block| (block.offset..block.offset + block.packed_bytes()).contains(&at));
        at >= HEADER_LEN as u64 && at < footer_at && !in_block
    };
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let reader = Reader::open(file(&damaged), Path::new("s")).unwrap();
        assert_eq!((reader.id(), reader.footer()), (ID, &footer), "bit {bit}");
        assert_eq!(texts(&reader).unwrap(), want, "bit {bit}");
        assert_eq!(reader.rebuilt_damage().is_empty(), is_spare(bit as u64 / 8), "bit {bit}");
        if reader.rebuilt_damage().is_empty() {
            assert_eq!(reader.damaged_redundancy().unwrap().len(), 1, "bit {bit}");
        }
    }
}

#[test]
fn a_truncation_is_detected_or_harmless() {
    let bytes = bytes_of(&segment());
    let want = open(&bytes).unwrap();
    let mut whole = 0;
    for keep in 0..bytes.len() {
        let Ok(reader) = Reader::open(file(&bytes[..keep]), Path::new("s")) else { continue };
        whole += 1;
        assert!(texts(&reader).unwrap() == want && !reader.rebuilt_damage().is_empty(), "cut to {keep}");
    }
    // From the end of the backup trailer on.
    assert!((4_096..5_000).contains(&whole), "{whole}");
}

#[test]
fn a_damaged_sector_at_the_end_destroys_only_one_footer() {
    let bytes = bytes_of(&segment());
    let want = open(&bytes).unwrap();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at..(at + 300).min(bytes.len())].fill(0x55);
        // A lost block is reported, and a readable one is unchanged.
        if let Ok(reader) = Reader::open(file(&damaged), Path::new("s")) {
            let blocks = (0..reader.footer().blocks.len()).map(|block| reader.block(block));
            for (block, want) in blocks.zip(&want) {
                assert!(block.map_or(true, |block| block.chunks().all(|chunk| chunk.text == want)), "{at}");
            }
        }
        if at > bytes.len() - 4_096 {
            assert_eq!(open(&damaged).unwrap(), want, "{at}");
        }
    }
}

#[test]
fn a_damaged_block_leaves_the_others() {
    let mut bytes = bytes_of(&segment());
    let end = Reader::open(file(&bytes), Path::new("s")).unwrap().footer().blocks[1].offset;
    bytes[HEADER_LEN + 3..end as usize].fill(0);
    let reader = Reader::open(file(&bytes), Path::new("s")).unwrap();
    assert!(matches!(reader.block(0), Err(ReadError::Damaged { .. })));
    assert!(matches!(reader.rows(0), Err(ReadError::Damaged { .. })));
    assert!(reader.block(1).is_ok());
    assert!(reader.block(3).is_err());
}

#[test]
fn rows_are_read_from_a_rebuilt_block() {
    let mut bytes = bytes_of(&segment());
    bytes[HEADER_LEN + 3] ^= 1;
    let reader = Reader::open(file(&bytes), Path::new("s")).unwrap();
    assert_eq!(reader.rows(0).unwrap().iter().map(|rows| rows.count).sum::<u32>(), 2);
    assert_eq!(reader.rebuilt_damage().len(), 1);
}

#[test]
fn the_memory_of_a_footer_grows_by_that_of_each_block() {
    let reader = Reader::open(segment(), Path::new("s")).unwrap();
    let memory = |count: usize| {
        let blocks = vec![reader.footer().blocks[0].clone(); count];
        let entries = size_of_val(blocks.as_slice());
        (Footer { blocks, ..reader.footer().clone() }.memory(), entries)
    };
    let ((none, _), (many, entries)) = (memory(0), memory(1_000));
    // The lists of a block are allocations of their own.
    assert!((entries + 1_000 * 32..entries * 2).contains(&(many - none)), "{} of {entries}", many - none);
}

/// The same blocks, written by a writer with replicas.
fn with_replicas(group: u64) -> Arc<dyn File> {
    let (source, file) = (reader(&segment()), file(b""));
    let header = FileHeader { id: ID, version: VERSION };
    let group = std::num::NonZeroU64::new(group).map(ReplicaGroup);
    let mut writer = Writer::start(Arc::clone(&file), header).unwrap().with_replicas(group);
    let mut rows = source.rows(0).unwrap();
    let labels = Labels::new([("app", "web")]).unwrap();
    let rows = rows.remove(0);
    let mut builder = BlockBuilder::default();
    builder.push(&labels, &rows, 0..rows.count, b"a\nb\n");
    writer.append(&mut builder, Codec::Lz4).unwrap();
    writer.append(&mut self::builder("db", 5 << 18, b"c\n"), Codec::Columns(1)).unwrap();
    writer.seal(SegmentOrigin::default()).unwrap();
    file
}

fn reader(file: &Arc<dyn File>) -> Reader {
    Reader::open(Arc::clone(file), Path::new("s")).unwrap()
}

#[test]
fn digests_follow_the_blocks_when_they_are_copied() {
    let source = reader(&with_replicas(9));
    let digests = source.replica_digests().unwrap().clone();
    assert_eq!(digests.group.to_string(), "0000000000000009");
    assert_eq!(digests.iter().map(|digest| (digest.block, digest.interval.0)).collect::<Vec<_>>(), [(0, 0), (1, 5)]);
    assert!(reader(&segment()).replica_digests().is_none() && reader(&with_replicas(0)).replica_digests().is_none());
    let copy = |sources: &[&Reader]| {
        let file = file(b"");
        let writer = Writer::start(Arc::clone(&file), FileHeader { id: ID, version: VERSION }).unwrap();
        let mut writer = writer.with_replicas(Some(digests.group));
        for source in sources {
            (0..2).for_each(|block| writer.copy_block(&source.packed_block(block).unwrap()).unwrap());
        }
        writer.seal(SegmentOrigin::default()).unwrap();
        reader(&file).replica_digests().cloned()
    };
    assert_eq!(copy(&[&source]), Some(digests.clone()));
    // A block without digests: sums of the others would be wrong.
    assert_eq!(copy(&[&source, &reader(&segment())]), None);
    assert_eq!(copy(&[&reader(&segment()), &source]), None);
}

/// Every bit of the digests may be wrong: the segment is read, without them.
#[test]
fn damaged_digests_cost_no_record() {
    let intact = bytes_of(&with_replicas(9));
    let clean = reader(&with_replicas(0)).file_bytes() as usize;
    let digests = intact.len() - clean;
    let end = intact.windows(8).position(|window| window == b"BSWREPL1").unwrap() + 8;
    for at in end - digests..end {
        let mut bytes = intact.clone();
        bytes[at] ^= 4;
        let damaged = file(&bytes);
        let opened = reader(&damaged);
        assert!(opened.replica_digests().is_none() && opened.rebuilt_damage().is_empty(), "byte {at}");
        assert_eq!(texts(&opened).unwrap(), [&b"a\nb\n"[..], b"c\n"]);
        let said = opened.damaged_redundancy().unwrap();
        assert_eq!(said.iter().map(|damage| damage.what).collect::<Vec<_>>(), ["the replica digests are damaged"]);
    }
    let opened = reader(&with_replicas(9));
    assert_eq!((opened.damaged_redundancy().unwrap(), opened.replica_digests().is_some()), (Vec::new(), true));
}
