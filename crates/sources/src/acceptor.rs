//! Accepts the TCP connections of a listener, whatever its protocol, and sets their socket options.
//!
//! With TLS the handshake is left to the task of the connection, so that a slow client delays no other.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, LogLimits, log_limited};
use bucksaw_tls::AppProtocol;
use prometheus_client::metrics::counter::Counter;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

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
    /// Whether connections inherit that pacing is disabled.
    has_no_pacing: bool,
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
        let has_no_pacing = prepare_listener(&listener).unwrap_or_else(|error| {
            warn!(%error, "cannot set the options of a listener");
            false
        });
        Self { listener, has_no_pacing, tls: None, failed, log_limits: Arc::new(LogLimits::new(clock)) }
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
                    if let Err(error) = self.set_connection_options(&stream, peer.ip()) {
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

    /// Sets what the connection has not inherited from the listener.
    fn set_connection_options(&self, stream: &TcpStream, client: IpAddr) -> io::Result<()> {
        if !OPTIONS_ARE_INHERITED {
            set_options(stream)?;
        }
        if client.to_canonical().is_loopback() && !self.has_no_pacing {
            disable_pacing(stream)?;
        }
        Ok(())
    }
}

/// Whether connections have the options of their listener.
const OPTIONS_ARE_INHERITED: bool = cfg!(target_os = "linux");

/// Sets the options that connections inherit, if they inherit any. Returns whether pacing is disabled for all.
fn prepare_listener(listener: &TcpListener) -> io::Result<bool> {
    if !OPTIONS_ARE_INHERITED {
        return Ok(false);
    }
    set_options(listener)?;
    let is_local = listener.local_addr()?.ip().to_canonical().is_loopback();
    if is_local {
        disable_pacing(listener)?;
    }
    Ok(is_local)
}

/// Disables Nagle's algorithm, because clients wait for small answers, and detects clients that vanished.
fn set_options(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Disables pacing between programs on this machine. Pacing (BBR, the default of some systems) protects queues on the network;
/// over loopback its timers only cost a third of the CPU time of a large answer. Every Linux has Reno and lets every process
/// choose it.
#[cfg(target_os = "linux")]
fn disable_pacing(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, "reno")?)
}

#[cfg(not(target_os = "linux"))]
fn disable_pacing(_: impl AsFd) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The far and the near end of a connection to a listener on this address.
    async fn connect(address: &str) -> io::Result<(TcpStream, TcpStream, Acceptor)> {
        let listener = TcpListener::bind((address, 0)).await?;
        let port = listener.local_addr()?.port();
        let clock = Arc::new(bucksaw_env::sim::Clock::at_unix_ms(0));
        let acceptor = Acceptor::new(listener, clock, Counter::default());
        let far = TcpStream::connect(("127.0.0.1", port)).await?;
        let (near, _) = acceptor.accept_tcp().await;
        Ok((far, near, acceptor))
    }

    #[tokio::test]
    async fn connections_have_their_options() {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let (_far, near, _acceptor) = connect(address).await.unwrap();
            assert_eq!(sockopt::tcp_congestion(&near).unwrap(), "reno", "{address}");
            assert!(near.nodelay().unwrap() && sockopt::socket_keepalive(&near).unwrap());
            assert_eq!(sockopt::tcp_keepidle(&near).unwrap(), KEEPALIVE_IDLE);
            assert_eq!(sockopt::tcp_keepintvl(&near).unwrap(), KEEPALIVE_INTERVAL);
            assert_eq!(sockopt::tcp_keepcnt(&near).unwrap(), KEEPALIVE_PROBES);
        }
    }

    #[tokio::test]
    async fn pacing_is_disabled_on_this_machine_only() {
        let (far, _near, acceptor) = connect("0.0.0.0").await.unwrap();
        let usual = sockopt::tcp_congestion(&far).unwrap();
        acceptor.set_connection_options(&far, "192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(sockopt::tcp_congestion(&far).unwrap(), usual);
    }
}
