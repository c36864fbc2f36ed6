//! What operators look at: the cluster as this node sees it, metrics, health, and the names of the calls.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;

pub(crate) async fn cluster(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    // Footers are summed up and a directory may be listed: not for the runtime's threads.
    let described = tokio::task::spawn_blocking(move || describe(&app)).await;
    Ok(Json(described.map_err(|_| ApiError::internal())?))
}

fn describe(app: &App) -> Value {
    let (queue, shelf) = (app.queue(), app.engine.shelf());
    let backlog = queue.backlog();
    let segments = shelf.segments();
    let sum = |of: fn(&bucksaw_store::Stored) -> u64| segments.iter().map(|segment| of(segment)).sum::<u64>();
    let span = |at: Option<bucksaw_record::Id>| at.map(|id| bucksaw_record::time::format_rfc3339(id.at(), 0));
    let broken = segments.iter().filter(|segment| segment.broken_blocks() > 0).count();
    let state = match (app.is_ready(), queue.is_full()) {
        (false, _) => "stopping",
        (true, true) => "disk full",
        (true, false) => "ready",
    };
    let info = &app.info;
    json!({ "nodes": [{
        "id": info.id,
        "version": info.version,
        "addresses": info.addresses,
        "roles": info.roles,
        "state": state,
        "uptime_seconds": app.doors.clock.uptime().as_secs(),
        "queue": {
            "segments": queue.segments().len(),
            "pending_segments": backlog.segments,
            "pending_bytes": backlog.text_bytes,
            "oldest_pending_seconds": backlog.oldest.as_secs_f64(),
        },
        "store": {
            "segments": segments.len(),
            "records": sum(|segment| segment.reach().records),
            "text_bytes": sum(|segment| segment.reach().text_bytes),
            "stored_bytes": sum(bucksaw_store::Stored::file_bytes),
            "oldest": span(segments.iter().map(|segment| segment.reach().low).min()),
            "newest": span(segments.iter().map(|segment| segment.reach().high).max()),
        },
        "disk_free_bytes": queue.free_bytes(),
        "damaged": app.engine.damaged(),
        "segments_with_damaged_blocks": broken,
    }]})
}

pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &app.registry).map_err(|_| ApiError::internal())?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

pub(crate) async fn healthy() -> &'static str {
    "healthy\n"
}

pub(crate) async fn ready(State(app): State<App>) -> Response {
    if app.is_ready() {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response()
    }
}

pub(crate) async fn calls() -> &'static str {
    "Bucksaw\n\
     \n\
     POST /api/v1/ingest     send lines:    curl --data-binary @app.log 'http://HOST/api/v1/ingest?label=app=web'\n\
     GET  /api/v1/query?q=   grep them:     curl 'http://HOST/api/v1/query?q=error&from=15m' -H 'Accept: text/plain'\n\
     GET  /api/v1/tail?q=    follow them:   curl -N 'http://HOST/api/v1/tail?q=error'\n\
     GET  /api/v1/count, /api/v1/histogram, /api/v1/fields, /api/v1/context, /api/v1/cluster, /api/v1/history\n\
     GET  /metrics, /-/healthy, /-/ready\n"
}

pub(crate) async fn nothing_here() -> ApiError {
    ApiError::nothing_here()
}

pub(crate) async fn other_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this call takes another method: GET /api/v1 names them")
}
