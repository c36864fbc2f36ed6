//! Being called by other nodes.

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

use super::hello::{self, HandshakeRefusal, PeerHello, PeerHelloReply};
use super::hyper_body::{IncomingBody, OutgoingBody};
use super::noise::{self, Handshake, NoiseStream};
use super::stream::{CountedStream, PeerStream};
use super::{Counters, NetContext, Secret, call, socket};
use crate::{Body, IncomingCall, LogRateLimiter, Reply};

/// Connections that have not yet shown what they are; more wait in the kernel. They are few, because anybody can open them.
const HANDSHAKES_MAX: usize = 128;

/// Accepts connections for ever. Dropping it closes them all.
pub(super) async fn accept(shared: Arc<NetContext>, listener: TcpListener, calls: mpsc::Sender<IncomingCall>) {
    // No more than a quarter as many as connections, so that few descriptors are kept from files here too.
    let handshakes = HANDSHAKES_MAX.min(shared.config.connections_max / 4).max(1);
    let handshakes = Arc::new(Semaphore::new(handshakes));
    let room = Arc::new(Semaphore::new(shared.config.connections_max));
    let mut connections = JoinSet::new();
    let repeats = LogRateLimiter::new();
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (shared, room, calls) = (Arc::clone(&shared), Arc::clone(&room), calls.clone());
                connections.spawn(handle_connection(shared, room, calls, handshake, stream, peer));
            }
            Err(error) => {
                // Out of descriptors, mostly: some will be free again soon.
                if let Some(suppressed) = repeats.check(shared.started.elapsed()) {
                    tracing::warn!(%error, suppressed, "cannot accept a peer connection");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
enum AcceptError {
    #[error("it is no node")]
    NotANode,
    #[error("the peer speaks version {0} of the node protocol")]
    Version(u8),
    #[error("the peer has no cluster secret, and this node has one")]
    SecretRequired,
    #[error("the peer has a cluster secret, and this node has none")]
    SecretUnexpected,
    #[error("the peer has a different cluster secret")]
    SecretMismatch,
    #[error("there are too many connections")]
    TooManyConnections,
    #[error("the handshake timed out")]
    HandshakeTimeout,
    #[error(transparent)]
    Io(#[from] io::Error),
}

async fn handle_connection(
    shared: Arc<NetContext>,
    room: Arc<Semaphore>,
    calls: mpsc::Sender<IncomingCall>,
    handshake: OwnedSemaphorePermit,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let welcomed = async {
        socket::prepare(&stream)?;
        accept_handshake(CountedStream::new(stream, Arc::clone(&shared.counters)), shared.config.secret.as_ref(), &room)
            .await
    };
    let (stream, _place) =
        match timeout(shared.config.handshake_timeout, welcomed).await.unwrap_or(Err(AcceptError::HandshakeTimeout)) {
            Ok(welcomed) => welcomed,
            Err(failed) => return report_refused(&shared, peer, &failed),
        };
    drop(handshake);
    let _open = OpenConnectionCount::new(Arc::clone(&shared.counters));
    let answering = service_fn(|request| handle_request(&shared, &calls, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.idle_max * 3 / 2)
        .max_headers(call::HEADERS_MAX)
        .max_buf_size(call::READ_BYTES_MAX)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), answering)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a peer connection ended early");
    }
}

fn report_refused(shared: &NetContext, peer: SocketAddr, failed: &AcceptError) {
    shared.counters.count_refused_connection();
    if let AcceptError::Io(error) = failed {
        tracing::debug!(%peer, %error, "a connection failed during its handshake");
    } else if let Some(before) = shared.refused_log.check(shared.started.elapsed()) {
        tracing::warn!(%peer, reason = %failed, not_told_before = before, "a connection to the cluster port was refused");
    }
}

/// An open connection, as counted.
struct OpenConnectionCount(Arc<Counters>);

impl OpenConnectionCount {
    fn new(counters: Arc<Counters>) -> Self {
        counters.count_opened_connection();
        Self(counters)
    }
}

impl Drop for OpenConnectionCount {
    fn drop(&mut self) {
        self.0.count_closed_connection();
    }
}

/// Hears what the other is and says whether to go on.
async fn accept_handshake(
    mut stream: CountedStream,
    secret: Option<&Secret>,
    room: &Arc<Semaphore>,
) -> Result<(PeerStream, OwnedSemaphorePermit), AcceptError> {
    let mut bytes = [0; hello::BYTES];
    stream.read_exact(&mut bytes).await?;
    let Some(hello) = PeerHello::decode(bytes) else { return Err(AcceptError::NotANode) };
    let mut asked = [0; noise::INITIATOR_MESSAGE_BYTES];
    if hello.sealed {
        // Read in any case: with bytes unread the answer could be lost.
        stream.read_exact(&mut asked).await?;
    }
    let mut answer = hello.reply(secret.is_some());
    let mut handshake = None;
    if let (None, Some(secret)) = (answer.refusal, secret) {
        handshake = Handshake::respond(secret, &bytes, &asked)?;
        if handshake.is_none() {
            answer.refusal = Some(HandshakeRefusal::SecretMismatch);
        }
    }
    let place = Arc::clone(room).try_acquire_owned().ok();
    if answer.refusal.is_none() && place.is_none() {
        answer.refusal = Some(HandshakeRefusal::TooManyConnections);
    }
    let (PeerHelloReply { refusal: None, .. }, Some(place)) = (answer, place) else {
        stream.write_all(&answer.encode()).await?;
        return Err(match answer.refusal {
            Some(HandshakeRefusal::VersionMismatch) => AcceptError::Version(hello.version),
            Some(HandshakeRefusal::SecretRequired) => AcceptError::SecretRequired,
            Some(HandshakeRefusal::SecretUnexpected) => AcceptError::SecretUnexpected,
            Some(HandshakeRefusal::SecretMismatch) => AcceptError::SecretMismatch,
            Some(HandshakeRefusal::TooManyConnections) | None => AcceptError::TooManyConnections,
        });
    };
    let answer = answer.encode();
    let Some(handshake) = handshake else {
        stream.write_all(&answer).await?;
        return Ok((PeerStream::Plain(stream), place));
    };
    let (noise, message) = handshake.finish_as_responder(&answer)?;
    stream.write_all(&[&answer[..], &message].concat()).await?;
    let mut stream = NoiseStream::new(stream, noise);
    stream.confirm_peer().await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => AcceptError::SecretMismatch,
        _ => AcceptError::Io(error),
    })?;
    Ok((PeerStream::Encrypted(Box::new(stream)), place))
}

async fn handle_request(
    shared: &NetContext,
    calls: &mpsc::Sender<IncomingCall>,
    request: Request<body::Incoming>,
) -> Result<Response<OutgoingBody>, Infallible> {
    let (head, incoming) = request.into_parts();
    let body = IncomingBody::body(incoming, shared.runtime.clone());
    let name = head.uri.path().strip_prefix('/').unwrap_or_default();
    if head.method != Method::POST || head.uri.query().is_some() || !call::is_call_name(name) {
        return Ok(error_response(StatusCode::BAD_REQUEST, "not a valid call"));
    }
    let (reply, told) = Reply::channel();
    if calls.send(IncomingCall { name: name.to_owned(), body, reply }).await.is_err() {
        return Ok(error_response(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping"));
    }
    Ok(match told.await {
        Ok(Ok(body)) => Response::new(OutgoingBody::new(body)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
            error_response(StatusCode::NOT_IMPLEMENTED, &error.to_string())
        }
        Ok(Err(error)) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the call was dropped"),
    })
}

fn error_response(status: StatusCode, words: &str) -> Response<OutgoingBody> {
    let mut end = words.len().min(call::ERROR_TEXT_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    let words = words.get(..end).unwrap_or_default();
    let mut response = Response::new(OutgoingBody::new(Body::whole(words.to_owned())));
    *response.status_mut() = status;
    response
}
