//! Measures the throughput of one, two and three pairs of an ingest node and a store, each process limited to a
//! fraction of a core.
//!
//! The fractions are so small that all pairs and their feeders leave most of two cores idle. So the limits determine
//! the result, not the machine. Feeders write prepared text to sockets as fast as the nodes read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bucksaw_model::{Estimate, ScalabilityFit};

use crate::cgroup::Cgroup;
use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::http::get;
use crate::ledger::Ledger;
use crate::monitor::Metrics;

/// Connections to each ingest node; one may not saturate it.
const FEEDERS: usize = 2;

/// Lines that a feeder repeats.
const LINES: usize = 50_000;

/// Large enough for throughput, small enough that a store with a fraction of a core fetches several during a
/// measurement.
const SEGMENTS: [&str; 4] = ["--segment-max-bytes", "4MB", "--store-segment-bytes", "8MB"];

/// The period of the CPU limits: short, so that no process waits long.
const PERIOD: Duration = Duration::from_millis(50);

/// The timeout of a node with a fraction of a core.
const ASK_MAX: Duration = Duration::from_secs(10);

/// The unit of CPU time in `/proc`, independent of the kernel's timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct ScalingOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// CPU limit of each ingest node in percent of a core. It needs less than a store for the same lines.
    pub ingest_percent: u64,
    /// CPU limit of each store in percent of a core.
    pub store_percent: u64,
    /// The warm-up: connections are made and the first segments fetched.
    pub warm: Duration,
    /// The duration of each measurement.
    pub time: Duration,
    /// The maximum number of pairs.
    pub pairs: usize,
    /// The number of measurements of each number of pairs; the median counts.
    pub rounds: usize,
}

/// The result of all pairs together.
#[derive(Clone, Copy, Debug, Default)]
struct ScalingFigures {
    /// MB per second accepted and consumed.
    accepted: f64,
    consumed: f64,
    /// Seconds of CPU per MB accepted by ingest nodes and consumed by stores.
    ingest_cpu: f64,
    store_cpu: f64,
    /// Cores used by all nodes together.
    cores: f64,
}

/// Measures, prints progress and the fitted scalability law, and returns CSV.
///
/// # Errors
/// The processes cannot be limited, or a node does not start.
pub fn scale(scaling: &ScalingOptions) -> anyhow::Result<String> {
    let mut measured: BTreeMap<usize, Vec<ScalingFigures>> = BTreeMap::new();
    for round in 1..=scaling.rounds {
        for pairs in 1..=scaling.pairs {
            let figures = measure(scaling, pairs)?;
            let ScalingFigures { accepted, consumed, cores, .. } = figures;
            eprintln!(
                "round {round}, {pairs} pairs: {accepted:.2} MB/s accepted, {consumed:.2} consumed, {cores:.2} cores"
            );
            measured.entry(pairs).or_default().push(figures);
        }
    }
    eprintln!("accepted: {}", law(&measured, |figures| figures.accepted));
    eprintln!("consumed: {}", law(&measured, |figures| figures.consumed));
    let mut text =
        "pairs,round,ingest_core_percent,store_core_percent,accepted_mb_s,consumed_mb_s,ingest_cpu_s_per_mb,\
                    store_cpu_s_per_mb,cores,over_one_pair,consumed_over_one_pair\n"
            .to_owned();
    let one = measured.get(&1).map(|of| median(of)).unwrap_or_default();
    for (pairs, rounds) in &measured {
        let named = rounds.iter().enumerate().map(|(at, figures)| ((at + 1).to_string(), *figures));
        for (round, figures) in named.chain([("median".to_owned(), median(rounds))]) {
            let ScalingFigures { accepted, consumed, ingest_cpu, store_cpu, cores } = figures;
            let _ = writeln!(
                text,
                "{pairs},{round},{},{},{accepted:.3},{consumed:.3},{ingest_cpu:.5},{store_cpu:.5},{cores:.3},{:.3},{:.3}",
                scaling.ingest_percent,
                scaling.store_percent,
                accepted / one.accepted,
                consumed / one.consumed
            );
        }
    }
    Ok(text)
}

/// The universal scalability law of all rounds, with 95 % bounds.
fn law(measured: &BTreeMap<usize, Vec<ScalingFigures>>, throughput: fn(&ScalingFigures) -> f64) -> String {
    let points: Vec<(f64, f64)> = measured
        .iter()
        .flat_map(|(pairs, rounds)| rounds.iter().map(move |figures| (*pairs as f64, throughput(figures))))
        .collect();
    let estimate = |estimate: Estimate| match estimate.bounds {
        Some((low, high)) => format!("{:.4} ({low:.4} to {high:.4})", estimate.value),
        None => format!("{:.4}", estimate.value),
    };
    match ScalabilityFit::from_measurements(&points) {
        Ok(fit) => format!(
            "one pair {} MB/s, contention {}, coherence {}",
            estimate(fit.one),
            estimate(fit.contention),
            estimate(fit.coherence)
        ),
        Err(error) => format!("no scalability law: {error}"),
    }
}

fn median(rounds: &[ScalingFigures]) -> ScalingFigures {
    let of = |what: fn(&ScalingFigures) -> f64| {
        let mut sorted: Vec<f64> = rounds.iter().map(what).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    ScalingFigures {
        accepted: of(|figures| figures.accepted),
        consumed: of(|figures| figures.consumed),
        ingest_cpu: of(|figures| figures.ingest_cpu),
        store_cpu: of(|figures| figures.store_cpu),
        cores: of(|figures| figures.cores),
    }
}

fn measure(scaling: &ScalingOptions, pairs: usize) -> anyhow::Result<ScalingFigures> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let common = FleetConfig::new(&scaling.bucksaw, home.path(), 1, false)?;
    let mut groups = Vec::new();
    let mut nodes = Vec::new();
    for place in 0..2 * pairs {
        let role = if place % 2 == 0 { FleetRole::Ingest } else { FleetRole::Store };
        let mut node = FleetNode::new(&common, role, place / 2 + 1, place as u8)?;
        let percent = if role == FleetRole::Ingest { scaling.ingest_percent } else { scaling.store_percent };
        let group = Cgroup::with_cpu_limit(&node.name.replace(' ', "-"), percent, PERIOD, &common.cleanup)?;
        node.cgroup = Some(group.procs());
        node.segment_arguments = SEGMENTS.map(str::to_owned).to_vec();
        groups.push(group);
        nodes.push(node);
    }
    fleet::start(&mut nodes)?;
    let stop = Arc::<AtomicBool>::default();
    for (number, node) in nodes.iter().filter(|node| node.role == FleetRole::Ingest).enumerate() {
        for part in 0..FEEDERS {
            let ledger = Ledger::new(format!("feeder{}", number * FEEDERS + part));
            let (text, at, stop) = (ledger.text(ledger.next(LINES)), node.durable(), Arc::clone(&stop));
            thread::spawn(move || feed(at, &text, &stop));
        }
    }
    thread::sleep(scaling.warm);
    let before = ClusterTotals::read(&nodes)?;
    thread::sleep(scaling.time);
    let after = ClusterTotals::read(&nodes)?;
    stop.store(true, Ordering::Relaxed);
    drop(nodes);
    drop(groups);
    Ok(after.since(&before))
}

/// Writes the text repeatedly until it is stopped or the node is no longer a member.
fn feed(at: SocketAddr, text: &[u8], stop: &AtomicBool) {
    let Ok(mut socket) = TcpStream::connect(at) else { return };
    while !stop.load(Ordering::Relaxed) && socket.write_all(text).is_ok() {}
}

/// The totals of all nodes.
struct ClusterTotals {
    at: Instant,
    accepted: f64,
    consumed: f64,
    ingest_cpu: f64,
    store_cpu: f64,
}

impl ClusterTotals {
    fn read(nodes: &[FleetNode]) -> anyhow::Result<Self> {
        let mut sums = Self { at: Instant::now(), accepted: 0.0, consumed: 0.0, ingest_cpu: 0.0, store_cpu: 0.0 };
        for node in nodes {
            let cpu = cpu_seconds(node.pid().context("it does not run")?)?;
            match node.role {
                FleetRole::Ingest => sums.ingest_cpu += cpu,
                FleetRole::Store | FleetRole::Both => sums.store_cpu += cpu,
            }
            let answer = get(node.http(), "/metrics", ASK_MAX).with_context(|| node.name.clone())?;
            let metrics = Metrics::read(&String::from_utf8_lossy(&answer.body));
            sums.accepted += metrics.sum("bucksaw_ingest_bytes_total") / 1e6;
            sums.consumed += metrics.sum("bucksaw_ingest_consumed_bytes_total") / 1e6;
        }
        Ok(sums)
    }

    fn since(&self, before: &Self) -> ScalingFigures {
        let seconds = (self.at - before.at).as_secs_f64();
        let (accepted, consumed) = (self.accepted - before.accepted, self.consumed - before.consumed);
        let (ingest_cpu, store_cpu) = (self.ingest_cpu - before.ingest_cpu, self.store_cpu - before.store_cpu);
        ScalingFigures {
            accepted: accepted / seconds,
            consumed: consumed / seconds,
            ingest_cpu: ingest_cpu / accepted,
            store_cpu: store_cpu / consumed,
            cores: (ingest_cpu + store_cpu) / seconds,
        }
    }
}

/// The CPU time of a process.
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_per_figure() {
        let of = |accepted, cores| ScalingFigures { accepted, cores, ..ScalingFigures::default() };
        let median = median(&[of(1.0, 9.0), of(3.0, 7.0), of(2.0, 8.0)]);
        assert_eq!((median.accepted, median.cores), (2.0, 8.0));
    }

    #[test]
    fn the_law_of_perfect_scaling_has_no_costs() {
        let of = |pairs: usize| (pairs, vec![ScalingFigures { consumed: 5.0 * pairs as f64, ..Default::default() }; 2]);
        let text = law(&BTreeMap::from([of(1), of(2), of(3)]), |figures| figures.consumed);
        assert!(text.contains("contention 0.0000 (") && text.contains("one pair 5.0000"), "{text}");
        assert!(law(&BTreeMap::from([of(1)]), |figures| figures.consumed).starts_with("no scalability law"), "{text}");
    }

    #[test]
    fn cpu_time_of_this_process_increases() {
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }
}
