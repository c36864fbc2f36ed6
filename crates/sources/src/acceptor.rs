//! Accepts the TCP connections of a listener, whatever its protocol, and sets their socket options.
//!
//! With TLS the handshake is left to the task of the connection, so that a slow client delays no other.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, LogLimits, log_limited};
use bucksaw_tls::AppProtocol;
use prometheus_client::metrics::counter::Counter;
use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

use crate::socket::Socket;
use crate::tls_handshake::{ListenerTls, PendingHandshake};

/// The delay after a failed accept, mostly for lack of descriptors, which become free again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Keep-alive probes of idle clients: without them, clients that vanished would use up the connection slots.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// A listener. Every protocol accepts through it.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    tls: Option<(ListenerTls, AppProtocol)>,
    failed: Counter,
    log_limits: Arc<LogLimits>,
}

/// An accepted connection.
#[derive(Debug)]
pub enum AcceptedConnection {
    /// It is open.
    Open(Socket),
    /// It is open after the handshake of TLS.
    Handshake(PendingHandshake),
}

impl Acceptor {
    /// Accepts the connections of `listener`, and counts failures in `failed`.
    pub fn new(listener: TcpListener, clock: Arc<dyn Clock>, failed: Counter) -> Self {
        Self { listener, tls: None, failed, log_limits: Arc::new(LogLimits::new(clock)) }
    }

    /// Speaks TLS on all connections, and offers to speak `protocol` over it.
    #[must_use]
    pub fn with_tls(self, tls: Option<ListenerTls>, protocol: AppProtocol) -> Self {
        Self { tls: tls.map(|tls| (tls, protocol)), ..self }
    }

    /// The next connection and the address of its client. Waits while none can be accepted.
    pub async fn accept(&self) -> (AcceptedConnection, SocketAddr) {
        let (stream, peer) = self.accept_tcp().await;
        let Some((tls, protocol)) = &self.tls else {
            return (AcceptedConnection::Open(Socket::Plain(stream)), peer);
        };
        let (tls, slot, log_limits) = (tls.clone(), tls.slots.admit(peer.ip()), Arc::clone(&self.log_limits));
        let pending = PendingHandshake { tls, protocol: *protocol, slot, stream, peer, log_limits };
        (AcceptedConnection::Handshake(pending), peer)
    }

    async fn accept_tcp(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if let Err(error) = set_options(&stream, peer) {
                        debug!(%peer, %error, "cannot set the options of a connection");
                    }
                    return (stream, peer);
                }
                Err(error) => {
                    self.failed.inc();
                    log_limited!(self.log_limits, error, %error, "cannot accept a connection: is the limit of open files too low?");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }
}

/// Disables Nagle's algorithm, because clients wait for small answers; detects clients that vanished; and disables pacing to
/// clients on this machine. Pacing (BBR, the default of some systems) protects queues on the network; over loopback its timers
/// only cost a third of the CPU time of a large answer.
fn set_options(stream: &TcpStream, peer: SocketAddr) -> std::io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    if peer.ip().to_canonical().is_loopback() {
        disable_pacing(stream);
    }
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Every Linux has Reno and lets every process choose it.
#[cfg(target_os = "linux")]
fn disable_pacing(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_tcp_congestion(stream, "reno");
}

#[cfg(not(target_os = "linux"))]
fn disable_pacing(_: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt;

    use super::*;

    #[tokio::test]
    async fn connections_get_their_options() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let clock = Arc::new(bucksaw_env::sim::Clock::at_unix_ms(0));
        let acceptor = Acceptor::new(listener, clock, Counter::default());
        let far = TcpStream::connect(address).await.unwrap();
        let (near, _) = acceptor.accept_tcp().await;
        let usual = sockopt::tcp_congestion(&far).unwrap();
        set_options(&far, "192.0.2.1:7650".parse().unwrap()).unwrap();
        assert_eq!(sockopt::tcp_congestion(&far).unwrap(), usual, "pacing is disabled on this machine only");
        assert_eq!(sockopt::tcp_congestion(&near).unwrap(), "reno");
        assert!(near.nodelay().unwrap() && sockopt::socket_keepalive(&near).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&near).unwrap(), KEEPALIVE_IDLE);
    }
}
