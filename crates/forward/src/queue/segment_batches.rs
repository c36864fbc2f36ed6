//! The frames of a queue segment as batches of the wire.

use std::sync::Arc;

use bucksaw_ingest::SegmentView;
use bucksaw_record::{Id, Labels};
use bucksaw_segment::queue::FramePosition;
use bucksaw_segment::{FrameKind, ReadError};
use bucksaw_wire::Batch;

use crate::agent_labels::with_agent_labels;
use crate::batch_builder::ShippedBatch;

/// Reads the batches of a segment in order.
pub(super) struct SegmentBatches {
    view: SegmentView,
    positions: std::vec::IntoIter<FramePosition>,
    /// By the number of the stream.
    labels: Vec<Arc<Labels>>,
    /// Where the frame after the last one is, so that most frames are read without a search.
    frames: bucksaw_segment::queue::FrameReader,
}

impl SegmentBatches {
    /// The batches of a segment. Each stream has also the labels of the agent that it has not itself.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub(super) fn open(view: SegmentView, agent: &Labels) -> Result<Self, ReadError> {
        let (positions, streams) = view.frame_positions()?;
        let labels = streams.iter().map(|stream| Arc::new(with_agent_labels(stream, agent))).collect();
        let frames = view.frames(0);
        Ok(Self { view, positions: positions.into_iter(), labels, frames })
    }

    /// The id of the segment.
    pub(super) fn id(&self) -> Id {
        self.view.id
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// A frame cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<ShippedBatch>, ReadError> {
        for position in self.positions.by_ref() {
            self.frames.seek(position.offset);
            let Some(frame) = self.frames.next_frame()? else { return Ok(None) };
            let header = frame.header;
            if header.kind != FrameKind::Records {
                continue;
            }
            let batch = Batch {
                first_id: header.first_id,
                count: header.count,
                accepted: header.accepted,
                layout_bits: header.layout_bits,
                row_meta: frame.row_meta(),
                text: frame.text(),
            };
            let labels = self.labels.get(position.stream as usize).cloned().unwrap_or_default();
            let (records, text_bytes) = (header.count, frame.text().len());
            return Ok(Some(ShippedBatch { labels, frame: batch.encode(), records, text_bytes, ticket: None }));
        }
        Ok(None)
    }
}
