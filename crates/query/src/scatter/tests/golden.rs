//! Messages between nodes of each version, and of later ones, can be decoded.

use std::num::NonZeroU64;

use bucksaw_cluster::ClusterVersion;
use bucksaw_fixtures::{GoldenFiles, with_unknown_fields};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer, RowAttributes};
use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};
use bucksaw_store::{ReplicaRun, ReplicaState, SearchShare};
use bytes::Bytes;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::super::batch::{BatchContent, BatchSlice, RecordBatch, RecordBatchBuilder};
use super::super::cells;
use super::super::message::MessageKind;
use super::super::replica_states;
use super::super::request::{ReplyStatus, ScatterRequest};
use crate::count::Bucketing;
use crate::grouping::Grouping;
use crate::match_buffer::{OwnedRecord, RecordRef};
use crate::request::{Order, Request};
use crate::stats::QueryStats;
use bucksaw_rpc::{MessageReader, stream_message};

fn golden_files() -> GoldenFiles {
    GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), ClusterVersion::OWN)
}

fn id(number: u32) -> Id {
    Id::new(Millis(1_763_680_200_000), Producer::new(7), number)
}

fn sample_request() -> ScatterRequest {
    let expr = Expr::parse(br#"error -debug "\xff" n>=1.5"#).unwrap();
    let request = Request {
        stream: Some(Labels::parse("app=web,path=\"/a,b\"").unwrap()),
        order: Order::Descending,
        limit: Some(7),
        ..Request::new(expr, Millis(5), Millis(1_763_680_200_000))
    };
    let bucketing = Bucketing { buckets: 12, grouping: Grouping::Level };
    ScatterRequest::new(&request).with_bucketing(bucketing).with_batch_bytes(9_000)
}

fn sample_status() -> ReplyStatus {
    let stats = QueryStats {
        segments_read: 1,
        segments_skipped: 2,
        bytes_scanned: 3,
        bytes_skipped: 4,
        damaged: ["a.seg".to_owned()].into(),
        ..QueryStats::default()
    };
    let status = ReplyStatus::from_stats(&stats).with_position(Order::Ascending, Order::Ascending.key(id(5)));
    ReplyStatus { done: 0.5, buckets_done: 6, bytes_lost: 7, ..status }
}

fn records() -> Vec<OwnedRecord> {
    let record = |number: u32, nanos: u32, flags: u8, labels: &str, text: &str, is_stored: bool| OwnedRecord {
        id: id(number),
        nanos,
        flags,
        labels: Labels::parse(labels).unwrap(),
        text: text.as_bytes().to_vec(),
        attributes: RowAttributes::empty(),
        is_stored,
    };
    vec![
        record(1, 0, 0, "app=web", "one", true),
        record(2, 250_000, 0, "app=web", "two\nlines", true),
        record(3, 0, 1, "app=db", "", true),
        record(9, 0, 0, "app=web", "not stored", false),
    ]
}

fn batch(order: Order) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(order, BatchContent::LinesAndAttributes);
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

fn messages(bytes: &[u8]) -> Vec<(MessageKind, Bytes)> {
    let mut messages = MessageReader::default();
    messages.push(bytes);
    let found = std::iter::from_fn(|| messages.next_message().unwrap()).collect();
    assert!(messages.is_empty());
    found
}

fn single_content(bytes: &[u8]) -> Bytes {
    let mut found = messages(bytes);
    assert_eq!(found.len(), 1);
    found.remove(0).1
}

fn decoded_records(batch: RecordBatch) -> Vec<OwnedRecord> {
    let batch = std::sync::Arc::new(batch);
    BatchSlice::new(&batch, 0, batch.len()).records().map(RecordRef::to_owned_record).collect()
}

#[test]
fn requests_match_golden() {
    golden_files().check("request", &sample_request().encode());
    for golden in golden_files().read_all("request") {
        let found = ScatterRequest::decode(&golden).unwrap();
        assert_eq!(found, sample_request());
        assert!(found.request().is_ok());
    }
}

fn sample_share() -> SearchShare {
    let run = |group: u64, first: u32, last: u32, sum: u128| ReplicaRun {
        group: ReplicaGroup(NonZeroU64::new(group).unwrap()),
        first: Interval(first),
        last: Interval(last),
        sum: IdSum(sum),
    };
    let skipped = vec![run(0xabc, 1_681_000, 1_681_003, 1 << 100), run(u64::MAX, 0, 0, u128::MAX)];
    SearchShare { token: "9-0-0".to_owned(), skipped, only: Some(vec![run(1, 7, 9, 0)]) }
}

#[test]
fn shares_match_golden() {
    let request = sample_request().with_share(Some(&sample_share()));
    golden_files().check("request-share", &request.encode());
    for golden in golden_files().read_all("request-share") {
        let found = ScatterRequest::decode(&golden).unwrap();
        assert_eq!(found.request().unwrap().share.as_deref(), Some(&sample_share()));
        assert_eq!(found, request);
    }
    let refused = ReplyStatus { share_refused: true, ..sample_status() };
    golden_files().check("head-share", &stream_message(MessageKind::Head, &refused.encode()));
    for golden in golden_files().read_all("head-share") {
        assert_eq!(ReplyStatus::decode(&messages(&golden)[0].1), Ok(refused.clone()));
    }
}

#[test]
fn invalid_shares_are_refused() {
    let text = String::from_utf8(sample_request().with_share(Some(&sample_share())).encode()).unwrap();
    let run = r#"["0000000000000001",7,9,"0"]"#;
    assert!(text.contains(run));
    for other in [
        "[]",
        r#"["0",7,9,"0"]"#,
        r#"["1",9,7,"0"]"#,
        r#"["x",7,9,"0"]"#,
        r#"["1",7,4294967295,"0"]"#,
        r#"["1",7,9,"-1"]"#,
    ] {
        let decoded = ScatterRequest::decode(text.replace(run, other).as_bytes());
        assert!(decoded.and_then(|request| request.request()).is_err(), "{other}");
    }
}

#[test]
fn replica_states_match_golden() {
    let sums = sample_share().skipped.into_iter().map(|run| ((run.group, run.first), run.sum)).collect();
    let numbers = ReplicaState { text_bytes: 77_000, blocks: 3, block_intervals: 5, ..ReplicaState::default() };
    let state = ReplicaState { token: "9-0-0".to_owned(), sums, ..numbers };
    golden_files().check("replica-state", &replica_states::encode(&state));
    for golden in golden_files().read_all("replica-state") {
        assert_eq!(replica_states::decode(&golden), Ok(state.clone()));
    }
}

#[test]
fn statuses_match_golden() {
    for (name, kind) in [("head", MessageKind::Head), ("progress", MessageKind::Progress), ("end", MessageKind::End)] {
        golden_files().check(name, &stream_message(kind, &sample_status().encode()));
        for golden in golden_files().read_all(name) {
            let found = messages(&golden);
            assert_eq!(found[0].0, kind);
            assert_eq!(ReplyStatus::decode(&found[0].1), Ok(sample_status()));
        }
    }
}

#[test]
fn batches_match_golden() {
    let mut newest_first = records();
    newest_first.reverse();
    for (name, order, want) in [("batch", Order::Ascending, records()), ("batch-down", Order::Descending, newest_first)]
    {
        golden_files().check(name, &batch(order));
        for golden in golden_files().read_all(name) {
            let found = RecordBatch::decode(&single_content(&golden)).unwrap();
            assert_eq!((found.order, format!("{:?}", decoded_records(found))), (order, format!("{want:?}")));
        }
    }
}

#[test]
fn counts_match_golden() {
    golden_files().check("cells", &cells::encode(counted()).concat());
    for golden in golden_files().read_all("cells") {
        assert_eq!(cells::decode(&single_content(&golden), 2), Ok(counted()));
    }
}

#[test]
fn batches_with_unknown_tables_are_rejected() {
    let mut content = single_content(&batch(Order::Ascending)).to_vec();
    content[0] |= 16;
    let error = RecordBatch::decode(&content.into()).unwrap_err();
    assert_eq!(error.to_string(), "a batch has tables that a later version has added");
}

proptest! {
    #[test]
    fn fields_of_later_versions_are_ignored(
        seed: u64,
        added in prop::collection::vec((0_usize..4, 130_u8.., prop::collection::vec(any::<u8>(), 0..50)), 0..6),
    ) {
        prop_assert_eq!(ScatterRequest::decode(&with_unknown_fields(&sample_request().encode(), seed).unwrap()).unwrap(), sample_request());
        let grown = with_unknown_fields(&sample_status().encode(), seed).unwrap();
        let mut all = vec![
            stream_message(MessageKind::Head, &grown).to_vec(),
            batch(Order::Ascending),
            stream_message(MessageKind::End, &grown).to_vec(),
        ];
        for (at, kind, content) in added {
            let mut unknown = stream_message(MessageKind::End, &content).to_vec();
            unknown[0] = kind;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&unknown[..5]), &content);
            unknown[5..9].copy_from_slice(&sum.to_le_bytes());
            all.insert(at.min(all.len()), unknown);
        }
        let found = messages(&all.concat());
        let kinds: Vec<MessageKind> = found.iter().map(|(kind, _)| *kind).collect();
        prop_assert_eq!(kinds, [MessageKind::Head, MessageKind::Batch, MessageKind::End]);
        prop_assert_eq!(ReplyStatus::decode(&found[0].1), Ok(sample_status()));
        prop_assert_eq!(ReplyStatus::decode(&found[2].1), Ok(sample_status()));
    }
}
