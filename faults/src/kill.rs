//! Hundreds of `kill -9` at random moments under load: what was acknowledged is there after each, once.
//!
//! ```text
//!   writers: forward, TCP and HTTP, of each promise, with keys and without ──► 1 or 3 nodes
//!   round:   wait until all write ─► kill one node, or all: at work, at its start, or while it stops ─► start ─► compare
//! ```
//! Each writer has a [`Ledger`]. What is new since the last round is compared after each, everything at the end. In a control
//! a line that was acknowledged is left out of what was found, and one is doubled: the comparison must tell of both, else it
//! would not see a loss either.

mod writer;

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::cleanup_guard::CleanupGuard;
use crate::http::call;
use crate::ledger::{ExpectedLines, Ledger};
use crate::random::Random;
use crate::standalone::{CLUSTER, StandaloneNode, free_net};
use writer::{IngestPath, KillWriter, WriterStop};

/// Small enough that records move from the queue to the store, and segments are merged, all the time.
const SMALL: [&str; 6] = ["--segment-max-age", "200ms", "--segment-max-bytes", "64K", "--store-segment-bytes", "512K"];

/// How long an answer may take to go on.
const ASK_MAX: Duration = Duration::from_secs(40);

/// How long a node may take until it sees the others again, and answers are complete.
const HEALTHY_MAX: Duration = Duration::from_secs(60);

/// How long a writer may take to have something acknowledged by a node that is up.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// How long the node works in a round, at most.
const LOAD_MAX_MS: usize = 700;

/// Between two lines that say how far it is.
const PROGRESS_ROUNDS: usize = 50;

/// How it is done.
#[derive(Clone, Debug)]
pub struct KillOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// How many rounds.
    pub rounds: usize,
    /// How many nodes; each takes in and stores. With more than one, each record is on two.
    pub nodes: usize,
    /// Decides who is killed, and when.
    pub seed: u64,
    /// Rounds from one control to the next.
    pub control_every: usize,
    /// A line is called acknowledged that was never sent: the test of the whole.
    pub lose_a_line: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct KillReport {
    /// Rounds that were done.
    pub rounds: usize,
    /// Processes that were killed.
    pub kills: usize,
    /// Lines of which a node said that it keeps them.
    pub acknowledged: u64,
    /// Acknowledged lines that a complete answer lacked.
    pub lost: usize,
    /// Lines that an answer had more than once.
    pub duplicated: usize,
    /// Lines that were never sent.
    pub unexpected: usize,
    /// Controls, and those that were found.
    pub controls: (usize, usize),
    /// How long it took.
    pub time: Duration,
    /// What was wrong.
    pub problems: Vec<String>,
}

impl fmt::Display for KillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        let Self {
            rounds, kills, acknowledged, lost, duplicated: doubled, unexpected: foreign, controls, time, ..
        } = self;
        writeln!(
            f,
            "{rounds} rounds, {kills} kills, {acknowledged} lines acknowledged: {lost} lost, {doubled} doubled, {foreign} never \
             sent; {} of {} controls found; {:.0?}",
            controls.1, controls.0, time,
        )
    }
}

/// Kills nodes, round after round.
///
/// # Errors
/// When it cannot be brought about: a node does not start, say, or does not come to be well.
pub fn kill(options: &KillOptions) -> anyhow::Result<KillReport> {
    ensure!(options.nodes > 0, "at least one node");
    let home = tempfile::tempdir().context("no temporary directory")?;
    let (net, minder) = (free_net(options.seed)?, CleanupGuard::start()?);
    let mut nodes: Vec<StandaloneNode> =
        (0..options.nodes).map(|place| node(options, home.path(), net, place, &minder)).collect();
    nodes.iter_mut().try_for_each(StandaloneNode::spawn)?;
    nodes.iter_mut().try_for_each(StandaloneNode::wait_ready)?;
    let stop = Arc::<WriterStop>::default();
    let started = Instant::now();
    let mut run = KillRun {
        options,
        random: Random::new(options.seed),
        writers: Vec::new(),
        nodes,
        report: KillReport::default(),
    };
    run.wait_healthy()?;
    run.writers = writers(options, home.path(), &run.nodes, &minder, &stop)?;
    let done = run.rounds();
    stop.set();
    let ended: anyhow::Result<()> = run.writers.iter_mut().try_for_each(KillWriter::finish);
    done?;
    ended?;
    run.finish()?;
    run.report.time = started.elapsed();
    Ok(run.report)
}

fn node(options: &KillOptions, home: &Path, net: [u8; 2], place: usize, minder: &CleanupGuard) -> StandaloneNode {
    let ip = |place: usize| Ipv4Addr::new(127, net[0], net[1], 11 + place as u8);
    let dir = home.join(format!("node{}", place + 1));
    let mut node = StandaloneNode::new(&options.bucksaw, dir, ip(place), minder, &SMALL);
    if options.nodes > 1 {
        node.arguments.extend(["--replication-factor".to_owned(), "2".to_owned()]);
        for other in (0..options.nodes).filter(|other| *other != place) {
            node.arguments.extend(["--join".to_owned(), format!("{}:{CLUSTER}", ip(other))]);
        }
    }
    node
}

/// One of each way; over more nodes each begins at another.
fn writers(
    options: &KillOptions,
    home: &Path,
    nodes: &[StandaloneNode],
    minder: &CleanupGuard,
    stop: &Arc<WriterStop>,
) -> anyhow::Result<Vec<KillWriter>> {
    let mut random = Random::new(options.seed ^ 1);
    let start = |(number, way): (usize, &IngestPath)| {
        let ledger = Arc::new(Ledger::new(way.name()));
        let mut to: Vec<SocketAddr> = nodes.iter().map(|node| way.address(node)).collect();
        to.rotate_left(number % nodes.len());
        KillWriter::start(*way, &options.bucksaw, home, minder, ledger, to, random.next_u64(), stop)
    };
    IngestPath::ALL.iter().enumerate().map(start).collect()
}

/// When a node is hit.
#[derive(Clone, Copy, Debug)]
enum KillPhase {
    /// While it works.
    Working,
    /// While it works, and then once or more while it starts again.
    Starting,
    /// While it stops because it was asked to.
    Stopping,
}

struct KillRun<'a> {
    options: &'a KillOptions,
    random: Random,
    writers: Vec<KillWriter>,
    nodes: Vec<StandaloneNode>,
    report: KillReport,
}

impl KillRun<'_> {
    fn rounds(&mut self) -> anyhow::Result<()> {
        for round in 0..self.options.rounds {
            self.round().with_context(|| format!("round {round}"))?;
            self.report.rounds += 1;
            if (round + 1) % self.options.control_every.max(1) == 0 {
                self.check_loss_detection()?;
            }
            if (round + 1) % PROGRESS_ROUNDS == 0 {
                let acknowledged: u64 = self.writers.iter().map(|writer| writer.ledger.acknowledged()).sum();
                eprintln!("{} of {} rounds, {acknowledged} lines acknowledged", round + 1, self.options.rounds);
            }
        }
        Ok(())
    }

    fn round(&mut self) -> anyhow::Result<()> {
        let before: Vec<u64> = self.writers.iter().map(|writer| writer.ledger.sent()).collect();
        let until = Instant::now() + WRITE_MAX;
        let is_busy =
            |(writer, before): (&KillWriter, &u64)| writer.ledger.sent() > *before || writer.waits_for_others();
        while !self.writers.iter().zip(&before).all(is_busy) {
            ensure!(Instant::now() < until, "a writer does not go on");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(self.random.below(LOAD_MAX_MS) as u64));
        let blow =
            *self.random.pick(&[KillPhase::Working, KillPhase::Working, KillPhase::Starting, KillPhase::Stopping]);
        let place = self.random.below(self.nodes.len());
        let all = self.nodes.len() > 1 && self.random.one_in(4);
        for at in 0..self.nodes.len() {
            if all || at == place {
                self.kill_node(at, blow)?;
            }
        }
        self.nodes.iter_mut().try_for_each(StandaloneNode::spawn_if_down)?;
        self.nodes.iter_mut().try_for_each(StandaloneNode::wait_ready)?;
        self.wait_healthy()?;
        self.compare(Ledger::recent)
    }

    fn kill_node(&mut self, at: usize, blow: KillPhase) -> anyhow::Result<()> {
        let moment = |random: &mut Random, ms: usize| {
            thread::sleep(Duration::from_micros(random.below(ms * 1_000) as u64));
        };
        match blow {
            KillPhase::Working => {}
            KillPhase::Starting => {
                for _ in 0..=self.random.below(2) {
                    self.nodes[at].spawn()?;
                    self.report.kills += 1;
                    moment(&mut self.random, 80);
                }
            }
            KillPhase::Stopping => {
                self.nodes[at].send_sigterm()?;
                moment(&mut self.random, 150);
            }
        }
        self.nodes[at].kill();
        self.report.kills += 1;
        Ok(())
    }

    /// Waits until each node gives complete answers.
    fn wait_healthy(&self) -> anyhow::Result<()> {
        let until = Instant::now() + HEALTHY_MAX;
        for node in &self.nodes {
            loop {
                let told = call(node.http(), "GET", "/api/v1/count?from=0&q=nothing", &[], b"", ASK_MAX);
                let told = told.and_then(|answer| answer.ok_json());
                if told.as_ref().is_ok_and(|told| told["stats"]["partial"] == false) {
                    break;
                }
                ensure!(Instant::now() < until, "answers are not complete after {HEALTHY_MAX:?}: {told:?}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Compares what is there with what was acknowledged. What was seen once has to be seen from then on: it is with the
    /// kernel, which is not killed.
    fn compare(&mut self, expected: fn(&Ledger) -> ExpectedLines) -> anyhow::Result<()> {
        let at = self.nodes[self.random.below(self.nodes.len())].http();
        for writer in &self.writers {
            let ledger = &writer.ledger;
            // Taken first: what is acknowledged meanwhile need not be in the answer.
            let expected = expected(ledger);
            let (text, partial) = lines(at, ledger, &expected)?;
            let verdict = ledger.compare(&text, &expected);
            self.report.lost += verdict.lost.len();
            self.report.duplicated += verdict.duplicated.len();
            self.report.unexpected += verdict.unexpected;
            if partial {
                self.report.problems.push(format!("{}: an answer is partial though all is well", ledger.name()));
            }
            if let Some(wrong) = verdict.describe_failure(false) {
                self.report.problems.push(format!("{}: {wrong}", ledger.name()));
            }
            ledger.mark_found(&verdict, &expected);
        }
        Ok(())
    }

    /// Whether a loss and a double would be seen: an answer without its newest line, and one that has it twice.
    fn check_loss_detection(&mut self) -> anyhow::Result<()> {
        let place = self.random.below(self.writers.len());
        let ledger = Arc::clone(&self.writers[place].ledger);
        let asked = ledger.recent();
        let until = Instant::now() + WRITE_MAX;
        let text = loop {
            let (text, _) = lines(self.nodes[0].http(), &ledger, &asked)?;
            // The newest line is one that was not compared yet.
            if ledger.compare(&text, &asked).describe_failure(true).is_none() && ledger.has_new(&text, &asked) {
                break text;
            }
            ensure!(Instant::now() < until, "{} does not go on", ledger.name());
            thread::sleep(Duration::from_millis(20));
        };
        // What was found counts as acknowledged.
        ledger.mark_found(&ledger.compare(&text, &asked), &asked);
        let expected = ExpectedLines { since: asked.since, ..ledger.everything() };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let newest = lines.iter().copied().max_by_key(|line| Ledger::number(line)).unwrap_or_default();
        let others: Vec<&[u8]> = lines.iter().copied().filter(|line| *line != newest).collect();
        let (without, twice) = (others.concat(), [&text[..], newest].concat());
        // The writer goes on: what is acknowledged after the question was asked is not among these lines either.
        let number = Ledger::number(newest).context("a line without a number")?;
        let found = [
            ledger.compare(&without, &expected).lost.contains(&number),
            ledger.compare(&twice, &expected).duplicated == [number],
        ];
        self.report.controls.0 += found.len();
        self.report.controls.1 += found.iter().filter(|found| **found).count();
        if found != [true; 2] {
            self.report.problems.push(format!("{}: a control was not found: {found:?}", ledger.name()));
        }
        Ok(())
    }

    /// All writers have ended: everything is compared, from every node.
    fn finish(&mut self) -> anyhow::Result<()> {
        if self.options.lose_a_line {
            let ledger = &self.writers[0].ledger;
            ledger.acknowledge(ledger.next(1));
        }
        self.compare(Ledger::everything)?;
        self.report.acknowledged = self.writers.iter().map(|writer| writer.ledger.acknowledged()).sum();
        for node in &self.nodes {
            let log = fs::read_to_string(node.log()).unwrap_or_default();
            if log.contains("panicked at") {
                self.report.problems.push(format!("a node panicked: {log}"));
            }
        }
        Ok(())
    }
}

/// The lines of a writer, and whether these may not be all.
fn lines(at: SocketAddr, ledger: &Ledger, expected: &ExpectedLines) -> anyhow::Result<(Vec<u8>, bool)> {
    // Lines over TCP have no labels: the writer's name is in the text.
    let target = format!("/api/v1/query?from={}&q=%22of%20{}%3A%22", expected.since.seconds, ledger.name());
    let answer = call(at, "GET", &target, &[("Accept", "text/plain")], b"", ASK_MAX)?;
    if answer.status != 200 {
        bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    let stats = answer.header("bucksaw-stats").context("an answer does not tell how whole it is")?;
    let stats: serde_json::Value = serde_json::from_str(stats)?;
    Ok((answer.body, stats["partial"] != false))
}
