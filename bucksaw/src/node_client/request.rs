//! One request on a connection of its own.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bucksaw_tls::{ClientTls, TlsFailure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::values::NodeUrl;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A node, and how it is reached.
#[derive(Clone, Debug)]
pub(super) struct NodeEndpoint {
    pub(super) addr: NodeUrl,
    /// For an address with `https://`.
    pub(super) tls: Option<ClientTls>,
}

pub(super) fn target(addr: &NodeUrl, path: &str) -> anyhow::Result<Uri> {
    addr.target(path).parse().map_err(|_| anyhow!("the expression is too long to send: shorten it"))
}

/// Sends a request on a new connection, and waits for the head of the response.
pub(super) async fn send(
    node: &NodeEndpoint,
    request: Builder,
    accept: &str,
    body: Bytes,
) -> anyhow::Result<Response<Incoming>> {
    let NodeEndpoint { addr, tls } = node;
    let request = request
        .header(HOST, addr.authority())
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body))?;
    let connection = connect(addr).await?;
    match tls {
        None => exchange(addr, connection, request).await,
        Some(tls) => match timeout(CONNECT_TIMEOUT, tls.connect(addr.host(), connection)).await {
            Ok(Ok(connection)) => exchange(addr, connection, request).await,
            Ok(Err(failure)) => bail!("cannot reach {addr}: {failure}"),
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                bail!("cannot reach {addr}: it does not complete the TLS handshake in {seconds} s: check --addr")
            }
        },
    }
}

async fn exchange(
    addr: &NodeUrl,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Response<Incoming>> {
    let (mut sender, driver) =
        http1::handshake(TokioIo::new(connection)).await.map_err(|error| broken(addr, &error))?;
    // Its errors also end the answer.
    let driver = tokio::spawn(driver);
    match sender.send_request(request).await {
        Ok(response) => Ok(response),
        Err(error) if error.is_canceled() => {
            // The connection failed before the request was sent, and the driver knows why.
            drop(sender);
            let cause = driver.await.ok().and_then(Result::err);
            Err(broken(addr, cause.as_ref().unwrap_or(&error)))
        }
        Err(error) => Err(broken(addr, &error)),
    }
}

fn broken(addr: &NodeUrl, error: &hyper::Error) -> anyhow::Error {
    // With TLS 1.3 a node refuses a client after its handshake.
    if let Some(failure) = TlsFailure::of(error) {
        return anyhow!("cannot reach {addr}: {failure}");
    }
    // Bytes that arrive before the request is sent cancel it.
    if error.is_parse() || error.is_canceled() {
        return anyhow!("{addr} does not answer in HTTP: check --addr; the HTTP API of a node has port 7650");
    }
    anyhow!("{addr} closed the connection without an answer: is it a node? check --addr")
}

async fn connect(addr: &NodeUrl) -> anyhow::Result<TcpStream> {
    match timeout(CONNECT_TIMEOUT, TcpStream::connect(addr.authority())).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            bail!("cannot reach {addr}: connection refused: is a node running? start one with 'bucksaw serve'")
        }
        Ok(Err(error)) => bail!("cannot reach {addr}: {error}: check --addr"),
        Err(_) => bail!("cannot reach {addr}: no answer in {} s: check --addr", CONNECT_TIMEOUT.as_secs()),
    }
}
