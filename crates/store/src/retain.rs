//! Retention: moves segments that are too old, or too many, to the trash, from which they are removed later.
//!
//! A segment is too old if both its newest record and its newest arrival are. So records that are loaded late stay as long
//! as others, whatever their time. Answers apply the same rule at once, block by block: see [`SegmentStore::answers_since`].
//!
//! Streams may have another age, by their labels. A segment is then too old if each of its blocks is, and a block if all of its
//! streams are. From other segments compaction removes the streams that are too old: when it merges them, or alone, once a
//! stream of the segment is too old in all of its blocks.
//!
//! After the wall clock jumps forward, retention by age is suspended: see [`crate::clock_guard`]. Retention by size removes
//! the oldest segments first and never the newest, even if that alone exceeds the limit.

use std::sync::Arc;

use bucksaw_env::{lock, log_limited, to_millis};
use bucksaw_ingest::Queue;
use bucksaw_record::Millis;

use crate::segment_store::SegmentStore;
use crate::stored_segment::StoredSegment;
use crate::stream_retention::StreamRetention;

impl SegmentStore {
    /// Moves expired segments to the trash, removes old files from the trash, and more of them while the disk is full. The
    /// queue forgets expired segments.
    pub fn retain(&self, queue: &Queue) {
        let is_trusted = self.trusts_clock();
        let expired = self.expired(is_trusted);
        let moved = expired.iter().filter(|segment| self.expire(segment, queue));
        let (segments, bytes) = moved.fold((0_u64, 0), |(count, sum), segment| (count + 1, sum + segment.file_bytes()));
        if segments > 0 {
            log_limited!(
                self.log_limits,
                info,
                segments,
                bytes,
                "segments are past their retention: moved to the trash"
            );
        }
        if segments > 0 {
            // Expired segments are no longer due to be merged.
            self.plan_merge();
        }
        // An open file occupies disk space even if it is removed.
        drop(expired);
        self.empty_trash(queue.is_full(), is_trusted);
        self.update_metrics();
    }

    /// The time before which records are past their retention by age; `None` without a retention age.
    fn age_limit(&self) -> Option<Millis> {
        Some(self.now().saturating_sub(to_millis(self.config.retention_age?)))
    }

    /// See [`Store::answers_since`](crate::Store::answers_since). Blocks that contain only older records may
    /// still exist.
    pub fn answers_since(&self) -> Option<Millis> {
        self.age_limit().filter(|_| lock(&self.clock_guard).would_trust(self.now(), self.env.clock.uptime()))
    }

    /// When the records of each stream are past their retention; never while the clock is not trusted.
    pub(crate) fn trusted_retention(&self) -> StreamRetention {
        match lock(&self.clock_guard).would_trust(self.now(), self.env.clock.uptime()) {
            true => self.current_retention(),
            false => StreamRetention::default(),
        }
    }

    fn current_retention(&self) -> StreamRetention {
        StreamRetention::at(self.now(), &self.config.retention_labels, self.config.retention_age)
    }

    /// Whether the disk is full and [`Self::retain`] would remove something.
    pub(crate) fn is_retention_urgent(&self, queue: &Queue) -> bool {
        queue.is_full() && (!self.trashed().is_empty() || self.has_expired())
    }

    fn has_expired(&self) -> bool {
        let segments = self.segments();
        let is_over = |limit| segments.len() > 1 && self.file_bytes() > limit;
        let retention = self.trusted_retention();
        self.config.retention_bytes.is_some_and(is_over)
            || segments.iter().any(|segment| segment.is_expired(&retention))
    }

    fn expired(&self, is_trusted: bool) -> Vec<Arc<StoredSegment>> {
        let segments = self.segments();
        let mut expired: Vec<Arc<StoredSegment>> = Vec::new();
        if is_trusted {
            let retention = self.current_retention();
            expired.extend(segments.iter().filter(|segment| segment.is_expired(&retention)).cloned());
        }
        if let Some(limit) = self.config.retention_bytes {
            let mut bytes = self.file_bytes();
            let mut oldest_first: Vec<&Arc<StoredSegment>> = segments.iter().collect();
            oldest_first.sort_by_key(|segment| segment.reach().high);
            // The newest stays: one segment that is larger than the limit must not empty the store.
            oldest_first.pop();
            for segment in oldest_first {
                if bytes <= limit {
                    break;
                }
                bytes -= segment.file_bytes();
                self.record_evicted_until(segment.reach().high);
                if !expired.iter().any(|other| other.id() == segment.id()) {
                    expired.push(Arc::clone(segment));
                }
            }
        }
        expired
    }

    /// Removes a segment from the store. The queue forgets its sources first, so that a concurrent answer finds the records in
    /// the store, and no later answer finds them in the queue.
    fn expire(&self, segment: &StoredSegment, queue: &Queue) -> bool {
        queue.forget(&segment.footer().sources);
        let path = segment.reader().path();
        // A damaged file stays for inspection, unless its records are re-replicated.
        let moved = match segment.damage().filter(|damage| !damage.is_re_replicated()) {
            None => self.expire_to_trash(segment),
            Some(_) => self.env.fs.rename(path, &path.with_extension("damaged")),
        };
        match &moved {
            Ok(()) => {
                self.remove_damage_file(segment);
                self.replace_segments(&[], &[segment.id()]);
                self.metrics.expired_segments.inc();
                self.metrics.expired_bytes.inc_by(segment.file_bytes());
            }
            Err(error) => {
                log_limited!(self.log_limits, warn, path = %path.display(), %error, "cannot move an expired segment to the trash");
            }
        }
        moved.is_ok()
    }
}
