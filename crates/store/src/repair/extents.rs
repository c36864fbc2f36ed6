//! How much of a store lies in a time range.

use super::time_range::{BlockExtent, TimeRange};
use crate::segment_store::SegmentStore;
use crate::stored_segment::StoredSegment;

/// Approximate number of records in a maximum range.
const RECORDS_MAX: u64 = 1 << 18;

impl SegmentStore {
    /// Estimated bytes of files in these ranges, assuming evenly distributed records in each segment.
    pub(crate) fn bytes_in(&self, ranges: &[TimeRange]) -> u64 {
        if ranges.is_empty() {
            return 0;
        }
        let segments = self.segments();
        let extent = |segment: &StoredSegment| {
            let reach = segment.reach();
            BlockExtent { low: reach.low.time().0, high: reach.high.time().0, weight: segment.file_bytes() as f64 }
        };
        let extents = segments.iter().map(|segment| extent(segment));
        let inside = |extent: BlockExtent| {
            ranges.iter().map(|range| extent.fraction_in(range.from.0, range.to.0.saturating_sub(1))).sum::<f64>()
                * extent.weight
        };
        extents.map(inside).sum::<f64>() as u64
    }

    /// Estimated bytes of files of `records` records, assuming equal sizes.
    pub(crate) fn bytes_of(&self, records: u64) -> u64 {
        if records == 0 {
            return 0;
        }
        let segments = self.segments();
        let all = segments.iter().map(|segment| segment.reach().records).sum::<u64>().max(1);
        (self.file_bytes() as f64 * records as f64 / all as f64) as u64
    }

    pub(crate) fn extents(&self) -> Vec<BlockExtent> {
        let text_bytes_max = self.config.repair.range_bytes.min(self.config.segment_bytes).max(1);
        let segments = self.segments();
        let blocks = segments.iter().flat_map(|segment| &segment.footer().blocks);
        let extent = |reach: &bucksaw_segment::RecordSummary| {
            let records = reach.records as f64 / RECORDS_MAX as f64;
            let text = reach.text_bytes as f64 / text_bytes_max as f64;
            BlockExtent { low: reach.low.time().0, high: reach.high.time().0, weight: records.max(text) }
        };
        blocks.map(|block| extent(&block.summary)).collect()
    }
}
