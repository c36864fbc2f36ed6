//! What each listener of the surface serves: its routes or calls.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Method};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access::RouteAccess::{Admin, Any, Ingest, Nodes, Page, Public, Read};
use crate::access::{self, RouteAccess, Routes};
use crate::app::App;
use crate::connections::{GrpcCalls, Surface};
use crate::guard::Guard;
use crate::{
    agents, audit, compress, connections, erasures, grpc_calls, guard, ingest, node, page, query, senders, streams,
    tail,
};

pub use crate::grpc_calls::grpc_methods;

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
    if access::asks_for_json(&headers) {
        return senders::elasticsearch_info(method.as_str());
    }
    page::index(headers).await.into_response()
}

/// All routes of the HTTP port, each with those who may call it.
fn http_routes() -> Routes {
    Routes::default()
        .route("/", Page, get(root))
        .route("/nodes", Public, get(page::index))
        .route("/favicon.svg", Public, get(page::icon))
        .route("/assets/{*path}", Public, get(page::asset))
        .route("/-/healthy", Public, get(node::healthy))
        .route("/-/ready", Public, get(node::ready))
        .route("/api/v1/login", Public, get(access::login_methods).post(access::login))
        .route("/auth/login", Public, get(access::begin_login))
        .route("/auth/callback", Public, get(access::complete_login))
        .route("/api/v1/logout", Public, post(access::logout))
        .route("/api/v1/session", Any, get(access::session))
        .route("/api/v1", Any, get(node::calls))
        .route("/api/v1/ingest", Ingest, post(ingest::ingest))
        .route("/api/v1/query", Read, get(query::query).post(query::query))
        .route("/api/v1/tail", Read, get(tail::tail))
        .route("/api/v1/check", Read, get(query::check).post(query::check))
        .route("/api/v1/count", Read, get(query::count).post(query::count))
        .route("/api/v1/histogram", Read, get(query::histogram).post(query::histogram))
        .route("/api/v1/fields", Read, get(query::fields).post(query::fields))
        .route("/api/v1/context", Read, get(query::context))
        .route("/api/v1/labels", Read, get(streams::labels).post(streams::labels))
        .route("/api/v1/streams", Read, get(streams::streams).post(streams::streams))
        .route("/api/v1/cluster", Nodes, get(node::cluster))
        .route("/api/v1/agents", Nodes, get(agents::agents))
        .route("/api/v1/history", Nodes, get(node::history))
        .route("/metrics", Nodes, get(node::metrics))
        .route("/api/v1/forget", Admin, post(node::forget))
        .route("/api/v1/erase", Admin, post(erasures::erase))
        .route("/api/v1/erasures", Admin, get(erasures::erasures))
        .merge(senders::routes())
}

/// The routes of the listener for OTLP over HTTP.
fn otlp_http_routes() -> Routes {
    Routes::default()
        .route("/-/healthy", Public, get(node::healthy))
        .route("/-/ready", Public, get(node::ready))
        .merge(senders::otlp_routes())
}

/// The paths of the HTTP port, and who may call each.
pub fn routes() -> Vec<(&'static str, RouteAccess)> {
    http_routes().list().collect()
}

/// The paths of the port for OTLP over HTTP, and who may call each.
pub fn otlp_routes() -> Vec<(&'static str, RouteAccess)> {
    otlp_http_routes().list().collect()
}

pub(crate) fn router(app: App) -> Router {
    let guard = Arc::new(Guard::new(&app.config, app.metrics.clone()));
    let (routes, check) = http_routes().with_check(&app, "http");
    routes
        .fallback(node::unknown_path)
        .method_not_allowed_fallback(node::method_not_allowed)
        .layer(from_fn_with_state(Arc::clone(&app.compression_permits), compress::compress))
        // Around every route and both fallbacks.
        .layer(from_fn_with_state(check, access::check))
        .layer(from_fn_with_state(guard, guard::guard))
        // Around all that may refuse a request.
        .layer(from_fn_with_state(app.clone(), audit::audit))
        .with_state(app)
}

pub(crate) fn otlp_router(app: App) -> Router {
    let guard = Arc::new(Guard::new(&app.config, app.metrics.clone()));
    let (routes, check) = otlp_http_routes().with_check(&app, "otlp-http");
    routes
        .fallback(senders::unknown_otlp_path)
        .method_not_allowed_fallback(senders::unknown_otlp_path)
        .layer(from_fn_with_state(check, access::check))
        .layer(from_fn_with_state(guard, guard::guard))
        .layer(from_fn_with_state(app.clone(), audit::audit))
        .with_state(app)
}
