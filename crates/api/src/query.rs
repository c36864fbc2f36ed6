//! Questions: query, count, histogram, fields, context.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_query::{Cancel, Division, Engine, Histogram, Order, Record, RequestError, Search, Stats};
use bucksaw_record::Id;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::cluster;
use crate::error::ApiError;
use crate::params::Params;
use crate::render::{self, Long};
use crate::stream::{Form, Gone, PIECE_BYTES, Piece, Pieces, open};

/// How long a query waits for its turn before the client is told to come again.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// Histograms with more buckets are sent when they are whole: some pieces of each may wait for a slow reader.
const FILLING_BUCKETS_MAX: usize = 1_000;

const SPAN: [&str; 7] = ["q", "from", "to", "limit", "order", "after", "format"];

pub(crate) async fn turn(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&app.queries).acquire_owned()).await;
    permit.ok().and_then(Result::ok).ok_or_else(|| ApiError::busy("too many queries are running: try again"))
}

/// The turn of an answer that is streamed. It is given up while its reader is slow, so that readers who stall do not keep
/// others from asking.
pub(crate) struct Turn {
    queries: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    runtime: Handle,
}

impl Turn {
    /// Sends records of a cluster, which wait by themselves where they are.
    pub(crate) async fn send_async(&mut self, pieces: &Pieces, out: impl Iterator<Item = Piece>) -> Result<(), Gone> {
        for piece in out {
            let Some(waiting) = pieces.try_piece(piece)? else { continue };
            self.permit = None;
            waiting.send_async().await?;
            self.permit = Arc::clone(&self.queries).acquire_owned().await.ok();
        }
        Ok(())
    }

    /// Sends records, without a turn while that has to wait. On a thread that may wait.
    fn send(&mut self, search: &mut Search, pieces: &Pieces, mut out: impl Iterator<Item = Piece>) -> Result<(), Gone> {
        out.try_for_each(|piece| {
            let Some(waiting) = pieces.try_piece(piece)? else { return Ok(()) };
            self.permit = None;
            waiting.send(&self.runtime, || search.let_go())?;
            // The semaphore is never closed.
            self.permit = self.runtime.block_on(Arc::clone(&self.queries).acquire_owned()).ok();
            Ok(())
        })
    }
}

/// Runs an answer on a thread of its own, and returns it with its stats; cancels it when the client goes away.
async fn answer<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Arc<Engine>, &Cancel) -> Result<(T, Stats), RequestError> + Send + 'static,
) -> Result<(T, Value), ApiError> {
    struct CancelOnDrop(Cancel);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let permit = turn(app).await?;
    let guard = CancelOnDrop(Cancel::default());
    let (engine, cancel) = (Arc::clone(&app.engine), guard.0.clone());
    let started = app.doors.clock.uptime();
    let worked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work(&engine, &cancel)
    });
    let (answer, stats) = worked.await.map_err(|_| ApiError::internal())??;
    let seconds = (app.doors.clock.uptime() - started).as_secs_f64();
    Ok((answer, render::stats(&stats, seconds)))
}

pub(crate) async fn query(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    params.only(&SPAN)?;
    let request = params.request(app.now(), Order::Ascending)?;
    let form = match Form::of(&headers, params.text("format")?)? {
        Form::Events => Form::Ndjson,
        form => form,
    };
    let Ok(open_answer) = Arc::clone(&app.answers).try_acquire_owned() else {
        return Err(ApiError::busy("too many answers are being read: try again"));
    };
    let permit = Some(turn(&app).await?);
    let mut turn = Turn { queries: Arc::clone(&app.queries), permit, runtime: Handle::current() };
    let cancel = Cancel::default();
    if let Some(scatter) = app.scatter() {
        let answer = scatter.search(&request)?;
        let (pieces, response) = open(form, cancel);
        let clock = Arc::clone(&app.doors.clock);
        tokio::spawn(async move {
            let _open_answer = open_answer;
            cluster::write(answer, form, &pieces, &mut turn, &*clock).await;
        });
        return Ok(response);
    }
    let search = app.engine.search(request, cancel.clone())?;
    let (pieces, response) = open(form, cancel);
    let clock = Arc::clone(&app.doors.clock);
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        let started = clock.uptime();
        write(search, form, &pieces, &mut turn, || (clock.uptime() - started).as_secs_f64());
    });
    Ok(response)
}

fn write(mut search: Search, form: Form, pieces: &Pieces, turn: &mut Turn, seconds: impl Fn() -> f64) {
    let mut raw = render::Raw::default();
    loop {
        let mut long = None;
        let (shown, out) = if form.is_raw() {
            (search.show_runs(&mut |run| raw.push(run)), raw.take())
        } else {
            // With room for the record that makes it whole. All have one size: for each, the allocator keeps some for each
            // thread.
            let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
            let shown = search.show_batch(&mut |record| {
                long = Long::of(record, b"", b"\n");
                if long.is_some() {
                    return ControlFlow::Break(());
                }
                render::object(record, &mut out);
                out.push(b'\n');
                if out.len() < PIECE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            (shown, if out.is_empty() { Vec::new() } else { vec![out.into()] })
        };
        if shown == 0 {
            break;
        }
        let out = out.into_iter().flat_map(|bytes| pieces.sliced(bytes));
        let out = out.chain(long.into_iter().flat_map(|long| pieces.long(long)));
        if turn.send(&mut search, pieces, out).is_err() {
            return;
        }
    }
    if !search.is_cancelled() {
        // When this cannot be sent nobody is there to read it.
        let _ = pieces.stats(&render::stats(search.stats(), seconds()));
    }
}

pub(crate) async fn count(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    params.only(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Ascending)?;
    let (count, stats) = match app.scatter() {
        Some(scatter) => cluster::answer(&app, scatter.count(&request)).await?,
        None => answer(&app, move |engine, cancel| engine.count(&request, cancel)).await?,
    };
    Ok(Json(json!({ "count": count, "stats": stats })))
}

/// As one object; or, to who asks for `application/x-ndjson`, as it fills in: an object a line, each whole so far, and the
/// last with the stats.
pub(crate) async fn histogram(
    State(app): State<App>,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    params.only(&["q", "from", "to", "buckets", "by"])?;
    let now = app.now();
    let mut request = params.request(now, Order::Ascending)?;
    // What is counted over time ends now, so that the stretches do not reach into the future.
    if params.bytes("to").is_none_or(<[u8]>::is_empty) {
        request.to = Id::first_at(now.plus(1));
    }
    let buckets = usize::try_from(params.number("buckets")?.unwrap_or(60)).unwrap_or(usize::MAX);
    if buckets == 0 || buckets > 10_000 {
        return Err(ApiError::bad("buckets is from 1 to 10000"));
    }
    let by_level = match params.text("by")?.unwrap_or_default() {
        "" => false,
        "level" => true,
        other => return Err(ApiError::bad(format!("by is level, not `{other}`"))),
    };
    let division = Division { buckets, by_level };
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains("application/x-ndjson") {
        let (histogram, stats) = match app.scatter() {
            Some(scatter) => cluster::answer(&app, scatter.histogram(&request, division, &mut |_, _| {})).await?,
            None => {
                let count = move |engine: &Arc<Engine>, cancel: &_| {
                    engine.histogram(&request, cancel, division, &mut |_, _| {})
                };
                answer(&app, count).await?
            }
        };
        return Ok(Json(json!({ "buckets": render::buckets(&histogram), "stats": stats })).into_response());
    }
    let Ok(open_answer) = Arc::clone(&app.answers).try_acquire_owned() else {
        return Err(ApiError::busy("too many answers are being read: try again"));
    };
    app.engine.check(&request.expr)?;
    let permit = turn(&app).await?;
    let cancel = Cancel::default();
    let (pieces, response) = open(Form::Ndjson, cancel.clone());
    if let Some(scatter) = app.scatter().cloned() {
        tokio::spawn(async move {
            let _open_answer = open_answer;
            let started = app.doors.clock.uptime();
            let see = &mut |histogram: &_, progress| see(&pieces, histogram, progress);
            let counted = tokio::select! {
                biased;
                () = pieces.gone() => return,
                counted = scatter.histogram(&request, division, see) => counted,
            };
            drop(permit);
            if let Ok((histogram, stats)) = counted {
                let seconds = (app.doors.clock.uptime() - started).as_secs_f64();
                // When this cannot be sent nobody is there to read it.
                let _ = pieces.records_async(filled(&histogram, &stats, seconds)).await;
            }
        });
        return Ok(response);
    }
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        let started = app.doors.clock.uptime();
        let see = &mut |histogram: &_, progress| see(&pieces, histogram, progress);
        let counted = app.engine.histogram(&request, &cancel, division, see);
        // Readers who stall do not keep others from asking.
        drop(permit);
        if let Ok((histogram, stats)) = counted {
            let seconds = (app.doors.clock.uptime() - started).as_secs_f64();
            if let Ok(Some(waiting)) = pieces.try_records(filled(&histogram, &stats, seconds)) {
                // When this cannot be sent nobody is there to read it.
                let _ = waiting.send(&Handle::current(), || {});
            }
        }
    });
    Ok(response)
}

/// Shows a histogram that is being filled.
fn see(pieces: &Pieces, histogram: &Histogram, progress: f64) {
    if histogram.buckets.len() <= FILLING_BUCKETS_MAX {
        let object = json!({ "progress": progress, "buckets": render::buckets(histogram) });
        // To a slow reader this is not sent: what comes after it says more.
        let _ = pieces.try_records(Bytes::from(format!("{object}\n")));
    }
}

/// The last line of a histogram that was filled.
fn filled(histogram: &Histogram, stats: &Stats, seconds: f64) -> Bytes {
    let object = json!({ "buckets": render::buckets(histogram), "stats": render::stats(stats, seconds) });
    Bytes::from(format!("{object}\n"))
}

pub(crate) async fn fields(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    params.only(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Descending)?;
    let (fields, stats) = match app.scatter() {
        Some(scatter) => cluster::answer(&app, scatter.fields(request)).await?,
        None => answer(&app, move |engine, cancel| engine.fields(request, cancel.clone())).await?,
    };
    let list: Vec<Value> = fields
        .fields
        .iter()
        .map(|field| {
            let values: Vec<Value> = field
                .values
                .iter()
                .map(|(value, count)| json!({ "value": String::from_utf8_lossy(value), "count": count }))
                .collect();
            let kind = if field.label { "label" } else { "field" };
            json!({ "name": field.name, "kind": kind, "records": field.records, "distinct": field.distinct, "values": values })
        })
        .collect();
    let (records, sampled) = (fields.records, fields.sampled);
    Ok(Json(json!({ "fields": list, "records": records, "sampled": sampled, "stats": stats })))
}

pub(crate) async fn context(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    const AROUND_MAX: u64 = 1_000;
    params.only(&["id", "before", "after"])?;
    let id = params.id("id")?.ok_or_else(|| ApiError::bad("parameter `id` is missing: the id of a record"))?;
    let around = |name| Ok::<u64, ApiError>(params.number(name)?.unwrap_or(10).min(AROUND_MAX));
    let (before, after) = (around("before")?, around("after")?);
    let (records, stats) = match app.scatter() {
        Some(scatter) => cluster::answer(&app, scatter.context(id, before, after)).await?,
        None => answer(&app, move |engine, cancel| engine.context(id, before, after, cancel)).await?,
    };
    let records: Vec<Value> = records.iter().map(as_value).collect();
    Ok(Json(json!({ "records": records, "stats": stats })))
}

fn as_value(record: &Record) -> Value {
    let mut out = Vec::new();
    render::object(record.as_ref(), &mut out);
    serde_json::from_slice(&out).unwrap_or_default()
}
