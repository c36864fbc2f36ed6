//! The input of merges: frames of queue segments and blocks of stored segments, opened when the merge reaches them.

use std::sync::Arc;

use bucksaw_ingest::SegmentView;
use bucksaw_record::{Id, Labels};
use bucksaw_segment::queue::{FramePosition, FrameReader};
use bucksaw_segment::stored;
use bucksaw_segment::{Chunk, Rows, StreamSlice, lines_end};

use crate::erasure::{ErasedCounts, ErasureSet, matching_erasures};
use crate::error::StoreError;
use crate::repair::{IdSet, TimeRange};
use crate::stored_segment::StoredSegment;
use crate::stream_retention::StreamRetention;

/// A position in records of one stream, sorted by id.
#[derive(Debug)]
pub(crate) struct MergeCursor {
    pub(crate) labels: Labels,
    pub(crate) rows: Arc<Rows>,
    pub(crate) text: Arc<Vec<u8>>,
    pub(crate) row: u32,
    run: usize,
    text_at: usize,
    text_end: usize,
}

/// A frame or a block; opened, it yields cursors.
#[derive(Debug)]
pub(crate) struct MergeUnit {
    pub(crate) low: Id,
    pub(crate) high: Id,
    /// The version of its file.
    version: u32,
    from: UnitSource,
}

#[derive(Debug)]
enum UnitSource {
    Frame { reader: usize, place: FramePosition },
    Block { segment: Arc<StoredSegment>, block: usize, whole: bool },
}

/// Opens units.
#[derive(Debug, Default)]
pub(crate) struct UnitReader {
    frame_readers: Vec<(Id, FrameReader)>,
    /// The records to read from blocks that are not read as a whole.
    filter: Option<(TimeRange, Arc<IdSet>)>,
    /// Streams of blocks that are past their retention are left out.
    retention: StreamRetention,
    /// Records that these select are left out, and counted.
    erasures: ErasureSet,
    erased: ErasedCounts,
}

impl UnitReader {
    /// Reads only `ids` within `range`, except from blocks that are read as a whole.
    pub(crate) fn filtered(range: TimeRange, ids: Arc<IdSet>) -> Self {
        Self { filter: Some((range, ids)), ..Self::default() }
    }

    /// Reads all that is not past its retention.
    pub(crate) fn retaining(retention: StreamRetention) -> Self {
        Self { retention, ..Self::default() }
    }

    /// The same without the records that erasures select, which are added to `erased`.
    pub(crate) fn without(self, erasures: ErasureSet, erased: ErasedCounts) -> Self {
        Self { erasures, erased, ..self }
    }

    /// Whether all records of a block are read.
    pub(crate) fn reads_all_records(&self, segment: &StoredSegment, block: usize) -> bool {
        !segment.may_have_expired_streams(block, &self.retention)
            && matching_erasures(segment, &self.erasures, block).is_empty()
    }

    /// A slice without what erasures select; `None` if nothing remains.
    fn retained(
        &self,
        erasures: &ErasureSet,
        slice: StreamSlice,
        text: Arc<Vec<u8>>,
    ) -> Option<(StreamSlice, Arc<Vec<u8>>)> {
        if erasures.is_empty() {
            return Some((slice, text));
        }
        let part = text.get(slice.range.clone()).unwrap_or_default();
        let chunk = Chunk { labels: &slice.labels, rows: Arc::clone(&slice.rows), text: part };
        let mut count = |erasure, records, bytes| self.erased.add(erasure, records, bytes);
        let Some(retained) = erasures.retained_counting(&chunk, &mut count) else { return Some((slice, text)) };
        let (rows, range) = (retained.rows, 0..retained.text.len());
        (rows.count > 0).then(|| (StreamSlice { labels: slice.labels, rows, range }, Arc::new(retained.text)))
    }

    pub(crate) fn add_queue_segment(
        &mut self,
        view: &SegmentView,
        units: &mut Vec<MergeUnit>,
    ) -> Result<(), StoreError> {
        let (places, _) = view.frame_positions().map_err(StoreError::input(view.id))?;
        let (reader, version) = (self.frame_readers.len(), view.version());
        self.frame_readers.push((view.id, view.frames(bucksaw_segment::queue::HEADER_LEN as u64)));
        units.extend(places.into_iter().map(|place| MergeUnit {
            low: place.low,
            high: place.high,
            version,
            from: UnitSource::Frame { reader, place },
        }));
        Ok(())
    }

    pub(crate) fn open(&mut self, unit: &MergeUnit) -> Result<Vec<MergeCursor>, StoreError> {
        match &unit.from {
            UnitSource::Frame { reader, place } => {
                let Some((segment, frames)) = self.frame_readers.get_mut(*reader) else { return Ok(Vec::new()) };
                frames.seek(place.offset);
                let taken = frames.take_chunk().map_err(StoreError::input(*segment))?;
                let Some((text, slice)) = taken else { return Ok(Vec::new()) };
                let retained = self.retained(&self.erasures, slice, Arc::new(text));
                Ok(retained.map(|(slice, text)| MergeCursor::from_frame(text, slice)).into_iter().collect())
            }
            UnitSource::Block { segment, block, whole } => {
                let read = segment.block(*block).map_err(StoreError::input(segment.id()))?;
                let (text, slices) = read.into_parts();
                let text = Arc::new(text);
                let has_rules = self.retention.has_rules();
                let is_kept =
                    |slice: &StreamSlice| !has_rules || self.retention.is_retained(&slice.labels, slice.rows.newest());
                let kept = slices.into_iter().filter(is_kept);
                let erasures = matching_erasures(segment, &self.erasures, *block);
                let kept = kept.filter_map(|slice| self.retained(&erasures, slice, Arc::clone(&text)));
                let cursors = kept.map(|(slice, text)| MergeCursor::from_slice(slice, text));
                match &self.filter {
                    Some((range, ids)) if !whole => {
                        Ok(cursors.filter_map(|cursor| cursor.filter(*range, ids)).collect())
                    }
                    _ => Ok(cursors.collect()),
                }
            }
        }
    }
}

impl MergeUnit {
    pub(crate) fn blocks(segment: &Arc<StoredSegment>) -> impl Iterator<Item = Self> {
        (0..segment.footer().blocks.len()).filter_map(|block| Self::filtered_block(segment, block, true))
    }

    pub(crate) fn filtered_block(segment: &Arc<StoredSegment>, block: usize, whole: bool) -> Option<Self> {
        let reach = &segment.footer().blocks.get(block)?.summary;
        let from = UnitSource::Block { segment: Arc::clone(segment), block, whole };
        Some(Self { low: reach.low, high: reach.high, version: segment.reader().version(), from })
    }

    /// The version of a stored segment that can hold the records of all units. In queue segments as in stored segments, records
    /// may have several lines from version 2 on.
    pub(crate) fn version_of(units: &[Self]) -> u32 {
        if units.iter().all(|unit| unit.version <= 1) { 1 } else { stored::VERSION }
    }

    /// The block and its bytes of text, if it is read as a whole.
    pub(crate) fn as_block(&self) -> Option<(&StoredSegment, usize, u64)> {
        match &self.from {
            UnitSource::Block { segment, block, whole: true } => {
                let text_bytes = segment.footer().blocks.get(*block)?.summary.text_bytes;
                Some((segment, *block, text_bytes))
            }
            UnitSource::Block { .. } | UnitSource::Frame { .. } => None,
        }
    }
}

impl MergeCursor {
    fn from_frame(text: Arc<Vec<u8>>, slice: StreamSlice) -> Self {
        if slice.rows.is_sorted() {
            return Self::from_slice(slice, text);
        }
        let StreamSlice { labels, rows, range } = slice;
        let chunk = Chunk { labels: &labels, rows, text: text.get(range).unwrap_or_default() };
        let (rows, text) = sort_rows(&chunk);
        let range = 0..text.len();
        Self::from_slice(StreamSlice { labels, rows, range }, Arc::new(text))
    }

    fn from_slice(slice: StreamSlice, text: Arc<Vec<u8>>) -> Self {
        let StreamSlice { labels, rows, range } = slice;
        Self { labels, rows, text, row: 0, run: 0, text_at: range.start, text_end: range.end }
    }

    /// A cursor over the records in `ids` and `range`; `None` if there are none.
    fn filter(self, range: TimeRange, ids: &IdSet) -> Option<Self> {
        let text = self.text.get(self.text_at..self.text_end)?;
        let mut records = (0..).zip(Chunk { labels: &self.labels, rows: Arc::clone(&self.rows), text }.records());
        let (mut selected, mut selected_text) = (Vec::new(), Vec::new());
        for run in &self.rows.runs {
            let is_in_range = range.contains(run.first_id);
            for (row, record) in records.by_ref().take(run.count as usize) {
                let id = Id::from_bits(run.first_id.bits() + u128::from(row - run.row));
                if is_in_range && ids.contains(id) {
                    selected.push(row);
                    selected_text.extend_from_slice(record);
                    selected_text.push(b'\n');
                }
            }
        }
        let rows = Arc::new(self.rows.select(selected.into_iter()));
        let text_end = selected_text.len();
        drop(records);
        (rows.count > 0).then(|| Self { rows, text: Arc::new(selected_text), text_at: 0, text_end, ..self })
    }

    /// The id of the next row; `None` at the end.
    pub(crate) fn next_id(&self) -> Option<Id> {
        let run = self.rows.runs.get(self.run)?;
        Some(Id::from_bits(run.first_id.bits() + u128::from(self.row - run.row)))
    }

    /// Number of the next rows with ids below `limit`.
    pub(crate) fn count_below(&self, limit: Id) -> u32 {
        let mut count = 0;
        for run in self.rows.runs.get(self.run..).unwrap_or_default() {
            let done = self.row.saturating_sub(run.row);
            let below = run.count_below(limit).saturating_sub(done);
            count += below;
            if below < run.count - done {
                break;
            }
        }
        count
    }

    /// Advances by `count` rows and returns their text.
    pub(crate) fn take_rows(&mut self, count: u32) -> &[u8] {
        let start = self.text_at;
        let rest = self.text.get(start..self.text_end).unwrap_or_default();
        let taken = if self.row + count >= self.rows.count {
            rest.len()
        } else {
            let lines = match &self.rows.lines {
                Some(lines) => {
                    lines.get(self.row as usize..(self.row + count) as usize).unwrap_or_default().iter().sum()
                }
                None => count,
            };
            lines_end(rest, lines).unwrap_or(rest.len())
        };
        self.row += count;
        self.text_at += taken;
        while self.rows.runs.get(self.run).is_some_and(|run| self.row >= run.row + run.count) {
            self.run += 1;
        }
        self.text.get(start..start + taken).unwrap_or_default()
    }
}

/// The records of a frame, sorted by id: sources that state event times may send them in any order.
fn sort_rows(chunk: &Chunk<'_>) -> (Arc<Rows>, Vec<u8>) {
    let mut order: Vec<(Id, u32, &[u8])> =
        (0..).zip(chunk.records()).filter_map(|(row, record)| Some((chunk.rows.id(row)?, row, record))).collect();
    order.sort_unstable_by_key(|(id, row, _)| (*id, *row));
    let rows = chunk.rows.select(order.iter().map(|(_, row, _)| *row));
    let mut text = Vec::with_capacity(chunk.text.len());
    for (_, _, record) in order {
        text.extend_from_slice(record);
        text.push(b'\n');
    }
    (Arc::new(rows), text)
}
