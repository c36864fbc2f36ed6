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

use super::hello::{self, Answer, Hello, Refusal};
use super::noise::{self, Handshake, Sealed};
use super::pool::{Connection, Task};
use super::stream::{Counted, Stream};
use super::{Secret, Shared, call, socket};

/// A fresh connection. Dropping the future gives it up.
pub(super) async fn dial(shared: &Arc<Shared>, to: SocketAddr) -> io::Result<Connection> {
    let opening = open(Arc::clone(shared), shared.route(to));
    let opened = Task::new(shared.runtime.spawn(opening)).join().await;
    opened.map_err(|error| told(&error, &format!("no connection to {to}: {error}")))
}

async fn open(shared: Arc<Shared>, to: SocketAddr) -> io::Result<Connection> {
    let stream = in_time(shared.config.connect_timeout, "to be reached", TcpStream::connect(to)).await?;
    socket::prepare(&stream)?;
    let stream = Counted::new(stream, Arc::clone(&shared.counters));
    let greeted = greet(stream, shared.config.secret.as_ref());
    let stream = in_time(shared.config.handshake_timeout, "to say what it is", greeted).await?;
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

async fn in_time<T>(time: Duration, what: &str, doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(time, doing).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("it takes longer than {time:?} {what}"))),
    }
}

/// Says what this node is and hears what the other is.
async fn greet(mut stream: Counted, secret: Option<&Secret>) -> io::Result<Stream> {
    let hello = Hello::ours(secret.is_some()).encode();
    let Some(secret) = secret else {
        stream.write_all(&hello).await?;
        welcome(&mut stream).await?;
        return Ok(Stream::Plain(stream));
    };
    let (handshake, message) = Handshake::ask(secret, &hello)?;
    stream.write_all(&[&hello[..], &message].concat()).await?;
    let answer = welcome(&mut stream).await?;
    let mut message = [0; noise::ANSWERED_BYTES];
    stream.read_exact(&mut message).await?;
    match handshake.answered(&answer, &message)? {
        Some(noise) => Ok(Stream::Sealed(Box::new(Sealed::new(stream, noise)))),
        None => Err(refused(Refusal::OtherSecret)),
    }
}

/// What the other answers, when that is to go on.
async fn welcome(stream: &mut Counted) -> io::Result<[u8; hello::BYTES]> {
    let mut answer = [0; hello::BYTES];
    stream.read_exact(&mut answer).await?;
    match Answer::decode(answer) {
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "what answers there is no node that this one knows")),
        Some(Answer { refusal: Some(refusal), .. }) => Err(refused(refusal)),
        Some(Answer { refusal: None, .. }) => Ok(answer),
    }
}

fn refused(refusal: Refusal) -> io::Error {
    let kind = match refusal {
        Refusal::SecretWanted | Refusal::NoSecretHere | Refusal::OtherSecret => io::ErrorKind::PermissionDenied,
        // `ConnectionRefused` says that no process listens there.
        Refusal::Version => io::ErrorKind::ConnectionAborted,
        Refusal::Full => io::ErrorKind::ResourceBusy,
    };
    io::Error::new(kind, refusal)
}

/// The error in other words.
fn told(error: &io::Error, words: &impl Display) -> io::Error {
    io::Error::new(error.kind(), words.to_string())
}
