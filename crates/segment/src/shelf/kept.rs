//! The parts of a shelf segment as its version writes them, unpacked: what packs them may be another version of a library.
//! Whole files are in `tests/it/fixtures.rs`.

use std::path::Path;
use std::sync::Arc;

use bucksaw_columns::Encoder;
use bucksaw_doors::{Fs as _, sim};
use bucksaw_record::{Id, Labels, Marks, Millis, Producer};
use bucksaw_versions::Kept;

use super::footer::ColumnEntry;
use super::*;
use crate::block::stretches;
use crate::{BlockBuilder, Codec, Reach, Rows};

fn files() -> Kept {
    Kept::new(env!("CARGO_MANIFEST_DIR"), VERSION)
}

fn labels() -> [Labels; 2] {
    ["app=web,host=a1", "app=\"db, main\""].map(|text| Labels::parse(text).unwrap())
}

fn rows() -> Rows {
    let mut rows = Rows { accepted: Millis(1_763_680_200_009), ..Rows::default() };
    rows.push_run(Id::new(Millis(1_763_680_200_000), Producer::new(9), 5), 2);
    rows.push_run(Id::new(Millis(1_763_680_200_003), Producer::new(7), 0), 1);
    rows.nanos.push((1, 999_999));
    rows.marks.push(2, Marks::OPEN);
    rows
}

fn builder() -> BlockBuilder {
    let mut builder = BlockBuilder::default();
    builder.push(&labels()[0], &rows(), 0..3, b"one\ntwo\nthree\n");
    let with_lengths = Rows { lengths: Some(vec![3, 0, 1]), ..rows() };
    builder.push(&labels()[1], &with_lengths, 0..3, b"a\nb\n\nc\n");
    builder
}

fn footer() -> Footer {
    let mut reach = Reach::default();
    reach.add(&rows(), 14);
    let column = |codec, packed_len, raw_len| ColumnEntry { codec, packed_len, raw_len };
    let block = |at, text_codec, filter_len| BlockEntry {
        at,
        rows: column(2, 60, 90),
        text: column(text_codec, 300, 4_000_000),
        crc: 0x0102_0304,
        filter_len,
        filter_crc: if filter_len == 0 { 0 } else { 0x0506_0708 },
        reach: reach.clone(),
        streams: vec![1, 0],
    };
    let id = |bits| Id::from_bits(bits);
    Footer {
        streams: labels().to_vec(),
        sources: vec![id(6), id(7)],
        merge: Some(Merge { id: id(3), parts: 2, inputs: vec![id(4), id(5)] }),
        blocks: vec![block(32, 1, 0), block(1_000, 3, 41)],
    }
}

#[test]
fn the_header_is_what_it_was() {
    let file = sim::Fs::new().create(Path::new("s")).unwrap();
    let _writer = Writer::start(Arc::clone(&file), Id::from_bits(77)).unwrap();
    let mut header = [0; HEADER_LEN];
    file.read_exact_at(0, &mut header).unwrap();
    files().check("shelf-header", &header);
}

#[test]
fn the_footer_is_what_it_was() {
    files().check("shelf-footer", &footer().encode());
    for kept in files().all("shelf-footer") {
        assert_eq!(Footer::decode(&kept), Some(footer()));
    }
}

#[test]
fn rows_are_what_they_were() {
    let packed = builder().pack(Codec::Plain, &mut Encoder::new()).unwrap().rows;
    files().check("shelf-rows", &packed.codec.unpack(&packed.bytes, packed.raw_len).unwrap());
    for kept in files().all("shelf-rows") {
        let found = stretches(&kept).unwrap();
        let all: Vec<(&Labels, &Rows)> = found.iter().map(|stretch| (&stretch.labels, &*stretch.rows)).collect();
        let with_lengths = Rows { lengths: Some(vec![3, 0, 1]), ..rows() };
        assert_eq!(all, [(&labels()[0], &rows()), (&labels()[1], &with_lengths)]);
    }
}
