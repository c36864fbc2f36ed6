//! The frames of a queue segment as batches of the wire.

use std::sync::Arc;

use bucksaw_ingest::{Queue, QueueSegment, RecentFrame, SegmentState, SegmentView};
use bucksaw_record::{Id, Labels};
use bucksaw_segment::queue::{FramePosition, FrameReader, HEADER_LEN};
use bucksaw_segment::{FrameKind, ReadError};
use bucksaw_wire::Batch;

use crate::agent_labels::with_agent_labels;
use crate::batch_builder::ShippedBatch;

/// Reads the batches of a segment in order, also while it grows.
pub(super) struct SegmentBatches {
    segment: Arc<QueueSegment>,
    /// The labels of the agent.
    agent: Labels,
    /// Where the next frame is.
    at: u64,
    /// Records of the batches so far.
    records: u64,
    /// By the number of the stream: its labels with those of the agent that it has not itself.
    labels: Vec<Arc<Labels>>,
    /// The frames up to the end that the segment had; `None` before the first read and after an error.
    reading: Option<FramesInSegment>,
}

/// The frames of a segment at one moment.
struct FramesInSegment {
    frames: FrameReader,
    end: u64,
    /// The intact frames, if there is damage between them.
    salvaged: Option<std::vec::IntoIter<FramePosition>>,
}

/// The next step of a reader.
pub(super) enum NextBatch {
    Batch(ShippedBatch),
    /// No more for now: the segment is active.
    Wait,
    /// The segment is closed, and this was its last batch.
    End,
}

impl SegmentBatches {
    /// The batches of a segment.
    pub(super) fn new(segment: Arc<QueueSegment>, agent: &Labels) -> Self {
        Self { segment, agent: agent.clone(), at: HEADER_LEN as u64, records: 0, labels: Vec::new(), reading: None }
    }

    /// The id of the segment.
    pub(super) fn id(&self) -> Id {
        self.segment.id()
    }

    /// Whether the segment may grow.
    pub(super) fn is_active(&self) -> bool {
        self.segment.state() == SegmentState::Active
    }

    /// Records that are in no batch yet.
    pub(super) fn unread_records(&self) -> u64 {
        self.segment.view().reach.records.saturating_sub(self.records)
    }

    /// Whether every record so far is in a batch.
    pub(super) fn is_read(&self) -> bool {
        self.at >= self.segment.end()
    }

    /// The next batch, from the memory of the queue if that still has it.
    ///
    /// # Errors
    /// A frame cannot be read. The next call tries it again.
    pub(super) fn next(&mut self, queue: &Queue) -> Result<NextBatch, ReadError> {
        loop {
            if self.reading.is_none()
                && let Some(frame) = queue.take_recent(self.id(), self.at)
            {
                return Ok(NextBatch::Batch(self.recent_batch(frame)));
            }
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => {
                    // Asked for first, because a closed segment does not grow.
                    let is_active = self.is_active();
                    if self.is_read() {
                        return Ok(if is_active { NextBatch::Wait } else { NextBatch::End });
                    }
                    FramesInSegment::open(&self.segment.view(), self.at)
                }
            };
            if let Some(batch) = self.next_of(&mut reading)? {
                self.reading = Some(reading);
                return Ok(NextBatch::Batch(batch));
            }
            self.at = self.at.max(reading.end);
        }
    }

    /// The next batch of frames that are open; `None` after the last one.
    fn next_of(&mut self, reading: &mut FramesInSegment) -> Result<Option<ShippedBatch>, ReadError> {
        loop {
            if let Some(salvaged) = &mut reading.salvaged {
                let Some(position) = salvaged.next() else { return Ok(None) };
                if position.offset < self.at {
                    continue;
                }
                reading.frames.seek(position.offset);
            }
            let Some(frame) = reading.frames.next_frame()? else { return Ok(None) };
            let header = frame.header;
            if header.kind == FrameKind::Records {
                let batch = Batch {
                    first_id: header.first_id,
                    count: header.count,
                    accepted: header.accepted,
                    layout_bits: header.layout_bits,
                    row_meta: frame.row_meta(),
                    text: frame.text(),
                };
                let (frame, text_bytes) = (batch.encode(), frame.text().len());
                let labels = self.labels_of(header.stream as usize, || reading.frames.streams());
                self.at = reading.frames.offset();
                self.records += u64::from(header.count);
                return Ok(Some(ShippedBatch { labels, frame, records: header.count, text_bytes, ticket: None }));
            }
            self.at = reading.frames.offset();
        }
    }

    fn recent_batch(&mut self, frame: RecentFrame) -> ShippedBatch {
        let RecentFrame { header, end, mut bytes, .. } = frame;
        Batch::encode_in_place(header, &mut bytes);
        let segment = Arc::clone(&self.segment);
        let labels = self.labels_of(header.stream as usize, || segment.view().streams().to_vec());
        self.at = end;
        self.records += u64::from(header.count);
        let text_bytes = header.text_len() as usize;
        ShippedBatch { labels, frame: bytes, records: header.count, text_bytes, ticket: None }
    }

    /// The labels of a stream, which is among those that were `declared` in the file.
    fn labels_of(&mut self, stream: usize, declared: impl FnOnce() -> Vec<Labels>) -> Arc<Labels> {
        if stream >= self.labels.len() {
            let declared = declared();
            let new = declared.get(self.labels.len()..).unwrap_or_default();
            self.labels.extend(new.iter().map(|stream| Arc::new(with_agent_labels(stream, &self.agent))));
        }
        self.labels.get(stream).cloned().unwrap_or_default()
    }
}

impl FramesInSegment {
    /// The frames of a view from an offset on.
    fn open(view: &SegmentView, from: u64) -> Self {
        let salvaged = view.salvaged_frames().map(|positions| Vec::from(positions).into_iter());
        Self { frames: view.frames(from), end: view.end, salvaged }
    }
}
