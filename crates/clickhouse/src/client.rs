//! Calls of ClickHouse over HTTP, for threads that wait.
//!
//! Each call has its own connection: dropping the [`DatabaseReply`] closes it, and ClickHouse ends the statement. A task reads the
//! answer and passes it on through a channel of a few pieces, so memory is bounded, and the waiting thread can look every
//! few milliseconds whether its client is still there.
#![expect(clippy::disallowed_methods, reason = "the database is not simulated: real sockets")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use bucksaw_env::{Tasks, with_timeout};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_ENCODING, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::error::ClickHouseError;
use crate::statement::Statement;

/// Pieces of an answer that wait for their reader.
const PIECES_MAX: usize = 4;

/// How often a waiting thread looks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of an error's text that are kept.
const MESSAGE_BYTES_MAX: usize = 400;

/// Bytes of an answer with an error that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// The longest answer to a short question, in bytes.
const SHORT_BYTES_MAX: usize = 16 << 20;

/// A server, and how to call it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseClient {
    config: Arc<Config>,
    tasks: Arc<dyn Tasks>,
}

/// An answer that arrives. Dropping it ends the call.
#[derive(Debug)]
pub(crate) struct DatabaseReply {
    pieces: Receiver<Result<Option<Bytes>, ClickHouseError>>,
    space: Arc<Notify>,
    /// Its end, which closes when this is dropped, ends the task of the call.
    _alive: oneshot::Sender<()>,
}

impl DatabaseClient {
    pub(crate) fn new(config: Arc<Config>, tasks: Arc<dyn Tasks>) -> Self {
        Self { config, tasks }
    }

    /// Starts a call. It waits at most `idle` for the start of the answer and for each piece.
    pub(crate) fn start(&self, statement: Statement, idle: Duration) -> DatabaseReply {
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let (alive, mut gone) = oneshot::channel();
        let space = Arc::new(Notify::new());
        let (client, pieces_sender) = (self.clone(), PieceSender { sender, space: Arc::clone(&space) });
        self.tasks.spawn(Box::pin(async move {
            let call = async {
                let end = client.call(statement, idle, &pieces_sender).await;
                pieces_sender.send(end.map(|()| None)).await;
            };
            tokio::select! {
                _ = &mut gone => {}
                () = call => {}
            }
        }));
        DatabaseReply { pieces, space, _alive: alive }
    }

    /// The whole answer to a short question.
    pub(crate) fn ask(&self, statement: Statement) -> Result<Vec<u8>, ClickHouseError> {
        self.ask_within(statement, self.config.connect_timeout)
    }

    /// The whole answer, whose pieces come within this time each.
    pub(crate) fn ask_within(&self, statement: Statement, idle: Duration) -> Result<Vec<u8>, ClickHouseError> {
        let (mut reply, mut all) = (self.start(statement, idle), Vec::new());
        while let Some(piece) = reply.next(&|| false)? {
            if all.len() + piece.len() > SHORT_BYTES_MAX {
                return Err(ClickHouseError::Malformed("too long"));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    async fn call(&self, statement: Statement, idle: Duration, sender: &PieceSender) -> Result<(), ClickHouseError> {
        let limit = self.config.connect_timeout;
        let url = &self.config.url;
        let connect = with_timeout(&self.tasks, limit, TcpStream::connect((url.host.as_str(), url.port))).await;
        let socket =
            connect.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map_err(ClickHouseError::Connect)?;
        socket.set_nodelay(true).map_err(ClickHouseError::Connect)?;
        let (mut connection, _driving) = match &self.config.tls {
            None => begin(socket).await?,
            Some(tls) => {
                let secured = with_timeout(&self.tasks, limit, tls.connect(&url.host, socket)).await;
                begin(secured.ok_or(ClickHouseError::Timeout(limit.as_secs()))??).await?
            }
        };
        let is_compressed = statement.is_compressed;
        let (target, body) = statement.request();
        let mut request = Request::post(target);
        if is_compressed {
            request = request.header(CONTENT_ENCODING, "zstd");
        }
        let request = request
            .header(HOST, url.authority())
            .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")))
            .header("X-ClickHouse-User", &url.user)
            .header("X-ClickHouse-Key", self.config.password.text())
            .body(Full::new(body));
        let invalid = |error| ClickHouseError::Connect(io::Error::new(io::ErrorKind::InvalidInput, error));
        let timeout = || ClickHouseError::Timeout(idle.as_secs());
        let answer = with_timeout(&self.tasks, idle, connection.send_request(request.map_err(invalid)?)).await;
        let mut answer = answer.ok_or_else(timeout)??;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(answer, idle).await);
        }
        let mut tail = Vec::new();
        loop {
            let frame = with_timeout(&self.tasks, idle, answer.frame()).await.ok_or_else(timeout)?;
            match frame {
                None => return Ok(()),
                // An error after the start of the answer is text at its end, and the answer has no end.
                Some(Err(error)) => return Err(late_error(&tail).unwrap_or(ClickHouseError::Connection(error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        keep_tail(&mut tail, &bytes);
                        sender.send(Ok(Some(bytes))).await;
                    }
                }
            }
        }
    }

    async fn refusal(&self, answer: Response<hyper::body::Incoming>, idle: Duration) -> ClickHouseError {
        let header = answer.headers().get("X-ClickHouse-Exception-Code");
        let code = header.and_then(|code| code.to_str().ok()).map(str::to_owned);
        let code = code.unwrap_or_else(|| format!("HTTP {}", answer.status().as_u16()));
        let (mut body, mut text) = (answer.into_body(), Vec::new());
        // What cannot be read of it is not needed.
        while text.len() < ERROR_BYTES_MAX
            && let Some(Some(Ok(frame))) = with_timeout(&self.tasks, idle, body.frame()).await
        {
            text.extend(frame.into_data().unwrap_or_default());
        }
        ClickHouseError::Refused { code, message: shorten(&text) }
    }
}

/// Begins HTTP on a connection. Dropping the set closes it.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(SendRequest<Full<Bytes>>, JoinSet<()>), ClickHouseError> {
    let (connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driving = JoinSet::new();
    // An error also ends the answer that is being read.
    driving.spawn(async move { drop(driver.await) });
    Ok((connection, driving))
}

/// Passes pieces to the thread that reads them.
struct PieceSender {
    sender: SyncSender<Result<Option<Bytes>, ClickHouseError>>,
    space: Arc<Notify>,
}

impl PieceSender {
    async fn send(&self, mut piece: Result<Option<Bytes>, ClickHouseError>) {
        loop {
            match self.sender.try_send(piece) {
                Ok(()) => return,
                Err(TrySendError::Full(unsent)) => piece = unsent,
                // The reader is gone, and this call is about to be dropped.
                Err(TrySendError::Disconnected(_)) => return std::future::pending().await,
            }
            self.space.notified().await;
        }
    }
}

impl DatabaseReply {
    /// Waits for the next piece; `None` at the end of the answer. Polls `is_stopped`.
    pub(crate) fn next(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Option<Bytes>, ClickHouseError> {
        loop {
            match self.pieces.recv_timeout(POLL_INTERVAL) {
                Ok(piece) => {
                    self.space.notify_one();
                    return piece;
                }
                Err(RecvTimeoutError::Timeout) if is_stopped() => return Err(ClickHouseError::Stopped),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ClickHouseError::Internal),
            }
        }
    }

    /// Waits for the end of an answer without content.
    pub(crate) fn finish(mut self) -> Result<(), ClickHouseError> {
        while self.next(&|| false)?.is_some() {}
        Ok(())
    }
}

/// Keeps the end of an answer, for the text of an error in it.
fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    const TAIL_BYTES: usize = 2 << 10;
    tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
    let excess = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..excess);
}

/// The error at the end of an answer: `Code: 241. DB::Exception: …`.
fn late_error(tail: &[u8]) -> Option<ClickHouseError> {
    let at = memchr::memmem::find(tail, b"Code: ")?;
    let text = tail.get(at..)?;
    let code: String =
        text.iter().skip(6).take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
    let is_error = !code.is_empty() && memchr::memmem::find(text, b"DB::Exception").is_some();
    is_error.then(|| ClickHouseError::Refused { code, message: shorten(text) })
}

/// The first line of an error's text, shortened. It may quote a statement, but never a password.
fn shorten(text: &[u8]) -> String {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.get(..line.len().min(MESSAGE_BYTES_MAX)).unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let line = line.split_once("DB::Exception: ").map_or(&*line, |(_, message)| message);
    line.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_error_is_found_behind_rows() {
        let tail = b"rows\0\xff__exception__\r\ntag\r\nCode: 395. DB::Exception: boom: while executing. (X)\n266 tag";
        let Some(ClickHouseError::Refused { code, message }) = late_error(tail) else { panic!("no error") };
        assert_eq!((code.as_str(), message.as_str()), ("395", "boom: while executing. (X)"));
        assert!(late_error(b"Code: 1 of a log line").is_none() && late_error(b"").is_none());
    }

    #[test]
    fn only_the_end_of_an_answer_is_kept() {
        let mut tail = Vec::new();
        keep_tail(&mut tail, &[b'a'; 5_000]);
        keep_tail(&mut tail, b"end");
        assert!(tail.len() == 2 << 10 && tail.ends_with(b"aend"));
    }
}
