//! Where the walker stands. Pure: it is told what happened and the time, and says what is next.

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

/// Where the walker stands.
#[derive(Debug)]
pub(crate) struct RepairState {
    config: Config,
    replication_factor: usize,
    monitor: StoreMonitor,
    hints: RangeQueue,
    pass: Option<RepairPass>,
    /// When the next pass begins.
    next: Duration,
    /// Whether that is one that holds blocks against their checksums.
    next_pass_verifies: bool,
    /// What a pass that holds blocks against their checksums had not come to when another one took its place.
    unverified_range: Option<TimeRange>,
    /// What other stores keep, as they told last.
    peer_retention: BTreeMap<Id, RetentionBounds>,
    /// Records that could not be copied anywhere in the last pass.
    under_replicated_records: u64,
    last_pass_started_at: Option<Millis>,
    /// Which start of the store this is.
    boot: u64,
    /// Passes that were begun, and are to be begun.
    passes_begun: u64,
    passes_requested: u64,
    /// The last pass after which nothing had too few copies.
    last_clean_pass: u64,
}

/// A pass under way.
#[derive(Debug)]
struct RepairPass {
    number: u64,
    began: Millis,
    ranges: RangeQueue,
    /// The time whose blocks are held against their checksums.
    verify: Option<TimeRange>,
    under_replicated_records: u64,
    /// What stores had that were forgotten or emptied, and that it is about.
    lost_bytes_max: u64,
    /// How fast it gets on; none before that was first looked at.
    rate: Option<PassRate>,
}

/// What is to be walked next.
#[derive(Debug)]
pub(crate) struct RepairTask {
    pub(crate) pending: PendingRange,
    /// The stores to ask.
    pub(crate) live: Vec<PeerStore>,
    pub(crate) verify: bool,
    is_hint: bool,
}

/// What came of a window.
#[derive(Debug, Default)]
pub(crate) struct RangeOutcome {
    /// What is left of the leg.
    pub(crate) remaining: Option<PendingRange>,
    /// What is to be looked at again.
    pub(crate) retry: Vec<PendingRange>,
    /// Records that too few stores hold, and no other can take.
    pub(crate) under_replicated_records: u64,
}

impl RepairState {
    /// `chance` is any number: passes of different stores should not coincide.
    pub(crate) fn new(config: Config, copies: usize, now: Duration, chance: u64) -> Self {
        let part = f64::from(chance as u32) / f64::from(u32::MAX);
        Self {
            config,
            replication_factor: copies,
            monitor: StoreMonitor::default(),
            hints: RangeQueue::default(),
            pass: None,
            // All others that are there have been heard of by then, and who is not is lost.
            next: now + config.lost_after + config.lost_after.mul_f64(part),
            next_pass_verifies: false,
            unverified_range: None,
            peer_retention: BTreeMap::new(),
            under_replicated_records: 0,
            last_pass_started_at: None,
            // Never 0.
            boot: chance | 1,
            passes_begun: 0,
            passes_requested: 0,
            last_clean_pass: 0,
        }
    }

    /// What is to be done now, as things are; `None` when nothing is.
    pub(crate) fn next_task(&mut self, peer_stores: Vec<PeerStore>, now: Duration, wall: Millis) -> Option<RepairTask> {
        let StoreChanges { live, is_awaiting, has_loss: was_loss, has_gain: was_gain, lost_bytes: gone_bytes, .. } =
            self.monitor.update(peer_stores, now, self.config.lost_after);
        let gains = was_gain
            && (self.under_replicated_records > 0
                || self.pass.as_ref().is_some_and(|pass| pass.under_replicated_records > 0));
        if was_loss || gains || self.passes_requested > self.passes_begun {
            // What it goes without is made up for when this is done: reading all bytes takes hours, and copies are missing.
            let left =
                self.pass.as_ref().filter(|pass| pass.verify.is_some()).and_then(|pass| pass.ranges.bounding_range());
            self.unverified_range = left.or(self.unverified_range);
            self.begin_pass(wall, None, gone_bytes);
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
        if let Some(leg) = self.hints.take_ready(now) {
            return Some(RepairTask { pending: leg, live, verify: false, is_hint: true });
        }
        let pass = self.pass.as_mut()?;
        let pending = pass.ranges.take_ready(now)?;
        let verify = pass.verify.is_some_and(|part| part.from < pending.range.to && pending.range.from < part.to);
        Some(RepairTask { pending, live, verify, is_hint: false })
    }

    /// Begins a pass, or begins anew with what the one under way has already walked over.
    fn begin_pass(&mut self, wall: Millis, verify: Option<TimeRange>, gone_bytes: u64) {
        let front = self.pass.as_ref().and_then(|pass| Some(pass.ranges.iter().next()?.range)).or(verify);
        let gone_bytes = gone_bytes + self.pass.as_ref().map_or(0, |pass| pass.lost_bytes_max);
        let ranges = RangeQueue::restart(front);
        self.passes_begun += 1;
        self.pass = Some(RepairPass {
            number: self.passes_begun,
            began: wall,
            ranges,
            verify,
            under_replicated_records: 0,
            lost_bytes_max: gone_bytes,
            rate: None,
        });
    }

    /// Takes in what came of a task. Says whether a pass came to its end by it.
    pub(crate) fn complete_task(&mut self, is_hint: bool, done: RangeOutcome, now: Duration, chance: u64) -> bool {
        let RangeOutcome { remaining: rest, retry: later, under_replicated_records: missing } = done;
        let again = self.config.retry_delay;
        let ranges = match &mut self.pass {
            Some(pass) if !is_hint => &mut pass.ranges,
            _ => &mut self.hints,
        };
        if let Some(rest) = rest {
            ranges.put_back(rest);
        }
        for pending in later {
            // Some say themselves when.
            ranges.add(PendingRange { ready_at: pending.ready_at.max(now + again), ..pending });
        }
        let Some(pass) = self.pass.as_mut().filter(|_| !is_hint) else { return false };
        pass.under_replicated_records += missing;
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
        // The first of those that check checksums comes some time within a period, or a node that is often started anew
        // would never do it.
        let part = if self.next_pass_verifies { 1.0 } else { f64::from(chance as u32) / f64::from(u32::MAX) };
        self.next = now + self.config.pass_interval.mul_f64(part);
        self.next_pass_verifies = true;
        true
    }

    /// Answers a store that waits for a pass. At most one more is begun for each that was: who asks knows how many were.
    pub(crate) fn answer_pass_status(&mut self, question: PassStatusRequest) -> PassStatusReply {
        if question.boot == self.boot && question.pass == self.passes_begun + 1 {
            self.passes_requested = question.pass;
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

    /// What all stores keep, this one among them.
    pub(crate) fn common_retention(&self, own: RetentionBounds, live: &[PeerStore]) -> RetentionBounds {
        let others = live.iter().filter_map(|peer_store| self.peer_retention.get(&peer_store.peer.node));
        others.fold(own, |all, keeps| all.intersect(*keeps))
    }

    /// Takes note of what a store keeps.
    pub(crate) fn set_peer_retention(&mut self, node: Id, keeps: RetentionBounds) {
        self.peer_retention.insert(node, keeps);
    }

    /// When the last pass that came to its end began.
    pub(crate) fn last_pass_started_at(&self) -> Option<Millis> {
        self.last_pass_started_at
    }

    /// The marks of stores that are lost and were made good.
    pub(crate) fn re_replicated_fingerprints(&self) -> Vec<u64> {
        self.monitor.re_replicated_fingerprints()
    }

    /// The spans that the pass under way has not come to yet.
    pub(crate) fn remaining_ranges(&self) -> Vec<TimeRange> {
        // Of what was put off with ids of its own, little is left.
        let ranges = self.pass.iter().flat_map(|pass| pass.ranges.iter()).filter(|leg| leg.only_ids.is_none());
        ranges.map(|leg| leg.range).collect()
    }

    /// Takes note of how much is left of the pass under way.
    pub(crate) fn sample_rate(&mut self, now: Duration, left_bytes: u64) {
        if let Some(pass) = &mut self.pass {
            pass.rate.get_or_insert_with(|| PassRate::new(now, left_bytes)).sample(now, left_bytes);
        }
    }

    /// How it is getting on, when so much is left of the pass under way.
    pub(crate) fn status(&self, now: Duration, left_bytes: u64) -> RepairStatus {
        let ranges = || self.pass.iter().flat_map(|pass| pass.ranges.iter()).chain(self.hints.iter());
        let known = ranges()
            .filter(|leg| leg.is_under_replicated)
            .filter_map(|leg| leg.only_ids.as_ref())
            .map(|only| only.len());
        let missing =
            self.pass.as_ref().map_or(0, |pass| pass.under_replicated_records).max(self.under_replicated_records);
        let front = self.pass.as_ref().and_then(|pass| pass.ranges.iter().next());
        let missing = missing + known.sum::<u64>();
        let awaited = self.monitor.awaited();
        let waits = || awaited.first().filter(|_| self.pass.is_some()).map(|store| RepairBlocker::Awaited(*store));
        let few = || (missing > 0).then_some(RepairBlocker::TooFewStores);
        let pace = self.pass.as_ref().and_then(|pass| pass.rate);
        RepairStatus {
            began: self.pass.as_ref().map(|pass| pass.began),
            position: front.map(|leg| Millis(leg.range.to.0.min(Millis::MAX.0))),
            last_pass_started_at: self.last_pass_started_at,
            remaining_bytes: if self.pass.is_some() { left_bytes } else { 0 },
            bytes_per_second: pace.map_or(0, |pace| pace.bytes_per_second(now, left_bytes)),
            under_replicated_records: missing,
            deferred_ranges: ranges().filter(|leg| leg.ready_at > Duration::ZERO).count(),
            blocked_by: waits().or_else(|| ranges().find_map(|leg| leg.blocked_by)).or_else(few),
            lost_stores: self.monitor.lost(),
            unrepaired_stores: self.monitor.unrepaired(),
            lost_bytes_max: self.monitor.lost_bytes_max() + self.pass.as_ref().map_or(0, |pass| pass.lost_bytes_max),
            awaited_stores: awaited,
            ..RepairStatus::default()
        }
    }
}

impl RepairTask {
    pub(crate) fn is_hint(&self) -> bool {
        self.is_hint
    }
}

#[cfg(test)]
mod tests;
