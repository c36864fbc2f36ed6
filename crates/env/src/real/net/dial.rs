//! Opening a connection to another node.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::hello::{self, HandshakeRefusal, PeerHello, PeerHelloReply};
use super::noise::{self, Handshake, NoiseStream};
use super::pool::{AbortOnDrop, Connection};
use super::stream::{CountedStream, PeerStream};
use super::{NetContext, Secret, call, socket};

/// A fresh connection. Dropping the future gives it up.
pub(super) async fn dial(shared: &Arc<NetContext>, to: SocketAddr) -> io::Result<Connection> {
    let opening = open(Arc::clone(shared), shared.route(to));
    let opened = AbortOnDrop::new(shared.runtime.spawn(opening)).join().await;
    opened.map_err(|error| with_message(&error, &format!("no connection to {to}: {error}")))
}

async fn open(shared: Arc<NetContext>, to: SocketAddr) -> io::Result<Connection> {
    let stream = io_timeout(shared.config.connect_timeout, "to be reached", TcpStream::connect(to)).await?;
    socket::prepare(&stream)?;
    let stream = CountedStream::new(stream, Arc::clone(&shared.counters));
    let greeted = initiate_handshake(stream, shared.config.secret.as_ref());
    let stream = io_timeout(shared.config.handshake_timeout, "to complete the handshake", greeted).await?;
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(call::READ_BYTES_MAX)
        .max_headers(call::HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| call::io_error(&error))?;
    // What ends it is told to the call that it carries.
    let task = tokio::spawn(async move { drop(connection.await) });
    Ok(Connection::new(sender, task))
}

async fn io_timeout<T>(time: Duration, what: &str, doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(time, doing).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("timed out after {time:?} {what}"))),
    }
}

/// Says what this node is and hears what the other is.
async fn initiate_handshake(mut stream: CountedStream, secret: Option<&Secret>) -> io::Result<PeerStream> {
    let hello = PeerHello::new(secret.is_some()).encode();
    let Some(secret) = secret else {
        stream.write_all(&hello).await?;
        read_hello_reply(&mut stream).await?;
        return Ok(PeerStream::Plain(stream));
    };
    let (handshake, message) = Handshake::initiate(secret, &hello)?;
    stream.write_all(&[&hello[..], &message].concat()).await?;
    let answer = read_hello_reply(&mut stream).await?;
    let mut message = [0; noise::RESPONDER_MESSAGE_BYTES];
    stream.read_exact(&mut message).await?;
    match handshake.finish_as_initiator(&answer, &message)? {
        Some(noise) => Ok(PeerStream::Encrypted(Box::new(NoiseStream::new(stream, noise)))),
        None => Err(refusal_error(HandshakeRefusal::SecretMismatch)),
    }
}

/// What the other answers, when that is to go on.
async fn read_hello_reply(stream: &mut CountedStream) -> io::Result<[u8; hello::BYTES]> {
    let mut answer = [0; hello::BYTES];
    stream.read_exact(&mut answer).await?;
    match PeerHelloReply::decode(answer) {
        None => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the peer is not a bucksaw node, or speaks an unknown protocol",
        )),
        Some(PeerHelloReply { refusal: Some(refusal), .. }) => Err(refusal_error(refusal)),
        Some(PeerHelloReply { refusal: None, .. }) => Ok(answer),
    }
}

fn refusal_error(refusal: HandshakeRefusal) -> io::Error {
    let kind = match refusal {
        HandshakeRefusal::SecretRequired | HandshakeRefusal::SecretUnexpected | HandshakeRefusal::SecretMismatch => {
            io::ErrorKind::PermissionDenied
        }
        // `ConnectionRefused` says that no process listens there.
        HandshakeRefusal::VersionMismatch => io::ErrorKind::ConnectionAborted,
        HandshakeRefusal::TooManyConnections => io::ErrorKind::ResourceBusy,
    };
    io::Error::new(kind, refusal)
}

/// The error in other words.
fn with_message(error: &io::Error, words: &impl Display) -> io::Error {
    io::Error::new(error.kind(), words.to_string())
}
