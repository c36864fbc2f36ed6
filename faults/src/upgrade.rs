//! A rolling upgrade of a cluster of real processes under load, and the way back: each node is stopped in good order and
//! started as another version of the program, one after the other, stores first on the way up and last on the way back.
//!
//! Half of the forwarders are of the one version and half of the other, and so each meets nodes of both. Meanwhile somebody
//! asks all the time, and after each step every node is asked for everything, and for single lines by their text: so one
//! version reads the segments and filters of the other, from its own disk and from the network.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::asker::{Asker, Told};
use crate::check::{ask, query, tells_a_loss};
use crate::fleet::{self, Common, Node, Role};
use crate::ledger::Ledger;
use crate::load::{Forwarder, bulk};
use crate::random::Random;
use crate::report::{AT_THE_END, Report, Row};
use crate::watch::{Watch, count};
use crate::well;

/// Nodes of each role.
const NODES: usize = 3;

/// Forwarders, each fed with its own lines.
const FORWARDERS: usize = 8;

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
    let mut nodes = fleet::pairs(&common, NODES)?;
    fleet::start(&mut nodes)?;
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
        let asker = Asker::start(at, ledgers.clone(), Arc::clone(&watch), 2);
        watch.look_on();
        watch.probe_on();
        let random = Random::new(1);
        let report = Report::default();
        Ok(Self { options, nodes, watch, ledgers, forwarders, bulks, stop, asker, random, report })
    }

    /// Shows that a loss would be seen: one line more is expected than there is.
    fn control(&mut self) {
        if !tells_a_loss(self.nodes[0].http()) {
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
                self.note(
                    &mut row,
                    &Told { at: self.watch.now(), place, writer: ledger.name().to_owned(), seen },
                    true,
                );
                self.look_for_texts(place, &ledger);
            }
        }
        self.asker.take().iter().for_each(|told| self.note(&mut row, told, false));
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
        let name = &self.nodes[told.place].name;
        row.count(told);
        self.report.note(row, told, name);
        let wrong = match &told.seen {
            None if well => "there is none",
            Some(seen) if well && seen.partial => "it is partial",
            _ => return,
        };
        self.report.wrong(format!("{}: the answer of {name} about {}: {wrong}", row.name, told.writer));
    }

    fn wait_well(&self, when: &str) -> anyhow::Result<()> {
        well::wait(&self.nodes, &self.watch, when)
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
        self.asker.stop();
        self.watch.stop();
        let until = Instant::now() + well::MAX;
        while !self.is_consumed() {
            if Instant::now() > until {
                self.report.problems.push("at the end records wait for stores".into());
                break;
            }
            thread::sleep(crate::watch::EVERY);
        }
        let mut row = Row { name: AT_THE_END.into(), began: self.watch.now(), ..Row::default() };
        for place in 0..self.nodes.len() {
            for ledger in self.ledgers.clone() {
                for program in [&self.options.from, &self.options.to] {
                    let seen = Some(query(program, self.nodes[place].http(), &ledger)?);
                    self.note(
                        &mut row,
                        &Told { at: self.watch.now(), place, writer: ledger.name().to_owned(), seen },
                        true,
                    );
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
        self.report.acknowledged = self.ledgers.iter().map(|ledger| ledger.acknowledged()).sum();
        self.report.found(&self.watch.probes());
        std::mem::take(&mut self.report)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.watch.stop();
    }
}
