//! Accepting connections, within limits, and letting them go at the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tracing::{debug, warn};

use crate::app::App;
use crate::guard::Guard;
use crate::{guard, history, ingest, node, page, query, socket, tail};

/// How long requests that run have to come to their end when the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection may hold of what it has read, in bytes: a head must fit in it, and a body comes in parts as large.
const READ_BYTES_MAX: usize = 128 << 10;

/// Serves HTTP on a listener until `stop` says so; then lets running requests finish, for a while.
pub async fn serve(listener: TcpListener, app: App, mut stop: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(app.config.connections_max));
    let header_timeout = app.config.header_timeout;
    tokio::spawn(history::keep(app.clone(), stop.clone()));
    let router = router(app);
    let graceful = GracefulShutdown::new();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&connections).acquire_owned() => permit,
            () = stopped(&mut stop) => break,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        let stream = match accepted {
            Ok((stream, peer)) => {
                socket::prepare(&stream, peer);
                stream
            }
            Err(error) => {
                // Out of descriptors, mostly: some will be free again soon.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(READ_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        warn!("requests were still running when the node stopped");
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone stops as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn router(app: App) -> Router {
    let guard = Guard::new(&app.config.allowed_hosts, app.metrics.clone());
    Router::new()
        .route("/", get(page::index))
        .route("/nodes", get(page::index))
        .route("/favicon.svg", get(page::icon))
        .route("/assets/{*path}", get(page::asset))
        .route("/api/v1", get(node::calls))
        .route("/api/v1/ingest", post(ingest::ingest))
        .route("/api/v1/query", get(query::query).post(query::query))
        .route("/api/v1/tail", get(tail::tail))
        .route("/api/v1/count", get(query::count).post(query::count))
        .route("/api/v1/histogram", get(query::histogram).post(query::histogram))
        .route("/api/v1/fields", get(query::fields).post(query::fields))
        .route("/api/v1/context", get(query::context))
        .route("/api/v1/cluster", get(node::cluster))
        .route("/api/v1/forget", post(node::forget))
        .route("/api/v1/history", get(history::history))
        .route("/metrics", get(node::metrics))
        .route("/-/healthy", get(node::healthy))
        .route("/-/ready", get(node::ready))
        .fallback(node::nothing_here)
        .method_not_allowed_fallback(node::other_method)
        // Around every route and both fallbacks.
        .layer(from_fn_with_state(guard, guard::guard))
        .with_state(app)
}
