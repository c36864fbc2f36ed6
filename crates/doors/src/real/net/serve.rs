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

use super::hello::{self, Answer, Hello, Refusal};
use super::noise::{self, Handshake, Sealed};
use super::pieces::{Brought, Outgoing};
use super::stream::{Counted, Stream};
use super::{Counters, Secret, Shared, call, socket};
use crate::{Body, Incoming, Repeats, Reply};

/// Connections that have not yet shown what they are; more wait in the kernel. They are few, because anybody can open them.
const HANDSHAKES_MAX: usize = 128;

/// Accepts connections for ever. Dropping it closes them all.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, calls: mpsc::Sender<Incoming>) {
    // No more than a quarter as many as connections, so that few descriptors are kept from files here too.
    let handshakes = HANDSHAKES_MAX.min(shared.config.connections_max / 4).max(1);
    let handshakes = Arc::new(Semaphore::new(handshakes));
    let room = Arc::new(Semaphore::new(shared.config.connections_max));
    let mut connections = JoinSet::new();
    let repeats = Repeats::new();
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (shared, room, calls) = (Arc::clone(&shared), Arc::clone(&room), calls.clone());
                connections.spawn(connection(shared, room, calls, handshake, stream, peer));
            }
            Err(error) => {
                // Out of descriptors, mostly: some will be free again soon.
                if let Some(suppressed) = repeats.pass(shared.started.elapsed()) {
                    tracing::warn!(%error, suppressed, "cannot accept a connection of another node");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("it is no node")]
    NoNode,
    #[error("it speaks version {0} of the protocol between nodes")]
    Version(u8),
    #[error("it has no cluster secret, this node has one")]
    SecretWanted,
    #[error("it has a cluster secret, this node has none")]
    NoSecretHere,
    #[error("it has another cluster secret")]
    OtherSecret,
    #[error("there are too many connections")]
    Full,
    #[error("it does not say what it is")]
    Silent,
    #[error(transparent)]
    Broken(#[from] io::Error),
}

async fn connection(
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    calls: mpsc::Sender<Incoming>,
    handshake: OwnedSemaphorePermit,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let welcomed = async {
        socket::prepare(&stream)?;
        welcome(Counted::new(stream, Arc::clone(&shared.counters)), shared.config.secret.as_ref(), &room).await
    };
    let (stream, _place) = match timeout(shared.config.handshake_timeout, welcomed).await.unwrap_or(Err(Failed::Silent))
    {
        Ok(welcomed) => welcomed,
        Err(failed) => return refused(&shared, peer, &failed),
    };
    drop(handshake);
    let _open = Open::new(Arc::clone(&shared.counters));
    let answering = service_fn(|request| answer(&shared, &calls, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.idle_max * 3 / 2)
        .max_headers(call::HEADERS_MAX)
        .max_buf_size(call::READ_BYTES_MAX)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), answering)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "a connection of another node ended early");
    }
}

fn refused(shared: &Shared, peer: SocketAddr, failed: &Failed) {
    shared.counters.connection_refused();
    if let Failed::Broken(error) = failed {
        tracing::debug!(%peer, %error, "a connection ended before it began");
    } else if let Some(before) = shared.refused.pass(shared.started.elapsed()) {
        tracing::warn!(%peer, reason = %failed, not_told_before = before, "a connection to the cluster's port was refused");
    }
}

/// An open connection, as counted.
struct Open(Arc<Counters>);

impl Open {
    fn new(counters: Arc<Counters>) -> Self {
        counters.connection_opened();
        Self(counters)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// Hears what the other is and says whether to go on.
async fn welcome(
    mut stream: Counted,
    secret: Option<&Secret>,
    room: &Arc<Semaphore>,
) -> Result<(Stream, OwnedSemaphorePermit), Failed> {
    let mut bytes = [0; hello::BYTES];
    stream.read_exact(&mut bytes).await?;
    let Some(hello) = Hello::decode(bytes) else { return Err(Failed::NoNode) };
    let mut asked = [0; noise::ASKED_BYTES];
    if hello.sealed {
        // Read in any case: with bytes unread the answer could be lost.
        stream.read_exact(&mut asked).await?;
    }
    let mut answer = hello.answer(secret.is_some());
    let mut handshake = None;
    if let (None, Some(secret)) = (answer.refusal, secret) {
        handshake = Handshake::asked(secret, &bytes, &asked)?;
        if handshake.is_none() {
            answer.refusal = Some(Refusal::OtherSecret);
        }
    }
    let place = Arc::clone(room).try_acquire_owned().ok();
    if answer.refusal.is_none() && place.is_none() {
        answer.refusal = Some(Refusal::Full);
    }
    let (Answer { refusal: None, .. }, Some(place)) = (answer, place) else {
        stream.write_all(&answer.encode()).await?;
        return Err(match answer.refusal {
            Some(Refusal::Version) => Failed::Version(hello.version),
            Some(Refusal::SecretWanted) => Failed::SecretWanted,
            Some(Refusal::NoSecretHere) => Failed::NoSecretHere,
            Some(Refusal::OtherSecret) => Failed::OtherSecret,
            Some(Refusal::Full) | None => Failed::Full,
        });
    };
    let answer = answer.encode();
    let Some(handshake) = handshake else {
        stream.write_all(&answer).await?;
        return Ok((Stream::Plain(stream), place));
    };
    let (noise, message) = handshake.answer(&answer)?;
    stream.write_all(&[&answer[..], &message].concat()).await?;
    let mut stream = Sealed::new(stream, noise);
    stream.proven().await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Failed::OtherSecret,
        _ => Failed::Broken(error),
    })?;
    Ok((Stream::Sealed(Box::new(stream)), place))
}

async fn answer(
    shared: &Shared,
    calls: &mpsc::Sender<Incoming>,
    request: Request<body::Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    let (head, incoming) = request.into_parts();
    let body = Brought::body(incoming, shared.runtime.clone());
    let name = head.uri.path().strip_prefix('/').unwrap_or_default();
    if head.method != Method::POST || head.uri.query().is_some() || !call::is_name(name) {
        return Ok(words(StatusCode::BAD_REQUEST, "that is no call"));
    }
    let (reply, told) = Reply::channel();
    if calls.send(Incoming { name: name.to_owned(), body, reply }).await.is_err() {
        return Ok(words(StatusCode::SERVICE_UNAVAILABLE, "the node stops"));
    }
    Ok(match told.await {
        Ok(Ok(body)) => Response::new(Outgoing::new(body)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
            words(StatusCode::NOT_IMPLEMENTED, &error.to_string())
        }
        Ok(Err(error)) => words(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => words(StatusCode::INTERNAL_SERVER_ERROR, "the call was dropped"),
    })
}

fn words(status: StatusCode, words: &str) -> Response<Outgoing> {
    let mut end = words.len().min(call::WORDS_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    let words = words.get(..end).unwrap_or_default();
    let mut response = Response::new(Outgoing::new(Body::whole(words.to_owned())));
    *response.status_mut() = status;
    response
}
