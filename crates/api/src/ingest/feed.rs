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

use super::body::Unpacker;
use super::budget::{FREE_BYTES, Share, Short};
use super::pipeline::{PIECE_BYTES, Pipeline};
use crate::app::App;
use crate::error::ApiError;

/// What is gathered before a thread is asked to work on it, in bytes.
const FEED_BYTES: usize = 256 << 10;

/// Work that needs no more than this asks for no memory, in bytes: small bodies go on when it is short.
const WORK_FREE_BYTES: usize = 64 << 10;

/// How often a body that holds memory is looked after while nothing comes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// While others wait for memory, a body must bring so many bytes in such a time to keep its own.
const PACE_BYTES: usize = 32 << 10;
const PACE_TIME: Duration = Duration::from_secs(2);

/// What belongs to a body and goes with it from thread to thread.
struct Load {
    unpacker: Unpacker,
    held: Vec<u8>,
    share: Share,
    /// What the body will need up to its next piece, as far as is known, in bytes.
    likely: usize,
    /// What is kept of the share until the next piece, in bytes: who has waited once need not wait for every part.
    kept: usize,
}

/// What is to be done with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Unpack what is held.
    Push,
    /// The same, and give the records to the queue.
    Flush,
    /// The same, and nothing more will come.
    Finish,
}

/// Takes the body to its end. Gives back what became of it.
pub(super) async fn feed(app: &App, mut body: Body, unpacker: Unpacker) -> Result<Pipeline, ApiError> {
    let likely = likely(HttpBody::size_hint(&body).lower());
    let mut load = Load { unpacker, held: Vec::new(), share: app.bodies.share(), likely, kept: 0 };
    let mut pace = Pace::new(app.doors.clock.uptime());
    loop {
        let next = next(app, &mut body, &load.share, &mut pace).await;
        let next = next.map_err(|error| error.after(load.unpacker.accepted()))?;
        let ended = match next {
            Next::Bytes(bytes) => {
                load = room(app, load, bytes.len(), &mut pace).await?;
                load.hold(&bytes);
                false
            }
            Next::End => true,
            Next::GiveWay => {
                load = load.work_if_divided(app).await?;
                if load.share.bytes() > 0 {
                    let message =
                        "the body came slowly while others waited for the memory that it holds: send it again";
                    app.bodies.refused();
                    return Err(ApiError::unavailable(message).after(load.unpacker.accepted()));
                }
                false
            }
        };
        if ended || load.held.len() >= FEED_BYTES {
            load = load.work(app, if ended { Work::Finish } else { Work::Push }).await?;
            pace = Pace::new(app.doors.clock.uptime());
        }
        if ended {
            return Ok(load.unpacker.into_pipeline());
        }
    }
}

/// What comes next of a body.
enum Next {
    Bytes(Bytes),
    End,
    /// Others want the memory, and the client is slow.
    GiveWay,
}

async fn next(app: &App, body: &mut Body, share: &Share, pace: &mut Pace) -> Result<Next, ApiError> {
    let clock = &app.doors.clock;
    let (since, most) = (clock.uptime(), app.config.body_idle_timeout);
    loop {
        let now = clock.uptime();
        if share.bytes() > 0 && pace.is_slow(now) && app.bodies.is_wanted() {
            *pace = Pace::new(now);
            return Ok(Next::GiveWay);
        }
        let left = most.saturating_sub(now.saturating_sub(since));
        if left.is_zero() {
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body stopped coming"));
        }
        let look = if share.bytes() > 0 { left.min(LOOK_EVERY) } else { left };
        match timeout(look, body.frame()).await {
            Err(_) => {}
            Ok(None) => return Ok(Next::End),
            Ok(Some(Err(error))) => return Err(ApiError::bad(format!("the body broke off: {error}"))),
            Ok(Some(Ok(frame))) => {
                let bytes = frame.into_data().unwrap_or_default();
                pace.note(bytes.len());
                return Ok(Next::Bytes(bytes));
            }
        }
    }
}

/// Makes room for bytes that came.
async fn room(app: &App, mut load: Load, bytes: usize, pace: &mut Pace) -> Result<Load, ApiError> {
    if load.share.try_grow(load.with(bytes)) {
        return Ok(load);
    }
    load = load.work_if_divided(app).await?;
    let wanted = load.with(bytes);
    load.kept = load.likely.max(wanted);
    let grown = load.share.grow(load.kept).await;
    grown.map_err(|short| refusal(short).after(load.unpacker.accepted()))?;
    // The time in which nothing was read is not the client's.
    *pace = Pace::new(app.doors.clock.uptime());
    Ok(load)
}

fn refusal(short: Short) -> ApiError {
    match short {
        Short::Never { most } => {
            let message = format!("the body needs more than {most} bytes at a time: send it in several");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        Short::Now => ApiError::unavailable("too many bodies are being taken in: try again later"),
    }
}

impl Load {
    /// Bytes that are held.
    fn bytes(&self) -> usize {
        self.held.capacity() + self.unpacker.held()
    }

    /// Bytes that are held when so many more are.
    fn with(&self, bytes: usize) -> usize {
        self.held.capacity().max(held_capacity(self.held.len() + bytes)) + self.unpacker.held()
    }

    fn hold(&mut self, bytes: &[u8]) {
        let all = self.held.len() + bytes.len();
        if all > self.held.capacity() {
            self.held.reserve_exact(held_capacity(all) - self.held.len());
        }
        self.held.extend_from_slice(bytes);
    }

    /// Gives the records to the queue, when that may be.
    async fn work_if_divided(self, app: &App) -> Result<Self, ApiError> {
        if self.unpacker.pipeline().is_divided() { self.work(app, Work::Flush).await } else { Ok(self) }
    }

    /// Works on what is held, on a thread that may wait for the disk.
    async fn work(mut self, app: &App, work: Work) -> Result<Self, ApiError> {
        let before = self.unpacker.accepted();
        let most = self.held.capacity() + self.unpacker.most(&self.held, work == Work::Finish);
        // What is little is not held for long, and by few at a time.
        let grown = if most > WORK_FREE_BYTES { self.share.grow(most).await } else { Ok(()) };
        grown.map_err(|short| refusal(short).after(self.unpacker.accepted()))?;
        let permit = Arc::clone(&app.ingests).acquire_owned().await.map_err(|_| ApiError::internal())?;
        let worked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let done = self.unpacker.push(&self.held).and_then(|()| match work {
                Work::Push => Ok(()),
                Work::Flush => self.unpacker.flush(),
                Work::Finish => self.unpacker.finish(),
            });
            self.unpacker.rest();
            match work {
                Work::Push => self.held.clear(),
                Work::Flush | Work::Finish => self.held = Vec::new(),
            }
            (self, done)
        });
        let (mut load, done) = worked.await.map_err(|_| ApiError::internal())?;
        done.map_err(|error| error.after(load.unpacker.accepted()))?;
        if load.unpacker.accepted() > before {
            load.share.renew();
        }
        if load.unpacker.accepted() > before || work != Work::Push {
            load.kept = 0;
        }
        load.share.shrink(load.bytes().max(load.kept));
        Ok(load)
    }
}

/// What a body of so many bytes needs while it is gathered and worked on, up to its first piece.
fn likely(length: u64) -> usize {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(PIECE_BYTES);
    3 * held_capacity(length.min(FEED_BYTES)) + length + length / 2
}

/// Room for so many gathered bytes: twice as much each time, up to what is gathered.
fn held_capacity(bytes: usize) -> usize {
    bytes.max(FREE_BYTES / 2).max(bytes.saturating_mul(2).min(FEED_BYTES))
}

/// How fast a client sends.
struct Pace {
    since: Duration,
    bytes: usize,
}

impl Pace {
    fn new(now: Duration) -> Self {
        Self { since: now, bytes: 0 }
    }

    fn note(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Whether too little came in the time that has passed; begins another when enough did.
    fn is_slow(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.since) < PACE_TIME {
            return false;
        }
        let slow = self.bytes < PACE_BYTES;
        if !slow {
            *self = Self::new(now);
        }
        slow
    }
}
