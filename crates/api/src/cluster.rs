//! Answers that rest on more nodes than this one. What takes long or waits does so on the nodes; here it is only put
//! together and written, by tasks.

use std::time::Duration;

use bucksaw_doors::Clock;
use bucksaw_query::{Answer, Follow, Followed, GatheredContext, RequestError, Stats, Stretch};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::query::{Turn, turn};
use crate::render::{self, Objects};
use crate::stream::{Form, Gone, PIECE_BYTES, Pieces};
use crate::tail::{self, HEARTBEAT, Pace};

/// Followers are told of what was kept from them so often.
const LOOK: Duration = Duration::from_millis(200);

/// Waits for an answer, and returns it with its stats. It ends when the client goes away, for then nobody waits.
pub(crate) async fn answer<T>(
    app: &App,
    asked: impl Future<Output = Result<(T, Stats), RequestError>>,
) -> Result<(T, Value), ApiError> {
    let _permit = turn(app).await?;
    let started = app.doors.clock.uptime();
    let (answer, stats) = asked.await?;
    let seconds = (app.doors.clock.uptime() - started).as_secs_f64();
    Ok((answer, render::stats(&stats, seconds)))
}

/// Writes records as they come.
pub(crate) async fn write(mut answer: Answer, form: Form, pieces: &Pieces, turn: &mut Turn, clock: &dyn Clock) {
    let started = clock.uptime();
    let (mut raw, mut lines) = (render::Raw::default(), Objects::LINES);
    loop {
        let records = tokio::select! {
            biased;
            () = pieces.gone() => return,
            records = answer.next() => records,
        };
        if records.is_empty() {
            break;
        }
        let sent = if form.is_raw() {
            records.iter().for_each(|stretch| stretch.show_runs(&mut |run| raw.push(run)));
            let out = raw.take().into_iter().flat_map(|bytes| pieces.sliced(bytes));
            turn.send_async(pieces, out).await
        } else {
            write_objects(&records, &mut lines, pieces, turn).await
        };
        if sent.is_err() {
            return;
        }
    }
    let seconds = (clock.uptime() - started).as_secs_f64();
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = pieces.stats_async(&render::stats(&answer.stats(), seconds)).await;
}

/// Writes the records around one.
pub(crate) async fn write_context(
    mut context: GatheredContext,
    pieces: &Pieces,
    turn: &mut Turn,
    seconds: impl Fn() -> f64,
) {
    let mut list = Objects::LIST;
    loop {
        let records = tokio::select! {
            biased;
            () = pieces.gone() => return,
            records = context.next() => records,
        };
        // Without its end the document is not whole.
        let Ok(records) = records else { return };
        if records.is_empty() {
            break;
        }
        if write_objects(&records, &mut list, pieces, turn).await.is_err() {
            return;
        }
    }
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = pieces.stats_async(&render::stats(context.stats(), seconds())).await;
}

async fn write_objects(
    records: &[Stretch],
    objects: &mut Objects,
    pieces: &Pieces,
    turn: &mut Turn,
) -> Result<(), Gone> {
    let fresh = || Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    let mut out = fresh();
    for record in records.iter().flat_map(Stretch::records) {
        let long = objects.write(record, &mut out);
        if out.len() >= PIECE_BYTES || long.is_some() {
            turn.send_async(pieces, pieces.objects(std::mem::replace(&mut out, fresh()), long)).await?;
        }
    }
    turn.send_async(pieces, pieces.objects(out, None)).await
}

/// Shows new records as they come, until the client goes away.
pub(crate) async fn follow(mut follow: Follow, form: Form, pieces: &Pieces, mut pace: Pace) {
    let mut quiet = Duration::ZERO;
    loop {
        let followed = tokio::select! {
            biased;
            () = pieces.gone() => return,
            followed = follow.next() => Some(followed),
            () = tokio::time::sleep(LOOK) => None,
        };
        quiet = if followed.is_some() { Duration::ZERO } else { quiet + LOOK };
        let beat = quiet >= HEARTBEAT;
        if beat {
            quiet = Duration::ZERO;
        }
        if show(followed, form, pieces, &mut pace, beat).await.is_err() {
            return;
        }
    }
}

async fn show(
    followed: Option<Followed>,
    form: Form,
    pieces: &Pieces,
    pace: &mut Pace,
    beat: bool,
) -> Result<(), Gone> {
    match followed {
        Some(Followed::Records(records)) => {
            pace.fill();
            let mut out = Vec::new();
            for record in records.iter().flat_map(Stretch::records) {
                let long = if pace.shows() { tail::write(record, form, &mut out) } else { None };
                if out.len() >= tail::PIECE_BYTES || long.is_some() && !out.is_empty() {
                    pieces.records_async(std::mem::take(&mut out).into()).await?;
                }
                if let Some(long) = long {
                    pieces.long_async(long).await?;
                }
            }
            if !out.is_empty() {
                pieces.records_async(out.into()).await?;
            }
        }
        Some(Followed::Skipped { address, bytes }) => {
            pieces.notice(&json!({ "skipped_bytes": bytes, "node": address })).await?;
        }
        Some(Followed::Lost { address, why }) => {
            pieces.notice(&json!({ "lost": why.to_string(), "node": address })).await?;
        }
        Some(Followed::Joined { address }) => pieces.notice(&json!({ "joined": true, "node": address })).await?,
        Some(_) => {}
        None if beat && form == Form::Events => pieces.records_async(Bytes::from_static(b": still here\n\n")).await?,
        None => {}
    }
    match pace.tell() {
        Some(skipped) => pieces.notice(&json!({ "skipped_records": skipped })).await,
        None => Ok(()),
    }
}
