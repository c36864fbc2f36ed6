//! The parts of a stored segment as its version writes them, unpacked: what packs them may be another version of a library.
//! Whole files are in `tests/it/fixtures.rs`.

use std::path::Path;
use std::sync::Arc;

use bucksaw_columns::Encoder;
use bucksaw_env::{Fs as _, sim};
use bucksaw_fixtures::GoldenFiles;
use bucksaw_record::{AttributeNames, Flags, Id, Labels, Millis, Producer};

use crate::block::decode_slices;
use crate::stored::footer::ColumnEntry;
use crate::stored::*;
use crate::{BlockBuilder, Codec, FileHeader, RecordSummary, Rows};

fn golden() -> GoldenFiles {
    GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), VERSION)
}

fn labels() -> [Labels; 2] {
    ["app=web,host=a1", "app=\"db, main\""].map(|text| Labels::parse(text).unwrap())
}

fn rows() -> Rows {
    let mut rows = Rows { accepted: Millis(1_763_680_200_009), ..Rows::default() };
    rows.push_run(Id::new(Millis(1_763_680_200_000), Producer::new(9), 5), 2);
    rows.push_run(Id::new(Millis(1_763_680_200_003), Producer::new(7), 0), 1);
    rows.nanos.push((1, 999_999));
    rows.flags.push(2, Flags::UNTERMINATED);
    rows
}

/// Rows of two, one and three lines, of which the last has an attribute of two lines.
fn rows_with_attributes() -> Rows {
    let mut rows = Rows { lines: Some(vec![2, 1, 3]), ..rows() };
    rows.attributes.push(2, 1, &AttributeNames::new(["trace_id"]).unwrap());
    rows.attributes.push_value_lines(2, &[2]);
    rows
}

fn builder() -> BlockBuilder {
    let mut builder = BlockBuilder::default();
    builder.push(&labels()[0], &rows(), 0..3, b"one\ntwo\nthree\n");
    builder.push(&labels()[1], &rows_with_attributes(), 0..3, b"a\nb\n\nc\n1\n2\n");
    builder
}

fn footer() -> Footer {
    let mut reach = RecordSummary::default();
    reach.add(&rows(), 14);
    let column = |codec, packed_len, raw_len| ColumnEntry { codec, packed_len, raw_len };
    let block = |at, text_codec, filter_len| BlockEntry {
        offset: at,
        rows: column(2, 60, 90),
        text: column(text_codec, 300, 4_000_000),
        crc: 0x0102_0304,
        filter_len,
        filter_crc: if filter_len == 0 { 0 } else { 0x0506_0708 },
        summary: reach.clone(),
        streams: vec![1, 0],
    };
    let id = |bits| Id::from_bits(bits);
    Footer {
        streams: labels().to_vec(),
        sources: vec![id(6), id(7)],
        merge: Some(MergeInfo { id: id(3), output_count: 2, inputs: vec![id(4), id(5)] }),
        blocks: vec![block(32, 1, 0), block(1_000, 3, 41)],
    }
}

#[test]
fn header_bytes_are_stable() {
    let file = sim::Fs::new().create(Path::new("s")).unwrap();
    let _writer = Writer::start(Arc::clone(&file), FileHeader { id: Id::from_bits(77), version: VERSION }).unwrap();
    let mut header = [0; HEADER_LEN];
    file.read_exact_at(0, &mut header).unwrap();
    golden().check("stored-header", &header);
}

#[test]
fn footer_bytes_are_stable() {
    golden().check("stored-footer", &footer().encode());
    for kept in golden().read_all("stored-footer") {
        assert_eq!(Footer::decode(&kept), Some(footer()));
    }
}

#[test]
fn row_bytes_are_stable() {
    let packed = builder().pack(Codec::Plain, &mut Encoder::new(), false).unwrap().rows;
    golden().check("stored-rows", &packed.codec.unpack(&packed.bytes, packed.raw_len).unwrap());
    for kept in golden().read_all("stored-rows") {
        let found = decode_slices(&kept).unwrap();
        let decoded: Vec<(&Labels, &Rows)> = found.iter().map(|slice| (&slice.labels, &*slice.rows)).collect();
        assert_eq!(decoded, [(&labels()[0], &rows()), (&labels()[1], &rows_with_attributes())]);
    }
}

#[test]
fn replica_digest_bytes_are_stable() {
    let mut digests = ReplicaDigests::new(ReplicaGroup(std::num::NonZeroU64::new(0xabc).unwrap()));
    let sums = crate::stored::replica_digests::interval_sums([rows(), rows_with_attributes()].iter());
    digests.push_block(0, &sums);
    digests.push_block(2, &[(Interval(3), IdSum(1)), (Interval(9), IdSum(u128::MAX))]);
    let id = Id::from_bits(77);
    golden().check("replica-digests", &digests.encode(id));
    for kept in golden().read_all("replica-digests") {
        let file = super::file(&kept);
        assert_eq!(ReplicaDigests::read(&*file, kept.len() as u64, id), Some((0, digests.clone())));
    }
}
