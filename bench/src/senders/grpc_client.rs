//! Calls of OTLP over gRPC, over one connection, one call after the other.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// A connection.
pub(crate) struct ExportClient {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    address: String,
}

impl ExportClient {
    pub(crate) fn connect(address: &str) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            anyhow::Ok(sender)
        });
        let sender = sender.with_context(|| format!("cannot connect to {address}"))?;
        Ok(Self { runtime, sender, address: address.to_owned() })
    }

    /// Sends a request and waits until its records were accepted.
    pub(crate) fn export(&mut self, message: &[u8]) -> anyhow::Result<()> {
        // Not compressed, then the length.
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        frame.extend_from_slice(message);
        let request = Request::post(format!("http://{}{EXPORT}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(frame)))?;
        let answer = self.runtime.block_on(async {
            let response = self.sender.send_request(request).await?;
            let head = response.headers().clone();
            anyhow::Ok((head, response.into_body().collect().await?))
        });
        let (head, body) = answer.context("the call failed")?;
        // An answer without a message has the status in its head.
        let status = body.trailers().and_then(|trailers| trailers.get("grpc-status")).or(head.get("grpc-status"));
        ensure!(status.is_some_and(|status| status == "0"), "the status of the call is {status:?}");
        // A partial success has a message.
        ensure!(body.to_bytes().len() <= FRAME_HEAD_LEN, "some records were refused");
        Ok(())
    }
}

/// Bytes before a message.
const FRAME_HEAD_LEN: usize = 5;
