//! `GET /api/v1/context`: the records around one, as one document, which is sent as fast as the client reads.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bucksaw_query::{Cancel, Context};

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::query::{self, QueryPermit};
use crate::render::{self, ObjectWriter};
use crate::scatter;
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// Records on each side, at most.
const SIDE_RECORDS_MAX: u64 = 1_000;

pub(crate) async fn context(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    params.reject_unknown(&["id", "before", "after"])?;
    let id = params.id("id")?.ok_or_else(|| ApiError::bad_request("parameter `id` is missing: the id of a record"))?;
    let around = |name| Ok::<u64, ApiError>(params.number(name)?.unwrap_or(10).min(SIDE_RECORDS_MAX));
    let (before, after) = (around("before")?, around("after")?);
    let open_answer = query::acquire_answer_permit(&app)?;
    let mut permit = QueryPermit::acquire(&app).await?;
    let (clock, cancel) = (Arc::clone(&app.env.clock), Cancel::default());
    let started = clock.uptime();
    let seconds = move || (clock.uptime() - started).as_secs_f64();
    if let Some(scatter) = app.scatter() {
        let context = scatter.context(id, before, after).await?;
        let (sender, response) = begin(cancel)?;
        tokio::spawn(async move {
            let _open_answer = open_answer;
            scatter::write_context(context, &sender, &mut permit, seconds).await;
        });
        return Ok(response);
    }
    let (engine, stop) = (Arc::clone(&app.engine), cancel.clone());
    let context = query::run_cancellable(&cancel, move || engine.context(id, before, after, &stop)).await?;
    let (sender, response) = begin(cancel)?;
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        write(context, &sender, &mut permit, seconds);
    });
    Ok(response)
}

/// The document, in which the list of records has begun.
fn begin(cancel: Cancel) -> Result<(StreamSender, Response), ApiError> {
    let (sender, response) = open_stream(StreamFormat::Json, cancel);
    let begun = sender.try_records(render::begin_list("records").into());
    // There is room for the first piece.
    begun.map_err(|_| ApiError::internal())?;
    Ok((sender, response))
}

fn write(mut context: Context, sender: &StreamSender, permit: &mut QueryPermit, seconds: impl Fn() -> f64) {
    let mut list = ObjectWriter::LIST;
    loop {
        let (shown, out, long) = query::render_objects(&mut list, |see| context.visit_batch(see));
        // Without its end the document is not whole.
        let Ok(shown) = shown else { return };
        if shown == 0 {
            break;
        }
        if permit.send(sender, sender.object_frames(out, long), || context.release_memory()).is_err() {
            return;
        }
    }
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = sender.finish(&render::stats(context.stats(), seconds()));
}
