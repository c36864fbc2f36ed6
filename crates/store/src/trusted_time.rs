//! `clock.json`: the last wall time that the clock guard trusted, kept over restarts, with a backup.

use std::io;
use std::path::PathBuf;

use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_env::{lock, log_limited};
use bucksaw_record::Millis;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::clock_guard::{ClockGuard, Suspension};
use crate::segment_store::SegmentStore;

/// How far the trusted time rises between two writes, in milliseconds.
const PERSIST_STEP_MS: u64 = 60_000;

/// Maximum size of `clock.json`.
const FILE_BYTES_MAX: u64 = 4_096;

#[derive(Serialize, Deserialize)]
struct ClockFile {
    trusted_ms: u64,
}

impl SegmentStore {
    /// Whether retention by age was suspended when the clock was last checked.
    pub fn suspension(&self) -> Option<Suspension> {
        *lock(&self.suspension)
    }

    /// Starts the clock guard with the trusted time of the last process. Without one it uses the newest arrival in the store,
    /// and in an empty store the wall clock.
    pub(crate) fn restore_clock_guard(&self) {
        let arrived = || self.segments().iter().map(|segment| segment.reach().accepted).max();
        let trusted = self.read_clock().unwrap_or_else(|error| {
            warn!(%error, "cannot read the last trusted time: the newest stored arrival is used instead");
            None
        });
        let trusted = trusted.unwrap_or_else(|| arrived().unwrap_or(self.now()));
        *lock(&self.clock_guard) = ClockGuard::new(trusted, self.env.clock.uptime());
        *lock(&self.clock_persisted) = Millis(0);
    }

    /// Checks the wall clock: whether retention by age may use it now.
    pub(crate) fn trusts_clock(&self) -> bool {
        let (suspension, trusted) = {
            let mut guard = lock(&self.clock_guard);
            (guard.check(self.now(), self.env.clock.uptime()), guard.trusted_max)
        };
        self.metrics.retention_suspended.set(suspension.is_some().into());
        let before = std::mem::replace(&mut *lock(&self.suspension), suspension);
        match suspension {
            Some(Suspension { ahead, left }) if before.is_none_or(|before| before.ahead != ahead) => warn!(
                ahead_seconds = ahead.as_secs(),
                suspended_seconds = left.as_secs(),
                "the wall clock is ahead: this node was off, or the clock jumped; retention by age is suspended, and the trash is kept, for as long as that or until the clock is set right"
            ),
            Some(_) => {}
            None => {
                if before.is_some() {
                    info!("the wall clock is trusted again: retention by age goes on");
                }
                self.persist_clock(trusted);
            }
        }
        suspension.is_none()
    }

    fn clock_file(&self) -> PathBuf {
        self.dir.join("clock.json")
    }

    /// The persisted time; `None` if there is none. Damage is repaired by the next write.
    fn read_clock(&self) -> io::Result<Option<Millis>> {
        let path = self.clock_file();
        let found = BackedUpFile::read(&*self.env.fs, &path, FILE_BYTES_MAX)?;
        if let Some(damage) = found.damage() {
            warn!(path = %path.display(), damage, "the file of the last trusted time, or its backup, was damaged");
        }
        let bytes = match found {
            BackedUpFile { backup: BackupState::Valid(backup) | BackupState::Newer(backup), .. } => backup,
            BackedUpFile { file: Some(file), .. } => file,
            BackedUpFile { file: None, .. } => return Ok(None),
        };
        let ClockFile { trusted_ms } = serde_json::from_slice(&bytes)?;
        Ok(Some(Millis(trusted_ms)))
    }

    /// Writes the trusted time after each [`PERSIST_STEP_MS`]. A failed write is retried; an older time only extends a
    /// suspension.
    fn persist_clock(&self, trusted: Millis) {
        if trusted.0.saturating_sub(lock(&self.clock_persisted).0) < PERSIST_STEP_MS {
            return;
        }
        match self.write_clock(trusted) {
            Ok(()) => *lock(&self.clock_persisted) = trusted,
            Err(error) => {
                log_limited!(self.log_limits, warn, %error, "cannot write the last trusted time; retrying");
            }
        }
    }

    fn write_clock(&self, trusted: Millis) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&ClockFile { trusted_ms: trusted.0 })?;
        bytes.push(b'\n');
        backed_up_file::write(&*self.env.fs, &self.clock_file(), &bytes)
    }
}
