//! `GET /api/v1/tail`: records as they are accepted.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_env::Clock;
use bucksaw_query::{Cancel, RecordRef, Tail, TailBatch};
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::render::{self, LongRecord};
use crate::scatter;
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// How often a follower looks for new records: half of the time from accepted to seen, at the most.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A piece of the answer is sent when it has so many bytes: a follower that stalls holds a few pieces.
pub(crate) const FRAME_BYTES: usize = 32 << 10;

/// What a follower was not shown is told so often.
const SKIPPED_REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// A sign of life for proxies, who close what is silent.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

pub(crate) async fn tail(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    params.reject_unknown(&["q", "format", "rate"])?;
    let form = StreamFormat::negotiate(&headers, params.text("format")?)?;
    let expr = params.expr()?;
    let limiter = TailRateLimiter::new(params.number("rate")?, Arc::clone(&app.env.clock));
    let Ok(permit) = Arc::clone(&app.tail_permits).try_acquire_owned() else {
        return Err(ApiError::too_many_requests("too many tails are open"));
    };
    if let Some(scatter) = app.scatter() {
        let follow = scatter.tail(&expr)?;
        let (sender, response) = open_stream(form, Cancel::default());
        tokio::spawn(async move {
            let _permit = permit;
            scatter::write_tail(follow, form, &sender, limiter).await;
        });
        return Ok(response);
    }
    let tail = app.engine.tail(&expr)?;
    let (sender, response) = open_stream(form, Cancel::default());
    tokio::spawn(async move {
        let _permit = permit;
        write_tail(tail, form, &sender, limiter).await;
    });
    Ok(response)
}

/// How many records a follower wants to see, and what was kept from it.
pub(crate) struct TailRateLimiter {
    /// Records a second, at most.
    records_per_second: Option<u64>,
    /// Those that may be shown now.
    tokens: f64,
    refilled_at: Duration,
    /// Those that were not shown, and of which was not told.
    skipped: u64,
    reported_at: Duration,
    clock: Arc<dyn Clock>,
}

impl TailRateLimiter {
    fn new(rate: Option<u64>, clock: Arc<dyn Clock>) -> Self {
        let now = clock.uptime();
        Self {
            records_per_second: rate,
            tokens: rate.map_or(0.0, |rate| rate as f64),
            refilled_at: now,
            skipped: 0,
            reported_at: now,
            clock,
        }
    }

    /// Lets time pass: what may be shown grows, to no more than a second's.
    pub(crate) fn refill(&mut self) {
        let now = self.clock.uptime();
        let rate = self.records_per_second.map_or(0.0, |rate| rate as f64);
        self.tokens = (self.tokens + rate * (now - self.refilled_at).as_secs_f64()).min(rate);
        self.refilled_at = now;
    }

    /// Whether the next record is shown.
    pub(crate) fn try_take(&mut self) -> bool {
        let shown = self.records_per_second.is_none() || self.tokens >= 1.0;
        if shown {
            self.tokens -= 1.0;
        } else {
            self.skipped += 1;
        }
        shown
    }

    /// How many were not shown, when it is time to tell.
    pub(crate) fn take_report(&mut self) -> Option<u64> {
        let now = self.clock.uptime();
        if self.skipped == 0 || now - self.reported_at < SKIPPED_REPORT_INTERVAL {
            return None;
        }
        self.reported_at = now;
        Some(std::mem::take(&mut self.skipped))
    }
}

async fn write_tail(mut tail: Tail, format: StreamFormat, sender: &StreamSender, mut limiter: TailRateLimiter) {
    let mut look = tokio::time::interval(POLL_INTERVAL);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut quiet = Duration::ZERO;
    loop {
        let more = tail.has_more();
        tokio::select! {
            biased;
            () = sender.wait_until_gone() => return,
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
        quiet = if tailed.is_empty() { quiet + POLL_INTERVAL } else { Duration::ZERO };
        let beat = quiet >= KEEPALIVE_INTERVAL;
        if beat {
            quiet = Duration::ZERO;
        }
        if write_batch(&mut tailed, format, sender, &mut limiter, beat).await.is_err() {
            return;
        }
    }
}

async fn write_batch(
    tailed: &mut TailBatch,
    format: StreamFormat,
    sender: &StreamSender,
    limiter: &mut TailRateLimiter,
    beat: bool,
) -> Result<(), crate::stream::ClientGone> {
    if tailed.skipped_bytes > 0 {
        sender.send_notice(&json!({ "skipped_bytes": tailed.skipped_bytes })).await?;
    }
    limiter.refill();
    let mut out = Vec::new();
    let mut show = |record: RecordRef<'_>, out: &mut Vec<u8>| match limiter.try_take() {
        true => write_record(record, format, out),
        false => None,
    };
    while let Some(long) = tailed.visit_next(|record| show(record, &mut out)) {
        if out.len() >= FRAME_BYTES || long.is_some() && !out.is_empty() {
            sender.send_records(std::mem::take(&mut out).into()).await?;
        }
        if let Some(long) = long {
            sender.send_long(long).await?;
        }
    }
    if out.is_empty() && beat && format == StreamFormat::Events {
        out.extend_from_slice(b": still here\n\n");
    }
    if !out.is_empty() {
        sender.send_records(out.into()).await?;
    }
    match limiter.take_report() {
        Some(skipped) => sender.send_notice(&json!({ "skipped_records": skipped })).await,
        None => Ok(()),
    }
}

/// Writes a record, or returns it when it is long and is to be rendered in pieces.
pub(crate) fn write_record(record: RecordRef<'_>, format: StreamFormat, out: &mut Vec<u8>) -> Option<LongRecord> {
    let (before, after): (&[u8], &[u8]) = match format {
        form if form.is_raw() => {
            out.extend_from_slice(record.text);
            out.push(b'\n');
            return None;
        }
        StreamFormat::Events => (b"data: ", b"\n\n"),
        _ => (b"", b"\n"),
    };
    let long = LongRecord::if_long(record, before, after);
    if long.is_none() {
        out.extend_from_slice(before);
        render::object(record, out);
        out.extend_from_slice(after);
    }
    long
}
