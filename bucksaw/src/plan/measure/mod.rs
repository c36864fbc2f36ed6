//! Measures the costs of a [`Calibration`] with nodes of its own: child processes of this program on free ports, with their
//! data in a temporary directory.
//!
//! - Accepting: a node without a store takes the sample in requests of two sizes, and with lines of two lengths; the CPU of
//!   each run is a linear equation in bytes, records and requests ([`accept`]).
//! - Storing: a node with both roles takes the same text; what it uses until all is merged, minus the cost of accepting, is that of storing.
//! - Commits: the node's histogram of group commits, over small requests one after the other.
//! - Without load: CPU of a node that waits, after all of the above.
//! - Questions: see [`questions`].
//!
//! CPU is that of the node's process, by its own metric. Other load on the machine does not count as CPU, but slows commits.

mod accept;
mod measured_node;
mod questions;
mod sample;

use std::path::Path;

use anyhow::{Context as _, bail};
use bucksaw_capacity::{Calibration, MachineDescription, StoreCost, SyncTime};
use bucksaw_model::Distribution;
use bytes::Bytes;
use sysinfo::System;

use crate::node_client;
use crate::plan::built_in_calibration;
use crate::progress::Progress;
use measured_node::{MeasuredNode, MeasuredRoles};
use sample::Sample;

/// Bytes of text that the measured store takes: the size of a full segment.
const STORED_BYTES: usize = 128 << 20;

/// Bytes of each request to it.
const REQUEST_BYTES: usize = 1 << 20;

/// Requests whose commits are measured.
const COMMITS: usize = 200;

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

    let needles = questions::Needles::new()?;
    let before = node.cpu_seconds().await?;
    let (mut bytes, mut records, mut requests) = (0_usize, 0.0, 0.0);
    while bytes < STORED_BYTES {
        for mut body in sample.bodies(REQUEST_BYTES) {
            if (bytes..bytes + body.len()).contains(&(STORED_BYTES / 2)) {
                body = needles.appended(&body, sample);
            }
            bytes += body.len();
            records += body.iter().filter(|byte| **byte == b'\n').count() as f64;
            requests += 1.0;
            node.ingest(body, "fast").await?;
        }
    }
    node.wait_settled(bytes as u64).await?;
    let used = node.cpu_seconds().await? - before;
    let bytes = bytes as f64;
    let accepting =
        accept.seconds_per_byte * bytes + accept.seconds_per_record * records + accept.seconds_per_request * requests;
    let stored = node.metric("bucksaw_store_stored_bytes").await?;
    let written = node.metric("bucksaw_store_written_bytes_total").await?;
    let store = StoreCost {
        seconds_per_byte: ((used - accepting) / bytes).max(0.0),
        stored_per_byte: stored / bytes,
        written_per_byte: written / bytes,
    };

    let questions = questions::measure(&mut node, sample, &needles, (bytes, &queued_costs)).await?;
    let sync = commits(&node, sample).await?;
    let base_cores = node.base_cores().await?;
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

/// The time of group commits, from the histogram of the node.
async fn commits(node: &MeasuredNode, sample: &Sample) -> anyhow::Result<SyncTime> {
    let before = node.histogram("bucksaw_ingest_sync_seconds").await?;
    let body = Bytes::copy_from_slice(sample.first_lines(REQUEST_BYTES / 256));
    for _ in 0..COMMITS {
        node.ingest(body.clone(), "durable").await?;
    }
    let after = node.histogram("bucksaw_ingest_sync_seconds").await?;
    let counts: Vec<f64> = after.counts.iter().zip(&before.counts).map(|(after, before)| after - before).collect();
    let count: f64 = counts.iter().sum();
    if count < 1.0 {
        bail!("the node committed nothing");
    }
    let times = Distribution::from_histogram(&after.bounds, &counts).context("the node's histogram cannot be read")?;
    Ok(SyncTime { mean_seconds: (after.sum - before.sum) / count, variation: times.variation() })
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
