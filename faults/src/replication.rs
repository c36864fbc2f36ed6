//! Checks from outside whether every record has as many replicas as the replication factor.

use std::time::Duration;

use crate::fleet::{FleetNode, FleetRole};
use crate::http::get;
use crate::monitor::{Metrics, count};

/// The timeout of a request for metrics.
const METRICS_MAX: Duration = Duration::from_secs(4);

/// The completed repair passes of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    /// The process that counted them, because the counter restarts with the process.
    pid: Option<u32>,
    completed: f64,
}

/// The passes of each store; zero if it does not respond.
pub(crate) fn passes(nodes: &[FleetNode]) -> Vec<Passes> {
    let completed = |node: &FleetNode| Some(metrics(node)?.sum("bucksaw_store_repair_passes_total"));
    let stores = nodes.iter().filter(|node| node.role == FleetRole::Store);
    stores.map(|node| Passes { pid: node.pid(), completed: completed(node).unwrap_or_default() }).collect()
}

/// The problem, or `None` if the stores hold `copies` times all records (except the most recent ones), no store
/// reports under-replicated records, and each has completed a pass since `passes` were counted.
pub(crate) fn under_replicated(nodes: &[FleetNode], copies: usize, fresh: u64, passes: &[Passes]) -> Option<String> {
    let Some(ingest) = nodes.iter().find(|node| node.role == FleetRole::Ingest) else {
        return Some("no node to query".into());
    };
    let Some(records) = count(ingest.http(), "", 0) else { return Some("no complete answer".into()) };
    let mut held = 0;
    for (node, before) in nodes.iter().filter(|node| node.role == FleetRole::Store).zip(passes) {
        let Some(metrics) = metrics(node) else { return Some(format!("{} does not answer", node.name)) };
        let lacks = metrics.sum("bucksaw_store_repair_under_replicated_records");
        if lacks > 0.0 {
            return Some(format!("{} knows of {lacks} records that are missing copies", node.name));
        }
        let completed = if node.pid() == before.pid { before.completed } else { 0.0 };
        if metrics.sum("bucksaw_store_repair_passes_total") <= completed {
            return Some(format!("{} has completed no pass of repair", node.name));
        }
        let Some(here) = stored_records_of(node) else {
            return Some(format!("{} does not say what it holds", node.name));
        };
        held += here;
    }
    let wanted = records.saturating_sub(fresh) * copies as u64;
    (held < wanted).then(|| format!("stores hold {held} records of {wanted}, copies counted"))
}

fn metrics(node: &FleetNode) -> Option<Metrics> {
    let answer = get(node.http(), "/metrics", METRICS_MAX).ok().filter(|answer| answer.status == 200)?;
    Some(Metrics::read(&String::from_utf8_lossy(&answer.body)))
}

/// The number of records that a store holds.
pub(crate) fn stored_records_of(node: &FleetNode) -> Option<u64> {
    own_status(node)?["store"]["records"].as_u64()
}

/// The repair state that a store reports.
pub(crate) fn repair(node: &FleetNode) -> Option<serde_json::Value> {
    Some(own_status(node)?["repair"].take())
}

/// Bytes of the segments of a store.
pub(crate) fn packed_bytes(node: &FleetNode) -> Option<f64> {
    own_status(node)?["store"]["stored_bytes"].as_f64()
}

/// The state that a node reports about itself.
fn own_status(node: &FleetNode) -> Option<serde_json::Value> {
    let mut cluster = node.cluster().ok()?;
    let queried = cluster["queried_node"].take();
    cluster["nodes"].as_array_mut()?.iter_mut().find(|one| one["id"] == queried).map(serde_json::Value::take)
}
