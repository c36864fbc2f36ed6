//! A machine with log files and an agent that may run, and a node.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::sim::{Fs, PowerCutLoss};
use bucksaw_env::{Clock as _, Env, Fs as _, sim};
use bucksaw_fixtures::Random;
use bucksaw_kubernetes::{PodDirectory, PodMetadata};
use bucksaw_tailer::{FileKey, PathPattern, ReadFrom, TailerConfig};

use super::injected_bug::AgentBug;
use super::log_files::{LOG_DIR, LogFiles, POD_LOG_DIR};
use super::model_node::ModelNode;
use crate::files::collector::{Collector, StepReport};
use crate::files::config::{FilesConfig, WhenFull};
use crate::lines::LogFormat;
use crate::send_window::SendWindow;
use crate::{Config, PodLabelChoice, PodLabelConfig};

const STATE_DIR: &str = "/state";

/// A running agent.
struct CollectingAgent {
    collector: Collector,
    window: Arc<SendWindow>,
}

/// Losses that agents counted, of all that ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedLosses {
    pub(super) gaps: u64,
    pub(super) dropped_records: u64,
    pub(super) damaged_batches: u64,
}

pub(super) struct AgentMachine {
    pub(super) fs: Fs,
    pub(super) clock: Arc<sim::Clock>,
    pub(super) rng: Random,
    pub(super) logs: LogFiles,
    pub(super) node: ModelNode,
    agent: Option<CollectingAgent>,
    config: Config,
    files: FilesConfig,
    counted: CountedLosses,
    starts: u64,
    /// Whether lines may be stored twice: the power was cut, or the buffer was damaged.
    pub(super) may_repeat: bool,
    /// Whether a bit of the buffer was flipped.
    pub(super) is_damaged: bool,
    pub(super) bug: Option<AgentBug>,
    /// An earlier state of the buffer, for a bug.
    earlier: Vec<(PathBuf, Vec<u8>)>,
    pub(super) is_traced: bool,
    /// That of the last step.
    pub(super) report: StepReport,
}

impl AgentMachine {
    /// A machine with logs, those of a pod or others.
    pub(super) fn new(mut rng: Random, may_lose: bool, has_pod: bool) -> Self {
        let log_dir = if has_pod { POD_LOG_DIR } else { LOG_DIR };
        let (fs, clock) = (Fs::new(), Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000)));
        fs.use_clock(Arc::clone(&clock));
        fs.create_dir_all(Path::new(log_dir)).unwrap();
        if rng.one_in(2) {
            fs.reuse_inode_numbers();
        }
        let tailer = TailerConfig {
            patterns: vec![PathPattern::parse(&format!("{log_dir}/*.log*")).unwrap()],
            read_bytes: *rng.pick(&[100, 5_000, 256 << 10]),
            ..TailerConfig::default()
        };
        let files = FilesConfig {
            buffer_bytes_max: *rng.pick(&[150_000, 400_000, 4 << 20]),
            when_full: if rng.one_in(3) { WhenFull::DropOldest } else { WhenFull::Block },
            pods: has_pod.then(pod_labels),
            ..FilesConfig::new(tailer, PathBuf::from(STATE_DIR))
        };
        let mut config = Config { window_bytes: *rng.pick(&[1, 20_000, 8 << 20]), ..Config::default() };
        config.lines.format = LogFormat::Lines;
        let logs = LogFiles::new(&mut rng, may_lose, log_dir);
        Self {
            fs,
            clock,
            rng,
            logs,
            node: ModelNode::default(),
            agent: None,
            config,
            files,
            counted: CountedLosses::default(),
            starts: 0,
            may_repeat: false,
            is_damaged: false,
            bug: None,
            earlier: Vec::new(),
            is_traced: false,
            report: StepReport::default(),
        }
    }

    pub(super) fn trace(&self, what: &str) {
        if self.is_traced {
            println!("{} ms: {what}", self.clock.unix_ms() % 100_000_000);
        }
    }

    /// The pod of the logs becomes known, or gets another label.
    pub(super) fn label_pod(&self, value: usize) {
        let Some(pods) = &self.files.pods else { return };
        self.trace(&format!("the pod has the label {value}"));
        pods.pods.apply(PodMetadata {
            namespace: "shop".to_owned(),
            name: "cart".to_owned(),
            uid: "u1".to_owned(),
            labels: vec![("v".to_owned(), value.to_string())],
            ..PodMetadata::default()
        });
    }

    pub(super) fn is_running(&self) -> bool {
        self.agent.is_some()
    }

    /// Starts the agent, unless it runs. It may fail on a full disk.
    pub(super) fn start(&mut self) {
        if self.agent.is_some() {
            return;
        }
        self.starts += 1;
        let entropy = Arc::new(sim::Entropy::seeded(self.rng.next_u64()));
        let env = Env { fs: Arc::new(self.fs.clone()), clock: Arc::clone(&self.clock) as _, entropy };
        let window = Arc::new(SendWindow::new(self.config.window_bytes));
        // What was known of pods is lost with the process.
        self.files.pods = self.files.pods.is_some().then(pod_labels);
        let mut files = self.files.clone();
        if self.bug == Some(AgentBug::StartsAtEnd) && self.starts > 1 {
            files.tailer.read_from = ReadFrom::End;
            self.remove_state();
        }
        let opened = Collector::open(&self.config, &files, &env, Arc::clone(&window));
        self.trace(&format!("start: {:?}", opened.as_ref().err().map(ToString::to_string)));
        let Ok(collector) = opened else { return };
        self.agent = Some(CollectingAgent { collector, window });
        self.scan();
    }

    /// Scans, as the driver does. The agent ends if its first scan cannot be written.
    pub(super) fn scan(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let scanned = agent.collector.scan();
        self.trace(&format!("scan: {:?}", scanned.as_ref().err().map(ToString::to_string)));
        if scanned.is_err() {
            self.end();
        }
    }

    /// Reads for one step, and afterwards treats idle files as the driver does with its watches.
    pub(super) fn step(&mut self) -> bool {
        let Some(agent) = &mut self.agent else { return false };
        let report = agent.collector.step(self.clock.uptime());
        self.report = report;
        let idle: Vec<FileKey> = agent.collector.tailer.take_idled();
        idle.into_iter().for_each(|key| agent.collector.tailer.check_growth(key));
        let (batches, unacked) = (agent.collector.backlog().batches, agent.window.unacked_records());
        self.trace(&format!("step: {report:?}, {batches} batches, {unacked} records in the window"));
        if report.is_scan_due {
            self.scan();
        }
        report.has_more
    }

    /// All idle files are looked at, as if the system had reported growth.
    pub(super) fn notice_growth(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let tailer = &mut agent.collector.tailer;
        let keys: Vec<FileKey> = tailer.file_status().map(|file| file.key).collect();
        keys.into_iter().for_each(|key| tailer.check_growth(key));
    }

    pub(super) fn write_ack(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.collector.write_ack();
        }
    }

    /// The node takes and acknowledges batches.
    pub(super) fn exchange(&mut self, receive: usize, acknowledge: u64) -> Result<bool, String> {
        let Some(agent) = &self.agent else { return Ok(false) };
        self.node.connect(&agent.window);
        let has_received = self.node.receive(&agent.window, receive)?;
        self.node.acknowledge(&agent.window, acknowledge, self.clock.uptime());
        self.trace(&format!("exchange: received up to {receive}, acknowledged up to {acknowledge}"));
        Ok(has_received)
    }

    /// The agent stops in order.
    pub(super) fn stop(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.collector.save();
        }
        self.trace("stop");
        self.end();
    }

    /// Counts what the agent lost, and drops it.
    fn end(&mut self) {
        self.counted = self.counted();
        self.agent = None;
        self.node.disconnect();
    }

    /// The losses that all agents so far have counted.
    pub(super) fn counted(&self) -> CountedLosses {
        let mut counted = self.counted;
        if let Some(agent) = &self.agent {
            let backlog = agent.collector.backlog();
            counted.gaps += backlog.gaps;
            if self.bug != Some(AgentBug::DropsUncounted) {
                counted.dropped_records += backlog.dropped_records;
            }
            if self.bug != Some(AgentBug::DamageUncounted) {
                counted.damaged_batches += backlog.damaged_batches;
            }
        }
        counted
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        if self.agent.is_none() {
            return;
        }
        self.trace("kill");
        self.end();
        self.fs = self.fs.kill();
        match self.bug {
            Some(AgentBug::StateForgotten) => self.remove_state(),
            Some(AgentBug::SentBeforeWritten) => {
                if let Some((path, bytes)) = self.buffer_files().pop() {
                    self.fs.truncate_file(path, (bytes.len() as u64).saturating_sub(70));
                }
            }
            Some(AgentBug::StateRolledBack) => {
                let files = self.buffer_files();
                let earlier = std::mem::replace(&mut self.earlier, files);
                if !earlier.is_empty() {
                    self.remove_state();
                    for (path, bytes) in earlier {
                        self.fs.append_to(path, &bytes).unwrap();
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn cut_power(&mut self) {
        self.trace("power cut");
        self.end();
        let loss = *self.rng.pick(&[PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn]);
        self.fs = self.fs.cut_power(loss, self.rng.next_u64());
        self.fs.use_clock(Arc::clone(&self.clock));
        self.may_repeat = true;
    }

    /// Flips a bit of the buffer, if it has one.
    pub(super) fn damage_buffer(&mut self) {
        let files = self.buffer_files();
        let Some((path, bytes)) = files.get(self.rng.below(files.len().max(1))).filter(|(_, bytes)| !bytes.is_empty())
        else {
            return;
        };
        let bit = self.rng.below(bytes.len() * 8) as u64;
        self.trace(&format!("flip bit {bit} of {}", path.display()));
        assert!(self.fs.flip_bit(path, bit));
        self.is_damaged = true;
        self.may_repeat = true;
    }

    fn buffer_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let paths = self.fs.paths().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "buffer"));
        paths.filter_map(|path| Some((path.clone(), self.fs.live_bytes(&path)?))).collect()
    }

    fn remove_state(&mut self) {
        self.buffer_files().iter().for_each(|(path, _)| self.fs.remove(path).unwrap());
    }

    /// Runs without faults until everything is read and acknowledged.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.fs.set_capacity(None);
        self.start();
        for round in 0..40 {
            self.scan();
            self.notice_growth();
            let mut turns = 0;
            while self.step() | self.exchange(usize::MAX, u64::MAX)? {
                turns += 1;
                if turns > 100_000 {
                    return Err("the agent does not come to an end".to_owned());
                }
            }
            self.write_ack();
            let wait = if round % 10 == 9 { 1_000 } else { 1 };
            self.clock.advance(Duration::from_secs(wait));
        }
        Ok(())
    }

    /// Batches that are not acknowledged.
    pub(super) fn unacked_batches(&self) -> u64 {
        self.agent.as_ref().map_or(0, |agent| agent.collector.backlog().batches)
    }
}

/// Labels of pods of which none is known.
fn pod_labels() -> PodLabelConfig {
    PodLabelConfig { pods: PodDirectory::default(), choice: PodLabelChoice::default(), wait: Duration::from_secs(5) }
}
