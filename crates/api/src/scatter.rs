//! Answers that rest on more nodes than this one. What takes long or waits does so on the nodes; here it is only put
//! together and written, by tasks.

use std::time::Duration;

use bucksaw_env::Clock;
use bucksaw_query::{BatchSlice, QueryStats, RequestError, ScatterContext, ScatterSearch, ScatterTail, TailEvent};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::query::{QueryPermit, acquire_query_permit};
use crate::render::{self, ObjectWriter};
use crate::stream::{ClientGone, FRAME_BYTES, StreamFormat, StreamSender};
use crate::tail::{self, KEEPALIVE_INTERVAL, TailRateLimiter};

/// Followers are told of what was kept from them so often.
const REPORT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits for an answer, and returns it with its stats. It ends when the client goes away, for then nobody waits.
pub(crate) async fn run_query<T>(
    app: &App,
    asked: impl Future<Output = Result<(T, QueryStats), RequestError>>,
) -> Result<(T, Value), ApiError> {
    let _permit = acquire_query_permit(app).await?;
    let started = app.env.clock.uptime();
    let (answer, stats) = asked.await?;
    let seconds = (app.env.clock.uptime() - started).as_secs_f64();
    Ok((answer, render::stats(&stats, seconds)))
}

/// Writes records as they come.
pub(crate) async fn write_search(
    mut answer: ScatterSearch,
    format: StreamFormat,
    sender: &StreamSender,
    permit: &mut QueryPermit,
    clock: &dyn Clock,
) {
    let started = clock.uptime();
    let (mut raw, mut lines) = (render::RawWriter::default(), ObjectWriter::LINES);
    loop {
        let records = tokio::select! {
            biased;
            () = sender.wait_until_gone() => return,
            records = answer.next() => records,
        };
        if records.is_empty() {
            break;
        }
        let sent = if format.is_raw() {
            records.iter().for_each(|stretch| stretch.visit_runs(&mut |run| raw.push(run)));
            let out = raw.take().into_iter().flat_map(|bytes| sender.record_frames(bytes));
            permit.send_async(sender, out).await
        } else {
            write_objects(&records, &mut lines, sender, permit).await
        };
        if sent.is_err() {
            return;
        }
    }
    let seconds = (clock.uptime() - started).as_secs_f64();
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = sender.finish_async(&render::stats(&answer.stats(), seconds)).await;
}

/// Writes the records around one.
pub(crate) async fn write_context(
    mut context: ScatterContext,
    sender: &StreamSender,
    permit: &mut QueryPermit,
    seconds: impl Fn() -> f64,
) {
    let mut list = ObjectWriter::LIST;
    loop {
        let records = tokio::select! {
            biased;
            () = sender.wait_until_gone() => return,
            records = context.next() => records,
        };
        // Without its end the document is not whole.
        let Ok(records) = records else { return };
        if records.is_empty() {
            break;
        }
        if write_objects(&records, &mut list, sender, permit).await.is_err() {
            return;
        }
    }
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = sender.finish_async(&render::stats(context.stats(), seconds())).await;
}

async fn write_objects(
    records: &[BatchSlice],
    objects: &mut ObjectWriter,
    sender: &StreamSender,
    permit: &mut QueryPermit,
) -> Result<(), ClientGone> {
    let fresh = || Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 8);
    let mut out = fresh();
    for record in records.iter().flat_map(BatchSlice::records) {
        let long = objects.write(record, &mut out);
        if out.len() >= FRAME_BYTES || long.is_some() {
            permit.send_async(sender, sender.object_frames(std::mem::replace(&mut out, fresh()), long)).await?;
        }
    }
    permit.send_async(sender, sender.object_frames(out, None)).await
}

/// Shows new records as they come, until the client goes away.
pub(crate) async fn write_tail(
    mut follow: ScatterTail,
    format: StreamFormat,
    sender: &StreamSender,
    mut limiter: TailRateLimiter,
) {
    let mut quiet = Duration::ZERO;
    loop {
        let followed = tokio::select! {
            biased;
            () = sender.wait_until_gone() => return,
            followed = follow.next() => Some(followed),
            () = tokio::time::sleep(REPORT_POLL_INTERVAL) => None,
        };
        quiet = if followed.is_some() { Duration::ZERO } else { quiet + REPORT_POLL_INTERVAL };
        let beat = quiet >= KEEPALIVE_INTERVAL;
        if beat {
            quiet = Duration::ZERO;
        }
        if write_event(followed, format, sender, &mut limiter, beat).await.is_err() {
            return;
        }
    }
}

async fn write_event(
    followed: Option<TailEvent>,
    format: StreamFormat,
    sender: &StreamSender,
    limiter: &mut TailRateLimiter,
    beat: bool,
) -> Result<(), ClientGone> {
    match followed {
        Some(TailEvent::Records(records)) => {
            limiter.refill();
            let mut out = Vec::new();
            for record in records.iter().flat_map(BatchSlice::records) {
                let long = if limiter.try_take() { tail::write_record(record, format, &mut out) } else { None };
                if out.len() >= tail::FRAME_BYTES || long.is_some() && !out.is_empty() {
                    sender.send_records(std::mem::take(&mut out).into()).await?;
                }
                if let Some(long) = long {
                    sender.send_long(long).await?;
                }
            }
            if !out.is_empty() {
                sender.send_records(out.into()).await?;
            }
        }
        Some(TailEvent::Skipped { address, bytes }) => {
            sender.send_notice(&json!({ "skipped_bytes": bytes, "node": address })).await?;
        }
        Some(TailEvent::Lost { address, why }) => {
            sender.send_notice(&json!({ "lost": why.to_string(), "node": address })).await?;
        }
        Some(TailEvent::Joined { address }) => sender.send_notice(&json!({ "joined": true, "node": address })).await?,
        Some(_) => {}
        None if beat && format == StreamFormat::Events => {
            sender.send_records(Bytes::from_static(b": still here\n\n")).await?;
        }
        None => {}
    }
    match limiter.take_report() {
        Some(skipped) => sender.send_notice(&json!({ "skipped_records": skipped })).await,
        None => Ok(()),
    }
}
