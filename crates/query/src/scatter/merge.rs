//! Merges the record batches of all nodes by id and drops equal ids.
//!
//! The records of each node arrive in order. A record may be returned when no node can send an earlier one: the next
//! record of each node has arrived, or the node has reported its position. Batches that do not overlap are passed on
//! whole, and equal runs of several nodes once. Only ids are compared per record.

use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::stored::Interval;

use super::batch::{BatchSlice, RecordBatch};
use super::division::IntervalSet;
use crate::request::{Order, Request};
use bucksaw_rpc::MalformedMessage;

/// A range of ids with under-replicated records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderReplicated {
    pub(crate) low: Id,
    pub(crate) high: Id,
}

/// The input from one node.
#[derive(Debug, Default)]
struct MergeInput {
    batch: Option<Arc<RecordBatch>>,
    /// Position of the next record in the batch.
    at: usize,
    /// The lowest key of a record in a further batch; `None` if none follows.
    next_key_min: Option<u128>,
}

impl MergeInput {
    fn key(&self, order: Order) -> Option<u128> {
        let batch = self.batch.as_ref()?;
        batch.id(self.at).map(|id| order.key(id))
    }

    fn rest(&self) -> &[Id] {
        self.batch.as_ref().and_then(|batch| batch.ids.get(self.at..)).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        self.at += count;
        if self.batch.as_ref().is_some_and(|batch| self.at >= batch.len()) {
            self.batch = None;
        }
    }
}

/// The lowest and the highest requested key.
fn key_range(request: &Request) -> (u128, u128) {
    let last = Id::from_bits(request.to.bits().saturating_sub(1));
    let (a, b) = (request.order.key(request.from), request.order.key(last));
    (a.min(b), a.max(b))
}

/// A merge of the batches of all nodes.
#[derive(Debug)]
pub(crate) struct BatchMerge {
    pub(crate) order: Order,
    /// The highest requested key.
    key_max: u128,
    records_left: u64,
    inputs: Vec<MergeInput>,
    /// The last record that was returned.
    last: Option<Id>,
    /// Number of stores that must hold a record; 0 or 1 if that is not checked.
    replication_factor: usize,
    under_replicated: Option<UnderReplicated>,
    /// Intervals whose records are searched by some of their stores only.
    divided: IntervalSet,
}

impl BatchMerge {
    /// A merge of `nodes` inputs.
    pub(crate) fn new(request: &Request, nodes: usize, replication_factor: usize) -> Self {
        let order = request.order;
        let (key_min, key_max) = key_range(request);
        let input = || MergeInput { next_key_min: Some(key_min), ..MergeInput::default() };
        let inputs = std::iter::repeat_with(input).take(nodes).collect();
        let records_left = if request.from < request.to { request.limit.unwrap_or(u64::MAX) } else { 0 };
        Self {
            order,
            key_max,
            records_left,
            inputs,
            last: None,
            replication_factor,
            under_replicated: None,
            divided: IntervalSet::default(),
        }
    }

    /// Adds an input for records after the last returned one. Returns the rest of the request.
    pub(crate) fn add_input(&mut self, request: &Request) -> Request {
        let rest = match self.last {
            Some(last) => request.clone().after(last),
            None => request.clone(),
        };
        self.inputs.push(MergeInput { next_key_min: Some(key_range(&rest).0), ..MergeInput::default() });
        rest
    }

    /// Records of these intervals are searched by some of their stores only.
    pub(crate) fn set_divided(&mut self, divided: &IntervalSet) {
        self.divided.clone_from(divided);
    }

    /// Adds a batch of a node.
    pub(crate) fn push(&mut self, node: usize, batch: RecordBatch) -> Result<(), MalformedMessage> {
        let order = self.order;
        let (Some(input), Some(first), Some(last)) = (self.inputs.get_mut(node), batch.ids.first(), batch.ids.last())
        else {
            return Err(MalformedMessage("a batch is empty"));
        };
        let (first, last) = (order.key(*first), order.key(*last));
        if batch.order != order || input.batch.is_some() || input.next_key_min.is_none_or(|floor| first < floor) {
            return Err(MalformedMessage("records are out of order"));
        }
        if last > self.key_max {
            return Err(MalformedMessage("records outside the requested time range"));
        }
        (input.batch, input.at, input.next_key_min) = (Some(Arc::new(batch)), 0, last.checked_add(1));
        Ok(())
    }

    /// No further record of the node has a key below `key`.
    pub(crate) fn raise_floor(&mut self, node: usize, key: u128) {
        if let Some(MergeInput { next_key_min: Some(floor), .. }) = self.inputs.get_mut(node) {
            *floor = key.max(*floor);
        }
    }

    /// No further batch of the node follows.
    pub(crate) fn close(&mut self, node: usize) {
        if let Some(input) = self.inputs.get_mut(node) {
            input.next_key_min = None;
        }
    }

    /// Under-replication can no longer be determined.
    pub(crate) fn stop_checking_replicas(&mut self) {
        self.replication_factor = 0;
        self.under_replicated = None;
    }

    /// Whether the merge cannot continue without the next message of this node.
    pub(crate) fn is_awaiting(&self, node: usize) -> bool {
        self.inputs.get(node).is_some_and(|input| input.batch.is_none() && input.next_key_min.is_some())
    }

    /// Whether no record is left.
    pub(crate) fn is_done(&self) -> bool {
        self.records_left == 0 || self.inputs.iter().all(|input| input.batch.is_none() && input.next_key_min.is_none())
    }

    /// The under-replicated records since the last call.
    pub(crate) fn take_under_replicated(&mut self) -> Option<UnderReplicated> {
        self.under_replicated.take()
    }

    /// The next records, up to a limit, as far as no record can precede them.
    pub(crate) fn next_slices(&mut self, records_max: usize, bytes_max: usize) -> Vec<BatchSlice> {
        let mut slices: Vec<BatchSlice> = Vec::new();
        let (mut records, mut bytes) = (0, 0);
        while self.records_left > 0 && records < records_max && bytes < bytes_max {
            let Some((batch, from, to)) = self.next_run() else { break };
            let slice = BatchSlice::new(&batch, from, to);
            records += slice.len();
            bytes += slice.bytes();
            slice.append_to(&mut slices);
        }
        slices
    }

    fn next_run(&mut self) -> Option<(Arc<RecordBatch>, usize, usize)> {
        let order = self.order;
        let first = self.inputs.iter().filter_map(|input| input.key(order)).min()?;
        // The key at which the run must end, and the inputs that have its first record.
        let mut end: Option<u128> = None;
        let mut holders: Vec<usize> = Vec::new();
        for (at, input) in self.inputs.iter().enumerate() {
            let key = input.key(order);
            if key == Some(first) {
                holders.push(at);
            } else if let Some(next) = key.or(input.next_key_min) {
                if next <= first {
                    // It may send an earlier record.
                    return None;
                }
                end = Some(end.map_or(next, |end| end.min(next)));
            }
        }
        let (holder, others) = holders.split_first()?;
        let holder = self.inputs.get(*holder)?;
        let rest = holder.rest();
        let before_end = |ids: &[Id]| match (end, ids.last()) {
            (Some(end), Some(last)) if order.key(*last) >= end => ids.partition_point(|id| order.key(*id) < end),
            _ => ids.len(),
        };
        let mut count = before_end(rest).min(usize::try_from(self.records_left).unwrap_or(usize::MAX)).max(1);
        for other in others {
            let same = rest.iter().take(count).zip(self.inputs.get(*other)?.rest()).take_while(|(a, b)| a == b);
            count = same.count();
        }
        let (batch, from) = (Arc::clone(holder.batch.as_ref()?), holder.at);
        self.last = batch.id(from + count - 1);
        if holders.len() < self.replication_factor {
            self.note_under_replicated(&holders, count);
        }
        for holder in holders {
            if let Some(input) = self.inputs.get_mut(holder) {
                input.advance(count);
            }
        }
        self.records_left -= count as u64;
        Some((batch, from, from + count))
    }

    /// Notes the next records that all `holders` have in a store. No other node and no queue has them.
    fn note_under_replicated(&mut self, holders: &[usize], count: usize) {
        let is_stored = |step: usize, holder: &usize| {
            let input = self.inputs.get(*holder);
            input.is_some_and(|input| input.batch.as_ref().is_some_and(|batch| batch.is_stored(input.at + step)))
        };
        let Some(input) = holders.first().and_then(|holder| self.inputs.get(*holder)) else { return };
        for (step, id) in input.rest().iter().take(count).enumerate() {
            let is_divided = self.divided.contains(Interval::of(*id));
            if !is_divided && holders.iter().all(|holder| is_stored(step, holder)) {
                let range = self.under_replicated.get_or_insert(UnderReplicated { low: *id, high: *id });
                (range.low, range.high) = (range.low.min(*id), range.high.max(*id));
            }
        }
    }
}

#[cfg(test)]
mod tests;
