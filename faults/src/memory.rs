//! Checks that a node stays within a memory limit while everything that takes memory runs at once.
//!
//! Each node has its own control group, so the kernel kills a node that exceeds the limit, which ends the run.
//! Acknowledged records are counted at the end.

mod load;
mod load_state;
mod senders;

use std::cell::Cell;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cgroup::{Cgroup, MemoryUsage};
use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::http::get;
use crate::log::last_lines;
use crate::monitor::{Metrics, count_within};
use load::{LoadCorpus, MemoryLoad};

/// The interval of samples.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// The maximum time until the queue is empty after the load.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// The maximum time of re-replication. With little memory it runs at about 20,000 records per second.
const RESTORE_MAX: Duration = Duration::from_secs(5_400);

/// The timeout of a count.
const ASK_MAX: Duration = Duration::from_secs(120);

/// The interval of progress lines of the repair.
const PROGRESS: Duration = Duration::from_secs(30);

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// The memory limit of each node in bytes.
    pub limit: u64,
    /// The duration of the load.
    pub time: Duration,
    /// One node, or three with replication factor 2, of which one loses its disk.
    pub nodes: usize,
    /// Connections that hold an unfinished line.
    pub connections: usize,
    /// Runs only these kinds of clients; all if empty.
    pub only: Vec<String>,
    /// Additional arguments of the nodes.
    pub extra_arguments: Vec<String>,
}

/// The result of a phase.
#[derive(Clone, Debug, Default)]
struct MemoryFigures {
    accepted_mb: f64,
    /// Maximum anonymous memory and maximum charged memory of any node.
    rss_mb: f64,
    used_mb: f64,
    answers: u64,
    refused: u64,
    bombs: u64,
    acknowledged: u64,
    restored_s: f64,
}

/// Measures, and returns CSV.
///
/// # Errors
/// Control groups are unavailable, a node is killed, or an acknowledged record is missing.
pub fn limit_memory(memory: &MemoryOptions) -> anyhow::Result<String> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let copies = if memory.nodes > 1 { 2 } else { 1 };
    let common = FleetConfig::new(&memory.bucksaw, home.path(), copies, false)?;
    let (mut nodes, mut groups) = (Vec::new(), Vec::new());
    for place in 0..memory.nodes {
        let mut node = FleetNode::new(&common, FleetRole::Both, place + 1, place as u8)?;
        let group = Cgroup::with_memory_limit(&format!("memory-{}", place + 1), memory.limit, &common.cleanup)?;
        node.cgroup = Some(group.procs());
        if memory.nodes == 1 {
            node.join = node.ip;
        }
        // The default sizes: those of small runs would hide the memory of large ones.
        node.segment_arguments = vec!["--segment-max-age".into(), "3s".into()];
        node.extra_arguments = [senders::arguments(node.ip), memory.extra_arguments.clone()].concat();
        nodes.push(node);
        groups.push(group);
    }
    fleet::start(&mut nodes)?;
    let corpus = Arc::new(LoadCorpus::generate(&memory.bucksaw)?);
    let at = nodes.iter().map(FleetNode::http).zip(nodes.iter().map(FleetNode::durable)).collect();
    let load = MemoryLoad::start(&corpus, at, memory.connections, &memory.only);
    let mut figures = MemoryFigures::default();
    let watched = watch(&mut nodes, &groups, memory.time, &mut figures, |_| false);
    load.stop();
    watched?;
    let counts = load.finish();
    // All accepted records reach the store.
    let settled =
        |nodes: &[FleetNode]| nodes.iter().all(|node| read_metric(node, "bucksaw_ingest_pending_bytes") == Some(0.0));
    watch(&mut nodes, &groups, SETTLE_MAX, &mut figures, settled)?;
    figures.accepted_mb =
        nodes.iter().filter_map(|node| read_metric(node, "bucksaw_ingest_bytes_total")).sum::<f64>() / 1e6;
    if memory.nodes > 1 {
        figures.restored_s = restore(&mut nodes, &groups, &mut figures)?;
    }
    let first = nodes.first().context("no node")?;
    for (writer, acknowledged) in &counts.writers {
        let found = complete_count(first.http(), writer);
        let found = found.with_context(|| format!("{writer}: no complete answer"))?;
        if found != *acknowledged {
            bail!("{writer}: {acknowledged} records were acknowledged, {found} are found");
        }
        figures.acknowledged += acknowledged;
    }
    (figures.answers, figures.refused, figures.bombs) = (counts.answers, counts.refused, counts.bombs);
    nodes.iter_mut().try_for_each(FleetNode::stop)?;
    Ok(table(memory, &figures))
}

/// Samples the nodes until `done` or until the time is over. `done` reports that it takes too long only by the time.
fn watch(
    nodes: &mut [FleetNode],
    groups: &[Cgroup],
    time: Duration,
    figures: &mut MemoryFigures,
    done: impl Fn(&[FleetNode]) -> bool,
) -> anyhow::Result<()> {
    let (started, mut reported_at) = (Instant::now(), Instant::now());
    while started.elapsed() < time && !done(nodes) {
        for (node, group) in nodes.iter_mut().zip(groups) {
            let usage = group.usage()?;
            update_peaks(figures, &usage);
            if reported_at.elapsed() > Duration::from_secs(5) {
                eprintln!(
                    "{} at {:.0} s: {:.0} MB anonymous (at most {:.0}), {:.0} MB in all",
                    node.name,
                    started.elapsed().as_secs_f64(),
                    usage.anonymous as f64 / 1e6,
                    figures.rss_mb,
                    usage.total as f64 / 1e6
                );
            }
            if let Some(status) = node.try_wait() {
                let last = last_lines(&node.log());
                bail!(
                    "{} ended after {:.0} s with {status}, {} killed by the kernel, {:.0} MB anonymous maximum:\n{last}",
                    node.name,
                    started.elapsed().as_secs_f64(),
                    usage.killed,
                    figures.rss_mb
                );
            }
        }
        if reported_at.elapsed() > Duration::from_secs(5) {
            reported_at = Instant::now();
        }
        thread::sleep(POLL_PERIOD);
    }
    Ok(())
}

fn update_peaks(figures: &mut MemoryFigures, usage: &MemoryUsage) {
    figures.rss_mb = figures.rss_mb.max(usage.anonymous as f64 / 1e6);
    figures.used_mb = figures.used_mb.max(usage.peak as f64 / 1e6);
}

/// Removes the disk of the last node, waits until the records are re-replicated, and returns the seconds.
fn restore(nodes: &mut [FleetNode], groups: &[Cgroup], figures: &mut MemoryFigures) -> anyhow::Result<f64> {
    let first = nodes.first().context("no node")?.http();
    let records = complete_count(first, "").context("no complete answer")?;
    let wanted = records * 2;
    let held = |nodes: &[FleetNode]| nodes.iter().filter_map(crate::replication::stored_records_of).sum::<u64>();
    let before = held(nodes);
    if before < wanted {
        bail!("the stores hold {before} of {wanted} replicas before the repair");
    }
    let last = nodes.last_mut().context("no node")?;
    last.empty()?;
    last.spawn()?;
    last.wait_ready()?;
    let started = Instant::now();
    let printed = Cell::new(started);
    watch(nodes, groups, RESTORE_MAX, figures, |nodes| {
        let now = held(nodes);
        if printed.get().elapsed() > PROGRESS {
            printed.set(Instant::now());
            eprintln!("{now} of {wanted} replicas after {:.0} s\n{}", started.elapsed().as_secs_f64(), repairs(nodes));
        }
        now >= wanted
    })?;
    let after = held(nodes);
    if after < wanted {
        bail!("the stores hold {after} of {wanted} replicas after the repair\n{}", repairs(nodes));
    }
    Ok(started.elapsed().as_secs_f64())
}

/// The repair state of each store.
fn repairs(nodes: &[FleetNode]) -> String {
    let of = |node: &FleetNode| {
        crate::replication::repair(node).map_or_else(|| "no answer".into(), |repair| repair.to_string())
    };
    nodes.iter().map(|node| format!("{}: {}", node.name, of(node))).collect::<Vec<_>>().join("\n")
}

/// Counts records; `None` without a complete answer in ten minutes, because little memory makes counts slow.
fn complete_count(at: SocketAddr, filter: &str) -> Option<u64> {
    let until = Instant::now() + SETTLE_MAX;
    loop {
        let found = count_within(ASK_MAX, at, filter, 0);
        if found.is_some() || Instant::now() > until {
            return found;
        }
        thread::sleep(POLL_PERIOD);
    }
}

fn read_metric(node: &FleetNode, metric: &str) -> Option<f64> {
    let answer = get(node.http(), "/metrics", Duration::from_secs(10)).ok().filter(|answer| answer.status == 200)?;
    Some(Metrics::read(&String::from_utf8_lossy(&answer.body)).sum(metric))
}

fn table(memory: &MemoryOptions, figures: &MemoryFigures) -> String {
    let mut text = "limit_mb,nodes,seconds,accepted_mb,anonymous_mb,used_mb,answers,refused,bombs,\
                    acknowledged,restored_s\n"
        .to_owned();
    let MemoryFigures { accepted_mb, rss_mb, used_mb, answers, refused, bombs, acknowledged, restored_s } = figures;
    let (limit, seconds) = (memory.limit as f64 / 1e6, memory.time.as_secs());
    let _ = writeln!(
        text,
        "{limit:.0},{},{seconds},{accepted_mb:.0},{rss_mb:.0},{used_mb:.0},{answers},{refused},{bombs},\
         {acknowledged},{restored_s:.0}",
        memory.nodes
    );
    text
}
