//! Tail: records as they are accepted.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bucksaw_env::Clock;
use bucksaw_query::{RecordRef, SinkClosed, TailEvent, TailRecords, TailStream};
use bytes::Bytes;
use serde_json::json;

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::permits::try_permit;
use crate::render::{self, LongRecord};
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// Size at which a frame is sent. A stalled client keeps a few frames in memory.
const FRAME_BYTES: usize = 32 << 10;

/// Interval of reports of records that the rate limiter skipped.
const SKIPPED_REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Interval of keepalives; without them proxies close idle connections.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A comment, which server-sent events ignore.
const KEEPALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");

pub(crate) async fn tail(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    params.reject_unknown(&["q", "format", "rate"])?;
    let format = match StreamFormat::negotiate(&headers, params.text("format")?)? {
        // A document has an end.
        StreamFormat::Json => StreamFormat::Ndjson,
        format => format,
    };
    let expr = params.expr()?;
    let limiter = TailRateLimiter::new(params.number("rate")?, Arc::clone(&app.env.clock));
    let permit = try_permit(&app.tail_permits, "too many tails are open")?;
    let tail = app.answers.tail(&expr, client.scope().cloned())?;
    let (sender, response) = open_stream(format);
    tokio::spawn(async move {
        let _permit = permit;
        write_tail(tail, &sender, limiter).await;
    });
    Ok(response)
}

/// Limits the records per second shown to one client, and counts those that were skipped.
struct TailRateLimiter {
    /// `None` shows all records.
    records_per_second: Option<u64>,
    /// Records that may be shown now.
    tokens: f64,
    refilled_at: Duration,
    /// Records skipped since the last report.
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

    /// Adds tokens for the time since the last call, up to the rate of one second.
    fn refill(&mut self) {
        let now = self.clock.uptime();
        let rate = self.records_per_second.map_or(0.0, |rate| rate as f64);
        self.tokens = (self.tokens + rate * (now - self.refilled_at).as_secs_f64()).min(rate);
        self.refilled_at = now;
    }

    /// Whether the next record is shown.
    fn try_take(&mut self) -> bool {
        let is_shown = self.records_per_second.is_none() || self.tokens >= 1.0;
        if is_shown {
            self.tokens -= 1.0;
        } else {
            self.skipped += 1;
        }
        is_shown
    }

    /// The number of skipped records, if a report is due.
    fn take_report(&mut self) -> Option<u64> {
        let now = self.clock.uptime();
        if self.skipped == 0 || now - self.reported_at < SKIPPED_REPORT_INTERVAL {
            return None;
        }
        self.reported_at = now;
        Some(std::mem::take(&mut self.skipped))
    }
}

/// Sends events until the client is gone.
async fn write_tail(mut tail: TailStream, sender: &StreamSender, mut limiter: TailRateLimiter) {
    let mut idle = Duration::ZERO;
    loop {
        let event = tokio::select! {
            biased;
            () = sender.closed() => return,
            event = tail.next() => match event {
                Some(event) => Some(event),
                None => return,
            },
            () = tokio::time::sleep(SKIPPED_REPORT_INTERVAL) => None,
        };
        idle = if event.is_some() { Duration::ZERO } else { idle + SKIPPED_REPORT_INTERVAL };
        let mut sent = match event {
            Some(event) => send_event(event, sender, &mut limiter).await,
            None if idle >= KEEPALIVE_INTERVAL && sender.format == StreamFormat::Events => {
                idle = Duration::ZERO;
                sender.send_all(sender.record_frames(KEEPALIVE)).await
            }
            None => Ok(()),
        };
        if let Some(skipped) = limiter.take_report() {
            sent = sent.and(sender.send_notice(&json!({ "skipped_records": skipped })).await);
        }
        if sent.is_err() {
            return;
        }
    }
}

async fn send_event(event: TailEvent, sender: &StreamSender, limiter: &mut TailRateLimiter) -> Result<(), SinkClosed> {
    let notice = match event {
        TailEvent::Records(records) => return send_records(records, sender, limiter).await,
        TailEvent::Skipped { address: None, bytes } => json!({ "skipped_bytes": bytes }),
        TailEvent::Skipped { address: Some(address), bytes } => json!({ "skipped_bytes": bytes, "node": address }),
        TailEvent::Lost { address, reason } => json!({ "lost": reason.to_string(), "node": address }),
        TailEvent::Joined { address } => json!({ "joined": true, "node": address }),
        _ => return Ok(()),
    };
    sender.send_notice(&notice).await
}

async fn send_records(
    mut records: TailRecords,
    sender: &StreamSender,
    limiter: &mut TailRateLimiter,
) -> Result<(), SinkClosed> {
    limiter.refill();
    let mut out = Vec::new();
    let mut render = |record: RecordRef<'_>, out: &mut Vec<u8>| match limiter.try_take() {
        true => write_record(record, sender.format, out),
        false => None,
    };
    while let Some(long) = records.visit_next(|record| render(record, &mut out)) {
        if out.len() >= FRAME_BYTES || long.is_some() {
            sender.send_all(sender.object_frames(std::mem::take(&mut out), long)).await?;
        }
    }
    sender.send_all(sender.object_frames(out, None)).await
}

/// Renders a record, or returns it if it is long and must be rendered in pieces.
fn write_record(record: RecordRef<'_>, format: StreamFormat, out: &mut Vec<u8>) -> Option<LongRecord> {
    if format.is_raw() {
        out.extend_from_slice(record.view.line());
        out.push(b'\n');
        return None;
    }
    let (before, after): (&[u8], &[u8]) =
        if format == StreamFormat::Events { (b"data: ", b"\n\n") } else { (b"", b"\n") };
    render::write_object(record, before, after, out)
}
