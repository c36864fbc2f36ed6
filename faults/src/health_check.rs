//! Checks whether a cluster is healthy.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::fleet::FleetNode;
use crate::monitor::{ClusterMonitor, count};

/// The maximum time until a cluster is healthy.
pub(crate) const HEALTHY_MAX: Duration = Duration::from_secs(120);

/// The maximum age of pending segments in a healthy cluster.
pub(crate) const PENDING_AGE_MAX_SECONDS: f64 = 6.0;

/// Waits until all nodes see all nodes as alive, nothing old is pending, and answers are complete.
///
/// # Errors
/// The problems after [`HEALTHY_MAX`], with the step `when` they occurred.
pub(crate) fn wait_healthy(nodes: &[FleetNode], watch: &ClusterMonitor, when: &str) -> anyhow::Result<()> {
    let until = Instant::now() + HEALTHY_MAX;
    while let Some(problems) = find_problem(nodes, watch) {
        if Instant::now() > until {
            bail!("{when}: not healthy after {} s: {problems}", HEALTHY_MAX.as_secs());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The current problems.
fn find_problem(nodes: &[FleetNode], watch: &ClusterMonitor) -> Option<String> {
    for node in nodes {
        let Ok(cluster) = node.cluster() else { return Some(format!("{} does not respond", node.name)) };
        let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ready = listed.iter().filter(|node| node["state"] == "ready").count();
        if ready != nodes.len() {
            let states: BTreeMap<&str, &str> = listed
                .iter()
                .filter_map(|node| Some((node["addresses"]["cluster"].as_str()?, node["state"].as_str()?)))
                .collect();
            return Some(format!("{} sees {ready} of {} nodes ready: {states:?}", node.name, nodes.len()));
        }
        if let Some(problem) = listed.iter().find_map(|node| node["version_skew"].as_str()) {
            return Some(format!("{} reports about another node: {problem}", node.name));
        }
    }
    for (node, counters) in nodes.iter().zip(watch.latest_counters()) {
        if counters.oldest_seconds > PENDING_AGE_MAX_SECONDS {
            return Some(format!(
                "{}: {:.0} bytes pending for {:.0} s",
                node.name, counters.pending, counters.oldest_seconds
            ));
        }
    }
    let partial = nodes.iter().find(|node| count(node.http(), "", 0).is_none());
    partial.map(|node| format!("{} gives no complete answer", node.name))
}
