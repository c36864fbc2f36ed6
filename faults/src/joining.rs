//! Measures how soon a node that joins under load takes its share.

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

/// Nodes of each role at the start. Later one more node of each role joins.
const NODES: usize = 3;
const FORWARDERS: usize = 8;

/// A row of the table.
const STEP: Duration = Duration::from_secs(10);

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct JoiningOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// Lines per second of each forwarder.
    pub rate: usize,
    /// The maximum age of forwarder connections; zero is unlimited.
    pub reconnect: Duration,
    /// Bytes per second from which an ingest node is overloaded; `None` is the default of the program.
    pub busy: Option<String>,
}

/// Measures for a minute after two nodes have joined, and returns CSV: the rate of each node in periods of ten
/// seconds.
///
/// # Errors
/// A node does not start.
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
    let monitor = ClusterMonitor::new(nodes.iter().map(FleetNode::http).collect(), Vec::new(), ledgers.clone());
    monitor.start_polling();
    let proxies = nodes.iter().filter(|node| node.role == FleetRole::Ingest).enumerate();
    let proxies =
        proxies.map(|(number, node)| Proxy::start((common.ip(101 + number as u8), 7652).into(), node.durable()));
    let proxies = proxies.collect::<Result<Vec<Proxy>, _>>()?;
    let stop = Arc::<AtomicBool>::default();
    let mut forwarders = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        let mut to: Vec<_> = match joining.reconnect.is_zero() {
            true => nodes.iter().filter(|node| node.role == FleetRole::Ingest).map(FleetNode::durable).collect(),
            false => proxies.iter().map(|way| way.at).collect(),
        };
        to.rotate_left(number % (NODES + 1));
        let (bucksaw, cleanup) = (&common.bucksaw, &common.cleanup);
        forwarders.push(Forwarder::start(bucksaw, home.path(), cleanup, ledger, &to, joining.rate, &stop)?);
    }
    let mut text = "after_joining_s".to_owned();
    nodes.iter().for_each(|node| text += &format!(",{}", node.name.replace(' ', "_")));
    text += ",share_of_new_ingest,share_of_new_store\n";
    thread::sleep(STEP);
    row(&mut text, "before", joining, &monitor, &proxies);
    for (_, node) in nodes.iter_mut().enumerate().filter(|(place, _)| is_new(*place)) {
        node.spawn()?;
        node.wait_ready()?;
    }
    for after in 1..=6 {
        row(&mut text, &(after * STEP.as_secs()).to_string(), joining, &monitor, &proxies);
    }
    stop.store(true, Ordering::Relaxed);
    monitor.stop();
    Ok(text)
}

/// The rate of each node over ten seconds in kB/s: accepted lines of ingest nodes, fetched segments of stores.
fn row(text: &mut String, name: &str, joining: &JoiningOptions, monitor: &ClusterMonitor, proxies: &[Proxy]) {
    let before = monitor.latest_counters();
    let until = Instant::now() + STEP;
    let mut next = Instant::now() + joining.reconnect;
    while Instant::now() < until {
        if !joining.reconnect.is_zero() && Instant::now() > next {
            next = Instant::now() + joining.reconnect;
            proxies.iter().for_each(Proxy::reset);
        }
        thread::sleep(Duration::from_millis(100));
    }
    let after = monitor.latest_counters();
    let took = |of: fn(&NodeCounters) -> f64| -> Vec<f64> {
        after.iter().zip(&before).map(|(after, before)| (of(after) - of(before)) / STEP.as_secs_f64() / 1e3).collect()
    };
    let (lines, segments) = (took(|counters| counters.accepted), took(|counters| counters.stored));
    let (ingest, stores) = (&lines[..=NODES], &segments[NODES + 1..]);
    let share = |of: &[f64]| of[NODES] / of.iter().sum::<f64>().max(1e-9);
    let _ = write!(text, "{name}");
    ingest.iter().chain(stores).for_each(|rate| *text += &format!(",{rate:.1}"));
    let _ = writeln!(text, ",{:.3},{:.3}", share(ingest), share(stores));
    eprintln!("{name:>7} s: share of the new ingest node {:.2}, of the new store {:.2}", share(ingest), share(stores));
}
