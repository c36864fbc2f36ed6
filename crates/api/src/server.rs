//! Accepting connections, within limits, and letting them go at the end.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use bucksaw_env::LogRateLimiter;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::admission::{Admission, Admitted, ConnectionLimits};
use crate::app::App;
use crate::guard::Guard;
use crate::metrics::{ConnectionLimitLabels, Metrics};
use crate::{admission, guard, ingest, node, page, query, socket, tail};

/// How long requests that run have to come to their end when the node is stopping.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The same on a connection of the reserve, where few have room.
const RESERVED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// After a failed accept the next one is tried after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection may hold of what it has read, in bytes: a head must fit in it, and a body comes in parts as large.
const READ_BYTES_MAX: usize = 128 << 10;

/// Serves HTTP on a listener until `stop` says so; then lets running requests finish, for a while.
pub async fn serve(listener: TcpListener, app: App, mut stop: watch::Receiver<bool>) {
    let config = Arc::clone(&app.config);
    let admission = Admission::new(ConnectionLimits {
        all: config.connections_max,
        address: config.address_connections_max,
        reserved: config.reserved_connections_max,
    });
    let (metrics, clock, repeats) = (app.metrics.clone(), Arc::clone(&app.env.clock), LogRateLimiter::new());
    tokio::spawn(node::sample_metrics(app.clone(), stop.clone()));
    let routers = Routers::new(app);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_stop(&mut stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, mostly: some will be free again soon.
                if let Some(suppressed) = repeats.check(clock.uptime()) {
                    warn!(%error, suppressed, "cannot accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let admitted = admission.admit(peer);
        if let Admitted::Reserved(_, reason) | Admitted::Refused(reason) = &admitted {
            metrics.connections_refused.get_or_create(&ConnectionLimitLabels { reason: *reason }).inc();
        }
        match admitted {
            Admitted::Ordinary(slot) => {
                socket::prepare(&stream, peer);
                let service = TowerToHyperService::new(routers.all.clone());
                let connection = builder(config.header_timeout).serve_connection(TokioIo::new(stream), service);
                let (connection, open) = (graceful.watch(connection), OpenConnection::new(&metrics));
                tokio::spawn(async move {
                    let _held = (slot, open);
                    log_connection_end(connection.await);
                });
            }
            Admitted::Reserved(slot, _) => {
                let (service, reserved) =
                    (TowerToHyperService::new(routers.monitoring.clone()), Arc::clone(&slot.reserved));
                let service = service_fn(move |request| {
                    reserved.mark_request();
                    service.call(request)
                });
                let connection =
                    builder(RESERVED_HEADER_TIMEOUT).keep_alive(false).serve_connection(TokioIo::new(stream), service);
                let (connection, open) = (graceful.watch(connection), OpenConnection::new(&metrics));
                tokio::spawn(async move {
                    let _open = open;
                    tokio::select! {
                        ended = connection => log_connection_end(ended),
                        () = slot.reserved.evicted() => {}
                    }
                });
            }
            // Closed at once.
            Admitted::Refused(_) => drop(stream),
        }
    }
    drop(listener);
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

/// Counts a connection for as long as it is open.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn new(metrics: &Metrics) -> Self {
        metrics.connections.inc();
        Self(metrics.connections.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What is answered on ordinary and on reserved connections.
struct Routers {
    all: Router,
    monitoring: Router,
}

impl Routers {
    fn new(app: App) -> Self {
        let all = router(app);
        Self { monitoring: all.clone().layer(from_fn(admission::monitoring_only)), all }
    }
}

async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
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
        .route("/api/v1/history", get(node::history))
        .route("/metrics", get(node::metrics))
        .route("/-/healthy", get(node::healthy))
        .route("/-/ready", get(node::ready))
        .fallback(node::unknown_path)
        .method_not_allowed_fallback(node::method_not_allowed)
        // Around every route and both fallbacks.
        .layer(from_fn_with_state(guard, guard::guard))
        .with_state(app)
}
