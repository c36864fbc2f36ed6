//! What a merge reads: frames of queue segments and blocks of store segments, opened only when their turn comes.

use std::sync::Arc;

use bucksaw_ingest::SegmentView;
use bucksaw_record::{Id, Labels};
use bucksaw_segment::queue::{FramePosition, FrameReader};
use bucksaw_segment::{Chunk, ReadError, Rows, StreamSlice};

use crate::repair::{IdSet, TimeRange};
use crate::stored_segment::StoredSegment;

/// Records of one stream, sorted by id, on their way through a merge.
#[derive(Debug)]
pub(crate) struct MergeCursor {
    pub(crate) labels: Labels,
    pub(crate) rows: Arc<Rows>,
    pub(crate) text: Arc<Vec<u8>>,
    /// The next row, and where it is.
    pub(crate) row: u32,
    run: usize,
    text_at: usize,
    text_end: usize,
}

/// Something that opens to pieces.
#[derive(Debug)]
pub(crate) struct MergeUnit {
    pub(crate) low: Id,
    pub(crate) high: Id,
    from: UnitSource,
}

#[derive(Debug)]
enum UnitSource {
    Frame { reader: usize, place: FramePosition },
    Block { segment: Arc<StoredSegment>, block: usize, whole: bool },
}

/// Where units are read from.
#[derive(Debug, Default)]
pub(crate) struct UnitReader {
    frame_readers: Vec<(Id, FrameReader)>,
    /// Only these records are wanted.
    filter: Option<(TimeRange, Arc<IdSet>)>,
}

/// A segment that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("segment {segment}: {source}")]
pub(crate) struct InputError {
    pub(crate) segment: Id,
    #[source]
    pub(crate) source: ReadError,
}

impl UnitReader {
    /// Reads only some records of a window from blocks that are not wanted as a whole.
    pub(crate) fn filtered(range: TimeRange, ids: Arc<IdSet>) -> Self {
        Self { frame_readers: Vec::new(), filter: Some((range, ids)) }
    }

    /// The frames of a queue segment.
    pub(crate) fn add_queue_segment(
        &mut self,
        view: &SegmentView,
        units: &mut Vec<MergeUnit>,
    ) -> Result<(), InputError> {
        let (places, _) = view.frame_positions().map_err(|source| InputError { segment: view.id, source })?;
        let reader = self.frame_readers.len();
        self.frame_readers.push((view.id, view.frames(bucksaw_segment::queue::HEADER_LEN as u64)));
        units.extend(places.into_iter().map(|place| MergeUnit {
            low: place.low,
            high: place.high,
            from: UnitSource::Frame { reader, place },
        }));
        Ok(())
    }

    /// Opens a unit.
    pub(crate) fn open(&mut self, unit: &MergeUnit) -> Result<Vec<MergeCursor>, InputError> {
        match &unit.from {
            UnitSource::Frame { reader: walk, place } => {
                let Some((segment, frames)) = self.frame_readers.get_mut(*walk) else { return Ok(Vec::new()) };
                let failed = |source| InputError { segment: *segment, source };
                frames.seek(place.offset);
                let chunk = frames.next_chunk().map_err(failed)?;
                Ok(chunk.map(|chunk| MergeCursor::from_frame(&chunk)).into_iter().collect())
            }
            UnitSource::Block { segment, block, whole } => {
                let read = segment.block(*block).map_err(|source| InputError { segment: segment.id(), source })?;
                let (text, stretches) = read.into_parts();
                let text = Arc::new(text);
                let pieces = stretches.into_iter().map(|stretch| MergeCursor::from_slice(stretch, Arc::clone(&text)));
                match &self.filter {
                    Some((window, ids)) if !whole => {
                        Ok(pieces.filter_map(|piece| piece.filter(*window, ids)).collect())
                    }
                    _ => Ok(pieces.collect()),
                }
            }
        }
    }
}

impl MergeUnit {
    /// The blocks of a store segment.
    pub(crate) fn blocks(segment: &Arc<StoredSegment>) -> impl Iterator<Item = Self> {
        (0..).zip(&segment.footer().blocks).map(|(block, entry)| Self {
            low: entry.summary.low,
            high: entry.summary.high,
            from: UnitSource::Block { segment: Arc::clone(segment), block, whole: true },
        })
    }

    /// A block, of which only some records may be wanted.
    pub(crate) fn filtered_block(segment: &Arc<StoredSegment>, block: usize, whole: bool) -> Option<Self> {
        let reach = &segment.footer().blocks.get(block)?.summary;
        let from = UnitSource::Block { segment: Arc::clone(segment), block, whole };
        Some(Self { low: reach.low, high: reach.high, from })
    }

    /// The block that this is, when all of it is wanted, with its bytes of text.
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
    fn from_frame(chunk: &Chunk<'_>) -> Self {
        let labels = chunk.labels.clone();
        let (rows, text) =
            if chunk.rows.is_sorted() { (Arc::clone(&chunk.rows), chunk.text.to_vec()) } else { sort_rows(chunk) };
        let text_end = text.len();
        Self { labels, rows, text: Arc::new(text), row: 0, run: 0, text_at: 0, text_end }
    }

    fn from_slice(stretch: StreamSlice, text: Arc<Vec<u8>>) -> Self {
        let StreamSlice { labels, rows, range } = stretch;
        Self { labels, rows, text, row: 0, run: 0, text_at: range.start, text_end: range.end }
    }

    /// Only those of its records that are wanted; `None` when none is.
    fn filter(self, range: TimeRange, ids: &IdSet) -> Option<Self> {
        let text = self.text.get(self.text_at..self.text_end)?;
        let mut records = (0..).zip(Chunk { labels: &self.labels, rows: Arc::clone(&self.rows), text }.records());
        let (mut wanted, mut kept) = (Vec::new(), Vec::new());
        for run in &self.rows.runs {
            let in_window = range.contains(run.first_id);
            for (row, record) in records.by_ref().take(run.count as usize) {
                let id = Id::from_bits(run.first_id.bits() + u128::from(row - run.row));
                if in_window && ids.contains(id) {
                    wanted.push(row);
                    kept.extend_from_slice(record);
                    kept.push(b'\n');
                }
            }
        }
        let rows = Arc::new(self.rows.select(wanted.into_iter()));
        let text_end = kept.len();
        drop(records);
        (rows.count > 0).then(|| Self { rows, text: Arc::new(kept), text_at: 0, text_end, ..self })
    }

    /// The id of the next row; `None` when there are no more.
    pub(crate) fn next_id(&self) -> Option<Id> {
        let run = self.rows.runs.get(self.run)?;
        Some(Id::from_bits(run.first_id.bits() + u128::from(self.row - run.row)))
    }

    /// How many of the rows to come have ids below `limit`.
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

    /// Moves past `count` rows, and returns their text.
    pub(crate) fn take_rows(&mut self, count: u32) -> &[u8] {
        let start = self.text_at;
        let rest = self.text.get(start..self.text_end).unwrap_or_default();
        let taken = if self.row + count >= self.rows.count {
            rest.len()
        } else {
            match &self.rows.lengths {
                Some(lengths) => {
                    let lengths = lengths.get(self.row as usize..(self.row + count) as usize).unwrap_or_default();
                    lengths.iter().map(|length| *length as usize + 1).sum()
                }
                None => lines_end(rest, count),
            }
        };
        self.row += count;
        self.text_at += taken;
        while self.rows.runs.get(self.run).is_some_and(|run| self.row >= run.row + run.count) {
            self.run += 1;
        }
        self.text.get(start..start + taken).unwrap_or_default()
    }
}

/// Where the first `count` lines end.
fn lines_end(text: &[u8], count: u32) -> usize {
    let mut ends = memchr::memchr_iter(b'\n', text);
    (count as usize).checked_sub(1).and_then(|last| ends.nth(last)).map_or(0, |end| end + 1)
}

/// The records of a frame whose source stated their times, in the order of their ids.
fn sort_rows(chunk: &Chunk<'_>) -> (Arc<Rows>, Vec<u8>) {
    let mut order: Vec<(Id, u32, &[u8])> =
        (0..).zip(chunk.records()).filter_map(|(row, record)| Some((chunk.rows.id(row)?, row, record))).collect();
    order.sort_unstable_by_key(|(id, row, _)| (*id, *row));
    let mut rows = Rows { accepted: chunk.rows.accepted, ..Rows::default() };
    rows.lengths = chunk.rows.lengths.is_some().then(Vec::new);
    let mut text = Vec::with_capacity(chunk.text.len());
    for (id, from, record) in order {
        let row = rows.count;
        rows.push_run(id, 1);
        match chunk.rows.nanos(from) {
            0 => {}
            nanos => rows.nanos.push((row, nanos)),
        }
        match chunk.rows.flags.get(from) {
            0 => {}
            bits => rows.flags.push(row, bits),
        }
        if let Some(lengths) = &mut rows.lengths {
            lengths.push(record.len() as u32);
        }
        text.extend_from_slice(record);
        text.push(b'\n');
    }
    (Arc::new(rows), text)
}
