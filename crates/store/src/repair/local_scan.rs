//! Finds the records of a time range in this store, by the rows of its blocks, without their text.

use std::time::Duration;

use bucksaw_env::{lock, to_millis};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::stored::BlockEntry;
use bucksaw_segment::{IdRun, ReadError, StreamSlice};
use serde::{Deserialize, Serialize};

use super::id_set::IdSet;
use super::time_range::TimeRange;
use crate::erasure::FilteredSegment;
use crate::segment_store::SegmentStore;
use crate::store::BlockSource as _;
use crate::stream_retention::rule_age;
use crate::throttle::ThrottledTask;

/// Percentage of `retention_bytes` above which the store retains nothing older than its oldest record.
const FULL_PERCENT: u64 = 90;

/// Repair ignores records in the last tenth of their retention age, at most an hour: stores apply retention at intervals, and
/// their clocks differ.
const EXPIRY_MARGIN_DIVISOR: u64 = 10;
const EXPIRY_MARGIN_MAX_MS: u64 = 3_600_000;

/// The age and the time from which a store retains records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RetentionBounds {
    /// Records whose time and arrival are older than this are removed, in milliseconds.
    pub(crate) age_ms: Option<u64>,
    /// Earlier records were removed by retention by size.
    pub(crate) since_ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalScan {
    pub(crate) range: TimeRange,
    pub(crate) now: Millis,
    /// Records that arrived within this time are fresh.
    pub(crate) fresh_age_max: Duration,
    /// Records outside these bounds are ignored.
    pub(crate) retention: RetentionBounds,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LocalIds {
    /// Records that are not fresh.
    pub(crate) ids: IdSet,
    /// Fresh records, whose replicas may still be in transit.
    pub(crate) fresh: IdSet,
    pub(crate) bytes: u64,
    /// Some blocks could not be read because the disk failed; they are not known to be damaged.
    pub(crate) is_incomplete: bool,
}

impl RetentionBounds {
    /// The records that both retain.
    pub(crate) fn intersect(self, other: Self) -> Self {
        let ages = [self.age_ms, other.age_ms];
        Self { age_ms: ages.into_iter().flatten().min(), since_ms: self.since_ms.max(other.since_ms) }
    }

    /// Whether a record is retained and does not expire soon.
    fn is_retained(self, at: Millis, accepted: Millis, now: Millis) -> bool {
        let expires_soon = |age_ms: u64| {
            let margin = (age_ms / EXPIRY_MARGIN_DIVISOR).min(EXPIRY_MARGIN_MAX_MS);
            at.max(accepted) < now.saturating_sub(age_ms - margin)
        };
        at.0 >= self.since_ms && !self.age_ms.is_some_and(expires_soon)
    }
}

impl LocalScan {
    /// The same for streams that are kept for this age.
    fn with_age(self, age: Option<Duration>) -> Self {
        Self { retention: RetentionBounds { age_ms: age.map(to_millis), ..self.retention }, ..self }
    }

    fn matches(&self, run: &IdRun, accepted: Millis) -> bool {
        // All rows of a run have one time.
        self.range.contains(run.first_id) && self.retention.is_retained(run.first_id.time(), accepted, self.now)
    }

    fn is_fresh(&self, since: Millis) -> bool {
        // In both directions, so that a wrong clock does not make records fresh for ever.
        u128::from(self.now.0.abs_diff(since.0)) < self.fresh_age_max.as_millis()
    }
}

impl SegmentStore {
    pub(crate) fn retention_bounds(&self) -> RetentionBounds {
        let age_ms = self.config.retention_age.map(to_millis);
        let segments = self.segments();
        let is_full = |limit: u64| self.file_bytes() >= limit / 100 * FULL_PERCENT;
        let oldest = self.config.retention_bytes.filter(|limit| is_full(*limit)).and_then(|_| segments.first());
        let oldest = oldest.map_or(0, |segment| segment.reach().low.time().0);
        RetentionBounds { age_ms, since_ms: oldest.max(lock(&self.evicted_until).0) }
    }

    /// The readable records of a range. With `verify`, the checksums of all blocks that begin in the range are verified first.
    pub(crate) fn scan_local_ids(&self, bounds: &LocalScan, verify: bool, throttle: &ThrottledTask<'_>) -> LocalIds {
        let mut found = LocalIds::default();
        let (segments, erasures) = (self.segments(), self.erasures.set());
        for segment in segments.iter() {
            let filtered = FilteredSegment::of(segment, &erasures);
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
                let slices = match filtered.as_ref().map_or_else(|| segment.slices(block), |own| own.slices(block)) {
                    Ok(slices) => slices,
                    Err(error) => {
                        found.is_incomplete |= !matches!(error, ReadError::Damaged { .. });
                        continue;
                    }
                };
                let ids = if is_fresh { &mut found.fresh } else { &mut found.ids };
                for StreamSlice { labels, rows, .. } in slices {
                    let bounds = match rule_age(&self.config.retention_labels, &labels) {
                        Some(age) => bounds.with_age(*age),
                        None => *bounds,
                    };
                    let wanted = rows.runs.iter().filter(|run| bounds.matches(run, rows.accepted));
                    wanted.for_each(|run| ids.add(run.first_id, run.count));
                }
            }
        }
        found.fresh = found.fresh.difference(&found.ids);
        found
    }

    /// Those of `asked` that are in the range and readable.
    pub(crate) fn held_ids(&self, range: TimeRange, asked: &IdSet) -> IdSet {
        let (mut held, erasures) = (IdSet::default(), self.erasures.set());
        for segment in self.segments().iter() {
            let filtered = FilteredSegment::of(segment, &erasures);
            for (block, entry) in self.sound_blocks_in(segment, range) {
                if !asked.producers().any(|producer| entry.summary.may_contain_producer(producer)) {
                    continue;
                }
                let rows = |slices: Vec<StreamSlice>| slices.into_iter().map(|slice| slice.rows).collect();
                let chunks = filtered.as_ref().map_or_else(|| segment.rows(block), |own| own.slices(block).map(rows));
                let Ok(chunks) = chunks else { continue };
                let runs = chunks.iter().flat_map(|rows| &rows.runs);
                let requested =
                    runs.filter(|run| range.contains(run.first_id) && asked.has_producer(run.first_id.producer()));
                requested.for_each(|run| held.add(run.first_id, run.count));
            }
        }
        asked.intersection(&held)
    }

    /// The undamaged blocks of a segment that may have records of a range.
    pub(crate) fn sound_blocks_in<'a>(
        &self,
        segment: &'a crate::StoredSegment,
        range: TimeRange,
    ) -> impl Iterator<Item = (usize, &'a BlockEntry)> + use<'a> {
        let overlaps = move |reach: &bucksaw_segment::RecordSummary| range.overlaps(reach.low, reach.high);
        let blocks: &[BlockEntry] = if overlaps(segment.reach()) { &segment.footer().blocks } else { &[] };
        let overlapping = (0..).zip(blocks).filter(move |(_, entry)| overlaps(&entry.summary));
        overlapping.filter(|(block, _)| !segment.is_block_damaged(*block))
    }

    /// Records the time up to which retention by size has removed records.
    pub(crate) fn record_evicted_until(&self, high: Id) {
        let mut evicted_until = lock(&self.evicted_until);
        *evicted_until = (*evicted_until).max(high.time());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    #[test]
    fn records_about_to_expire_are_not_retained() {
        let check = |bounds: RetentionBounds, at: u64, accepted: u64, want| {
            let now = Millis(1_000 * HOUR);
            assert_eq!(
                bounds.is_retained(Millis(at * HOUR), Millis(accepted * HOUR), now),
                want,
                "{bounds:?} {at} {accepted}"
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
    fn records_are_fresh_within_the_margin() {
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
