//! `GET /api/v1/context`: the records around one, as one document, which is sent as fast as the client reads.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bucksaw_query::{Cancel, Context};

use crate::app::App;
use crate::cluster;
use crate::error::ApiError;
use crate::params::Params;
use crate::query::{self, Turn};
use crate::render::{self, Objects};
use crate::stream::{Form, Pieces, open};

/// Records on each side, at most.
const AROUND_MAX: u64 = 1_000;

pub(crate) async fn context(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    params.only(&["id", "before", "after"])?;
    let id = params.id("id")?.ok_or_else(|| ApiError::bad("parameter `id` is missing: the id of a record"))?;
    let around = |name| Ok::<u64, ApiError>(params.number(name)?.unwrap_or(10).min(AROUND_MAX));
    let (before, after) = (around("before")?, around("after")?);
    let open_answer = query::place(&app)?;
    let mut turn = Turn::wait(&app).await?;
    let (clock, cancel) = (Arc::clone(&app.doors.clock), Cancel::default());
    let started = clock.uptime();
    let seconds = move || (clock.uptime() - started).as_secs_f64();
    if let Some(scatter) = app.scatter() {
        let context = scatter.context(id, before, after).await?;
        let (pieces, response) = begin(cancel)?;
        tokio::spawn(async move {
            let _open_answer = open_answer;
            cluster::write_context(context, &pieces, &mut turn, seconds).await;
        });
        return Ok(response);
    }
    let (engine, stop) = (Arc::clone(&app.engine), cancel.clone());
    let context = query::work(&cancel, move || engine.context(id, before, after, &stop)).await?;
    let (pieces, response) = begin(cancel)?;
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        write(context, &pieces, &mut turn, seconds);
    });
    Ok(response)
}

/// The document, in which the list of records has begun.
fn begin(cancel: Cancel) -> Result<(Pieces, Response), ApiError> {
    let (pieces, response) = open(Form::Json, cancel);
    let begun = pieces.try_records(render::begin_list("records").into());
    // There is room for the first piece.
    begun.map_err(|_| ApiError::internal())?;
    Ok((pieces, response))
}

fn write(mut context: Context, pieces: &Pieces, turn: &mut Turn, seconds: impl Fn() -> f64) {
    let mut list = Objects::LIST;
    loop {
        let (shown, out, long) = query::objects(&mut list, |see| context.show_batch(see));
        // Without its end the document is not whole.
        let Ok(shown) = shown else { return };
        if shown == 0 {
            break;
        }
        if turn.send(pieces, pieces.objects(out, long), || context.let_go()).is_err() {
            return;
        }
    }
    // Sending fails only when the client has gone: there is nothing left to do.
    let _ = pieces.stats(&render::stats(context.stats(), seconds()));
}
