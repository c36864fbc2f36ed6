//! Publishes the facts of a node.

use std::time::Duration;

use bucksaw_cluster::{Clients, DataSummary, Facts, Formats, Load, Member, RE_REPLICATED_MAX};
use bucksaw_record::Millis;
use bucksaw_steering::{IngestPeer, ListenerKind, LoadController, LoadSample, NodeLoad};
use bucksaw_store::StoreStatus;
use bucksaw_store::repair::Repair;

use crate::node::Node;

/// How often facts are published. [`LoadController`] evaluates seconds, so this is one.
pub(crate) const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

/// Updates the local facts, and with them the load of the node.
#[derive(Debug)]
pub(crate) struct FactsPublisher(LoadController);

impl FactsPublisher {
    pub(crate) fn new(node: &Node) -> Self {
        Self(LoadController::new(node.busy_bytes_per_second))
    }

    /// Updates the facts; called once per [`PUBLISH_PERIOD`].
    pub(crate) fn publish(&mut self, node: &Node) {
        let members = node.cluster.members();
        // Without the ingest role a node has no clients to redirect.
        let load = if node.roles.ingest {
            self.0.step(node.id, load_sample(node), ingest_peers(node, &members), &node.shedder)
        } else {
            NodeLoad::default()
        };
        let status = node.store.status();
        let (queue, stored) = (queue_summary(node), stored_summary(&status));
        let (free_bytes, version_written) = (node.queue.free_bytes(), node.queue.version_written());
        let repair = node.repair.as_deref();
        let repair_pass_started = repair.and_then(Repair::last_pass_started_at);
        let fingerprints = repair.map(Repair::re_replicated_fingerprints).unwrap_or_default();
        let re_replicated = retain_departed(&members, fingerprints);
        node.cluster.update_facts(|facts: &mut Facts| {
            let NodeLoad { level, bytes_per_second, connections } = load;
            facts.load = Load { bytes_per_second, connections, level };
            facts.queue = queue;
            facts.stored = stored;
            facts.stored_bytes_at_open = Some(status.stored_bytes_at_open);
            facts.free_bytes = free_bytes;
            // A node that reads version 1 only exchanges files with this one until it has records of several lines.
            let Formats { queue, stored } = &mut facts.formats;
            queue.writes = queue.writes.max(version_written);
            stored.writes = stored.writes.max(status.version).max(queue.writes);
            facts.repair_pass_started = repair_pass_started;
            facts.re_replicated = re_replicated;
        });
    }
}

fn load_sample(node: &Node) -> LoadSample {
    let queue = &node.queue;
    LoadSample {
        accepted_bytes: queue.metrics().accepted_bytes(),
        refused_appends: queue.metrics().refused(),
        oldest_wait: queue.backlog().oldest_age,
        free_bytes: queue.free_bytes(),
        free_bytes_min: queue.free_bytes_min(),
        is_halted: queue.is_halted(),
    }
}

/// The nodes to which clients may be redirected.
fn ingest_peers(node: &Node, members: &[Member]) -> Vec<IngestPeer> {
    let accepts_clients = |member: &&Member| {
        let facts = &member.facts;
        facts.node != node.id && member.is_live() && facts.roles.ingest && !facts.draining && !facts.left
    };
    let peer = |member: &Member| {
        let Load { bytes_per_second, connections, level } = member.facts.load;
        let Clients { http, fast, durable, bulk } = member.facts.clients.clone();
        let addresses = [
            (ListenerKind::Http, http),
            (ListenerKind::Fast, fast),
            (ListenerKind::Durable, durable),
            (ListenerKind::Bulk, bulk),
        ];
        IngestPeer {
            node: member.facts.node,
            load: NodeLoad { level, bytes_per_second, connections },
            addresses: addresses.into_iter().filter_map(|(port, address)| Some((port, address?))).collect(),
        }
    };
    members.iter().filter(accepts_clients).map(peer).collect()
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
    let parts = reaches.map(|reach| (reach.text_bytes, reach.low.time(), reach.high.time()));
    parts.fold(DataSummary::default(), |sum, (bytes, low, high): (u64, Millis, Millis)| DataSummary {
        bytes: sum.bytes + bytes,
        oldest: Some(sum.oldest.map_or(low, |oldest| oldest.min(low))),
        newest: Some(sum.newest.map_or(high, |newest| newest.max(high))),
    })
}

fn stored_summary(status: &StoreStatus) -> DataSummary {
    // The records of a database are not lost with the node.
    if status.database.is_some() {
        return DataSummary::default();
    }
    DataSummary { bytes: status.stored_bytes, oldest: status.oldest, newest: status.newest }
}
