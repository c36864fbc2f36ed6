//! The messages of a connection, as they arrive.
//!
//! All listeners share a limited amount of memory. Of a message that is not whole only a small part is read before its memory
//! is reserved. The length of a message may be unknown until its end, so its reservation grows. A reservation that waits too
//! long ends the connection, because two messages could wait for each other. While half of the memory is free, everything
//! that has arrived is read at once, so that many short messages cost one read and one append.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::ops::Range;

use bucksaw_protocols::fluent::{FluentFrame, FluentFramer};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::connection_end::FluentEnd;
use crate::listener_state::ListenerState;
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};

/// Bytes that are held without a reservation.
const UNRESERVED_BYTES_MAX: usize = 8 << 10;

/// Bytes that are read at once while memory is free: few enough that the caches of a core hold them several times, because
/// each byte is copied several times on its way to the queue.
const AHEAD_BYTES: usize = 128 << 10;

/// What has arrived and is not yet decoded.
pub(super) struct FluentInbox<'a> {
    shared: &'a ListenerState,
    framer: FluentFramer,
    message_bytes_max: usize,
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
        let message_bytes_max = shared.config.message_bytes();
        let framer = FluentFramer::new(message_bytes_max);
        Self {
            shared,
            framer,
            message_bytes_max,
            bytes: Vec::new(),
            start: 0,
            missing: 1,
            may_have_more: false,
            reserved: None,
        }
    }

    /// Limits the messages from now on, for a handshake.
    pub(super) fn limit(&mut self, message_bytes_max: usize) {
        self.framer = FluentFramer::new(message_bytes_max);
        self.message_bytes_max = message_bytes_max;
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
        let is_started = !self.bytes.is_empty();
        let wanted = if is_started { self.reservation(self.bytes.len().saturating_add(self.missing)) } else { 0 };
        self.release_beyond(wanted);
        self.reserve(wanted).await?;
        if self.shared.is_refusing() && !feed.is_stopped() {
            feed.pause(crate::append_retry::REFUSED_PAUSE).await;
        }
        let time = self.shared.config.frame_timeout;
        let next = self.read_arrived(feed);
        let read = if is_started {
            timeout(time, next).await.map_err(|_| FluentEnd::Sender("the rest of a message did not arrive in time"))?
        } else {
            next.await
        };
        self.may_have_more = read.ok_or(FluentEnd::Closed)?;
        Ok(())
    }

    /// Waits for bytes, and reads those that have arrived and for which there is memory. Returns whether there may be more;
    /// `None` at the end of the stream.
    async fn read_arrived(&mut self, feed: &mut SocketReader<'_>) -> Option<bool> {
        loop {
            if !feed.wait().await {
                return None;
            }
            let ahead = self.reserve_ahead();
            let bytes_max = match (&self.reserved, &ahead) {
                (Some(_), _) => self.missing.clamp(AHEAD_BYTES, CHUNK_BYTES),
                (None, Some(_)) => AHEAD_BYTES,
                (None, None) => UNRESERVED_BYTES_MAX,
            };
            match feed.read_into(&mut self.bytes, bytes_max) {
                SocketRead::Data(count) => {
                    self.add_reservation(ahead);
                    return Some(count == bytes_max);
                }
                // It may stay so.
                SocketRead::WouldBlock => self.bytes.shrink_to_fit(),
                SocketRead::Ended => return None,
            }
        }
    }

    /// Whether the last read may have left bytes.
    pub(super) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Memory that is reserved, in bytes.
    fn held(&self) -> usize {
        self.reserved.as_ref().map_or(0, SemaphorePermit::num_permits)
    }

    /// The memory to reserve for a message of at least this length.
    fn reservation(&self, length: usize) -> usize {
        if length <= UNRESERVED_BYTES_MAX {
            return 0;
        }
        length.min(self.message_bytes_max).next_power_of_two().min(self.shared.config.partial_bytes_max.max(1))
    }

    /// Waits until this much memory is reserved.
    async fn reserve(&mut self, wanted: usize) -> Result<(), FluentEnd> {
        let Some(more) = wanted.checked_sub(self.held()).filter(|more| *more > 0) else { return Ok(()) };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let acquired = timeout(self.shared.config.frame_timeout, self.shared.frame_bytes().acquire_many(more)).await;
        let Ok(Ok(more)) = acquired else {
            return Err(FluentEnd::Sender("other senders use the memory for long messages"));
        };
        self.add_reservation(Some(more));
        Ok(())
    }

    /// Reserves memory for what may have arrived, unless half of all is in use: the rest is for long messages, which cannot do
    /// without. A client that has not logged in gets none.
    fn reserve_ahead(&self) -> Option<SemaphorePermit<'a>> {
        let free = self.shared.frame_bytes();
        let is_allowed = self.reserved.is_none()
            && self.message_bytes_max >= AHEAD_BYTES
            && free.available_permits() >= self.shared.config.partial_bytes_max / 2;
        is_allowed.then(|| free.try_acquire_many(AHEAD_BYTES as u32).ok()).flatten()
    }

    fn add_reservation(&mut self, more: Option<SemaphorePermit<'a>>) {
        match (more, &mut self.reserved) {
            (Some(more), Some(held)) => held.merge(more),
            (Some(first), none) => *none = Some(first),
            (None, _) => {}
        }
    }

    /// Frees memory beyond this reservation: what was read ahead, or all between two messages.
    fn release_beyond(&mut self, wanted: usize) {
        let more = self.held().saturating_sub(wanted);
        if wanted == 0 {
            self.reserved = None;
        } else if let Some(held) = &mut self.reserved {
            drop(held.split(more));
        }
        if self.bytes.capacity() > 2 * wanted.max(UNRESERVED_BYTES_MAX) || self.bytes.is_empty() {
            self.bytes.shrink_to(0);
        }
    }
}
