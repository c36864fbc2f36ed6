//! Periodic work: closes old segments, removes committed ones, checks the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::metrics::{DAMAGED, SegmentStateLabels};
use crate::queue::Queue;
use crate::segment::{QueueSegment, SegmentState};
use crate::segment_file::FileTarget;
use crate::stall::StallGuard;

/// The grace period while the disk is full. Readers have the file open, and its space is needed.
const GRACE_WHEN_HALTED: Duration = Duration::from_secs(1);

impl Queue {
    /// Closes old segments, removes committed ones after their grace period and checks the disk. To be called about ten times a
    /// second.
    pub fn tick(&self) {
        let now = self.env.clock.uptime();
        let _begun = StallGuard::start(&self.stall.tick, now);
        // Stores take only closed segments. When the memory for segments is used up, active segments are closed by age again.
        let closes_by_age = !self.index_memory.is_half_full() || self.has_too_many_segments();
        for slot in self.append_slots() {
            {
                let mut state = slot.lock();
                let age = state.active.as_ref().map(|active| now.saturating_sub(active.segment.opened_at()));
                if age.is_some_and(|age| age >= self.config.segment_age_max) && closes_by_age {
                    state.close_active();
                }
            }
            self.seal_closed(slot);
        }
        let grace = self.grace();
        let mut segments = self.readable_segments();
        self.inspect_failed_reads(&segments);
        segments.retain(|segment| !self.expire(segment, now, grace));
        self.update_index_memory(&segments);
        self.check_disk();
        self.record_boot();
        self.update_metrics(&segments);
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

    /// Whether too many segments wait for stores.
    pub(crate) fn has_too_many_segments(&self) -> bool {
        self.index_memory.is_full()
    }

    fn update_index_memory(&self, segments: &[Arc<QueueSegment>]) {
        let bytes = self.index_memory.update(segments, self.config.index_bytes_max);
        self.metrics.index_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn grace(&self) -> Duration {
        let (usual, shared) = (self.config.committed_grace, self.config.committed_grace_remote);
        match (self.has_remote_stores.load(Ordering::Relaxed), self.is_halted()) {
            (false, false) => usual,
            (false, true) => usual.min(GRACE_WHEN_HALTED),
            (true, false) => usual.max(shared),
            (true, true) => shared / 2,
        }
    }

    /// Sets whether stores of other nodes fetch segments.
    pub fn set_has_remote_stores(&self, has_remote_stores: bool) {
        self.has_remote_stores.store(has_remote_stores, Ordering::Relaxed);
    }

    fn update_metrics(&self, segments: &[Arc<QueueSegment>]) {
        let backlog = self.backlog_of(segments);
        self.update_halt_metrics();
        self.metrics.damaged_keys.set(i64::try_from(self.damaged_keys()).unwrap_or(i64::MAX));
        self.metrics.update_consumed_ratio();
        self.metrics.pending_bytes.set(i64::try_from(backlog.text_bytes).unwrap_or(i64::MAX));
        self.metrics.oldest_pending_seconds.set(backlog.oldest_age.as_secs_f64());
        let mut counts = BTreeMap::from(SegmentState::ALL.map(|state| (state, 0)));
        segments.iter().for_each(|segment| *counts.entry(segment.state()).or_default() += 1);
        for (state, count) in counts {
            self.metrics.segments.get_or_create(&SegmentStateLabels { state: state.name() }).set(count);
        }
        let damaged = self.damaged_files().len();
        self.metrics.segments.get_or_create(&SegmentStateLabels { state: DAMAGED }).set(damaged as i64);
    }
}
