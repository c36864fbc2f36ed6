//! The thread that reads the journal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_protocols::journald::JournalDecoder;
use bucksaw_record::Labels;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::JournalConfig;
use super::event_packer::EventPacker;
use super::journalctl::{JournalOutput, Journalctl};
use crate::files::{Collector, SharedCollector};
use crate::{Config, EventRules};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The longest wait, so that a stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// The pause before an append to a full buffer is repeated.
const FULL_PAUSE: Duration = Duration::from_millis(25);

/// The pause before `journalctl` is started again: the first, and the longest.
const RESTART_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Reads the journal until it is stopped.
pub(crate) struct JournalReader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// The state of the thread.
struct JournalFollower {
    journal: JournalConfig,
    config: Config,
    env: Env,
    collector: Arc<SharedCollector>,
    stop: Arc<AtomicBool>,
    packer: EventPacker,
    dropped_fields: u64,
    bare_events: u64,
}

impl JournalReader {
    /// Starts `journalctl`, and the thread.
    ///
    /// # Errors
    /// `journalctl` cannot be run, or the buffer cannot be written.
    pub(crate) fn start(
        journal: JournalConfig,
        config: &Config,
        rules: Option<Arc<EventRules>>,
        env: &Env,
        collector: &Arc<SharedCollector>,
    ) -> Result<Self, String> {
        let cannot_run = |error: io::Error| format!("cannot run journalctl: {error}");
        if collector.read(|collector| collector.journal_cursor().is_none()) {
            let skips = journal.skips_old_entries;
            let cursor = if skips { Journalctl::last_cursor(&journal).map_err(cannot_run)? } else { Vec::new() };
            collector.read(|collector| collector.begin_journal(&cursor)).map_err(|error| error.to_string())?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut follower = JournalFollower {
            journal,
            config: config.clone(),
            env: env.clone(),
            collector: Arc::clone(collector),
            stop: Arc::clone(&stop),
            packer: EventPacker::new(env, config.labels.clone(), rules),
            dropped_fields: 0,
            bare_events: 0,
        };
        let first = follower.start_process().map_err(cannot_run)?;
        info!("following the journal");
        let (running, ended) = oneshot::channel::<()>();
        let work = move || {
            // Dropped at the end, also by a panic.
            let _running = running;
            follower.run(first);
        };
        let thread =
            thread::Builder::new().name("journal".to_owned()).spawn(work).map_err(|error| error.to_string())?;
        Ok(Self { stop, thread: Some(thread), ended: Some(ended) })
    }

    /// Resolves when the thread has ended. To be taken once.
    pub(crate) fn take_ended(&mut self) -> Option<oneshot::Receiver<()>> {
        self.ended.take()
    }

    /// Stops the thread. What it has read is then in the buffer, unless that is full.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed.
            let _ = thread.join();
        }
    }
}

impl JournalFollower {
    fn start_process(&self) -> io::Result<Journalctl> {
        let cursor = self.collector.read(|collector| collector.journal_cursor().unwrap_or_default().to_vec());
        Journalctl::follow(&self.journal, &cursor)
    }

    fn run(&mut self, first: Journalctl) {
        let (pause_min, pause_max) = RESTART_PAUSE;
        let (mut process, mut pause) = (Ok(first), pause_min);
        while !self.is_stopping() {
            let ended = process.and_then(|process| self.follow(process));
            if self.is_stopping() {
                return;
            }
            match ended {
                Ok(true) => pause = pause_min,
                Ok(false) => {}
                Err(error) => warn!(%error, "the journal cannot be read"),
            }
            warn!(next_try_seconds = pause.as_secs(), "journalctl has ended and is started again");
            let until = self.env.clock.uptime() + pause;
            while !self.is_stopping() && self.env.clock.uptime() < until {
                self.env.clock.sleep(WAIT_MAX);
            }
            pause = (pause * 2).min(pause_max);
            process = self.start_process();
        }
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads until the process ends or the stop. Returns whether entries arrived.
    fn follow(&mut self, mut process: Journalctl) -> io::Result<bool> {
        // What an earlier process left is read again.
        self.packer.discard();
        let mut decoder = JournalDecoder::new(self.config.record_bytes_max, &Labels::default());
        let mut buffer = vec![0; READ_BYTES];
        let mut has_entries = false;
        // When the collected entries are appended.
        let mut due: Option<Duration> = None;
        loop {
            let now = self.env.clock.uptime();
            let wait = due.map_or(WAIT_MAX, |due| due.saturating_sub(now));
            let output = process.read(&mut buffer, wait);
            let mut result = Ok(());
            if let Ok(JournalOutput::Bytes(count)) = output {
                let bytes = buffer.get(..count).unwrap_or_default();
                result = decoder.push(bytes, &mut self.packer).map(drop).map_err(io::Error::other);
            }
            if self.packer.has_events() {
                has_entries = true;
                due.get_or_insert(now + self.config.linger);
            }
            let is_end = !matches!(output, Ok(JournalOutput::Bytes(_) | JournalOutput::None)) || result.is_err();
            let is_due = due.is_some_and(|due| self.env.clock.uptime() >= due);
            let is_full = self.packer.bytes() >= self.config.batch_bytes;
            if is_due || is_full || is_end || self.is_stopping() {
                due = None;
                if !self.append(decoder.cursor()) {
                    return Ok(has_entries);
                }
                self.report_losses(&decoder);
            }
            result?;
            output?;
            if is_end || self.is_stopping() {
                return Ok(has_entries);
            }
        }
    }

    /// Appends the collected entries, and waits while the buffer is full. Returns false at the stop.
    fn append(&mut self, cursor: &[u8]) -> bool {
        let batches = self.packer.finish();
        if batches.is_empty() {
            self.packer.confirm();
            return true;
        }
        let append = |collector: &mut Collector| collector.append_journal(&batches, cursor, self.env.clock.uptime());
        while !self.collector.read(append) {
            if self.is_stopping() {
                return false;
            }
            self.env.clock.sleep(FULL_PAUSE);
        }
        self.packer.confirm();
        true
    }

    fn report_losses(&mut self, decoder: &JournalDecoder) {
        if decoder.dropped_fields() > self.dropped_fields {
            self.dropped_fields = decoder.dropped_fields();
            warn!(fields = self.dropped_fields, "fields of journal entries are too long and not shipped");
        }
        if self.packer.bare_events() > self.bare_events {
            self.bare_events = self.packer.bare_events();
            warn!(entries = self.bare_events, "journal entries have too many fields and are shipped as lines only");
        }
    }
}

impl Drop for JournalReader {
    fn drop(&mut self) {
        self.stop();
    }
}
