//! Reads a body as far as memory allows, and processes it on threads that may wait for the disk.
//!
//! Bytes are collected until they are worth a thread's work, so a slow client occupies no thread. The request's
//! [`BodyReservation`] grows before any buffer does. If it cannot, records of a long body are appended early, and then the
//! client is not read from, which to the client is a slow connection.
//!
//! A slow client keeps its memory while no other request waits for memory. When one does, a long body appends its records
//! and frees the memory; a short one, which is accepted as a whole or not at all, is refused.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Clock;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::body_consumer::BodyConsumer;
use super::body_error::{BodyError, BodyErrorReason};
use super::body_memory::{BodyMemory, BodyReservation, UNRESERVED_BYTES_MAX};
use super::body_records::BUFFER_BYTES;
use super::decompressor::Decompressor;

/// Bytes that are collected before a thread processes them.
const WORK_BYTES_MIN: usize = 256 << 10;

/// Bytes that work may use without a reservation, so small bodies pass when memory is short.
const UNRESERVED_WORK_BYTES_MAX: usize = 64 << 10;

/// How often an idle body that holds memory checks whether other requests wait for it.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long the first bytes of an endless body wait before they are appended.
const APPEND_DELAY_MAX: Duration = Duration::from_secs(1);

/// While other requests wait for memory, a body must send this many bytes per window to keep its own.
const SEND_WINDOW_BYTES_MIN: usize = 32 << 10;
const SEND_WINDOW: Duration = Duration::from_secs(2);

/// Limits of request bodies.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// A client that sends nothing of its body for this long is disconnected.
    pub idle_timeout: Duration,
    /// The longest record, in bytes; longer ones are cut.
    pub record_bytes_max: usize,
    /// The decompressed size of a body, in bytes. A body that is not compressed may have any size.
    pub decompressed_bytes_max: u64,
    /// Memory of all bodies together, in bytes; at least one and a quarter times [`body_bytes_max`](super::body_bytes_max) is used.
    pub memory_bytes_max: usize,
    /// How long a body waits for that memory before it is refused.
    pub memory_wait_max: Duration,
    /// Bodies that are decompressed and appended at the same time.
    pub workers_max: usize,
}

/// A source of the chunks of one body.
pub trait BodyChunks: Send {
    /// The next chunk, `None` at the end, or why the body ended early.
    fn next_chunk(&mut self) -> impl Future<Output = Option<Result<bytes::Bytes, String>>> + Send;
}

/// What all bodies share.
#[derive(Debug)]
pub(super) struct BodyResources {
    pub(super) limits: BodyLimits,
    pub(super) memory: BodyMemory,
    pub(super) workers: Arc<Semaphore>,
    pub(super) clock: Arc<dyn Clock>,
}

/// Reads one body.
pub(super) struct BodyReader<'a, C: BodyConsumer> {
    bodies: &'a BodyResources,
    state: BodyState<C>,
    send_rate: SendRate,
    /// When the first bytes of an endless body arrived that may not be appended yet.
    unappended_since: Option<Duration>,
}

/// What moves with a body from thread to thread.
struct BodyState<C: BodyConsumer> {
    decompressor: Decompressor<C>,
    buffer: Vec<u8>,
    reservation: BodyReservation,
    /// Memory that the body is expected to need until its next append, in bytes.
    expected_bytes: usize,
    /// Reserved memory that is kept until the next append, in bytes, so that a body that waited once need not wait for each
    /// part.
    reserved_bytes_min: usize,
}

/// What is done with the collected bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyWork {
    /// Decompress and cut them.
    Push,
    /// The same, and append the records.
    Flush,
    /// The same, as the end of the body.
    Finish,
}

enum BodyEvent {
    Bytes(bytes::Bytes),
    End,
    /// It is time to append the part of an endless body that has arrived.
    Append,
    /// Other requests wait for memory, and the client is slow.
    YieldMemory,
}

impl<'a, C: BodyConsumer> BodyReader<'a, C> {
    pub(super) fn new(bodies: &'a BodyResources, decompressor: Decompressor<C>, bytes_min: u64) -> Self {
        let state = BodyState {
            decompressor,
            buffer: Vec::new(),
            reservation: bodies.memory.empty_reservation(),
            expected_bytes: expected_bytes(bytes_min),
            reserved_bytes_min: 0,
        };
        Self { bodies, state, send_rate: SendRate::new(bodies.uptime()), unappended_since: None }
    }

    /// Reads the body to its end and returns its consumer.
    pub(super) async fn read(mut self, mut body: impl BodyChunks) -> Result<C, BodyError> {
        loop {
            let event = self.next_event(&mut body).await;
            let event = event.map_err(|error| error.with_accepted(self.state.accepted()))?;
            let is_end = match event {
                BodyEvent::Bytes(bytes) => {
                    self = self.reserve_for(bytes.len()).await?;
                    self.state.push(&bytes);
                    if self.is_endless() && self.unappended_since.is_none() {
                        self.unappended_since = Some(self.bodies.uptime());
                    }
                    false
                }
                BodyEvent::End => true,
                BodyEvent::Append => {
                    self = self.run(BodyWork::Flush).await?;
                    false
                }
                BodyEvent::YieldMemory => {
                    self = self.flush_if_streamed().await?;
                    if self.state.reservation.bytes() > 0 {
                        self.bodies.memory.count_refused();
                        let message =
                            "the body arrived too slowly while other requests waited for memory: send it again";
                        let error = BodyError::from(BodyErrorReason::MemoryShort(message));
                        return Err(error.with_accepted(self.state.accepted()));
                    }
                    false
                }
            };
            if is_end {
                self = self.run(BodyWork::Finish).await?;
                return Ok(self.state.decompressor.into_consumer());
            }
            if self.state.buffer.len() >= WORK_BYTES_MIN {
                self = self.run(BodyWork::Push).await?;
                self.send_rate = SendRate::new(self.bodies.uptime());
            }
        }
    }

    fn is_endless(&self) -> bool {
        self.state.decompressor.consumer().is_endless()
    }

    async fn next_event(&mut self, body: &mut impl BodyChunks) -> Result<BodyEvent, BodyError> {
        let since = self.bodies.uptime();
        // Without bytes, an endless body holds little memory. The system detects clients that vanished.
        let idle_timeout = if self.is_endless() { Duration::MAX } else { self.bodies.limits.idle_timeout };
        loop {
            let now = self.bodies.uptime();
            let holds_memory = self.state.reservation.bytes() > 0;
            if holds_memory && self.send_rate.is_slow(now) && self.bodies.memory.has_waiters() {
                self.send_rate = SendRate::new(now);
                return Ok(BodyEvent::YieldMemory);
            }
            let is_unappended = self.unappended_since.is_some();
            if self.unappended_since.is_some_and(|since| now.saturating_sub(since) >= APPEND_DELAY_MAX) {
                return Ok(BodyEvent::Append);
            }
            let left = idle_timeout.saturating_sub(now.saturating_sub(since));
            if left.is_zero() {
                return Err(BodyErrorReason::IdleTimeout.into());
            }
            let wait = if holds_memory || is_unappended { left.min(IDLE_POLL_INTERVAL) } else { left };
            match timeout(wait, body.next_chunk()).await {
                Err(_) => {}
                Ok(None) => return Ok(BodyEvent::End),
                Ok(Some(Err(error))) => {
                    return Err(BodyErrorReason::Invalid(format!("the body ended early: {error}")).into());
                }
                Ok(Some(Ok(bytes))) => {
                    self.send_rate.add(bytes.len());
                    return Ok(BodyEvent::Bytes(bytes));
                }
            }
        }
    }

    /// Reserves memory for bytes that arrived.
    async fn reserve_for(mut self, bytes: usize) -> Result<Self, BodyError> {
        if self.state.reservation.try_grow(self.state.bytes_with(bytes)) {
            return Ok(self);
        }
        self = self.flush_if_streamed().await?;
        let state = &mut self.state;
        state.reserved_bytes_min = state.expected_bytes.max(state.bytes_with(bytes));
        let grown = state.reservation.grow(state.reserved_bytes_min).await;
        grown.map_err(|reason| BodyError::from(reason).with_accepted(state.accepted()))?;
        // The client is not responsible for the time in which it was not read from.
        self.send_rate = SendRate::new(self.bodies.uptime());
        Ok(self)
    }

    /// Appends the records, if the body may be accepted in parts.
    async fn flush_if_streamed(self) -> Result<Self, BodyError> {
        if self.state.decompressor.consumer().may_flush_early() { self.run(BodyWork::Flush).await } else { Ok(self) }
    }

    /// Processes the collected bytes on a thread that may wait for the disk.
    async fn run(self, work: BodyWork) -> Result<Self, BodyError> {
        let Self { bodies, mut state, send_rate, unappended_since } = self;
        let accepted = state.accepted();
        let peak = state.buffer.capacity() + state.decompressor.peak_bytes(&state.buffer, work == BodyWork::Finish);
        // Little memory is held only briefly, and by few workers at a time.
        let grown = if peak > UNRESERVED_WORK_BYTES_MAX { state.reservation.grow(peak).await } else { Ok(()) };
        grown.map_err(|reason| BodyError::from(reason).with_accepted(accepted))?;
        let worker = Arc::clone(&bodies.workers).acquire_owned().await.map_err(|_| BodyErrorReason::Internal)?;
        let worked = tokio::task::spawn_blocking(move || {
            let _worker = worker;
            let done = state.work(work);
            (state, done)
        });
        let (mut state, done) = worked.await.map_err(|_| BodyErrorReason::Internal)?;
        done.map_err(|error| error.with_accepted(state.accepted()))?;
        let has_progressed = state.accepted() > accepted;
        if has_progressed {
            state.reservation.reset_wait();
        }
        if has_progressed || work != BodyWork::Push {
            state.reserved_bytes_min = 0;
        }
        state.reservation.shrink(state.bytes().max(state.reserved_bytes_min));
        let unappended_since = if work == BodyWork::Push { unappended_since } else { None };
        Ok(Self { bodies, state, send_rate, unappended_since })
    }
}

impl BodyResources {
    fn uptime(&self) -> Duration {
        self.clock.uptime()
    }
}

impl<C: BodyConsumer> BodyState<C> {
    fn accepted(&self) -> u64 {
        self.decompressor.accepted()
    }

    /// Bytes of memory that are held.
    fn bytes(&self) -> usize {
        self.buffer.capacity() + self.decompressor.buffered_bytes()
    }

    /// Bytes of memory that are held after `bytes` more are collected.
    fn bytes_with(&self, bytes: usize) -> usize {
        self.buffer.capacity().max(buffer_capacity(self.buffer.len() + bytes)) + self.decompressor.buffered_bytes()
    }

    fn push(&mut self, bytes: &[u8]) {
        let all = self.buffer.len() + bytes.len();
        if all > self.buffer.capacity() {
            self.buffer.reserve_exact(buffer_capacity(all) - self.buffer.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Processes the collected bytes. Waits for the disk.
    fn work(&mut self, work: BodyWork) -> Result<(), BodyError> {
        let done = self.decompressor.push(&self.buffer).and_then(|()| match work {
            BodyWork::Push => Ok(()),
            BodyWork::Flush => self.decompressor.flush(),
            BodyWork::Finish => self.decompressor.finish(),
        });
        self.decompressor.release_buffers();
        match work {
            BodyWork::Push => self.buffer.clear(),
            BodyWork::Flush | BodyWork::Finish => self.buffer = Vec::new(),
        }
        done
    }
}

/// Memory for a body of `length` bytes until its first append.
fn expected_bytes(length: u64) -> usize {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(BUFFER_BYTES);
    3 * buffer_capacity(length.min(WORK_BYTES_MIN)) + length + length / 2
}

/// Memory for `bytes` collected bytes: twice as much at each growth, up to what is collected.
fn buffer_capacity(bytes: usize) -> usize {
    bytes.max(UNRESERVED_BYTES_MAX / 2).max(bytes.saturating_mul(2).min(WORK_BYTES_MIN))
}

/// How fast a client sends.
struct SendRate {
    since: Duration,
    bytes: usize,
}

impl SendRate {
    fn new(now: Duration) -> Self {
        Self { since: now, bytes: 0 }
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether too few bytes arrived in the window. Starts the next window if enough did.
    fn is_slow(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) < SEND_WINDOW {
            return false;
        }
        let is_slow = self.bytes < SEND_WINDOW_BYTES_MIN;
        if !is_slow {
            *self = Self::new(now);
        }
        is_slow
    }
}
