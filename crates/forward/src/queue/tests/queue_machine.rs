//! A machine with senders, an agent with a queue that may run, and a node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_env::sim::{Fs, PowerCutLoss};
use bucksaw_env::{Clock as _, Env, LogLimits, sim};
use bucksaw_fixtures::Random;
use bucksaw_ingest::{Durability, FrameRecords, Metrics, Queue, Source};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_wire::{ClientMessage, DecodeProgress};
use prometheus_client::registry::Registry;

use super::super::queue_config;
use super::super::shipper::QueueShipper;
use crate::WhenFull;
use crate::send_window::SendWindow;

const QUEUE_DIR: &str = "/state/queue";

/// A deliberate error, to prove that the histories find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueBug {
    /// The node acknowledges a batch that it has not stored.
    AckedUnstored,
    /// A new connection begins behind the first unacknowledged batch.
    FirstBatchSkipped,
    /// The queue is gone after a kill.
    QueueForgotten,
    /// The newest bytes of the queue are gone after a kill: a record was acknowledged before it was written.
    AckedBeforeWritten,
    /// Records are acknowledged as durable when they are written.
    AckedBeforeSynced,
    /// Records that are dropped from a full queue are not counted.
    DropsUncounted,
    /// Damaged files are not reported.
    DamageUnreported,
}

impl QueueBug {
    /// All bugs.
    pub(super) const ALL: [Self; 7] = [
        Self::AckedUnstored,
        Self::FirstBatchSkipped,
        Self::QueueForgotten,
        Self::AckedBeforeWritten,
        Self::AckedBeforeSynced,
        Self::DropsUncounted,
        Self::DamageUnreported,
    ];
}

/// A record that a sender has sent.
#[derive(Debug)]
pub(super) struct SentLine {
    pub(super) id: Id,
    pub(super) line: String,
    /// Whether the sender got an acknowledgement.
    pub(super) is_acked: Arc<AtomicBool>,
    /// Whether the promise of the queue does not cover it: it was not synced at a power cut.
    pub(super) may_be_lost: bool,
}

/// A running agent.
struct ShippingAgent {
    queue: Arc<Queue>,
    window: Arc<SendWindow>,
    shipper: QueueShipper,
}

/// A connection to the node, which counts batches from 0.
struct CountedConnection {
    first: u64,
    received: u64,
    acked: u64,
}

pub(super) struct QueueMachine {
    pub(super) fs: Fs,
    pub(super) clock: Arc<sim::Clock>,
    pub(super) rng: Random,
    pub(super) durability: Durability,
    pub(super) sent: Vec<SentLine>,
    pub(super) stored: BTreeMap<Id, (String, String)>,
    pub(super) dropped_records: u64,
    /// Whether a damaged file was reported.
    pub(super) has_reported_damage: bool,
    pub(super) bug: Option<QueueBug>,
    agent: Option<ShippingAgent>,
    connection: Option<CountedConnection>,
    bytes_max: u64,
    window_bytes: usize,
    when_full: WhenFull,
}

impl QueueMachine {
    pub(super) fn new(mut rng: Random, bug: Option<QueueBug>) -> Self {
        let (fs, clock) = (Fs::new(), Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000)));
        fs.use_clock(Arc::clone(&clock));
        Self {
            fs,
            clock,
            durability: *rng.pick(&[Durability::Fast, Durability::Durable]),
            sent: Vec::new(),
            stored: BTreeMap::new(),
            dropped_records: 0,
            has_reported_damage: false,
            bug,
            agent: None,
            connection: None,
            bytes_max: *rng.pick(&[300_000, 4 << 20]),
            window_bytes: *rng.pick(&[1, 3_000, 8 << 20]),
            when_full: if rng.one_in(3) { WhenFull::DropOldest } else { WhenFull::Block },
            rng,
        }
    }

    /// Starts the agent, unless it runs. It may fail on a full disk.
    pub(super) fn start(&mut self) {
        if self.agent.is_some() {
            return;
        }
        let entropy = Arc::new(sim::Entropy::seeded(self.rng.next_u64()));
        let env = Env { fs: Arc::new(self.fs.clone()), clock: Arc::clone(&self.clock) as _, entropy };
        let metrics = Metrics::new(&mut Registry::default());
        let opened = Queue::open(env.clone(), Path::new(QUEUE_DIR), queue_config(self.bytes_max), metrics);
        let Ok((queue, recovery)) = opened else { return };
        self.has_reported_damage |= recovery.damaged > 0;
        let (queue, window) = (Arc::new(queue), Arc::new(SendWindow::new(self.window_bytes)));
        let (labels, log_limits) = (Labels::parse("site=s").unwrap(), LogLimits::new(env.clock));
        let limits = (self.bytes_max, self.when_full);
        let shipper = QueueShipper::new(Arc::clone(&queue), limits, Arc::clone(&window), labels, log_limits);
        self.agent = Some(ShippingAgent { queue, window, shipper });
    }

    /// A sender sends some records in one frame.
    pub(super) fn append(&mut self) {
        let Some(agent) = &self.agent else { return };
        let (count, stream) = (1 + self.rng.below(4) as u32, self.rng.below(3));
        let first_id = Id::new(Millis(self.clock.unix_ms()), Producer::new(self.rng.next_u64()), 7);
        let lengths = [1, 50, 5_000, 60_000];
        let lines: Vec<String> = (0..count)
            .map(|row| format!("{} {stream} {}", self.sent.len() as u32 + row, "x".repeat(*self.rng.pick(&lengths))))
            .collect();
        let (text, labels) = (lines.join("\n") + "\n", Labels::parse(&format!("app=a{stream}")).unwrap());
        let records = FrameRecords {
            source: Source::Fluent,
            labels: &labels,
            first_id,
            count,
            accepted: first_id.time(),
            layout_bits: 0,
            row_meta: &[],
            text: &[text.as_bytes()],
        };
        let is_acked = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_acked);
        let is_early = self.bug == Some(QueueBug::AckedBeforeSynced);
        let durability = if is_early { Durability::Fast } else { self.durability };
        // Refused records have no acknowledgement, and may be found later all the same.
        let _ = agent.queue.append(durability, &records, move |result| done.store(result.is_ok(), Ordering::Relaxed));
        for (row, line) in (0..count).zip(lines) {
            let id = first_id.checked_add(row).unwrap();
            self.sent.push(SentLine { id, line, is_acked: Arc::clone(&is_acked), may_be_lost: false });
        }
    }

    pub(super) fn commit_group(&mut self) {
        if let Some(agent) = &self.agent {
            agent.queue.commit_group();
        }
    }

    pub(super) fn rotate_files(&mut self) {
        if let Some(agent) = &self.agent {
            agent.queue.rotate_files();
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(agent) = &self.agent {
            agent.queue.tick();
            self.has_reported_damage |= !agent.queue.damaged_files().is_empty();
        }
    }

    pub(super) fn step(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let before = agent.shipper.dropped_records();
        agent.shipper.step(self.clock.uptime());
        self.dropped_records += agent.shipper.dropped_records() - before;
        self.has_reported_damage |= !agent.queue.damaged_files().is_empty();
    }

    /// The node takes up to `receive` batches, and acknowledges up to `acknowledge`.
    pub(super) fn exchange(&mut self, receive: usize, acknowledge: u64) -> Result<(), String> {
        let Some(agent) = &self.agent else { return Ok(()) };
        let window = Arc::clone(&agent.window);
        let skipped = u64::from(self.bug == Some(QueueBug::FirstBatchSkipped));
        let mut connection = self.connection.take().unwrap_or(CountedConnection {
            first: window.first_batch() + skipped,
            received: 0,
            acked: 0,
        });
        for _ in 0..receive {
            let number = connection.first + connection.received;
            if number < window.first_batch() {
                // Dropped batches: the count of the connection cannot go on.
                return Ok(());
            }
            let Some(batch) = window.batch(number) else { break };
            connection.received += 1;
            if self.bug != Some(QueueBug::AckedUnstored) || !self.rng.one_in(8) {
                self.store(&batch.labels, &batch.frame)?;
            }
        }
        connection.acked = connection.acked.saturating_add(acknowledge).min(connection.received);
        window.acked(connection.first + connection.acked, self.clock.uptime());
        self.connection = Some(connection);
        Ok(())
    }

    fn store(&mut self, labels: &Labels, frame: &[u8]) -> Result<(), String> {
        let message = ClientMessage::decode(frame, u32::MAX).map_err(|error| format!("a batch is refused: {error}"))?;
        let DecodeProgress::Complete(ClientMessage::Batch(frame), _) = message else {
            return Err("no batch was sent".to_owned());
        };
        let rows = frame.rows().map_err(|error| format!("rows are refused: {error}"))?;
        let lines = frame.text().split(|byte| *byte == b'\n');
        for (row, line) in (0..rows.count).zip(lines) {
            let record = (labels.to_string(), String::from_utf8_lossy(line).into_owned());
            let id = rows.id(row).ok_or("a row has no id")?;
            if let Some(before) = self.stored.insert(id, record.clone())
                && before.1 != record.1
            {
                return Err(format!("one id has the lines {:?} and {:?}", before.1, record.1));
            }
        }
        Ok(())
    }

    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// The agent stops in order.
    pub(super) fn stop(&mut self) {
        if let Some(agent) = &self.agent {
            agent.queue.close();
        }
        self.end();
    }

    fn end(&mut self) {
        self.agent = None;
        self.connection = None;
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        self.end();
        self.fs = self.fs.kill();
        match self.bug {
            Some(QueueBug::QueueForgotten) => self.fs.remove_dir_all(QUEUE_DIR),
            Some(QueueBug::AckedBeforeWritten) => {
                if let Some(path) = self.queue_files().pop() {
                    let size = self.fs.live_bytes(&path).map_or(0, |bytes| bytes.len() as u64);
                    self.fs.truncate_file(path, size.saturating_sub(30));
                }
            }
            _ => {}
        }
    }

    /// What is not synced may be gone.
    pub(super) fn cut_power(&mut self) {
        self.end();
        for sent in &mut self.sent {
            let is_promised = self.durability == Durability::Durable && sent.is_acked.load(Ordering::Relaxed);
            sent.may_be_lost |= !is_promised;
        }
        let loss = *self.rng.pick(&[PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn]);
        self.fs = self.fs.cut_power(loss, self.rng.next_u64());
        self.fs.use_clock(Arc::clone(&self.clock));
    }

    /// Flips a bit of a segment. Returns whether there was one.
    pub(super) fn damage(&mut self) -> bool {
        let files = self.queue_files();
        if files.is_empty() {
            return false;
        }
        let path = self.rng.pick(&files).clone();
        let bytes = self.fs.live_bytes(&path).map_or(0, |bytes| bytes.len());
        bytes > 0 && self.fs.flip_bit(path, self.rng.below(bytes * 8) as u64)
    }

    fn queue_files(&self) -> Vec<PathBuf> {
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "active" || ext == "pending");
        self.fs.paths().into_iter().filter(is_segment).collect()
    }

    /// Runs without faults until everything is acknowledged.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        self.fs.set_capacity(None);
        self.start();
        for _ in 0..2_000 {
            self.clock.advance(Duration::from_millis(500));
            self.commit_group();
            self.tick();
            self.step();
            self.exchange(usize::MAX, u64::MAX)?;
            self.step();
            if self.agent.as_ref().is_some_and(|agent| agent.shipper.is_drained()) {
                // Files without records, which a full disk or a power cut has left, are closed by their age and removed.
                for _ in 0..4 {
                    self.clock.advance(Duration::from_secs(10));
                    self.tick();
                    self.step();
                }
                let files = self.queue_files();
                return if files.is_empty() { Ok(()) } else { Err(format!("files stay: {files:?}")) };
            }
        }
        Err("the queue is not drained".to_owned())
    }
}
