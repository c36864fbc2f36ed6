//! A rolling upgrade of a cluster of real processes under load, and the way back: each node is stopped in good order and
//! started as another version of the program, one after the other, stores first on the way up and last on the way back.
//!
//! Half of the forwarders are of the one version and half of the other, and so each meets nodes of both. Meanwhile somebody
//! asks all the time, and after each step every node is asked for everything, and for single lines by their text: so one
//! version reads the segments and filters of the other, from its own disk and from the network.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use crate::check::{Seen, ask, query};
use crate::fleet::{Common, Node, Role};
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::random::Random;
use crate::report::{Latency, Report, Row};
use crate::watch::{Watch, count};

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each fed with its own lines.
const FORWARDERS: usize = 8;

/// How long the cluster may take to come right after a step.
const WELL_MAX: Duration = Duration::from_secs(120);

/// Nothing should wait for a store for longer than this when all is well.
const WAIT_MAX_SECONDS: f64 = 6.0;

/// Lines of each writer that are looked for by their text after a step, and how much older than the newest they are.
const TEXTS: usize = 2;
const TEXT_SECONDS: usize = 15;

/// Two versions, and how they are tried.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// The program that runs at first, and in the end.
    pub from: PathBuf,
    /// The program that takes its place.
    pub to: PathBuf,
    /// Where the nodes keep their files, and these stay; a temporary directory when none is given.
    pub dir: Option<PathBuf>,
    /// Lines a second of each forwarder.
    pub rate: usize,
    /// Between two steps.
    pub rest: Duration,
    /// Whether the way back is tried, too.
    pub back: bool,
}

/// Brings all nodes from one version to the other, and back.
///
/// # Errors
/// When it cannot be brought about: a node does not start, say. What the cluster does wrong is in the report.
pub fn upgrade(options: &Upgrade) -> anyhow::Result<Report> {
    let temporary = tempfile::tempdir().context("no temporary directory")?;
    let home = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    let common = Common::new(&options.from, &home, 2, false)?;
    let mut nodes = Vec::new();
    for place in 0..2 * NODES {
        let role = if place < NODES { Role::Ingest } else { Role::Store };
        nodes.push(Node::new(&common, role, place % NODES + 1, place as u8)?);
    }
    nodes.iter_mut().try_for_each(Node::begin)?;
    nodes.iter_mut().try_for_each(Node::wait_ready)?;
    let mut running = Running::start(options, &common, nodes)?;
    running.wait_well("at the start")?;
    thread::sleep(options.rest);
    running.control();
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
struct Running<'a> {
    options: &'a Upgrade,
    nodes: Vec<Node>,
    watch: Arc<Watch>,
    ledgers: Vec<Arc<Ledger>>,
    forwarders: Vec<Forwarder>,
    bulks: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    asker: Asker,
    random: Random,
    report: Report,
}

/// Asks one node after the other while things change.
struct Asker {
    told: Arc<Mutex<Vec<Told>>>,
    stop: Arc<AtomicBool>,
}

/// An answer, and of whom.
struct Told {
    place: usize,
    writer: String,
    /// None when there was no answer.
    seen: Option<Seen>,
}

impl<'a> Running<'a> {
    fn start(options: &'a Upgrade, common: &Common, nodes: Vec<Node>) -> anyhow::Result<Self> {
        let names = (1..=FORWARDERS).map(|number| format!("forwarder{number}"));
        let names = names.chain((1..=NODES).map(|number| format!("bulk{number}")));
        let ledgers: Vec<Arc<Ledger>> = names.map(|name| Arc::new(Ledger::new(name))).collect();
        let at: Vec<_> = nodes.iter().map(Node::http).collect();
        let ingest: Vec<&Node> = nodes.iter().filter(|node| node.role == Role::Ingest).collect();
        let watch = Watch::new(at.clone(), ingest.iter().map(|node| node.http()).collect(), ledgers.clone());
        let stop = Arc::<AtomicBool>::default();
        let (mut forwarders, mut bulks) = (Vec::new(), Vec::new());
        for (number, ledger) in ledgers.iter().take(FORWARDERS).enumerate() {
            let mut to: Vec<_> = ingest.iter().map(|node| node.durable()).collect();
            to.rotate_left(number % NODES);
            let program = if number % 2 == 0 { &options.from } else { &options.to };
            let (home, minder) = (&common.home, &common.minder);
            forwarders.push(Forwarder::start(program, home, minder, ledger, &to, options.rate, &stop)?);
        }
        for (ledger, node) in ledgers.iter().skip(FORWARDERS).zip(&ingest) {
            let (ledger, to, stop) = (Arc::clone(ledger), [node.http()], Arc::clone(&stop));
            let never = AtomicBool::new(false);
            bulks.push(thread::spawn(move || bulk(&ledger, &to, Duration::from_millis(200), &stop, &never)));
        }
        let asker = Asker::start(at, ledgers.clone());
        watch.look_on();
        watch.probe_on();
        let random = Random::new(1);
        let report = Report::default();
        Ok(Self { options, nodes, watch, ledgers, forwarders, bulks, stop, asker, random, report })
    }

    /// Shows that a loss would be seen: one line more is expected than there is.
    fn control(&mut self) {
        let ledger = Ledger::new("nobody");
        ledger.acknowledge(ledger.next(1));
        let seen = ask(self.nodes[0].http(), &ledger, &ledger.everything());
        if !seen.is_some_and(|seen| !seen.partial && seen.verdict.lost == [0]) {
            self.report.problems.push("a line that was never sent was not told as lost".into());
        }
    }

    /// Stops a node in good order, and starts another program in its place.
    fn step(&mut self, place: usize, program: &std::path::Path, version: &str) -> anyhow::Result<()> {
        let name = format!("{} to {version}", self.nodes[place].name);
        let mut row = Row { name, began: self.watch.now(), ..Row::default() };
        eprintln!("{:7.1} s  {}", row.began.as_secs_f64(), row.name);
        let node = &mut self.nodes[place];
        node.stop()?;
        program.clone_into(&mut node.program);
        node.begin()?;
        node.wait_ready()?;
        row.ended = self.watch.now();
        match self.wait_well(&row.name) {
            Ok(()) => row.heal = Some(self.watch.now() - row.ended),
            Err(error) => self.report.problems.push(format!("{error:#}")),
        }
        for place in 0..self.nodes.len() {
            for ledger in self.ledgers.clone() {
                let seen = ask(self.nodes[place].http(), &ledger, &ledger.recent());
                self.note(&mut row, &Told { place, writer: ledger.name().to_owned(), seen }, true);
                self.look_for_texts(place, &ledger);
            }
        }
        let told = std::mem::take(&mut *self.asker.told.lock().unwrap_or_else(PoisonError::into_inner));
        told.iter().for_each(|told| self.note(&mut row, told, false));
        self.report.rows.push(row);
        thread::sleep(self.options.rest);
        Ok(())
    }

    /// Lines that were sent a while ago are found by their text, once.
    fn look_for_texts(&mut self, place: usize, ledger: &Ledger) {
        let settled = (ledger.sent() as usize).saturating_sub(TEXT_SECONDS * self.options.rate);
        for _ in 0..TEXTS.min(settled) {
            // The filler of the first is in others, too.
            let number = 1 + self.random.below(settled) as u64;
            let line = String::from_utf8_lossy(&ledger.text(number..number + 1)).into_owned();
            let words = line.split(' ').nth(3).unwrap_or_default();
            let node = &self.nodes[place];
            // With its writer, for the fillers of equal numbers are equal.
            let found = count(node.http(), &format!("writer%3D{}%20%22{words}%22", ledger.name()), 0);
            if found != Some(1) {
                let name = &node.name;
                self.report.problems.push(format!("{name} finds {words} of {} {found:?} times", ledger.name()));
            }
        }
    }

    /// Puts down what an answer showed. When all is well it has to be there, and whole.
    fn note(&mut self, row: &mut Row, told: &Told, well: bool) {
        row.answers[told.seen.as_ref().map_or(2, |seen| usize::from(seen.partial))] += 1;
        let name = &self.nodes[told.place].name;
        let wrong = match &told.seen {
            None if well => Some("there is none".to_owned()),
            Some(seen) if well && seen.partial => Some("it is partial".to_owned()),
            Some(seen) => seen.verdict.wrong(seen.partial),
            None => None,
        };
        if let Some(seen) = &told.seen {
            let keyed =
                |numbers: &[u64]| numbers.iter().map(|number| (told.writer.clone(), *number)).collect::<Vec<_>>();
            if !seen.partial {
                row.lost.extend(keyed(&seen.verdict.lost));
            }
            row.doubled.extend(keyed(&seen.verdict.doubled));
            row.foreign += seen.verdict.foreign;
        }
        if let Some(wrong) = wrong {
            let problem = format!("{}: the answer of {name} about {}: {wrong}", row.name, told.writer);
            eprintln!("           {problem}");
            self.report.problems.push(problem);
        }
    }

    /// Waits until every node sees every other, nothing old waits, and answers are complete.
    fn wait_well(&self, when: &str) -> anyhow::Result<()> {
        let until = Instant::now() + WELL_MAX;
        while let Some(trouble) = self.trouble() {
            if Instant::now() > until {
                bail!("{when}: not well after {} s: {trouble}", WELL_MAX.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn trouble(&self) -> Option<String> {
        for node in &self.nodes {
            let Ok(cluster) = node.cluster() else { return Some(format!("{} does not answer", node.name)) };
            let listed = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
            if listed.iter().filter(|node| node["state"] == "ready").count() != self.nodes.len() {
                return Some(format!("{} does not see all nodes ready", node.name));
            }
            if let Some(apart) = listed.iter().find_map(|node| node["apart"].as_str()) {
                return Some(format!("{} says of another that it {apart}", node.name));
            }
        }
        let old = |told: &crate::watch::Told| told.oldest > WAIT_MAX_SECONDS;
        if let Some(place) = self.watch.told().iter().position(old) {
            return Some(format!("records wait in {}", self.nodes[place].name));
        }
        let partial = self.nodes.iter().find(|node| count(node.http(), "", 0).is_none());
        partial.map(|node| format!("{} gives no complete answer", node.name))
    }

    /// Ends the load, sees to it that everything is consumed, and looks at all lines from every node, with both programs.
    fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        for forwarder in self.forwarders.drain(..) {
            forwarder.finish()?;
        }
        for bulk in self.bulks.drain(..) {
            // It cannot panic but by a bug of the harness.
            bulk.join().map_err(|_| anyhow!("a bulk writer panicked"))?;
        }
        self.asker.stop.store(true, Ordering::Relaxed);
        self.watch.stop();
        let until = Instant::now() + WELL_MAX;
        while !self.is_consumed() {
            if Instant::now() > until {
                self.report.problems.push("at the end records wait for stores".into());
                break;
            }
            thread::sleep(crate::watch::EVERY);
        }
        let mut row = Row { name: "at the end".into(), began: self.watch.now(), ..Row::default() };
        for place in 0..self.nodes.len() {
            for ledger in self.ledgers.clone() {
                for program in [&self.options.from, &self.options.to] {
                    let seen = Some(query(program, self.nodes[place].http(), &ledger)?);
                    self.note(&mut row, &Told { place, writer: ledger.name().to_owned(), seen }, true);
                }
            }
        }
        (row.ended, row.heal) = (self.watch.now(), Some(Duration::ZERO));
        self.report.rows.push(row);
        Ok(self.tell())
    }

    fn is_consumed(&self) -> bool {
        self.nodes.iter().all(|node| {
            let waits = |node: &serde_json::Value| node["queue"]["pending_bytes"].as_u64();
            let listed = node.cluster().ok().and_then(|cluster| cluster["nodes"].as_array().cloned());
            listed.is_some_and(|nodes| nodes.iter().all(|node| waits(node) == Some(0)))
        })
    }

    fn tell(mut self) -> Report {
        let report = &mut self.report;
        report.acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledged()).sum();
        let (mut steady, mut changing) = (Vec::new(), Vec::new());
        for probe in self.watch.probes() {
            let Some(took) = probe.took else {
                report
                    .problems
                    .push(format!("the probe line sent at {:.1} s was never found", probe.sent.as_secs_f64()));
                continue;
            };
            let touches =
                |row: &&mut Row| probe.sent < row.ended + row.heal.unwrap_or_default() && row.began < probe.sent + took;
            match report.rows.iter_mut().find(touches) {
                Some(row) => {
                    row.gap = row.gap.max(took);
                    changing.push(took);
                }
                None => steady.push(took),
            }
        }
        (report.steady, report.faulty) = (Latency::of(steady), Latency::of(changing));
        std::mem::take(report)
    }
}

impl Asker {
    fn start(nodes: Vec<std::net::SocketAddr>, ledgers: Vec<Arc<Ledger>>) -> Self {
        let (told, stop) = (Arc::<Mutex<Vec<Told>>>::default(), Arc::<AtomicBool>::default());
        let (tell, stopped) = (Arc::clone(&told), Arc::clone(&stop));
        thread::spawn(move || {
            let mut random = Random::new(2);
            while !stopped.load(Ordering::Relaxed) {
                let (place, ledger) = (random.below(nodes.len()), &ledgers[random.below(ledgers.len())]);
                // What was acknowledged before it is asked has to be in a complete answer.
                let seen = ask(nodes[place], ledger, &ledger.recent());
                let told = Told { place, writer: ledger.name().to_owned(), seen };
                tell.lock().unwrap_or_else(PoisonError::into_inner).push(told);
                thread::sleep(Duration::from_millis(300));
            }
        });
        Self { told, stop }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asker.stop.store(true, Ordering::Relaxed);
        self.watch.stop();
    }
}
