//! Files as released versions wrote them. They are made once, by `MAKE_FIXTURES=1`, for a new version, and never again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_columns::Filter;
use bucksaw_env::{File, Fs, real, sim};
use bucksaw_record::{AttributeNames, Flags, Id, Labels, Millis, Producer, RecordView, RowAttributes};
use bucksaw_search::{CancelPoll, Needle, SearchBlock};
use bucksaw_segment::queue::{FrameReader, HEADER_LEN, checksum_seed, encode_header, scan_segment};
use bucksaw_segment::stored::{MergeInfo, Reader, SearchableBlock, SegmentOrigin, Writer};
use bucksaw_segment::{BlockBuilder, Chunk, Codec, FileHeader, FrameHeader, FrameKind, RecordPart, RowMeta, Rows};

pub(super) const SEGMENT: Id = Id::from_bits(0x0199_a1b2_c3d4_1111_2222_3333_4444_5555);
const BASE: u64 = 1_763_680_200_000;

pub(super) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(super) fn labels() -> [Labels; 2] {
    ["app=web,host=a1", "app=\"db, main\""].map(|text| Labels::parse(text).unwrap())
}

fn frame(kind: FrameKind, stream: u32, sequence: u32, count: u32, row_meta: &RowMeta, text: &[u8]) -> Vec<u8> {
    let first = Id::new(Millis(BASE), Producer::new(7), sequence);
    let mut body = Vec::new();
    let flags = row_meta.encode(first.time(), &mut body);
    let row_meta_len = body.len() as u32;
    body.extend_from_slice(text);
    let accepted = Millis(BASE + 5);
    let body_len = body.len() as u32;
    let header =
        FrameHeader { body_len, row_meta_len, first_id: first, count, stream, accepted, kind, layout_bits: flags };
    [header.encode(checksum_seed(SEGMENT), &[&body]).to_vec(), body].concat()
}

/// Of two records: from version 2 on, the first has two lines and the second an attribute.
fn row_meta(version: u32) -> RowMeta {
    let mut flags = Flags::empty();
    flags.push(1, Flags::UNTERMINATED);
    let times = Some(vec![(Millis(BASE - 9), 250_000), (Millis(BASE + 1), 0)]);
    let (mut lines, mut attributes) = (None, RowAttributes::empty());
    if version >= 2 {
        lines = Some(vec![2, 3]);
        attributes.push(1, 1, &AttributeNames::new(["trace_id"]).unwrap());
        attributes.push_value_lines(1, &[2]);
    }
    RowMeta { times, lines, flags, attributes }
}

/// The text of two records.
fn text(version: u32) -> &'static [u8] {
    if version == 1 { b"a\n\n" } else { b"a\nb\n\n4b\nf9\n" }
}

fn queue_bytes(version: u32) -> Vec<u8> {
    let mut out = encode_header(FileHeader { id: SEGMENT, version }).to_vec();
    for (number, labels) in (0..).zip(labels()) {
        let mut body = Vec::new();
        labels.encode(&mut body);
        out.extend(frame(FrameKind::Stream, number, 0, 0, &RowMeta::default(), &body));
    }
    out.extend(frame(FrameKind::Records, 0, 0, 3, &RowMeta::default(), b"one\n\xff\x00 two\r\n\n"));
    out.extend(frame(FrameKind::Records, 1, 3, 2, &row_meta(version), text(version)));
    out
}

fn stored_bytes(version: u32) -> Vec<u8> {
    stored_bytes_of(&sim::Fs::new(), version)
}

pub(super) fn stored_bytes_of(fs: &dyn Fs, version: u32) -> Vec<u8> {
    let file = fs.create(Path::new("s")).unwrap();
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: SEGMENT, version }).unwrap();
    for (number, codec) in (0..).zip([Codec::Plain, Codec::Lz4, Codec::Zstd(1)]) {
        let mut builder = BlockBuilder::default();
        let mut rows = Rows { accepted: Millis(BASE + 9), ..Rows::default() };
        rows.push_run(Id::new(Millis(BASE + number), Producer::from_key(b"k"), number as u32 * 10), 2);
        rows.nanos.push((1, 999_999));
        builder.push(&labels()[0], &rows, 0..2, b"the same again and the same again\nx\n");
        let first = Id::new(Millis(BASE), Producer::new(9), number as u32 * 2);
        let rows = row_meta(version).into_rows(first, 2, Millis(BASE)).unwrap();
        builder.push(&labels()[1], &rows, 0..2, text(version));
        writer.append(&mut builder, codec).unwrap();
    }
    let merge =
        Some(MergeInfo { id: Id::from_bits(3), output_count: 1, inputs: vec![Id::from_bits(4), Id::from_bits(5)] });
    writer.seal(SegmentOrigin { sources: vec![Id::from_bits(6)], merge }).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// Lines of which each kind of column is made.
fn lines() -> Vec<u8> {
    let mut text = Vec::new();
    for row in 0..400_u64 {
        let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (level, path) = (["INFO", "WARN"][row as usize % 2], ["/a", "/b/c", "/d?e=f"][row as usize % 3]);
        let line = match row % 40 {
            39 => format!("odd {row} of {mixed:b}"),
            _ => format!(
                "2026-11-20 23:{:02}:{:02} {level} [pool-{}] \"GET {path} HTTP/1.1\" took={} id={mixed:016x} user {row}@host{}.example",
                row / 60,
                row % 60,
                row % 7,
                mixed % 5_000,
                row % 11
            ),
        };
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text
}

fn columns_bytes() -> Vec<u8> {
    let file = sim::Fs::new().create(Path::new("s")).unwrap();
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: SEGMENT, version: 1 }).unwrap();
    let mut builder = BlockBuilder::default();
    let mut rows = Rows { accepted: Millis(BASE + 9), ..Rows::default() };
    rows.push_run(Id::new(Millis(BASE), Producer::new(9), 0), 400);
    builder.push(&labels()[0], &rows, 0..400, &lines());
    writer.append(&mut builder, Codec::Columns(3)).unwrap();
    writer.seal(SegmentOrigin::default()).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

pub(super) fn open(name: &str, make: impl Fn() -> Vec<u8>) -> Arc<dyn File> {
    if std::env::var_os("MAKE_FIXTURES").is_some() && !path(name).exists() {
        std::fs::write(path(name), make()).unwrap();
    }
    real::Fs.open(&path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Time behind the first, nanoseconds, flags, line and the values of attributes.
type FixtureRecord = (u64, u32, u8, Vec<u8>, Vec<(String, Vec<u8>)>);

fn records(chunk: &Chunk<'_>) -> Vec<FixtureRecord> {
    let rows = &chunk.rows;
    let record = |(row, text): (u32, &[u8])| {
        let view = RecordView::new(text, rows.attributes(row));
        let values = view.attributes().into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        (rows.id(row).unwrap().time().0 + 9 - BASE, rows.nanos(row), rows.flags.get(row), view.line().to_vec(), values)
    };
    (0..).zip(chunk.records()).map(record).collect()
}

fn second_stream(version: u32) -> Vec<FixtureRecord> {
    let (line, values) = match version {
        1 => (b"a".to_vec(), Vec::new()),
        _ => (b"a\nb".to_vec(), vec![("trace_id".to_owned(), b"4b\nf9".to_vec())]),
    };
    vec![(0, 250_000, 0, line, Vec::new()), (10, 0, Flags::UNTERMINATED, Vec::new(), values)]
}

fn check_queue_segment(version: u32) {
    let name = format!("queue-{version}.pending");
    let file = open(&name, || queue_bytes(version));
    let found = scan_segment(&file, &path(&name), SEGMENT).unwrap();
    assert_eq!((found.summary.records, found.tail_bytes, found.damage.len()), (5, 0, 0));
    assert_eq!(found.streams, labels());
    let written = std::fs::read(path(&name)).unwrap();
    assert!(
        written == queue_bytes(version),
        "what is written has changed: give it another version, and a file of its own"
    );
    let mut frames = FrameReader::new(file, path(&name), SEGMENT, HEADER_LEN as u64, found.end, Vec::new());
    let chunk = frames.next_chunk().unwrap().unwrap();
    let plain = |text: &[u8]| (9, 0, 0, text.to_vec(), Vec::new());
    assert_eq!(records(&chunk), [plain(b"one"), plain(b"\xff\x00 two\r"), plain(b"")]);
    let chunk = frames.next_chunk().unwrap().unwrap();
    assert_eq!((chunk.labels, records(&chunk)), (&labels()[1], second_stream(version)));
    assert!(frames.next_chunk().unwrap().is_none());
}

fn check_stored_segment(version: u32) {
    let name = format!("stored-{version}.seg");
    check_stored_file(open(&name, || stored_bytes(version)), &name, version);
}

pub(super) fn check_stored_file(file: Arc<dyn File>, name: &str, version: u32) {
    let reader = Reader::open(file, &path(name)).unwrap();
    assert_eq!((reader.id(), reader.version(), reader.footer().summary().records), (SEGMENT, version, 12));
    let footer = reader.footer();
    assert_eq!(footer.sources, [Id::from_bits(6)]);
    assert_eq!(footer.merge.as_ref().map(|merge| merge.inputs.len()), Some(2));
    for number in 0..3_u64 {
        let block = reader.block(number as usize).unwrap();
        let chunks: Vec<_> = block.chunks().collect();
        let plain = |nanos, text: &[u8]| (9 + number, nanos, 0, text.to_vec(), Vec::new());
        assert_eq!(records(&chunks[0]), [plain(0, b"the same again and the same again"), plain(999_999, b"x")]);
        assert_eq!((chunks[1].labels, records(&chunks[1])), (&labels()[1], second_stream(version)));
    }
}

#[test]
fn queue_segments_of_each_version() {
    [1, 2].into_iter().for_each(check_queue_segment);
}

#[test]
fn stored_segments_of_each_version() {
    [1, 2, 3].into_iter().for_each(check_stored_segment);
}

/// Records with the lines of [`lines`] and two attributes.
fn attribute_columns_bytes() -> Vec<u8> {
    let file = sim::Fs::new().create(Path::new("s")).unwrap();
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: SEGMENT, version: 3 }).unwrap();
    let (mut rows, mut text) = (Rows { accepted: Millis(BASE + 9), ..Rows::default() }, Vec::new());
    rows.push_run(Id::new(Millis(BASE), Producer::new(9), 0), 400);
    rows.lines = Some(vec![3; 400]);
    rows.attributes.push(0, 400, &AttributeNames::new(["trace_id", "pod"]).unwrap());
    for (row, line) in (0_u64..).zip(lines().split_inclusive(|byte| *byte == b'\n')) {
        text.extend_from_slice(line);
        let trace = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.extend_from_slice(format!("{trace:016x}{trace:016x}\nshop-{}\n", row % 9).as_bytes());
    }
    let mut builder = BlockBuilder::default();
    builder.push(&labels()[0], &rows, 0..400, &text);
    writer.append(&mut builder, Codec::Columns(3)).unwrap();
    writer.seal(SegmentOrigin::default()).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn columns_with_attributes_of_a_stored_segment_version_3() {
    let name = "stored-columns-3.seg";
    let reader = Reader::open(open(name, attribute_columns_bytes), &path(name)).unwrap();
    let SearchableBlock::Columns(columned) = reader.searchable_block(0).unwrap() else { panic!("no columns") };
    let records = columned.records().unwrap();
    assert_eq!((records.record_count(), columned.columns.rows()), (400, 1_200));
    let count =
        |text: &[u8], part| records.find(&Needle::new(text, false), part, &CancelPoll::never()).unwrap().count(400);
    assert_eq!(count(b"shop-7", RecordPart::Whole), 44);
    assert_eq!(count(b"shop-7", RecordPart::Attribute("pod")), 44);
    assert_eq!(count(b"9e3779b97f4a7c15", RecordPart::Attribute("trace_id")), 1);
    assert_eq!(count(b"9e3779b97f4a7c15", RecordPart::Line), 1);
    assert_eq!(count(b"9e3779b97f4a7c15", RecordPart::Attribute("pod")), 0);
    let filter = reader.filter(0).unwrap();
    assert!(Filter::new(&filter).may_contain(b"shop-7", false) && !Filter::new(&filter).may_contain(b"absent", false));
    let block = reader.block(0).unwrap();
    let record = block.chunks().next().unwrap().records().next().unwrap().to_vec();
    assert!(record.ends_with(b"\n00000000000000000000000000000000\nshop-0"));
}

#[test]
fn columns_of_a_stored_segment_version_1() {
    let name = "stored-columns-1.seg";
    let reader = Reader::open(open(name, columns_bytes), &path(name)).unwrap();
    let SearchableBlock::Columns(columned) = reader.searchable_block(0).unwrap() else { panic!("no columns") };
    assert_eq!(columned.columns.rows(), 400);
    let count =
        |text: &[u8]| columned.columns.find(&Needle::new(text, false), &CancelPoll::never()).unwrap().count(400);
    let in_lines = |text: &[u8]| {
        lines().split(|byte| *byte == b'\n').filter(|line| memchr::memmem::find(line, text).is_some()).count()
    };
    for text in ["WARN", "GET /b", "took=12", "23:03:1", "host7.example", "of 1", "id=a", "] \"", "absent"] {
        assert_eq!(count(text.as_bytes()), in_lines(text.as_bytes()), "{text}");
    }
    let filter = reader.filter(0).unwrap();
    assert!(Filter::new(&filter).may_contain(b"example", false) && !Filter::new(&filter).may_contain(b"absent", false));
    let block = reader.block(0).unwrap();
    assert!(block.chunks().next().unwrap().text == lines());
}
