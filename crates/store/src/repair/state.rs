//! The state of repair, as a pure state machine: events and times in, the next task out.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::{Id, Millis};

use super::Config;
use super::local_scan::RetentionBounds;
use super::pass_rate::PassRate;
use super::pass_status::{PassStatusReply, PassStatusRequest};
use super::range_queue::{PendingRange, RangeQueue};
use super::status::{RepairBlocker, RepairStatus};
use super::store_monitor::{StoreChanges, StoreMonitor};
use super::time_range::TimeRange;
use crate::peers::PeerStore;

#[derive(Debug, Default)]
pub(crate) struct RepairState {
    config: Config,
    replication_factor: usize,
    pub(super) monitor: StoreMonitor,
    hints: RangeQueue,
    pass: Option<RepairPass>,
    /// The uptime at which the next pass begins.
    next: Duration,
    next_pass_verifies: bool,
    /// The rest of a verifying pass that was replaced by another pass.
    unverified_range: Option<TimeRange>,
    /// The last known retention bounds of other stores.
    peer_retention: BTreeMap<Id, RetentionBounds>,
    /// Under-replicated records that the last pass could not replicate.
    under_replicated_records: u64,
    /// When the last completed pass began.
    pub(super) last_pass_started_at: Option<Millis>,
    /// Identifies this process.
    boot: u64,
    /// Passes begun, and requested by other stores.
    passes_begun: u64,
    passes_requested: u64,
    /// The last pass after which no record was under-replicated.
    last_clean_pass: u64,
}

#[derive(Debug)]
struct RepairPass {
    number: u64,
    began: Millis,
    ranges: RangeQueue,
    /// The range of the running task, which is in `ranges` no more.
    running: Option<TimeRange>,
    /// The range whose checksums are verified.
    verify: Option<TimeRange>,
    under_replicated_records: u64,
    /// Bytes of forgotten or emptied stores that caused the pass.
    lost_bytes_max: u64,
    /// The rate; `None` before the first sample.
    rate: Option<PassRate>,
}

/// The next range to compare.
#[derive(Debug)]
pub(crate) struct RepairTask {
    pub(crate) pending: PendingRange,
    pub(crate) live: Vec<PeerStore>,
    pub(crate) verify: bool,
    pub(crate) is_hint: bool,
}

/// The result of a task.
#[derive(Debug, Default)]
pub(crate) struct RangeOutcome {
    pub(crate) remaining: Option<PendingRange>,
    pub(crate) retry: Vec<PendingRange>,
    /// Under-replicated records that no other store can accept.
    pub(crate) under_replicated_records: u64,
}

impl RepairState {
    /// The state at the start of a process. `random` spreads the passes of different stores.
    pub(crate) fn new(config: Config, replication_factor: usize, now: Duration, random: u64) -> Self {
        let part = f64::from(random as u32) / f64::from(u32::MAX);
        Self {
            config,
            replication_factor,
            // By then all live stores are known, and the others are lost.
            next: now + config.lost_after + config.lost_after.mul_f64(part),
            // Never 0.
            boot: random | 1,
            ..Self::default()
        }
    }

    /// The next task, given the known stores and the time; `None` if nothing is due.
    pub(crate) fn next_task(&mut self, peer_stores: Vec<PeerStore>, now: Duration, wall: Millis) -> Option<RepairTask> {
        let StoreChanges { live, is_awaiting, has_loss, has_gain, lost_bytes, .. } =
            self.monitor.update(peer_stores, now, self.config.lost_after);
        let has_useful_gain = has_gain
            && (self.under_replicated_records > 0
                || self.pass.as_ref().is_some_and(|pass| pass.under_replicated_records > 0));
        if has_loss || has_useful_gain || self.passes_requested > self.passes_begun {
            // Verification takes hours, so it is interrupted and continues after this pass.
            let left =
                self.pass.as_ref().filter(|pass| pass.verify.is_some()).and_then(|pass| pass.ranges.bounding_range());
            self.unverified_range = left.or(self.unverified_range);
            self.begin_pass(wall, None, lost_bytes);
        } else if self.pass.is_none() && now >= self.next {
            self.unverified_range = None;
            self.begin_pass(wall, self.next_pass_verifies.then_some(TimeRange::ALL), 0);
        } else if self.pass.is_none() && self.unverified_range.is_some() {
            let unverified = self.unverified_range.take();
            self.begin_pass(wall, unverified, 0);
        }
        if is_awaiting {
            return None;
        }
        if let Some(pending) = self.hints.take_ready(now) {
            return Some(RepairTask { pending, live, verify: false, is_hint: true });
        }
        let pass = self.pass.as_mut()?;
        let pending = pass.ranges.take_ready(now)?;
        // Ranges with ids of their own are small.
        pass.running = pending.only_ids.is_none().then_some(pending.range);
        let verify = pass.verify.is_some_and(|part| part.from < pending.range.to && pending.range.from < part.to);
        Some(RepairTask { pending, live, verify, is_hint: false })
    }

    /// Begins a pass over all of time. If one is running, the new pass begins at its current range.
    fn begin_pass(&mut self, wall: Millis, verify: Option<TimeRange>, lost_bytes: u64) {
        let front = self.pass.as_ref().and_then(|pass| Some(pass.ranges.iter().next()?.range)).or(verify);
        let lost_bytes = lost_bytes + self.pass.as_ref().map_or(0, |pass| pass.lost_bytes_max);
        let ranges = RangeQueue::restart(front);
        self.passes_begun += 1;
        self.pass = Some(RepairPass {
            number: self.passes_begun,
            began: wall,
            ranges,
            running: None,
            verify,
            under_replicated_records: 0,
            lost_bytes_max: lost_bytes,
            rate: None,
        });
    }

    /// Applies the outcome of a task; returns whether it completed the pass.
    pub(crate) fn complete_task(&mut self, is_hint: bool, outcome: RangeOutcome, now: Duration, random: u64) -> bool {
        let RangeOutcome { remaining, retry, under_replicated_records } = outcome;
        let retry_at = now + self.config.retry_delay;
        let ranges = match &mut self.pass {
            Some(pass) if !is_hint => &mut pass.ranges,
            _ => &mut self.hints,
        };
        if let Some(remaining) = remaining {
            ranges.put_back(remaining);
        }
        for pending in retry {
            // A range may have a later time of its own.
            ranges.add(PendingRange { ready_at: pending.ready_at.max(retry_at), ..pending });
        }
        let Some(pass) = self.pass.as_mut().filter(|_| !is_hint) else { return false };
        pass.running = None;
        pass.under_replicated_records += under_replicated_records;
        if !pass.ranges.is_empty() {
            return false;
        }
        if self.monitor.mark_re_replicated(self.replication_factor) {
            self.last_pass_started_at = Some(pass.began);
            if pass.under_replicated_records == 0 {
                self.last_clean_pass = pass.number;
            }
        }
        if pass.under_replicated_records == 0 {
            self.monitor.record_clean_pass();
        }
        self.under_replicated_records = pass.under_replicated_records;
        self.pass = None;
        // The first verifying pass comes at a random time within the interval, so that a node that is often restarted
        // verifies too.
        let part = if self.next_pass_verifies { 1.0 } else { f64::from(random as u32) / f64::from(u32::MAX) };
        self.next = now + self.config.pass_interval.mul_f64(part);
        self.next_pass_verifies = true;
        true
    }

    /// Answers a pass status request. A pass is begun only if the request names the next one, so that repeated requests begin
    /// one pass.
    pub(crate) fn answer_pass_status(&mut self, request: PassStatusRequest) -> PassStatusReply {
        if request.boot == self.boot && request.pass == self.passes_begun + 1 {
            self.passes_requested = request.pass;
        }
        PassStatusReply {
            boot: self.boot,
            passes_begun: self.passes_begun,
            last_clean_pass: self.last_clean_pass,
            ..PassStatusReply::default()
        }
    }

    pub(crate) fn add_hint(&mut self, range: TimeRange) {
        self.hints.add(PendingRange::new(range));
    }

    /// The retention bounds common to this store and all live ones.
    pub(crate) fn common_retention(&self, own: RetentionBounds, live: &[PeerStore]) -> RetentionBounds {
        let others = live.iter().filter_map(|peer_store| self.peer_retention.get(&peer_store.peer.node));
        others.fold(own, |all, retention| all.intersect(*retention))
    }

    pub(crate) fn set_peer_retention(&mut self, node: Id, retention: RetentionBounds) {
        self.peer_retention.insert(node, retention);
    }

    /// What the pass has still to compare, with the range of the running task.
    pub(crate) fn remaining_ranges(&self) -> Vec<TimeRange> {
        let Some(pass) = &self.pass else { return Vec::new() };
        let waiting = pass.ranges.iter().filter(|pending| pending.only_ids.is_none()).map(|pending| pending.range);
        pass.running.into_iter().chain(waiting).collect()
    }

    pub(crate) fn sample_rate(&mut self, now: Duration, left_bytes: u64) {
        if let Some(pass) = &mut self.pass {
            pass.rate.get_or_insert_with(|| PassRate::new(now, left_bytes)).sample(now, left_bytes);
        }
    }

    pub(crate) fn status(&self, now: Duration, left_bytes: u64) -> RepairStatus {
        let ranges = || self.pass.iter().flat_map(|pass| pass.ranges.iter()).chain(self.hints.iter());
        let known = ranges()
            .filter(|pending| pending.is_under_replicated)
            .filter_map(|pending| pending.only_ids.as_ref())
            .map(|only| only.len());
        let records =
            self.pass.as_ref().map_or(0, |pass| pass.under_replicated_records).max(self.under_replicated_records);
        let front = self.pass.as_ref().and_then(|pass| pass.ranges.iter().next());
        let records = records + known.sum::<u64>();
        let awaited = self.monitor.awaited();
        let awaiting = || awaited.first().filter(|_| self.pass.is_some()).map(|store| RepairBlocker::Awaited(*store));
        let few = || (records > 0).then_some(RepairBlocker::TooFewStores);
        let rate = self.pass.as_ref().and_then(|pass| pass.rate);
        RepairStatus {
            began: self.pass.as_ref().map(|pass| pass.began),
            position: front.map(|pending| Millis(pending.range.to.0.min(Millis::MAX.0))),
            last_pass_started_at: self.last_pass_started_at,
            remaining_bytes: if self.pass.is_some() { left_bytes } else { 0 },
            bytes_per_second: rate.map_or(0, |rate| rate.bytes_per_second(now, left_bytes)),
            under_replicated_records: records,
            deferred_ranges: ranges().filter(|pending| pending.ready_at > Duration::ZERO).count(),
            blocked_by: awaiting().or_else(|| ranges().find_map(|pending| pending.blocked_by)).or_else(few),
            lost_stores: self.monitor.lost(),
            unrepaired_stores: self.monitor.unrepaired(),
            lost_bytes_max: self.monitor.lost_bytes_max() + self.pass.as_ref().map_or(0, |pass| pass.lost_bytes_max),
            awaited_stores: awaited,
            ..RepairStatus::default()
        }
    }
}

#[cfg(test)]
mod tests;
