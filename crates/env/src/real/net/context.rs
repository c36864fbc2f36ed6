//! The configuration of the network, and the state that its calls, connections and datagrams share.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Counters;
use super::Secret;
use super::datagram::{self, DatagramCipher};
use super::pool::ConnectionPool;
use super::secret::ActiveSecrets;
use crate::LogRateLimiter;

/// Read buffer of a connection, in bytes. The head of a request or response must fit; bodies arrive in pieces of this size.
pub(super) const READ_BYTES_MAX: usize = 128 << 10;

/// Maximum headers of a request or response.
pub(super) const HEADERS_MAX: usize = 16;

/// Maximum bytes of an error message in a response.
pub(super) const ERROR_TEXT_BYTES_MAX: usize = 4 << 10;

/// Maximum bytes of the name of a call.
const NAME_BYTES_MAX: usize = 64;

/// Whether `name` is a valid name of a call: the path of a URL without its first slash.
pub(super) fn is_call_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Addresses, secret and limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen at, for UDP and TCP. Port 0 takes a port that is free for both.
    pub listen: SocketAddr,
    /// The address at which other nodes reach this one, if it differs. Port 0 stands for the bound port.
    pub advertise: Option<SocketAddr>,
    /// The cluster secrets: the first is used, all are accepted. Without one, all traffic is in plain and every peer counts as a node.
    pub secrets: Vec<Secret>,
    /// Timeout for connecting to another node.
    pub connect_timeout: Duration,
    /// Timeout for the handshake, including the proof of the secret.
    pub handshake_timeout: Duration,
    /// How long a connection is kept for the next call. The accepting side keeps it half as long again.
    pub idle_max: Duration,
    /// Maximum idle connections to each node.
    pub idle_connections_max: usize,
    /// Maximum open connections from other nodes; further ones are refused.
    pub connections_max: usize,
    /// Counts bytes, connections and failures.
    pub counters: Counters,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7659),
            advertise: None,
            secrets: Vec::new(),
            connect_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(3),
            idle_max: Duration::from_secs(20),
            idle_connections_max: 8,
            connections_max: 512,
            counters: Counters::new(&mut Registry::default()),
        }
    }
}

#[derive(Debug)]
pub(super) struct NetContext {
    pub(super) config: Config,
    /// The address that the sockets are bound to.
    pub(super) bound: SocketAddr,
    /// The address at which other nodes reach this one.
    pub(super) address: SocketAddr,
    pub(super) datagrams_in: UdpSocket,
    /// The same socket, for sending without waiting for readiness.
    pub(super) datagrams_out: std::net::UdpSocket,
    pub(super) secrets: ActiveSecrets,
    pub(super) datagram_cipher: DatagramCipher,
    pub(super) pool: ConnectionPool,
    pub(super) refused_log: LogRateLimiter,
    pub(super) undecryptable_log: LogRateLimiter,
    pub(super) started: Instant,
    /// Runs all connections, whichever runtime a call is made on.
    pub(super) runtime: Handle,
}

impl NetContext {
    /// Whether an address is of the family that this node is bound to.
    pub(super) fn can_reach(&self, to: SocketAddr) -> bool {
        self.bound.is_ipv4() == to.is_ipv4() || self.bound.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }

    /// The address to connect to. Not every network routes a node's packets to its own public address.
    pub(super) fn route(&self, to: SocketAddr) -> SocketAddr {
        if to != self.address {
            return to;
        }
        match self.bound.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => (Ipv4Addr::LOCALHOST, self.bound.port()).into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => (Ipv6Addr::LOCALHOST, self.bound.port()).into(),
            _ => self.bound,
        }
    }

    pub(super) fn send(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<usize> {
        let to = match self.route(to) {
            SocketAddr::V4(to) if self.bound.is_ipv6() => (to.ip().to_ipv6_mapped(), to.port()).into(),
            to => to,
        };
        self.datagrams_out.send_to(&self.datagram_cipher.encrypt(datagram)?, to)
    }

    pub(super) async fn receive(&self) -> (SocketAddr, Vec<u8>) {
        let counters = &self.config.counters;
        // One byte more than the maximum, to detect truncation.
        let mut buffer = vec![0; datagram::ENCRYPTED_BYTES_MAX + 1];
        loop {
            let Ok((bytes, from)) = self.datagrams_in.recv_from(&mut buffer).await else {
                // Out of kernel memory, for example.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            counters.received_bytes.inc_by(bytes as u64);
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            if let Some(content) = buffer.get(..bytes).and_then(|datagram| self.datagram_cipher.decrypt(datagram)) {
                return (from, content);
            }
            counters.rejected_datagrams.inc();
            if let Some(suppressed) = self.undecryptable_log.check(self.started.elapsed()) {
                tracing::warn!(
                    %from,
                    suppressed,
                    "cannot decrypt a datagram: the sender has another cluster secret or none, or is not a node"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_names_are_paths() {
        for name in ["a", "ingest/fetch", "query/search_2", "v1.2/x-y"] {
            assert!(is_call_name(name), "{name}");
        }
        for name in ["", "a b", "a?b", "é", "a\r\nb", "a%20b", &"a".repeat(65)] {
            assert!(!is_call_name(name), "{name}");
        }
    }
}
