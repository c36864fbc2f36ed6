//! The messages of a connection, as they arrive.
//!
//! All listeners share a limited amount of memory. Only a small part of a message is read before its memory is
//! reserved. The length of a message may be unknown until its end, so its reservation grows. A reservation that waits
//! too long ends the connection, because two messages could wait for each other.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::ops::Range;

use bucksaw_protocols::fluent::{FluentFrame, FluentFramer};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::connection_end::FluentEnd;
use crate::listener_state::ListenerState;
use crate::socket_reader::{CHUNK_BYTES, SocketReader};

/// Bytes that are held without a reservation.
const UNRESERVED_BYTES_MAX: usize = 8 << 10;

/// What has arrived and is not yet decoded.
pub(super) struct FluentInbox<'a> {
    shared: &'a ListenerState,
    framer: FluentFramer,
    bytes: Vec<u8>,
    /// The start of the first message in `bytes`.
    start: usize,
    /// At least this many bytes of that message have not arrived.
    missing: usize,
    may_have_more: bool,
    reserved: Option<SemaphorePermit<'a>>,
}

impl<'a> FluentInbox<'a> {
    /// Creates an empty inbox for messages up to the maximum of the listener. Reserves no memory.
    pub(super) fn new(shared: &'a ListenerState) -> Self {
        let framer = FluentFramer::new(shared.config.message_bytes());
        Self { shared, framer, bytes: Vec::new(), start: 0, missing: 1, may_have_more: false, reserved: None }
    }

    /// Limits the messages from now on, for a handshake.
    pub(super) fn limit(&mut self, message_bytes_max: usize) {
        self.framer = FluentFramer::new(message_bytes_max);
    }

    /// The next message, if all of it has arrived.
    pub(super) fn arrived(&mut self) -> Result<Option<&[u8]>, FluentEnd> {
        let message = self.take_whole()?;
        Ok(message.map(|message| self.bytes.get(message).unwrap_or_default()))
    }

    /// Waits for the next whole message.
    pub(super) async fn next(&mut self, feed: &mut SocketReader<'_>) -> Result<&[u8], FluentEnd> {
        loop {
            if let Some(message) = self.take_whole()? {
                return Ok(self.bytes.get(message).unwrap_or_default());
            }
            self.read(feed).await?;
        }
    }

    /// Where the next message is, if all of it has arrived.
    fn take_whole(&mut self) -> Result<Option<Range<usize>>, FluentEnd> {
        let unread = self.bytes.get(self.start..).unwrap_or_default();
        match self.framer.frame(unread)? {
            FluentFrame::Whole(length) => {
                let message = self.start..self.start + length;
                self.start = message.end;
                Ok(Some(message))
            }
            FluentFrame::Missing(missing) => {
                self.missing = missing;
                Ok(None)
            }
        }
    }

    /// Waits for bytes, when no whole message is left.
    pub(super) async fn read(&mut self, feed: &mut SocketReader<'_>) -> Result<(), FluentEnd> {
        self.bytes.drain(..self.start);
        self.start = 0;
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
            self.reserved = None;
        } else {
            self.reserve(self.bytes.len().saturating_add(self.missing)).await?;
        }
        if self.shared.is_refusing() && !feed.is_stopped() {
            feed.pause(crate::append_retry::REFUSED_PAUSE).await;
        }
        let bytes_max = if self.reserved.is_some() { CHUNK_BYTES } else { UNRESERVED_BYTES_MAX };
        let is_started = !self.bytes.is_empty();
        let bytes = &mut self.bytes;
        let next = feed.next(bytes_max, |chunk| {
            bytes.extend_from_slice(chunk);
            chunk.len()
        });
        let read = if is_started {
            let time = self.shared.config.frame_timeout;
            timeout(time, next).await.map_err(|_| FluentEnd::Sender("the rest of a message did not arrive in time"))?
        } else {
            next.await
        };
        self.may_have_more = read.ok_or(FluentEnd::Closed)? == bytes_max;
        Ok(())
    }

    /// Whether the last read may have left bytes.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Reserves memory for a message of at least this length.
    async fn reserve(&mut self, length: usize) -> Result<(), FluentEnd> {
        if length <= UNRESERVED_BYTES_MAX {
            return Ok(());
        }
        let max = self.shared.config.partial_bytes_max.max(1);
        let wanted = length.min(self.shared.config.message_bytes()).next_power_of_two().min(max);
        let held = self.reserved.as_ref().map_or(0, SemaphorePermit::num_permits);
        if wanted <= held {
            return Ok(());
        }
        let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
        let acquired = timeout(self.shared.config.frame_timeout, self.shared.frame_bytes().acquire_many(more)).await;
        match (acquired, &mut self.reserved) {
            (Ok(Ok(more)), Some(held)) => held.merge(more),
            (Ok(Ok(first)), none) => *none = Some(first),
            _ => return Err(FluentEnd::Sender("other senders use the memory for long messages")),
        }
        Ok(())
    }
}
