//! Handlers of queries: records, count, histogram, fields, context.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_env::Clock;
use bucksaw_query::{AnswerRecords, Bucketing, Fields, Histogram, Order, QueryStats, Request, RequestError};
use bucksaw_record::{Expr, Id, Millis};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::groups::{RequestedGrouping, ShownGroups};
use crate::hints::{Hints, text_hints};
use crate::params::Params;
use crate::permits::{QueryPermit, acquire_answer_permit, acquire_query_permit};
use crate::render::{self, ObjectWriter};
use crate::sink::StreamSink;
use crate::stream::{StreamFormat, StreamSender, open_stream};

/// Larger histograms are sent only when complete, because a slow reader keeps several frames in memory.
const PROGRESS_BUCKETS_MAX: usize = 1_000;

const BUCKETS_MAX: usize = 10_000;

/// Limit of context records on either side.
const SIDE_RECORDS_MAX: u64 = 1_000;

const QUERY_PARAMS: [&str; 8] = ["q", "from", "to", "tz", "limit", "order", "after", "format"];

pub(crate) async fn query(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    params.reject_unknown(&QUERY_PARAMS)?;
    let request = params.request(&client, app.now(), Order::Ascending)?;
    let format = match StreamFormat::negotiate(&headers, params.text("format")?)? {
        StreamFormat::Events => StreamFormat::Ndjson,
        format => format,
    };
    let hints = Hints::of(&request, &params);
    stream_records(&app, format, hints, async { app.answers.search(request) }).await
}

/// One document, sent at the pace of its reader. A document without an end is incomplete.
pub(crate) async fn context(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Response, ApiError> {
    params.reject_unknown(&["id", "before", "after"])?;
    let id = params.id("id")?.ok_or_else(|| ApiError::bad_request("parameter `id` is missing: the id of a record"))?;
    let side = |name| Ok::<u64, ApiError>(params.number(name)?.unwrap_or(10).min(SIDE_RECORDS_MAX));
    let (before, after) = (side("before")?, side("after")?);
    let records = app.answers.context(id, before, after, client.scope().cloned());
    stream_records(&app, StreamFormat::Json, Hints::default(), records).await
}

/// Runs a query for records and streams its answer.
async fn stream_records(
    app: &App,
    format: StreamFormat,
    hints: Hints,
    query: impl Future<Output = Result<AnswerRecords, RequestError>>,
) -> Result<Response, ApiError> {
    let answer_permit = acquire_answer_permit(app)?;
    let permit = QueryPermit::acquire(app).await?;
    let (app, started) = (app.clone(), app.env.clock.uptime());
    let records = query.await?;
    let (sender, response) = open_stream(format);
    let mut objects = ObjectWriter::LINES;
    if format == StreamFormat::Json {
        // A new stream has room for the first frame.
        sender.try_records(render::begin_list("records").into()).map_err(|_| ApiError::internal())?;
        objects = ObjectWriter::LIST;
    }
    let sink = StreamSink::new(sender.clone(), permit, objects);
    tokio::spawn(async move {
        let _answer_permit = answer_permit;
        if let Some((sink, stats)) = records.write_to(sink).await {
            let hints = hints.for_answer(&app, stats.matched, sink).await;
            // Sending fails only when the client is gone.
            let _ = sender.finish(&render::stats(&stats, seconds_since(&*app.env.clock, started), &hints)).await;
        }
    });
    Ok(response)
}

fn seconds_since(clock: &dyn Clock, started: Duration) -> f64 {
    (clock.uptime() - started).as_secs_f64()
}

/// Runs a query with a single result. Returns it with rendered statistics.
pub(crate) async fn run_query<T, Q: Future<Output = Result<(T, QueryStats), RequestError>>>(
    app: &App,
    hints: Hints,
    query: impl FnOnce(OwnedSemaphorePermit) -> Q,
) -> Result<(T, Value), ApiError> {
    let permit = acquire_query_permit(app).await?;
    let started = app.env.clock.uptime();
    let (result, stats) = query(permit).await?;
    let hints = hints.for_result(app, stats.matched).await?;
    Ok((result, render::stats(&stats, seconds_since(&*app.env.clock, started), &hints)))
}

pub(crate) async fn count(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&["q", "from", "to", "tz"])?;
    let request = params.request(&client, app.now(), Order::Ascending)?;
    let hints = Hints::of(&request, &params);
    let (count, stats) = run_query(&app, hints, |permit| app.answers.count(request, permit)).await?;
    Ok(Json(json!({ "count": count, "stats": stats })))
}

/// Checks a filter expression. The error has the column.
pub(crate) async fn check(State(app): State<App>, params: Params) -> Result<Json<Value>, ApiError> {
    params.reject_unknown(&["q"])?;
    let text = params.bytes("q").unwrap_or_default();
    let expr = Expr::parse(text).map_err(|error| ApiError::invalid_expression(&error))?;
    let request = Request::new(expr, Millis(0), Millis::MAX);
    match app.answers.check(&request) {
        Ok(()) => Ok(Json(json!({ "ok": true, "hints": text_hints(text) }))),
        Err(RequestError::Expression(error)) => Err(ApiError::invalid_expression(&error.in_expression(text))),
        Err(error) => Err(error.into()),
    }
}

/// One object; with `Accept: application/x-ndjson` a line per intermediate state, and last the complete histogram with
/// statistics.
pub(crate) async fn histogram(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    params.reject_unknown(&["q", "from", "to", "tz", "buckets", "by", "value"])?;
    let now = app.now();
    let mut request = params.request(&client, now, Order::Ascending)?;
    // By default a histogram ends now, so that its buckets do not reach into the future.
    if params.bytes("to").is_none_or(<[u8]>::is_empty) {
        request.to = Id::first_at(now.saturating_add(1));
    }
    let buckets = buckets(&params)?;
    let (requested, hints) = (RequestedGrouping::of(&params)?, Hints::of(&request, &params));
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accept.contains("application/x-ndjson") {
        let groups = requested.resolve(&app, &request).await?;
        let bucketing = Bucketing { buckets, grouping: groups.grouping.clone() };
        let run = |permit| app.answers.histogram(request, bucketing, permit, |_, _| {});
        let (histogram, stats) = run_query(&app, hints, run).await?;
        return send_document(&app, histogram_document(histogram, &groups, &stats));
    }
    let answer_permit = acquire_answer_permit(&app)?;
    app.answers.check(&request)?;
    let groups = requested.resolve(&app, &request).await?;
    let permit = acquire_query_permit(&app).await?;
    let (sender, response) = open_stream(StreamFormat::Ndjson);
    tokio::spawn(async move {
        let _answer_permit = answer_permit;
        let started = app.env.clock.uptime();
        let bucketing = Bucketing { buckets, grouping: groups.grouping.clone() };
        let (progress_sender, progress_groups) = (sender.clone(), groups.clone());
        let on_progress =
            move |histogram: &_, progress| send_progress(&progress_sender, histogram, &progress_groups, progress);
        let counted = tokio::select! {
            biased;
            () = sender.closed() => return,
            counted = app.answers.histogram(request, bucketing, permit, on_progress) => counted,
        };
        // The request was checked, so it fails only when the work was cancelled.
        if let Ok((histogram, stats)) = counted {
            let hints = hints.for_result(&app, stats.matched).await.unwrap_or_default();
            let stats = render::stats(&stats, seconds_since(&*app.env.clock, started), &hints);
            // Sending fails only when the client is gone.
            let _ = sender.send_document(histogram_document(histogram, &groups, &stats)).await;
        }
    });
    Ok(response)
}

fn buckets(params: &Params) -> Result<usize, ApiError> {
    let buckets = usize::try_from(params.number("buckets")?.unwrap_or(60)).unwrap_or(usize::MAX);
    if buckets == 0 || buckets > BUCKETS_MAX {
        return Err(ApiError::bad_request(format!("buckets is from 1 to {BUCKETS_MAX}")));
    }
    Ok(buckets)
}

/// Sends an intermediate histogram. If the reader is slow it is dropped: a later one replaces it.
fn send_progress(sender: &StreamSender, histogram: &Histogram, groups: &ShownGroups, progress: f64) {
    if histogram.buckets.len() <= PROGRESS_BUCKETS_MAX {
        let buckets: Vec<Value> = histogram.buckets.iter().map(|bucket| groups.render(bucket)).collect();
        let mut object = json!({ "progress": progress, "buckets": buckets });
        if let Some(values) = &groups.values {
            object["group_values"] = json!(values);
        }
        let _ = sender.try_records(Bytes::from(format!("{object}\n")));
    }
}

/// A complete histogram as a document, which is also the last line of a stream of histograms.
fn histogram_document(
    histogram: Histogram,
    groups: &ShownGroups,
    stats: &Value,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let values = groups.values.as_ref().map_or(String::new(), |values| format!("\"group_values\":{},", json!(values)));
    let end = format!("],{values}\"stats\":{stats}}}\n").into_bytes();
    let groups = groups.clone();
    let buckets = histogram.buckets.into_iter().map(move |bucket| groups.render(&bucket));
    render::document("buckets", buckets, end)
}

pub(crate) async fn fields(
    State(app): State<App>,
    RequestClient(client): RequestClient,
    params: Params,
) -> Result<Response, ApiError> {
    params.reject_unknown(&["q", "from", "to", "tz"])?;
    let request = params.request(&client, app.now(), Order::Descending)?;
    let hints = Hints::of(&request, &params);
    let (fields, stats) = run_query(&app, hints, |permit| app.answers.fields(request, permit)).await?;
    let Fields { records, is_sampled: sampled, fields } = fields;
    let end = format!("],\"records\":{records},\"sampled\":{sampled},\"stats\":{stats}}}\n").into_bytes();
    let fields = fields.into_iter().map(|field| render::field(&field));
    send_document(&app, render::document("fields", fields, end))
}

/// Sends a document. One of several pieces needs an answer permit, because its reader may be slow.
pub(crate) fn send_document(
    app: &App,
    mut document: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> Result<Response, ApiError> {
    let first = document.next().unwrap_or_default();
    let Some(second) = document.next() else {
        return Ok(([(header::CONTENT_TYPE, "application/json")], first).into_response());
    };
    let answer_permit = acquire_answer_permit(app)?;
    let (sender, response) = open_stream(StreamFormat::Json);
    tokio::spawn(async move {
        let _answer_permit = answer_permit;
        // Sending fails only when the client is gone.
        let _ = sender.send_document([first, second].into_iter().chain(document)).await;
    });
    Ok(response)
}

#[cfg(test)]
mod tenant_tests;
#[cfg(test)]
mod tests;
