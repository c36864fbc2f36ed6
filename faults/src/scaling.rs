//! How much more one, two and three pairs of an ingest node and a store take in, each process with a fraction of a core.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use crate::cgroup::Cgroup;
use crate::fleet::{Common, Node, Role};
use crate::ledger::Ledger;
use crate::load::Forwarder;
use crate::watch::{Told, Watch};

/// Forwarders of each ingest node; one alone might not fill it.
const FORWARDERS: usize = 2;

/// More lines a second than a node with a fraction of a core takes.
const RATE: usize = 100_000;

/// Large enough for throughput, and small enough that a store with a fraction of a core takes several meanwhile.
const SEGMENTS: [&str; 4] = ["--segment-max-bytes", "4MB", "--store-segment-bytes", "8MB"];

/// What is not measured: connections are made, the first segments pass.
const WARM: Duration = Duration::from_secs(10);

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The program.
    pub bucksaw: PathBuf,
    /// Hundredths of a core for each ingest node, which needs less than a store for as many lines.
    pub ingest_percent: u64,
    /// Hundredths of a core for each store.
    pub store_percent: u64,
    /// How long each number of pairs is measured.
    pub time: Duration,
    /// The most pairs.
    pub pairs: usize,
}

/// Measures, prints as it goes, and returns a table of comma-separated values.
///
/// # Errors
/// When the processes cannot be limited, or a node does not start.
pub fn scale(scaling: &Scaling) -> anyhow::Result<String> {
    let mut text =
        "pairs,ingest_core_percent,store_core_percent,accepted_mb_s,consumed_mb_s,over_one_pair,consumed_over_one_pair\n".to_owned();
    let mut one = None;
    for pairs in 1..=scaling.pairs {
        let (accepted, consumed) = measure(scaling, pairs)?;
        let (first, second) = *one.get_or_insert((accepted, consumed));
        let _ = writeln!(
            text,
            "{pairs},{},{},{accepted:.2},{consumed:.2},{:.2},{:.2}",
            scaling.ingest_percent,
            scaling.store_percent,
            accepted / first,
            consumed / second
        );
        eprintln!("{pairs} pairs: {accepted:.2} MB/s accepted, {consumed:.2} MB/s consumed");
    }
    Ok(text)
}

/// MB a second that were accepted, and consumed.
fn measure(scaling: &Scaling, pairs: usize) -> anyhow::Result<(f64, f64)> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let common = Common::new(&scaling.bucksaw, home.path(), 1, false)?;
    let mut groups = Vec::new();
    let mut nodes = Vec::new();
    for place in 0..2 * pairs {
        let role = if place % 2 == 0 { Role::Ingest } else { Role::Store };
        let mut node = Node::new(&common, role, place / 2 + 1, place as u8)?;
        let percent = if role == Role::Ingest { scaling.ingest_percent } else { scaling.store_percent };
        let group = Cgroup::new(&node.name.replace(' ', "-"), percent, &common.minder)?;
        node.cgroup = Some(group.procs());
        node.segments = SEGMENTS.map(str::to_owned).to_vec();
        groups.push(group);
        nodes.push(node);
    }
    nodes.iter_mut().try_for_each(Node::begin)?;
    nodes.iter_mut().try_for_each(Node::wait_ready)?;
    let watch = Watch::new(nodes.iter().map(Node::http).collect(), Vec::new(), Vec::new());
    watch.look_on();
    let stop = Arc::<AtomicBool>::default();
    let mut forwarders = Vec::new();
    for (number, node) in nodes.iter().filter(|node| node.role == Role::Ingest).enumerate() {
        for part in 0..FORWARDERS {
            let ledger = Arc::new(Ledger::new(format!("forwarder{}", number * FORWARDERS + part)));
            let (bucksaw, minder) = (&common.bucksaw, &common.minder);
            forwarders.push(Forwarder::start(bucksaw, home.path(), minder, &ledger, &[node.durable()], RATE, &stop)?);
        }
    }
    thread::sleep(WARM);
    let sum = |of: fn(&Told) -> f64| watch.told().iter().map(of).sum::<f64>();
    let read = || (watch.now(), sum(|told| told.accepted), sum(|told| told.consumed));
    let before = read();
    thread::sleep(scaling.time);
    let after = read();
    stop.store(true, Ordering::Relaxed);
    watch.stop();
    let seconds = (after.0 - before.0).as_secs_f64();
    // Forwarders are killed with what they still hold: nothing is looked for here.
    drop(forwarders);
    drop(nodes);
    drop(groups);
    Ok(((after.1 - before.1) / seconds / 1e6, (after.2 - before.2) / seconds / 1e6))
}
