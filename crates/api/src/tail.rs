//! `GET /api/v1/tail`: records as they are accepted.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_doors::Clock;
use bucksaw_query::{Cancel, RecordRef, Tail, Tailed};
use serde_json::json;

use crate::app::App;
use crate::cluster;
use crate::error::ApiError;
use crate::params::Params;
use crate::render::{self, Long};
use crate::stream::{Form, Pieces, open};

/// How often a follower looks for new records: half of the time from accepted to seen, at the most.
const LOOK: Duration = Duration::from_millis(20);

/// A piece of the answer is sent when it has so many bytes: a follower that stalls holds a few pieces.
pub(crate) const PIECE_BYTES: usize = 32 << 10;

/// What a follower was not shown is told so often.
const TELL: Duration = Duration::from_millis(200);

/// A sign of life for proxies, who close what is silent.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

pub(crate) async fn tail(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    params.only(&["q", "format", "rate"])?;
    let form = Form::of(&headers, params.text("format")?)?;
    let expr = params.expr()?;
    let pace = Pace::new(params.number("rate")?, Arc::clone(&app.doors.clock));
    let Ok(permit) = Arc::clone(&app.tails).try_acquire_owned() else {
        return Err(ApiError::busy("too many clients follow already"));
    };
    if let Some(scatter) = app.scatter() {
        let follow = scatter.tail(&expr)?;
        let (pieces, response) = open(form, Cancel::default());
        tokio::spawn(async move {
            let _permit = permit;
            cluster::follow(follow, form, &pieces, pace).await;
        });
        return Ok(response);
    }
    let tail = app.engine.tail(&expr)?;
    let (pieces, response) = open(form, Cancel::default());
    tokio::spawn(async move {
        let _permit = permit;
        follow(tail, form, &pieces, pace).await;
    });
    Ok(response)
}

/// How many records a follower wants to see, and what was kept from it.
pub(crate) struct Pace {
    /// Records a second, at most.
    rate: Option<u64>,
    /// Those that may be shown now.
    left: f64,
    filled: Duration,
    /// Those that were not shown, and of which was not told.
    skipped: u64,
    told: Duration,
    clock: Arc<dyn Clock>,
}

impl Pace {
    fn new(rate: Option<u64>, clock: Arc<dyn Clock>) -> Self {
        let now = clock.uptime();
        Self { rate, left: rate.map_or(0.0, |rate| rate as f64), filled: now, skipped: 0, told: now, clock }
    }

    /// Lets time pass: what may be shown grows, to no more than a second's.
    pub(crate) fn fill(&mut self) {
        let now = self.clock.uptime();
        let rate = self.rate.map_or(0.0, |rate| rate as f64);
        self.left = (self.left + rate * (now - self.filled).as_secs_f64()).min(rate);
        self.filled = now;
    }

    /// Whether the next record is shown.
    pub(crate) fn shows(&mut self) -> bool {
        let shown = self.rate.is_none() || self.left >= 1.0;
        if shown {
            self.left -= 1.0;
        } else {
            self.skipped += 1;
        }
        shown
    }

    /// How many were not shown, when it is time to tell.
    pub(crate) fn tell(&mut self) -> Option<u64> {
        let now = self.clock.uptime();
        if self.skipped == 0 || now - self.told < TELL {
            return None;
        }
        self.told = now;
        Some(std::mem::take(&mut self.skipped))
    }
}

async fn follow(mut tail: Tail, form: Form, pieces: &Pieces, mut pace: Pace) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut quiet = Duration::ZERO;
    loop {
        let more = tail.has_more();
        tokio::select! {
            biased;
            () = pieces.gone() => return,
            // Who has to catch up does not wait.
            () = std::future::ready(()), if more => {}
            _ = look.tick() => {}
        }
        let Ok((back, mut tailed)) = tokio::task::spawn_blocking(move || {
            let tailed = tail.poll();
            (tail, tailed)
        })
        .await
        else {
            return;
        };
        tail = back;
        quiet = if tailed.is_empty() { quiet + LOOK } else { Duration::ZERO };
        let beat = quiet >= HEARTBEAT;
        if beat {
            quiet = Duration::ZERO;
        }
        if send(&mut tailed, form, pieces, &mut pace, beat).await.is_err() {
            return;
        }
    }
}

async fn send(
    tailed: &mut Tailed,
    form: Form,
    pieces: &Pieces,
    pace: &mut Pace,
    beat: bool,
) -> Result<(), crate::stream::Gone> {
    if tailed.skipped_bytes > 0 {
        pieces.notice(&json!({ "skipped_bytes": tailed.skipped_bytes })).await?;
    }
    pace.fill();
    let mut out = Vec::new();
    let mut show = |record: RecordRef<'_>, out: &mut Vec<u8>| match pace.shows() {
        true => write(record, form, out),
        false => None,
    };
    while let Some(long) = tailed.show(|record| show(record, &mut out)) {
        if out.len() >= PIECE_BYTES || long.is_some() && !out.is_empty() {
            pieces.records_async(std::mem::take(&mut out).into()).await?;
        }
        if let Some(long) = long {
            pieces.long_async(long).await?;
        }
    }
    if out.is_empty() && beat && form == Form::Events {
        out.extend_from_slice(b": still here\n\n");
    }
    if !out.is_empty() {
        pieces.records_async(out.into()).await?;
    }
    match pace.tell() {
        Some(skipped) => pieces.notice(&json!({ "skipped_records": skipped })).await,
        None => Ok(()),
    }
}

/// Writes a record, or returns it when it is long and is to be rendered in pieces.
pub(crate) fn write(record: RecordRef<'_>, form: Form, out: &mut Vec<u8>) -> Option<Long> {
    let (before, after): (&[u8], &[u8]) = match form {
        form if form.is_raw() => {
            out.extend_from_slice(record.text);
            out.push(b'\n');
            return None;
        }
        Form::Events => (b"data: ", b"\n\n"),
        _ => (b"", b"\n"),
    };
    let long = Long::of(record, before, after);
    if long.is_none() {
        out.extend_from_slice(before);
        render::object(record, out);
        out.extend_from_slice(after);
    }
    long
}
