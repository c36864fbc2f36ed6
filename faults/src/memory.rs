//! Whether a node keeps within a memory limit: everything that takes memory at the same time, in a control group.
//!
//! Each node is in a group of its own, so a node that needs more than the limit is killed by the kernel, which ends the
//! run. What was acknowledged is counted at the end.

mod load;

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

/// How often the groups are looked at.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// How long the queue may take to be empty when the load has ended.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// How long copies may take to be restored: with little memory some 20,000 records a second are.
const RESTORE_MAX: Duration = Duration::from_secs(5_400);

/// How long a count may take.
const ASK_MAX: Duration = Duration::from_secs(120);

/// How often is printed how far repair is.
const PROGRESS: Duration = Duration::from_secs(30);

/// How it is measured.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// The limit of each node, in bytes.
    pub limit: u64,
    /// How long the load lasts.
    pub time: Duration,
    /// One node alone, or three that keep each record twice, of which one loses its disk.
    pub nodes: usize,
    /// Connections that hold an unfinished line.
    pub connections: usize,
    /// Only these kinds of clients; all when empty.
    pub only: Vec<String>,
    /// Further arguments of the nodes.
    pub extra_arguments: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
struct MemoryFigures {
    accepted_mb: f64,
    /// The most, of any node: anonymous memory, and all that counted.
    rss_mb: f64,
    used_mb: f64,
    answers: u64,
    refused: u64,
    bombs: u64,
    acknowledged: u64,
    restored_s: f64,
}

/// Measures, and returns a table of comma-separated values.
///
/// # Errors
/// When there are no control groups, when a node is killed, and when a record that was acknowledged is missing.
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
        // The usual sizes: those for small runs would hide what large ones take.
        node.segment_arguments = vec!["--segment-max-age".into(), "3s".into()];
        node.extra_arguments.clone_from(&memory.extra_arguments);
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
    // All that was taken reaches the store.
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
        let found = complete_count(first.http(), &format!("writer%3D{writer}"));
        let found = found.with_context(|| format!("{writer}: no complete answer"))?;
        if found != *acknowledged {
            bail!("{writer}: {acknowledged} records were acknowledged, and {found} are found");
        }
        figures.acknowledged += acknowledged;
    }
    (figures.answers, figures.refused, figures.bombs) = (counts.answers, counts.refused, counts.bombs);
    nodes.iter_mut().try_for_each(FleetNode::stop)?;
    Ok(table(memory, &figures))
}

/// Looks at the nodes until `done`, or for so long. `done` may say that it takes too long only by the time.
fn watch(
    nodes: &mut [FleetNode],
    groups: &[Cgroup],
    time: Duration,
    figures: &mut MemoryFigures,
    done: impl Fn(&[FleetNode]) -> bool,
) -> anyhow::Result<()> {
    let (started, mut told_at) = (Instant::now(), Instant::now());
    while started.elapsed() < time && !done(nodes) {
        for (node, group) in nodes.iter_mut().zip(groups) {
            let usage = group.usage()?;
            update_peaks(figures, &usage);
            if told_at.elapsed() > Duration::from_secs(5) {
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
                    "{} ended after {:.0} s with {status}, {} killed by the kernel, {:.0} MB anonymous at most:\n{last}",
                    node.name,
                    started.elapsed().as_secs_f64(),
                    usage.killed,
                    figures.rss_mb
                );
            }
        }
        if told_at.elapsed() > Duration::from_secs(5) {
            told_at = Instant::now();
        }
        thread::sleep(POLL_PERIOD);
    }
    Ok(())
}

fn update_peaks(figures: &mut MemoryFigures, usage: &MemoryUsage) {
    figures.rss_mb = figures.rss_mb.max(usage.anonymous as f64 / 1e6);
    figures.used_mb = figures.used_mb.max(usage.peak as f64 / 1e6);
}

/// Takes the disk of the last node away, and waits until the stores hold each record twice. Returns the seconds.
fn restore(nodes: &mut [FleetNode], groups: &[Cgroup], figures: &mut MemoryFigures) -> anyhow::Result<f64> {
    let first = nodes.first().context("no node")?.http();
    let records = complete_count(first, "").context("no complete answer")?;
    let wanted = records * 2;
    let held = |nodes: &[FleetNode]| nodes.iter().filter_map(crate::replication::stored_records_of).sum::<u64>();
    let before = held(nodes);
    if before < wanted {
        bail!("the stores hold {before} of {wanted} copies before a repair");
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
            eprintln!("{now} of {wanted} copies after {:.0} s\n{}", started.elapsed().as_secs_f64(), repairs(nodes));
        }
        now >= wanted
    })?;
    let after = held(nodes);
    if after < wanted {
        bail!("the stores hold {after} of {wanted} copies after a repair\n{}", repairs(nodes));
    }
    Ok(started.elapsed().as_secs_f64())
}

/// What each store reports of its repair.
fn repairs(nodes: &[FleetNode]) -> String {
    let of = |node: &FleetNode| {
        crate::replication::repair(node).map_or_else(|| "no answer".into(), |repair| repair.to_string())
    };
    nodes.iter().map(|node| format!("{}: {}", node.name, of(node))).collect::<Vec<_>>().join("\n")
}

/// Counts records; none when no answer was complete for ten minutes: little memory makes counts slow.
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
