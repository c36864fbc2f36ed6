//! Renders the records of an answer into the frames of a stream.

use std::ops::ControlFlow;

use bucksaw_query::{RecordRef, RecordRun, RecordSink, SinkClosed};

use crate::permits::QueryPermit;
use crate::render::{LongRecord, ObjectWriter, RawWriter};
use crate::stream::{FRAME_BYTES, StreamFrame, StreamSender};

/// Capacity of a buffer for rendered objects: a frame and the record that completes it. All buffers have the same size,
/// because the allocator keeps free ones per size and thread.
const BUFFER_BYTES: usize = FRAME_BYTES + FRAME_BYTES / 8;

/// Writes records to a client, in the format of its stream.
pub(crate) struct StreamSink {
    sender: StreamSender,
    permit: QueryPermit,
    raw: RawWriter,
    objects: ObjectWriter,
    /// Rendered objects to be sent.
    rendered: Vec<u8>,
    /// A long record after them.
    long: Option<LongRecord>,
}

impl StreamSink {
    pub(crate) fn new(sender: StreamSender, permit: QueryPermit, objects: ObjectWriter) -> Self {
        Self { sender, permit, raw: RawWriter::default(), objects, rendered: Vec::new(), long: None }
    }

    /// The frames of all that was rendered since the last call.
    fn take_frames(&mut self) -> impl Iterator<Item = StreamFrame> + use<> {
        let objects = self.sender.object_frames(std::mem::take(&mut self.rendered), self.long.take());
        let sender = self.sender.clone();
        self.raw.take().into_iter().flat_map(move |bytes| sender.record_frames(bytes)).chain(objects)
    }
}

impl RecordSink for StreamSink {
    fn takes_runs(&self) -> bool {
        self.sender.format.is_raw()
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
        let frames = self.take_frames();
        self.permit.send_async(&self.sender, frames).await
    }

    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        let frames = self.take_frames();
        self.permit.send(&self.sender, frames, release_memory)
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.sender.closed()
    }
}
