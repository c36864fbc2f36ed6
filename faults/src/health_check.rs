//! When all is well with a cluster.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::fleet::FleetNode;
use crate::monitor::{ClusterMonitor, count};

/// How long the cluster may take to come right.
pub(crate) const HEALTHY_MAX: Duration = Duration::from_secs(120);

/// Nothing should wait for a store for longer than this when all is well.
pub(crate) const PENDING_AGE_MAX_SECONDS: f64 = 6.0;

/// Waits until every node is there for every node, nothing old waits, and answers are complete.
///
/// # Errors
/// When that takes longer than [`MAX`]: what is wrong then, and `when` it was.
pub(crate) fn wait_healthy(nodes: &[FleetNode], watch: &ClusterMonitor, when: &str) -> anyhow::Result<()> {
    let until = Instant::now() + HEALTHY_MAX;
    while let Some(trouble) = find_problem(nodes, watch) {
        if Instant::now() > until {
            bail!("{when}: not well after {} s: {trouble}", HEALTHY_MAX.as_secs());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What is not well.
fn find_problem(nodes: &[FleetNode], watch: &ClusterMonitor) -> Option<String> {
    for node in nodes {
        let Ok(cluster) = node.cluster() else { return Some(format!("{} does not answer", node.name)) };
        let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ready = listed.iter().filter(|node| node["state"] == "ready").count();
        if ready != nodes.len() {
            let states: BTreeMap<&str, &str> = listed
                .iter()
                .filter_map(|node| Some((node["addresses"]["cluster"].as_str()?, node["state"].as_str()?)))
                .collect();
            return Some(format!("{} sees {ready} of {} nodes ready: {states:?}", node.name, nodes.len()));
        }
        if let Some(apart) = listed.iter().find_map(|node| node["version_skew"].as_str()) {
            return Some(format!("{} says of another that it {apart}", node.name));
        }
    }
    for (node, told) in nodes.iter().zip(watch.latest_counters()) {
        if told.oldest_seconds > PENDING_AGE_MAX_SECONDS {
            return Some(format!("{}: {:.0} bytes wait, for {:.0} s", node.name, told.pending, told.oldest_seconds));
        }
    }
    let partial = nodes.iter().find(|node| count(node.http(), "", 0).is_none());
    partial.map(|node| format!("{} gives no complete answer", node.name))
}
