//! Calls to another node.

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

use super::context::{ERROR_TEXT_BYTES_MAX, NetContext, is_call_name};
use super::dial::dial;
use super::hyper_body::{OutgoingBody, io_error, poll_bytes};
use super::pool::Connection;
use crate::Body;
use crate::body::PieceStream;

/// How long a connection may take after a response until it can carry the next call. It is ready at once unless the peer did
/// not read the whole request; then a new connection costs no more.
const REUSE_TIMEOUT: Duration = Duration::from_millis(20);

pub(super) async fn call(context: Arc<NetContext>, to: SocketAddr, name: String, body: Body) -> io::Result<Body> {
    if !is_call_name(&name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a valid call name")));
    }
    let body = OutgoingBody::new(body);
    let is_sent = body.completion_flag();
    let mut request = Request::post(format!("/{name}"))
        .header(HOST, to.to_string())
        .body(body)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    // A pooled connection may have died. hyper returns a request only if none of it was sent, so no call is sent twice.
    while let Some(mut pooled) = context.pool.take(to) {
        match pooled.sender.try_send_request(request).await {
            Ok(response) => return receive_response(context, to, pooled, response, is_sent).await,
            Err(mut failed) => match failed.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(io_error(failed.error())),
            },
        }
    }
    let mut fresh = dial(&context, to).await?;
    match fresh.sender.try_send_request(request).await {
        Ok(response) => receive_response(context, to, fresh, response, is_sent).await,
        Err(failed) => Err(io_error(failed.error())),
    }
}

async fn receive_response(
    context: Arc<NetContext>,
    to: SocketAddr,
    connection: Connection,
    response: Response<Incoming>,
    is_request_sent: Arc<AtomicBool>,
) -> io::Result<Body> {
    let (head, incoming) = response.into_parts();
    let mut response =
        IncomingResponse { incoming, connection: Some(connection), is_request_sent, reuse_deadline: None, to, context };
    if response.incoming.is_end_stream() {
        // The caller need not read an empty body.
        std::future::poll_fn(|context| response.poll_return_to_pool(context)).await;
    }
    let body = Body::from_stream(response);
    match head.status {
        StatusCode::OK => Ok(body),
        StatusCode::NOT_IMPLEMENTED => Err(io::Error::new(io::ErrorKind::Unsupported, read_error_text(body).await?)),
        _ => Err(io::Error::other(read_error_text(body).await?)),
    }
}

async fn read_error_text(body: Body) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&body.read_all(ERROR_TEXT_BYTES_MAX).await?).into_owned())
}

/// The body of a response. Dropping it before its end closes the connection.
#[derive(Debug)]
struct IncomingResponse {
    incoming: Incoming,
    /// `None` after the end.
    connection: Option<Connection>,
    is_request_sent: Arc<AtomicBool>,
    reuse_deadline: Option<Pin<Box<Sleep>>>,
    to: SocketAddr,
    context: Arc<NetContext>,
}

impl IncomingResponse {
    /// At the end of the response: keeps the connection for the next call, or closes it if the request is not sent to its end.
    fn poll_return_to_pool(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_sent = self.is_request_sent.load(Ordering::Relaxed);
        let Some(connection) = self.connection.as_mut().filter(|_| is_sent) else {
            self.connection = None;
            return Poll::Ready(());
        };
        match connection.sender.poll_ready(context) {
            Poll::Ready(ready) => {
                if let (Ok(()), Some(connection)) = (ready, self.connection.take()) {
                    self.context.pool.put(self.to, connection);
                }
            }
            Poll::Pending => {
                let _runtime = self.context.runtime.enter();
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
