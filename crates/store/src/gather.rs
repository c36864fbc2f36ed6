//! Gathering: segments fetched from queues become one stored segment.
//!
//! The final codec is used at once, so that text is compressed once. The quick codec is used where the final one would be
//! wasted or too slow: for less than a full block, which will be merged anyway, when a client waits, or when the store is
//! behind. Then a burst leaves the queue as fast as it arrives, and compaction recompresses it later. With little free
//! disk space the final codec is always used: quickly packed text takes up to three times the space.

use std::sync::Arc;

use bucksaw_ingest::{Queue, SegmentView};
use bucksaw_segment::Codec;
use bucksaw_segment::stored::{ReplicaGroup, SegmentOrigin};
use tracing::debug;

use crate::erasure::ErasedCounts;
use crate::error::StoreError;
use crate::merge::SegmentMerge;
use crate::segment_store::SegmentStore;
use crate::store::{Store, StoreBatch, StoredBatch};
use crate::stored_segment::StoredSegment;
use crate::throttle::ThrottledTask;
use crate::unit::{MergeUnit, UnitReader};

/// The store is behind when the backlog exceeds this many full batches, or is this many times older than `gather_age`.
const BEHIND_BATCHES: u64 = 4;
const BEHIND_AGES: u32 = 2;

impl SegmentStore {
    /// Writes one segment from a batch, makes it durable and shows it.
    ///
    /// # Errors
    /// [`StoreError`]; no file remains.
    pub(crate) fn write_batch(&self, batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError> {
        let StoreBatch { segments: views, backlog, queue, group } = *batch;
        // Before the segment is stored: the queue forgets what is stored, also at a start after a kill.
        if let Some(sink) = &self.sink {
            sink.keep(views).inspect_err(|_| _ = self.metrics.gather_failed.inc())?;
        }
        let text_bytes: u64 = views.iter().map(|view| view.reach.text_bytes).sum();
        let is_backlogged = || {
            let queued_bytes = queue.map_or(0, |queue| queue.backlog().text_bytes);
            self.backlog.set_queued(queued_bytes + text_bytes);
            // Stored text takes less disk space than queued text.
            queue.is_some_and(Queue::is_full) || self.is_backlogged()
        };
        // A client that waits for `bulk` has the same priority as one that queries.
        let throttle = self.gather_throttle.begin((!backlog.has_waiting_client).then_some(&is_backlogged));
        let is_behind = backlog.text_bytes >= BEHIND_BATCHES * self.config.gather_bytes_max()
            || backlog.oldest_age >= BEHIND_AGES * self.config.gather_age;
        let is_small = text_bytes < self.config.full_block_bytes();
        let is_quick = (backlog.has_waiting_client || is_behind || is_small) && !self.may_not_fit(text_bytes);
        let codec = if is_quick { self.config.codec_quick } else { self.config.codec_final };
        match self.merge_views((views, text_bytes), codec, &throttle, group) {
            Ok(segment) => {
                self.metrics.gathered_bytes.inc_by(text_bytes);
                self.gather_batch_size.grow(text_bytes);
                debug!(segments = views.len(), text_bytes, "gathered from the queue");
                Ok(StoredBatch { text_bytes, segment })
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
        (views, text_bytes): (&[SegmentView], u64),
        codec: Codec,
        throttle: &ThrottledTask<'_>,
        group: Option<ReplicaGroup>,
    ) -> Result<Option<Arc<StoredSegment>>, StoreError> {
        let (erasures, erased) = (self.erasures.set(), ErasedCounts::default());
        let number = erasures.last_number();
        let (mut inputs, mut units) = (UnitReader::default().without(erasures, erased.clone()), Vec::new());
        for view in views {
            inputs.add_queue_segment(view, &mut units)?;
        }
        if units.is_empty() {
            return Ok(None);
        }
        let origin = SegmentOrigin { sources: views.iter().map(|view| view.id).collect(), ..SegmentOrigin::default() };
        let merge = SegmentMerge::of(text_bytes, self.config.full_block_bytes(), codec, throttle);
        let mut output = self.create_draft(MergeUnit::version_of(&units), group)?;
        merge.run(inputs, units, &mut output)?;
        if output.writer.summary().is_empty() {
            // Erasures select all records.
            self.erasures.add_counts(erased.take(), 0);
            return Ok(None);
        }
        let sealed = self.seal(output, origin)?;
        let stored = self.sync_and_open(&[sealed])?;
        // The merge has tested each record.
        stored.iter().for_each(|segment| segment.set_erasures_checked(number));
        self.replace_segments(&stored, &[]);
        self.erasures.add_counts(erased.take(), 0);
        Ok(stored.into_iter().next())
    }
}
