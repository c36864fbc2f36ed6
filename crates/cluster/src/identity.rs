//! The identity of a process in foca.

use std::net::SocketAddr;

use bucksaw_record::Id;

/// A node in one incarnation, at one address.
///
/// Foca has one member per address. So a restarted node replaces its former process at once, and two processes with one node id
/// (a copied data directory) are two members, which can be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) node: Id,
    /// The base incarnation; its sequence number counts how often the node was wrongly declared dead.
    pub(crate) incarnation: Id,
    pub(crate) address: SocketAddr,
}

impl Identity {
    /// The incarnation in [`crate::Facts`].
    pub(crate) fn base_incarnation(&self) -> Id {
        base_incarnation(self.incarnation)
    }
}

/// An incarnation without that count.
pub(crate) fn base_incarnation(incarnation: Id) -> Id {
    Id::new(incarnation.time(), incarnation.producer(), 0)
}

impl foca::Identity for Identity {
    type Addr = SocketAddr;

    fn renew(&self) -> Option<Self> {
        Some(Self { incarnation: self.incarnation.checked_add(1)?, ..*self })
    }

    fn addr(&self) -> SocketAddr {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.incarnation, self.node) > (adversary.incarnation, adversary.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_record::{Millis, Producer};
    use foca::Identity as _;

    #[test]
    fn a_later_incarnation_wins_and_so_does_a_renewed_one() {
        let at = |ms| Identity {
            node: Id::MIN,
            incarnation: Id::new(Millis(ms), Producer::new(7), 0),
            address: "10.0.0.1:7659".parse().unwrap(),
        };
        let (old, new) = (at(1_000), at(1_001));
        assert!(new.win_addr_conflict(&old) && !old.win_addr_conflict(&new));
        let renewed = old.renew().unwrap();
        assert!(renewed.win_addr_conflict(&old) && new.win_addr_conflict(&renewed));
        assert_eq!(renewed.base_incarnation(), old.incarnation);
    }
}
