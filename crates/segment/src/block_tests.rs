use super::*;
use bucksaw_record::{AttributeNames, Flags, RecordView};
use proptest::prelude::*;

/// One push: stream, gap of ms, producer, rows with their lines, whether they have several lines and attributes, nanoseconds, mark.
type BlockPush = (u8, u64, u64, Vec<Vec<u8>>, bool, u32, u8);

/// Stream, id, nanoseconds, flags, text, attributes.
type PushedRecord = (Labels, Id, u32, u8, Vec<u8>, String);

fn any_pushes() -> impl Strategy<Value = Vec<BlockPush>> {
    let line = prop::collection::vec(prop_oneof![Just(b'a'), Just(b' '), Just(0_u8), Just(b'\r'), Just(0xff)], 0..12);
    let lines = prop::collection::vec(line, 1..6);
    prop::collection::vec((0_u8..3, 0_u64..4, 0_u64..3, lines, any::<bool>(), 0_u32..3, 0_u8..3), 1..12)
}

/// Pushes the steps and returns what was pushed, by stream: id, nanoseconds, flags, bytes.
fn push(builder: &mut BlockBuilder, steps: &[BlockPush]) -> Vec<PushedRecord> {
    let mut want = Vec::new();
    let mut ms = 1_000;
    let mut next = [0_u32; 3];
    for (stream, gap, producer, lines, stated, nanos, mark) in steps {
        ms += gap + 1;
        let labels = Labels::new([("s", stream.to_string())]).unwrap();
        let count = lines.len() as u32;
        let first = Id::new(Millis(ms), Producer::new(*producer), next[*producer as usize]);
        next[*producer as usize] += count;
        let lines: Vec<Vec<u8>> =
            lines.iter().map(|line| if *stated { [line, &b"\nx\ny\nz"[..]].concat() } else { line.clone() }).collect();
        let mut rows = Rows { accepted: Millis(ms + 7), ..Rows::default() };
        rows.push_run(first, count);
        if *stated {
            rows.lines = Some(vec![4; lines.len()]);
            rows.attributes.push(count - 1, 1, &AttributeNames::new(["a", "b"]).unwrap());
            rows.attributes.push_value_lines(count - 1, &[2, 1]);
        }
        if *nanos > 0 {
            rows.nanos.push((count - 1, *nanos));
        }
        if *mark > 0 {
            rows.flags.push(0, *mark);
        }
        let text: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
        builder.push(&labels, &rows, 0..count, &text);
        for (row, line) in (0..count).zip(lines) {
            let attributes = format!("{:?}", RecordView::new(&line, rows.attributes(row)).attributes());
            want.push((labels.clone(), rows.id(row).unwrap(), rows.nanos(row), rows.flags.get(row), line, attributes));
        }
    }
    want.sort();
    want
}

fn read(block: &Block) -> Vec<PushedRecord> {
    let mut got = Vec::new();
    for chunk in block.chunks() {
        for (row, record) in (0..).zip(chunk.records()) {
            let rows = &chunk.rows;
            got.push((
                chunk.labels.clone(),
                rows.id(row).unwrap(),
                rows.nanos(row),
                rows.flags.get(row),
                record.to_vec(),
                format!("{:?}", RecordView::new(record, rows.attributes(row)).attributes()),
            ));
        }
    }
    got.sort();
    got
}

fn unpack(packed: &EncodedBlock) -> Option<Block> {
    let column = |column: &PackedColumn| column.codec.unpack(&column.bytes, column.raw_len);
    let slices = decode_slices(&column(&packed.rows)?)?;
    if let Codec::Columns(_) | Codec::ColumnsAlways(_) = packed.text.codec {
        let columnar = ColumnarBlock::open(slices, packed.text.bytes.clone(), packed.text.raw_len)?;
        return Block::from_parts(columnar.columns.text()?, columnar.slices);
    }
    Block::from_parts(column(&packed.text)?, slices)
}

proptest! {
    #[test]
    fn records_round_trip(steps in any_pushes()) {
        for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd(1), Codec::ColumnsAlways(1)] {
            let mut builder = BlockBuilder::default();
            let want = push(&mut builder, &steps);
            let packed = builder.pack(codec, &mut Encoder::new(), false).unwrap();
            prop_assert!(builder.is_empty());
            prop_assert_eq!(read(&unpack(&packed).unwrap()), want.clone());
            prop_assert_eq!(packed.summary.records, want.len() as u64);
            let (low, high) = (want.iter().map(|row| row.1).min(), want.iter().map(|row| row.1).max());
            prop_assert_eq!((Some(packed.summary.low), Some(packed.summary.high)), (low, high));
        }
    }

    #[test]
    fn damaged_columns_never_panic(steps in any_pushes(), at: usize, bits: u8, cut: usize) {
        let mut builder = BlockBuilder::default();
        push(&mut builder, &steps);
        let packed = builder.pack(Codec::Plain, &mut Encoder::new(), false).unwrap();
        let text = packed.text.codec.unpack(&packed.text.bytes, packed.text.raw_len).unwrap();
        let mut rows = packed.rows.codec.unpack(&packed.rows.bytes, packed.rows.raw_len).unwrap();
        let place = at % rows.len();
        rows[place] ^= bits;
        let _ = decode_slices(&rows).and_then(|slices| Block::from_parts(text.clone(), slices));
        rows.truncate(cut % (rows.len() + 1));
        let _ = decode_slices(&rows).and_then(|slices| Block::from_parts(text, slices));
    }
}

proptest! {
    /// The records of columns are those of the text, one by one.
    #[test]
    fn columns_are_searched_by_records(steps in any_pushes()) {
        let mut builder = BlockBuilder::default();
        push(&mut builder, &steps);
        let packed = builder.pack(Codec::ColumnsAlways(1), &mut Encoder::new(), false).unwrap();
        let block = unpack(&packed).unwrap();
        let want: Vec<(Vec<u8>, String)> = block.chunks().flat_map(|chunk| {
            let rows = Arc::clone(&chunk.rows);
            let view = move |(row, text)| RecordView::new(text, rows.attributes(row)).attributes().len();
            let views: Vec<_> = (0..).zip(chunk.records()).map(|record| (record.1.to_vec(), view(record).to_string())).collect();
            views
        }).collect();
        let slices = decode_slices(&packed.rows.codec.unpack(&packed.rows.bytes, packed.rows.raw_len).unwrap()).unwrap();
        let columnar = ColumnarBlock::open(slices, packed.text.bytes, packed.text.raw_len).unwrap();
        let records = columnar.records().unwrap();
        let mut got = Vec::new();
        records.visit(0..records.record_count(), &mut |record| {
            got.push((record.text().to_vec(), record.attributes().len().to_string()));
            ControlFlow::Continue(())
        }).unwrap();
        prop_assert_eq!(got, want);
    }
}

#[test]
fn flags_lines_and_attributes_join_across_pushes() {
    let labels = Labels::default();
    let mut builder = BlockBuilder::default();
    let names = AttributeNames::new(["a"]).unwrap();
    let make = |sequence, lines: Option<Vec<u32>>| {
        let mut rows = Rows { lines, ..Rows::default() };
        rows.push_run(Id::new(Millis(1), Producer::new(1), sequence), 2);
        rows.flags.push(1, Flags::CUT);
        if rows.lines.is_some() {
            rows.attributes.push(0, 1, &names);
        }
        rows
    };
    builder.push(&labels, &make(0, None), 0..2, b"a\nbb\n");
    builder.push(&labels, &make(2, Some(vec![2, 1])), 0..2, b"c\nc\n\n");
    builder.push(&labels, &make(4, None), 0..2, b"d\nd\n");
    let block = unpack(&builder.pack(Codec::Zstd(1), &mut Encoder::new(), false).unwrap()).unwrap();
    let chunk = block.chunks().next().unwrap();
    assert_eq!(chunk.records().collect::<Vec<_>>(), [&b"a"[..], b"bb", b"c\nc", b"", b"d", b"d"]);
    assert_eq!(chunk.rows.runs.len(), 1);
    assert_eq!(chunk.rows.lines, Some(vec![1, 1, 2, 1, 1, 1]));
    assert_eq!(
        (0..6).map(|row| chunk.rows.attributes(row).is_some()).collect::<Vec<_>>(),
        [false, false, true, false, false, false]
    );
    assert_eq!((0..6).map(|row| chunk.rows.flags.get(row)).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
}
