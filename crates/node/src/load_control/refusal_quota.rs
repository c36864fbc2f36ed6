//! Who may refuse: never more than a share of the live ingest nodes at once.
//!
//! Each node decides for itself, on what was last told by all, by one order that all share: the busiest first. Nodes that
//! have heard the same come to the same, and no two take the same place. News take a moment, so for that moment two views
//! may differ; that is why a node begins only when it has been among the first for [`SETTLED`] seconds, and ceases at once.

use std::cmp::Reverse;

use bucksaw_record::Id;

/// So many seconds, one after the other, a node must be among the first before it refuses.
pub const REFUSE_AFTER_SECONDS: u32 = 3;

/// From this level on a node wants to refuse.
pub const REFUSE_LEVEL_MIN: u8 = 2;

/// What a live ingest node told of its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLoad {
    /// Which node.
    pub node: Id,
    /// Its level.
    pub level: u8,
    /// Bytes accepted in a second.
    pub bytes_per_second: u64,
}

/// How many of so many nodes may refuse, when it is one in `one_in`: none of one or two, whatever `one_in` is.
#[must_use]
pub fn refusals_max(nodes: usize, one_in: usize) -> usize {
    nodes / one_in.max(3)
}

/// Whether a node has one of the places.
#[must_use]
pub fn may_refuse(me: Id, nodes: &[NodeLoad], one_in: usize) -> bool {
    let rank = |standing: &NodeLoad| (Reverse(standing.level), Reverse(standing.bytes_per_second), standing.node);
    let wanting = || nodes.iter().filter(|standing| standing.level >= REFUSE_LEVEL_MIN);
    let Some(own) = wanting().find(|standing| standing.node == me) else { return false };
    wanting().filter(|standing| rank(standing) < rank(own)).count() < refusals_max(nodes.len(), one_in)
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    use super::*;

    fn standing(number: usize, (level, bytes_per_second): (u8, u64)) -> NodeLoad {
        NodeLoad { node: Id::new(Millis(number as u64), Producer::new(1), 0), level, bytes_per_second }
    }

    fn refusing(loads: &[(u8, u64)], one_in: usize) -> Vec<usize> {
        let nodes: Vec<NodeLoad> = loads.iter().enumerate().map(|(number, load)| standing(number, *load)).collect();
        let among = |number: &usize| may_refuse(nodes[*number].node, &nodes, one_in);
        (0..nodes.len()).filter(among).collect()
    }

    #[test]
    fn the_busiest_come_first() {
        let check = |loads: &[(u8, u64)], want: &[usize]| assert_eq!(refusing(loads, 3), want, "{loads:?}");
        check(&[(3, 9)], &[]);
        check(&[(3, 9), (0, 0)], &[]);
        check(&[(3, 9), (0, 0), (0, 0)], &[0]);
        check(&[(1, 9), (0, 0), (0, 0)], &[]);
        check(&[(2, 9), (3, 1), (2, 5)], &[1]);
        check(&[(2, 9), (2, 9), (2, 9)], &[0]);
        check(&[(2, 5), (2, 9), (0, 0), (2, 7), (2, 8), (1, 10)], &[1, 4]);
    }

    proptest! {
        #[test]
        fn never_more_than_the_share_and_always_the_busiest(
            loads in prop::collection::vec((0_u8..4, 0_u64..4), 0..20),
            one_in in 0_usize..6,
        ) {
            let refusing = refusing(&loads, one_in);
            let wanting = loads.iter().filter(|(level, _)| *level >= REFUSE_LEVEL_MIN).count();
            prop_assert!(refusing.len() * 3 <= loads.len());
            prop_assert_eq!(refusing.len(), wanting.min(refusals_max(loads.len(), one_in)));
            let least = refusing.iter().map(|number| loads[*number]).min();
            for (number, load) in loads.iter().enumerate() {
                prop_assert!(refusing.contains(&number) || load.0 < REFUSE_LEVEL_MIN || Some(*load) <= least || refusing.is_empty());
            }
        }
    }
}
