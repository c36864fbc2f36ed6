//! Measures the costs of a [`Calibration`] with nodes of its own: child processes of this program on free ports, with their
//! data in a temporary directory.
//!
//! - Without load: CPU of a node that waits. It is subtracted from what is measured under load.
//! - Accepting: a node without a store takes the sample in requests of two sizes, and with lines of two lengths; the CPU of
//!   each run is a linear equation in bytes, records and requests ([`accept`]).
//! - Storing: a node with both roles takes the same text; what it uses until all is merged, minus the cost of accepting, is that of storing.
//! - Commits: the histogram of group commits of that node while it takes the text and stores it.
//! - Questions: see [`questions`].
//!
//! Requests come at random moments of a rate that leaves the node idle for most of the time ([`paced`]): the costs are those of a node in
//! use, not of one at its limit. CPU is that of the node's process, by its own metric. Other load on the machine does not count as CPU,
//! but slows commits.

mod accept;
mod measured_node;
mod paced;
mod questions;
mod sample;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_capacity::{Calibration, MachineDescription, StoreCost, SyncTime};
use sysinfo::System;
use tokio::time::Instant;

use crate::node_client;
use crate::plan::built_in_calibration;
use crate::plan::metrics_text::MetricHistogram;
use crate::progress::Progress;
use measured_node::{MeasuredNode, MeasuredRoles};
use paced::PacedLoad;
use sample::Sample;

/// Bytes of each request to the measured store, their mean rate, and the time in which they are sent: long enough for some gathers,
/// which take what waits for ten seconds. Their segments are too large to be merged.
const REQUEST_BYTES: usize = 64 << 10;
const STORED_BYTES_PER_SECOND: f64 = 8e6;
const STORED_TIME: Duration = Duration::from_secs(24);

/// The histogram of the times of group commits.
const SYNC_SECONDS: &str = "bucksaw_ingest_sync_seconds";

/// A calibration and what was seen of the sample.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) calibration: Calibration,
    /// Mean bytes of a line of the sample, with its line end.
    pub(super) line_bytes: f64,
}

/// Measures this program on this machine with the lines of a file.
///
/// # Errors
/// The file cannot be read or has too little text, a node does not start or refuses the text, or the user interrupts.
pub(super) fn calibrate(path: &Path, scratch: &Path) -> anyhow::Result<Measured> {
    let sample = Sample::read(path)?;
    let directory = tempfile::Builder::new()
        .prefix("bucksaw-plan-")
        .tempdir_in(scratch)
        .with_context(|| format!("--scratch-dir: cannot create a directory in {}", scratch.display()))?;
    let runtime = node_client::runtime()?;
    let mut progress = Progress::new("measuring");
    // An interrupt drops the nodes, which ends them, and then the directory.
    runtime.block_on(async {
        tokio::select! {
            measured = progress.during(measure(&sample, directory.path(), path)) => measured,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    })
}

async fn measure(sample: &Sample, directory: &Path, path: &Path) -> anyhow::Result<Measured> {
    let (accept, ingest_node, queued) = accept::measure(sample, &directory.join("accept")).await?;
    let queued_costs = questions::measure_queued(&ingest_node, sample, queued).await?;
    drop(ingest_node);
    let mut node = MeasuredNode::start(&directory.join("store"), MeasuredRoles::Both).await?;
    let base_memory_bytes = node.metric("process_resident_memory_bytes").await?;
    let base_cores = node.base_cores().await?;

    let needles = questions::Needles::new()?;
    let bodies = sample.bodies(REQUEST_BYTES);
    let load = PacedLoad { bodies: &bodies, bytes_per_second: STORED_BYTES_PER_SECOND, time: STORED_TIME / 2 };
    let before = StoreReadings::of(&node).await?;
    let first = node.send(load).await?;
    let with_needles = needles.appended(sample.first_lines(REQUEST_BYTES), sample);
    node.ingest(with_needles.clone()).await?;
    let second = node.send(load).await?;
    let syncs = node.histogram(SYNC_SECONDS).await?.since(&before.syncs);
    let bytes = first.bytes + second.bytes + with_needles.len() as f64;
    node.wait_settled(bytes).await?;
    let after = StoreReadings::of(&node).await?;
    let requests = first.requests + second.requests + 1.0;
    let accepting = accept.seconds_per_byte * bytes
        + accept.seconds_per_record * (first.records + second.records)
        + accept.seconds_per_request * requests;
    let base = base_cores * (after.at - before.at).as_secs_f64();
    let stored = node.metric("bucksaw_store_stored_bytes").await?;
    let store = StoreCost {
        seconds_per_byte: ((after.cpu_seconds - before.cpu_seconds - base - accepting) / bytes).max(0.0),
        stored_per_byte: stored / bytes,
        written_per_byte: (after.written - before.written) / bytes,
    };
    let sync =
        SyncTime::from_histogram(&syncs.bounds, &syncs.counts, syncs.sum).context("the node committed nothing")?;

    let questions = questions::measure(&mut node, sample, &needles, (bytes, &queued_costs)).await?;
    let line_bytes = sample.line_bytes();
    let calibration = Calibration {
        version: Calibration::VERSION,
        machine: machine(path),
        base_cores,
        accept,
        sync,
        store,
        scaling: built_in_calibration()?.scaling,
        questions,
        base_memory_bytes,
    };
    calibration.check().context("the measurement failed")?;
    Ok(Measured { calibration, line_bytes })
}

/// What a store has done so far.
#[derive(Debug)]
struct StoreReadings {
    at: Instant,
    cpu_seconds: f64,
    written: f64,
    syncs: MetricHistogram,
}

impl StoreReadings {
    async fn of(node: &MeasuredNode) -> anyhow::Result<Self> {
        Ok(Self {
            written: node.metric("bucksaw_store_written_bytes_total").await?,
            syncs: node.histogram(SYNC_SECONDS).await?,
            cpu_seconds: node.cpu_seconds().await?,
            at: Instant::now(),
        })
    }
}

fn machine(path: &Path) -> MachineDescription {
    let mut system = System::new();
    system.refresh_memory();
    MachineDescription {
        processor: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        memory_bytes: system.total_memory(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        measured: jiff::Zoned::now().strftime("%Y-%m-%d").to_string(),
        sample: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// The name of the processor, where the kernel reports it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
