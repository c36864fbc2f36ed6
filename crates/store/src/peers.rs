//! The other nodes, as far as the store has to do with them.

use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_record::Id;

/// Another node that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub node: Id,
    /// Where it is called.
    pub address: SocketAddr,
    /// Bytes that its store holds.
    pub held_bytes: u64,
    /// Room on its disk, in bytes.
    pub free_bytes: u64,
}

/// Another store, there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStore {
    /// Who it is, and what was last known of it.
    pub peer: Peer,
    /// Another one at each start.
    pub incarnation: Id,
    /// Another one whenever it has told anything new of itself, so that nobody takes it for gone who has only not heard it.
    pub fingerprint: u64,
    /// Whether it is there, as far as is known; else it is down, or has left.
    pub is_live: bool,
    /// Whether a node with another id started later at its address: its disk was replaced, so it does not come back.
    pub is_replaced: bool,
    /// Whether its facts of this incarnation count its store: the first facts after a start do not.
    pub has_reported_size: bool,
    /// What it held when it was started, in bytes, if it says so.
    pub stored_bytes_at_open: Option<u64>,
    /// Whether it takes copies: not when it will go soon, or cannot read what is written here.
    pub accepts_replicas: bool,
}

/// Tells who is there.
pub trait Peers: Send + Sync + std::fmt::Debug {
    /// The others that may have something in their queues that can be read here.
    fn queues(&self) -> Vec<Peer>;

    /// The others that keep them, and read what is written here.
    fn stores(&self) -> Vec<Peer>;

    /// All other stores that are known, also those that are down or have left.
    fn peer_stores(&self) -> Vec<PeerStore>;
}

/// The peers of a node that is alone: none.
#[derive(Clone, Copy, Debug)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn queues(&self) -> Vec<Peer> {
        Vec::new()
    }

    fn stores(&self) -> Vec<Peer> {
        Vec::new()
    }

    fn peer_stores(&self) -> Vec<PeerStore> {
        Vec::new()
    }
}

/// How long a call between stores may take before the other is given up.
#[derive(Clone, Copy, Debug)]
pub struct PeerTimeouts {
    /// For an answer to begin.
    pub answer: Duration,
    /// Between one piece and the next.
    pub piece: Duration,
    /// Until a segment that was sent whole is durable there.
    pub durable: Duration,
}

impl Default for PeerTimeouts {
    fn default() -> Self {
        Self { answer: Duration::from_secs(10), piece: Duration::from_secs(10), durable: Duration::from_secs(30) }
    }
}
