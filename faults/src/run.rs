//! A run from its first node to its report.

mod after;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::check::{Seen, ask};
use crate::fault::{Blow, Field, Kind, Means};
use crate::fleet::{Common, Node, Role};
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::report::{Latency, Report, Row};
use crate::schedule::{Step, draw};
use crate::wall::Wall;
use crate::watch::{Watch, count};
use crate::{plot, timeline};

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each fed with its own lines.
const FORWARDERS: usize = 8;

/// The row of the last look at everything.
const AT_THE_END: &str = "at the end";

/// How long the cluster may take to come right after a fault.
const HEAL_MAX: Duration = Duration::from_secs(120);

/// Copies of each record.
const COPIES: usize = 2;

/// Nothing should wait for a store for longer than this when all is well.
const WAIT_MAX_SECONDS: f64 = 6.0;

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
    let mut nodes = Vec::new();
    for (place, role) in roles.iter().enumerate() {
        nodes.push(Node::new(&common, *role, place % NODES + 1, place as u8)?);
    }
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

/// A thread that asks all the time.
struct Asker {
    told: Arc<Mutex<Vec<Told>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What an answer showed that was asked for while things went wrong.
struct Told {
    at: Duration,
    node: usize,
    writer: String,
    /// None when there was no whole answer.
    seen: Option<Seen>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let ledger = Ledger::new("nobody");
        let _ = ledger.next(1);
        ledger.acknowledge(0..1);
        let at = self.field.nodes[0].http();
        let seen = ask(at, &ledger, &ledger.everything());
        if !seen.is_some_and(|seen| !seen.partial && seen.verdict.lost == [0]) {
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
        let before = self.watch.told();
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
            row.restored = self.wait_restored(&row);
        }
        self.report.rows.push(row);
        Ok(())
    }

    /// Waits until every node is there for every node, nothing old waits, and answers are complete.
    fn wait_well(&self, when: &str) -> anyhow::Result<()> {
        let until = Instant::now() + HEAL_MAX;
        loop {
            match self.trouble() {
                None => return Ok(()),
                Some(trouble) if Instant::now() > until => {
                    bail!("{when}: not well after {} s: {trouble}", HEAL_MAX.as_secs())
                }
                Some(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// What is not well.
    fn trouble(&self) -> Option<String> {
        let nodes = &self.field.nodes;
        for node in nodes {
            let Ok(cluster) = node.cluster() else { return Some(format!("{} does not answer", node.name)) };
            let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ready = listed.iter().filter(|node| node["state"] == "ready").count();
            if ready != nodes.len() {
                let states: BTreeMap<&str, &str> = listed
                    .iter()
                    .filter_map(|node| Some((node["addresses"]["cluster"].as_str()?, node["state"].as_str()?)))
                    .collect();
                return Some(format!("{} sees {ready} of {} nodes ready: {states:?}", node.name, nodes.len()));
            }
        }
        for (node, told) in nodes.iter().zip(self.watch.told()) {
            if told.oldest > WAIT_MAX_SECONDS {
                return Some(format!("{}: {:.0} bytes wait, for {:.0} s", node.name, told.pending, told.oldest));
            }
        }
        let partial = nodes.iter().find(|node| count(node.http(), "", 0).is_none());
        partial.map(|node| format!("{} gives no complete answer", node.name))
    }

    /// Compares what every node shows with what was acknowledged, and puts down what was seen meanwhile.
    fn settle(&mut self, row: &mut Row) {
        for (place, node) in self.field.nodes.iter().enumerate() {
            for ledger in &self.ledgers {
                let seen = ask(node.http(), ledger, &ledger.recent());
                let told = Told { at: self.watch.now(), node: place, writer: ledger.name().to_owned(), seen };
                note(&mut self.report.problems, row, &told, &node.name);
            }
        }
        for told in lock(&self.asker.told).drain(..) {
            let name = &self.field.nodes[told.node].name;
            if told.at >= row.began {
                let seen = told.seen.as_ref();
                row.answers[seen.map_or(2, |seen| usize::from(seen.partial))] += 1;
            }
            note(&mut self.report.problems, row, &told, name);
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
        self.asker.stop.store(true, Ordering::Relaxed);
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
        let (mut steady, mut faulty) = (Vec::new(), Vec::new());
        for probe in &probes {
            let took = probe.took.unwrap_or(Duration::MAX);
            let arrived = probe.sent.saturating_add(took);
            let touches = |row: &&mut Row| {
                row.name != AT_THE_END && probe.sent < row.ended + row.heal.unwrap_or_default() && row.began < arrived
            };
            match report.rows.iter_mut().find(touches) {
                Some(row) => {
                    row.gap = row.gap.max(took);
                    faulty.push(took);
                }
                None => steady.push(took),
            }
            if probe.took.is_none() {
                let at = probe.sent.as_secs_f64();
                report.problems.push(format!("the probe line sent at {at:.1} s was never found"));
            }
        }
        (report.steady, report.faulty) = (Latency::of(steady), Latency::of(faulty));
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

/// Puts down what an answer showed.
fn note(problems: &mut Vec<String>, row: &mut Row, told: &Told, node: &str) {
    let Some(seen) = &told.seen else { return };
    let keyed = |numbers: &[u64]| numbers.iter().map(|number| (told.writer.clone(), *number)).collect::<Vec<_>>();
    if !seen.partial {
        row.lost.extend(keyed(&seen.verdict.lost));
    }
    row.doubled.extend(keyed(&seen.verdict.doubled));
    row.foreign += seen.verdict.foreign;
    if let Some(wrong) = seen.verdict.wrong(seen.partial) {
        let (at, what) = (told.at.as_secs_f64(), &row.name);
        let problem = format!("{at:.1} s, {what}: the answer of {node} about {}: {wrong}", told.writer);
        eprintln!("           {problem}");
        problems.push(problem);
    }
}

impl Asker {
    fn start(nodes: Vec<std::net::SocketAddr>, ledgers: Vec<Arc<Ledger>>, watch: Arc<Watch>, seed: u64) -> Self {
        let (told, stop) = (Arc::<Mutex<Vec<Told>>>::default(), Arc::<AtomicBool>::default());
        let (tell, stopped) = (Arc::clone(&told), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut random = Random::new(seed);
            while !stopped.load(Ordering::Relaxed) {
                let (node, ledger) = (random.below(nodes.len()), &ledgers[random.below(ledgers.len())]);
                // What was acknowledged before it is asked has to be in a complete answer.
                let expected = ledger.recent();
                let at = watch.now();
                let seen = ask(nodes[node], ledger, &expected);
                lock(&tell).push(Told { at, node, writer: ledger.name().to_owned(), seen });
                thread::sleep(Duration::from_millis(300));
            }
        });
        Self { told, stop, thread }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It ends by itself when its question is answered.
        let _ = self.thread.is_finished();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bulk_stop.store(true, Ordering::Relaxed);
        self.bulk_abandon.store(true, Ordering::Relaxed);
        self.watch.stop();
    }
}
