//! Asking a node over HTTP: one connection, one question, the answer as it comes.
#![allow(clippy::disallowed_methods, reason = "the program itself runs on a real machine")]

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::answer_stream::{AnswerStreamReader, MEDIA_TYPE, Message};
use crate::values::NodeUrl;

/// How long a node may take to accept a connection. An answer may take any time: a search may be large, and a tail waits
/// for records that nobody has written yet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer that is held in memory, in bytes; streams are not held.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How much of an error's text is shown, in characters.
const ERROR_CHARS_MAX: usize = 2_000;

/// A runtime for one question at a time.
///
/// # Errors
/// When the system has no descriptors left.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().context("cannot start")
}

/// The path of a call with its parameters.
pub(crate) fn path(call: &str, parameters: &[(&str, &str)]) -> String {
    let encoded = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    let parameters: Vec<String> = parameters.iter().map(encoded).collect();
    format!("{call}{}{}", if parameters.is_empty() { "" } else { "?" }, parameters.join("&"))
}

/// The answer to a call, as a whole.
///
/// # Errors
/// When the node cannot be reached, refuses, or sends more than is reasonable.
pub(crate) async fn get(addr: &NodeUrl, path: &str) -> anyhow::Result<Bytes> {
    let body = request(addr, Request::get(target(addr, path)?), "application/json").await?.into_body();
    read_body(body).await.with_context(|| format!("{addr} did not answer to the end"))
}

/// Has a node do something.
///
/// # Errors
/// When the node cannot be reached, or refuses.
pub(crate) async fn post(addr: &NodeUrl, path: &str) -> anyhow::Result<()> {
    request(addr, Request::post(target(addr, path)?), "application/json").await.map(drop)
}

/// The answer to a call, as it comes.
///
/// # Errors
/// When the node cannot be reached, refuses, or does not answer with a stream.
pub(crate) async fn open_stream(addr: &NodeUrl, path: &str) -> anyhow::Result<AnswerStream> {
    let response = request(addr, Request::get(target(addr, path)?), MEDIA_TYPE).await?;
    let media_type = response.headers().get(CONTENT_TYPE).map(hyper::header::HeaderValue::as_bytes).unwrap_or_default();
    if !media_type.starts_with(MEDIA_TYPE.as_bytes()) {
        let found = one_line(&String::from_utf8_lossy(media_type));
        bail!("{addr} answered with `{found}`, not as a node does: is it one, and of this version?");
    }
    Ok(AnswerStream { body: response.into_body(), messages: AnswerStreamReader::default() })
}

/// An answer that is still coming.
#[derive(Debug)]
pub(crate) struct AnswerStream {
    body: Incoming,
    messages: AnswerStreamReader,
}

impl AnswerStream {
    /// The next message; `None` at the end. May be dropped while it waits and asked again: nothing is lost.
    ///
    /// # Errors
    /// When the connection breaks, or what comes is not a stream of messages.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(message) = self.messages.next()? {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.context("the connection broke")?.into_data() {
                self.messages.push(data);
            }
        }
    }
}

fn target(addr: &NodeUrl, path: &str) -> anyhow::Result<Uri> {
    addr.target(path).parse().map_err(|_| anyhow!("the expression is too long to be sent: shorten it"))
}

async fn request(addr: &NodeUrl, request: Builder, accept: &str) -> anyhow::Result<Response<Incoming>> {
    let request = request
        .header(HOST, addr.authority())
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    let connection = connect(addr).await?;
    let broken = || format!("{addr} broke the connection off");
    let (mut sender, driver) = http1::handshake(TokioIo::new(connection)).await.with_context(broken)?;
    // What goes wrong on the connection is told by the answer that does not come.
    tokio::spawn(driver);
    let response = sender.send_request(request).await.with_context(broken)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = read_body(response.into_body()).await.unwrap_or_default();
    bail!("{addr} refused: {} ({status})", reason(&body))
}

async fn connect(addr: &NodeUrl) -> anyhow::Result<TcpStream> {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addr.authority())).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            bail!("cannot reach {addr}: connection refused: is a node running? start one with 'bucksaw serve'")
        }
        Ok(Err(error)) => bail!("cannot reach {addr}: {error}: see that --addr is right"),
        Err(_) => bail!("cannot reach {addr}: no answer in {} s: see that --addr is right", CONNECT_TIMEOUT.as_secs()),
    }
}

async fn read_body(mut body: Incoming) -> anyhow::Result<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > ANSWER_BYTES_MAX {
            bail!("its answer is longer than {ANSWER_BYTES_MAX} bytes");
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.freeze())
}

/// What the body of an error says: `{"error":"…"}` from a node, anything from whatever else may be there.
fn reason(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        error: String,
    }
    let text = serde_json::from_slice(body)
        .map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |refusal: ErrorBody| refusal.error);
    one_line(&text)
}

/// A text from outside, so that it fits into a line of ours.
pub(crate) fn one_line(text: &str) -> String {
    let text: Vec<&str> = text.split_whitespace().collect();
    text.join(" ").chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        assert_eq!(path("/a", &[]), "/a");
        assert_eq!(path("/a", &[("q", "x y&z=\"ä\""), ("n", "1")]), "/a?q=x%20y%26z%3D%22%C3%A4%22&n=1");
    }

    #[test]
    fn reasons_are_found() {
        assert_eq!(reason(b"{\"error\":\"too\\nbusy\"}"), "too busy");
        assert_eq!(reason(b"<html>\n no"), "<html> no");
        assert_eq!(reason(&[b'a'; 10_000]).len(), ERROR_CHARS_MAX);
    }
}
