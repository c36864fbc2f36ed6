//! Kills nodes with `kill -9` at random moments under load, and checks after each kill that every acknowledged line is
//! answered exactly once.
//!
//! ```text
//!   writers: forward, TCP and HTTP, of each promise, with keys and without ──► 1 or 3 nodes
//!   round:   wait until all write ─► kill one node, or all: at work, at its start, or while it stops ─► start ─► compare
//! ```
//! Each writer has a [`Ledger`]. After each round the lines since the last one are compared, at the end all lines. In
//! a control, an acknowledged line is removed from the answer and another is duplicated: the comparison must report
//! both, which proves that it would report a loss.

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
use crate::standalone::{CLUSTER, StandaloneNode, free_net};
use bucksaw_fixtures::Random;
use writer::{IngestPath, KillWriter, WriterStop};

/// Small segments, so that records move to the store and segments are merged all the time.
const SMALL: [&str; 6] = ["--segment-max-age", "200ms", "--segment-max-bytes", "64K", "--store-segment-bytes", "512K"];

/// The read timeout of an answer.
const ASK_MAX: Duration = Duration::from_secs(40);

/// The maximum time until a node sees the others and gives complete answers.
const HEALTHY_MAX: Duration = Duration::from_secs(60);

/// The maximum time until a node that is up acknowledges something to a writer.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// The maximum time that a node works in a round.
const LOAD_MAX_MS: usize = 700;

/// The interval of progress lines.
const PROGRESS_ROUNDS: usize = 50;

/// Options of the kill test.
#[derive(Clone, Debug)]
pub struct KillOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of nodes, all with both roles. With several, the replication factor is 2.
    pub nodes: usize,
    /// The seed of victims and times.
    pub seed: u64,
    /// Rounds between controls.
    pub control_every: usize,
    /// Expects a line that is never sent, to test the harness.
    pub lose_a_line: bool,
}

/// The outcome of a kill test.
#[derive(Clone, Debug, Default)]
pub struct KillReport {
    /// Completed rounds.
    pub rounds: usize,
    /// Killed processes.
    pub kills: usize,
    /// Acknowledged lines.
    pub acknowledged: u64,
    /// Acknowledged lines missing from a complete answer.
    pub lost: usize,
    /// Lines that occur more than once in an answer.
    pub duplicated: usize,
    /// Answered lines that were never sent.
    pub unexpected: usize,
    /// Controls, and how many of them were detected.
    pub controls: (usize, usize),
    /// The duration.
    pub time: Duration,
    /// Problems.
    pub problems: Vec<String>,
}

impl fmt::Display for KillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        let Self { rounds, kills, acknowledged, lost, duplicated, unexpected, controls, time, .. } = self;
        writeln!(
            f,
            "{rounds} rounds, {kills} kills, {acknowledged} lines acknowledged: {lost} lost, {duplicated} duplicated, {unexpected} never \
             sent; {} of {} controls detected; {:.0?}",
            controls.1, controls.0, time,
        )
    }
}

/// Kills nodes in rounds.
///
/// # Errors
/// The test cannot run, for example because a node does not start or does not become healthy.
pub fn kill(options: &KillOptions) -> anyhow::Result<KillReport> {
    ensure!(options.nodes > 0, "at least one node");
    let home = tempfile::tempdir().context("no temporary directory")?;
    let (net, cleanup) = (free_net(options.seed)?, CleanupGuard::start()?);
    let mut nodes: Vec<StandaloneNode> =
        (0..options.nodes).map(|place| node(options, home.path(), net, place, &cleanup)).collect();
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
    run.writers = writers(options, home.path(), &run.nodes, &cleanup, &stop)?;
    let done = run.rounds();
    stop.set();
    let ended: anyhow::Result<()> = run.writers.iter_mut().try_for_each(KillWriter::finish);
    done?;
    ended?;
    run.finish()?;
    run.report.time = started.elapsed();
    Ok(run.report)
}

fn node(options: &KillOptions, home: &Path, net: [u8; 2], place: usize, cleanup: &CleanupGuard) -> StandaloneNode {
    let ip = |place: usize| Ipv4Addr::new(127, net[0], net[1], 11 + place as u8);
    let dir = home.join(format!("node{}", place + 1));
    let mut node = StandaloneNode::new(&options.bucksaw, dir, ip(place), cleanup, &SMALL);
    if options.nodes > 1 {
        node.arguments.extend(["--replication-factor".to_owned(), "2".to_owned()]);
        for other in (0..options.nodes).filter(|other| *other != place) {
            node.arguments.extend(["--join".to_owned(), format!("{}:{CLUSTER}", ip(other))]);
        }
    }
    node
}

/// One writer of each kind. With several nodes, each starts at another one.
fn writers(
    options: &KillOptions,
    home: &Path,
    nodes: &[StandaloneNode],
    cleanup: &CleanupGuard,
    stop: &Arc<WriterStop>,
) -> anyhow::Result<Vec<KillWriter>> {
    let mut random = Random::new(options.seed ^ 1);
    let start = |(number, way): (usize, &IngestPath)| {
        let ledger = Arc::new(Ledger::new(way.name()));
        let mut to: Vec<SocketAddr> = nodes.iter().map(|node| way.address(node)).collect();
        to.rotate_left(number % nodes.len());
        KillWriter::start(*way, &options.bucksaw, home, cleanup, ledger, to, random.next_u64(), stop)
    };
    IngestPath::ALL.iter().enumerate().map(start).collect()
}

/// When a node is killed.
#[derive(Clone, Copy, Debug)]
enum KillPhase {
    /// While it works.
    Working,
    /// While it works, and then once or more during the restart.
    Starting,
    /// During a graceful stop.
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
        let phase =
            *self.random.pick(&[KillPhase::Working, KillPhase::Working, KillPhase::Starting, KillPhase::Stopping]);
        let place = self.random.below(self.nodes.len());
        let all = self.nodes.len() > 1 && self.random.one_in(4);
        for at in 0..self.nodes.len() {
            if all || at == place {
                self.kill_node(at, phase)?;
            }
        }
        self.nodes.iter_mut().try_for_each(StandaloneNode::spawn_if_down)?;
        self.nodes.iter_mut().try_for_each(StandaloneNode::wait_ready)?;
        self.wait_healthy()?;
        self.compare(Ledger::recent)
    }

    fn kill_node(&mut self, at: usize, phase: KillPhase) -> anyhow::Result<()> {
        let moment = |random: &mut Random, ms: usize| {
            thread::sleep(Duration::from_micros(random.below(ms * 1_000) as u64));
        };
        match phase {
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
                let reply = call(node.http(), "GET", "/api/v1/count?from=0&q=nothing", &[], b"", ASK_MAX);
                let reply = reply.and_then(|answer| answer.ok_json());
                if reply.as_ref().is_ok_and(|reply| reply["stats"]["partial"] == false) {
                    break;
                }
                ensure!(Instant::now() < until, "answers are not complete after {HEALTHY_MAX:?}: {reply:?}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Compares the answers with the ledgers. A line that was found once must be found from then on: the kernel has
    /// it, and the kernel is not killed.
    fn compare(&mut self, expected: fn(&Ledger) -> ExpectedLines) -> anyhow::Result<()> {
        let at = self.nodes[self.random.below(self.nodes.len())].http();
        for writer in &self.writers {
            let ledger = &writer.ledger;
            // Taken before the query: lines acknowledged later may be missing from the answer.
            let expected = expected(ledger);
            let (text, partial) = lines(at, ledger, &expected)?;
            let verdict = ledger.compare(&text, &expected);
            self.report.lost += verdict.lost.len();
            self.report.duplicated += verdict.duplicated.len();
            self.report.unexpected += verdict.unexpected;
            if partial {
                self.report.problems.push(format!("{}: an answer is partial in a healthy cluster", ledger.name()));
            }
            if let Some(wrong) = verdict.describe_failure(false) {
                self.report.problems.push(format!("{}: {wrong}", ledger.name()));
            }
            ledger.mark_found(&verdict, &expected);
        }
        Ok(())
    }

    /// Whether a loss and a duplicate are detected: an answer without its newest line, and one with that line twice.
    fn check_loss_detection(&mut self) -> anyhow::Result<()> {
        let place = self.random.below(self.writers.len());
        let ledger = Arc::clone(&self.writers[place].ledger);
        let expected_recent = ledger.recent();
        let until = Instant::now() + WRITE_MAX;
        let text = loop {
            let (text, _) = lines(self.nodes[0].http(), &ledger, &expected_recent)?;
            // The newest line has not been compared before.
            if ledger.compare(&text, &expected_recent).describe_failure(true).is_none()
                && ledger.has_new(&text, &expected_recent)
            {
                break text;
            }
            ensure!(Instant::now() < until, "{} does not go on", ledger.name());
            thread::sleep(Duration::from_millis(20));
        };
        // Lines that were found count as acknowledged.
        ledger.mark_found(&ledger.compare(&text, &expected_recent), &expected_recent);
        let expected = ExpectedLines { since: expected_recent.since, ..ledger.everything() };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let newest = lines.iter().copied().max_by_key(|line| Ledger::number(line)).unwrap_or_default();
        let others: Vec<&[u8]> = lines.iter().copied().filter(|line| *line != newest).collect();
        let (without, twice) = (others.concat(), [&text[..], newest].concat());
        // Lines acknowledged after the query may be missing from the answer.
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

    /// Compares all lines, from every node, after the writers have ended.
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

/// The lines of a writer, and whether the answer is partial.
fn lines(at: SocketAddr, ledger: &Ledger, expected: &ExpectedLines) -> anyhow::Result<(Vec<u8>, bool)> {
    // Lines over TCP have no labels; their text contains the name of the writer.
    let target = format!("/api/v1/query?from={}&q=%22of%20{}%3A%22", expected.since.seconds, ledger.name());
    let answer = call(at, "GET", &target, &[("Accept", "text/plain")], b"", ASK_MAX)?;
    if answer.status != 200 {
        bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    let stats = answer.header("bucksaw-stats").context("an answer does not tell how whole it is")?;
    let stats: serde_json::Value = serde_json::from_str(stats)?;
    Ok((answer.body, stats["partial"] != false))
}
