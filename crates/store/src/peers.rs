//! The other nodes, as the store uses them.

use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_record::Id;

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub node: Id,
    /// Its address for calls.
    pub address: SocketAddr,
    /// Bytes in its store.
    pub held_bytes: u64,
    /// Free bytes on its disk.
    pub free_bytes: u64,
}

/// Another store, live or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStore {
    /// The node, with its last known sizes.
    pub peer: Peer,
    /// Differs for each process.
    pub incarnation: Id,
    /// Changes with every change of the store's facts, so that a store with new facts is not taken for a lost one.
    pub fingerprint: u64,
    /// Whether it is live; otherwise it is down or has left.
    pub is_live: bool,
    /// Whether a node with another id was started later at its address: its disk was replaced, so it does not return.
    pub is_replaced: bool,
    /// Whether the facts of this incarnation include the size of its store: the first facts after a start do not.
    pub has_reported_size: bool,
    /// Bytes in its store at the start of its process, if known.
    pub stored_bytes_at_open: Option<u64>,
    /// Whether it accepts replicas: not if it is draining, or cannot read the format of this node.
    pub accepts_replicas: bool,
}

/// Another node, whether it can be called or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMember {
    /// The node.
    pub peer: Peer,
    /// Whether it can be called.
    pub state: PeerState,
}

/// Whether a node can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It can.
    Live,
    /// It is down and may return.
    Down,
    /// It left the cluster with records.
    Left,
}

/// Lists other nodes; none by default.
pub trait Peers: Send + Sync + std::fmt::Debug {
    /// Nodes whose queues may have segments that this node can read.
    fn queues(&self) -> Vec<Peer> {
        Vec::new()
    }

    /// Live stores that accept replicas and read the format of this node.
    fn stores(&self) -> Vec<Peer> {
        Vec::new()
    }

    /// All known other nodes that may have records.
    fn members(&self) -> Vec<PeerMember> {
        Vec::new()
    }

    /// All known other stores, also those that are down or have left.
    fn peer_stores(&self) -> Vec<PeerStore> {
        Vec::new()
    }
}

/// The peers of a node that is alone: none.
#[derive(Clone, Copy, Debug)]
pub struct NoPeers;

impl Peers for NoPeers {}

/// Timeouts of calls between stores.
#[derive(Clone, Copy, Debug)]
pub struct PeerTimeouts {
    /// Until the reply begins.
    pub answer: Duration,
    /// Between two chunks of a body.
    pub piece: Duration,
    /// Until a segment that was sent completely is durable.
    pub durable: Duration,
}

impl Default for PeerTimeouts {
    fn default() -> Self {
        Self { answer: Duration::from_secs(10), piece: Duration::from_secs(10), durable: Duration::from_secs(30) }
    }
}
