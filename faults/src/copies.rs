//! Whether every record is kept as often as it should be, seen from outside.

use std::time::Duration;

use crate::fleet::{Node, Role};
use crate::http::get;
use crate::watch::{Metrics, count};

/// How long a node may take to tell its metrics.
const METRICS_MAX: Duration = Duration::from_secs(4);

/// How many passes of repair each store has brought to its end since it was started; none of one that does not say.
pub(crate) fn passes(nodes: &[Node]) -> Vec<Option<f64>> {
    let stores = nodes.iter().filter(|node| node.role == Role::Store);
    stores.map(|node| Some(metrics(node)?.sum("bucksaw_store_repair_passes_total"))).collect()
}

/// Says what is missing; none when the stores hold as many records as `copies` of all would be, but for so many that have come
/// just now, none of them knows of a record that has too few, and each has ended a pass since `passes` were told.
pub(crate) fn missing(nodes: &[Node], copies: usize, fresh: u64, passes: &[Option<f64>]) -> Option<String> {
    let Some(asked) = nodes.iter().find(|node| node.role == Role::Ingest) else { return Some("nobody to ask".into()) };
    let Some(records) = count(asked.http(), "", 0) else { return Some("no complete answer".into()) };
    let mut held = 0;
    for (node, before) in nodes.iter().filter(|node| node.role == Role::Store).zip(passes) {
        let Some(metrics) = metrics(node) else { return Some(format!("{} does not answer", node.name)) };
        let lacks = metrics.sum("bucksaw_store_repair_missing_records");
        if lacks > 0.0 {
            return Some(format!("{} knows of {lacks} records that are missing copies", node.name));
        }
        if metrics.sum("bucksaw_store_repair_passes_total") <= before.unwrap_or_default() {
            return Some(format!("{} has not looked at everything", node.name));
        }
        let Some(here) = held_by(node) else { return Some(format!("{} does not say what it holds", node.name)) };
        held += here;
    }
    let wanted = records.saturating_sub(fresh) * copies as u64;
    (held < wanted).then(|| format!("stores hold {held} records of {wanted}, copies counted"))
}

fn metrics(node: &Node) -> Option<Metrics> {
    let answer = get(node.http(), "/metrics", METRICS_MAX).ok().filter(|answer| answer.status == 200)?;
    Some(Metrics::read(&String::from_utf8_lossy(&answer.body)))
}

/// How many records a store holds, by itself.
pub(crate) fn held_by(node: &Node) -> Option<u64> {
    own(node)?["store"]["records"].as_u64()
}

/// How many bytes a store's segments take.
pub(crate) fn packed_bytes(node: &Node) -> Option<f64> {
    own(node)?["store"]["stored_bytes"].as_f64()
}

/// What a node says of itself.
fn own(node: &Node) -> Option<serde_json::Value> {
    let mut cluster = node.cluster().ok()?;
    let asked = cluster["asked"].take();
    cluster["nodes"].as_array_mut()?.iter_mut().find(|one| one["id"] == asked).map(serde_json::Value::take)
}
