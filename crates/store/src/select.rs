//! The segment store as a [`Store`]: which blocks a search reads, and its status.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::{FetchThreshold, Queue};
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Block, ReadError, RecordSummary, StreamSlice};

use crate::erasure::{ErasureBook, ErasureSet, ErasureStatus, FilteredSegment};
use crate::error::StoreError;
use crate::foreground::Foreground;
use crate::search_share::{ReplicaState, ShareStatus};
use crate::segment_list::SegmentList;
use crate::segment_store::SegmentStore;
use crate::share_filter::ShareFilter;
use crate::store::{BlockRef, BlockSelector, BlockSource, Selection, Store, StoreBatch, StoreStatus, StoredBatch};
use crate::stored_segment::StoredSegment;
use crate::stream_retention::StreamRetention;

impl Store for SegmentStore {
    fn fetch_threshold(&self) -> FetchThreshold {
        FetchThreshold { text_bytes_min: self.config.gather_bytes_max(), age_min: self.config.gather_age }
    }

    fn batch_bytes_max(&self) -> u64 {
        self.room_for_gathering()
    }

    fn append(&self, batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError> {
        self.write_batch(batch)
    }

    fn select(&self, filter: &BlockSelector<'_>, queued: &mut HashSet<Id>) -> Selection {
        // Before the segments: one that is opened meanwhile leaves this list after it has entered that one.
        let keyless = self.keyless_segments();
        // Before the list: a segment that an erasure rewrites meanwhile is read through the filter, or is not there.
        let erasures = self.erasures.set();
        let segments = self.segments();
        remove_stored(queued, &segments);
        let (from, to) = filter.ids;
        let in_range = segments.in_range(from, to);
        let mut selection = Selection {
            segments_skipped: in_range.segments_outside,
            bytes_skipped: in_range.text_bytes_outside,
            ..Selection::default()
        };
        let share = filter.share.map(|share| ShareFilter::new(self, &segments, filter.ids, share));
        selection.share = share.as_ref().map_or(ShareStatus::Current, |share| share.status);
        for segment in in_range.segments {
            let is_left = share.as_ref().is_some_and(|share| share.excludes(segment, segment.reach()));
            if is_left || !(filter.may_contain)(segment.reach()) {
                selection.bytes_skipped += segment.reach().text_bytes;
                selection.segments_skipped += 1;
                continue;
            }
            let before = selection.blocks.len();
            select_blocks(segment, &erasures, filter, share.as_ref(), &mut selection);
            let is_read = selection.blocks.len() > before;
            selection.segments_read += u64::from(is_read);
            selection.segments_skipped += u64::from(!is_read);
        }
        let (first, last) = filter.times;
        let quarantined = self.quarantined_files().into_iter();
        let missing = quarantined.filter(|file| !file.is_re_replicated() && file.low <= last && first <= file.high);
        selection.damaged.extend(missing.map(|file| file.name));
        let keyless = keyless.into_iter().filter(|file| file.low <= last && first <= file.high);
        selection.keyless.extend(keyless);
        for file in self.trashed().iter().filter(|file| file.low <= last && first <= file.high) {
            selection.trashed_segments += 1;
            selection.trashed_records += file.records.unwrap_or_default();
        }
        selection
    }

    fn replica_state(&self, ids: (Id, Id)) -> Option<ReplicaState> {
        Self::replica_state(self, ids)
    }

    fn replica_version(&self) -> Option<u64> {
        Self::replica_version(self)
    }

    fn answers_since(&self) -> Option<Millis> {
        Self::answers_since(self)
    }

    fn retention(&self) -> StreamRetention {
        self.trusted_retention()
    }

    fn retain(&self, queue: &Queue) {
        Self::retain(self, queue);
    }

    fn maintain(&self, queue: &Queue, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        self.open_keyless();
        match self.sweep_erasures(queue, is_stopped)? {
            // A merge stops when the disk is full and retention can free space.
            0 => self.compact(&|| is_stopped() || self.is_retention_urgent(queue)),
            swept => Ok(swept),
        }
    }

    fn erasures(&self) -> ErasureSet {
        self.erasures.set()
    }

    fn erasure_book(&self) -> Option<&Arc<ErasureBook>> {
        Some(&self.erasures)
    }

    fn sweep_erasures(&self, queue: &Queue, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        Self::sweep_erasures(self, queue, is_stopped)
    }

    fn erasure_status(&self, id: Id, queue: &Queue) -> Option<ErasureStatus> {
        self.status_of_erasure(id, queue)
    }

    fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    fn status(&self) -> StoreStatus {
        let segments = self.segments();
        let sum = |value: fn(&StoredSegment) -> u64| segments.iter().map(|segment| value(segment)).sum::<u64>();
        StoreStatus {
            segments: segments.len(),
            records: sum(|segment| segment.reach().records),
            text_bytes: sum(|segment| segment.reach().text_bytes),
            stored_bytes: sum(StoredSegment::file_bytes),
            version: segments.iter().map(|segment| segment.reader().version()).max().unwrap_or_default(),
            stored_bytes_at_open: self.stored_bytes_at_open,
            index_bytes: self.index_memory.bytes(),
            index_bytes_max: self.config.index_bytes_max,
            is_index_high: self.index_memory.is_high(),
            oldest: segments.iter().map(|segment| segment.reach().low.time()).min(),
            newest: segments.iter().map(|segment| segment.reach().high.time()).max(),
            trash: self.trashed(),
            quarantined_files: self.quarantined_files(),
            damaged_segments: segments.iter().filter_map(|segment| segment.damage()).collect(),
            rebuilt_segments: segments.iter().filter(|segment| segment.has_rebuilt_damage()).count(),
            suspension: self.suspension(),
            database: None,
            sink: self.sink.as_ref().map(|sink| sink.status()),
            encryption: self.encryption_status(),
        }
    }

    fn replication_factor(&self) -> usize {
        self.config.replication_factor.max(1)
    }

    fn replica_group_age(&self) -> Duration {
        self.config.replica_group_age
    }

    fn withdraw(&self, segment: &StoredSegment) {
        self.replace_segments(&[], &[segment.id()]);
        self.remove_file(segment.reader().path());
    }

    fn is_full(&self) -> bool {
        self.index_memory.is_full()
    }

    fn is_backlogged(&self) -> bool {
        self.backlog.is_exceeded()
    }

    fn set_queued_bytes(&self, text_bytes: u64) {
        self.backlog.set_queued(text_bytes);
    }

    fn stop_throttling(&self) {
        self.gather_throttle.disable();
        self.merge_throttle.disable();
        self.repair_throttle.disable();
    }

    fn open_files(&self) -> usize {
        self.segments().len()
    }
}

/// Removes the ids of queue segments that stored segments name as their sources. Few are queued and many segments may be
/// stored, so only segments are read that can name one of them.
fn remove_stored(queued: &mut HashSet<Id>, stored: &SegmentList) {
    let Some(oldest) = queued.iter().min().copied() else { return };
    for source in stored.with_source_since(oldest).flat_map(|segment| &segment.footer().sources) {
        queued.remove(source);
    }
}

fn select_blocks(
    segment: &Arc<StoredSegment>,
    erasures: &ErasureSet,
    filter: &BlockSelector<'_>,
    share: Option<&ShareFilter>,
    selection: &mut Selection,
) {
    let mut source: Option<Arc<dyn BlockSource>> = None;
    let new_source = || -> Arc<dyn BlockSource> {
        match FilteredSegment::of(segment, erasures) {
            Some(filtered) => Arc::new(filtered),
            None => Arc::clone(segment) as _,
        }
    };
    let footer = segment.footer();
    // The time from which records of a stream are in the answer; `None` if none of them can match.
    let since = |labels| (filter.may_match)(labels).then(|| filter.retention.since(labels).unwrap_or_default());
    // A store may have very many segments of one block. They need no table, and the caller has tested their times.
    let has_one_block = footer.blocks.len() == 1;
    let streams: Vec<Option<Millis>> =
        if has_one_block { Vec::new() } else { footer.streams.iter().map(since).collect() };
    // Blocks that become re-replicated during the answer are still read: another node's part may be older.
    let re_replicated = segment.re_replicated_blocks();
    for (index, entry) in footer.blocks.iter().enumerate() {
        let newest = entry.summary.newest();
        let is_wanted = |stream: &u32| {
            let stream = *stream as usize;
            match streams.get(stream).copied().or_else(|| footer.streams.get(stream).map(since)) {
                Some(since) => since.is_some_and(|since| newest >= since),
                None => true,
            }
        };
        let may_match = entry.streams.iter().any(is_wanted);
        let may_contain = has_one_block || (filter.may_contain)(&entry.summary);
        // The caller has tested the only block.
        let is_left = !has_one_block && share.is_some_and(|share| share.excludes(segment, &entry.summary));
        if may_match && may_contain && !is_left && !re_replicated.contains(&index) {
            let source = Arc::clone(source.get_or_insert_with(new_source));
            selection.blocks.push(BlockRef { source, index });
        } else {
            selection.bytes_skipped += entry.summary.text_bytes;
        }
    }
}

impl BlockSource for StoredSegment {
    fn id(&self) -> Id {
        self.reader().id()
    }

    fn name(&self) -> String {
        self.file_name()
    }

    fn summary(&self, index: usize) -> Option<&RecordSummary> {
        self.footer().blocks.get(index).map(|entry| &entry.summary)
    }

    fn streams(&self, index: usize) -> Vec<&Labels> {
        let footer = self.footer();
        let streams = footer.blocks.get(index).map(|entry| entry.streams.as_slice()).unwrap_or_default();
        streams.iter().filter_map(|stream| footer.streams.get(*stream as usize)).collect()
    }

    fn slices(&self, index: usize) -> Result<Vec<StreamSlice>, ReadError> {
        Self::slices(self, index)
    }

    fn may_have_attributes(&self, _: usize) -> bool {
        self.reader().version() >= 2
    }

    /// The packed block, and twice the bytes of its text for decoding.
    fn scan_bytes(&self, index: usize) -> u64 {
        let entry = self.footer().blocks.get(index);
        entry.map_or(0, |entry| entry.packed_bytes().saturating_add(entry.summary.text_bytes.saturating_mul(2)))
    }

    fn filter(&self, index: usize) -> Result<Vec<u8>, ReadError> {
        self.reader().filter(index)
    }

    fn open(&self, index: usize) -> Result<SearchableBlock, ReadError> {
        self.record_result(index, self.reader().searchable_block(index))
    }

    fn open_text(&self, index: usize) -> Result<Block, ReadError> {
        self.block(index)
    }

    fn mark_damaged(&self, index: usize, what: &'static str) -> ReadError {
        Self::mark_damaged(self, index, what)
    }
}
