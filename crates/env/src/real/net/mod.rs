//! The network between nodes over UDP and TCP.
//!
//! Datagrams use UDP, calls HTTP/1.1 over TCP, at the same port. With a secret, each datagram is encrypted by itself, and
//! connections by Noise, below HTTP. `docs/cluster-wire.md` describes the bytes.
//!
//! - A truncated body is never delivered as whole: it has a stated length or is chunked, and a missing end breaks the connection.
//! - A call is sent once. A pooled connection that turns out dead carries no call; one that dies later fails its call.
//! - Without proof of the secret, a peer can neither send nor receive data.
//! - A peer that acknowledges or reads nothing for [`PEER_TIMEOUT`] is disconnected.
//!
//! All holders of the secret are trusted alike, and the source address of a datagram is not authenticated.
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
//! let (reply, ()) = tokio::join!(call, serve);
//! assert_eq!(reply.unwrap().read_all(100).await.unwrap(), b"hello Ann");
//! # });
//! ```

mod bind;
mod call;
mod context;
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
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use bind::BindError;
pub use context::Config;
pub use counters::Counters;
pub use secret::{InvalidSecret, Secret};
pub use socket::PEER_TIMEOUT;

use crate::{Body, BoxFuture, DATAGRAM_BYTES_MAX, IncomingCall, LogRateLimiter};
use context::NetContext;
use datagram::DatagramCipher;
use pool::ConnectionPool;
use secret::ActiveSecrets;

/// Maximum received calls that are not accepted yet; further ones wait in their connections.
const CALLS_WAITING_MAX: usize = 64;

/// A node's port for datagrams and calls. Dropping it closes the port and cuts off running calls by other nodes.
#[derive(Debug)]
pub struct Net {
    context: Arc<NetContext>,
    incoming: Arc<Mutex<mpsc::Receiver<IncomingCall>>>,
    /// Aborted when dropped.
    _background: JoinSet<()>,
}

impl Net {
    /// Binds the port and accepts connections.
    ///
    /// # Errors
    /// [`BindError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime, which runs the connections.
    pub async fn bind(config: Config) -> Result<Self, BindError> {
        let bound = bind::bind(config.listen)?;
        let address = bind::advertised_address(config.advertise, bound.address)?;
        let (calls, incoming) = mpsc::channel(CALLS_WAITING_MAX);
        let secrets = ActiveSecrets::new(config.secrets.clone());
        let context = Arc::new(NetContext {
            bound: bound.address,
            address,
            datagrams_in: bound.datagrams_in,
            datagrams_out: bound.datagrams_out,
            datagram_cipher: DatagramCipher::new(secrets.clone()),
            secrets,
            pool: ConnectionPool::new(config.idle_max, config.idle_connections_max),
            refused_log: LogRateLimiter::new(),
            undecryptable_log: LogRateLimiter::new(),
            started: Instant::now(),
            runtime: Handle::current(),
            config,
        });
        let mut background = JoinSet::new();
        background.spawn(serve::accept(Arc::clone(&context), bound.listener, calls));
        let pooled = Arc::clone(&context);
        background.spawn(async move {
            loop {
                tokio::time::sleep(pooled.config.idle_max / 4).await;
                pooled.pool.remove_expired();
            }
        });
        Ok(Self { context, incoming: Arc::new(Mutex::new(incoming)), _background: background })
    }

    /// Replaces the secrets of the configuration, for new connections and datagrams. Running calls end on their connections.
    /// Changes nothing if that would begin or end encryption.
    pub fn replace_secrets(&self, secrets: Vec<Secret>) {
        self.context.secrets.replace(secrets);
        // Idle connections prove that their peer knew an earlier secret.
        self.context.pool.clear();
    }

    /// The counters of the configuration.
    pub fn counters(&self) -> &Counters {
        &self.context.config.counters
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.context.pool.clear();
    }
}

impl crate::Net for Net {
    fn address(&self) -> SocketAddr {
        self.context.address
    }

    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let (host, context) = (host.to_owned(), Arc::clone(&self.context));
        Box::pin(async move {
            let addresses = tokio::net::lookup_host(host.as_str()).await?;
            let reachable: Vec<SocketAddr> = addresses.filter(|address| context.can_reach(*address)).collect();
            if reachable.is_empty() {
                let message = format!("{host} has no address that can be reached from {}", context.bound.ip());
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
            Ok(reachable)
        })
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        let counters = &self.context.config.counters;
        let sent = if datagram.len() > DATAGRAM_BYTES_MAX { None } else { self.context.send(to, &datagram).ok() };
        match sent {
            Some(bytes) => counters.sent_bytes.inc_by(bytes as u64),
            None => counters.unsent_datagrams.inc(),
        };
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        let context = Arc::clone(&self.context);
        Box::pin(async move { context.receive().await })
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        Box::pin(call::call(Arc::clone(&self.context), to, name.to_owned(), body))
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let incoming = Arc::clone(&self.incoming);
        Box::pin(async move {
            match incoming.lock().await.recv().await {
                Some(call) => call,
                // The network was dropped: no call will arrive.
                None => std::future::pending().await,
            }
        })
    }
}

/// Parses `data` like bytes from the network, for fuzzing.
#[doc(hidden)]
pub fn fuzz_input(data: &[u8]) {
    let _ = Secret::parse_file(data);
    let secret = Secret::new(b"0123456789abcdef").ok();
    for secrets in [Vec::new(), secret.iter().cloned().collect()] {
        let _ = DatagramCipher::new(ActiveSecrets::new(secrets)).decrypt(data);
    }
    if let Some((bytes, _)) = data.split_first_chunk() {
        let _ = hello::PeerHello::decode(*bytes).map(|hello| (hello.reply(true), hello.reply(false)));
        let _ = hello::PeerHelloReply::decode(*bytes);
    }
    if let Some(secret) = secret {
        noise::fuzz_input(&secret, data);
    }
}
