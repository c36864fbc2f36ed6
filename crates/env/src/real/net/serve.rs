//! Connections and calls from other nodes.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::context::{ERROR_TEXT_BYTES_MAX, HEADERS_MAX, NetContext, READ_BYTES_MAX, is_call_name};
use super::hello::{self, HandshakeRefusal, PeerHello};
use super::hyper_body::{IncomingBody, OutgoingBody};
use super::noise::{self, Handshake, NoiseStream};
use super::stream::{CountedStream, PeerStream};
use super::{Secret, socket};
use crate::{Body, GaugeGuard, IncomingCall, LogRateLimiter, Reply};

/// Maximum connections in their handshake; further ones wait in the kernel. Anyone can open them, so they are few.
const HANDSHAKES_MAX: usize = 128;

/// Accepts connections until it is dropped, which closes all of them.
pub(super) async fn accept(context: Arc<NetContext>, listener: TcpListener, calls: mpsc::Sender<IncomingCall>) {
    let connections_max = context.config.connections_max;
    // At most a quarter of the connections, so that handshakes leave descriptors for files.
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX.min(connections_max / 4).max(1)));
    let slots = Arc::new(Semaphore::new(connections_max));
    let mut connections = JoinSet::new();
    let accept_log = LogRateLimiter::new();
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (context, slots, calls) = (Arc::clone(&context), Arc::clone(&slots), calls.clone());
                connections.spawn(handle_connection(context, slots, calls, handshake, stream, peer));
            }
            Err(error) => {
                // Usually out of descriptors, which become free again.
                if let Some(suppressed) = accept_log.check(context.started.elapsed()) {
                    tracing::warn!(%error, suppressed, "cannot accept a peer connection");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Why a connection was not accepted.
#[derive(Debug, thiserror::Error)]
enum AcceptError {
    #[error("the peer is not a node")]
    NotANode,
    #[error(transparent)]
    Refused(#[from] HandshakeRefusal),
    #[error("the handshake timed out")]
    HandshakeTimeout,
    #[error(transparent)]
    Io(#[from] io::Error),
}

async fn handle_connection(
    context: Arc<NetContext>,
    slots: Arc<Semaphore>,
    calls: mpsc::Sender<IncomingCall>,
    handshake: OwnedSemaphorePermit,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let config = &context.config;
    let accepted = async {
        socket::prepare(&stream)?;
        let stream = CountedStream::new(stream, config.counters.clone());
        accept_handshake(stream, &context.secrets.all(), &slots).await
    };
    let accepted = timeout(config.handshake_timeout, accepted).await;
    let (stream, _slot) = match accepted.unwrap_or(Err(AcceptError::HandshakeTimeout)) {
        Ok(accepted) => accepted,
        Err(error) => return report_refused(&context, peer, &error),
    };
    drop(handshake);
    config.counters.accepted_connections.inc();
    let _open = GaugeGuard::new(&config.counters.connections);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.idle_max * 3 / 2)
        .max_headers(HEADERS_MAX)
        .max_buf_size(READ_BYTES_MAX)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service_fn(|request| handle_request(&context, &calls, request)))
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a peer connection ended early");
    }
}

fn report_refused(context: &NetContext, peer: SocketAddr, error: &AcceptError) {
    context.config.counters.refused_connections.inc();
    if let AcceptError::Io(error) = error {
        tracing::debug!(%peer, %error, "a connection failed during its handshake");
    } else if let Some(suppressed) = context.refused_log.check(context.started.elapsed()) {
        tracing::warn!(%peer, reason = %error, suppressed, "refused a connection to the cluster port");
    }
}

async fn accept_handshake(
    mut stream: CountedStream,
    secrets: &[Secret],
    slots: &Arc<Semaphore>,
) -> Result<(PeerStream, Option<OwnedSemaphorePermit>), AcceptError> {
    let mut bytes = [0; hello::BYTES];
    stream.read_exact(&mut bytes).await?;
    let Some(hello) = PeerHello::decode(bytes) else { return Err(AcceptError::NotANode) };
    let mut message = [0; noise::INITIATOR_MESSAGE_BYTES];
    if hello.is_encrypted {
        // Also before a refusal: closing a connection with unread bytes could discard the reply.
        stream.read_exact(&mut message).await?;
    }
    let mut reply = hello.reply(!secrets.is_empty());
    let mut handshake = None;
    if reply.refusal.is_none() {
        for secret in secrets {
            handshake = handshake.or(Handshake::respond(secret, &bytes, &message)?);
        }
        if handshake.is_none() && !secrets.is_empty() {
            reply.refusal = Some(HandshakeRefusal::SecretMismatch);
        }
    }
    let slot = Arc::clone(slots).try_acquire_owned().ok();
    if slot.is_none() {
        reply.refusal.get_or_insert(HandshakeRefusal::TooManyConnections);
    }
    if let Some(refusal) = reply.refusal {
        stream.write_all(&reply.encode()).await?;
        return Err(refusal.into());
    }
    let reply = reply.encode();
    let Some(handshake) = handshake else {
        stream.write_all(&reply).await?;
        return Ok((Box::new(stream), slot));
    };
    let (noise, message) = handshake.finish_as_responder(&reply)?;
    stream.write_all(&[&reply[..], &message].concat()).await?;
    let mut stream = NoiseStream::new(stream, noise);
    stream.confirm_peer().await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => AcceptError::Refused(HandshakeRefusal::SecretMismatch),
        _ => AcceptError::Io(error),
    })?;
    Ok((Box::new(stream), slot))
}

async fn handle_request(
    context: &NetContext,
    calls: &mpsc::Sender<IncomingCall>,
    request: Request<body::Incoming>,
) -> Result<Response<OutgoingBody>, Infallible> {
    let (head, incoming) = request.into_parts();
    let body = IncomingBody::body(incoming, context.runtime.clone());
    let name = head.uri.path().strip_prefix('/').unwrap_or_default();
    if head.method != Method::POST || head.uri.query().is_some() || !is_call_name(name) {
        return Ok(error_response(StatusCode::BAD_REQUEST, "not a valid call"));
    }
    let (reply, receiver) = Reply::channel();
    if calls.send(IncomingCall { name: name.to_owned(), body, reply }).await.is_err() {
        return Ok(error_response(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping"));
    }
    Ok(match receiver.await {
        Ok(Ok(body)) => Response::new(OutgoingBody::new(body)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
            error_response(StatusCode::NOT_IMPLEMENTED, &error.to_string())
        }
        Ok(Err(error)) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the call was dropped"),
    })
}

fn error_response(status: StatusCode, message: &str) -> Response<OutgoingBody> {
    let end_max = message.len().min(ERROR_TEXT_BYTES_MAX);
    let end = (0..=end_max).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    let message = message.get(..end).unwrap_or_default();
    let mut response = Response::new(OutgoingBody::new(Body::whole(message.to_owned())));
    *response.status_mut() = status;
    response
}
