//! What a node tells the others of itself.

use std::time::Duration;

use bucksaw_cluster::{DataSummary, Facts, Load, Member, RE_REPLICATED_MAX};
use bucksaw_record::Millis;
use bucksaw_store::repair::Repair;

use crate::load_control::LoadController;
use crate::node::Node;

/// How often it tells. The steps of [`Balance`] are seconds, so this is one.
pub(crate) const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// Tells how much a node has, and to do.
#[derive(Debug)]
pub(crate) struct FactsPublisher(LoadController);

impl FactsPublisher {
    pub(crate) fn new(node: &Node) -> Self {
        Self(LoadController::new(node.balance))
    }

    /// Brings the facts up to date, a period after the last time.
    pub(crate) fn publish(&mut self, node: &Node, repair: Option<&Repair>) {
        // Where nothing is taken in there is nothing to be sent away.
        let load = if node.roles.ingest { self.0.step(&node.queue, &node.cluster) } else { Load::default() };
        let (queue, stored) = (queue_summary(node), stored_summary(node));
        let free_bytes = node.queue.free_bytes();
        let repair_pass_started = repair.and_then(Repair::last_pass_started_at);
        let re_replicated =
            retain_down(&node.cluster.members(), repair.map(Repair::re_replicated_fingerprints).unwrap_or_default());
        node.cluster.update_facts(|facts: &mut Facts| {
            facts.load = load;
            facts.queue = queue;
            facts.stored = stored;
            facts.stored_bytes_at_open = Some(node.store.stored_bytes_at_open());
            facts.free_bytes = free_bytes;
            facts.repair_pass_started = repair_pass_started;
            facts.re_replicated = re_replicated;
        });
    }
}

/// Of stores that were made good those that are as they were: the walker may be in the middle of a window, and not have seen
/// yet that one is back.
fn retain_down(members: &[Member], mut re_replicated: Vec<u64>) -> Vec<u64> {
    let is_gone = |mark: u64| members.iter().any(|member| !member.is_live() && member.facts.fingerprint() == mark);
    re_replicated.retain(|mark| is_gone(*mark));
    re_replicated.truncate(RE_REPLICATED_MAX);
    re_replicated
}

/// What no store has taken.
fn queue_summary(node: &Node) -> DataSummary {
    let segments = node.queue.uncommitted_segments();
    let reaches = segments.iter().map(|view| &view.reach).filter(|reach| !reach.is_empty());
    summarise(reaches.map(|reach| (reach.text_bytes, reach.low.time(), reach.high.time())))
}

fn stored_summary(node: &Node) -> DataSummary {
    let segments = node.store.segments();
    summarise(
        segments.iter().map(|segment| (segment.file_bytes(), segment.reach().low.time(), segment.reach().high.time())),
    )
}

fn summarise(parts: impl Iterator<Item = (u64, Millis, Millis)>) -> DataSummary {
    parts.fold(DataSummary::default(), |sum, (bytes, low, high)| DataSummary {
        bytes: sum.bytes + bytes,
        oldest: Some(sum.oldest.map_or(low, |oldest| oldest.min(low))),
        newest: Some(sum.newest.map_or(high, |newest| newest.max(high))),
    })
}
