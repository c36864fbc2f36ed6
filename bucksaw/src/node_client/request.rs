//! One request on a connection of its own.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::values::NodeUrl;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn target(addr: &NodeUrl, path: &str) -> anyhow::Result<Uri> {
    addr.target(path).parse().map_err(|_| anyhow!("the expression is too long to send: shorten it"))
}

/// Sends a request on a new connection, and waits for the head of the response.
pub(super) async fn send(
    addr: &NodeUrl,
    request: Builder,
    accept: &str,
    body: Bytes,
) -> anyhow::Result<Response<Incoming>> {
    let request = request
        .header(HOST, addr.authority())
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(body))?;
    let connection = connect(addr).await?;
    let (mut sender, driver) =
        http1::handshake(TokioIo::new(connection)).await.map_err(|error| broken(addr, &error))?;
    // Its errors also end the answer.
    tokio::spawn(driver);
    sender.send_request(request).await.map_err(|error| broken(addr, &error))
}

fn broken(addr: &NodeUrl, error: &hyper::Error) -> anyhow::Error {
    // Bytes that arrive before the request is sent cancel it.
    if error.is_parse() || error.is_canceled() {
        return anyhow!("{addr} does not answer in HTTP: check --addr; the HTTP API of a node has port 7650");
    }
    anyhow!("{addr} closed the connection without an answer: is it a node? check --addr")
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
