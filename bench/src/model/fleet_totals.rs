//! What the processes of a cluster have done since their start, by their metrics and the kernel.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bucksaw_faults::fleet::{FleetNode, FleetRole};
use bucksaw_faults::http::get;
use bucksaw_faults::wait;

use super::fleet_sender::FleetSender;
use crate::node::{number, sum};
use crate::process;
use crate::results::{Figure, figure};

/// The timeout of a request to a node.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The most time until stores have everything.
const SETTLE_MAX: Duration = Duration::from_secs(180);

/// Totals of all nodes and senders.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetTotals {
    accepted_bytes: f64,
    records: f64,
    consumed_bytes: f64,
    /// Bytes that stores have committed, each times its seconds in the queue.
    consumed_byte_seconds: f64,
    /// Bytes in queues at this moment.
    queued_bytes: f64,
    /// CPU seconds of each ingest node, and of each store.
    ingest_cpu: Vec<f64>,
    store_cpu: Vec<f64>,
    sender_cpu: f64,
    ingest_written: f64,
    store_written: f64,
    /// Bytes of segment files that stores wrote, by their own count.
    segments_written: f64,
}

impl FleetTotals {
    pub(super) fn read(nodes: &[FleetNode], senders: &[FleetSender]) -> anyhow::Result<Self> {
        let mut totals = Self::default();
        for node in nodes {
            let pid = node.pid().context("a node does not run")?;
            let (cpu, written) = (process::cpu_seconds(pid)?, process::written_bytes(pid)? as f64);
            if node.role == FleetRole::Store {
                totals.store_cpu.push(cpu);
                totals.store_written += written;
                totals.segments_written += sum(&metrics(node.http())?, "bucksaw_store_written_bytes_total");
                continue;
            }
            totals.ingest_cpu.push(cpu);
            totals.ingest_written += written;
            let metrics = metrics(node.http())?;
            totals.accepted_bytes += sum(&metrics, "bucksaw_ingest_bytes_total");
            totals.records += sum(&metrics, "bucksaw_ingest_records_total");
            totals.consumed_bytes += sum(&metrics, "bucksaw_ingest_consumed_bytes_total");
            totals.consumed_byte_seconds += sum(&metrics, "bucksaw_ingest_consumed_byte_seconds_total");
            totals.queued_bytes += sum(&metrics, "bucksaw_ingest_queued_bytes");
        }
        for sender in senders {
            totals.sender_cpu += process::cpu_seconds(sender.pid())?;
        }
        Ok(totals)
    }

    /// Rates since earlier totals. The ratio of consumed to accepted bytes is 1 if the backlog does not grow.
    pub(super) fn since(&self, before: &Self, time: Duration) -> Vec<Figure> {
        let seconds = time.as_secs_f64();
        let rate = |of: fn(&Self) -> f64| (of(self) - of(before)) / seconds;
        let accepted = rate(|totals| totals.accepted_bytes);
        let consumed = rate(|totals| totals.consumed_bytes);
        let cores = |after: &[f64], before: &[f64]| -> Vec<f64> {
            after.iter().zip(before).map(|(after, before)| (after - before) / seconds).collect()
        };
        let ingest = cores(&self.ingest_cpu, &before.ingest_cpu);
        let stores = cores(&self.store_cpu, &before.store_cpu);
        let busiest = |cores: &[f64]| cores.iter().copied().fold(0.0, f64::max);
        vec![
            figure("accepted", "MB/s", accepted / 1e6),
            figure("records", "1/s", rate(|totals| totals.records)),
            figure("consumed", "times", consumed / accepted),
            figure("cpu_of_ingest_nodes", "cores", ingest.iter().sum()),
            figure("cpu_of_busiest_ingest", "cores", busiest(&ingest)),
            figure("cpu_of_stores", "cores", stores.iter().sum()),
            figure("cpu_of_busiest_store", "cores", busiest(&stores)),
            figure("cpu_of_forwarders", "cores", rate(|totals| totals.sender_cpu)),
            figure("written_by_ingest_nodes", "MB/s", rate(|totals| totals.ingest_written) / 1e6),
            figure("written_by_stores", "MB/s", rate(|totals| totals.store_written) / 1e6),
            figure("segments_written", "MB/s", rate(|totals| totals.segments_written) / 1e6),
            figure("in_queue_mean", "s", rate(|totals| totals.consumed_byte_seconds) / consumed),
            figure("queued", "MB", f64::midpoint(self.queued_bytes, before.queued_bytes) / 1e6),
        ]
    }
}

/// Waits until no queue has a record that is not stored, checks that each of `records` records is found once, and returns the number of
/// copies of each byte.
pub(super) fn wait_settled(nodes: &[FleetNode], records: u64) -> anyhow::Result<f64> {
    wait::until("all records being stored", Duration::from_millis(250), SETTLE_MAX, || {
        let mut queued = 0.0;
        for node in nodes.iter().filter(|node| node.role != FleetRole::Store) {
            queued += sum(&metrics(node.http())?, "bucksaw_ingest_queued_bytes");
        }
        Ok((queued == 0.0).then_some(()))
    })?;
    let (mut accepted, mut stored) = (0.0, 0.0);
    for node in nodes {
        let metrics = metrics(node.http())?;
        accepted += sum(&metrics, "bucksaw_ingest_bytes_total");
        stored += sum(&metrics, "bucksaw_store_text_bytes");
    }
    let store = nodes.iter().find(|node| node.role == FleetRole::Store).context("no store")?;
    let answer = get(store.http(), "/api/v1/count?from=1d", ANSWER_MAX)?.ok_json()?;
    let found = number(&answer, "/count")?;
    ensure!(found == records, "{records} records were sent, and {found} are there: {answer}");
    Ok(stored / accepted)
}

fn metrics(node: SocketAddr) -> anyhow::Result<String> {
    let answer = get(node, "/metrics", ANSWER_MAX).with_context(|| format!("no metrics of {node}"))?;
    ensure!(answer.status == 200, "/metrics of {node}: status {}", answer.status);
    Ok(String::from_utf8(answer.body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rates_between_two_totals() {
        let before = FleetTotals {
            accepted_bytes: 1e6,
            consumed_bytes: 5e5,
            store_cpu: vec![1.0, 2.0],
            ..FleetTotals::default()
        };
        let after = FleetTotals {
            accepted_bytes: 21e6,
            consumed_bytes: 105e5,
            consumed_byte_seconds: 3e7,
            store_cpu: vec![4.0, 4.0],
            queued_bytes: 4e6,
            ..before.clone()
        };
        let figures = after.since(&before, Duration::from_secs(10));
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert_eq!((value("accepted"), value("consumed"), value("cpu_of_stores")), (2.0, 0.5, 0.5));
        assert_eq!((value("cpu_of_busiest_store"), value("cpu_of_busiest_ingest")), (0.3, 0.0));
        assert_eq!((value("in_queue_mean"), value("queued")), (3.0, 2.0));
    }
}
