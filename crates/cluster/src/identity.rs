//! What tells one running node from another, and from its own former self.

use std::net::SocketAddr;

use bucksaw_record::Id;

/// A node in one of its incarnations, at one address.
///
/// Foca knows one member for each address. So a node that starts again takes the place of its old self there at once, and two
/// nodes that claim one id (a copied data directory) are two members, who live beside each other and can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) node: Id,
    /// [`Self::boot`], with the number of times that the node was wrongly taken for dead in its sequence.
    pub(crate) incarnation: Id,
    pub(crate) address: SocketAddr,
}

impl Identity {
    /// The incarnation as [`crate::Facts`] state it.
    pub(crate) fn base_incarnation(&self) -> Id {
        base_incarnation(self.incarnation)
    }
}

/// An incarnation without what came after the start.
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
    fn the_later_start_wins_and_so_does_who_was_wrongly_taken_for_dead() {
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
