//! Periodic work: closes old segments, removes committed ones and frees their blocks, checks the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::{lock, set_gauge};

use crate::metrics::DAMAGED;
use crate::queue::Queue;
use crate::segment::{QueueSegment, SegmentState};
use crate::segment_file::FileTarget;

/// The grace period while the queue is halted. Readers have the file open, and its space may be needed.
const GRACE_WHEN_HALTED: Duration = Duration::from_secs(1);

impl Queue {
    /// Closes old segments, removes committed ones after their grace period and checks the disk. To be called about ten times a
    /// second.
    pub fn tick(&self) {
        let now = self.env.clock.uptime();
        let _running = self.ticking.start(now);
        if self.index_memory.closes_by_age() && self.closes_by_age.load(Ordering::Relaxed) {
            let is_old = |active: &QueueSegment| now.saturating_sub(active.opened_at) >= self.config.segment_age_max;
            self.append_slots().for_each(|slot| slot.close_if(is_old));
        }
        self.append_slots().for_each(|slot| self.seal_closed(slot));
        if self.durable_slot.state().active.is_none() {
            self.discard_next();
        }
        let grace = self.grace();
        let mut segments = self.readable_segments();
        self.inspect_failed_reads(&segments);
        let removed: Vec<Arc<QueueSegment>> =
            segments.extract_if(.., |segment| self.expire(segment, now, grace)).collect();
        self.free_blocks(removed);
        let index_bytes = self.index_memory.update(&segments, self.config.index_bytes_max);
        self.metrics.index_bytes.set(i64::try_from(index_bytes).unwrap_or(i64::MAX));
        self.check_disk();
        self.record_boot();
        self.update_metrics(&segments);
    }

    /// Frees blocks of segments that are removed now, and of those before.
    fn free_blocks(&self, removed: Vec<Arc<QueueSegment>>) {
        let mut waiting = lock(&self.removed_files);
        if self.is_halted() {
            // The disk may be full.
            waiting.clear();
            return;
        }
        // Otherwise a power cut could restore the name of a file that is cut by then.
        if !removed.is_empty() && self.env.fs.sync_dir(&self.dir).is_ok() {
            removed.into_iter().for_each(|segment| waiting.push(segment));
        }
        waiting.free_some();
    }

    /// Removes a committed segment after its grace period, and releases one whose lease has expired. Returns whether the segment
    /// was removed.
    fn expire(&self, segment: &QueueSegment, now: Duration, grace: Duration) -> bool {
        let (committed_at, lease) = {
            let contents = segment.contents();
            (contents.committed_at, contents.lease)
        };
        if committed_at.is_some_and(|at| now.saturating_sub(at) >= grace) {
            return self.move_file(segment, FileTarget::Removed);
        }
        if lease.is_some_and(|lease| lease.expires_at <= now) {
            self.expire_lease(segment, now);
        }
        false
    }

    fn grace(&self) -> Duration {
        let (local, remote) = (self.config.committed_grace, self.config.committed_grace_remote);
        match (self.has_remote_stores.load(Ordering::Relaxed), self.is_halted()) {
            (false, false) => local,
            (false, true) => local.min(GRACE_WHEN_HALTED),
            (true, false) => local.max(remote),
            (true, true) => remote / 2,
        }
    }

    /// Sets whether segments are closed by age, as they are from the start. A consumer with a backlog turns that off: it has
    /// no use for further small segments, each of which takes a file descriptor.
    pub fn set_closes_by_age(&self, closes_by_age: bool) {
        self.closes_by_age.store(closes_by_age, Ordering::Relaxed);
    }

    /// Sets whether stores of other nodes fetch segments.
    pub fn set_has_remote_stores(&self, has_remote_stores: bool) {
        self.has_remote_stores.store(has_remote_stores, Ordering::Relaxed);
    }

    /// Measures the text in the queue that is not committed. Also called at each scrape, so that the metric has its present
    /// value beside the counters.
    pub fn update_queued_bytes(&self) {
        self.set_queued_bytes(&self.readable_segments());
    }

    fn set_queued_bytes(&self, segments: &[Arc<QueueSegment>]) {
        let queued_bytes = segments.iter().map(|segment| {
            let contents = segment.contents();
            if contents.state == SegmentState::Committed { 0 } else { contents.reach.text_bytes }
        });
        set_gauge(&self.metrics.queued_bytes, queued_bytes.sum());
    }

    fn update_metrics(&self, segments: &[Arc<QueueSegment>]) {
        let backlog = self.backlog_of(segments);
        self.update_halt_metrics();
        self.set_queued_bytes(segments);
        self.metrics.damaged_keys.set(i64::try_from(self.damaged_keys()).unwrap_or(i64::MAX));
        self.metrics.update_consumed_ratio();
        self.metrics.pending_bytes.set(i64::try_from(backlog.text_bytes).unwrap_or(i64::MAX));
        self.metrics.oldest_pending_seconds.set(backlog.oldest_age.as_secs_f64());
        let count = |state| segments.iter().filter(|segment| segment.state() == state).count();
        let counts = SegmentState::ALL.map(|state| (state.name(), count(state)));
        for (state, count) in counts.into_iter().chain([(DAMAGED, self.damaged_files().len())]) {
            self.metrics.segments.get_or_create(&[("state", state)]).set(count as i64);
        }
    }
}
