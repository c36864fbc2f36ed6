//! The CPU of accepting records, as a linear function of bytes, records, requests and group commits.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bucksaw_capacity::AcceptCost;
use tokio::time::Instant;

use super::measured_node::{MeasuredNode, MeasuredRoles};
use super::paced::PacedLoad;
use super::sample::Sample;
use crate::plan::least_squares::{Observation, fit};

/// Bytes of a request in the runs with large ones, and in the runs with small ones.
const LARGE_BYTES: usize = 256 << 10;
const SMALL_BYTES: usize = 32 << 10;

/// How many lines are one in the runs with long lines.
const JOINED_LINES: usize = 8;

/// The mean rates, and the time of a run: some seconds of the usual load of a small node, and small requests so often that many share
/// a commit.
const LARGE_BYTES_PER_SECOND: f64 = 16e6;
const SMALL_BYTES_PER_SECOND: f64 = 4e6;
const FREQUENT_BYTES_PER_SECOND: f64 = 32e6;
const RUN_TIME: Duration = Duration::from_secs(4);

/// How often each run is repeated.
const ROUNDS: usize = 2;

/// Measures a node that accepts records and has no store, so that nothing else uses its CPU. How long requests take is not
/// measured here. The node is left with this many bytes of text in its queue.
pub(super) async fn measure(sample: &Sample, directory: &Path) -> anyhow::Result<(AcceptCost, MeasuredNode, f64)> {
    let node = MeasuredNode::start(directory, MeasuredRoles::Ingest).await?;
    let base_cores = node.base_cores().await?;
    let joined = sample.with_joined_lines(JOINED_LINES);
    let (mut observations, mut queued) = (Vec::new(), 0.0);
    let runs = [
        (sample.bodies(LARGE_BYTES), LARGE_BYTES_PER_SECOND),
        (sample.bodies(SMALL_BYTES), SMALL_BYTES_PER_SECOND),
        (sample.bodies(SMALL_BYTES), FREQUENT_BYTES_PER_SECOND),
        (joined.bodies(LARGE_BYTES), LARGE_BYTES_PER_SECOND),
    ];
    for _ in 0..ROUNDS {
        for (bodies, bytes_per_second) in &runs {
            let load = PacedLoad { bodies, bytes_per_second: *bytes_per_second, time: RUN_TIME, has_fast: false };
            let commits_before = node.commits().await?;
            let (before, started) = (node.cpu_seconds().await?, Instant::now());
            let sent = node.send(load).await?;
            let base = base_cores * started.elapsed().as_secs_f64();
            let seconds = (node.cpu_seconds().await? - before - base).max(0.0);
            queued += sent.bytes;
            let commits = node.commits().await? - commits_before;
            observations.push(Observation { work: [sent.bytes, sent.records, sent.requests, commits], seconds });
        }
    }
    let [seconds_per_byte, seconds_per_record, seconds_per_request, seconds_per_commit] =
        fit(&observations).context("the costs per byte, record, request and commit cannot be separated")?;
    let cost = AcceptCost { seconds_per_byte, seconds_per_record, seconds_per_request, seconds_per_commit };
    Ok((cost, node, queued))
}
