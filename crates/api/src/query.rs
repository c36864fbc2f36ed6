//! Questions: query, count, histogram, fields, context.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bucksaw_query::{Cancel, Order, Record, Search, Stats};
use bucksaw_record::{Id, time};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::stream::{Form, Pieces, open};

/// How long a query waits for its turn before the client is told to come again.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

const SPAN: [&str; 6] = ["q", "from", "to", "limit", "order", "format"];

/// The parameters in the query string and, of a POST, in a form.
pub(crate) fn params(query: RawQuery, headers: &HeaderMap, body: &Bytes) -> Result<Params, ApiError> {
    let params = Params::parse(query.0.unwrap_or_default().as_bytes());
    if body.is_empty() {
        return Ok(params);
    }
    let form = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !form {
        let message = "a body must be a form: Content-Type: application/x-www-form-urlencoded";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(params.and(Params::parse(body)))
}

pub(crate) async fn turn(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&app.queries).acquire_owned()).await;
    permit.ok().and_then(Result::ok).ok_or_else(|| ApiError::busy("too many queries are running: try again"))
}

/// Runs an answer on a thread of its own; cancels it when the client goes away.
async fn answer<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&App, &Cancel) -> Result<T, ApiError> + Send + 'static,
) -> Result<(T, f64), ApiError> {
    struct CancelOnDrop(Cancel);
    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let permit = turn(app).await?;
    let guard = CancelOnDrop(Cancel::default());
    let (app, cancel) = (app.clone(), guard.0.clone());
    let started = app.doors.clock.uptime();
    let clock = Arc::clone(&app.doors.clock);
    let worked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work(&app, &cancel)
    });
    let result = worked.await.map_err(|_| ApiError::internal())??;
    Ok((result, (clock.uptime() - started).as_secs_f64()))
}

pub(crate) async fn query(
    State(app): State<App>,
    query: RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let params = params(query, &headers, &body)?;
    params.only(&SPAN)?;
    let request = params.request(app.now(), Order::Ascending)?;
    let form = match Form::of(&headers, params.text("format")?)? {
        Form::Events => Form::Ndjson,
        form => form,
    };
    let permit = turn(&app).await?;
    let cancel = Cancel::default();
    let search = app.engine.search(request, cancel.clone())?;
    let (pieces, response) = open(form, cancel);
    let clock = Arc::clone(&app.doors.clock);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let started = clock.uptime();
        write(search, form, &pieces, || (clock.uptime() - started).as_secs_f64());
    });
    Ok(response)
}

fn write(mut search: Search, form: Form, pieces: &Pieces, seconds: impl Fn() -> f64) {
    let mut raw = render::Raw::default();
    loop {
        let batch = search.next_batch();
        let mut out = Vec::new();
        for record in &batch {
            if form.is_raw() {
                raw.push(record, &mut out);
            } else {
                render::object(record, &mut out);
                out.push(b'\n');
            }
        }
        if batch.is_empty() {
            raw.finish(&mut out);
        }
        if !out.is_empty() && pieces.records(out).is_err() {
            return;
        }
        if batch.is_empty() {
            break;
        }
    }
    if !search.is_cancelled() {
        // When this cannot be sent nobody is there to read it.
        let _ = pieces.stats(&render::stats(search.stats(), seconds()));
    }
}

pub(crate) async fn count(
    State(app): State<App>,
    query: RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let params = params(query, &headers, &body)?;
    params.only(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Ascending)?;
    let counted = answer(&app, move |app, cancel| Ok(app.engine.count(&request, cancel)?)).await?;
    let ((count, stats), seconds) = counted;
    Ok(Json(json!({ "count": count, "stats": render::stats(&stats, seconds) })))
}

pub(crate) async fn histogram(
    State(app): State<App>,
    query: RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let params = params(query, &headers, &body)?;
    params.only(&["q", "from", "to", "buckets"])?;
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
    let counted = answer(&app, move |app, cancel| Ok(app.engine.histogram(&request, cancel, buckets)?)).await?;
    let ((histogram, stats), seconds) = counted;
    let buckets: Vec<Value> = histogram
        .buckets
        .iter()
        .map(|bucket| json!({ "from": time::format_rfc3339(bucket.from, 0), "to": time::format_rfc3339(bucket.to, 0), "count": bucket.count }))
        .collect();
    Ok(Json(json!({ "buckets": buckets, "stats": render::stats(&stats, seconds) })))
}

pub(crate) async fn fields(
    State(app): State<App>,
    query: RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let params = params(query, &headers, &body)?;
    params.only(&["q", "from", "to"])?;
    let request = params.request(app.now(), Order::Descending)?;
    let found = answer(&app, move |app, cancel| Ok(app.engine.fields(request, cancel.clone())?)).await?;
    let ((fields, stats), seconds) = found;
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
    Ok(Json(json!({ "fields": list, "records": records, "sampled": sampled, "stats": render::stats(&stats, seconds) })))
}

pub(crate) async fn context(State(app): State<App>, query: RawQuery) -> Result<Json<Value>, ApiError> {
    const AROUND_MAX: u64 = 1_000;
    let params = Params::parse(query.0.unwrap_or_default().as_bytes());
    params.only(&["id", "before", "after"])?;
    let id = params.text("id")?.ok_or_else(|| ApiError::bad("parameter `id` is missing: the id of a record"))?;
    let id: Id = id.parse().map_err(|error| ApiError::bad(format!("id: {error}")))?;
    let around = |name| Ok::<u64, ApiError>(params.number(name)?.unwrap_or(10).min(AROUND_MAX));
    let (before, after) = (around("before")?, around("after")?);
    let found: ((Vec<Record>, Stats), f64) =
        answer(&app, move |app, cancel| Ok(app.engine.context(id, before, after, cancel)?)).await?;
    let ((records, stats), seconds) = found;
    let records: Vec<Value> = records.iter().map(as_value).collect();
    Ok(Json(json!({ "records": records, "stats": render::stats(&stats, seconds) })))
}

fn as_value(record: &Record) -> Value {
    let mut out = Vec::new();
    render::object(record, &mut out);
    serde_json::from_slice(&out).unwrap_or_default()
}
