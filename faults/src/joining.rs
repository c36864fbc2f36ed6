//! How soon a node that joins under load takes its share.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::ledger::Ledger;
use crate::load::Forwarder;
use crate::monitor::{ClusterMonitor, NodeCounters};
use crate::proxy::Proxy;

/// Nodes of each role; one more of each joins.
const NODES: usize = 3;
const FORWARDERS: usize = 8;

/// What one row of the table is about.
const STEP: Duration = Duration::from_secs(10);

/// How it is measured.
#[derive(Clone, Debug)]
pub struct JoiningOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// Lines a second of each forwarder.
    pub rate: usize,
    /// Connections of forwarders last no longer than about this; for ever when it is zero.
    pub reconnect: Duration,
    /// From how many bytes a second on an ingest node says that it is busy; its usual limit when none is given.
    pub busy: Option<String>,
}

/// Measures for a minute after two nodes have joined, and returns a table of comma-separated values: for each ten seconds
/// what each node took.
///
/// # Errors
/// When a node does not start.
pub fn measure_join(joining: &JoiningOptions) -> anyhow::Result<String> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let common = FleetConfig::new(&joining.bucksaw, home.path(), 2, false)?;
    let mut nodes = fleet::pairs(&common, NODES + 1)?;
    for node in &mut nodes {
        if let Some(busy) = &joining.busy {
            node.extra_arguments = vec!["--busy-bytes-per-second".into(), busy.clone()];
        }
    }
    let is_new = |place: usize| place % (NODES + 1) == NODES;
    for (place, node) in nodes.iter_mut().enumerate().filter(|(place, _)| !is_new(*place)) {
        node.spawn().with_context(|| format!("node {place}"))?;
    }
    for (_, node) in nodes.iter_mut().enumerate().filter(|(place, _)| !is_new(*place)) {
        node.wait_ready()?;
    }
    let ledgers: Vec<Arc<Ledger>> =
        (1..=FORWARDERS).map(|number| Arc::new(Ledger::new(format!("forwarder{number}")))).collect();
    let watch = ClusterMonitor::new(nodes.iter().map(FleetNode::http).collect(), Vec::new(), ledgers.clone());
    watch.start_polling();
    let ways = nodes.iter().filter(|node| node.role == FleetRole::Ingest).enumerate();
    let ways = ways.map(|(number, node)| Proxy::start((common.ip(101 + number as u8), 7652).into(), node.durable()));
    let ways = ways.collect::<Result<Vec<Proxy>, _>>()?;
    let stop = Arc::<AtomicBool>::default();
    let mut forwarders = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        let mut to: Vec<_> = match joining.reconnect.is_zero() {
            true => nodes.iter().filter(|node| node.role == FleetRole::Ingest).map(FleetNode::durable).collect(),
            false => ways.iter().map(|way| way.at).collect(),
        };
        to.rotate_left(number % (NODES + 1));
        let (bucksaw, minder) = (&common.bucksaw, &common.cleanup);
        forwarders.push(Forwarder::start(bucksaw, home.path(), minder, ledger, &to, joining.rate, &stop)?);
    }
    let mut text = "after_joining_s".to_owned();
    nodes.iter().for_each(|node| text += &format!(",{}", node.name.replace(' ', "_")));
    text += ",share_of_new_ingest,share_of_new_store\n";
    thread::sleep(STEP);
    row(&mut text, "before", joining, &watch, &ways);
    for (_, node) in nodes.iter_mut().enumerate().filter(|(place, _)| is_new(*place)) {
        node.spawn()?;
        node.wait_ready()?;
    }
    for after in 1..=6 {
        row(&mut text, &(after * STEP.as_secs()).to_string(), joining, &watch, &ways);
    }
    stop.store(true, Ordering::Relaxed);
    watch.stop();
    Ok(text)
}

/// What each node took over ten seconds, in kB a second: ingest nodes of lines, stores of segments.
fn row(text: &mut String, name: &str, joining: &JoiningOptions, watch: &ClusterMonitor, ways: &[Proxy]) {
    let before = watch.latest_counters();
    let until = Instant::now() + STEP;
    let mut next = Instant::now() + joining.reconnect;
    while Instant::now() < until {
        if !joining.reconnect.is_zero() && Instant::now() > next {
            next = Instant::now() + joining.reconnect;
            ways.iter().for_each(Proxy::reset);
        }
        thread::sleep(Duration::from_millis(100));
    }
    let after = watch.latest_counters();
    let took = |of: fn(&NodeCounters) -> f64| -> Vec<f64> {
        after.iter().zip(&before).map(|(after, before)| (of(after) - of(before)) / STEP.as_secs_f64() / 1e3).collect()
    };
    let (lines, segments) = (took(|told| told.accepted), took(|told| told.stored));
    let (ingest, stores) = (&lines[..=NODES], &segments[NODES + 1..]);
    let share = |of: &[f64]| of[NODES] / of.iter().sum::<f64>().max(1e-9);
    let _ = write!(text, "{name}");
    ingest.iter().chain(stores).for_each(|rate| *text += &format!(",{rate:.1}"));
    let _ = writeln!(text, ",{:.3},{:.3}", share(ingest), share(stores));
    eprintln!("{name:>7} s: share of the new ingest node {:.2}, of the new store {:.2}", share(ingest), share(stores));
}
