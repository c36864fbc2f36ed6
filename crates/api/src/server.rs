//! What each listener of the surface serves: its routes or calls.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::App;
use crate::connections::{GrpcCalls, Surface};
use crate::guard::Guard;
use crate::{
    agents, audit, compress, connections, grpc_calls, guard, ingest, node, page, query, senders, streams, tail,
};

/// Serves all routes over HTTP on a listener until `stop` is true or its sender is gone, then drains for up to five seconds.
pub async fn serve(listener: TcpListener, app: App, stop: watch::Receiver<bool>) {
    tokio::spawn(node::sample_metrics(app.clone(), stop.clone()));
    let routes = router(app.clone());
    connections::serve(listener, app, Surface::Http(routes), stop).await;
}

/// Serves OTLP over HTTP on a listener of its own, as [`serve`] does.
pub async fn serve_otlp_http(listener: TcpListener, app: App, stop: watch::Receiver<bool>) {
    let routes = otlp_router(app.clone());
    connections::serve(listener, app, Surface::Http(routes), stop).await;
}

/// Serves OTLP over gRPC and the service `bucksaw.v1` on a listener, within the limits and until the stop of [`serve`].
pub async fn serve_grpc(listener: TcpListener, app: App, stop: watch::Receiver<bool>) {
    let (calls, stopping) = (app.clone(), stop.clone());
    let calls: GrpcCalls =
        Arc::new(move |request| Box::pin(grpc_calls::call(calls.clone(), request, stopping.clone())));
    connections::serve(listener, app, Surface::Grpc(calls), stop).await;
}

/// The same with OTLP only, for a process that answers no queries.
pub async fn serve_otlp_grpc(listener: TcpListener, app: App, stop: watch::Receiver<bool>) {
    let calls = app.clone();
    let calls: GrpcCalls = Arc::new(move |request| Box::pin(grpc_calls::otlp_call(calls.clone(), request)));
    connections::serve(listener, app, Surface::Grpc(calls), stop).await;
}

/// The page; the version for senders to Elasticsearch, which accept JSON.
async fn root(method: Method, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("json") && !accept.contains("html") {
        return senders::elasticsearch_info(method.as_str());
    }
    page::index(headers).await.into_response()
}

pub(crate) fn router(app: App) -> Router {
    let guard = Guard::new(&app.config.allowed_hosts, app.metrics.clone());
    Router::new()
        .route("/", get(root))
        .route("/nodes", get(page::index))
        .route("/favicon.svg", get(page::icon))
        .route("/assets/{*path}", get(page::asset))
        .route("/api/v1", get(node::calls))
        .route("/api/v1/ingest", post(ingest::ingest))
        .route("/api/v1/query", get(query::query).post(query::query))
        .route("/api/v1/tail", get(tail::tail))
        .route("/api/v1/check", get(query::check).post(query::check))
        .route("/api/v1/count", get(query::count).post(query::count))
        .route("/api/v1/histogram", get(query::histogram).post(query::histogram))
        .route("/api/v1/fields", get(query::fields).post(query::fields))
        .route("/api/v1/context", get(query::context))
        .route("/api/v1/labels", get(streams::labels).post(streams::labels))
        .route("/api/v1/streams", get(streams::streams).post(streams::streams))
        .route("/api/v1/cluster", get(node::cluster))
        .route("/api/v1/agents", get(agents::agents))
        .route("/api/v1/forget", post(node::forget))
        .route("/api/v1/history", get(node::history))
        .route("/metrics", get(node::metrics))
        .route("/-/healthy", get(node::healthy))
        .route("/-/ready", get(node::ready))
        .merge(senders::routes())
        .fallback(node::unknown_path)
        .method_not_allowed_fallback(node::method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&app.compression_permits), compress::compress))
        // Around every route and both fallbacks.
        .layer(from_fn_with_state(guard, guard::guard))
        // Around all that may refuse a request.
        .layer(from_fn_with_state(app.clone(), audit::audit))
        .with_state(app)
}

/// The routes of the listener for OTLP over HTTP.
pub(crate) fn otlp_router(app: App) -> Router {
    let guard = Guard::new(&app.config.allowed_hosts, app.metrics.clone());
    Router::new()
        .route("/-/healthy", get(node::healthy))
        .route("/-/ready", get(node::ready))
        .merge(senders::otlp_routes())
        .fallback(senders::unknown_otlp_path)
        .method_not_allowed_fallback(senders::unknown_otlp_path)
        .layer(from_fn_with_state(guard, guard::guard))
        .with_state(app)
}
