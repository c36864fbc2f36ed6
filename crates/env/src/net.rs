//! The network between the nodes of a cluster: datagrams that may be lost, and calls that are answered.
//!
//! A call has a name, takes a body and gives a body. Both are streams, and either may fail in the middle. A call that fails
//! may have been done all the same; whoever calls must be able to call again.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;

use tokio::sync::oneshot;

use crate::{Body, BoxFuture};

/// Reaches other nodes, and is reached by them. Datagrams and calls come in at the same address.
pub trait Net: Send + Sync + Debug {
    /// Where other nodes reach this one.
    fn address(&self) -> SocketAddr;

    /// The addresses that a host with a port has now.
    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>>;

    /// Sends a datagram of at most [`DATAGRAM_BYTES_MAX`] bytes. It may be lost, come late, twice, or after a later one.
    fn send(&self, to: SocketAddr, datagram: Vec<u8>);

    /// The next datagram, and from whom. One task receives.
    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)>;

    /// Calls another node, or this one; resolves with the first of the answer.
    ///
    /// # Errors
    /// `Unsupported` when the other knows no such call; `Other` with its own words when it refuses or fails;
    /// `ConnectionRefused` only when no process listens there; else what the network says. There is no limit of time but the caller's ([`crate::within`]).
    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>>;

    /// The next call by another node. One task accepts, and hands on.
    fn accept(&self) -> BoxFuture<IncomingCall>;
}

/// Datagrams of so many bytes pass through all networks in one piece.
pub const DATAGRAM_BYTES_MAX: usize = 1_350;

/// A call by another node.
#[derive(Debug)]
pub struct IncomingCall {
    /// Which call it is.
    pub name: String,
    /// What it brings.
    pub body: Body,
    /// Where the answer goes. The caller is told of an error when it is dropped.
    pub reply: Reply,
}

/// Where the answer to a call goes.
#[derive(Debug)]
pub struct Reply(oneshot::Sender<io::Result<Body>>);

impl Reply {
    /// A place for an answer, and where it is found.
    #[must_use]
    pub fn channel() -> (Self, oneshot::Receiver<io::Result<Body>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Answers. `Err` is told in words; only the kind `Unsupported` is told as such.
    pub fn send(self, answer: io::Result<Body>) {
        // The caller may have gone.
        let _ = self.0.send(answer);
    }
}
