//! The TLS handshake of an accepted connection, within limits of time and number.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogLimits, log_limited, wait_for_stop};
use bucksaw_tls::{AppProtocol, HandshakeResult, ServerTls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::handshake_slots::{HandshakeSlot, HandshakeSlots};
use crate::plaintext_refusal;
use crate::socket::Socket;

/// The time limit of a handshake, from the accepted connection on.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a handshake may go on after the stop. A client that completes it may have sent its last records.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a refused client may take to receive the answer and to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of a refused client that are read until it closes its side.
const UNREAD_BYTES_MAX: u64 = 1 << 20;

/// The first byte of a client that speaks TLS: the type of a record with a handshake.
const TLS_HANDSHAKE: u8 = 22;

/// TLS of the listeners of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ListenerTls {
    /// The certificate, and who may connect.
    pub server: Arc<ServerTls>,
    /// The slots of handshakes, which all listeners share.
    pub slots: Arc<HandshakeSlots>,
}

/// A connection whose handshake has not begun.
#[derive(Debug)]
pub struct PendingHandshake {
    pub(crate) tls: ListenerTls,
    pub(crate) protocol: AppProtocol,
    pub(crate) slot: HandshakeSlot,
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) log_limits: Arc<LogLimits>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("the client did not complete the handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    TimedOut,
    #[error("newer handshakes took its slot")]
    Evicted,
    #[error("the node is stopping")]
    Stopping,
    #[error("the client does not speak TLS")]
    NotTls,
    #[error("the client left before the handshake")]
    Closed,
    #[error("{0}")]
    Failed(#[source] io::Error),
}

impl PendingHandshake {
    /// Completes the handshake; `None` if that fails, which is counted and logged. Ends soon after `stop`.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Option<Socket> {
        let Self { tls, protocol, slot, stream, peer, log_limits } = self;
        let handshake = timeout(HANDSHAKE_TIMEOUT, handshake(&tls, protocol, stream));
        let result = tokio::select! {
            biased;
            () = slot.evicted() => Err(HandshakeError::Evicted),
            done = handshake => done.unwrap_or(Err(HandshakeError::TimedOut)),
            () = after_stop(stop) => Err(HandshakeError::Stopping),
        };
        let counted = match &result {
            Ok(_) => HandshakeResult::Completed,
            Err(HandshakeError::TimedOut) => HandshakeResult::TimedOut,
            Err(HandshakeError::Evicted) => HandshakeResult::Evicted,
            Err(HandshakeError::NotTls) => HandshakeResult::NotTls,
            Err(HandshakeError::Closed) => HandshakeResult::Closed,
            Err(HandshakeError::Failed(_) | HandshakeError::Stopping) => HandshakeResult::Failed,
        };
        tls.server.metrics.count_handshake(counted);
        match result {
            Ok(socket) => return Some(socket),
            // Probes of ports do that.
            Err(HandshakeError::Closed | HandshakeError::Stopping) => {}
            Err(error) => log_limited!(log_limits, warn, %peer, reason = %error, "TLS connection refused"),
        }
        None
    }
}

async fn after_stop(mut stop: watch::Receiver<bool>) {
    wait_for_stop(&mut stop).await;
    tokio::time::sleep(STOP_TIMEOUT).await;
}

async fn handshake(tls: &ListenerTls, protocol: AppProtocol, stream: TcpStream) -> Result<Socket, HandshakeError> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) => return Err(HandshakeError::Closed),
        Ok(_) if first == [TLS_HANDSHAKE] => {}
        Ok(_) => {
            close(stream, plaintext_refusal::answer(first)).await;
            return Err(HandshakeError::NotTls);
        }
        Err(error) => return Err(HandshakeError::Failed(error)),
    }
    match tls.server.handshake(protocol, stream).await {
        Ok((stream, session)) => Ok(Socket::encrypted(stream, session)),
        Err((error, stream)) => {
            close(stream, Vec::new()).await;
            Err(HandshakeError::Failed(error))
        }
    }
}

/// Sends a last answer, and closes the connection once the client has: closing with unread bytes would discard the answer.
async fn close(mut stream: TcpStream, answer: Vec<u8>) {
    let closed = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(UNREAD_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // The client may have disconnected.
    let _ = timeout(CLOSE_TIMEOUT, closed).await;
}
