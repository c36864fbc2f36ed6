//! Calling another node.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode};
use tokio::time::{Sleep, sleep};

use super::NetContext;
use super::dial::dial;
use super::hyper_body::{OutgoingBody, poll_bytes};
use super::pool::Connection;
use crate::Body;
use crate::body::PieceStream;

/// What a connection may hold of what it has read, in bytes: a head must fit in it, and a body comes in parts as large.
pub(super) const READ_BYTES_MAX: usize = 128 << 10;

/// Headers of a call or an answer; a handful are sent.
pub(super) const HEADERS_MAX: usize = 16;

/// The longest words of an error that are read.
pub(super) const ERROR_TEXT_BYTES_MAX: usize = 4 << 10;

/// The longest name of a call.
const NAME_BYTES_MAX: usize = 64;

/// How long a connection may take from the end of an answer until it can carry the next call. Mostly it takes no time; it
/// does when the other side did not read all of the call, and then another connection is as good.
const REUSE_TIMEOUT: Duration = Duration::from_millis(20);

/// Whether this can be the name of a call: it is the path of a URL without its first slash.
pub(super) fn is_call_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(known)
}

pub(super) async fn call(shared: Arc<NetContext>, to: SocketAddr, name: String, body: Body) -> io::Result<Body> {
    if !is_call_name(&name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a valid call name")));
    }
    let body = OutgoingBody::new(body);
    let over = body.completion_flag();
    let mut request = Request::post(format!("/{name}"))
        .header(HOST, to.to_string())
        .body(body)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    // One that was kept may just have died. Only a call of which nothing was sent comes back, so it is surely not done twice.
    while let Some(mut kept) = shared.pool.take(to) {
        match kept.sender.try_send_request(request).await {
            Ok(response) => return receive_response(shared, to, kept, response, over).await,
            Err(mut failed) => match failed.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(io_error(failed.error())),
            },
        }
    }
    let mut fresh = dial(&shared, to).await?;
    match fresh.sender.try_send_request(request).await {
        Ok(response) => receive_response(shared, to, fresh, response, over).await,
        Err(failed) => Err(io_error(failed.error())),
    }
}

async fn receive_response(
    shared: Arc<NetContext>,
    to: SocketAddr,
    connection: Connection,
    response: Response<Incoming>,
    over: Arc<AtomicBool>,
) -> io::Result<Body> {
    let (head, incoming) = response.into_parts();
    let mut answer = IncomingResponse {
        incoming,
        connection: Some(connection),
        is_request_complete: over,
        reuse_deadline: None,
        to,
        shared,
    };
    if answer.incoming.is_end_stream() {
        // Nobody need read what is empty.
        std::future::poll_fn(|context| answer.poll_return_to_pool(context)).await;
    }
    let body = Body::from_stream(answer);
    match head.status {
        StatusCode::OK => Ok(body),
        StatusCode::NOT_IMPLEMENTED => Err(io::Error::new(io::ErrorKind::Unsupported, read_error_text(body).await?)),
        _ => Err(io::Error::other(read_error_text(body).await?)),
    }
}

async fn read_error_text(body: Body) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&body.read_all(ERROR_TEXT_BYTES_MAX).await?).into_owned())
}

/// An answer as it comes. Dropping it before its end closes the connection.
#[derive(Debug)]
struct IncomingResponse {
    incoming: Incoming,
    /// Gone when the answer is over.
    connection: Option<Connection>,
    /// Whether all of the call is there to be sent.
    is_request_complete: Arc<AtomicBool>,
    reuse_deadline: Option<Pin<Box<Sleep>>>,
    to: SocketAddr,
    shared: Arc<NetContext>,
}

impl IncomingResponse {
    /// The answer is over: keeps the connection for another call. When there is more of this one to send, nobody will read it.
    fn poll_return_to_pool(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.is_request_complete.load(Ordering::Relaxed))
        else {
            self.connection = None;
            return Poll::Ready(());
        };
        match connection.sender.poll_ready(context) {
            Poll::Ready(ready) => {
                if let (Ok(()), Some(connection)) = (ready, self.connection.take()) {
                    self.shared.pool.put(self.to, connection);
                }
            }
            Poll::Pending => {
                let _here = self.shared.runtime.enter();
                ready!(
                    self.reuse_deadline.get_or_insert_with(|| Box::pin(sleep(REUSE_TIMEOUT))).as_mut().poll(context)
                );
                self.connection = None;
            }
        }
        Poll::Ready(())
    }
}

impl PieceStream for IncomingResponse {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.connection.is_none() {
            return Poll::Ready(None);
        }
        let piece = if self.reuse_deadline.is_some() { None } else { ready!(poll_bytes(&mut self.incoming, context)) };
        match &piece {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.connection = None,
            None => ready!(self.poll_return_to_pool(context)),
        }
        Poll::Ready(piece)
    }
}

/// What the network said, out of what hyper makes of it.
pub(super) fn io_error(error: &hyper::Error) -> io::Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return io::Error::new(cause.kind(), cause.to_string());
        }
        source = cause.source();
    }
    let kind = if error.is_incomplete_message() {
        io::ErrorKind::UnexpectedEof
    } else if error.is_parse() {
        io::ErrorKind::InvalidData
    } else if error.is_timeout() {
        io::ErrorKind::TimedOut
    } else {
        io::ErrorKind::ConnectionAborted
    };
    io::Error::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths() {
        for name in ["a", "ingest/fetch", "query/search_2", "v1.2/x-y"] {
            assert!(is_call_name(name), "{name}");
        }
        for name in ["", "a b", "a?b", "é", "a\r\nb", "a%20b", &"a".repeat(65)] {
            assert!(!is_call_name(name), "{name}");
        }
    }
}
