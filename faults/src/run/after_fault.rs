//! What has to come right after a fault, and at the end of a run.

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

/// How long making good may take what a lost store held: it is lost after a minute, what came to a store less than 10 s
/// ago is looked at again then, and a pass takes its time.
const RESTORE_MAX: Duration = Duration::from_secs(400);

/// How long all that was accepted may take to be consumed as it was before a fault.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// How long a node may take to answer.
const ASK_MAX: Duration = Duration::from_secs(10);

/// What comes from one writer's line, in bytes, about.
const LINE_BYTES: usize = 110;

impl FaultRun<'_> {
    /// Waits until no more waits for stores than before a fault: then bytes consumed over bytes accepted are 1 again.
    pub(super) fn wait_caught_up(&mut self, row: &FaultResult, before: &[monitor::NodeCounters]) -> Option<Duration> {
        // What comes in half a second may wait more than before: looks are a quarter of one apart.
        let slack = (self.options.rate * FORWARDERS * LINE_BYTES / 2) as f64;
        let waited = |told: &[monitor::NodeCounters]| told.iter().map(|told| told.pending).sum::<f64>();
        let until = Instant::now() + CATCH_UP_MAX;
        while Instant::now() < until {
            let told = self.watch.latest_counters();
            if told.iter().all(|told| told.is_responding) && waited(&told) <= waited(before) + slack {
                return Some(self.watch.now() - row.ended_at);
            }
            thread::sleep(monitor::POLL_PERIOD);
        }
        self.report.problems.push(format!("{}: more waits for stores than before", row.name));
        None
    }

    /// Waits until every record is on as many stores as promised. `passes` were counted before copies were lost.
    pub(super) fn wait_restored(&mut self, row: &FaultResult, passes: &[Passes]) -> Option<Duration> {
        let until = Instant::now() + RESTORE_MAX;
        // What came in the last seconds may be in queues.
        let fresh = (self.options.rate * FORWARDERS + 1_000) as u64 * health_check::PENDING_AGE_MAX_SECONDS as u64;
        loop {
            let Some(missing) = replication::under_replicated(&self.injector.nodes, COPIES, fresh, passes) else {
                let took = self.watch.now() - row.ended_at;
                eprintln!("           copies restored after {:.1} s", took.as_secs_f64());
                return Some(took);
            };
            if Instant::now() > until {
                self.report.problems.push(format!("{}: copies are not restored: {missing}", row.name));
                return None;
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Each store in turn is not there: the others must have everything. So every record is on two at least. What was lost for
    /// good before is forgotten, as by an operator when it has been made good: otherwise two would be missing.
    pub(super) fn stop_each_store(&mut self) -> anyhow::Result<()> {
        let asked = self.injector.with_role(FleetRole::Ingest).map(FleetNode::http).next().context("nobody to ask")?;
        forget_down_nodes(asked)?;
        let is_store = |(place, node): (usize, &FleetNode)| (node.role == FleetRole::Store).then_some(place);
        let stores: Vec<usize> = self.injector.nodes.iter().enumerate().filter_map(is_store).collect();
        for place in stores {
            let name = format!("{} missing", self.injector.nodes[place].name);
            let mut row = FaultResult { name, started_at: self.watch.now(), ..FaultResult::default() };
            eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
            self.injector.begin(Fault { kind: FaultKind::Kill, target: place })?;
            let until = Instant::now() + health_check::HEALTHY_MAX;
            while count(asked, "", 0).is_none() && Instant::now() < until {
                thread::sleep(Duration::from_millis(100));
            }
            for ledger in &self.ledgers {
                let mut seen = query(&self.options.bucksaw, asked, ledger)?;
                row.answers[usize::from(seen.partial)] += 1;
                if std::mem::take(&mut seen.partial) {
                    self.report.problems.push(format!("{}: the answer about {} is partial", row.name, ledger.name()));
                }
                let told = QueryObservation {
                    at: self.watch.now(),
                    node_index: 0,
                    writer: ledger.name().to_owned(),
                    compared: Some(seen),
                };
                self.report.record_observation(&mut row, &told, "an ingest node");
            }
            self.injector.end(Fault { kind: FaultKind::Kill, target: place })?;
            row.ended_at = self.watch.now();
            match self.wait_healthy(&row.name) {
                Ok(()) => row.healed_after = Some(self.watch.now() - row.ended_at),
                Err(error) => self.report.problems.push(format!("{error:#}")),
            }
            self.report.rows.push(row);
        }
        Ok(())
    }

    /// What was acknowledged for `bulk` outlives any node: one is destroyed for good while bulk writers go on, when nothing
    /// else waits in it. Answers without it may say that they are partial, for what it had is not known; nothing that was
    /// acknowledged may be missing from them.
    pub(super) fn destroy_ingest_node(&mut self) -> anyhow::Result<()> {
        let place = self.random.below(NODES);
        let name = format!("{} destroyed, under bulk", self.injector.nodes[place].name);
        let mut row = FaultResult { name, started_at: self.watch.now(), ..FaultResult::default() };
        eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
        self.injector.begin(Fault { kind: FaultKind::Destroy, target: place })?;
        thread::sleep(self.options.hold);
        row.ended_at = self.watch.now();
        self.bulk_stop.store(true, Ordering::Relaxed);
        for writer in self.bulk_writers.drain(..) {
            // It cannot panic but by a bug of the harness.
            writer.join().map_err(|_| anyhow::anyhow!("a bulk writer panicked"))?;
        }
        self.wait_consumed()?;
        row.healed_after = Some(self.watch.now() - row.ended_at);
        for (place, node) in self.injector.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let mut seen = query(&self.options.bucksaw, node.http(), ledger)?;
                row.answers[usize::from(seen.partial)] += 1;
                seen.partial = false;
                let (at, writer) = (self.watch.now(), ledger.name().to_owned());
                let told = QueryObservation { at, node_index: place, writer, compared: Some(seen) };
                self.report.record_observation(&mut row, &told, &node.name);
            }
        }
        self.report.rows.push(row);
        Ok(())
    }

    pub(super) fn wait_consumed(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + health_check::HEALTHY_MAX;
        let mut quiet = 0;
        while quiet < 8 {
            let waits: f64 = self.watch.latest_counters().iter().map(|told| told.pending).sum();
            let answer = self.watch.latest_counters().iter().all(|told| told.is_responding);
            // Probe lines go on coming: what waits is never older than a few seconds, and now and then nothing does.
            quiet = if waits < 4_096.0 && answer { quiet + 1 } else { 0 };
            if Instant::now() > until {
                self.report.problems.push(format!("at the end {waits:.0} bytes wait for stores"));
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
                    self.report.problems.push(format!("at the end {} gives partial answers", node.name));
                }
                row.answers[usize::from(seen.partial)] += 1;
                let told = QueryObservation {
                    at: self.watch.now(),
                    node_index: place,
                    writer: ledger.name().to_owned(),
                    compared: Some(seen),
                };
                self.report.record_observation(&mut row, &told, &node.name);
            }
        }
        row.ended_at = self.watch.now();
        row.healed_after = Some(Duration::ZERO);
        Ok(row)
    }
}

/// Takes all nodes that are down from the list.
fn forget_down_nodes(asked: SocketAddr) -> anyhow::Result<()> {
    let cluster = get(asked, "/api/v1/cluster", ASK_MAX)?.ok_json()?;
    let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for id in listed.iter().filter(|node| node["membership"] == "down").filter_map(|node| node["id"].as_str()) {
        call(asked, "POST", &format!("/api/v1/forget?node={id}"), &[], b"", ASK_MAX)?.ok_json()?;
    }
    Ok(())
}
