//! What a node tells the others of itself.

use std::time::Duration;

use bucksaw_cluster::{Facts, Held, Load, MADE_GOOD_MAX, Member};
use bucksaw_record::Millis;
use bucksaw_store::repair::Repair;

use crate::balance::Balance;
use crate::node::Node;

/// How often it tells. The steps of [`Balance`] are seconds, so this is one.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// Tells how much a node has, and to do.
#[derive(Debug)]
pub(crate) struct Teller(Balance);

impl Teller {
    pub(crate) fn new(node: &Node) -> Self {
        Self(Balance::new(node.balance))
    }

    /// Brings the facts up to date, a period after the last time.
    pub(crate) fn tell(&mut self, node: &Node, repair: Option<&Repair>) {
        // Where nothing is taken in there is nothing to be sent away.
        let load = if node.roles.ingest { self.0.step(&node.queue, &node.cluster) } else { Load::default() };
        let (queue, shelf) = (in_queue(node), on_shelf(node));
        let free_bytes = node.queue.free_bytes();
        let walked = repair.and_then(Repair::walked);
        let made_good = still_gone(&node.cluster.members(), repair.map(Repair::made_good).unwrap_or_default());
        node.cluster.update(|facts: &mut Facts| {
            facts.load = load;
            facts.queue = queue;
            facts.shelf = shelf;
            facts.opened_bytes = Some(node.shelf.opened_bytes());
            facts.free_bytes = free_bytes;
            facts.walked = walked;
            facts.made_good = made_good;
        });
    }
}

/// Of stores that were made good those that are as they were: the walker may be in the middle of a window, and not have seen
/// yet that one is back.
fn still_gone(members: &[Member], mut made_good: Vec<u64>) -> Vec<u64> {
    let is_gone = |mark: u64| members.iter().any(|member| !member.is_live() && member.facts.mark() == mark);
    made_good.retain(|mark| is_gone(*mark));
    made_good.truncate(MADE_GOOD_MAX);
    made_good
}

/// What no store has taken.
fn in_queue(node: &Node) -> Held {
    let segments = node.queue.segments();
    let reaches = segments.iter().map(|view| &view.reach).filter(|reach| !reach.is_empty());
    held(reaches.map(|reach| (reach.text_bytes, reach.low.at(), reach.high.at())))
}

fn on_shelf(node: &Node) -> Held {
    let segments = node.shelf.segments();
    held(segments.iter().map(|segment| (segment.file_bytes(), segment.reach().low.at(), segment.reach().high.at())))
}

fn held(parts: impl Iterator<Item = (u64, Millis, Millis)>) -> Held {
    parts.fold(Held::default(), |sum, (bytes, low, high)| Held {
        bytes: sum.bytes + bytes,
        oldest: Some(sum.oldest.map_or(low, |oldest| oldest.min(low))),
        newest: Some(sum.newest.map_or(high, |newest| newest.max(high))),
    })
}
