//! Looking which records of a window lie on this store, by the rows of its blocks and without their text.

use std::time::Duration;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::stored::BlockEntry;
use bucksaw_segment::{IdRun, ReadError};
use serde::{Deserialize, Serialize};

use super::id_set::IdSet;
use super::time_range::TimeRange;
use crate::lock::lock;
use crate::segment_store::SegmentStore;
use crate::throttle::ThrottledTask;

/// A store that is filled to so many hundredths of its `retention_bytes` keeps nothing older than it has.
const FULL_PERCENT: u64 = 90;

/// Records are left alone for a part of their retention before its end, and at most for an hour: stores look at it now and
/// then only, and their clocks differ.
const EXPIRY_MARGIN_DIVISOR: u64 = 10;
const EXPIRY_MARGIN_MAX_MS: u64 = 3_600_000;

/// What a store keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RetentionBounds {
    /// Records whose time, and whose arrival, are longer ago than so many milliseconds are let go.
    pub(crate) age_ms: Option<u64>,
    /// Records of an earlier time were let go for want of room.
    pub(crate) since_ms: u64,
}

/// Which records are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalScan {
    pub(crate) range: TimeRange,
    pub(crate) now: Millis,
    /// What came to the store less long ago is fresh.
    pub(crate) fresh_age_max: Duration,
    /// What any store lets go of is of no interest.
    pub(crate) retention: RetentionBounds,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalIds {
    /// Records that have been here for a while.
    pub(crate) ids: IdSet,
    /// Records that came a moment ago, and others may be about to have.
    pub(crate) fresh: IdSet,
    /// Bytes that were read for it.
    pub(crate) bytes: u64,
    /// Some blocks could not be read now, and are not known to be damaged: the disk failed. What is in them was not looked at.
    pub(crate) is_incomplete: bool,
}

impl RetentionBounds {
    /// What is kept by both.
    pub(crate) fn intersect(self, other: Self) -> Self {
        let ages = [self.age_ms, other.age_ms];
        Self { age_ms: ages.into_iter().flatten().min(), since_ms: self.since_ms.max(other.since_ms) }
    }

    /// Whether a record is kept, and will be for a while.
    fn is_retained(self, at: Millis, accepted: Millis, now: Millis) -> bool {
        let ends = |age_ms: u64| {
            let edge = (age_ms / EXPIRY_MARGIN_DIVISOR).min(EXPIRY_MARGIN_MAX_MS);
            at.max(accepted) < now.saturating_sub(age_ms - edge)
        };
        at.0 >= self.since_ms && !self.age_ms.is_some_and(ends)
    }
}

impl LocalScan {
    fn matches(&self, run: &IdRun, accepted: Millis) -> bool {
        // All rows of a run have one time.
        self.range.contains(run.first_id) && self.retention.is_retained(run.first_id.time(), accepted, self.now)
    }

    fn is_fresh(&self, since: Millis) -> bool {
        // A clock that was wrong must not make them fresh for ever.
        u128::from(self.now.0.abs_diff(since.0)) < self.fresh_age_max.as_millis()
    }
}

impl SegmentStore {
    /// What this store keeps.
    pub(crate) fn retention_bounds(&self) -> RetentionBounds {
        let age_ms = self.config.retention_age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let segments = self.segments();
        let is_full = |limit: u64| self.file_bytes() >= limit / 100 * FULL_PERCENT;
        let oldest = self.config.retention_bytes.filter(|limit| is_full(*limit)).and_then(|_| segments.first());
        let oldest = oldest.map_or(0, |segment| segment.reach().low.time().0);
        RetentionBounds { age_ms, since_ms: oldest.max(lock(&self.evicted_until).0) }
    }

    /// The records of a window that are here and not damaged. With `verify`, all bytes of the blocks that begin in the window
    /// are held against their checksums before.
    pub(crate) fn scan_local_ids(&self, bounds: &LocalScan, verify: bool, throttle: &ThrottledTask<'_>) -> LocalIds {
        let mut found = LocalIds::default();
        let segments = self.segments();
        for segment in segments.iter() {
            let is_fresh = bounds.is_fresh(segment.stored_since());
            for (block, entry) in self.sound_blocks_in(segment, bounds.range) {
                throttle.yield_to_queries(&|| false);
                if verify && bounds.range.contains(entry.summary.low) {
                    found.bytes += entry.packed_bytes();
                    if let Err(error) = segment.verify(block) {
                        found.is_incomplete |= !matches!(error, ReadError::Damaged { .. });
                        continue;
                    }
                }
                found.bytes += entry.rows_bytes();
                let chunks = match segment.rows(block) {
                    Ok(chunks) => chunks,
                    Err(error) => {
                        found.is_incomplete |= !matches!(error, ReadError::Damaged { .. });
                        continue;
                    }
                };
                let ids = if is_fresh { &mut found.fresh } else { &mut found.ids };
                for rows in chunks {
                    rows.runs.iter().filter(|run| bounds.matches(run, rows.accepted)).for_each(|run| ids.add_run(run));
                }
            }
        }
        found.fresh = found.fresh.difference(&found.ids);
        found
    }

    /// Those of some records of a window that are here and not damaged.
    pub(crate) fn held_ids(&self, range: TimeRange, asked: &IdSet) -> IdSet {
        let mut held = IdSet::default();
        for segment in self.segments().iter() {
            for (block, entry) in self.sound_blocks_in(segment, range) {
                if !asked.producers().any(|producer| entry.summary.may_contain_producer(producer)) {
                    continue;
                }
                let Ok(chunks) = segment.rows(block) else { continue };
                let runs = chunks.iter().flat_map(|rows| &rows.runs);
                let of_those =
                    runs.filter(|run| range.contains(run.first_id) && asked.has_producer(run.first_id.producer()));
                of_those.for_each(|run| held.add_run(run));
            }
        }
        asked.intersection(&held)
    }

    /// The sound blocks of a segment that may have records of a window.
    pub(crate) fn sound_blocks_in<'a>(
        &self,
        segment: &'a crate::StoredSegment,
        window: TimeRange,
    ) -> impl Iterator<Item = (usize, &'a BlockEntry)> + use<'a> {
        let touches = move |reach: &bucksaw_segment::RecordSummary| window.overlaps(reach.low, reach.high);
        let blocks: &[BlockEntry] = if touches(segment.reach()) { &segment.footer().blocks } else { &[] };
        let sound = (0..).zip(blocks).filter(move |(_, entry)| touches(&entry.summary));
        sound.filter(|(block, _)| !segment.is_block_damaged(*block))
    }

    /// Takes note that retention let go of records up to a time for want of room.
    pub(crate) fn record_evicted_until(&self, high: Id) {
        let mut let_go = lock(&self.evicted_until);
        *let_go = (*let_go).max(high.time());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn records_about_to_expire_are_not_retained() {
        let check = |keeps: RetentionBounds, at: u64, accepted: u64, want| {
            let now = Millis(1_000 * HOUR);
            assert_eq!(
                keeps.is_retained(Millis(at * HOUR), Millis(accepted * HOUR), now),
                want,
                "{keeps:?} {at} {accepted}"
            );
        };
        let days = RetentionBounds { age_ms: Some(100 * HOUR), since_ms: 0 };
        check(days, 999, 999, true);
        check(days, 901, 901, true);
        check(days, 900, 900, false);
        check(days, 100, 950, true);
        check(RetentionBounds { age_ms: Some(2 * HOUR), since_ms: 0 }, 999, 999, true);
        check(RetentionBounds::default(), 0, 0, true);
        let full = RetentionBounds { age_ms: None, since_ms: 500 * HOUR };
        check(full, 499, 999, false);
        check(full, 500, 500, true);
        let both = days.intersect(full).intersect(RetentionBounds::default());
        assert_eq!(both, RetentionBounds { age_ms: Some(100 * HOUR), since_ms: 500 * HOUR });
        check(RetentionBounds { age_ms: Some(u64::MAX), since_ms: 0 }, 0, 0, true);
    }

    #[test]
    fn fresh_is_what_came_within_the_margin() {
        let bounds = LocalScan {
            range: TimeRange::ALL,
            now: Millis(1_000_000),
            fresh_age_max: Duration::from_secs(100),
            retention: RetentionBounds::default(),
        };
        assert!(
            bounds.is_fresh(Millis(999_999)) && bounds.is_fresh(Millis(900_001)) && bounds.is_fresh(Millis(1_050_000))
        );
        assert!(!bounds.is_fresh(Millis(900_000)) && !bounds.is_fresh(Millis(2_000_000)));
    }
}
