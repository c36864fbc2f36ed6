//! A run, from the start of the cluster to the report.

mod after_fault;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::compare::{detects_loss, query_and_compare};
use crate::fault::{Capabilities, Fault, FaultInjector, FaultKind};
use crate::firewall::Firewall;
use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::monitor::ClusterMonitor;
use crate::proxy::Proxy;
use crate::query_load::{QueryLoad, QueryObservation};
use crate::report::{FINAL_ROW, FaultResult, Report};
use crate::schedule::{ScheduledFaults, random_schedule};
use crate::{health_check, plot, replication, timeline};
use bucksaw_fixtures::Random;

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each with its own lines.
const FORWARDERS: usize = 8;

/// The replication factor.
const COPIES: usize = 2;

/// The size of disks that can be filled.
const SMALL_DISK: u64 = 256 << 20;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// The directory for the data of the nodes; a temporary directory if `None`.
    pub dir: Option<PathBuf>,
    /// The directory for tables and the picture, if any.
    pub out: Option<PathBuf>,
    /// The seed of the schedule.
    pub seed: u64,
    /// Applies only short faults that need no root.
    pub small: bool,
    /// Lines per second of each forwarder.
    pub rate: usize,
    /// The duration of a fault.
    pub hold: Duration,
    /// The pause between faults.
    pub rest: Duration,
    /// Applies only faults whose name contains one of these; all if empty.
    pub only: Vec<String>,
    /// Expects a line that is never sent, to test the harness: the run must report its loss.
    pub lose_a_line: bool,
}

impl RunOptions {
    /// The default run of this program.
    pub fn new(bucksaw: PathBuf) -> Self {
        Self {
            bucksaw,
            dir: None,
            out: None,
            seed: 1,
            small: false,
            rate: 150,
            hold: Duration::from_secs(8),
            rest: Duration::from_secs(5),
            only: Vec::new(),
            lose_a_line: false,
        }
    }
}

/// Starts a cluster under load and applies faults.
///
/// # Errors
/// The run cannot start or continue, for example because a node does not start. Violations are in the report.
pub fn run(options: &RunOptions) -> anyhow::Result<Report> {
    let capabilities = Capabilities::detect();
    let home = match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            None
        }
        None => Some(tempfile::tempdir().context("no temporary directory")?),
    };
    let dir = home.as_ref().map_or_else(|| options.dir.clone().unwrap_or_default(), |home| home.path().to_owned());
    if capabilities.root {
        // Nodes that run as other users need access to their directories.
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755))?;
    }
    let common = FleetConfig::new(&options.bucksaw, &dir, COPIES, capabilities.nft && !options.small)?;
    if home.is_some() {
        common.cleanup.register_undo(&format!("rm -rf '{}'", dir.display()));
    }
    let mut random = Random::new(options.seed);
    let roles: Vec<FleetRole> =
        [FleetRole::Ingest, FleetRole::Store].into_iter().flat_map(|role| [role; NODES]).collect();
    let (mut steps, skipped) = random_schedule(&mut random, &roles, options.small, options.hold, &capabilities);
    let firewall = if common.users { Some(Firewall::create(&common.cleanup)?) } else { None };
    let nodes = fleet::pairs(&common, NODES)?;
    let proxies = nodes.iter().filter(|node| node.role == FleetRole::Ingest).enumerate();
    let proxies: Result<Vec<Proxy>, _> = proxies
        .map(|(number, node)| Proxy::start((common.ip(101 + number as u8), 7652).into(), node.durable()))
        .collect();
    let injector = FaultInjector::new(nodes, proxies?, firewall, capabilities);
    let names: Vec<String> = injector.nodes.iter().map(|node| node.name.clone()).collect();
    if !options.only.is_empty() {
        steps.retain(|step| options.only.iter().any(|part| step.name(&names).contains(part.as_str())));
    }
    let mut running = FaultRun::start(options, &common, injector, random)?;
    running.report.skipped = skipped;
    running.report.seed = options.seed;
    running.rest()?;
    running.check_loss_detection();
    for step in &steps {
        running.step(step, &names)?;
        running.rest()?;
    }
    running.finish()
}

/// A cluster under load.
struct FaultRun<'a> {
    options: &'a RunOptions,
    injector: FaultInjector,
    random: Random,
    monitor: Arc<ClusterMonitor>,
    ledgers: Vec<Arc<Ledger>>,
    forwarders: Vec<Forwarder>,
    bulk_writers: Vec<JoinHandle<()>>,
    /// Stops feeding the forwarders, and the bulk writers.
    stop: Arc<AtomicBool>,
    bulk_stop: Arc<AtomicBool>,
    /// Stops the bulk writers even if a batch is not acknowledged.
    bulk_abandon: Arc<AtomicBool>,
    query_load: QueryLoad,
    report: Report,
}

impl<'a> FaultRun<'a> {
    fn start(
        options: &'a RunOptions,
        common: &FleetConfig,
        mut injector: FaultInjector,
        mut random: Random,
    ) -> anyhow::Result<Self> {
        for place in 0..injector.nodes.len() {
            let wanted = !options.small && injector.capabilities.root && place % NODES == 0;
            let node = &mut injector.nodes[place];
            if wanted {
                node.mount(SMALL_DISK)?;
            }
            node.spawn()?;
        }
        for node in &mut injector.nodes {
            node.wait_ready()?;
        }
        let mut ledgers: Vec<Arc<Ledger>> =
            (1..=FORWARDERS).map(|number| Arc::new(Ledger::new(format!("forwarder{number}")))).collect();
        let bulk_ledgers: Vec<Arc<Ledger>> =
            (1..=NODES).map(|number| Arc::new(Ledger::new(format!("bulk{number}")))).collect();
        ledgers.extend(bulk_ledgers.iter().cloned());
        let nodes: Vec<_> = injector.nodes.iter().map(FleetNode::http).collect();
        let ingest: Vec<_> = injector.with_role(FleetRole::Ingest).map(FleetNode::http).collect();
        let monitor = ClusterMonitor::new(nodes.clone(), ingest.clone(), ledgers.clone());
        let mut running = Self {
            query_load: QueryLoad::start(nodes, ledgers.clone(), Arc::clone(&monitor), random.next_u64()),
            options,
            injector,
            random,
            monitor,
            ledgers,
            forwarders: Vec::new(),
            bulk_writers: Vec::new(),
            stop: Arc::default(),
            bulk_stop: Arc::default(),
            bulk_abandon: Arc::default(),
            report: Report::default(),
        };
        running.monitor.start_polling();
        running.wait_healthy("at the start")?;
        running.monitor.start_counting();
        running.monitor.start_probing();
        for (number, ledger) in running.ledgers.iter().take(FORWARDERS).enumerate() {
            let mut to: Vec<_> = running.injector.proxies.iter().map(|proxy| proxy.at).collect();
            to.rotate_left(number % NODES);
            let (home, stop) = (&common.home, &running.stop);
            let forwarder = Forwarder::start(&options.bucksaw, home, &common.cleanup, ledger, &to, options.rate, stop)?;
            running.forwarders.push(forwarder);
        }
        for (place, ledger) in bulk_ledgers.into_iter().enumerate() {
            let (stop, abandon) = (Arc::clone(&running.bulk_stop), Arc::clone(&running.bulk_abandon));
            let mut to = ingest.clone();
            to.rotate_left(place);
            let writer = thread::spawn(move || bulk(&ledger, &to, Duration::from_millis(200), &stop, &abandon));
            running.bulk_writers.push(writer);
        }
        Ok(running)
    }

    /// Runs without faults for a while.
    fn rest(&self) -> anyhow::Result<()> {
        thread::sleep(self.options.rest);
        Ok(())
    }

    /// Checks that a loss is detected: expects one line more than was sent.
    fn check_loss_detection(&mut self) {
        if !detects_loss(self.injector.nodes[0].http()) {
            self.report.problems.push("the missing control line was not reported as lost".into());
        }
        if self.options.lose_a_line {
            let ledger = &self.ledgers[FORWARDERS];
            ledger.acknowledge(ledger.next(1));
        }
    }

    fn step(&mut self, step: &ScheduledFaults, names: &[String]) -> anyhow::Result<()> {
        let mut row = FaultResult { name: step.name(names), started_at: self.monitor.now(), ..FaultResult::default() };
        eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
        let (before, passes) = (self.monitor.latest_counters(), replication::passes(&self.injector.nodes));
        for fault in &step.faults {
            self.injector.begin(*fault).with_context(|| row.name.clone())?;
        }
        let until = Instant::now() + step.hold;
        while Instant::now() < until && !step.faults.iter().all(|fault| is_instant(*fault)) {
            thread::sleep(Duration::from_millis(200));
            step.faults.iter().for_each(|fault| self.injector.repeat(*fault, &mut self.random));
        }
        for fault in &step.faults {
            self.injector.end(*fault).with_context(|| row.name.clone())?;
        }
        row.ended_at = self.monitor.now();
        row.consumed = Some(timeline::consumed_since(&before, &self.monitor.latest_counters()));
        match self.wait_healthy(&row.name) {
            Ok(()) => row.healed_after = Some(self.monitor.now() - row.ended_at),
            Err(error) => self.report.problems.push(format!("{error:#}")),
        }
        self.record_answers(&mut row);
        eprintln!("           recovered after {:.1} s", (self.monitor.now() - row.ended_at).as_secs_f64());
        row.caught_up_after = self.wait_caught_up(&row, &before);
        if step.faults.iter().any(|fault| fault.kind.loses_copies()) && !self.options.small {
            row.restored_after = self.wait_restored(&row, &passes);
        }
        self.report.rows.push(row);
        Ok(())
    }

    fn wait_healthy(&self, when: &str) -> anyhow::Result<()> {
        health_check::wait_healthy(&self.injector.nodes, &self.monitor, when)
    }

    /// Compares the answers of all nodes with the ledgers, and records the answers of the query load.
    fn record_answers(&mut self, row: &mut FaultResult) {
        for (place, node) in self.injector.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let seen = query_and_compare(node.http(), ledger, &ledger.recent());
                let observation = QueryObservation {
                    at: self.monitor.now(),
                    node_index: place,
                    writer: ledger.name().to_owned(),
                    compared: seen,
                };
                self.report.record_observation(row, &observation, &node.name);
            }
        }
        for observation in self.query_load.take_observations() {
            if observation.at >= row.started_at {
                row.count(&observation);
            }
            self.report.record_observation(row, &observation, &self.injector.nodes[observation.node_index].name);
        }
    }

    /// Ends the load, waits until everything is consumed, and compares all lines from every node.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.forwarders.drain(..) {
            forwarder.finish()?;
        }
        self.wait_consumed()?;
        let row = FaultResult { name: FINAL_ROW.into(), started_at: self.monitor.now(), ..FaultResult::default() };
        let row = self.final_check(row)?;
        self.report.rows.push(row);
        self.query_load.stop();
        if !self.options.small {
            self.stop_each_store()?;
        }
        self.destroy_ingest_node()?;
        self.monitor.stop();
        self.into_report()
    }

    fn into_report(mut self) -> anyhow::Result<Report> {
        let (samples, probes) = (self.monitor.samples(), self.monitor.probes());
        let report = &mut self.report;
        report.acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledged()).sum();
        report.set_latencies(&probes);
        if let Some(out) = &self.options.out {
            let writers: Vec<String> = self.ledgers.iter().map(|ledger| ledger.name().to_owned()).collect();
            timeline::write(out, report, &samples, &probes, &writers)?;
            std::fs::write(out.join("faults.svg"), plot::draw(&report.rows, &samples, &probes))?;
        }
        Ok(std::mem::take(&mut self.report))
    }
}

fn is_instant(fault: Fault) -> bool {
    fault.kind == FaultKind::Rolling || fault.kind.loses_copies()
}

impl Drop for FaultRun<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bulk_stop.store(true, Ordering::Relaxed);
        self.bulk_abandon.store(true, Ordering::Relaxed);
        self.monitor.stop();
    }
}
