//! Halts the queue: refuses every append while the disk or the memory lacks room, or while writes fail.
//!
//! Free bytes alone do not show quotas, inodes, full directories, descriptors, a read-only file system or a failing disk. So
//! after a failed write or sync nothing is accepted until a small probe file, tried once a second, can be written and synced.
//! A file that failed is not appended to again, so a successful probe predicts the next append.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::{Env, lock};
use strum::VariantNames as _;
use tracing::{error, warn};

use crate::halt_reason::HaltReason;
use crate::halt_state::WriteFailure;
use crate::queue::Queue;
use crate::queue_file::remove_file;
use crate::stall::STALL_MAX;

/// Interval of probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Size of the probe file: more than a full file system may still have in reserve, and little beside a segment.
const PROBE_BYTES: usize = 64 << 10;

const PROBE_FILE_NAME: &str = "probe";

impl Queue {
    /// A disk that has not finished a write or a sync within this time counts as stalled.
    pub const STALL_MAX: Duration = STALL_MAX;

    /// Whether a write or sync does not return.
    pub(crate) fn is_stalled(&self) -> bool {
        let now = self.env.clock.uptime();
        let writes = self.append_slots().map(|slot| &slot.write);
        writes.chain([&self.ticking, &self.group_commit]).any(|work| work.is_stalled(now))
    }

    /// Why nothing is accepted; `None` while records are accepted.
    pub fn halt_reason(&self) -> Option<HaltReason> {
        self.refusal_reason().or_else(|| self.is_stalled().then_some(HaltReason::Stalled))
    }

    /// Whether every append is refused.
    pub fn is_halted(&self) -> bool {
        self.halt_state.is_halted.load(Ordering::Relaxed)
    }

    /// Whether nothing is accepted because the disk is full.
    pub fn is_full(&self) -> bool {
        self.halt_state.is_full.load(Ordering::Relaxed)
    }

    /// Halts the queue for a reason outside of it, until the next call. [`HaltReason::Descriptors`] also makes all pending
    /// segments due.
    pub fn set_external_halt(&self, halt: Option<HaltReason>) {
        if std::mem::replace(&mut *lock(&self.halt_state.external_halt), halt.clone()) != halt {
            self.check_disk();
        }
    }

    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        *lock(&self.halt_state.external_halt) == Some(HaltReason::Descriptors)
    }

    /// Why every append is refused; `None` while appends are not.
    pub(crate) fn refusal_reason(&self) -> Option<HaltReason> {
        if self.is_halted() { lock(&self.halt_state.halt).clone() } else { None }
    }

    /// Reserves `bytes` of the free bytes that the last check found; checks the disk again when they are used up.
    ///
    /// # Errors
    /// Why nothing is accepted.
    pub(crate) fn reserve_space(&self, bytes: u64) -> Result<(), HaltReason> {
        if let Some(halt) = self.refusal_reason() {
            return Err(halt);
        }
        let take = |free: u64| free.checked_sub(bytes);
        if self.halt_state.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.check_disk();
        }
        self.refusal_reason().map_or(Ok(()), Err)
    }

    /// Halts the queue after a failed write or sync, whatever the free bytes.
    pub(crate) fn record_write_failure(&self, reason: HaltReason) {
        *lock(&self.halt_state.write_failure) = Some(WriteFailure { at: self.env.clock.uptime(), reason });
        self.check_disk();
    }

    /// Updates the reason of the halt: checks the free bytes and, after a failure, writes the probe file.
    pub(crate) fn check_disk(&self) {
        let free_bytes = self.env.fs.space(&self.dir).ok().map(|space| space.free_bytes);
        let min = self.config.free_bytes_min;
        // A full disk needs an eighth more to be no longer full, so that the state does not flap.
        let required = if self.is_full() { min + min / 8 } else { min };
        let failure = self.probe_write_failure();
        let halt = if free_bytes.is_some_and(|free| free < required) {
            Some(HaltReason::DiskFull)
        } else {
            let external = lock(&self.halt_state.external_halt).clone();
            external.or(failure).or_else(|| self.index_memory.is_full().then_some(HaltReason::QueueFull))
        };
        let is_full = halt == Some(HaltReason::DiskFull);
        let has_changed = {
            let mut known = lock(&self.halt_state.halt);
            self.halt_state.is_full.store(is_full, Ordering::Relaxed);
            self.halt_state.is_halted.store(halt.is_some(), Ordering::Relaxed);
            std::mem::replace(&mut *known, halt.clone()) != halt
        };
        if has_changed {
            self.log_halt(halt.as_ref(), free_bytes);
        }
        self.metrics.disk_full.set(i64::from(is_full));
        if let Some(free_bytes) = free_bytes {
            self.halt_state.free_bytes.store(free_bytes.saturating_sub(min), Ordering::Relaxed);
            self.metrics.free_bytes.set(i64::try_from(free_bytes).unwrap_or(i64::MAX));
        }
    }

    /// Updates the metrics of the halt. Also called when metrics are read, because a slow disk may block the tick.
    pub fn update_halt_metrics(&self) {
        let halt = self.halt_reason();
        for &reason in HaltReason::VARIANTS {
            let is_halted = halt.as_ref().is_some_and(|halt| halt.name() == reason);
            self.metrics.halted.get_or_create(&[("reason", reason)]).set(i64::from(is_halted));
        }
    }

    /// The last failed write, unless the probe, tried once a second, has succeeded since.
    fn probe_write_failure(&self) -> Option<HaltReason> {
        let now = self.env.clock.uptime();
        {
            let mut failure = lock(&self.halt_state.write_failure);
            let failure = failure.as_mut()?;
            if now.saturating_sub(failure.at) < PROBE_INTERVAL {
                return Some(failure.reason.clone());
            }
            failure.at = now;
        }
        let probed = probe(&self.env, &self.dir);
        let mut failure = lock(&self.halt_state.write_failure);
        match (probed, failure.as_mut()) {
            (Err(error), Some(failure)) => failure.reason = HaltReason::of(&error),
            // An append may have failed meanwhile.
            (Ok(()), Some(WriteFailure { at, .. })) if *at == now => *failure = None,
            _ => {}
        }
        failure.as_ref().map(|failure| failure.reason.clone())
    }

    fn log_halt(&self, halt: Option<&HaltReason>, free_bytes: Option<u64>) {
        let state = &self.halt_state;
        let Some(halt) = halt else {
            if state.is_halt_logged.swap(false, Ordering::Relaxed) {
                warn!(free_bytes, "accepting records again");
            }
            return;
        };
        // Separate limits, because a disk may be full and have room again many times a minute.
        let suppressed = match halt {
            HaltReason::DiskFull => self.log_limits.check(),
            _ => self.log_limits.check(),
        };
        if let Some(suppressed) = suppressed {
            let free_bytes_min = self.config.free_bytes_min;
            error!(%halt, free_bytes, free_bytes_min, suppressed, dir = %self.dir.display(), "ingest is halted");
            state.is_halt_logged.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes, syncs and removes a small file.
fn probe(env: &Env, dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE_FILE_NAME);
    remove_file(env, &path)?;
    let file = env.fs.create(&path)?;
    let written = file.append(&[&[0; PROBE_BYTES]]).and_then(|()| file.sync());
    env.fs.remove(&path)?;
    written
}
