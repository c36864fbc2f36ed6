//! Recovery after a fault, and checks at the end of a run.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{COPIES, FORWARDERS, FaultRun, NODES};
use crate::compare::query;
use crate::fault::{Fault, FaultKind};
use crate::fleet::{FleetNode, FleetRole};
use crate::health_check;
use crate::http::{call, get};
use crate::monitor::{self, count};
use crate::query_load::QueryObservation;
use crate::replication::{self, Passes};
use crate::report::FaultResult;

/// The maximum time of re-replication. A store is lost after a minute, repair defers records of the last 10 s, and a
/// pass takes its time.
const RESTORE_MAX: Duration = Duration::from_secs(400);

/// The maximum time until the backlog is as small as before the fault.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// The timeout of a request.
const ASK_MAX: Duration = Duration::from_secs(10);

/// Approximate bytes of a line.
const LINE_BYTES: usize = 110;

impl FaultRun<'_> {
    /// Waits until the backlog is as small as before the fault: then the ratio of bytes consumed to bytes accepted is
    /// 1 again.
    pub(super) fn wait_caught_up(&mut self, row: &FaultResult, before: &[monitor::NodeCounters]) -> Option<Duration> {
        // The backlog may vary by half a second of input, because samples are a quarter of a second apart.
        let slack = (self.options.rate * FORWARDERS * LINE_BYTES / 2) as f64;
        let waited = |nodes: &[monitor::NodeCounters]| nodes.iter().map(|node| node.pending).sum::<f64>();
        let until = Instant::now() + CATCH_UP_MAX;
        while Instant::now() < until {
            let counters = self.monitor.latest_counters();
            if counters.iter().all(|node| node.is_responding) && waited(&counters) <= waited(before) + slack {
                return Some(self.monitor.now() - row.ended_at);
            }
            thread::sleep(monitor::POLL_PERIOD);
        }
        self.report.problems.push(format!("{}: the backlog is larger than before", row.name));
        None
    }

    /// Waits until all records are re-replicated. `passes` were counted before replicas were lost.
    pub(super) fn wait_restored(&mut self, row: &FaultResult, passes: &[Passes]) -> Option<Duration> {
        let until = Instant::now() + RESTORE_MAX;
        // The records of the last seconds may be in queues.
        let fresh = (self.options.rate * FORWARDERS + 1_000) as u64 * health_check::PENDING_AGE_MAX_SECONDS as u64;
        loop {
            let Some(missing) = replication::under_replicated(&self.injector.nodes, COPIES, fresh, passes) else {
                let took = self.monitor.now() - row.ended_at;
                eprintln!("           re-replicated after {:.1} s", took.as_secs_f64());
                return Some(took);
            };
            if Instant::now() > until {
                self.report.problems.push(format!("{}: not re-replicated: {missing}", row.name));
                return None;
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Stops each store in turn; the others must have every record, which proves two replicas. Stores that were lost
    /// and re-replicated before are forgotten first, as an operator would do, because otherwise two would be missing.
    pub(super) fn stop_each_store(&mut self) -> anyhow::Result<()> {
        let address =
            self.injector.with_role(FleetRole::Ingest).map(FleetNode::http).next().context("no ingest node")?;
        forget_down_nodes(address)?;
        let is_store = |(place, node): (usize, &FleetNode)| (node.role == FleetRole::Store).then_some(place);
        let stores: Vec<usize> = self.injector.nodes.iter().enumerate().filter_map(is_store).collect();
        for place in stores {
            let name = format!("{} missing", self.injector.nodes[place].name);
            let mut row = FaultResult { name, started_at: self.monitor.now(), ..FaultResult::default() };
            eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
            self.injector.begin(Fault { kind: FaultKind::Kill, target: place })?;
            let until = Instant::now() + health_check::HEALTHY_MAX;
            while count(address, "", 0).is_none() && Instant::now() < until {
                thread::sleep(Duration::from_millis(100));
            }
            for ledger in &self.ledgers {
                let mut seen = query(&self.options.bucksaw, address, ledger)?;
                row.answers[usize::from(seen.partial)] += 1;
                if std::mem::take(&mut seen.partial) {
                    self.report.problems.push(format!("{}: the answer about {} is partial", row.name, ledger.name()));
                }
                let observation = QueryObservation {
                    at: self.monitor.now(),
                    node_index: 0,
                    writer: ledger.name().to_owned(),
                    compared: Some(seen),
                };
                self.report.record_observation(&mut row, &observation, "an ingest node");
            }
            self.injector.end(Fault { kind: FaultKind::Kill, target: place })?;
            row.ended_at = self.monitor.now();
            match self.wait_healthy(&row.name) {
                Ok(()) => row.healed_after = Some(self.monitor.now() - row.ended_at),
                Err(error) => self.report.problems.push(format!("{error:#}")),
            }
            self.report.rows.push(row);
        }
        Ok(())
    }

    /// Destroys a node without pending segments while bulk writers continue: `bulk` records survive the loss of any
    /// node. Answers may be partial, because the contents of the node are unknown, but must contain every acknowledged
    /// record.
    pub(super) fn destroy_ingest_node(&mut self) -> anyhow::Result<()> {
        let place = self.random.below(NODES);
        let name = format!("{} destroyed, under bulk", self.injector.nodes[place].name);
        let mut row = FaultResult { name, started_at: self.monitor.now(), ..FaultResult::default() };
        eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
        self.injector.begin(Fault { kind: FaultKind::Destroy, target: place })?;
        thread::sleep(self.options.hold);
        row.ended_at = self.monitor.now();
        self.bulk_stop.store(true, Ordering::Relaxed);
        for writer in self.bulk_writers.drain(..) {
            // The thread panics only by a bug of the harness.
            writer.join().map_err(|_| anyhow::anyhow!("a bulk writer panicked"))?;
        }
        self.wait_consumed()?;
        row.healed_after = Some(self.monitor.now() - row.ended_at);
        for (place, node) in self.injector.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let mut seen = query(&self.options.bucksaw, node.http(), ledger)?;
                row.answers[usize::from(seen.partial)] += 1;
                seen.partial = false;
                let (at, writer) = (self.monitor.now(), ledger.name().to_owned());
                let observation = QueryObservation { at, node_index: place, writer, compared: Some(seen) };
                self.report.record_observation(&mut row, &observation, &node.name);
            }
        }
        self.report.rows.push(row);
        Ok(())
    }

    pub(super) fn wait_consumed(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + health_check::HEALTHY_MAX;
        let mut quiet = 0;
        while quiet < 8 {
            let waits: f64 = self.monitor.latest_counters().iter().map(|node| node.pending).sum();
            let answer = self.monitor.latest_counters().iter().all(|node| node.is_responding);
            // Probe lines keep arriving, so pending segments are a few seconds old, and at times there are none.
            quiet = if waits < 4_096.0 && answer { quiet + 1 } else { 0 };
            if Instant::now() > until {
                self.report.problems.push(format!("{waits:.0} bytes are pending at the end"));
                return Ok(());
            }
            thread::sleep(crate::monitor::POLL_PERIOD);
        }
        Ok(())
    }

    pub(super) fn final_check(&mut self, mut row: FaultResult) -> anyhow::Result<FaultResult> {
        for (place, node) in self.injector.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let seen = query(&self.options.bucksaw, node.http(), ledger)?;
                if seen.partial {
                    self.report.problems.push(format!("{} gives partial answers at the end", node.name));
                }
                row.answers[usize::from(seen.partial)] += 1;
                let observation = QueryObservation {
                    at: self.monitor.now(),
                    node_index: place,
                    writer: ledger.name().to_owned(),
                    compared: Some(seen),
                };
                self.report.record_observation(&mut row, &observation, &node.name);
            }
        }
        row.ended_at = self.monitor.now();
        row.healed_after = Some(Duration::ZERO);
        Ok(row)
    }
}

/// Forgets all nodes that are down.
fn forget_down_nodes(address: SocketAddr) -> anyhow::Result<()> {
    let cluster = get(address, "/api/v1/cluster", ASK_MAX)?.ok_json()?;
    let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for id in listed.iter().filter(|node| node["membership"] == "down").filter_map(|node| node["id"].as_str()) {
        call(address, "POST", &format!("/api/v1/forget?node={id}"), &[], b"", ASK_MAX)?.ok_json()?;
    }
    Ok(())
}
