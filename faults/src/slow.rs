//! Measures whether a node that is paused or refuses clients lowers the rates of clients of other nodes.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Signal;

use crate::fleet::{self, FleetConfig, FleetNode};
use crate::ledger::Ledger;
use crate::load::Forwarder;
use crate::monitor::ClusterMonitor;

/// Nodes of each role, and forwarders of each ingest node.
const NODES: usize = 3;
const FORWARDERS: usize = 2;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct SlowOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// Lines per second of each forwarder.
    pub rate: usize,
    /// The duration of each phase.
    pub time: Duration,
}

/// Measures, and returns CSV: for each phase and forwarder its node and its accepted rate.
///
/// # Errors
/// A node does not start.
pub fn measure_slow(slow: &SlowOptions) -> anyhow::Result<String> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let common = FleetConfig::new(&slow.bucksaw, home.path(), 2, false)?;
    let mut nodes = fleet::pairs(&common, NODES)?;
    fleet::start(&mut nodes)?;
    let ledgers: Vec<Arc<Ledger>> =
        (1..=NODES * FORWARDERS).map(|number| Arc::new(Ledger::new(format!("forwarder{number}")))).collect();
    let monitor = ClusterMonitor::new(nodes.iter().map(FleetNode::http).collect(), Vec::new(), ledgers.clone());
    monitor.start_polling();
    let stop = Arc::<AtomicBool>::default();
    let mut forwarders = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        let to = [nodes[number % NODES].durable()];
        let (bucksaw, cleanup) = (&common.bucksaw, &common.cleanup);
        forwarders.push(Forwarder::start(bucksaw, home.path(), cleanup, ledger, &to, slow.rate, &stop)?);
    }
    thread::sleep(Duration::from_secs(3));
    let mut text = "phase,node,accepted_mb_s\n".to_owned();
    for phase in ["baseline", "ingest 3 paused", "baseline again", "ingest 3 refuses"] {
        match phase {
            "ingest 3 paused" => nodes[NODES - 1].signal(Signal::STOP)?,
            "ingest 3 refuses" => nodes[NODES - 1].kill(),
            _ => {}
        }
        let before = (monitor.now(), monitor.latest_counters());
        thread::sleep(slow.time);
        let after = (monitor.now(), monitor.latest_counters());
        let seconds = (after.0 - before.0).as_secs_f64();
        for (place, node) in nodes.iter().enumerate().take(NODES) {
            let rate = (after.1[place].accepted - before.1[place].accepted) / seconds / 1e6;
            let _ = writeln!(text, "{phase},{},{rate:.3}", node.name);
        }
        if phase == "ingest 3 paused" {
            nodes[NODES - 1].signal(Signal::CONT)?;
            thread::sleep(Duration::from_secs(3));
        }
    }
    stop.store(true, Ordering::Relaxed);
    monitor.stop();
    Ok(text)
}
