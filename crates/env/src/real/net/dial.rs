//! Connecting to another node.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::context::{HEADERS_MAX, NetContext, READ_BYTES_MAX};
use super::hello::{self, HandshakeRefusal, PeerHello, PeerHelloReply};
use super::hyper_body::io_error;
use super::noise::{self, Handshake, NoiseStream};
use super::pool::Connection;
use super::stream::{CountedStream, PeerStream};
use super::{Secret, socket};

/// Opens a connection. Dropping the future cancels the attempt.
pub(super) async fn dial(context: &Arc<NetContext>, to: SocketAddr) -> io::Result<Connection> {
    let mut attempt = JoinSet::new();
    attempt.spawn_on(open(Arc::clone(context), context.route(to)), &context.runtime);
    let opened = match attempt.join_next().await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => Err(io::Error::other(error)),
        None => Err(io::ErrorKind::Interrupted.into()),
    };
    opened.map_err(|error| io::Error::new(error.kind(), format!("no connection to {to}: {error}")))
}

async fn open(context: Arc<NetContext>, to: SocketAddr) -> io::Result<Connection> {
    let config = &context.config;
    let stream = io_timeout(config.connect_timeout, "to be reached", TcpStream::connect(to)).await?;
    socket::prepare(&stream)?;
    let stream = CountedStream::new(stream, config.counters.clone());
    let handshake = initiate_handshake(stream, context.secrets.own());
    let stream = io_timeout(config.handshake_timeout, "to complete the handshake", handshake).await?;
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(READ_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| io_error(&error))?;
    let mut task = JoinSet::new();
    // The call on the connection gets its error.
    task.spawn(async move { drop(connection.await) });
    Ok(Connection { sender, _task: task })
}

async fn io_timeout<T>(time: Duration, what: &str, operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {time:?} {what}")));
    timeout(time, operation).await.unwrap_or_else(timed_out)
}

async fn initiate_handshake(mut stream: CountedStream, secret: Option<Secret>) -> io::Result<PeerStream> {
    let hello = PeerHello::new(secret.is_some()).encode();
    let Some(secret) = secret else {
        stream.write_all(&hello).await?;
        read_hello_reply(&mut stream).await?;
        return Ok(Box::new(stream));
    };
    let (handshake, message) = Handshake::initiate(&secret, &hello)?;
    stream.write_all(&[&hello[..], &message].concat()).await?;
    let reply = read_hello_reply(&mut stream).await?;
    let mut message = [0; noise::RESPONDER_MESSAGE_BYTES];
    stream.read_exact(&mut message).await?;
    match handshake.finish_as_initiator(&reply, &message)? {
        Some(noise) => Ok(Box::new(NoiseStream::new(stream, noise))),
        None => Err(refusal_error(HandshakeRefusal::SecretMismatch)),
    }
}

/// The bytes of a reply that accepts.
async fn read_hello_reply(stream: &mut CountedStream) -> io::Result<[u8; hello::BYTES]> {
    let mut reply = [0; hello::BYTES];
    stream.read_exact(&mut reply).await?;
    match PeerHelloReply::decode(reply) {
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the peer is not a bucksaw node, or speaks an unknown protocol",
        )),
        Some(PeerHelloReply { refusal: Some(refusal), .. }) => Err(refusal_error(refusal)),
        Some(PeerHelloReply { refusal: None, .. }) => Ok(reply),
    }
}

fn refusal_error(refusal: HandshakeRefusal) -> io::Error {
    let kind = match refusal {
        HandshakeRefusal::SecretRequired | HandshakeRefusal::SecretUnexpected | HandshakeRefusal::SecretMismatch => {
            io::ErrorKind::PermissionDenied
        }
        // `ConnectionRefused` means that no process listens.
        HandshakeRefusal::VersionMismatch => io::ErrorKind::ConnectionAborted,
        HandshakeRefusal::TooManyConnections => io::ErrorKind::ResourceBusy,
    };
    io::Error::new(kind, refusal)
}
