//! Whether every record is kept as often as it should be, seen from outside.

use std::time::Duration;

use crate::fleet::{Node, Role};
use crate::http::get;
use crate::watch::{Metrics, count};

/// How long a node may take to tell its metrics.
const METRICS_MAX: Duration = Duration::from_secs(4);

/// Says what is missing; none when the stores hold as many records as `copies` of all would be, but for so many that have come
/// just now, and none of them knows of a record that has too few.
pub(crate) fn missing(nodes: &[Node], copies: usize, fresh: u64) -> Option<String> {
    let Some(asked) = nodes.iter().find(|node| node.role == Role::Ingest) else { return Some("nobody to ask".into()) };
    let Some(records) = count(asked.http(), "", 0) else { return Some("no complete answer".into()) };
    let mut held = 0;
    for node in nodes.iter().filter(|node| node.role == Role::Store) {
        let answer = get(node.http(), "/metrics", METRICS_MAX).ok().filter(|answer| answer.status == 200);
        let Some(answer) = answer else { return Some(format!("{} does not answer", node.name)) };
        let metrics = Metrics::read(&String::from_utf8_lossy(&answer.body));
        let lacks = metrics.sum("bucksaw_store_repair_missing_records");
        if lacks > 0.0 {
            return Some(format!("{} knows of {lacks} records that are missing copies", node.name));
        }
        let Some(here) = held_by(node) else { return Some(format!("{} does not say what it holds", node.name)) };
        held += here;
    }
    let wanted = records.saturating_sub(fresh) * copies as u64;
    (held < wanted).then(|| format!("stores hold {held} records of {wanted}, copies counted"))
}

/// How many records a store holds, by itself.
fn held_by(node: &Node) -> Option<u64> {
    let cluster = node.cluster().ok()?;
    let own = cluster["nodes"].as_array()?.iter().find(|one| one["id"] == cluster["asked"])?;
    own["store"]["records"].as_u64()
}
