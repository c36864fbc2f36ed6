//! Gathering: what waits in the queue becomes one segment on the store.
//!
//! It is packed for good at once, so that this is done once, but quickly where that would be in vain or too slow: when it is
//! too little to stay as it is, when a client waits, or when the store is behind. A burst leaves the queue, which a power cut
//! could take, as fast as it comes; what was packed quickly is packed anew when there is time. Where room is short it is
//! packed for good in any case: quick packing takes up to three times the room.

use std::io;
use std::sync::Arc;

use bucksaw_ingest::{FetchThreshold, Queue, QueueBacklog, SegmentView};
use bucksaw_record::Id;
use bucksaw_segment::Codec;
use bucksaw_segment::stored::{SegmentOrigin, Writer};
use tracing::debug;

use crate::merge::{MergeError, MergeOutput, SegmentMerge};
use crate::segment_store::{SegmentDraft, SegmentStore, StoreError};
use crate::stored_segment::StoredSegment;
use crate::throttle::ThrottledTask;
use crate::unit::{InputError, UnitReader};

/// The store is behind when more waits than so many gatherings take, or for so many times the age at which it is gathered.
const BEHIND_BATCHES: u64 = 4;
const BEHIND_AGES: u32 = 2;

/// All of a gathering goes into one file.
struct GatherOutput(SegmentDraft);

impl MergeOutput for GatherOutput {
    fn writer(&mut self) -> io::Result<&mut Writer> {
        Ok(&mut self.0.writer)
    }
}

impl SegmentStore {
    /// When what waits in a queue is worth being gathered.
    #[must_use]
    pub fn fetch_threshold(&self) -> FetchThreshold {
        FetchThreshold { text_bytes_min: self.config.gather_bytes_max(), age_min: self.config.gather_age }
    }

    /// Whether [`Self::gather`] would take something now. Costs next to nothing.
    #[must_use]
    pub fn is_gathering_due(&self, queue: &Queue, all: bool) -> bool {
        self.is_due(&queue.backlog(), all)
    }

    fn is_due(&self, backlog: &QueueBacklog, all: bool) -> bool {
        self.backlog.set_queued(backlog.text_bytes);
        backlog.segments > 0 && (all || self.fetch_threshold().is_met(backlog))
    }

    /// Gathers once from the queue of this node, of what nobody else has a copy: when enough waits, or waits long enough,
    /// or somebody waits for it, or `all` is wanted. Returns the bytes of text taken from the queue; 0 when there was
    /// nothing to do. For one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; the queue has its segments back then, and a later call tries again.
    pub fn gather(&self, queue: &Queue, all: bool) -> Result<u64, StoreError> {
        let backlog = queue.backlog();
        if !self.is_due(&backlog, all) {
            return Ok(0);
        }
        let views = queue.reserve(self.room_for_gathering());
        let ids: Vec<Id> = views.iter().map(|view| view.id).collect();
        match self.write_batch(&views, backlog, Some(queue)) {
            Ok(packed) => {
                queue.commit(&ids);
                self.backlog.set_queued(queue.backlog().text_bytes);
                Ok(packed.text_bytes)
            }
            Err(failed) => {
                if let StoreError::Input { segment, .. } = &failed {
                    queue.record_unreadable(*segment);
                }
                queue.release(&ids);
                Err(failed)
            }
        }
    }

    /// Makes one segment of what was taken, durable and shown. `backlog` is what waited before it was taken, and `queue`
    /// that of this node, if it has one.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is left of it then.
    pub(crate) fn write_batch(
        &self,
        views: &[SegmentView],
        backlog: QueueBacklog,
        queue: Option<&Queue>,
    ) -> Result<WrittenBatch, StoreError> {
        let text_bytes: u64 = views.iter().map(|view| view.reach.text_bytes).sum();
        let is_backlogged = || {
            let waits = queue.map_or(0, |queue| queue.backlog().text_bytes);
            self.backlog.set_queued(waits + text_bytes);
            // What is on the store takes less room than in the queue.
            queue.is_some_and(Queue::is_full) || self.is_backlogged()
        };
        // A client that waits is owed no less than one that asks.
        let throttle = if backlog.has_waiting_client {
            self.gather_throttle.begin_unthrottled()
        } else {
            self.gather_throttle.begin(&is_backlogged)
        };
        let behind = backlog.text_bytes >= BEHIND_BATCHES * self.config.gather_bytes_max()
            || backlog.oldest_age >= BEHIND_AGES * self.config.gather_age;
        let small = text_bytes < self.config.full_block_bytes();
        let quick = (backlog.has_waiting_client || behind || small) && !self.may_not_fit(text_bytes);
        let codec = if quick { self.config.codec_quick } else { self.config.codec_final };
        match self.merge_views(views, codec, &throttle) {
            Ok(stored) => {
                self.metrics.gathered_bytes.inc_by(text_bytes);
                self.gather_batch_size.grow(text_bytes);
                debug!(segments = views.len(), text_bytes, "gathered from the queue");
                Ok(WrittenBatch { text_bytes, stored })
            }
            Err(failed) => {
                self.metrics.gather_failed.inc();
                if failed.is_disk_full() {
                    self.gather_batch_size.shrink(text_bytes);
                }
                Err(failed)
            }
        }
    }

    fn merge_views(
        &self,
        views: &[SegmentView],
        codec: Codec,
        throttle: &ThrottledTask<'_>,
    ) -> Result<Option<Arc<StoredSegment>>, StoreError> {
        let (mut inputs, mut units) = (UnitReader::default(), Vec::new());
        for view in views {
            inputs.add_queue_segment(view, &mut units).map_err(input_error)?;
        }
        if units.is_empty() {
            return Ok(None);
        }
        let origin = SegmentOrigin { sources: views.iter().map(|view| view.id).collect(), ..SegmentOrigin::default() };
        let merge = SegmentMerge {
            block_bytes: self.config.full_block_bytes(),
            codec,
            recompress_codec: None,
            throttle,
            is_stopped: &|| false,
        };
        let mut output = GatherOutput(self.create_draft().map_err(StoreError::io("create a file in", &self.dir))?);
        let path = output.0.path.clone();
        if let Err(failed) = merge.run(inputs, units, &mut output) {
            self.discard(&path);
            return Err(merge_error(failed, &path));
        }
        let sealed = self.seal(output.0, origin)?;
        let stored = self.sync_and_open(&[sealed])?;
        self.replace_segments(&stored, &[]);
        Ok(stored.into_iter().next())
    }
}

/// What was made of what was taken.
pub(crate) struct WrittenBatch {
    /// Bytes of text.
    pub(crate) text_bytes: u64,
    /// The segment; `None` when there were no records.
    pub(crate) stored: Option<Arc<StoredSegment>>,
}

pub(crate) fn input_error(failed: InputError) -> StoreError {
    StoreError::Input { segment: failed.segment, source: failed.source }
}

pub(crate) fn merge_error(failed: MergeError, path: &std::path::Path) -> StoreError {
    match failed {
        MergeError::Input(failed) => input_error(failed),
        MergeError::Output(source) => StoreError::io("write", path)(source),
        MergeError::Stopped => StoreError::Stopped,
    }
}
