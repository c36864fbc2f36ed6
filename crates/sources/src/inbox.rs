//! Gathering the bytes of one message of the framed protocol.
//!
//! The buffer never grows beyond what the message's header announces, and a large message first gets its share of the
//! memory that all connections have for this. A message that has begun must go on: half of one holds that share.

use std::time::Duration;

use bucksaw_ingest::Refusal;
use bucksaw_segment::Header;
use bucksaw_wire::WireError;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use crate::feed::{CHUNK_BYTES, Feed, Read};
use crate::shared::Shared;

/// Messages up to this size do not ask for memory, in bytes.
const FREE_BYTES: usize = 4 << 10;

/// What a buffer keeps between two messages while they follow each other closely, in bytes.
const KEPT_BYTES: usize = 512 << 10;

/// Bytes that came and are not yet handled.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) bytes: Vec<u8>,
}

/// Why no message comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The stream has ended or the node stops. Half a message is no harm: it was not acknowledged and is sent again.
    #[error("the stream has ended")]
    Ended,
    /// The client breaks the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It began a message and did not go on.
    #[error("a message that had begun did not arrive within {} s", .0.as_secs())]
    Slow(Duration),
    /// The queue does not take the batch.
    #[error(transparent)]
    Refused(Refusal),
}

impl Inbox {
    /// Reads until `missing` says that nothing is missing. The permit stands for the memory of the message.
    pub(crate) async fn fill<'a>(
        &mut self,
        feed: &mut Feed<'_>,
        shared: &'a Shared,
        missing: impl Fn(&[u8]) -> Result<usize, WireError>,
    ) -> Result<Option<SemaphorePermit<'a>>, Fault> {
        let mut permit = None;
        loop {
            let wanted = missing(&self.bytes)?;
            if wanted == 0 {
                return Ok(permit);
            }
            if self.bytes.is_empty() {
                self.wait(feed).await?;
                continue;
            }
            if wanted > FREE_BYTES && permit.is_none() {
                permit = room(feed, shared, wanted).await?;
            }
            let time = shared.intake.config.frame_time_max;
            timeout(time, self.add(feed, wanted)).await.map_err(|_| Fault::Slow(time))??;
        }
    }

    /// Forgets a message that was handled.
    pub(crate) fn consume(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }

    /// Waits for the start of a message, without a buffer.
    async fn wait(&mut self, feed: &mut Feed<'_>) -> Result<(), Fault> {
        loop {
            let bytes = &mut self.bytes;
            match feed.read(Header::LEN, |chunk| bytes.extend_from_slice(chunk)) {
                Read::Took(()) => return Ok(()),
                Read::End => return Err(Fault::Ended),
                Read::Empty => {}
            }
            self.bytes = Vec::new();
            if !feed.wait().await {
                return Err(Fault::Ended);
            }
        }
    }

    async fn add(&mut self, feed: &mut Feed<'_>, wanted: usize) -> Result<(), Fault> {
        let end = self.bytes.len() + wanted;
        if self.bytes.capacity() > KEPT_BYTES.max(end) {
            self.bytes.shrink_to(end);
        }
        self.bytes.reserve_exact(wanted);
        while self.bytes.len() < end {
            let most = (end - self.bytes.len()).min(CHUNK_BYTES);
            let bytes = &mut self.bytes;
            feed.next(most, |chunk| bytes.extend_from_slice(chunk)).await.ok_or(Fault::Ended)?;
        }
        Ok(())
    }
}

/// Waits for memory, as long as that is of use.
async fn room<'a>(feed: &mut Feed<'_>, shared: &'a Shared, bytes: usize) -> Result<Option<SemaphorePermit<'a>>, Fault> {
    let bytes = bytes.min(shared.intake.config.partial_bytes_max.max(1));
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    tokio::select! {
        // First: a client that has closed its side may have sent whole batches before that.
        biased;
        permit = shared.frame_bytes.acquire_many(bytes) => Ok(permit.ok()),
        () = feed.until_useless() => Err(Fault::Ended),
    }
}
