//! An HTTP client of nodes: one connection per request, answers whole or streamed, all waits limited.

mod line_sender;
mod patience;
mod request;

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bucksaw_auth::SecretText;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Builder;
use hyper::{Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::answer::{AnswerStreamReader, MEDIA_TYPE, Message};
use crate::args::NodeArgs;
use crate::one_line::one_line;
use crate::values::NodeUrl;
pub(crate) use line_sender::LineSender;
use patience::Patience;
use request::{NodeEndpoint, send, target};

/// Largest answer that is held in memory, in bytes. Streams are not held.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A runtime for a few requests at a time.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().context("cannot start")
}

/// The path of a call with its parameters.
pub(crate) fn path<V: AsRef<str>>(call: &str, parameters: &[(&'static str, V)]) -> String {
    let encoded =
        |(name, value): &(&str, V)| format!("{name}={}", utf8_percent_encode(value.as_ref(), NON_ALPHANUMERIC));
    let parameters: Vec<String> = parameters.iter().map(encoded).collect();
    format!("{call}{}{}", if parameters.is_empty() { "" } else { "?" }, parameters.join("&"))
}

/// The node refused a request.
#[derive(Debug, thiserror::Error)]
#[error("{addr} refused: {reason} ({status})")]
pub(crate) struct Refusal {
    addr: NodeUrl,
    reason: String,
    status: StatusCode,
    /// The delay that the node requests before a retry.
    pub(crate) retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the same request would be refused again.
    pub(crate) fn is_final(&self) -> bool {
        self.status.is_client_error()
            && !matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
    }
}

/// The connection to a node broke, or the node does not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConnectionLost(pub(crate) String);

/// A node to send requests to, with the time limit of the command.
#[derive(Clone, Debug)]
pub(crate) struct NodeClient {
    pub(crate) addr: NodeUrl,
    node: NodeEndpoint,
    patience: Patience,
    token: Option<SecretText>,
}

impl NodeClient {
    /// A client whose time limit begins now.
    ///
    /// # Errors
    /// The address and the flags of TLS contradict each other, or the files of these flags or of the token cannot be used.
    pub(crate) fn new(args: &NodeArgs) -> anyhow::Result<Self> {
        let addr = args.addr.clone().with_certificates(args.tls.is_any())?;
        let tls = addr.is_https().then(|| args.tls.load(&[b"http/1.1"])).transpose()?;
        let node = NodeEndpoint { addr: addr.clone(), tls };
        let token = args.token.token()?;
        Ok(Self { addr, patience: Patience::new(node.clone(), args.timeout), node, token })
    }

    /// The same client with the time limit begun anew.
    pub(crate) fn renewed(&self) -> Self {
        Self { patience: self.patience.renewed(), ..self.clone() }
    }

    /// The whole answer to a `GET`.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.answer(Request::get(target(&self.addr, path)?), Bytes::new()).await
    }

    /// The JSON in the answer to a `GET`.
    pub(crate) async fn get_json(&self, path: &str) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.get(path).await?).context("the node's answer cannot be read")
    }

    /// Sends a `POST` without a body.
    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<()> {
        self.answer(Request::post(target(&self.addr, path)?), Bytes::new()).await.map(drop)
    }

    /// The JSON in the answer to a `POST` without a body.
    pub(crate) async fn post_json(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.answer(Request::post(target(&self.addr, path)?), Bytes::new()).await?;
        serde_json::from_slice(&answer).context("the node's answer cannot be read")
    }

    /// The answer to a `POST` of lines with an idempotency key.
    pub(crate) async fn post_lines(&self, path: &str, key: &str, lines: Bytes) -> anyhow::Result<Bytes> {
        let request =
            Request::post(target(&self.addr, path)?).header(CONTENT_TYPE, "text/plain").header("idempotency-key", key);
        self.answer(request, lines).await
    }

    /// The whole answer to a request.
    async fn answer(&self, request: Builder, body: Bytes) -> anyhow::Result<Bytes> {
        let answer = async {
            let body = self.request(request, "application/json", body).await?.into_body();
            read_body(body).await.with_context(|| format!("the answer of {} is incomplete", self.addr))
        };
        self.patience.wait(answer).await?
    }

    /// The answer to a `GET` as a stream of messages without an end, which must begin in time.
    pub(crate) async fn open_tail(&self, path: &str) -> anyhow::Result<AnswerStream> {
        let stream = self.open_answer(path).await?;
        Ok(AnswerStream { patience: Patience::new(self.node.clone(), None), ..stream })
    }

    /// The answer to a `GET` as a stream of messages. Its end, too, must arrive within the time limit.
    pub(crate) async fn open_answer(&self, path: &str) -> anyhow::Result<AnswerStream> {
        let addr = &self.addr;
        let request = Request::get(target(addr, path)?);
        let response = self.patience.wait(self.request(request, MEDIA_TYPE, Bytes::new())).await??;
        let media_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        if !media_type.starts_with(MEDIA_TYPE.as_bytes()) {
            let found = one_line(&String::from_utf8_lossy(media_type));
            bail!("{addr} answered with `{found}`: is it a node, and of this version?");
        }
        let (body, messages) = (response.into_body(), AnswerStreamReader::default());
        Ok(AnswerStream { body, messages, patience: self.patience.clone() })
    }

    async fn request(&self, request: Builder, accept: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, bearer(token)?),
            None => request,
        };
        let response = send(&self.node, request, accept, body).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = read_body(response.into_body()).await.unwrap_or_default();
        let retry_after = seconds.map(Duration::from_secs);
        let mut reason = reason(&body);
        if status == StatusCode::UNAUTHORIZED && self.token.is_none() {
            reason.push_str("; give it by --token-file or BUCKSAW_TOKEN");
        }
        Err(Refusal { addr: self.addr.clone(), reason, status, retry_after }.into())
    }
}

/// The header that presents a token. Its debug form does not show it.
fn bearer(token: &SecretText) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        .map_err(|_| anyhow!("the token is no text of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// An answer that is still arriving.
#[derive(Debug)]
pub(crate) struct AnswerStream {
    body: Incoming,
    messages: AnswerStreamReader,
    patience: Patience,
}

impl AnswerStream {
    /// The next message; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(message) = self.messages.next()? {
                return Ok(Some(message));
            }
            let frame = self.patience.wait(self.body.frame()).await;
            let Some(frame) = frame.map_err(|error| ConnectionLost(format!("{error:#}")))? else { return Ok(None) };
            let frame = frame.map_err(|_| ConnectionLost("the connection broke".to_owned()))?;
            if let Ok(data) = frame.into_data() {
                self.messages.push(data);
            }
        }
    }
}

async fn read_body(body: Incoming) -> anyhow::Result<Bytes> {
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(anyhow!(error)),
    }
}

/// The error in a body: from `{"error":"…"}`, else the whole text.
fn reason(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = answer.get("error").and_then(Value::as_str);
    one_line(&error.map_or_else(|| String::from_utf8_lossy(body), Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        assert_eq!(path::<&str>("/a", &[]), "/a");
        assert_eq!(path("/a", &[("q", "x y&z=\"ä\""), ("n", "1")]), "/a?q=x%20y%26z%3D%22%C3%A4%22&n=1");
    }

    #[test]
    fn errors_are_read_from_any_body() {
        assert_eq!(reason(b"{\"error\":\"too\\nbusy\"}"), "too busy");
        assert_eq!(reason(b"<html>\n no"), "<html> no");
        assert_eq!(reason(&[b'a'; 10_000]).len(), crate::one_line::CHARS_MAX);
    }
}
