//! Random histories of the reading side of the journal: entries are written and read in parts of any length while the agent is
//! killed, loses power, finds its disk full or its buffer damaged, and a node takes, acknowledges and forgets its connection.
//!
//! Afterwards each entry is stored with its time. It is missing only if a drop or damage was counted. Without a power cut or damage
//! it is stored under one id.
//!
//! `BUCKSAW_AGENT_SEEDS=5000` runs 5,000 histories, `BUCKSAW_AGENT_SEED=7` only this one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::sim::{Fs, PowerCutLoss};
use bucksaw_env::{Clock as _, Env, sim};
use bucksaw_fixtures::{Random, SeededRuns, first_failing_seed};
use bucksaw_protocols::journald::JournalDecoder;
use bucksaw_record::Labels;
use bucksaw_tailer::TailerConfig;

use super::event_packer::EventPacker;
use crate::batch_builder::ShippedBatch;
use crate::files::tests::model_node::ModelNode;
use crate::files::{Collector, FilesConfig, WhenFull};
use crate::send_window::SendWindow;
use crate::{Config, EventRules, LineConfig};

/// The histories of an ordinary test run.
const SEEDS: u64 = 200;

/// The seeds within which every injected bug is found.
const SEEDS_WITH_BUG: u64 = 200;

/// A deliberate error, to prove that the histories find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JournalBug {
    /// The position moves on before the entries are in the buffer.
    CursorAhead,
    /// The position stays where it was.
    CursorBehind,
    /// A batch that does not fit is dropped.
    FullDropsBatch,
    /// The node acknowledges what it does not store.
    AckedUnstored,
}

/// An agent that reads the journal.
struct JournalAgent {
    collector: Collector,
    window: Arc<SendWindow>,
    packer: EventPacker,
    decoder: JournalDecoder,
    /// What `journalctl` will print, and how much of it was read.
    output: Vec<u8>,
    read: usize,
    /// Batches for which the buffer had no room.
    waiting: Vec<ShippedBatch>,
}

struct JournalMachine {
    fs: Fs,
    clock: Arc<sim::Clock>,
    rng: Random,
    config: Config,
    files: FilesConfig,
    rules: Option<Arc<EventRules>>,
    agent: Option<JournalAgent>,
    node: ModelNode,
    /// The number of entries of the journal.
    written: u64,
    dropped_records: u64,
    damaged_batches: u64,
    may_repeat: bool,
    bug: Option<JournalBug>,
}

impl JournalMachine {
    fn new(seed: u64, bug: Option<JournalBug>) -> Self {
        let mut rng = Random::new(seed);
        let (fs, clock) = (Fs::new(), Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000)));
        fs.use_clock(Arc::clone(&clock));
        let mut files = FilesConfig::new(TailerConfig::default(), PathBuf::from("/state"));
        files.buffer_bytes_max = *rng.pick(&[150_000, 4 << 20]);
        files.when_full = if rng.one_in(3) { WhenFull::DropOldest } else { WhenFull::Block };
        let mut lines = LineConfig::default();
        lines.filter.add_drop("noise").unwrap();
        Self {
            fs,
            clock,
            config: Config { window_bytes: *rng.pick(&[1, 20_000, 8 << 20]), ..Config::default() },
            files,
            rules: EventRules::new(&lines, &Labels::default(), 1 << 20),
            agent: None,
            node: ModelNode::default(),
            written: 0,
            dropped_records: 0,
            damaged_batches: 0,
            may_repeat: false,
            bug,
            rng,
        }
    }

    /// The text of an entry. Every fifth is dropped by a rule.
    fn line(number: u64) -> String {
        let kind = if number % 5 == 4 { "noise" } else { "entry" };
        format!("{kind} {number} {}", "x".repeat((number * 37 % 900) as usize))
    }

    fn start(&mut self) {
        if self.agent.is_some() {
            return;
        }
        let entropy = Arc::new(sim::Entropy::seeded(self.rng.next_u64()));
        let env = Env { fs: Arc::new(self.fs.clone()), clock: Arc::clone(&self.clock) as _, entropy };
        let window = Arc::new(SendWindow::new(self.config.window_bytes));
        let opened = Collector::open(&self.config, &self.files, &env, Arc::clone(&window));
        let Ok(mut collector) = opened else { return };
        if collector.journal_cursor().is_none() && collector.begin_journal(b"").is_err() {
            return;
        }
        let cursor = String::from_utf8(collector.journal_cursor().unwrap_or_default().to_vec()).unwrap();
        let behind = cursor.strip_prefix('c').map_or(0, |number| number.parse::<u64>().unwrap() + 1);
        let mut agent = JournalAgent {
            collector,
            window,
            packer: EventPacker::new(&env, Labels::default(), self.rules.clone()),
            decoder: JournalDecoder::new(1 << 20, &Labels::default()),
            output: Vec::new(),
            read: 0,
            waiting: Vec::new(),
        };
        (behind..self.written).for_each(|number| agent.print(number));
        self.agent = Some(agent);
    }

    fn write(&mut self, entries: u64) {
        for number in self.written..self.written + entries {
            if let Some(agent) = &mut self.agent {
                agent.print(number);
            }
        }
        self.written += entries;
    }

    /// Reads some bytes of what `journalctl` prints.
    fn read(&mut self, bytes: usize) {
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.waiting.is_empty()) else { return };
        let end = agent.output.len().min(agent.read + bytes);
        agent.decoder.push(&agent.output[agent.read..end], &mut agent.packer).unwrap();
        agent.read = end;
    }

    /// Appends what was read, as the thread of the journal does.
    fn append(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if agent.waiting.is_empty() {
            agent.waiting = agent.packer.finish();
        }
        if agent.waiting.is_empty() {
            return agent.packer.confirm();
        }
        let cursor = match self.bug {
            Some(JournalBug::CursorAhead) => format!("c{}", self.written - 1).into_bytes(),
            Some(JournalBug::CursorBehind) => agent.collector.journal_cursor().unwrap_or_default().to_vec(),
            _ => agent.decoder.cursor().to_vec(),
        };
        let is_appended = agent.collector.append_journal(&agent.waiting, &cursor, self.clock.uptime());
        if is_appended || self.bug == Some(JournalBug::FullDropsBatch) {
            agent.waiting.clear();
            agent.packer.confirm();
        }
    }

    fn step(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.collector.step(self.clock.uptime());
        }
    }

    fn exchange(&mut self, receive: usize, acknowledge: u64) -> Result<(), String> {
        let Some(agent) = &self.agent else { return Ok(()) };
        self.node.connect(&agent.window);
        self.node.forgets = self.bug == Some(JournalBug::AckedUnstored) && self.rng.one_in(8);
        self.node.receive(&agent.window, receive)?;
        self.node.acknowledge(&agent.window, acknowledge, self.clock.uptime());
        Ok(())
    }

    fn end(&mut self) {
        if let Some(agent) = self.agent.take() {
            let backlog = agent.collector.backlog();
            self.dropped_records += backlog.dropped_records;
            self.damaged_batches += backlog.damaged_batches;
        }
        self.node.disconnect();
    }

    fn kill(&mut self) {
        self.end();
        self.fs = self.fs.kill();
    }

    fn cut_power(&mut self) {
        self.end();
        let loss = *self.rng.pick(&[PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn]);
        self.fs = self.fs.cut_power(loss, self.rng.next_u64());
        self.fs.use_clock(Arc::clone(&self.clock));
        self.may_repeat = true;
    }

    fn act(&mut self) -> Result<(), String> {
        match self.rng.below(20) {
            0..4 => {
                let entries = 1 + self.rng.below(30) as u64;
                self.write(entries);
            }
            4..8 => {
                let bytes = *self.rng.pick(&[10, 1_000, 20_000]);
                self.read(bytes);
            }
            8..11 => self.append(),
            11..13 => self.step(),
            13..16 => {
                let (receive, acknowledge) = (self.rng.below(6), self.rng.below(6) as u64);
                self.exchange(receive, acknowledge)?;
            }
            16 => self.node.disconnect(),
            17 => {
                if let Some(agent) = &mut self.agent {
                    agent.collector.write_ack();
                }
            }
            18 => {
                self.kill();
                self.start();
            }
            _ => {
                if let Some(agent) = &mut self.agent {
                    agent.collector.save();
                }
                self.end();
                self.start();
            }
        }
        Ok(())
    }

    /// One fault of the disk.
    fn fail(&mut self, fault: u64) {
        match fault {
            1 => {
                self.cut_power();
                self.start();
            }
            2 => {
                let free = self.rng.below(3_000) as u64;
                self.fs.fill(free);
                self.write(5);
                self.read(usize::MAX / 2);
                self.append();
                self.step();
                if self.rng.one_in(2) {
                    self.kill();
                    self.start();
                }
                self.fs.set_capacity(None);
            }
            _ => {}
        }
    }

    fn run(&mut self, seed: u64) -> Result<(), String> {
        let fault = seed % 3;
        self.start();
        for _ in 0..100 {
            self.act()?;
            if self.rng.one_in(25) {
                self.fail(fault);
            }
            self.clock.advance(Duration::from_millis(20));
        }
        self.fs.set_capacity(None);
        self.start();
        for _ in 0..3_000 {
            self.read(usize::MAX / 2);
            self.append();
            self.step();
            self.exchange(usize::MAX, u64::MAX)?;
            self.clock.advance(Duration::from_millis(100));
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), String> {
        self.end();
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        self.node.stored.values().for_each(|line| *times.entry(line).or_default() += 1);
        let mut missing = 0;
        for number in 0..self.written {
            let line = Self::line(number);
            let (found, is_noise) = (times.remove(line.as_str()).unwrap_or_default(), line.starts_with("noise"));
            if is_noise && found > 0 || found > 1 && !self.may_repeat {
                return Err(format!("entry {number} is stored {found} times"));
            }
            missing += u64::from(found == 0 && !is_noise);
        }
        if !times.is_empty() {
            return Err(format!("entries are stored that were never written: {times:?}"));
        }
        if missing > self.dropped_records && self.damaged_batches == 0 {
            return Err(format!("{missing} entries are missing, {} were dropped", self.dropped_records));
        }
        Ok(())
    }
}

impl JournalAgent {
    fn print(&mut self, number: u64) {
        let line = JournalMachine::line(number);
        let time = 1_700_000_000_000_000 + number;
        let entry =
            format!("__CURSOR=c{number}\n__REALTIME_TIMESTAMP={time}\n_HOSTNAME=h{}\nMESSAGE={line}\n\n", number % 2);
        self.output.extend_from_slice(entry.as_bytes());
    }
}

#[test]
fn random_histories_lose_nothing_uncounted() {
    SeededRuns { prefix: "BUCKSAW_AGENT", seeds: SEEDS }.check(|seed, _| JournalMachine::new(seed, None).run(seed));
}

#[test]
fn every_injected_bug_is_found() {
    let all =
        [JournalBug::CursorAhead, JournalBug::CursorBehind, JournalBug::FullDropsBatch, JournalBug::AckedUnstored];
    for bug in all {
        let found = first_failing_seed(SEEDS_WITH_BUG, |seed| JournalMachine::new(seed, Some(bug)).run(seed));
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found within {SEEDS_WITH_BUG} seeds");
    }
}
