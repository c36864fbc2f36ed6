//! The CPU of accepting records, as a linear function of bytes, records and requests.

use std::path::Path;

use anyhow::Context as _;
use bucksaw_capacity::AcceptCost;

use super::measured_node::{MeasuredNode, MeasuredRoles};
use super::sample::Sample;
use crate::plan::least_squares::{Observation, fit};

/// Bytes of a request in the runs with large ones, and in the runs with small ones.
const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 32 << 10;

/// How many lines are one in the runs with long lines.
const JOINED_LINES: usize = 8;

/// How often each run is repeated.
const ROUNDS: usize = 3;

/// Measures a node that accepts records and has no store, so that nothing else uses its CPU. The node is left with this many bytes
/// of text in its queue.
pub(super) async fn measure(sample: &Sample, directory: &Path) -> anyhow::Result<(AcceptCost, MeasuredNode, f64)> {
    let node = MeasuredNode::start(directory, MeasuredRoles::Ingest).await?;
    let joined = sample.with_joined_lines(JOINED_LINES);
    let (mut observations, mut queued) = (Vec::new(), 0.0);
    for _ in 0..ROUNDS {
        for (sample, request_bytes) in [(sample, LARGE_BYTES), (sample, SMALL_BYTES), (&joined, LARGE_BYTES)] {
            let bodies = sample.bodies(request_bytes);
            let requests = bodies.len() as f64;
            let bytes: usize = bodies.iter().map(bytes::Bytes::len).sum();
            let records = bytes as f64 / sample.line_bytes();
            let before = node.cpu_seconds().await?;
            for body in bodies {
                node.ingest(body, "fast").await?;
            }
            let seconds = node.cpu_seconds().await? - before;
            queued += bytes as f64;
            observations.push(Observation { work: [bytes as f64, records, requests], seconds });
        }
    }
    let [seconds_per_byte, seconds_per_record, seconds_per_request] =
        fit(&observations).context("the costs per byte, record and request cannot be separated")?;
    Ok((AcceptCost { seconds_per_byte, seconds_per_record, seconds_per_request }, node, queued))
}
