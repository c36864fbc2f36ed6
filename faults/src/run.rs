//! A run from its first node to its report.

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
use crate::random::Random;
use crate::report::{FINAL_ROW, FaultResult, Report};
use crate::schedule::{ScheduledFaults, random_schedule};
use crate::{health_check, plot, replication, timeline};

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each fed with its own lines.
const FORWARDERS: usize = 8;

/// Copies of each record.
const COPIES: usize = 2;

/// A node of this size can be filled up.
const SMALL_DISK: u64 = 256 << 20;

/// What a run is like.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// Where the nodes keep their files; a temporary directory when none is given.
    pub dir: Option<PathBuf>,
    /// Where tables and picture are written; nowhere when none is given.
    pub out: Option<PathBuf>,
    /// Decides what happens.
    pub seed: u64,
    /// Only what needs no root and is over soon.
    pub small: bool,
    /// Lines a second of each forwarder.
    pub rate: usize,
    /// How long a fault lasts.
    pub hold: Duration,
    /// How long nothing is wrong between two.
    pub rest: Duration,
    /// Only faults whose name has one of these in it, when there are any.
    pub only: Vec<String>,
    /// Acknowledges a line that is never sent: the run has to say that it is lost. That tests the test.
    pub lose_a_line: bool,
}

impl RunOptions {
    /// The usual run of this program.
    #[must_use]
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

/// Starts a cluster under load and lets things go wrong.
///
/// # Errors
/// When it cannot be brought about: a node does not start, say. What the cluster does wrong is in the report.
pub fn run(options: &RunOptions) -> anyhow::Result<Report> {
    let means = Capabilities::detect();
    let home = match &options.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            None
        }
        None => Some(tempfile::tempdir().context("no temporary directory")?),
    };
    let dir = home.as_ref().map_or_else(|| options.dir.clone().unwrap_or_default(), |home| home.path().to_owned());
    if means.root {
        // Nodes that run as users of their own have to reach their directories.
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755))?;
    }
    let common = FleetConfig::new(&options.bucksaw, &dir, COPIES, means.nft && !options.small)?;
    if home.is_some() {
        common.cleanup.register_undo(&format!("rm -rf '{}'", dir.display()));
    }
    let mut random = Random::new(options.seed);
    let roles: Vec<FleetRole> =
        [FleetRole::Ingest, FleetRole::Store].into_iter().flat_map(|role| [role; NODES]).collect();
    let (mut steps, left_out) = random_schedule(&mut random, &roles, options.small, options.hold, &means);
    let wall = if common.users { Some(Firewall::create(&common.cleanup)?) } else { None };
    let nodes = fleet::pairs(&common, NODES)?;
    let proxies = nodes.iter().filter(|node| node.role == FleetRole::Ingest).enumerate();
    let proxies: Result<Vec<Proxy>, _> = proxies
        .map(|(number, node)| Proxy::start((common.ip(101 + number as u8), 7652).into(), node.durable()))
        .collect();
    let field = FaultInjector::new(nodes, proxies?, wall, means);
    let names: Vec<String> = field.nodes.iter().map(|node| node.name.clone()).collect();
    if !options.only.is_empty() {
        steps.retain(|step| options.only.iter().any(|part| step.name(&names).contains(part.as_str())));
    }
    let mut running = FaultRun::start(options, &common, field, random)?;
    running.report.skipped = left_out;
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
    watch: Arc<ClusterMonitor>,
    ledgers: Vec<Arc<Ledger>>,
    forwarders: Vec<Forwarder>,
    bulk_writers: Vec<JoinHandle<()>>,
    /// Ends the feeding of forwarders, and the bulk writers.
    stop: Arc<AtomicBool>,
    bulk_stop: Arc<AtomicBool>,
    /// Ends the bulk writers though a batch is not acknowledged.
    bulk_abandon: Arc<AtomicBool>,
    query_load: QueryLoad,
    report: Report,
}

impl<'a> FaultRun<'a> {
    fn start(
        options: &'a RunOptions,
        common: &FleetConfig,
        mut field: FaultInjector,
        mut random: Random,
    ) -> anyhow::Result<Self> {
        for place in 0..field.nodes.len() {
            let wanted = !options.small && field.capabilities.root && place % NODES == 0;
            let node = &mut field.nodes[place];
            if wanted {
                node.mount(SMALL_DISK)?;
            }
            node.spawn()?;
        }
        for node in &mut field.nodes {
            node.wait_ready()?;
        }
        let mut ledgers: Vec<Arc<Ledger>> =
            (1..=FORWARDERS).map(|number| Arc::new(Ledger::new(format!("forwarder{number}")))).collect();
        let bulk_ledgers: Vec<Arc<Ledger>> =
            (1..=NODES).map(|number| Arc::new(Ledger::new(format!("bulk{number}")))).collect();
        ledgers.extend(bulk_ledgers.iter().cloned());
        let nodes: Vec<_> = field.nodes.iter().map(FleetNode::http).collect();
        let ingest: Vec<_> = field.with_role(FleetRole::Ingest).map(FleetNode::http).collect();
        let watch = ClusterMonitor::new(nodes.clone(), ingest.clone(), ledgers.clone());
        let mut running = Self {
            query_load: QueryLoad::start(nodes, ledgers.clone(), Arc::clone(&watch), random.next_u64()),
            options,
            injector: field,
            random,
            watch,
            ledgers,
            forwarders: Vec::new(),
            bulk_writers: Vec::new(),
            stop: Arc::default(),
            bulk_stop: Arc::default(),
            bulk_abandon: Arc::default(),
            report: Report::default(),
        };
        running.watch.start_polling();
        running.wait_healthy("at the start")?;
        running.watch.start_counting();
        running.watch.start_probing();
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

    /// Lets nothing go wrong for a while.
    fn rest(&self) -> anyhow::Result<()> {
        thread::sleep(self.options.rest);
        Ok(())
    }

    /// Shows that a loss would be seen: one line more is expected than there is.
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
        let mut row = FaultResult { name: step.name(names), started_at: self.watch.now(), ..FaultResult::default() };
        eprintln!("{:7.1} s  {}", row.started_at.as_secs_f64(), row.name);
        let (before, passes) = (self.watch.latest_counters(), replication::passes(&self.injector.nodes));
        for blow in &step.faults {
            self.injector.begin(*blow).with_context(|| row.name.clone())?;
        }
        let until = Instant::now() + step.hold;
        while Instant::now() < until && !step.faults.iter().all(|blow| is_instant(*blow)) {
            thread::sleep(Duration::from_millis(200));
            step.faults.iter().for_each(|blow| self.injector.repeat(*blow, &mut self.random));
        }
        for blow in &step.faults {
            self.injector.end(*blow).with_context(|| row.name.clone())?;
        }
        row.ended_at = self.watch.now();
        row.consumed = Some(timeline::consumed_since(&before, &self.watch.latest_counters()));
        match self.wait_healthy(&row.name) {
            Ok(()) => row.healed_after = Some(self.watch.now() - row.ended_at),
            Err(error) => self.report.problems.push(format!("{error:#}")),
        }
        self.record_answers(&mut row);
        eprintln!("           healed after {:.1} s", (self.watch.now() - row.ended_at).as_secs_f64());
        row.caught_up_after = self.wait_caught_up(&row, &before);
        if step.faults.iter().any(|blow| blow.kind.loses_copies()) && !self.options.small {
            row.restored_after = self.wait_restored(&row, &passes);
        }
        self.report.rows.push(row);
        Ok(())
    }

    fn wait_healthy(&self, when: &str) -> anyhow::Result<()> {
        health_check::wait_healthy(&self.injector.nodes, &self.watch, when)
    }

    /// Compares what every node shows with what was acknowledged, and puts down what was seen meanwhile.
    fn record_answers(&mut self, row: &mut FaultResult) {
        for (place, node) in self.injector.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let seen = query_and_compare(node.http(), ledger, &ledger.recent());
                let told = QueryObservation {
                    at: self.watch.now(),
                    node_index: place,
                    writer: ledger.name().to_owned(),
                    compared: seen,
                };
                self.report.record_observation(row, &told, &node.name);
            }
        }
        for told in self.query_load.take_observations() {
            if told.at >= row.started_at {
                row.count(&told);
            }
            self.report.record_observation(row, &told, &self.injector.nodes[told.node_index].name);
        }
    }

    /// Ends the load, sees to it that everything is consumed, and looks at all lines from every node.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.forwarders.drain(..) {
            forwarder.finish()?;
        }
        self.wait_consumed()?;
        let row = FaultResult { name: FINAL_ROW.into(), started_at: self.watch.now(), ..FaultResult::default() };
        let row = self.final_check(row)?;
        self.report.rows.push(row);
        self.query_load.stop();
        if !self.options.small {
            self.stop_each_store()?;
        }
        self.destroy_ingest_node()?;
        self.watch.stop();
        self.into_report()
    }

    fn into_report(mut self) -> anyhow::Result<Report> {
        let (samples, probes) = (self.watch.samples(), self.watch.probes());
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

fn is_instant(blow: Fault) -> bool {
    blow.kind == FaultKind::Rolling || blow.kind.loses_copies()
}

impl Drop for FaultRun<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bulk_stop.store(true, Ordering::Relaxed);
        self.bulk_abandon.store(true, Ordering::Relaxed);
        self.watch.stop();
    }
}
