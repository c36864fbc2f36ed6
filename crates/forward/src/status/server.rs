//! `/metrics`, `/status`, `/-/healthy` and `/-/ready` of an agent, and the metrics of other commands.
//!
//! It only answers GET and changes nothing.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bucksaw_sources::Acceptor;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::agent_info::AgentInfo;
use super::agent_status::AgentStatus;
use super::json::status_json;
use super::listener::serve_routes;
use super::metrics::{FILE_SERIES_MAX, MEDIA_TYPE, metrics_text};
use super::monitor::AgentMonitor;

/// The most files that `/status` lists.
const FILES_MAX: usize = 1_000;

#[derive(Clone)]
struct StatusRoutes {
    monitor: AgentMonitor,
    info: Arc<AgentInfo>,
}

/// Serves the state of an agent on a listener until the stop.
pub async fn serve_status(listener: Acceptor, monitor: AgentMonitor, info: AgentInfo, stop: watch::Receiver<bool>) {
    let own_name = info.host.clone();
    let routes = status_router(StatusRoutes { monitor, info: Arc::new(info) });
    serve_routes(listener, routes, &own_name, stop).await;
}

/// Serves metrics on a listener until the stop: `text` gives them as OpenMetrics text at each request, and must not block.
/// `own_name` is the name of the machine.
pub async fn serve_metrics(
    listener: Acceptor,
    own_name: String,
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
    stop: watch::Receiver<bool>,
) {
    let routes = Router::new()
        .route("/metrics", get(|| async move { ([(header::CONTENT_TYPE, MEDIA_TYPE)], text()) }))
        .route("/-/healthy", get(healthy))
        .fallback(|| async { (StatusCode::NOT_FOUND, "GET /metrics or /-/healthy\n") });
    serve_routes(listener, routes, &own_name, stop).await;
}

fn status_router(state: StatusRoutes) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/-/healthy", get(healthy))
        .route("/-/ready", get(ready))
        .fallback(|| async { (StatusCode::NOT_FOUND, "GET /metrics, /status, /-/healthy or /-/ready\n") })
        .with_state(state)
}

async fn healthy() -> &'static str {
    "healthy\n"
}

/// The state, read on a thread that may block.
async fn read_status(state: &StatusRoutes, files_max: usize) -> Result<AgentStatus, Response> {
    let monitor = state.monitor.clone();
    let status = spawn_blocking(move || monitor.status(files_max)).await.ok().flatten();
    status.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, "not started yet\n").into_response())
}

async fn metrics(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, FILE_SERIES_MAX).await?;
    let text = metrics_text(status, &state.info).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}

async fn status(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, FILES_MAX).await?;
    Ok(Json(status_json(&status, &state.info)).into_response())
}

async fn ready(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, 0).await?;
    if status.is_ready() {
        return Ok("ready\n".into_response());
    }
    let text = format!(
        "no node has accepted a connection for {} s: {}\n",
        status.unaccepted().as_secs(),
        status.last_error.as_deref().unwrap_or("not tried yet")
    );
    Err((StatusCode::SERVICE_UNAVAILABLE, text).into_response())
}
