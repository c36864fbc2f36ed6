//! Questions: query, count, histogram, fields.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_query::{Cancel, Division, Engine, Fields, Histogram, Order, RecordRef, RequestError, Search, Stats};
use bucksaw_record::Id;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::cluster;
use crate::error::ApiError;
use crate::params::Params;
use crate::render::{self, Long, Objects};
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
    /// Waits for it.
    pub(crate) async fn wait(app: &App) -> Result<Self, ApiError> {
        let permit = Some(turn(app).await?);
        Ok(Self { queries: Arc::clone(&app.queries), permit, runtime: Handle::current() })
    }

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

    /// Sends records, without a turn while that has to wait. On a thread that may wait. `let_go` is called when the client
    /// stalls.
    pub(crate) fn send(
        &mut self,
        pieces: &Pieces,
        mut out: impl Iterator<Item = Piece>,
        mut let_go: impl FnMut(),
    ) -> Result<(), Gone> {
        out.try_for_each(|piece| {
            let Some(waiting) = pieces.try_piece(piece)? else { return Ok(()) };
            self.permit = None;
            waiting.send(&self.runtime, &mut let_go)?;
            // The semaphore is never closed.
            self.permit = self.runtime.block_on(Arc::clone(&self.queries).acquire_owned()).ok();
            Ok(())
        })
    }
}

/// A place among the answers that are being read, which may be long.
pub(crate) fn place(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let place = Arc::clone(&app.answers).try_acquire_owned();
    place.map_err(|_| ApiError::busy("too many answers are being read: try again"))
}

/// Runs work on a thread of its own; cancels it when the client goes away meanwhile.
pub(crate) async fn work<T: Send + 'static>(
    cancel: &Cancel,
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<T, ApiError> {
    struct CancelOnDrop(Option<Cancel>);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.iter().for_each(Cancel::cancel);
        }
    }
    let mut guard = CancelOnDrop(Some(cancel.clone()));
    let worked = tokio::task::spawn_blocking(work).await;
    guard.0 = None;
    Ok(worked.map_err(|_| ApiError::internal())??)
}

/// Runs an answer on a thread of its own, and returns it with its stats; cancels it when the client goes away.
async fn answer<T: Send + 'static>(
    app: &App,
    ask: impl FnOnce(&Arc<Engine>, &Cancel) -> Result<(T, Stats), RequestError> + Send + 'static,
) -> Result<(T, Value), ApiError> {
    let permit = turn(app).await?;
    let (engine, cancel) = (Arc::clone(&app.engine), Cancel::default());
    let started = app.doors.clock.uptime();
    let asked = cancel.clone();
    let asking = move || {
        let _permit = permit;
        ask(&engine, &asked)
    };
    let (answer, stats) = work(&cancel, asking).await?;
    let seconds = (app.doors.clock.uptime() - started).as_secs_f64();
    Ok((answer, render::stats(&stats, seconds)))
}

/// Sends a document. One of several pieces, which its reader may leave waiting, takes a place among the answers.
fn send(app: &App, mut document: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Result<Response, ApiError> {
    let first = document.next().unwrap_or_default();
    let Some(second) = document.next() else {
        return Ok(([(header::CONTENT_TYPE, "application/json")], first).into_response());
    };
    let open_answer = place(app)?;
    let (pieces, response) = open(Form::Json, Cancel::default());
    tokio::spawn(async move {
        let _open_answer = open_answer;
        // Sending fails only when the client has gone: there is nothing left to do.
        let _ = pieces.document([first, second].into_iter().chain(document)).await;
    });
    Ok(response)
}

pub(crate) async fn query(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    params.only(&SPAN)?;
    let request = params.request(app.now(), Order::Ascending)?;
    let form = match Form::of(&headers, params.text("format")?)? {
        Form::Events => Form::Ndjson,
        form => form,
    };
    let open_answer = place(&app)?;
    let mut turn = Turn::wait(&app).await?;
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
    let (mut raw, mut lines) = (render::Raw::default(), Objects::LINES);
    loop {
        let (shown, sent) = if form.is_raw() {
            let shown = search.show_runs(&mut |run| raw.push(run));
            let out = raw.take().into_iter().flat_map(|bytes| pieces.sliced(bytes));
            (shown, turn.send(pieces, out, || search.let_go()))
        } else {
            let (shown, out, long) = objects(&mut lines, |see| search.show_batch(see));
            (shown, turn.send(pieces, pieces.objects(out, long), || search.let_go()))
        };
        if shown == 0 {
            break;
        }
        if sent.is_err() {
            return;
        }
    }
    if !search.is_cancelled() {
        // Sending fails only when the client has gone: there is nothing left to do.
        let _ = pieces.stats(&render::stats(search.stats(), seconds()));
    }
}

/// The next records as objects: what `show` returns, their bytes, and the last when it is long.
pub(crate) fn objects<T>(
    objects: &mut Objects,
    show: impl FnOnce(&mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) -> T,
) -> (T, Vec<u8>, Option<Long>) {
    let mut long = None;
    // With room for the record that makes it whole. All have one size: for each, the allocator keeps some for each thread.
    let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    let shown = show(&mut |record| {
        long = objects.write(record, &mut out);
        if long.is_some() || out.len() >= PIECE_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (shown, out, long)
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
        return send(&app, document(histogram, &stats));
    }
    let open_answer = place(&app)?;
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
                // Sending fails only when the client has gone: there is nothing left to do.
                let _ = pieces.document(document(histogram, &render::stats(&stats, seconds))).await;
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
            let last = document(histogram, &render::stats(&stats, seconds));
            // Sending fails only when the client has gone: there is nothing left to do.
            let _ = Handle::current().block_on(pieces.document(last));
        }
    });
    Ok(response)
}

/// Shows a histogram that is being filled.
fn see(pieces: &Pieces, histogram: &Histogram, progress: f64) {
    if histogram.buckets.len() <= FILLING_BUCKETS_MAX {
        let buckets: Vec<Value> = histogram.buckets.iter().map(render::bucket).collect();
        let object = json!({ "progress": progress, "buckets": buckets });
        // To a slow reader this is not sent: what comes after it says more.
        let _ = pieces.try_records(Bytes::from(format!("{object}\n")));
    }
}

/// A histogram, and the last line of one that was filled.
fn document(histogram: Histogram, stats: &Value) -> impl Iterator<Item = Vec<u8>> + use<> {
    let buckets = histogram.buckets.into_iter().map(|bucket| render::bucket(&bucket));
    render::document("buckets", buckets, render::end_list(stats))
}

pub(crate) async fn fields(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    params.only(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Descending)?;
    let (found, stats) = match app.scatter() {
        Some(scatter) => cluster::answer(&app, scatter.fields(request)).await?,
        None => answer(&app, move |engine, cancel| engine.fields(request, cancel.clone())).await?,
    };
    let Fields { records, sampled, fields } = found;
    let end = format!("],\"records\":{records},\"sampled\":{sampled},\"stats\":{stats}}}\n").into_bytes();
    let fields = fields.into_iter().map(|field| render::field(&field));
    send(&app, render::document("fields", fields, end))
}
