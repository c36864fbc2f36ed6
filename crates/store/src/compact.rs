//! Compaction: merges small and overlapping segments into larger ones that do not overlap, and recompresses segments that
//! were stored with the quick codec. Records do not change; streams that are past a retention of their own are left out.

use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::RecordSummary;
use bucksaw_segment::stored::{MergeInfo, ReplicaGroup, SegmentOrigin};
use tracing::debug;

use crate::erasure::ErasedCounts;
use crate::error::StoreError;
use crate::merge::{MergeOutput, SegmentMerge};
use crate::plan::{MergeCandidate, MergeLimits, MergePlan, plan};
use crate::segment_store::{SegmentDraft, SegmentStore};
use crate::store::Store;
use crate::stored_segment::StoredSegment;
use crate::stream_retention::StreamRetention;
use crate::temp_file::new_id;
use crate::unit::{MergeUnit, UnitReader};

/// Age, in milliseconds, up to which a queue segment may be part of a query's snapshot. Snapshots are far shorter than an
/// hour.
const SOURCE_AGE_MAX_MS: u64 = 3_600_000;

/// Writes a merge into files of the target size. None is sealed before all are written, because each states their number.
struct CompactionOutput<'a> {
    store: &'a SegmentStore,
    full: Vec<SegmentDraft>,
    current: Option<SegmentDraft>,
    /// The mergeable bytes when the merge began.
    mergeable_bytes: u64,
    version: u32,
    group: Option<ReplicaGroup>,
}

impl MergeOutput for CompactionOutput<'_> {
    fn draft(&mut self) -> Result<&mut SegmentDraft, StoreError> {
        // A long merge lowers the backlog while it runs.
        let drafts = self.full.iter().chain(&self.current);
        let merged_bytes = drafts.map(|draft| draft.writer.summary().text_bytes).sum();
        self.store.backlog.set_mergeable(self.mergeable_bytes.saturating_sub(merged_bytes));
        let target = self.store.config.segment_bytes;
        self.full.extend(self.current.take_if(|draft| draft.writer.summary().text_bytes >= target));
        match &mut self.current {
            Some(draft) => Ok(draft),
            none => Ok(none.insert(self.store.create_draft(self.version, self.group)?)),
        }
    }
}

impl SegmentStore {
    /// Does the next merge, if one is due and its output fits on the disk. Returns the bytes of text that it rewrote, or 0.
    /// Polls `is_stopped` between blocks. For one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has changed.
    pub fn compact(&self, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        let (inputs, mergeable_bytes) = self.plan_merge();
        if inputs.is_empty() {
            return Ok(0);
        }
        let merged = self.merge(&inputs, mergeable_bytes, is_stopped);
        // What is still due, also after a failure.
        self.plan_merge();
        match &merged {
            Ok(text_bytes) => {
                self.metrics.compactions.inc();
                self.metrics.compacted_bytes.inc_by(*text_bytes);
                debug!(segments = inputs.len(), text_bytes, "merged segments");
            }
            Err(StoreError::Stopped) => {}
            Err(_) => {
                self.metrics.compact_failed.inc();
                // Newly found damage is counted now; the next attempt comes later.
                self.update_metrics();
            }
        }
        merged
    }

    /// The inputs of the next merge, and the bytes of text that are due to be merged, which are the backlog from now on.
    pub(crate) fn plan_merge(&self) -> (Vec<Arc<StoredSegment>>, u64) {
        let segments = self.segments();
        let intact =
            segments.iter().filter(|segment| segment.damaged_block_count() == 0 && !segment.reach().is_empty());
        let retention = self.trusted_retention();
        let candidates: Vec<MergeCandidate> = intact.map(|segment| self.candidate(segment, &retention)).collect();
        let MergePlan { chosen, mergeable_bytes } = plan(&candidates, self.merge_limits());
        self.backlog.set_mergeable(mergeable_bytes);
        let inputs = segments.iter().filter(|segment| chosen.contains(&segment.id())).cloned().collect();
        (inputs, mergeable_bytes)
    }

    /// Replaces segments by others with the same records, except those that are past a retention of their own or erased.
    pub(crate) fn merge(
        &self,
        inputs: &[Arc<StoredSegment>],
        mergeable_bytes: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError> {
        let units: Vec<MergeUnit> = inputs.iter().flat_map(MergeUnit::blocks).collect();
        let is_backlogged = || self.is_backlogged();
        let throttle = &self.merge_throttle.begin(Some(&is_backlogged));
        let text_bytes: u64 = inputs.iter().map(|input| input.reach().text_bytes).sum();
        let (block_bytes, recompress_codec) = (self.config.full_block_bytes(), self.config.recompress_codec());
        // Less than half a block will be merged again.
        let is_final = text_bytes >= block_bytes / 2;
        let codec = if is_final { self.config.codec_final } else { self.config.codec_quick };
        let merge = SegmentMerge { text_bytes, block_bytes, codec, recompress_codec, throttle, is_stopped };
        let version = MergeUnit::version_of(&units);
        // All have the same, as planned.
        let group = inputs.first().and_then(|input| input.replica_group());
        let group = group.filter(|group| inputs.iter().all(|input| input.replica_group() == Some(*group)));
        let (full, current) = (Vec::new(), None);
        let mut output = CompactionOutput { store: self, full, current, mergeable_bytes, version, group };
        // An erasure that comes later is newer than what the inputs were checked for, so the outputs are scanned for it.
        let checked = inputs.iter().map(|input| input.erasures_checked()).min().unwrap_or_default();
        let erased = ErasedCounts::default();
        let reader = UnitReader::retaining(self.trusted_retention()).without(self.erasures.set(), erased.clone());
        merge.run(reader, units, &mut output)?;
        let sealed = self.seal_all(output.full.into_iter().chain(output.current).collect(), inputs)?;
        let stored = self.sync_and_open(&sealed)?;
        stored.iter().for_each(|segment| segment.set_erasures_checked(checked));
        let ids: Vec<Id> = inputs.iter().map(|input| input.id()).collect();
        self.replace_segments(&stored, &ids);
        for input in inputs {
            self.remove_file(input.reader().path());
        }
        self.erasures.add_counts(erased.take(), inputs.len() as u64);
        Ok(text_bytes)
    }

    fn seal_all(&self, drafts: Vec<SegmentDraft>, inputs: &[Arc<StoredSegment>]) -> Result<Vec<PathBuf>, StoreError> {
        let origin = SegmentOrigin {
            sources: self.sources_of(inputs),
            merge: Some(MergeInfo {
                id: new_id(&self.env),
                output_count: drafts.len() as u32,
                inputs: inputs.iter().map(|input| input.id()).collect(),
            }),
        };
        let mut sealed: Vec<PathBuf> = Vec::new();
        for draft in drafts {
            match self.seal(draft, origin.clone()) {
                Ok(path) => sealed.push(path),
                Err(error) => {
                    sealed.iter().for_each(|path| self.remove_file(path));
                    return Err(error);
                }
            }
        }
        Ok(sealed)
    }

    /// The queue segments whose records are in the inputs and that queries may still see in the queue.
    fn sources_of(&self, inputs: &[Arc<StoredSegment>]) -> Vec<Id> {
        let since = self.now().saturating_sub(SOURCE_AGE_MAX_MS);
        let sources = inputs.iter().flat_map(|input| &input.footer().sources);
        sources.filter(|source| source.time() >= since).copied().collect()
    }

    fn candidate(&self, segment: &StoredSegment, retention: &StreamRetention) -> MergeCandidate {
        let RecordSummary { low, high, text_bytes, .. } = *segment.reach();
        // Smaller segments are recompressed when they are merged.
        let needs_recompression =
            segment.is_quickly_packed(self.config.recompress_codec()) && text_bytes >= self.config.full_block_bytes();
        let blocks = segment.footer().blocks.iter();
        let open_bytes = blocks.map(|block| block.summary.text_bytes + block.packed_bytes()).max().unwrap_or(0);
        MergeCandidate {
            id: segment.id(),
            group: segment.replica_group(),
            low,
            high,
            text_bytes,
            file_bytes: segment.file_bytes(),
            open_bytes,
            needs_rewrite: needs_recompression || segment.has_expired_streams(retention),
            has_old_key: self.has_old_key(segment),
        }
    }

    fn merge_limits(&self) -> MergeLimits {
        MergeLimits {
            target_bytes: self.config.segment_bytes,
            open_bytes_max: self.config.merge_bytes_max,
            room_bytes: self.room_for_merging(),
        }
    }
}
