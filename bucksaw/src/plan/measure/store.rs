//! The CPU and the writes of gathering and of merging, and the times of group commits and of requests meanwhile.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bucksaw_capacity::{AcceptCost, RequestTimes, StoreCost, TimeHistogram, TimesAtLoad};
use tokio::time::Instant;

use super::measured_node::{MeasuredNode, SYNC_SECONDS};
use super::paced::{PacedLoad, SentTotals};
use super::questions::Needles;
use super::sample::Sample;
use crate::plan::least_squares::{Observation, fit};
use crate::plan::metrics_text::MetricHistogram;

/// Bytes of each request.
const REQUEST_BYTES: usize = 64 << 10;

/// The slow load: at least four batches of ten seconds, which fit into one segment and are merged. It is repeated if there were fewer, as on
/// a busy machine.
const SLOW_BYTES_PER_SECOND: f64 = 2e6;
const SLOW_TIME: Duration = Duration::from_secs(46);
const SLOW_ROUNDS_MAX: usize = 3;

/// The faster load: some batches that are too large to be merged.
const FAST_BYTES_PER_SECOND: f64 = 16e6;
const FAST_TIME: Duration = Duration::from_secs(24);

/// The metric with the bytes of text that went through merges.
const MERGED_BYTES: &str = "bucksaw_store_compacted_bytes_total";

/// What [`measure`] found.
#[derive(Debug)]
pub(super) struct StoreMeasurement {
    pub(super) store: StoreCost,
    pub(super) requests: RequestTimes,
    /// Bytes of text that the node holds.
    pub(super) bytes: f64,
}

/// Measures a node with both roles and an empty directory. It has accepting at the given cost, and this many cores without load.
pub(super) async fn measure(
    node: &MeasuredNode,
    sample: &Sample,
    needles: &Needles,
    (accept, base_cores): (&AcceptCost, f64),
) -> anyhow::Result<StoreMeasurement> {
    let bodies = sample.bodies(REQUEST_BYTES);
    let load = |bytes_per_second, time| PacedLoad { bodies: &bodies, bytes_per_second, time, has_fast: true };
    let (mut bytes, mut stored_before) = (0.0, StoreReadings::of(node).await?);
    let written_before = stored_before.written;
    let (mut cpu, mut timed) = (Vec::new(), Vec::new());
    let loads = [(SLOW_BYTES_PER_SECOND, SLOW_TIME, SLOW_ROUNDS_MAX), (FAST_BYTES_PER_SECOND, FAST_TIME, 1)];
    for (bytes_per_second, time, rounds_max) in loads {
        let mut sent = Vec::new();
        if bytes > 0.0 {
            let with_needles = needles.appended(sample.first_lines(REQUEST_BYTES), sample);
            sent.push(SentTotals { bytes: with_needles.len() as f64, ..SentTotals::default() });
            node.ingest(with_needles).await?;
        }
        let (syncs_before, mut sending_seconds) = (node.histogram(SYNC_SECONDS).await?, 0.0);
        for _ in 0..rounds_max {
            let started = Instant::now();
            sent.push(node.send(load(bytes_per_second, time)).await?);
            sending_seconds += started.elapsed().as_secs_f64();
            node.wait_settled(bytes + bytes_of(&sent)).await?;
            if node.metric(MERGED_BYTES).await? > 0.0 {
                break;
            }
        }
        bytes += bytes_of(&sent);
        let mut all = SentTotals::default();
        sent.iter().for_each(|sent| all.add(sent));
        let syncs = node.histogram(SYNC_SECONDS).await?.since(&syncs_before);
        timed.push(TimedRequests { sent: all, seconds: sending_seconds, syncs });
        let stored = StoreReadings::of(node).await?;
        let base = base_cores * (stored.at - stored_before.at).as_secs_f64();
        let accepting = accepting_seconds(accept, &sent, stored.commits - stored_before.commits);
        let work = [bytes_of(&sent), stored.merged - stored_before.merged];
        let seconds = (stored.cpu_seconds - stored_before.cpu_seconds - base - accepting).max(0.0);
        cpu.push(Observation { work, seconds });
        stored_before = stored;
    }
    let stored_bytes = node.metric("bucksaw_store_stored_bytes").await?;
    ensure!(stored_before.merged > 0.0, "the node merged nothing, so what a merge costs is not known");
    let [seconds_per_byte, merge_seconds_per_byte] =
        fit(&cpu).context("the costs of gathering and of merging cannot be separated")?;
    let stored_per_byte = stored_bytes / bytes;
    // The rest of what was written. A fit would take the worse compression of small batches for the cost of merging them.
    let written_per_byte =
        ((stored_before.written - written_before - stored_before.merged * stored_per_byte) / bytes).max(0.0);
    let store = StoreCost { seconds_per_byte, merge_seconds_per_byte, stored_per_byte, written_per_byte };

    let mut times = timed.iter().map(|requests| requests.times(accept));
    let (quiet, busy) = times.next().flatten().zip(times.next().flatten()).context("no request was timed")?;
    Ok(StoreMeasurement { store, requests: RequestTimes { quiet, busy }, bytes })
}

/// The requests of one load.
#[derive(Debug)]
struct TimedRequests {
    sent: SentTotals,
    /// The time in which they were sent.
    seconds: f64,
    /// Group commits meanwhile.
    syncs: MetricHistogram,
}

impl TimedRequests {
    /// The times of `fast` requests without the CPU of their text, and by how much `durable` ones took longer than these and their group
    /// commit; `None` without requests.
    fn times(&self, accept: &AcceptCost) -> Option<TimesAtLoad> {
        let text = accept.seconds_per_byte * self.sent.bytes + accept.seconds_per_record * self.sent.records;
        let fast = TimeHistogram::of_times(&self.sent.fast_seconds)?;
        let durable = TimeHistogram::of_times(&self.sent.durable_seconds)?;
        let sync = TimeHistogram::from_histogram(&self.syncs.bounds, &self.syncs.counts, self.syncs.sum)?;
        let durable_per_second = self.sent.durable_seconds.len() as f64 / self.seconds;
        let commit = sync.commit_wait(durable_per_second, self.sent.bytes / self.sent.requests)?;
        Some(TimesAtLoad {
            requests_per_second: self.sent.requests / self.seconds,
            syncs_per_second: self.syncs.counts.iter().sum::<f64>() / self.seconds,
            commit_seconds: (durable.mean_seconds - fast.mean_seconds - commit).max(0.0),
            latency: fast.without(text / self.sent.requests),
            sync,
        })
    }
}

fn bytes_of(sent: &[SentTotals]) -> f64 {
    sent.iter().map(|sent| sent.bytes).sum()
}

/// CPU seconds of accepting what was sent. The body with the needles counts as bytes and a commit only, which is a thousandth.
fn accepting_seconds(accept: &AcceptCost, sent: &[SentTotals], commits: f64) -> f64 {
    let of = |sent: &SentTotals| {
        accept.seconds_per_byte * sent.bytes
            + accept.seconds_per_record * sent.records
            + accept.seconds_per_request * sent.requests
    };
    sent.iter().map(of).sum::<f64>() + accept.seconds_per_commit * commits
}

/// What a node has done so far.
#[derive(Debug)]
struct StoreReadings {
    at: Instant,
    cpu_seconds: f64,
    commits: f64,
    merged: f64,
    written: f64,
}

impl StoreReadings {
    async fn of(node: &MeasuredNode) -> anyhow::Result<Self> {
        Ok(Self {
            merged: node.metric(MERGED_BYTES).await?,
            written: node.metric("bucksaw_store_written_bytes_total").await?,
            commits: node.commits().await?,
            cpu_seconds: node.cpu_seconds().await?,
            at: Instant::now(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepting_costs_bytes_records_requests_and_commits() {
        let accept = AcceptCost {
            seconds_per_byte: 1.0,
            seconds_per_record: 10.0,
            seconds_per_request: 100.0,
            seconds_per_commit: 1_000.0,
        };
        let sent = SentTotals { bytes: 2.0, records: 3.0, requests: 4.0, ..SentTotals::default() };
        assert_eq!(accepting_seconds(&accept, &[sent, SentTotals::default()], 5.0), 5_432.0);
    }

    #[test]
    fn latency_is_that_of_fast_requests_without_their_text() {
        let accept = AcceptCost {
            seconds_per_byte: 1e-9,
            seconds_per_record: 1e-6,
            seconds_per_request: 0.0,
            seconds_per_commit: 0.0,
        };
        let syncs = MetricHistogram { bounds: vec![0.99e-3, 1e-3], counts: vec![0.0, 9.0], sum: 9e-3 };
        let mut requests = TimedRequests { sent: SentTotals::default(), seconds: 1_000.0, syncs };
        assert!(requests.times(&accept).is_none());
        let (durable_seconds, fast_seconds) = (vec![2.2e-3; 5], vec![1e-3; 5]);
        requests.sent = SentTotals { bytes: 2e6, records: 2e3, requests: 10.0, durable_seconds, fast_seconds };
        let times = requests.times(&accept).unwrap();
        // The text takes 0.4 ms of a request, and the sync 1 ms.
        assert!((times.latency.mean_seconds - 0.6e-3).abs() < 0.01e-3, "{times:?}");
        assert!((times.commit_seconds - 0.2e-3).abs() < 0.01e-3, "{times:?}");
        assert!((times.requests_per_second - 0.01).abs() < 1e-12 && (times.syncs_per_second - 0.009).abs() < 1e-12);
    }
}
