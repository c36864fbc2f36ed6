//! Extracts records into a temporary segment that is sent to other stores.

use std::sync::Arc;

use bucksaw_segment::stored::{Reader, SegmentOrigin};

use super::id_set::IdSet;
use super::time_range::TimeRange;
use crate::erasure::ErasedCounts;
use crate::error::StoreError;
use crate::merge::SegmentMerge;
use crate::segment_store::{SegmentDraft, SegmentStore};
use crate::store::Store;
use crate::stored_segment::StoredSegment;
use crate::temp_file::TempFile;
use crate::unit::{MergeUnit, UnitReader};

/// A temporary segment. Its file is removed on drop.
#[derive(Debug)]
pub(crate) struct ExtractedSegment {
    pub(crate) stored: Arc<StoredSegment>,
    _file: TempFile,
}

impl SegmentStore {
    /// Writes those records of a range that are in `ids` to a segment; `None` if none of them is stored any more.
    ///
    /// # Errors
    /// [`StoreError`]; no file remains.
    pub(crate) fn extract(&self, range: TimeRange, ids: &Arc<IdSet>) -> Result<Option<ExtractedSegment>, StoreError> {
        let is_backlogged = || self.is_backlogged();
        let throttle = &self.repair_throttle.begin(Some(&is_backlogged));
        let (mut units, mut text_bytes) = (Vec::new(), 0.0);
        for segment in self.segments().iter() {
            for (block, entry) in self.sound_blocks_in(segment, range) {
                if !ids.producers().any(|producer| entry.summary.may_contain_producer(producer)) {
                    continue;
                }
                let rows = segment.rows(block).map_err(StoreError::input(segment.id()))?;
                let runs = rows.iter().flat_map(|rows| &rows.runs).filter(|run| range.contains(run.first_id));
                let wanted: u64 = runs.map(|run| ids.count_in(run)).sum();
                if wanted > 0 {
                    units.extend(MergeUnit::filtered_block(segment, block, wanted == entry.summary.records));
                    text_bytes += entry.summary.text_bytes as f64 * wanted as f64 / entry.summary.records.max(1) as f64;
                }
            }
        }
        if units.is_empty() {
            return Ok(None);
        }
        let stays = text_bytes >= self.config.full_block_bytes() as f64;
        let codec = if stays { self.config.codec_final } else { self.config.codec_quick };
        let merge = SegmentMerge::of(text_bytes as u64, self.config.full_block_bytes(), codec, throttle);
        let mut output = self.create_draft(MergeUnit::version_of(&units), None)?;
        let inputs = UnitReader::filtered(range, Arc::clone(ids)).without(self.erasures.set(), ErasedCounts::default());
        merge.run(inputs, units, &mut output)?;
        if output.writer.summary().is_empty() {
            return Ok(None);
        }
        // Without sources: it does not have all records of the queue segments that these come from.
        let SegmentDraft { writer, file } = output;
        writer.seal(SegmentOrigin::default()).map_err(StoreError::io("write", &file.path))?;
        let opened = self.env.fs.open(&file.path).map_err(StoreError::io("open", &file.path))?;
        let reader = Reader::open(opened, &file.path).map_err(StoreError::ReadBack)?;
        Ok(Some(ExtractedSegment { stored: Arc::new(StoredSegment::new(reader)), _file: file }))
    }
}
