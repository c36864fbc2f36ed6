//! Upgrades a cluster of real processes under load, and downgrades it: each node is stopped gracefully and started
//! with another version of the program, one at a time, stores first in the upgrade and last in the downgrade.
//!
//! Half of the forwarders have each version, so each meets nodes of both. Queries run all the time, and after each
//! step every node is queried for all lines and for single lines by text. So each version reads segments and filters
//! of the other, from its disk and over the network.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::compare::{detects_loss, query, query_and_compare};
use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::health_check;
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::monitor::{ClusterMonitor, count};
use crate::query_load::{QueryLoad, QueryObservation};
use crate::report::{FINAL_ROW, FaultResult, Report};
use bucksaw_fixtures::Random;

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each with its own lines.
const FORWARDERS: usize = 8;

/// Lines of each writer that are queried by text after a step, and their distance from the newest.
const SEARCHES: usize = 2;
const SEARCH_RANGE_SECONDS: usize = 15;

/// Options of an upgrade test.
#[derive(Clone, Debug)]
pub struct UpgradeOptions {
    /// The program before the upgrade.
    pub from: PathBuf,
    /// The program after the upgrade.
    pub to: PathBuf,
    /// The directory for the data of the nodes; a temporary directory if `None`.
    pub dir: Option<PathBuf>,
    /// Lines per second of each forwarder.
    pub rate: usize,
    /// The pause between steps.
    pub rest: Duration,
    /// Whether to downgrade at the end.
    pub back: bool,
}

/// Upgrades all nodes, and downgrades them.
///
/// # Errors
/// The run cannot continue, for example because a node does not start. Violations are in the report.
pub fn upgrade(options: &UpgradeOptions) -> anyhow::Result<Report> {
    let temporary = tempfile::tempdir().context("no temporary directory")?;
    let home = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let common = FleetConfig::new(&options.from, &home, 2, false)?;
    let mut nodes = fleet::pairs(&common, NODES)?;
    fleet::start(&mut nodes)?;
    let mut running = UpgradeRun::start(options, &common, nodes)?;
    running.wait_healthy("at the start")?;
    thread::sleep(options.rest);
    running.check_loss_detection();
    let up: Vec<usize> = (NODES..2 * NODES).chain(0..NODES).collect();
    for place in &up {
        running.step(*place, &options.to, "the new version")?;
    }
    if options.back {
        for place in up.iter().rev() {
            running.step(*place, &options.from, "the old version")?;
        }
    }
    running.finish()
}

/// A cluster under load.
struct UpgradeRun<'a> {
    options: &'a UpgradeOptions,
    nodes: Vec<FleetNode>,
    monitor: Arc<ClusterMonitor>,
    ledgers: Vec<Arc<Ledger>>,
    forwarders: Vec<Forwarder>,
    bulk_writers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    query_load: QueryLoad,
    random: Random,
    report: Report,
}

impl<'a> UpgradeRun<'a> {
    fn start(options: &'a UpgradeOptions, common: &FleetConfig, nodes: Vec<FleetNode>) -> anyhow::Result<Self> {
        let names = (1..=FORWARDERS).map(|number| format!("forwarder{number}"));
        let names = names.chain((1..=NODES).map(|number| format!("bulk{number}")));
        let ledgers: Vec<Arc<Ledger>> = names.map(|name| Arc::new(Ledger::new(name))).collect();
        let at: Vec<_> = nodes.iter().map(FleetNode::http).collect();
        let ingest: Vec<&FleetNode> = nodes.iter().filter(|node| node.role == FleetRole::Ingest).collect();
        let monitor = ClusterMonitor::new(at.clone(), ingest.iter().map(|node| node.http()).collect(), ledgers.clone());
        let stop = Arc::<AtomicBool>::default();
        let (mut forwarders, mut bulks) = (Vec::new(), Vec::new());
        for (number, ledger) in ledgers.iter().take(FORWARDERS).enumerate() {
            let mut to: Vec<_> = ingest.iter().map(|node| node.durable()).collect();
            to.rotate_left(number % NODES);
            let program = if number % 2 == 0 { &options.from } else { &options.to };
            let (home, cleanup) = (&common.home, &common.cleanup);
            forwarders.push(Forwarder::start(program, home, cleanup, ledger, &to, options.rate, &stop)?);
        }
        for (ledger, node) in ledgers.iter().skip(FORWARDERS).zip(&ingest) {
            let (ledger, to, stop) = (Arc::clone(ledger), [node.http()], Arc::clone(&stop));
            let never = AtomicBool::new(false);
            bulks.push(thread::spawn(move || bulk(&ledger, &to, Duration::from_millis(200), &stop, &never)));
        }
        let query_load = QueryLoad::start(at, ledgers.clone(), Arc::clone(&monitor), 2);
        monitor.start_polling();
        monitor.start_probing();
        let random = Random::new(1);
        let report = Report::default();
        Ok(Self { options, nodes, monitor, ledgers, forwarders, bulk_writers: bulks, stop, query_load, random, report })
    }

    /// Checks that a loss is detected: expects one line more than was sent.
    fn check_loss_detection(&mut self) {
        if !detects_loss(self.nodes[0].http()) {
            self.report.problems.push("the missing control line was not reported as lost".into());
        }
    }

    /// Stops a node gracefully and starts another program in its place.
    fn step(&mut self, place: usize, program: &std::path::Path, version: &str) -> anyhow::Result<()> {
        let name = format!("{} to {version}", self.nodes[place].name);
        let mut row = FaultResult { name, started_at: self.monitor.now(), ..FaultResult::default() };
        eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
        let node = &mut self.nodes[place];
        node.stop()?;
        program.clone_into(&mut node.program);
        node.spawn()?;
        node.wait_ready()?;
        row.ended_at = self.monitor.now();
        match self.wait_healthy(&row.name) {
            Ok(()) => row.healed_after = Some(self.monitor.now() - row.ended_at),
            Err(error) => self.report.problems.push(format!("{error:#}")),
        }
        for place in 0..self.nodes.len() {
            for ledger in self.ledgers.clone() {
                let seen = query_and_compare(self.nodes[place].http(), &ledger, &ledger.recent());
                self.record_answer(
                    &mut row,
                    &QueryObservation {
                        at: self.monitor.now(),
                        node_index: place,
                        writer: ledger.name().to_owned(),
                        compared: seen,
                    },
                    true,
                );
                self.check_text_search(place, &ledger);
            }
        }
        self.query_load
            .take_observations()
            .iter()
            .for_each(|observation| self.record_answer(&mut row, observation, false));
        self.report.rows.push(row);
        thread::sleep(self.options.rest);
        Ok(())
    }

    /// Queries lines sent a while ago by their text; each must be found once.
    fn check_text_search(&mut self, place: usize, ledger: &Ledger) {
        let settled = (ledger.sent() as usize).saturating_sub(SEARCH_RANGE_SECONDS * self.options.rate);
        for _ in 0..SEARCHES.min(settled) {
            // The filler of the first line occurs in others too.
            let number = 1 + self.random.below(settled) as u64;
            let line = String::from_utf8_lossy(&ledger.text(number..number + 1)).into_owned();
            let words = line.split(' ').nth(3).unwrap_or_default();
            let node = &self.nodes[place];
            // Includes the writer, because fillers of equal numbers are equal.
            let found = count(node.http(), &format!("writer%3D{}%20%22{words}%22", ledger.name()), 0);
            if found != Some(1) {
                let name = &node.name;
                self.report.problems.push(format!("{name} finds {words} of {} {found:?} times", ledger.name()));
            }
        }
    }

    /// Records the result of an answer. If the cluster should be healthy, the answer must be complete.
    fn record_answer(&mut self, row: &mut FaultResult, observation: &QueryObservation, well: bool) {
        let name = &self.nodes[observation.node_index].name;
        row.count(observation);
        self.report.record_observation(row, observation, name);
        let problem = match &observation.compared {
            None if well => "no whole answer",
            Some(seen) if well && seen.partial => "it is partial",
            _ => return,
        };
        self.report.add_problem(format!("{}: the answer of {name} about {}: {problem}", row.name, observation.writer));
    }

    fn wait_healthy(&self, when: &str) -> anyhow::Result<()> {
        health_check::wait_healthy(&self.nodes, &self.monitor, when)
    }

    /// Ends the load, waits until everything is consumed, and compares all lines from every node with both programs.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.forwarders.drain(..) {
            forwarder.finish()?;
        }
        for bulk in self.bulk_writers.drain(..) {
            // The thread panics only by a bug of the harness.
            bulk.join().map_err(|_| anyhow!("a bulk writer panicked"))?;
        }
        self.query_load.stop();
        self.monitor.stop();
        let until = Instant::now() + health_check::HEALTHY_MAX;
        while !self.is_consumed() {
            if Instant::now() > until {
                self.report.problems.push("records are pending at the end".into());
                break;
            }
            thread::sleep(crate::monitor::POLL_PERIOD);
        }
        let mut row = FaultResult { name: FINAL_ROW.into(), started_at: self.monitor.now(), ..FaultResult::default() };
        for place in 0..self.nodes.len() {
            for ledger in self.ledgers.clone() {
                for program in [&self.options.from, &self.options.to] {
                    let seen = Some(query(program, self.nodes[place].http(), &ledger)?);
                    self.record_answer(
                        &mut row,
                        &QueryObservation {
                            at: self.monitor.now(),
                            node_index: place,
                            writer: ledger.name().to_owned(),
                            compared: seen,
                        },
                        true,
                    );
                }
            }
        }
        (row.ended_at, row.healed_after) = (self.monitor.now(), Some(Duration::ZERO));
        self.report.rows.push(row);
        Ok(self.into_report())
    }

    fn is_consumed(&self) -> bool {
        self.nodes.iter().all(|node| {
            let waits = |node: &serde_json::Value| node["queue"]["pending_bytes"].as_u64();
            let listed = node.cluster().ok().and_then(|cluster| cluster["nodes"].as_array().cloned());
            listed.is_some_and(|nodes| nodes.iter().all(|node| waits(node) == Some(0)))
        })
    }

    fn into_report(mut self) -> Report {
        self.report.acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledged()).sum();
        self.report.set_latencies(&self.monitor.probes());
        std::mem::take(&mut self.report)
    }
}

impl Drop for UpgradeRun<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.monitor.stop();
    }
}
