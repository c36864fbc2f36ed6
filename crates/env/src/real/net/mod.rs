//! The network between nodes over UDP and TCP.
//!
//! Datagrams go over UDP, calls are HTTP/1.1 over TCP, at the same port. With a secret everything is sealed: datagrams each
//! by itself, connections by Noise, below HTTP. How the bytes lie is told in `docs/cluster-wire.md`.
//!
//! - Invariant: what was cut off never comes out as whole. Bodies state their length or are chunked, and an end that
//!   was not told breaks the connection.
//! - Invariant: a call is sent once. A connection that was kept and turns out dead takes no call; one that dies later fails it.
//! - Invariant: with a secret nothing is said to, and nothing is taken from, whoever does not prove that it has it.
//! - Who does not read for [`SILENCE_MAX`] counts as gone, as does who does not answer the kernel for so long.
//!
//! What it does not do: it takes nobody's word for who they are. All that have the secret are trusted alike, and where a
//! datagram seems to come from is not proven.
//!
//! ```
//! use bucksaw_env::{Body, Net as _, real};
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let listen = "127.0.0.1:0".parse().unwrap();
//! let net = real::Net::bind(real::NetConfig { listen, ..real::NetConfig::default() }).await.unwrap();
//! let call = net.call(net.address(), "greet", Body::whole("Ann"));
//! let serve = async {
//!     let incoming = net.accept().await;
//!     let name = incoming.body.read_all(100).await.unwrap();
//!     incoming.reply.send(Ok(Body::whole([b"hello ", &name[..]].concat())));
//! };
//! let (answer, ()) = tokio::join!(call, serve);
//! assert_eq!(answer.unwrap().read_all(100).await.unwrap(), b"hello Ann");
//! # });
//! ```

mod bind;
mod call;
mod counters;
mod datagram;
mod dial;
mod hello;
mod hyper_body;
mod noise;
mod pool;
mod secret;
mod serve;
mod socket;
mod stream;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

pub use bind::BindError;
pub use counters::Counters;
pub use secret::{Secret, SecretError};
pub use socket::PEER_TIMEOUT;

use crate::{Body, BoxFuture, DATAGRAM_BYTES_MAX, IncomingCall, LogRateLimiter};
use datagram::DatagramCipher;
use pool::ConnectionPool;

/// Calls that have come in and are not yet accepted; more wait in their connections.
const CALLS_WAITING_MAX: usize = 64;

/// Where a node is reached, by whom, and its limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen, for UDP and TCP. Port 0 takes a port that is free for both.
    pub listen: SocketAddr,
    /// Where other nodes reach this one, when that is not where it listens. Port 0 stands for the port listened at.
    pub advertise: Option<SocketAddr>,
    /// What all nodes of the cluster know. Without one everything is sent in plain, and everybody is taken for a node.
    pub secret: Option<Secret>,
    /// How long reaching another node may take.
    pub connect_timeout: Duration,
    /// How long the other side may take to complete the handshake and to prove its secret.
    pub handshake_timeout: Duration,
    /// How long a connection is kept for the next call. Half as long again is waited for the head of one.
    pub idle_max: Duration,
    /// Idle connections kept to each other node.
    pub idle_connections_max: usize,
    /// Connections by others that are open at once; more are refused.
    pub connections_max: usize,
    /// Counts bytes, connections and failures.
    pub counters: Arc<Counters>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7659),
            advertise: None,
            secret: None,
            connect_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(3),
            idle_max: Duration::from_secs(20),
            idle_connections_max: 8,
            connections_max: 512,
            counters: Arc::default(),
        }
    }
}

/// A node's place in the network. Dropping it closes the port; calls by others that run are cut off.
#[derive(Debug)]
pub struct Net {
    shared: Arc<NetContext>,
    incoming: Arc<Mutex<mpsc::Receiver<IncomingCall>>>,
    background: [JoinHandle<()>; 2],
}

/// What calls, connections and datagrams have in common.
#[derive(Debug)]
struct NetContext {
    config: Config,
    /// Where this node listens.
    bound: SocketAddr,
    /// Where others reach it.
    address: SocketAddr,
    /// For receiving; sending goes by `datagrams_out`, which needs not be told first that there is room.
    datagrams_in: UdpSocket,
    datagrams_out: std::net::UdpSocket,
    datagram_cipher: DatagramCipher,
    pool: ConnectionPool,
    counters: Arc<Counters>,
    refused_log: LogRateLimiter,
    undecryptable_log: LogRateLimiter,
    started: tokio::time::Instant,
    /// Connections live here, whichever runtime a call is made on.
    runtime: Handle,
}

impl Net {
    /// Listens.
    ///
    /// # Errors
    /// [`BindError`] says what to do.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which is the one that connections will live on.
    pub async fn bind(config: Config) -> Result<Self, BindError> {
        let bound = bind::bind(config.listen)?;
        let address = bind::advertised_address(&config, bound.address)?;
        let (tell, incoming) = mpsc::channel(CALLS_WAITING_MAX);
        let shared = Arc::new(NetContext {
            bound: bound.address,
            address,
            datagrams_in: bound.datagrams_in,
            datagrams_out: bound.datagrams_out,
            datagram_cipher: DatagramCipher::new(config.secret.as_ref()),
            pool: ConnectionPool::new(config.idle_max, config.idle_connections_max),
            counters: Arc::clone(&config.counters),
            refused_log: LogRateLimiter::new(),
            undecryptable_log: LogRateLimiter::new(),
            started: tokio::time::Instant::now(),
            runtime: Handle::current(),
            config,
        });
        let accepting = tokio::spawn(serve::accept(Arc::clone(&shared), bound.listener, tell));
        let tidying = tokio::spawn(pool::remove_expired_periodically(Arc::clone(&shared)));
        Ok(Self { shared, incoming: Arc::new(Mutex::new(incoming)), background: [accepting, tidying] })
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for task in &self.background {
            task.abort();
        }
        self.shared.pool.clear();
    }
}

impl crate::Net for Net {
    fn address(&self) -> SocketAddr {
        self.shared.address
    }

    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let (host, shared) = (host.to_owned(), Arc::clone(&self.shared));
        Box::pin(async move {
            let all: Vec<SocketAddr> = tokio::net::lookup_host(host.as_str()).await?.collect();
            let reachable: Vec<SocketAddr> = all.into_iter().filter(|address| shared.can_reach(*address)).collect();
            if reachable.is_empty() {
                let words = format!("{host} has no address that can be reached from {}", shared.bound.ip());
                return Err(io::Error::new(io::ErrorKind::NotFound, words));
            }
            Ok(reachable)
        })
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        let sent = if datagram.len() > DATAGRAM_BYTES_MAX { None } else { self.shared.send(to, &datagram).ok() };
        match sent {
            Some(bytes) => self.shared.counters.add_bytes_out(bytes),
            None => self.shared.counters.count_unsent_datagram(),
        }
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.receive().await })
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        Box::pin(call::call(Arc::clone(&self.shared), to, name.to_owned(), body))
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let incoming = Arc::clone(&self.incoming);
        Box::pin(async move {
            match incoming.lock().await.recv().await {
                Some(call) => call,
                // The network was closed: there will be none.
                None => std::future::pending().await,
            }
        })
    }
}

impl NetContext {
    /// Whether there is a way from where this node listens to an address: IPv4 and IPv6 do not mix.
    fn can_reach(&self, to: SocketAddr) -> bool {
        self.bound.is_ipv4() == to.is_ipv4() || self.bound.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }

    /// The way to an address. Not every network lets a node reach itself from outside.
    fn route(&self, to: SocketAddr) -> SocketAddr {
        if to != self.address {
            return to;
        }
        match self.bound.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => (Ipv4Addr::LOCALHOST, self.bound.port()).into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => (Ipv6Addr::LOCALHOST, self.bound.port()).into(),
            _ => self.bound,
        }
    }

    fn send(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<usize> {
        let to = match self.route(to) {
            SocketAddr::V4(to) if self.bound.is_ipv6() => (to.ip().to_ipv6_mapped(), to.port()).into(),
            to => to,
        };
        self.datagrams_out.send_to(&self.datagram_cipher.encrypt(datagram)?, to)
    }

    async fn receive(&self) -> (SocketAddr, Vec<u8>) {
        // One byte more than there may be, to notice what was cut.
        let mut buffer = vec![0; datagram::ENCRYPTED_BYTES_MAX + 1];
        loop {
            let Ok((bytes, from)) = self.datagrams_in.recv_from(&mut buffer).await else {
                // The kernel is out of memory, perhaps; a datagram may be lost.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            self.counters.add_bytes_in(bytes);
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            if let Some(opened) = buffer.get(..bytes).and_then(|sealed| self.datagram_cipher.decrypt(sealed)) {
                return (from, opened);
            }
            self.counters.count_bad_datagram();
            if let Some(before) = self.undecryptable_log.check(self.started.elapsed()) {
                tracing::warn!(
                    %from,
                    not_told_before = before,
                    "a datagram does not open: the sender has a different cluster secret, or none, or is not a node"
                );
            }
        }
    }
}

/// Takes bytes as they could come from anybody, for a fuzzer.
#[doc(hidden)]
pub fn fuzz_input(data: &[u8]) {
    let secret = Secret::new(b"0123456789abcdef").ok();
    for sealer in [DatagramCipher::new(None), DatagramCipher::new(secret.as_ref())] {
        let _ = sealer.decrypt(data);
    }
    if let Some((bytes, _)) = data.split_first_chunk() {
        let _ = hello::PeerHello::decode(*bytes).map(|hello| (hello.reply(true), hello.reply(false)));
        let _ = hello::PeerHelloReply::decode(*bytes);
    }
    if let Some(secret) = secret {
        noise::fuzz_input(&secret, data);
    }
}
