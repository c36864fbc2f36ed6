//! Accepts connections within limits, serves HTTP or gRPC on them, and drains them at a stop.
//!
//! All listeners of a node accept through here, and share the slots of one [`Admission`]. Each request has its
//! [`ConnectionPeer`] as an extension.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn;
use axum::response::Response;
use bucksaw_env::{BoxFuture, wait_for_stop};
use bucksaw_sources::{AcceptedConnection, Acceptor, ConnectionPeer, Socket};
use bucksaw_tls::AppProtocol;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::admission::{self, Admission, Admitted, OrdinarySlot, ReservedSlot};
use crate::app::App;
use crate::detached::DetachedRoutes;
use crate::metrics::Metrics;

/// Time limit of running requests when the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the head of a request on a reserved connection. These are few.
const RESERVED_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Read buffer of a connection of HTTP/1 in bytes. The head of a request must fit; a body is read in chunks of this size.
const READ_BYTES_MAX: usize = 128 << 10;

/// Calls at the same time on a connection of HTTP/2. Clients queue further ones.
pub(crate) const STREAMS_MAX: u32 = 8;

/// Bytes of bodies that a connection of HTTP/2 holds before its calls take them, and the part of one call.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 10;
const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// Limit of the headers of a call over HTTP/2, in bytes. A connection takes up to 256 KiB without a reservation: its
/// window, and 16 KiB for each call.
pub(crate) const HEADER_BYTES_MAX: u32 = 8 << 10;

/// Answers that a client of HTTP/2 has not read, in bytes for each call. Answers are short.
const SEND_BYTES_MAX: usize = 16 << 10;

/// A client of HTTP/2 that answers no ping is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers the calls of gRPC, and requests of HTTP/1, which are mistakes of clients.
pub(crate) type GrpcCalls = Arc<dyn Fn(Request) -> BoxFuture<Response> + Send + Sync>;

/// What the connections of a listener are for.
pub(crate) enum Surface {
    /// HTTP/1 with these routes.
    Http(Router),
    /// gRPC.
    Grpc(GrpcCalls),
}

/// Serves a listener until `stop` is true or its sender is gone, then drains for up to five seconds.
pub(crate) async fn serve(listener: TcpListener, app: App, surface: Surface, mut stop: watch::Receiver<bool>) {
    let acceptor = Acceptor::new(listener, Arc::clone(&app.env.clock), app.metrics.accept_failed.clone());
    let acceptor = acceptor.with_tls(app.config.tls.clone(), surface.protocol());
    let graceful = GracefulShutdown::new();
    let server = Arc::new(ConnectionServer::new(&app, surface));
    loop {
        let (connection, peer) = tokio::select! {
            accepted = acceptor.accept() => accepted,
            () = wait_for_stop(&mut stop) => break,
        };
        match connection {
            AcceptedConnection::Open(socket) => server.serve(socket, peer, graceful.watcher()),
            AcceptedConnection::Handshake(handshake) => {
                let (server, stop, graceful) = (Arc::clone(&server), stop.clone(), graceful.watcher());
                tokio::spawn(async move {
                    if let Some(socket) = handshake.run(stop).await {
                        server.serve(socket, peer, graceful);
                    }
                });
            }
        }
    }
    drop(acceptor);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        warn!("requests were still running when the node stopped");
    }
}

impl Surface {
    fn protocol(&self) -> AppProtocol {
        match self {
            Self::Http(_) => AppProtocol::Http,
            Self::Grpc(_) => AppProtocol::Grpc,
        }
    }
}

/// Serves the connections of one listener.
struct ConnectionServer {
    surface: Surface,
    /// The calls of a reserved connection, of a surface that has any.
    monitoring_routes: Option<Router>,
    admission: Arc<Admission>,
    metrics: Metrics,
    header_timeout: Duration,
}

impl ConnectionServer {
    fn new(app: &App, surface: Surface) -> Self {
        let monitoring_routes = match &surface {
            Surface::Http(routes) => Some(routes.clone().layer(from_fn(admission::monitoring_only))),
            Surface::Grpc(_) => None,
        };
        let (admission, metrics) = (Arc::clone(&app.admission), app.metrics.clone());
        Self { surface, monitoring_routes, admission, metrics, header_timeout: app.config.header_timeout }
    }

    /// Serves an open connection in a task of its own, if there is a slot for it.
    fn serve(&self, socket: Socket, address: SocketAddr, graceful: Watcher) {
        let admitted = match &self.monitoring_routes {
            Some(_) => self.admission.admit(address),
            None => self.admission.admit_ordinary(address).map_or_else(Admitted::Refused, Admitted::Ordinary),
        };
        if let Admitted::Reserved(_, limit) | Admitted::Refused(limit) = &admitted {
            self.metrics.count_refused_connection(*limit);
        }
        let identity = socket.identity().cloned();
        let peer = Arc::new(ConnectionPeer { address, is_encrypted: socket.is_encrypted(), identity });
        let header_timeout = self.header_timeout;
        match (admitted, &self.surface, &self.monitoring_routes) {
            (Admitted::Ordinary(slot), Surface::Http(routes), _) => {
                serve_http(socket, (slot, peer), routes.clone(), header_timeout, graceful);
            }
            (Admitted::Ordinary(slot), Surface::Grpc(calls), _) => {
                serve_grpc(socket, (slot, peer), Arc::clone(calls), header_timeout, graceful);
            }
            (Admitted::Reserved(slot, _), _, Some(routes)) => {
                serve_monitoring(socket, (slot, peer), routes.clone(), graceful);
            }
            (Admitted::Reserved(..) | Admitted::Refused(_), ..) => drop(socket),
        }
    }
}

fn serve_http(
    socket: Socket,
    (slot, peer): (OrdinarySlot, Arc<ConnectionPeer>),
    routes: Router,
    header_timeout: Duration,
    graceful: Watcher,
) {
    let service = DetachedRoutes::new(routes, slot, peer);
    let connection = http1_builder(header_timeout).serve_connection(TokioIo::new(socket), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move { log_connection_end(connection.await) });
}

fn serve_monitoring(
    socket: Socket,
    (slot, peer): (ReservedSlot, Arc<ConnectionPeer>),
    routes: Router,
    graceful: Watcher,
) {
    let service = TowerToHyperService::new(routes);
    let reserved = Arc::clone(&slot.reserved);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        reserved.mark_request();
        request.extensions_mut().insert(Arc::clone(&peer));
        service.call(request)
    });
    let mut builder = http1_builder(RESERVED_HEADER_TIMEOUT);
    let connection = builder.keep_alive(false).serve_connection(TokioIo::new(socket), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        tokio::select! {
            ended = connection => log_connection_end(ended),
            () = slot.reserved.evicted() => {}
        }
    });
}

fn serve_grpc(
    socket: Socket,
    (slot, peer): (OrdinarySlot, Arc<ConnectionPeer>),
    calls: GrpcCalls,
    header_timeout: Duration,
    graceful: Watcher,
) {
    let has_request = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&has_request);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        mark.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(&peer));
        let answer = calls(request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = grpc_builder(header_timeout).serve_connection(TokioIo::new(socket), service).into_owned();
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        let _slot = slot;
        // HTTP/2 itself sets no limit to the time before its first request.
        let silence = async {
            tokio::time::sleep(header_timeout).await;
            if has_request.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            ended = connection => log_connection_end(ended),
            () = silence => {}
        }
    });
}

fn http1_builder(header_timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_timeout).max_buf_size(READ_BYTES_MAX);
    builder
}

/// HTTP/2, and HTTP/1 for an answer that the port needs HTTP/2.
fn grpc_builder(header_timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(header_timeout).max_buf_size(READ_BYTES_MAX).keep_alive(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

fn log_connection_end<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}
