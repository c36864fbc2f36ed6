//! Reading a body, as far as there is memory for it, and handing it over to threads that may wait for the disk.
//!
//! Bytes are gathered until it is worth a thread's while; a client that drips takes none. Before anything grows, the
//! request's share of the [`Budget`](super::budget::Budget) does. Where it finds no room, records of a long body go to the
//! queue early, and then the client is not read from, which it notices as a connection that is slow.
//!
//! A client that stalls or drips keeps its share as long as nobody else wants it. When somebody does, it gives up its
//! records to the queue if its body is one that may be divided, and is told to come again if it is not.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::body::Decompressor;
use super::body_memory::{BodyReservation, ReserveError, UNRESERVED_BYTES_MAX};
use super::pipeline::{BUFFER_BYTES, Pipeline};
use crate::app::App;
use crate::error::ApiError;

/// What is gathered before a thread is asked to work on it, in bytes.
const WORK_BYTES_MIN: usize = 256 << 10;

/// Work that needs no more than this asks for no memory, in bytes: small bodies go on when it is short.
const UNRESERVED_WORK_BYTES_MAX: usize = 64 << 10;

/// How often a body that holds memory is looked after while nothing comes.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// While others wait for memory, a body must bring so many bytes in such a time to keep its own.
const SEND_WINDOW_BYTES_MIN: usize = 32 << 10;
const SEND_WINDOW: Duration = Duration::from_secs(2);

/// What belongs to a body and goes with it from thread to thread.
struct BodyState {
    decompressor: Decompressor,
    buffer: Vec<u8>,
    reservation: BodyReservation,
    /// What the body will need up to its next piece, as far as is known, in bytes.
    expected_bytes: usize,
    /// What is kept of the share until the next piece, in bytes: who has waited once need not wait for every part.
    reserved_bytes_min: usize,
}

/// What is to be done with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyWork {
    /// Unpack what is held.
    Push,
    /// The same, and give the records to the queue.
    Flush,
    /// The same, and nothing more will come.
    Finish,
}

/// Takes the body to its end. Gives back what became of it.
pub(super) async fn read_body(app: &App, mut body: Body, unpacker: Decompressor) -> Result<Pipeline, ApiError> {
    let likely = expected_bytes(HttpBody::size_hint(&body).lower());
    let mut load = BodyState {
        decompressor: unpacker,
        buffer: Vec::new(),
        reservation: app.body_memory.empty_reservation(),
        expected_bytes: likely,
        reserved_bytes_min: 0,
    };
    let mut pace = SendRate::new(app.env.clock.uptime());
    loop {
        let next = next_event(app, &mut body, &load.reservation, &mut pace).await;
        let next = next.map_err(|error| error.with_accepted(load.decompressor.accepted()))?;
        let ended = match next {
            BodyEvent::Bytes(bytes) => {
                load = reserve_for(app, load, bytes.len(), &mut pace).await?;
                load.push(&bytes);
                false
            }
            BodyEvent::End => true,
            BodyEvent::YieldMemory => {
                load = load.flush_if_streamed(app).await?;
                if load.reservation.bytes() > 0 {
                    let message = "the body arrived too slowly while other requests waited for memory: send it again";
                    app.body_memory.count_refused();
                    return Err(ApiError::unavailable(message).with_accepted(load.decompressor.accepted()));
                }
                false
            }
        };
        if ended || load.buffer.len() >= WORK_BYTES_MIN {
            load = load.run(app, if ended { BodyWork::Finish } else { BodyWork::Push }).await?;
            pace = SendRate::new(app.env.clock.uptime());
        }
        if ended {
            return Ok(load.decompressor.into_pipeline());
        }
    }
}

/// What comes next of a body.
enum BodyEvent {
    Bytes(Bytes),
    End,
    /// Others want the memory, and the client is slow.
    YieldMemory,
}

async fn next_event(
    app: &App,
    body: &mut Body,
    share: &BodyReservation,
    pace: &mut SendRate,
) -> Result<BodyEvent, ApiError> {
    let clock = &app.env.clock;
    let (since, most) = (clock.uptime(), app.config.body_idle_timeout);
    loop {
        let now = clock.uptime();
        if share.bytes() > 0 && pace.is_slow(now) && app.body_memory.has_waiters() {
            *pace = SendRate::new(now);
            return Ok(BodyEvent::YieldMemory);
        }
        let left = most.saturating_sub(now.saturating_sub(since));
        if left.is_zero() {
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timed out while reading the body"));
        }
        let look = if share.bytes() > 0 { left.min(IDLE_POLL_INTERVAL) } else { left };
        match timeout(look, body.frame()).await {
            Err(_) => {}
            Ok(None) => return Ok(BodyEvent::End),
            Ok(Some(Err(error))) => return Err(ApiError::bad_request(format!("the body ended early: {error}"))),
            Ok(Some(Ok(frame))) => {
                let bytes = frame.into_data().unwrap_or_default();
                pace.add(bytes.len());
                return Ok(BodyEvent::Bytes(bytes));
            }
        }
    }
}

/// Makes room for bytes that came.
async fn reserve_for(app: &App, mut load: BodyState, bytes: usize, pace: &mut SendRate) -> Result<BodyState, ApiError> {
    if load.reservation.try_grow(load.bytes_with(bytes)) {
        return Ok(load);
    }
    load = load.flush_if_streamed(app).await?;
    let wanted = load.bytes_with(bytes);
    load.reserved_bytes_min = load.expected_bytes.max(wanted);
    let grown = load.reservation.grow(load.reserved_bytes_min).await;
    grown.map_err(|short| reserve_failure(short).with_accepted(load.decompressor.accepted()))?;
    // The time in which nothing was read is not the client's.
    *pace = SendRate::new(app.env.clock.uptime());
    Ok(load)
}

fn reserve_failure(short: ReserveError) -> ApiError {
    match short {
        ReserveError::ExceedsLimit { bytes_max: most } => {
            let message = format!("the body needs more than {most} bytes at a time: send it in several");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        ReserveError::TimedOut => ApiError::unavailable("no memory for more request bodies: try again later"),
    }
}

impl BodyState {
    /// Bytes that are held.
    fn bytes(&self) -> usize {
        self.buffer.capacity() + self.decompressor.buffered_bytes()
    }

    /// Bytes that are held when so many more are.
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

    /// Gives the records to the queue, when that may be.
    async fn flush_if_streamed(self, app: &App) -> Result<Self, ApiError> {
        if self.decompressor.pipeline().may_flush_early() { self.run(app, BodyWork::Flush).await } else { Ok(self) }
    }

    /// Works on what is held, on a thread that may wait for the disk.
    async fn run(mut self, app: &App, work: BodyWork) -> Result<Self, ApiError> {
        let before = self.decompressor.accepted();
        let most = self.buffer.capacity() + self.decompressor.peak_bytes(&self.buffer, work == BodyWork::Finish);
        // What is little is not held for long, and by few at a time.
        let grown = if most > UNRESERVED_WORK_BYTES_MAX { self.reservation.grow(most).await } else { Ok(()) };
        grown.map_err(|short| reserve_failure(short).with_accepted(self.decompressor.accepted()))?;
        let permit = Arc::clone(&app.ingest_permits).acquire_owned().await.map_err(|_| ApiError::internal())?;
        let worked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
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
            (self, done)
        });
        let (mut load, done) = worked.await.map_err(|_| ApiError::internal())?;
        done.map_err(|error| error.with_accepted(load.decompressor.accepted()))?;
        if load.decompressor.accepted() > before {
            load.reservation.reset_wait();
        }
        if load.decompressor.accepted() > before || work != BodyWork::Push {
            load.reserved_bytes_min = 0;
        }
        load.reservation.shrink(load.bytes().max(load.reserved_bytes_min));
        Ok(load)
    }
}

/// What a body of so many bytes needs while it is gathered and worked on, up to its first piece.
fn expected_bytes(length: u64) -> usize {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(BUFFER_BYTES);
    3 * buffer_capacity(length.min(WORK_BYTES_MIN)) + length + length / 2
}

/// Room for so many gathered bytes: twice as much each time, up to what is gathered.
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

    /// Whether too little came in the time that has passed; begins another when enough did.
    fn is_slow(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) < SEND_WINDOW {
            return false;
        }
        let slow = self.bytes < SEND_WINDOW_BYTES_MIN;
        if !slow {
            *self = Self::new(now);
        }
        slow
    }
}
