//! Measures the costs of a [`Calibration`] with nodes of its own: child processes of this program on free ports, with their
//! data in a temporary directory.
//!
//! - Without load: CPU of a node that waits. It is subtracted from what is measured under load.
//! - Accepting: a node without a store takes the sample in requests of two sizes, and with lines of two lengths; the CPU of
//!   each run is a linear equation in bytes, records and requests ([`accept`]).
//! - Storing: a node with both roles takes the same text slowly, so that it merges its segments, and faster, so that they are too large
//!   for it ([`store`]). What it uses until all is merged, minus the cost of accepting, is that of gathering and of merging.
//! - The bandwidth of the disk: files of two sizes with a sync each ([`disk`]).
//! - Commits: the histograms of group commits of that node while it takes the text of each load.
//! - Latency of requests: their times under both loads. Every second one is `fast`, so that its time has no group commit.
//! - Questions: see [`questions`].
//!
//! Requests come at random moments of a rate that leaves the node idle for most of the time ([`paced`]): the costs are those of a node in
//! use, not of one at its limit. CPU is that of the node's process, by its own metric. Other load on the machine does not count as CPU,
//! but slows commits.

mod accept;
mod disk;
mod measured_node;
mod median;
mod paced;
mod questions;
mod sample;
mod store;

use std::path::Path;

use anyhow::{Context as _, bail};
use bucksaw_capacity::{Calibration, MachineDescription};
use sysinfo::System;

use crate::node_client;
use crate::plan::built_in_calibration;
use crate::progress::Progress;
use measured_node::{MeasuredNode, MeasuredRoles};
use sample::Sample;
use store::StoreMeasurement;

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
    let disk_bytes_per_second = disk::bytes_per_second(directory, sample).await?;
    let (accept, ingest_node, queued) = accept::measure(sample, &directory.join("accept")).await?;
    let queued_questions = questions::measure_queued(&ingest_node, sample, queued).await?;
    drop(ingest_node);
    let mut node = MeasuredNode::start(&directory.join("store"), MeasuredRoles::Both).await?;
    let base_memory_bytes = node.metric("process_resident_memory_bytes").await?;
    let base_cores = node.base_cores().await?;
    let needles = questions::Needles::new()?;
    let StoreMeasurement { store, requests, bytes } =
        store::measure(&node, sample, &needles, (&accept, base_cores)).await?;
    let questions = questions::measure(&mut node, sample, &needles, (bytes, &queued_questions)).await?;
    let line_bytes = sample.line_bytes();
    let calibration = Calibration {
        version: Calibration::VERSION,
        machine: machine(path),
        base_cores,
        disk_bytes_per_second,
        accept,
        requests,
        store,
        scaling: built_in_calibration()?.scaling,
        questions,
        base_memory_bytes,
    };
    calibration.check().context("the measurement failed")?;
    Ok(Measured { calibration, line_bytes })
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
