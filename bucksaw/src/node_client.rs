//! An HTTP client of nodes: one connection per request, answers whole or streamed.
#![allow(clippy::disallowed_methods, reason = "the program itself runs on a real machine")]

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
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

/// Time limit for connecting. Answers have none: a search may be large, and a tail waits for new records.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer that is held in memory, in bytes. Streams are not held.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Characters of an error that are shown.
const ERROR_CHARS_MAX: usize = 2_000;

/// A runtime for one request at a time.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().context("cannot start")
}

/// The path of a call with its parameters.
pub(crate) fn path(call: &str, parameters: &[(&str, &str)]) -> String {
    let encoded = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    let parameters: Vec<String> = parameters.iter().map(encoded).collect();
    format!("{call}{}{}", if parameters.is_empty() { "" } else { "?" }, parameters.join("&"))
}

/// The whole answer to a `GET`.
pub(crate) async fn get(addr: &NodeUrl, path: &str) -> anyhow::Result<Bytes> {
    let body = request(addr, Request::get(target(addr, path)?), "application/json").await?.into_body();
    read_body(body).await.with_context(|| format!("the answer of {addr} is incomplete"))
}

/// Sends a `POST` without a body.
pub(crate) async fn post(addr: &NodeUrl, path: &str) -> anyhow::Result<()> {
    request(addr, Request::post(target(addr, path)?), "application/json").await.map(drop)
}

/// The answer to a `GET` as a stream of messages.
pub(crate) async fn open_stream(addr: &NodeUrl, path: &str) -> anyhow::Result<AnswerStream> {
    let response = request(addr, Request::get(target(addr, path)?), MEDIA_TYPE).await?;
    let media_type = response.headers().get(CONTENT_TYPE).map(hyper::header::HeaderValue::as_bytes).unwrap_or_default();
    if !media_type.starts_with(MEDIA_TYPE.as_bytes()) {
        let found = one_line(&String::from_utf8_lossy(media_type));
        bail!("{addr} answered with `{found}`: is it a node, and of this version?");
    }
    Ok(AnswerStream { body: response.into_body(), messages: AnswerStreamReader::default() })
}

/// An answer that is still arriving.
#[derive(Debug)]
pub(crate) struct AnswerStream {
    body: Incoming,
    messages: AnswerStreamReader,
}

impl AnswerStream {
    /// The next message; `None` at the end. Cancel-safe.
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
    addr.target(path).parse().map_err(|_| anyhow!("the expression is too long to send: shorten it"))
}

async fn request(addr: &NodeUrl, request: Builder, accept: &str) -> anyhow::Result<Response<Incoming>> {
    let request = request
        .header(HOST, addr.authority())
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())?;
    let connection = connect(addr).await?;
    let broken = || format!("{addr} closed the connection");
    let (mut sender, driver) = http1::handshake(TokioIo::new(connection)).await.with_context(broken)?;
    // Its errors also end the answer.
    tokio::spawn(driver);
    let response = sender.send_request(request).await.with_context(broken)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = read_body(response.into_body()).await.unwrap_or_default();
    bail!("{addr} refused: {} ({status})", reason(&body))
}

async fn connect(addr: &NodeUrl) -> anyhow::Result<TcpStream> {
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addr.authority())).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            bail!("cannot reach {addr}: connection refused: is a node running? start one with 'bucksaw serve'")
        }
        Ok(Err(error)) => bail!("cannot reach {addr}: {error}: check --addr"),
        Err(_) => bail!("cannot reach {addr}: no answer in {} s: check --addr", CONNECT_TIMEOUT.as_secs()),
    }
}

async fn read_body(body: Incoming) -> anyhow::Result<Bytes> {
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(anyhow!(error)),
    }
}

/// The error in a body: that of `{"error":"…"}`, else its text.
fn reason(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = answer.get("error").and_then(serde_json::Value::as_str);
    one_line(&error.map_or_else(|| String::from_utf8_lossy(body), Into::into))
}

/// A text from outside as part of one line.
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
    fn errors_are_read_from_any_body() {
        assert_eq!(reason(b"{\"error\":\"too\\nbusy\"}"), "too busy");
        assert_eq!(reason(b"<html>\n no"), "<html> no");
        assert_eq!(reason(&[b'a'; 10_000]).len(), ERROR_CHARS_MAX);
    }
}
