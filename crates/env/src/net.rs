//! The network between nodes: datagrams, which may be lost, and calls, which are answered.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;

use tokio::sync::oneshot;

use crate::{Body, BoxFuture};

/// Datagrams up to this length pass through all networks unfragmented.
pub const DATAGRAM_BYTES_MAX: usize = 1_350;

/// A node's access to the network. Datagrams and calls arrive at the same address.
pub trait Net: Send + Sync + Debug {
    /// The address at which other nodes reach this one.
    fn address(&self) -> SocketAddr;

    /// Resolves `HOST:PORT`.
    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>>;

    /// Sends a datagram of up to [`DATAGRAM_BYTES_MAX`] bytes. It may be lost, delayed, duplicated or reordered.
    fn send(&self, to: SocketAddr, datagram: Vec<u8>);

    /// The next datagram and its sender. One task receives.
    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)>;

    /// Calls another node, or this one; resolves when the reply begins. Request and reply are streams, and each may fail in
    /// the middle. A failed call may have been executed, so calls must be idempotent. The caller limits the time, by
    /// [`crate::with_timeout`].
    ///
    /// # Errors
    /// `Unsupported` if the callee has no such call; `Other` with its message if it refuses or fails; `ConnectionRefused` only
    /// if no process listens; else the error of the network.
    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>>;

    /// The next call by another node. One task accepts.
    fn accept(&self) -> BoxFuture<IncomingCall>;
}

/// A call by another node.
#[derive(Debug)]
pub struct IncomingCall {
    /// The name of the call.
    pub name: String,
    /// The request.
    pub body: Body,
    /// Sends the reply. The caller gets an error if this is dropped.
    pub reply: Reply,
}

/// Sends the reply to a call.
#[derive(Debug)]
pub struct Reply(oneshot::Sender<io::Result<Body>>);

impl Reply {
    /// A sender and its receiver.
    #[must_use]
    pub fn channel() -> (Self, oneshot::Receiver<io::Result<Body>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Replies. Of an error the caller gets the message, and the kind only if it is `Unsupported`.
    pub fn send(self, reply: io::Result<Body>) {
        // The caller may have disconnected.
        let _ = self.0.send(reply);
    }
}
