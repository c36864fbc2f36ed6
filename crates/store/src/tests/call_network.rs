//! A network whose calls a closure answers, and one other node in it.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use bucksaw_env::{Body, BoxFuture, IncomingCall, Net, real};
use bucksaw_record::Id;

use crate::{Peer, PeerMember, PeerState, Peers};

/// Answers each call, given the called address, the name and the body, by a closure.
pub(super) struct CallNetwork<F>(F);

impl<F: Fn(SocketAddr, String, Body) -> BoxFuture<io::Result<Body>> + Send + Sync + 'static> CallNetwork<F> {
    pub(super) fn new(answer: F) -> Self {
        Self(answer)
    }
}

impl<F> fmt::Debug for CallNetwork<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallNetwork")
    }
}

impl<F: Fn(SocketAddr, String, Body) -> BoxFuture<io::Result<Body>> + Send + Sync + 'static> Net for CallNetwork<F> {
    fn address(&self) -> SocketAddr {
        real::OfflineNet.address()
    }

    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        real::OfflineNet.resolve(host)
    }

    fn send(&self, _: SocketAddr, _: Vec<u8>) {}

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        real::OfflineNet.receive()
    }

    fn call(&self, address: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        (self.0)(address, name.to_owned(), body)
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        real::OfflineNet.accept()
    }
}

/// Another node, with a queue.
#[derive(Debug)]
pub(super) struct OtherNode;

impl OtherNode {
    fn peer() -> Peer {
        Peer { node: Id::from_bits(2), address: "10.0.0.2:7659".parse().unwrap(), held_bytes: 0, free_bytes: 0 }
    }
}

impl Peers for OtherNode {
    fn queues(&self) -> Vec<Peer> {
        vec![Self::peer()]
    }

    fn members(&self) -> Vec<PeerMember> {
        vec![PeerMember { peer: Self::peer(), state: PeerState::Live }]
    }
}
