//! Accepts connections within limits, routes requests, and drains both at a stop.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bucksaw_sources::Acceptor;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::admission::{Admission, Admitted};
use crate::app::App;
use crate::detached::DetachedRoutes;
use crate::guard::Guard;
use crate::{admission, compress, guard, ingest, node, page, query, senders, streams, tail};

/// Time limit of running requests when the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the head of a request on a reserved connection, of which there are few.
const RESERVED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Read buffer of a connection in bytes. The head of a request must fit; a body is read in chunks of this size.
const READ_BYTES_MAX: usize = 128 << 10;

/// Serves HTTP on a listener until `stop` is true or its sender is gone, then drains for up to five seconds.
pub async fn serve(listener: TcpListener, app: App, mut stop: watch::Receiver<bool>) {
    let config = Arc::clone(&app.config);
    let admission = Admission::new(Arc::clone(&config), app.metrics.clone());
    let metrics = app.metrics.clone();
    let acceptor = Acceptor::new(listener, Arc::clone(&app.env.clock), metrics.accept_failed.clone());
    tokio::spawn(node::sample_metrics(app.clone(), stop.clone()));
    let all_routes = router(app);
    let monitoring_routes = all_routes.clone().layer(from_fn(admission::monitoring_only));
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let admitted = admission.admit(peer);
        if let Admitted::Reserved(_, limit) | Admitted::Refused(limit) = &admitted {
            metrics.count_refused_connection(*limit);
        }
        match admitted {
            Admitted::Ordinary(slot) => {
                let service = DetachedRoutes::new(all_routes.clone(), slot);
                let connection = builder(config.header_timeout).serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                tokio::spawn(async move { log_connection_end(connection.await) });
            }
            Admitted::Reserved(slot, _) => {
                let service = TowerToHyperService::new(monitoring_routes.clone());
                let reserved = Arc::clone(&slot.reserved);
                let service = service_fn(move |request| {
                    reserved.mark_request();
                    service.call(request)
                });
                let connection =
                    builder(RESERVED_HEADER_TIMEOUT).keep_alive(false).serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    tokio::select! {
                        ended = connection => log_connection_end(ended),
                        () = slot.reserved.evicted() => {}
                    }
                });
            }
            Admitted::Refused(_) => drop(stream),
        }
    }
    drop(acceptor);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        warn!("requests were still running when the node stopped");
    }
}

fn builder(header_timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_timeout).max_buf_size(READ_BYTES_MAX);
    builder
}

fn log_connection_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}

/// The page; for senders to Elasticsearch, which ask for JSON, the version.
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
        .with_state(app)
}
