//! What nodes of each version asked and answered, and what those of the next will: it is understood.

use bucksaw_cluster::Version;
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_versions::{Kept, later};
use bytes::Bytes;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::batch::{Batch, Builder};
use super::cells;
use super::message::{Kind, Messages, message};
use super::question::{Question, Told};
use crate::Stretch;
use crate::count::Division;
use crate::hits::{Record, RecordRef};
use crate::request::{Order, Request};
use crate::stats::Stats;

fn files() -> Kept {
    Kept::new(env!("CARGO_MANIFEST_DIR"), Version::OWN)
}

fn id(number: u32) -> Id {
    Id::new(Millis(1_763_680_200_000), Producer::new(7), number)
}

fn question() -> Question {
    let expr = Expr::parse(br#"error -debug "\xff" n>=1.5"#).unwrap();
    let request = Request {
        stream: Some(Labels::parse("app=web,path=\"/a,b\"").unwrap()),
        order: Order::Descending,
        limit: Some(7),
        ..Request::new(expr, Millis(5), Millis(1_763_680_200_000))
    };
    Question::new(&request).divided(Division { buckets: 12, by_level: true }).with_batches_of(9_000)
}

fn told() -> Told {
    let stats = Stats {
        segments_read: 1,
        segments_skipped: 2,
        bytes_scanned: 3,
        bytes_skipped: 4,
        damaged: ["a.seg".to_owned()].into(),
        ..Stats::default()
    };
    let told = Told::of(&stats).reached(Order::Ascending, Order::Ascending.key(id(5)));
    Told { done: 0.5, buckets_done: 6, bytes_lost: 7, ..told }
}

fn records() -> Vec<Record> {
    let record = |number: u32, nanos: u32, marks: u8, labels: &str, text: &str, stored: bool| Record {
        id: id(number),
        nanos,
        marks,
        labels: Labels::parse(labels).unwrap(),
        text: text.as_bytes().to_vec(),
        stored,
    };
    vec![
        record(1, 0, 0, "app=web", "one", true),
        record(2, 250_000, 0, "app=web", "two\nlines", true),
        record(3, 0, 1, "app=db", "", true),
        record(9, 0, 0, "app=web", "not stored", false),
    ]
}

fn batch(order: Order) -> Vec<u8> {
    let mut builder = Builder::new(order);
    let mut records = records();
    if order == Order::Descending {
        records.reverse();
    }
    records.iter().for_each(|record| builder.push(record.as_ref()));
    builder.finish().concat()
}

fn counted() -> Vec<cells::Cell> {
    let numbers = [(0..5_000).collect::<RoaringBitmap>(), RoaringBitmap::from_iter([1, 9, 70_000])];
    numbers.into_iter().enumerate().map(|(cell, numbers)| ((cell, Producer::new(7)), numbers)).collect()
}

/// The messages in some bytes.
fn messages(bytes: &[u8]) -> Vec<(Kind, Bytes)> {
    let mut messages = Messages::default();
    messages.push(bytes);
    let found = std::iter::from_fn(|| messages.next().unwrap()).collect();
    assert!(messages.is_empty());
    found
}

fn only(bytes: &[u8]) -> Bytes {
    let mut found = messages(bytes);
    assert_eq!(found.len(), 1);
    found.remove(0).1
}

fn shown(batch: Batch) -> Vec<Record> {
    let batch = std::sync::Arc::new(batch);
    Stretch::new(&batch, 0, batch.len()).records().map(RecordRef::to_record).collect()
}

#[test]
fn questions_are_what_they_were() {
    files().check("question", &question().encode());
    for kept in files().all("question") {
        let found = Question::decode(&kept).unwrap();
        assert_eq!(found, question());
        assert!(found.request().is_ok());
    }
}

#[test]
fn what_is_told_is_what_it_was() {
    for (name, kind) in [("head", Kind::Head), ("progress", Kind::Progress), ("end", Kind::End)] {
        files().check(name, &message(kind, &told().encode()));
        for kept in files().all(name) {
            let found = messages(&kept);
            assert_eq!(found[0].0, kind);
            assert_eq!(Told::decode(&found[0].1), Ok(told()));
        }
    }
}

#[test]
fn batches_are_what_they_were() {
    let mut newest_first = records();
    newest_first.reverse();
    for (name, order, want) in [("batch", Order::Ascending, records()), ("batch-down", Order::Descending, newest_first)]
    {
        files().check(name, &batch(order));
        for kept in files().all(name) {
            let found = Batch::decode(&only(&kept)).unwrap();
            assert_eq!((found.order(), format!("{:?}", shown(found))), (order, format!("{want:?}")));
        }
    }
}

#[test]
fn counts_are_what_they_were() {
    files().check("cells", &cells::encode(counted()).concat());
    for kept in files().all("cells") {
        assert_eq!(cells::decode(&only(&kept), 2), Ok(counted()));
    }
}

#[test]
fn tables_that_are_not_known_are_not_taken_for_text() {
    let mut content = only(&batch(Order::Ascending)).to_vec();
    content[0] |= 8;
    let broken = Batch::decode(&content.into()).unwrap_err();
    assert_eq!(broken.to_string(), "a batch has tables that a later version has added");
}

proptest! {
    #[test]
    fn what_the_next_version_adds_is_passed_over(
        seed: u64,
        added in prop::collection::vec((0_usize..4, 128_u8.., prop::collection::vec(any::<u8>(), 0..50)), 0..6),
    ) {
        prop_assert_eq!(Question::decode(&later(&question().encode(), seed).unwrap()).unwrap(), question());
        let grown = later(&told().encode(), seed).unwrap();
        let mut all = vec![
            message(Kind::Head, &grown).to_vec(),
            batch(Order::Ascending),
            message(Kind::End, &grown).to_vec(),
        ];
        for (at, kind, content) in added {
            let mut unknown = message(Kind::End, &content).to_vec();
            unknown[0] = kind;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&unknown[..5]), &content);
            unknown[5..9].copy_from_slice(&sum.to_le_bytes());
            all.insert(at.min(all.len()), unknown);
        }
        let found = messages(&all.concat());
        let kinds: Vec<Kind> = found.iter().map(|(kind, _)| *kind).collect();
        prop_assert_eq!(kinds, [Kind::Head, Kind::Batch, Kind::End]);
        prop_assert_eq!(Told::decode(&found[0].1), Ok(told()));
        prop_assert_eq!(Told::decode(&found[2].1), Ok(told()));
    }
}
