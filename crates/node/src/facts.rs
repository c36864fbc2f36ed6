//! Publishes the facts of a node.

use std::time::Duration;

use bucksaw_cluster::{DataSummary, Facts, Load, Member, RE_REPLICATED_MAX};
use bucksaw_record::Millis;
use bucksaw_store::StoreStatus;
use bucksaw_store::repair::Repair;

use crate::load_control::LoadController;
use crate::node::Node;

/// How often facts are published. The steps of [`LoadController`] are seconds, so this is one.
pub(crate) const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// Updates the local facts, and with them the load level.
#[derive(Debug)]
pub(crate) struct FactsPublisher(LoadController);

impl FactsPublisher {
    pub(crate) fn new(node: &Node) -> Self {
        Self(LoadController::new(node.load_control))
    }

    /// Updates the facts; called once per [`PUBLISH_PERIOD`].
    pub(crate) fn publish(&mut self, node: &Node) {
        // Without the ingest role a node has no clients to redirect.
        let load = if node.roles.ingest { self.0.step(&node.queue, &node.cluster) } else { Load::default() };
        let status = node.store.status();
        let (queue, stored) = (queue_summary(node), stored_summary(&status));
        let free_bytes = node.queue.free_bytes();
        let repair = node.repair.as_deref();
        let repair_pass_started = repair.and_then(Repair::last_pass_started_at);
        let fingerprints = repair.map(Repair::re_replicated_fingerprints).unwrap_or_default();
        let re_replicated = retain_departed(&node.cluster.members(), fingerprints);
        node.cluster.update_facts(|facts: &mut Facts| {
            facts.load = load;
            facts.queue = queue;
            facts.stored = stored;
            facts.stored_bytes_at_open = Some(status.stored_bytes_at_open);
            facts.free_bytes = free_bytes;
            facts.repair_pass_started = repair_pass_started;
            facts.re_replicated = re_replicated;
        });
    }
}

/// The re-replicated stores that have not returned. Repair learns of a return only at its next time range.
fn retain_departed(members: &[Member], mut fingerprints: Vec<u64>) -> Vec<u64> {
    let has_departed =
        |fingerprint: u64| members.iter().any(|member| !member.is_live() && member.facts.fingerprint() == fingerprint);
    fingerprints.retain(|fingerprint| has_departed(*fingerprint));
    fingerprints.truncate(RE_REPLICATED_MAX);
    fingerprints
}

/// The records that no store has yet.
fn queue_summary(node: &Node) -> DataSummary {
    let segments = node.queue.uncommitted_segments();
    let reaches = segments.iter().map(|view| &view.reach).filter(|reach| !reach.is_empty());
    summarise(reaches.map(|reach| (reach.text_bytes, reach.low.time(), reach.high.time())))
}

fn stored_summary(status: &StoreStatus) -> DataSummary {
    DataSummary { bytes: status.stored_bytes, oldest: status.oldest, newest: status.newest }
}

fn summarise(parts: impl Iterator<Item = (u64, Millis, Millis)>) -> DataSummary {
    parts.fold(DataSummary::default(), |sum, (bytes, low, high)| DataSummary {
        bytes: sum.bytes + bytes,
        oldest: Some(sum.oldest.map_or(low, |oldest| oldest.min(low))),
        newest: Some(sum.newest.map_or(high, |newest| newest.max(high))),
    })
}
