//! Questions: query, count, histogram, fields.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_query::{Bucketing, Cancel, Engine, Fields, Histogram, Order, QueryStats, RecordRef, RequestError, Search};
use bucksaw_record::Id;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::render::{self, LongRecord, ObjectWriter};
use crate::scatter;
use crate::stream::{ClientGone, FRAME_BYTES, StreamFormat, StreamFrame, StreamSender, open_stream};

/// How long a query waits for its turn before the client is told to come again.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Histograms with more buckets are sent when they are whole: some pieces of each may wait for a slow reader.
const PROGRESS_BUCKETS_MAX: usize = 1_000;

const QUERY_PARAMS: [&str; 7] = ["q", "from", "to", "limit", "order", "after", "format"];

pub(crate) async fn acquire_query_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(&app.query_permits).acquire_owned()).await;
    permit
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| ApiError::too_many_requests("too many queries are running: try again"))
}

/// The turn of an answer that is streamed. It is given up while its reader is slow, so that readers who stall do not keep
/// others from asking.
pub(crate) struct QueryPermit {
    queries: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    runtime: Handle,
}

impl QueryPermit {
    /// Waits for it.
    pub(crate) async fn acquire(app: &App) -> Result<Self, ApiError> {
        let permit = Some(acquire_query_permit(app).await?);
        Ok(Self { queries: Arc::clone(&app.query_permits), permit, runtime: Handle::current() })
    }

    /// Sends records of a cluster, which wait by themselves where they are.
    pub(crate) async fn send_async(
        &mut self,
        sender: &StreamSender,
        out: impl Iterator<Item = StreamFrame>,
    ) -> Result<(), ClientGone> {
        for piece in out {
            let Some(waiting) = sender.try_send(piece)? else { continue };
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
        sender: &StreamSender,
        mut out: impl Iterator<Item = StreamFrame>,
        mut release_memory: impl FnMut(),
    ) -> Result<(), ClientGone> {
        out.try_for_each(|piece| {
            let Some(waiting) = sender.try_send(piece)? else { return Ok(()) };
            self.permit = None;
            waiting.send(&self.runtime, &mut release_memory)?;
            // The semaphore is never closed.
            self.permit = self.runtime.block_on(Arc::clone(&self.queries).acquire_owned()).ok();
            Ok(())
        })
    }
}

/// A place among the answers that are being read, which may be long.
pub(crate) fn acquire_answer_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let place = Arc::clone(&app.answer_permits).try_acquire_owned();
    place.map_err(|_| ApiError::too_many_requests("too many open answers: try again"))
}

/// Runs work on a thread of its own; cancels it when the client goes away meanwhile.
pub(crate) async fn run_cancellable<T: Send + 'static>(
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
async fn run_query<T: Send + 'static>(
    app: &App,
    ask: impl FnOnce(&Arc<Engine>, &Cancel) -> Result<(T, QueryStats), RequestError> + Send + 'static,
) -> Result<(T, Value), ApiError> {
    let permit = acquire_query_permit(app).await?;
    let (engine, cancel) = (Arc::clone(&app.engine), Cancel::default());
    let started = app.env.clock.uptime();
    let asked = cancel.clone();
    let asking = move || {
        let _permit = permit;
        ask(&engine, &asked)
    };
    let (answer, stats) = run_cancellable(&cancel, asking).await?;
    let seconds = (app.env.clock.uptime() - started).as_secs_f64();
    Ok((answer, render::stats(&stats, seconds)))
}

/// Sends a document. One of several pieces, which its reader may leave waiting, takes a place among the answers.
fn send_document(
    app: &App,
    mut document: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> Result<Response, ApiError> {
    let first = document.next().unwrap_or_default();
    let Some(second) = document.next() else {
        return Ok(([(header::CONTENT_TYPE, "application/json")], first).into_response());
    };
    let open_answer = acquire_answer_permit(app)?;
    let (sender, response) = open_stream(StreamFormat::Json, Cancel::default());
    tokio::spawn(async move {
        let _open_answer = open_answer;
        // Sending fails only when the client has gone: there is nothing left to do.
        let _ = sender.send_document([first, second].into_iter().chain(document)).await;
    });
    Ok(response)
}

pub(crate) async fn query(State(app): State<App>, headers: HeaderMap, params: Params) -> Result<Response, ApiError> {
    params.reject_unknown(&QUERY_PARAMS)?;
    let request = params.request(app.now(), Order::Ascending)?;
    let form = match StreamFormat::negotiate(&headers, params.text("format")?)? {
        StreamFormat::Events => StreamFormat::Ndjson,
        form => form,
    };
    let open_answer = acquire_answer_permit(&app)?;
    let mut permit = QueryPermit::acquire(&app).await?;
    let cancel = Cancel::default();
    if let Some(scatter) = app.scatter() {
        let answer = scatter.search(&request)?;
        let (sender, response) = open_stream(form, cancel);
        let clock = Arc::clone(&app.env.clock);
        tokio::spawn(async move {
            let _open_answer = open_answer;
            scatter::write_search(answer, form, &sender, &mut permit, &*clock).await;
        });
        return Ok(response);
    }
    let search = app.engine.search(request, cancel.clone())?;
    let (sender, response) = open_stream(form, cancel);
    let clock = Arc::clone(&app.env.clock);
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        let started = clock.uptime();
        write(search, form, &sender, &mut permit, || (clock.uptime() - started).as_secs_f64());
    });
    Ok(response)
}

fn write(
    mut search: Search,
    form: StreamFormat,
    sender: &StreamSender,
    permit: &mut QueryPermit,
    seconds: impl Fn() -> f64,
) {
    let (mut raw, mut lines) = (render::RawWriter::default(), ObjectWriter::LINES);
    loop {
        let (shown, sent) = if form.is_raw() {
            let shown = search.visit_runs(&mut |run| raw.push(run));
            let out = raw.take().into_iter().flat_map(|bytes| sender.record_frames(bytes));
            (shown, permit.send(sender, out, || search.release_memory()))
        } else {
            let (shown, out, long) = render_objects(&mut lines, |see| search.visit_batch(see));
            (shown, permit.send(sender, sender.object_frames(out, long), || search.release_memory()))
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
        let _ = sender.finish(&render::stats(search.stats(), seconds()));
    }
}

/// The next records as objects: what `show` returns, their bytes, and the last when it is long.
pub(crate) fn render_objects<T>(
    objects: &mut ObjectWriter,
    show: impl FnOnce(&mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) -> T,
) -> (T, Vec<u8>, Option<LongRecord>) {
    let mut long = None;
    // With room for the record that makes it whole. All have one size: for each, the allocator keeps some for each thread.
    let mut out = Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 8);
    let shown = show(&mut |record| {
        long = objects.write(record, &mut out);
        if long.is_some() || out.len() >= FRAME_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (shown, out, long)
}

pub(crate) async fn count(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Ascending)?;
    let (count, stats) = match app.scatter() {
        Some(scatter) => scatter::run_query(&app, scatter.count(&request)).await?,
        None => run_query(&app, move |engine, cancel| engine.count(&request, cancel)).await?,
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
    params.reject_unknown(&["q", "from", "to", "buckets", "by"])?;
    let now = app.now();
    let mut request = params.request(now, Order::Ascending)?;
    // What is counted over time ends now, so that the stretches do not reach into the future.
    if params.bytes("to").is_none_or(<[u8]>::is_empty) {
        request.to = Id::first_at(now.saturating_add(1));
    }
    let buckets = usize::try_from(params.number("buckets")?.unwrap_or(60)).unwrap_or(usize::MAX);
    if buckets == 0 || buckets > 10_000 {
        return Err(ApiError::bad_request("buckets is from 1 to 10000"));
    }
    let by_level = match params.text("by")?.unwrap_or_default() {
        "" => false,
        "level" => true,
        other => return Err(ApiError::bad_request(format!("by is level, not `{other}`"))),
    };
    let division = Bucketing { buckets, by_level };
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains("application/x-ndjson") {
        let (histogram, stats) = match app.scatter() {
            Some(scatter) => scatter::run_query(&app, scatter.histogram(&request, division, &mut |_, _| {})).await?,
            None => {
                let count = move |engine: &Arc<Engine>, cancel: &_| {
                    engine.histogram(&request, cancel, division, &mut |_, _| {})
                };
                run_query(&app, count).await?
            }
        };
        return send_document(&app, histogram_document(histogram, &stats));
    }
    let open_answer = acquire_answer_permit(&app)?;
    app.engine.check_expression(&request.expr)?;
    let permit = acquire_query_permit(&app).await?;
    let cancel = Cancel::default();
    let (sender, response) = open_stream(StreamFormat::Ndjson, cancel.clone());
    if let Some(scatter) = app.scatter().cloned() {
        tokio::spawn(async move {
            let _open_answer = open_answer;
            let started = app.env.clock.uptime();
            let see = &mut |histogram: &_, progress| send_progress(&sender, histogram, progress);
            let counted = tokio::select! {
                biased;
                () = sender.wait_until_gone() => return,
                counted = scatter.histogram(&request, division, see) => counted,
            };
            drop(permit);
            if let Ok((histogram, stats)) = counted {
                let seconds = (app.env.clock.uptime() - started).as_secs_f64();
                // Sending fails only when the client has gone: there is nothing left to do.
                let _ = sender.send_document(histogram_document(histogram, &render::stats(&stats, seconds))).await;
            }
        });
        return Ok(response);
    }
    tokio::task::spawn_blocking(move || {
        let _open_answer = open_answer;
        let started = app.env.clock.uptime();
        let see = &mut |histogram: &_, progress| send_progress(&sender, histogram, progress);
        let counted = app.engine.histogram(&request, &cancel, division, see);
        // Readers who stall do not keep others from asking.
        drop(permit);
        if let Ok((histogram, stats)) = counted {
            let seconds = (app.env.clock.uptime() - started).as_secs_f64();
            let last = histogram_document(histogram, &render::stats(&stats, seconds));
            // Sending fails only when the client has gone: there is nothing left to do.
            let _ = Handle::current().block_on(sender.send_document(last));
        }
    });
    Ok(response)
}

/// Shows a histogram that is being filled.
fn send_progress(sender: &StreamSender, histogram: &Histogram, progress: f64) {
    if histogram.buckets.len() <= PROGRESS_BUCKETS_MAX {
        let buckets: Vec<Value> = histogram.buckets.iter().map(render::bucket).collect();
        let object = json!({ "progress": progress, "buckets": buckets });
        // To a slow reader this is not sent: what comes after it says more.
        let _ = sender.try_records(Bytes::from(format!("{object}\n")));
    }
}

/// A histogram, and the last line of one that was filled.
fn histogram_document(histogram: Histogram, stats: &Value) -> impl Iterator<Item = Vec<u8>> + use<> {
    let buckets = histogram.buckets.into_iter().map(|bucket| render::bucket(&bucket));
    render::document("buckets", buckets, render::end_list(stats))
}

pub(crate) async fn fields(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    params.reject_unknown(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Descending)?;
    let (found, stats) = match app.scatter() {
        Some(scatter) => scatter::run_query(&app, scatter.fields(request)).await?,
        None => run_query(&app, move |engine, cancel| engine.fields(request, cancel.clone())).await?,
    };
    let Fields { records, is_sampled: sampled, fields } = found;
    let end = format!("],\"records\":{records},\"sampled\":{sampled},\"stats\":{stats}}}\n").into_bytes();
    let fields = fields.into_iter().map(|field| render::field(&field));
    send_document(&app, render::document("fields", fields, end))
}
