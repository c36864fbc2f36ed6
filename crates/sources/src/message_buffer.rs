//! Collects the bytes of one message of the framed protocol.
//!
//! The buffer never exceeds the length in the message's header. A large message first reserves its part of the memory that all
//! connections share, so the rest of a message must arrive within a timeout.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use bucksaw_auth::AuthRefusalReason;
use bucksaw_ingest::IngestError;
use bucksaw_segment::FrameHeader;
use bucksaw_wire::WireError;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use crate::listener_state::ListenerState;
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};

/// Messages up to this size need no reservation, in bytes.
const UNRESERVED_BYTES_MAX: usize = 4 << 10;

/// The capacity that a buffer keeps between two messages that follow each other closely, in bytes.
const IDLE_CAPACITY_MAX: usize = 512 << 10;

/// Received bytes that are not yet processed.
#[derive(Default)]
pub(crate) struct MessageBuffer {
    pub(crate) bytes: Vec<u8>,
}

/// Why no message was received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The stream has ended or the node is stopping. Half a message was not acknowledged, so it is sent again.
    #[error("the stream has ended")]
    Ended,
    /// The client violates the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("timeout: the rest of a message did not arrive within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The client has no valid credential.
    #[error("{0}: see --token-file")]
    Unauthenticated(AuthRefusalReason),
    /// The queue refuses the batch.
    #[error(transparent)]
    Refused(IngestError),
}

impl MessageBuffer {
    /// Reads until `missing` returns 0. The permit reserves the memory of the message.
    pub(crate) async fn fill<'a>(
        &mut self,
        feed: &mut SocketReader<'_>,
        shared: &'a ListenerState,
        missing: impl Fn(&[u8]) -> Result<usize, WireError>,
    ) -> Result<Option<SemaphorePermit<'a>>, ReceiveError> {
        let mut permit = None;
        loop {
            let wanted = missing(&self.bytes)?;
            if wanted == 0 {
                return Ok(permit);
            }
            if self.bytes.is_empty() {
                self.wait_for_message(feed).await?;
                continue;
            }
            if wanted > UNRESERVED_BYTES_MAX && permit.is_none() {
                permit = reserve_memory(feed, shared, wanted).await?;
            }
            let time = shared.config.frame_timeout;
            timeout(time, self.read_missing(feed, wanted)).await.map_err(|_| ReceiveError::Timeout(time))??;
        }
    }

    /// Removes a processed message.
    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    /// Waits for the start of a message, without a buffer.
    async fn wait_for_message(&mut self, feed: &mut SocketReader<'_>) -> Result<(), ReceiveError> {
        loop {
            let bytes = &mut self.bytes;
            match feed.read(FrameHeader::LEN, |chunk| bytes.extend_from_slice(chunk)) {
                SocketRead::Data(()) => return Ok(()),
                SocketRead::Ended => return Err(ReceiveError::Ended),
                SocketRead::WouldBlock => {}
            }
            self.bytes = Vec::new();
            if !feed.wait().await {
                return Err(ReceiveError::Ended);
            }
        }
    }

    async fn read_missing(&mut self, feed: &mut SocketReader<'_>, wanted: usize) -> Result<(), ReceiveError> {
        let end = self.bytes.len() + wanted;
        if self.bytes.capacity() > IDLE_CAPACITY_MAX.max(end) {
            self.bytes.shrink_to(end);
        }
        self.bytes.reserve_exact(wanted);
        while self.bytes.len() < end {
            let bytes_max = (end - self.bytes.len()).min(CHUNK_BYTES);
            let bytes = &mut self.bytes;
            feed.next(bytes_max, |chunk| bytes.extend_from_slice(chunk)).await.ok_or(ReceiveError::Ended)?;
        }
        Ok(())
    }
}

/// Waits for memory, until the stop or the end of the client.
async fn reserve_memory<'a>(
    feed: &mut SocketReader<'_>,
    shared: &'a ListenerState,
    bytes: usize,
) -> Result<Option<SemaphorePermit<'a>>, ReceiveError> {
    let bytes = bytes.min(shared.config.partial_bytes_max.max(1));
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    tokio::select! {
        // First: a client that has closed its side may have sent whole batches before.
        biased;
        permit = shared.frame_bytes().acquire_many(bytes) => Ok(permit.ok()),
        () = feed.until_stop_or_hang_up() => Err(ReceiveError::Ended),
    }
}
