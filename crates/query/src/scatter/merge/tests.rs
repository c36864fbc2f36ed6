use std::collections::{BTreeMap, BTreeSet};

use bucksaw_record::{Expr, Labels, Millis, Producer, RecordView};
use bytes::Bytes;
use proptest::prelude::*;

use super::super::batch::{BatchContent, RecordBatchBuilder};
use super::*;
use crate::match_buffer::RecordRef;
use bucksaw_rpc::MessageReader;

fn id(number: u64) -> Id {
    Id::new(Millis(number / 5), Producer::new(1), number as u32)
}

fn batch(order: Order, records: &[(u64, bool)]) -> RecordBatch {
    let mut builder = RecordBatchBuilder::new(order, BatchContent::LinesAndAttributes);
    let labels = Labels::default();
    for (number, stored) in records {
        let text = number.to_string();
        let view = RecordView::line_only(text.as_bytes());
        builder.push(RecordRef { id: id(*number), nanos: 0, flags: 0, labels: &labels, view, is_stored: *stored });
    }
    let mut messages = MessageReader::default();
    builder.finish().iter().for_each(|piece: &Bytes| messages.push(piece));
    RecordBatch::decode(&messages.next_message::<crate::scatter::message::MessageKind>().unwrap().unwrap().1).unwrap()
}

fn request(order: Order, limit: Option<u64>) -> Request {
    Request { order, limit, ..Request::new(Expr::All, Millis(0), Millis::MAX) }
}

fn numbers(slices: &[BatchSlice]) -> Vec<u64> {
    let text = |record: RecordRef<'_>| String::from_utf8(record.view.line().to_vec()).unwrap().parse().unwrap();
    slices.iter().flat_map(BatchSlice::records).map(text).collect()
}

#[test]
fn batches_that_do_not_overlap_pass_whole() {
    let mut merge = BatchMerge::new(&request(Order::Ascending, None), 2, 0);
    merge.push(0, batch(Order::Ascending, &[(1, true), (2, true), (3, true)])).unwrap();
    assert!(merge.next_slices(100, 1_000).is_empty(), "the other node may have 0");
    merge.raise_floor(1, id(2).bits());
    assert_eq!(numbers(&merge.next_slices(100, 1_000)), [1]);
    merge.push(1, batch(Order::Ascending, &[(7, true), (8, true)])).unwrap();
    let out = merge.next_slices(100, 1_000);
    assert_eq!((out.len(), numbers(&out)), (1, vec![2, 3]));
    merge.close(0);
    let out = merge.next_slices(100, 1_000);
    assert_eq!((out.len(), numbers(&out)), (1, vec![7, 8]));
    merge.close(1);
    assert!(merge.is_done());
}

#[test]
fn replicas_are_passed_on_as_one() {
    let mut merge = BatchMerge::new(&request(Order::Descending, None), 3, 2);
    let all: Vec<(u64, bool)> = (0..100).rev().map(|number| (number, true)).collect();
    (0..2).for_each(|node| merge.push(node, batch(Order::Descending, &all)).unwrap());
    merge.close(2);
    let out = merge.next_slices(1_000, 100_000);
    assert_eq!((out.len(), numbers(&out).len(), merge.take_under_replicated()), (1, 100, None));
}

#[test]
fn divided_records_are_not_under_replicated() {
    let check = |divided: Option<(Interval, Interval)>| {
        let mut merge = BatchMerge::new(&request(Order::Ascending, None), 2, 2);
        merge.set_divided(&IntervalSet::of(divided.into_iter()));
        merge.push(0, batch(Order::Ascending, &[(1, true), (2, true)])).unwrap();
        merge.close(1);
        assert_eq!(numbers(&merge.next_slices(100, 1_000)), [1, 2]);
        merge.take_under_replicated().is_some()
    };
    let (own, next) = (Interval::of(id(1)), Interval(Interval::of(id(1)).0 + 1));
    assert!(check(None) && check(Some((next, next))));
    assert!(!check(Some((own, own))) && !check(Some((own, next))));
}

#[test]
fn batches_out_of_place_are_rejected() {
    let mut merge = BatchMerge::new(&Request { to: id(50), ..request(Order::Ascending, None) }, 2, 0);
    assert!(merge.push(0, batch(Order::Descending, &[(1, true)])).is_err());
    assert!(merge.push(0, batch(Order::Ascending, &[(49, true), (50, true)])).is_err());
    merge.push(0, batch(Order::Ascending, &[(5, true)])).unwrap();
    merge.raise_floor(1, id(9).bits());
    assert_eq!(numbers(&merge.next_slices(10, 100)), [5]);
    assert!(merge.push(0, batch(Order::Ascending, &[(5, true)])).is_err());
    assert!(merge.push(1, batch(Order::Ascending, &[(8, true)])).is_err());
    merge.push(0, batch(Order::Ascending, &[(6, true)])).unwrap();
    merge.close(1);
    assert!(merge.push(1, batch(Order::Ascending, &[(20, true)])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn records_are_merged_once_and_in_order(
        inputs in prop::collection::vec(prop::collection::btree_map(0_u64..60, any::<bool>(), 0..40), 1..5),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        turns in prop::collection::vec((0_usize..5, 0_u8..4, 1_usize..20), 1..200),
        (is_descending, limit, replication_factor) in (any::<bool>(), prop::option::of(0_u64..50), 0_usize..4),
    ) {
        let order = if is_descending { Order::Descending } else { Order::Ascending };
        let mut pending: Vec<Vec<Vec<(u64, bool)>>> = Vec::new();
        for input in &inputs {
            let mut records: Vec<(u64, bool)> = input.iter().map(|(number, stored)| (*number, *stored)).collect();
            records.sort_by_key(|(number, _)| order.key(id(*number)));
            let (mut batches, mut cuts) = (Vec::new(), cuts.iter().cycle());
            while !records.is_empty() {
                let rest = records.split_off((*cuts.next().unwrap()).min(records.len()));
                batches.push(std::mem::replace(&mut records, rest));
            }
            batches.reverse();
            pending.push(batches);
        }
        let mut merge = BatchMerge::new(&request(order, limit), inputs.len(), replication_factor);
        let (mut found, mut under_replicated) = (Vec::new(), BTreeSet::new());
        let mut turns = turns.iter().cycle().enumerate();
        while !merge.is_done() {
            let (turn, (node, action, records_max)) = turns.next().unwrap();
            let (node, action) = ((node + turn / 7) % inputs.len(), (action + (turn / 5) as u8) % 4);
            if merge.is_awaiting(node) {
                match (action, pending[node].last()) {
                    (0, Some(next)) => merge.raise_floor(node, order.key(id(next[0].0))),
                    (_, Some(next)) => {
                        merge.push(node, batch(order, next)).unwrap();
                        pending[node].pop();
                    }
                    (_, None) => merge.close(node),
                }
            }
            let out = numbers(&merge.next_slices(*records_max, 1 << 20));
            if let Some(range) = merge.take_under_replicated() {
                prop_assert!(!out.is_empty());
                under_replicated.extend(out.iter().copied().filter(|number| range.low <= id(*number) && id(*number) <= range.high));
            }
            found.extend(out);
        }
        let mut holders: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
        inputs.iter().flatten().for_each(|(number, stored)| holders.entry(*number).or_default().push(*stored));
        let mut want: Vec<u64> = holders.keys().copied().collect();
        want.sort_by_key(|number| order.key(id(*number)));
        want.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(&found, &want);
        for number in want {
            let stored = &holders[&number];
            if stored.len() < replication_factor && stored.iter().all(|stored| *stored) {
                prop_assert!(under_replicated.contains(&number), "{} is in {} stores", number, stored.len());
            }
        }
        if replication_factor == 0 {
            prop_assert!(under_replicated.is_empty());
        }
    }
}
