//! Incompatible peers: nodes of another major version. Only their version can be decoded.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of peers, which bounds memory.
const INCOMPATIBLE_PEERS_MAX: usize = 16;

/// Peers are removed after this time without a packet.
const EXPIRE_AFTER: Duration = Duration::from_secs(120);

/// A node of another major version; not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompatiblePeer {
    /// Its address, if known.
    pub address: Option<SocketAddr>,
    /// Its major version.
    pub protocol: u32,
}

/// The peers seen recently.
#[derive(Debug, Default)]
pub(crate) struct IncompatiblePeers(BTreeMap<Option<SocketAddr>, (u32, Duration)>);

impl IncompatiblePeers {
    /// Adds or refreshes a peer; returns whether it is new.
    pub(crate) fn observe(&mut self, peer: IncompatiblePeer, now: Duration) -> bool {
        let is_known = self.0.get(&peer.address).is_some_and(|(protocol, _)| *protocol == peer.protocol);
        if is_known || self.0.len() < INCOMPATIBLE_PEERS_MAX {
            self.0.insert(peer.address, (peer.protocol, now));
            return !is_known;
        }
        false
    }

    /// Removes silent peers.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, (_, seen_at)| now.saturating_sub(*seen_at) < EXPIRE_AFTER);
    }

    pub(crate) fn list(&self) -> Vec<IncompatiblePeer> {
        self.0
            .iter()
            .map(|(address, (protocol, _))| IncompatiblePeer { address: *address, protocol: *protocol })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incompatible_peers_are_bounded_and_expire() {
        let mut peers = IncompatiblePeers::default();
        let seconds = Duration::from_secs;
        let peer = |port, protocol| IncompatiblePeer { address: Some(([10, 0, 0, 1], port).into()), protocol };
        assert!(peers.observe(peer(1, 2), seconds(0)));
        assert!(!peers.observe(peer(1, 2), seconds(100)));
        assert!(peers.observe(peer(1, 3), seconds(100)), "it has another version now");
        let new = (2..100).filter(|port| peers.observe(peer(*port, 2), seconds(100))).count();
        assert_eq!((new, peers.list().len()), (INCOMPATIBLE_PEERS_MAX - 1, INCOMPATIBLE_PEERS_MAX));
        peers.observe(peer(1, 3), seconds(150));
        peers.expire(seconds(230));
        assert_eq!(peers.list(), [peer(1, 3)]);
    }
}
