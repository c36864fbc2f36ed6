//! Compaction: segments that are small or overlap are merged into few that are neither, and what was packed quickly when
//! it was first stored is packed well. What the records say stays the same; only where they lie and how changes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_ingest::Queue;
use bucksaw_record::Id;
use bucksaw_segment::RecordSummary;
use bucksaw_segment::stored::{self, SegmentOrigin, Writer};
use tracing::debug;

use crate::error::StoreError;
use crate::gather::{input_error, merge_error};
use crate::merge::{MergeError, MergeOutput, SegmentMerge};
use crate::plan::{MergeCandidate, MergeLimits, MergePlan, plan};
use crate::segment_store::{SegmentDraft, SegmentStore};
use crate::stored_segment::StoredSegment;
use crate::unit::{MergeUnit, UnitReader};

/// A source younger than this may still be in somebody's view of the queue, in milliseconds: an hour is far longer than
/// any view lasts.
const SOURCE_AGE_MAX_MS: u64 = 3_600_000;

/// A merge's records go into files of the target size. None is sealed before all are written: each says how many belong
/// together.
struct CompactionOutput<'a> {
    store: &'a SegmentStore,
    drafts: Vec<SegmentDraft>,
}

impl MergeOutput for CompactionOutput<'_> {
    fn writer(&mut self) -> io::Result<&mut Writer> {
        let target = self.store.config.segment_bytes;
        if self.drafts.last().is_none_or(|draft| draft.writer.summary().text_bytes >= target) {
            self.drafts.push(self.store.create_draft()?);
        }
        match self.drafts.last_mut() {
            Some(draft) => Ok(&mut draft.writer),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl SegmentStore {
    /// Does the next merge, if one is worth it and there is room for what it makes. Returns the bytes of text that went through it; 0 when there is none.
    /// `stopped` is asked between blocks. For one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has changed then.
    pub fn compact(&self, stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        let segments = self.segments();
        let sound = segments.iter().filter(|segment| segment.damaged_block_count() == 0 && !segment.reach().is_empty());
        let candidates: Vec<MergeCandidate> = sound.map(|segment| self.candidate(segment)).collect();
        let MergePlan { chosen, mergeable_bytes: due_bytes } = plan(&candidates, self.merge_limits());
        self.backlog.set_mergeable(due_bytes);
        let inputs: Vec<Arc<StoredSegment>> =
            segments.iter().filter(|segment| chosen.contains(&segment.id())).cloned().collect();
        if inputs.is_empty() {
            return Ok(0);
        }
        let merged = self.merge(&inputs, stopped);
        match &merged {
            Ok(text_bytes) => {
                self.metrics.compactions.inc();
                self.metrics.compacted_bytes.inc_by(*text_bytes);
                debug!(segments = inputs.len(), text_bytes, "merged segments");
            }
            Err(StoreError::Stopped) => {}
            Err(_) => {
                self.metrics.compact_failed.inc();
                // What it met is counted at once: the next try, which counts too, comes late.
                self.update_metrics();
            }
        }
        merged
    }

    /// The same, but a merge is given up where the disk is full and retention has something to remove: that frees room at
    /// once, and what was merged so far takes room.
    ///
    /// # Errors
    /// As [`Self::compact`]; [`StoreError::Stopped`] also where it was given up.
    pub fn compact_after_retention(&self, queue: &Queue, stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        self.compact(&|| stopped() || self.is_retention_urgent(queue))
    }

    fn merge(&self, inputs: &[Arc<StoredSegment>], stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        let units: Vec<MergeUnit> = inputs.iter().flat_map(MergeUnit::blocks).collect();
        let is_backlogged = || self.is_backlogged();
        let throttle = &self.merge_throttle.begin(&is_backlogged);
        let text_bytes: u64 = inputs.iter().map(|input| input.reach().text_bytes).sum();
        let (block_bytes, quick) = (self.config.full_block_bytes(), self.config.recompress_codec());
        // What makes less than a block that could stay will be merged again.
        let stays = text_bytes >= block_bytes / 2;
        let codec = if stays { self.config.codec_final } else { self.config.codec_quick };
        let merge = SegmentMerge { block_bytes, codec, recompress_codec: quick, throttle, is_stopped: stopped };
        let mut output = CompactionOutput { store: self, drafts: Vec::new() };
        if let Err(failed) = merge.run(UnitReader::default(), units, &mut output) {
            let path = output.drafts.last().map_or_else(|| self.dir.clone(), |draft| draft.path.clone());
            output.drafts.iter().for_each(|draft| self.discard(&draft.path));
            return Err(match failed {
                MergeError::Input(failed) => input_error(failed),
                failed => merge_error(failed, &path),
            });
        }
        let sealed = self.seal_all(output.drafts, inputs)?;
        let stored = self.sync_and_open(&sealed)?;
        let ids: Vec<Id> = inputs.iter().map(|input| input.id()).collect();
        self.replace_segments(&stored, &ids);
        for input in inputs {
            self.discard(input.reader().path());
        }
        Ok(text_bytes)
    }

    fn seal_all(&self, drafts: Vec<SegmentDraft>, inputs: &[Arc<StoredSegment>]) -> Result<Vec<PathBuf>, StoreError> {
        let origin = SegmentOrigin {
            sources: self.sources_of(inputs),
            merge: Some(stored::MergeInfo {
                id: self.new_id(),
                output_count: drafts.len() as u32,
                inputs: inputs.iter().map(|input| input.id()).collect(),
            }),
        };
        let mut sealed: Vec<PathBuf> = Vec::new();
        let mut failed = None;
        for draft in drafts {
            if failed.is_some() {
                self.discard(&draft.path);
                continue;
            }
            match self.seal(draft, origin.clone()) {
                Ok(path) => sealed.push(path),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => Ok(sealed),
            Some(error) => {
                sealed.iter().for_each(|path| self.discard(path));
                Err(error)
            }
        }
    }

    /// The queue segments whose records are in the inputs and may still be seen in the queue as well.
    fn sources_of(&self, inputs: &[Arc<StoredSegment>]) -> Vec<Id> {
        let since = self.now().saturating_sub(SOURCE_AGE_MAX_MS);
        let sources = inputs.iter().flat_map(|input| &input.footer().sources);
        sources.filter(|source| source.time() >= since).copied().collect()
    }

    fn candidate(&self, segment: &StoredSegment) -> MergeCandidate {
        let RecordSummary { low, high, text_bytes, .. } = *segment.reach();
        // The blocks of a smaller one are too small to stay as they are.
        let repack =
            segment.is_quickly_packed(self.config.recompress_codec()) && text_bytes >= self.config.full_block_bytes();
        let blocks = segment.footer().blocks.iter();
        let open_bytes = blocks.map(|block| block.summary.text_bytes + block.packed_bytes()).max().unwrap_or(0);
        MergeCandidate { id: segment.id(), low, high, text_bytes, file_bytes: segment.file_bytes(), open_bytes, repack }
    }

    fn merge_limits(&self) -> MergeLimits {
        MergeLimits {
            target_bytes: self.config.segment_bytes,
            open_bytes_max: self.config.merge_bytes_max,
            room_bytes: self.room_for_merging(),
        }
    }
}
