//! Accepts the TCP connections of a listener, whatever its protocol, and sets their socket options.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, LogLimits, log_limited};
use prometheus_client::metrics::counter::Counter;
use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

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
    failed: Counter,
    log_limits: LogLimits,
}

impl Acceptor {
    /// Accepts the connections of `listener`, and counts failures in `failed`.
    pub fn new(listener: TcpListener, clock: Arc<dyn Clock>, failed: Counter) -> Self {
        Self { listener, failed, log_limits: LogLimits::new(clock) }
    }

    /// The next connection and the address of its client. Waits while none can be accepted.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
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
        let (near, _) = acceptor.accept().await;
        let usual = sockopt::tcp_congestion(&far).unwrap();
        set_options(&far, "192.0.2.1:7650".parse().unwrap()).unwrap();
        assert_eq!(sockopt::tcp_congestion(&far).unwrap(), usual, "pacing is disabled on this machine only");
        assert_eq!(sockopt::tcp_congestion(&near).unwrap(), "reno");
        assert!(near.nodelay().unwrap() && sockopt::socket_keepalive(&near).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&near).unwrap(), KEEPALIVE_IDLE);
    }
}
