//! Nodes of another major version: nothing that they say is understood but the version, and that they are there is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// So many are told of; a bound for what strangers can make a node hold.
const INCOMPATIBLE_PEERS_MAX: usize = 16;

/// Who has said nothing for so long is told of no more.
const EXPIRE_AFTER: Duration = Duration::from_secs(120);

/// A node that speaks another major version, and is no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompatiblePeer {
    /// Where it is, when that is known.
    pub address: Option<SocketAddr>,
    /// The major version that it speaks.
    pub protocol: u32,
}

/// Those that were heard of lately.
#[derive(Debug, Default)]
pub(crate) struct IncompatiblePeers(BTreeMap<Option<SocketAddr>, (u32, Duration)>);

impl IncompatiblePeers {
    /// Takes note of one; says whether it is new.
    pub(crate) fn observe(&mut self, stranger: IncompatiblePeer, now: Duration) -> bool {
        let is_known = self.0.get(&stranger.address).is_some_and(|(protocol, _)| *protocol == stranger.protocol);
        if is_known || self.0.len() < INCOMPATIBLE_PEERS_MAX {
            self.0.insert(stranger.address, (stranger.protocol, now));
            return !is_known;
        }
        false
    }

    /// Lets go of those that are silent.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, (_, heard)| now.saturating_sub(*heard) < EXPIRE_AFTER);
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
        let mut strangers = IncompatiblePeers::default();
        let seconds = Duration::from_secs;
        let stranger = |port, protocol| IncompatiblePeer { address: Some(([10, 0, 0, 1], port).into()), protocol };
        assert!(strangers.observe(stranger(1, 2), seconds(0)));
        assert!(!strangers.observe(stranger(1, 2), seconds(100)));
        assert!(strangers.observe(stranger(1, 3), seconds(100)), "it speaks another one now");
        let new = (2..100).filter(|port| strangers.observe(stranger(*port, 2), seconds(100))).count();
        assert_eq!((new, strangers.list().len()), (INCOMPATIBLE_PEERS_MAX - 1, INCOMPATIBLE_PEERS_MAX));
        strangers.observe(stranger(1, 3), seconds(150));
        strangers.expire(seconds(230));
        assert_eq!(strangers.list(), [stranger(1, 3)]);
    }
}
