//! A run from its first node to its report.

mod after;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::asker::{Asker, Told};
use crate::check::{ask, tells_a_loss};
use crate::fault::{Blow, Field, Kind, Means};
use crate::fleet::{self, Common, Node, Role};
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::report::{AT_THE_END, Report, Row};
use crate::schedule::{Step, draw};
use crate::wall::Wall;
use crate::watch::Watch;
use crate::{copies, plot, timeline, well};

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
pub struct Options {
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

impl Options {
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
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let means = Means::found();
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
    let common = Common::new(&options.bucksaw, &dir, COPIES, means.nft && !options.small)?;
    if home.is_some() {
        common.minder.note(&format!("rm -rf '{}'", dir.display()));
    }
    let mut random = Random::new(options.seed);
    let roles: Vec<Role> = [Role::Ingest, Role::Store].into_iter().flat_map(|role| [role; NODES]).collect();
    let (mut steps, left_out) = draw(&mut random, &roles, options.small, options.hold, &means);
    let wall = if common.users { Some(Wall::build(&common.minder)?) } else { None };
    let nodes = fleet::pairs(&common, NODES)?;
    let proxies = nodes.iter().filter(|node| node.role == Role::Ingest).enumerate();
    let proxies: Result<Vec<Proxy>, _> = proxies
        .map(|(number, node)| Proxy::start((common.ip(101 + number as u8), 7652).into(), node.durable()))
        .collect();
    let field = Field::new(nodes, proxies?, wall, means);
    let names: Vec<String> = field.nodes.iter().map(|node| node.name.clone()).collect();
    if !options.only.is_empty() {
        steps.retain(|step| options.only.iter().any(|part| step.name(&names).contains(part.as_str())));
    }
    let mut running = Running::start(options, &common, field, random)?;
    running.report.left_out = left_out;
    running.report.seed = options.seed;
    running.rest()?;
    running.control();
    for step in &steps {
        running.step(step, &names)?;
        running.rest()?;
    }
    running.finish()
}

/// A cluster under load.
struct Running<'a> {
    options: &'a Options,
    field: Field,
    random: Random,
    watch: Arc<Watch>,
    ledgers: Vec<Arc<Ledger>>,
    forwarders: Vec<Forwarder>,
    bulks: Vec<JoinHandle<()>>,
    /// Ends the feeding of forwarders, and the bulk writers.
    stop: Arc<AtomicBool>,
    bulk_stop: Arc<AtomicBool>,
    /// Ends the bulk writers though a batch is not acknowledged.
    bulk_abandon: Arc<AtomicBool>,
    asker: Asker,
    report: Report,
}

impl<'a> Running<'a> {
    fn start(options: &'a Options, common: &Common, mut field: Field, mut random: Random) -> anyhow::Result<Self> {
        for place in 0..field.nodes.len() {
            let wanted = !options.small && field.means.root && place % NODES == 0;
            let node = &mut field.nodes[place];
            if wanted {
                node.mount(SMALL_DISK)?;
            }
            node.begin()?;
        }
        for node in &mut field.nodes {
            node.wait_ready()?;
        }
        let mut ledgers: Vec<Arc<Ledger>> =
            (1..=FORWARDERS).map(|number| Arc::new(Ledger::new(format!("forwarder{number}")))).collect();
        let bulk_ledgers: Vec<Arc<Ledger>> =
            (1..=NODES).map(|number| Arc::new(Ledger::new(format!("bulk{number}")))).collect();
        ledgers.extend(bulk_ledgers.iter().cloned());
        let nodes: Vec<_> = field.nodes.iter().map(Node::http).collect();
        let ingest: Vec<_> = field.of(Role::Ingest).map(Node::http).collect();
        let watch = Watch::new(nodes.clone(), ingest.clone(), ledgers.clone());
        let mut running = Self {
            asker: Asker::start(nodes, ledgers.clone(), Arc::clone(&watch), random.next_u64()),
            options,
            field,
            random,
            watch,
            ledgers,
            forwarders: Vec::new(),
            bulks: Vec::new(),
            stop: Arc::default(),
            bulk_stop: Arc::default(),
            bulk_abandon: Arc::default(),
            report: Report::default(),
        };
        running.watch.look_on();
        running.wait_well("at the start")?;
        running.watch.count_on();
        running.watch.probe_on();
        for (number, ledger) in running.ledgers.iter().take(FORWARDERS).enumerate() {
            let mut to: Vec<_> = running.field.proxies.iter().map(|proxy| proxy.at).collect();
            to.rotate_left(number % NODES);
            let (home, stop) = (&common.home, &running.stop);
            let forwarder = Forwarder::start(&options.bucksaw, home, &common.minder, ledger, &to, options.rate, stop)?;
            running.forwarders.push(forwarder);
        }
        for (place, ledger) in bulk_ledgers.into_iter().enumerate() {
            let (stop, abandon) = (Arc::clone(&running.bulk_stop), Arc::clone(&running.bulk_abandon));
            let mut to = ingest.clone();
            to.rotate_left(place);
            let writer = thread::spawn(move || bulk(&ledger, &to, Duration::from_millis(200), &stop, &abandon));
            running.bulks.push(writer);
        }
        Ok(running)
    }

    /// Lets nothing go wrong for a while.
    fn rest(&self) -> anyhow::Result<()> {
        thread::sleep(self.options.rest);
        Ok(())
    }

    /// Shows that a loss would be seen: one line more is expected than there is.
    fn control(&mut self) {
        if !tells_a_loss(self.field.nodes[0].http()) {
            self.report.problems.push("a line that was never sent was not told as lost".into());
        }
        if self.options.lose_a_line {
            let ledger = &self.ledgers[FORWARDERS];
            ledger.acknowledge(ledger.next(1));
        }
    }

    fn step(&mut self, step: &Step, names: &[String]) -> anyhow::Result<()> {
        let mut row = Row { name: step.name(names), began: self.watch.now(), ..Row::default() };
        eprintln!("{:7.1} s  {}", row.began.as_secs_f64(), row.name);
        let (before, passes) = (self.watch.told(), copies::passes(&self.field.nodes));
        for blow in &step.blows {
            self.field.begin(*blow).with_context(|| row.name.clone())?;
        }
        let until = Instant::now() + step.hold;
        while Instant::now() < until && !step.blows.iter().all(|blow| is_over_at_once(*blow)) {
            thread::sleep(Duration::from_millis(200));
            step.blows.iter().for_each(|blow| self.field.go_on(*blow, &mut self.random));
        }
        for blow in &step.blows {
            self.field.end(*blow).with_context(|| row.name.clone())?;
        }
        row.ended = self.watch.now();
        row.consumed = Some(timeline::consumed_since(&before, &self.watch.told()));
        match self.wait_well(&row.name) {
            Ok(()) => row.heal = Some(self.watch.now() - row.ended),
            Err(error) => self.report.problems.push(format!("{error:#}")),
        }
        self.settle(&mut row);
        eprintln!("           healed after {:.1} s", (self.watch.now() - row.ended).as_secs_f64());
        row.caught_up = self.wait_caught_up(&row, &before);
        if step.blows.iter().any(|blow| blow.kind.loses_copies()) && !self.options.small {
            row.restored = self.wait_restored(&row, &passes);
        }
        self.report.rows.push(row);
        Ok(())
    }

    fn wait_well(&self, when: &str) -> anyhow::Result<()> {
        well::wait(&self.field.nodes, &self.watch, when)
    }

    /// Compares what every node shows with what was acknowledged, and puts down what was seen meanwhile.
    fn settle(&mut self, row: &mut Row) {
        for (place, node) in self.field.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let seen = ask(node.http(), ledger, &ledger.recent());
                let told = Told { at: self.watch.now(), place, writer: ledger.name().to_owned(), seen };
                self.report.note(row, &told, &node.name);
            }
        }
        for told in self.asker.take() {
            if told.at >= row.began {
                row.count(&told);
            }
            self.report.note(row, &told, &self.field.nodes[told.place].name);
        }
    }

    /// Ends the load, sees to it that everything is consumed, and looks at all lines from every node.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.forwarders.drain(..) {
            forwarder.finish()?;
        }
        self.wait_consumed()?;
        let row = Row { name: AT_THE_END.into(), began: self.watch.now(), ..Row::default() };
        let row = self.last_look(row)?;
        self.report.rows.push(row);
        self.asker.stop();
        if !self.options.small {
            self.miss_each_store()?;
        }
        self.lose_an_ingest_node()?;
        self.watch.stop();
        self.tell()
    }

    fn tell(mut self) -> anyhow::Result<Report> {
        let (samples, probes) = (self.watch.samples(), self.watch.probes());
        let report = &mut self.report;
        report.acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledged()).sum();
        report.found(&probes);
        if let Some(out) = &self.options.out {
            let writers: Vec<String> = self.ledgers.iter().map(|ledger| ledger.name().to_owned()).collect();
            timeline::write(out, report, &samples, &probes, &writers)?;
            std::fs::write(out.join("faults.svg"), plot::draw(&report.rows, &samples, &probes))?;
        }
        Ok(std::mem::take(&mut self.report))
    }
}

fn is_over_at_once(blow: Blow) -> bool {
    blow.kind == Kind::Rolling || blow.kind.loses_copies()
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bulk_stop.store(true, Ordering::Relaxed);
        self.bulk_abandon.store(true, Ordering::Relaxed);
        self.watch.stop();
    }
}
