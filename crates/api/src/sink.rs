//! Renders the records of an answer into the frames of a stream.

use std::ops::ControlFlow;

use bucksaw_query::{RecordRef, RecordRun, RecordSink, SinkClosed};
use serde_json::Value;

use crate::permits::QueryPermit;
use crate::render::{LongRecord, ObjectWriter, RawWriter};
use crate::stream::{ClientGone, FRAME_BYTES, StreamFrame, StreamSender};

/// Capacity of a buffer for rendered objects: a frame, and the record that completes it. All buffers have one size, because
/// the allocator keeps free ones per size and thread.
const BUFFER_BYTES: usize = FRAME_BYTES + FRAME_BYTES / 8;

/// Writes records to a client, in the format of its stream.
pub(crate) struct StreamSink {
    sender: StreamSender,
    permit: QueryPermit,
    raw: RawWriter,
    objects: ObjectWriter,
    /// Rendered objects that are not sent.
    rendered: Vec<u8>,
    /// A long record that follows them.
    long: Option<LongRecord>,
}

impl StreamSink {
    pub(crate) fn new(sender: StreamSender, permit: QueryPermit, objects: ObjectWriter) -> Self {
        Self { sender, permit, raw: RawWriter::default(), objects, rendered: Vec::new(), long: None }
    }

    /// Ends a complete answer with its statistics.
    pub(crate) async fn finish(self, stats: &Value) {
        // Sending fails only when the client is gone.
        let _ = self.sender.finish(stats).await;
    }
}

/// The frames of all that was rendered since the last call.
fn take_frames(
    sender: &StreamSender,
    raw: &mut RawWriter,
    rendered: &mut Vec<u8>,
    long: &mut Option<LongRecord>,
) -> impl Iterator<Item = StreamFrame> {
    let runs = raw.take().into_iter().flat_map(|bytes| sender.record_frames(bytes));
    runs.chain(sender.object_frames(std::mem::take(rendered), long.take()))
}

impl RecordSink for StreamSink {
    fn takes_runs(&self) -> bool {
        self.sender.format().is_raw()
    }

    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        if self.rendered.capacity() == 0 {
            self.rendered.reserve_exact(BUFFER_BYTES);
        }
        self.long = self.objects.write(record, &mut self.rendered);
        let is_full = self.long.is_some() || self.rendered.len() >= FRAME_BYTES;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn push_run(&mut self, run: RecordRun<'_>) {
        self.raw.push(run);
    }

    async fn flush(&mut self) -> Result<(), SinkClosed> {
        let Self { sender, permit, raw, rendered, long, .. } = self;
        let frames = take_frames(sender, raw, rendered, long);
        permit.send_async(sender, frames).await.map_err(|ClientGone| SinkClosed)
    }

    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        let Self { sender, permit, raw, rendered, long, .. } = self;
        let frames = take_frames(sender, raw, rendered, long);
        permit.send(sender, frames, release_memory).map_err(|ClientGone| SinkClosed)
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.sender.closed()
    }
}
