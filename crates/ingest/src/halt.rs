//! Whether records are accepted: whether there is room on the disk and in memory, and whether the operating system writes.
//!
//! Two signs halt the queue: the file system reports less room than is to be kept free, or the operating system failed to
//! make, to write or to sync a file. The second is needed besides the first: quotas, inodes, full directories, descriptors, a
//! file system that is read-only and a disk that fails do not show in the figures of a file system. After such a failure a
//! small file is written once a second, and nothing else is accepted until that succeeds.
//!
//! A file that could not be written is not appended to again, so what holds for the small file holds for the next append.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::Env;
use tracing::{error, warn};

use crate::halt_reason::HaltReason;
use crate::halt_state::{HaltLog, WriteFailure};
use crate::lock::lock;
use crate::metrics::HaltLabels;
use crate::queue::Queue;
use crate::stall::STALL_MAX;

/// How often it is tried to write while the operating system refuses to.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes that are written then: more than a file system may keep for itself in the end, and little beside a segment.
const PROBE_BYTES: usize = 64 << 10;

/// The file that is written then, and removed.
const PROBE_FILE_NAME: &str = "probe";

impl Queue {
    /// A disk that has not finished a write or a sync within this time counts as stalled.
    pub const STALL_MAX: Duration = STALL_MAX;

    /// Whether the disk does not finish a write or a sync. An append that hangs also blocks the tick, which needs its slot.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stall.is_stalled(self.env.clock.uptime())
    }

    /// Why nothing is accepted; `None` while records are accepted.
    #[must_use]
    pub fn halt_reason(&self) -> Option<HaltReason> {
        self.refusal_reason().or_else(|| self.is_stalled().then_some(HaltReason::Stalled))
    }

    /// Whether every append is refused until the disk is better.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.halt_state.is_halted.load(Ordering::Relaxed)
    }

    /// Whether nothing is accepted because the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.halt_state.is_full.load(Ordering::Relaxed)
    }

    /// Halts the queue for a reason that lies outside of it, until this is called with another or with none. While that is
    /// [`Halt::Descriptors`], because more files would take the descriptors of connections, all that waits is due.
    pub fn set_external_halt(&self, halt: Option<HaltReason>) {
        if std::mem::replace(&mut *lock(&self.halt_state.external_halt), halt.clone()) != halt {
            self.check_disk();
        }
    }

    fn external_halt(&self) -> Option<HaltReason> {
        lock(&self.halt_state.external_halt).clone()
    }

    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.external_halt() == Some(HaltReason::Descriptors)
    }

    /// Why every append is refused; `None` when none is.
    pub(crate) fn refusal_reason(&self) -> Option<HaltReason> {
        if self.is_halted() { lock(&self.halt_state.halt).clone() } else { None }
    }

    /// Takes `bytes` from the room that there was when the disk was last looked at; looks again when it is used up.
    ///
    /// # Errors
    /// Why nothing is accepted.
    pub(crate) fn reserve_space(&self, bytes: u64) -> Result<(), HaltReason> {
        if let Some(halt) = self.refusal_reason() {
            return Err(halt);
        }
        let take = |room: u64| room.checked_sub(bytes);
        if self.halt_state.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.check_disk();
        }
        self.refusal_reason().map_or(Ok(()), Err)
    }

    /// The operating system failed to write, whatever the file system reports of its room.
    pub(crate) fn record_write_failure(&self, why: HaltReason) {
        *lock(&self.halt_state.write_failure) = Some(WriteFailure { at: self.env.clock.uptime(), why });
        self.check_disk();
    }

    /// Looks how much room there is, and whether the operating system writes again after a failure.
    pub(crate) fn check_disk(&self) {
        let space = self.env.fs.space(&self.dir).ok();
        let min = self.config.free_bytes_min;
        // A little more room is wanted to begin again than to go on, so that the state does not flutter.
        let wanted = if self.is_full() { min + min / 8 } else { min };
        let short = space.is_some_and(|space| space.free_bytes < wanted);
        let halt = match (self.probe_write_failure(), self.external_halt()) {
            _ if short => Some(HaltReason::DiskFull),
            (_, Some(imposed)) => Some(imposed),
            (None, None) if self.has_too_many_segments() => Some(HaltReason::QueueFull),
            (failure, None) => failure,
        };
        let free_bytes = space.map(|space| space.free_bytes);
        let full = halt == Some(HaltReason::DiskFull);
        let is_new = {
            let mut known = lock(&self.halt_state.halt);
            self.halt_state.is_full.store(full, Ordering::Relaxed);
            self.halt_state.is_halted.store(halt.is_some(), Ordering::Relaxed);
            std::mem::replace(&mut *known, halt.clone()) != halt
        };
        if is_new {
            self.log_halt(halt.as_ref(), free_bytes.unwrap_or_default());
        }
        self.metrics.disk_full.set(i64::from(full));
        let Some(free_bytes) = free_bytes else { return };
        self.halt_state.free_bytes.store(free_bytes.saturating_sub(min), Ordering::Relaxed);
        self.metrics.free_bytes.set(i64::try_from(free_bytes).unwrap_or(i64::MAX));
    }

    /// Sets the metrics of what keeps records from being accepted. To be called also when they are asked for: the tick may
    /// be what the disk holds up.
    pub fn update_halt_metrics(&self) {
        let halt = self.halt_reason();
        for reason in HaltReason::NAMES {
            let is_halted = halt.as_ref().is_some_and(|halt| halt.name() == reason);
            self.metrics.halted.get_or_create(&HaltLabels { reason }).set(i64::from(is_halted));
        }
    }

    /// The last failure of the operating system, unless it writes again. It is tried once a second.
    fn probe_write_failure(&self) -> Option<HaltReason> {
        let now = self.env.clock.uptime();
        {
            let mut failed = lock(&self.halt_state.write_failure);
            let failed = failed.as_mut()?;
            if now.saturating_sub(failed.at) < PROBE_INTERVAL {
                return Some(failed.why.clone());
            }
            failed.at = now;
        }
        let why = probe(&self.env, &self.dir).err().map(|error| HaltReason::of(&error));
        let mut failed = lock(&self.halt_state.write_failure);
        match (why, failed.as_mut()) {
            (Some(why), Some(failed)) => failed.why = why,
            // An append may have failed meanwhile.
            (None, Some(WriteFailure { at, .. })) if *at == now => *failed = None,
            _ => {}
        }
        failed.as_ref().map(|failed| failed.why.clone())
    }

    fn log_halt(&self, halt: Option<&HaltReason>, free_bytes: u64) {
        let HaltLog { full, others, halted } = &self.halt_state.halt_log;
        let now = self.env.clock.uptime();
        match halt {
            Some(HaltReason::DiskFull) => {
                if let Some(suppressed) = full.check(now) {
                    let wanted_bytes = self.config.free_bytes_min;
                    error!(
                        free_bytes,
                        wanted_bytes, suppressed, "the disk is full: nothing is accepted until there is room"
                    );
                    halted.store(true, Ordering::Relaxed);
                }
            }
            Some(halt) => {
                if let Some(suppressed) = others.check(now) {
                    error!(%halt, suppressed, dir = %self.dir.display(), "ingest is halted");
                    halted.store(true, Ordering::Relaxed);
                }
            }
            None if halted.swap(false, Ordering::Relaxed) => {
                warn!(free_bytes, "accepting records again");
            }
            None => {}
        }
    }
}

/// Writes, syncs and removes a small file.
fn probe(env: &Env, dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE_FILE_NAME);
    match env.fs.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = env.fs.create(&path)?;
    let written = file.append(&[&[0; PROBE_BYTES]]).and_then(|()| file.sync());
    env.fs.remove(&path)?;
    written
}
