//! Puts the records of several nodes into one order, each once.
//!
//! Each node's records come in order. A record may be shown when no node can bring one before it: each has its next record
//! here, or has told how far it has come. Where the nodes' batches do not overlap they are handed on whole, and where nodes
//! hold copies of the same records, stretches of the same ids are handed on as one: no work is done for each record but to
//! compare ids.

use std::sync::Arc;

use bucksaw_record::Id;

use super::batch::{BatchSlice, RecordBatch};
use crate::request::{Order, Request};
use bucksaw_rpc::MalformedMessage;

/// Records that fewer stores gave than should hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderReplicated {
    pub(crate) low: Id,
    pub(crate) high: Id,
}

/// What a node has brought, and will.
#[derive(Debug, Default)]
struct MergeInput {
    batch: Option<Arc<RecordBatch>>,
    /// Which record of the batch is the next.
    at: usize,
    /// The lowest place that a record of a further batch can have; `None` when there is none.
    next_key_min: Option<u128>,
}

impl MergeInput {
    fn key(&self, order: Order) -> Option<u128> {
        let batch = self.batch.as_ref()?;
        batch.id(self.at).map(|id| order.key(id))
    }

    fn rest(&self) -> &[Id] {
        self.batch.as_ref().and_then(|batch| batch.ids().get(self.at..)).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        self.at += count;
        if self.batch.as_ref().is_some_and(|batch| self.at >= batch.len()) {
            self.batch = None;
        }
    }
}

/// Merges what nodes bring.
#[derive(Debug)]
pub(crate) struct BatchMerge {
    order: Order,
    /// The lowest and the highest place that count.
    key_range: (u128, u128),
    records_left: u64,
    inputs: Vec<MergeInput>,
    /// In how many stores a record should be; 0 or 1 when nobody cares.
    replication_factor: usize,
    under_replicated: Option<UnderReplicated>,
}

impl BatchMerge {
    /// Of so many nodes.
    pub(crate) fn new(request: &Request, nodes: usize, copies: usize) -> Self {
        let order = request.order;
        let last = Id::from_bits(request.to.bits().saturating_sub(1));
        let ends = (order.key(request.from), order.key(last));
        let places = (ends.0.min(ends.1), ends.0.max(ends.1));
        let lanes = (0..nodes).map(|_| MergeInput { next_key_min: Some(places.0), ..MergeInput::default() }).collect();
        let left = if request.from < request.to { request.limit.unwrap_or(u64::MAX) } else { 0 };
        Self {
            order,
            key_range: places,
            records_left: left,
            inputs: lanes,
            replication_factor: copies,
            under_replicated: None,
        }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// A node brought a batch.
    pub(crate) fn push(&mut self, node: usize, batch: RecordBatch) -> Result<(), MalformedMessage> {
        let order = self.order;
        let (Some(lane), Some(first), Some(last)) = (self.inputs.get_mut(node), batch.id(0), batch.id(batch.len() - 1))
        else {
            return Err(MalformedMessage("a batch is empty"));
        };
        let (first, last) = (order.key(first), order.key(last));
        if batch.order() != order || lane.batch.is_some() || lane.next_key_min.is_none_or(|floor| first < floor) {
            return Err(MalformedMessage("records are out of order"));
        }
        if last > self.key_range.1 {
            return Err(MalformedMessage("records outside the requested time range"));
        }
        (lane.batch, lane.at, lane.next_key_min) = (Some(Arc::new(batch)), 0, last.checked_add(1));
        Ok(())
    }

    /// A node told that nothing will come before this place.
    pub(crate) fn raise_floor(&mut self, node: usize, place: u128) {
        if let Some(MergeInput { next_key_min: Some(floor), .. }) = self.inputs.get_mut(node) {
            *floor = place.max(*floor);
        }
    }

    /// A node will bring nothing more.
    pub(crate) fn close(&mut self, node: usize) {
        if let Some(lane) = self.inputs.get_mut(node) {
            lane.next_key_min = None;
        }
    }

    /// Nobody cares any more in how many stores a record is.
    pub(crate) fn stop_checking_replicas(&mut self) {
        self.replication_factor = 0;
        self.under_replicated = None;
    }

    /// The nodes that must bring something before the answer goes on.
    pub(crate) fn awaited_nodes(&self) -> impl Iterator<Item = usize> {
        let awaited = |(_, lane): &(usize, &MergeInput)| lane.batch.is_none() && lane.next_key_min.is_some();
        self.inputs.iter().enumerate().filter(awaited).map(|(at, _)| at)
    }

    /// Whether the answer is whole.
    pub(crate) fn is_done(&self) -> bool {
        self.records_left == 0 || self.inputs.iter().all(|lane| lane.batch.is_none() && lane.next_key_min.is_none())
    }

    /// Records that too few stores gave, since this was called before.
    pub(crate) fn take_under_replicated(&mut self) -> Option<UnderReplicated> {
        self.under_replicated.take()
    }

    /// The next records, as far as it is known that none comes before them, until there are many.
    pub(crate) fn next_slices(&mut self, records_max: usize, bytes_max: usize) -> Vec<BatchSlice> {
        let mut out: Vec<BatchSlice> = Vec::new();
        let (mut records, mut bytes) = (0, 0);
        while self.records_left > 0 && records < records_max && bytes < bytes_max {
            let Some((batch, from, to)) = self.next_run() else { break };
            let stretch = BatchSlice::new(&batch, from, to);
            records += stretch.len();
            bytes += stretch.bytes();
            match out.last_mut() {
                Some(last) if last.is_adjacent_to(&stretch) => last.extend(&stretch),
                _ => out.push(stretch),
            }
        }
        out
    }

    fn next_run(&mut self) -> Option<(Arc<RecordBatch>, usize, usize)> {
        let order = self.order;
        let first = self.inputs.iter().filter_map(|lane| lane.key(order)).min()?;
        // The place that the run must stay before, and who has its first record.
        let mut end: Option<u128> = None;
        let mut holders: Vec<usize> = Vec::new();
        for (at, lane) in self.inputs.iter().enumerate() {
            let key = lane.key(order);
            if key == Some(first) {
                holders.push(at);
            } else if let Some(next) = key.or(lane.next_key_min) {
                if next <= first {
                    // It may bring what comes before.
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
        if holders.len() < self.replication_factor {
            self.note_under_replicated(&holders, count);
        }
        for holder in holders {
            if let Some(lane) = self.inputs.get_mut(holder) {
                lane.advance(count);
            }
        }
        self.records_left -= count as u64;
        Some((batch, from, from + count))
    }

    /// Notes of the next records those that all of these nodes have on a store: nobody else has them, and in a queue they
    /// are not.
    fn note_under_replicated(&mut self, holders: &[usize], count: usize) {
        let on_shelf = |step: usize, holder: &usize| {
            let lane = self.inputs.get(*holder);
            lane.is_some_and(|lane| lane.batch.as_ref().is_some_and(|batch| batch.is_stored(lane.at + step)))
        };
        let Some(lane) = holders.first().and_then(|holder| self.inputs.get(*holder)) else { return };
        for (step, id) in lane.rest().iter().take(count).enumerate() {
            if holders.iter().all(|holder| on_shelf(step, holder)) {
                let thin = self.under_replicated.get_or_insert(UnderReplicated { low: *id, high: *id });
                (thin.low, thin.high) = (thin.low.min(*id), thin.high.max(*id));
            }
        }
    }
}

#[cfg(test)]
mod tests;
