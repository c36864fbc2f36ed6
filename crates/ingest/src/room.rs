//! Whether there is room for more records.
//!
//! Two signs say that there is none: the file system tells of less room than is to be kept free, or the operating system
//! refused to write for want of room. The second is needed besides the first: quotas, inodes and full directories do not
//! show in the figures of a file system. After such a refusal a small file is written now and then, and nothing else is
//! accepted until that succeeds.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bucksaw_doors::{Doors, Repeats};
use tracing::{error, warn};

use crate::queue::Queue;

/// How often it is tried to write while the operating system refuses to.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Bytes that are written then: more than a file system may keep for itself in the end, and little beside a segment.
const PROBE_BYTES: usize = 64 << 10;

/// The file that is written then, and removed.
const PROBE: &str = "probe";

/// What is known of the room on the disk.
#[derive(Debug, Default)]
pub(crate) struct Room {
    full: AtomicBool,
    /// Bytes that may be appended before the disk is looked at again: the reserve is kept however fast records come.
    bytes: AtomicU64,
    /// The uptime of the last refusal by the operating system; `None` when it writes.
    refused: Mutex<Option<Duration>>,
    logged: Logged,
}

/// The state changes often while the store makes room and clients take it again.
#[derive(Debug, Default)]
struct Logged {
    repeats: Repeats,
    /// Whether the last line said that the disk is full.
    full: AtomicBool,
}

impl Room {
    fn refused(&self) -> MutexGuard<'_, Option<Duration>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whether nothing is accepted because the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room.full.load(Ordering::Relaxed)
    }

    /// Takes `bytes` from the room that there was when the disk was last looked at; looks again when it is used up.
    /// Returns whether there is room.
    pub(crate) fn take_room(&self, bytes: u64) -> bool {
        let take = |room: u64| room.checked_sub(bytes);
        if self.room.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.look_at_disk();
        }
        !self.is_full()
    }

    /// The operating system refused to write for want of room, whatever the file system tells of it.
    pub(crate) fn note_no_room(&self) {
        *self.room.refused() = Some(self.doors.clock.uptime());
        self.look_at_disk();
    }

    /// Looks how much room there is.
    pub(crate) fn look_at_disk(&self) {
        let space = self.doors.fs.space(&self.dir).ok();
        let min = self.config.free_bytes_min;
        // A little more room is wanted to begin again than to go on, so that the state does not flutter.
        let wanted = if self.is_full() { min + min / 8 } else { min };
        let short = space.is_some_and(|space| space.free_bytes < wanted);
        let full = short || self.is_refused() && !self.can_write();
        let free_bytes = space.map(|space| space.free_bytes);
        if self.room.full.swap(full, Ordering::Relaxed) != full {
            self.log_room(full, free_bytes.unwrap_or_default());
        }
        self.metrics.full.set(i64::from(full));
        let Some(free_bytes) = free_bytes else { return };
        self.room.bytes.store(free_bytes.saturating_sub(min), Ordering::Relaxed);
        self.metrics.free_bytes.set(i64::try_from(free_bytes).unwrap_or(i64::MAX));
    }

    fn is_refused(&self) -> bool {
        self.room.refused().is_some()
    }

    /// Whether the operating system writes again after a refusal.
    fn can_write(&self) -> bool {
        let now = self.doors.clock.uptime();
        {
            let mut refused = self.room.refused();
            if refused.is_some_and(|at| now.saturating_sub(at) < PROBE_EVERY) {
                return false;
            }
            *refused = Some(now);
        }
        if probe(&self.doors, &self.dir).is_err() {
            return false;
        }
        self.room.refused().take_if(|at| *at == now);
        true
    }

    fn log_room(&self, full: bool, free_bytes: u64) {
        let Logged { repeats, full: told } = &self.room.logged;
        if full {
            if let Some(suppressed) = repeats.pass(self.doors.clock.uptime()) {
                let wanted_bytes = self.config.free_bytes_min;
                error!(
                    free_bytes,
                    wanted_bytes, suppressed, "the disk is full: nothing is accepted until there is room"
                );
                told.store(true, Ordering::Relaxed);
            }
        } else if told.swap(false, Ordering::Relaxed) {
            warn!(free_bytes, "there is room on the disk again: accepting records");
        }
    }
}

/// Writes and removes a small file.
fn probe(doors: &Doors, dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    match doors.fs.remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = doors.fs.create(&path)?.append(&[&[0; PROBE_BYTES]]);
    doors.fs.remove(&path)?;
    written
}
