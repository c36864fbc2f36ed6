//! Retention: what is too old or too much goes to the trash, and from there, after a while, for good.
//!
//! A segment is too old when both its newest record and its newest arrival are: records that were loaded late stay as
//! long as others, whatever time they state.
//!
//! After the wall clock jumps forward nothing is too old for a while, and the trash is kept: see [`crate::clock_guard`].
//! Where the files take too many bytes the oldest segments go first, and the newest segment always stays, even when it is
//! larger than the limit by itself.

use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_record::{Id, Millis};
use tracing::{info, warn};

use crate::shelf::Shelf;
use crate::stored::Stored;

impl Shelf {
    /// Moves what is past its retention to the trash, and empties the trash of what lay there long enough. With `hurry`,
    /// when the disk is full, the trash is emptied at once.
    pub fn retain(&self, hurry: bool) {
        let is_trusted = self.trusts_clock();
        for segment in self.expired(is_trusted) {
            self.expire(&segment);
        }
        self.empty_trash(hurry, is_trusted);
        self.report();
    }

    fn expired(&self, is_trusted: bool) -> Vec<Arc<Stored>> {
        let segments = self.segments();
        let mut expired: Vec<Arc<Stored>> = Vec::new();
        if let Some(age) = self.config.retention_age.filter(|_| is_trusted) {
            let since = self.now().minus(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            let old = segments.iter().filter(|segment| newest(segment) < since);
            expired.extend(old.cloned());
        }
        if let Some(limit) = self.config.retention_bytes {
            let mut bytes: u64 = segments.iter().map(|segment| segment.file_bytes()).sum();
            let mut oldest_first: Vec<&Arc<Stored>> = segments.iter().collect();
            oldest_first.sort_by_key(|segment| segment.reach().high);
            // The newest stays: one segment that is larger than the limit must not empty the store.
            oldest_first.pop();
            for segment in oldest_first {
                if bytes <= limit {
                    break;
                }
                bytes -= segment.file_bytes();
                self.let_go_up_to(segment.reach().high);
                if !expired.iter().any(|other| other.id() == segment.id()) {
                    expired.push(Arc::clone(segment));
                }
            }
        }
        expired
    }

    fn expire(&self, segment: &Stored) {
        let path = segment.reader().path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // What is damaged is kept for a person to look at, and out of the way.
        let target = if segment.broken_blocks() > 0 {
            path.with_extension("damaged")
        } else {
            self.trash().join(format!("{}-{name}", self.now()))
        };
        match self.doors.fs.rename(path, &target) {
            Ok(()) => {
                self.replace(&[], &[segment.id()]);
                self.metrics.expired_segments.inc();
                self.metrics.expired_bytes.inc_by(segment.file_bytes());
                info!(segment = name, bytes = segment.file_bytes(), "past its retention: moved to the trash");
            }
            Err(error) => warn!(segment = name, %error, "cannot move an expired segment to the trash"),
        }
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.dir.join("trash")
    }

    fn empty_trash(&self, hurry: bool, is_trusted: bool) {
        let trash = self.trash();
        let Ok(names) = self.doors.fs.list(&trash) else { return };
        let age = u64::try_from(self.config.trash_age.as_millis()).unwrap_or(u64::MAX);
        let over = self.config.retention_bytes.is_some_and(|limit| self.file_bytes() > limit);
        let mut bytes = 0;
        for name in names {
            // Only what retention put there, which begins with the time at which it did.
            let Some(since) = name.split_once('-').and_then(|(ms, _)| ms.parse::<u64>().ok()) else { continue };
            let path = trash.join(&name);
            let size = self.doors.fs.open(&path).and_then(|file| file.size()).unwrap_or_default();
            let is_old = is_trusted && self.now().0.saturating_sub(since) >= age;
            if hurry || over || is_old {
                match self.doors.fs.remove(&path) {
                    Ok(()) => info!(segment = name, "removed from the trash"),
                    Err(error) => warn!(segment = name, %error, "cannot remove a segment from the trash"),
                }
            } else {
                bytes += size;
            }
        }
        self.metrics.trash_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Takes a segment off the shelf that another run left behind.
    pub(crate) fn to_trash(&self, path: &std::path::Path, id: Id) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let target = self.trash().join(format!("{}-{name}", self.now()));
        match self.doors.fs.rename(path, &target) {
            Ok(()) => info!(segment = %id, "moved a segment to the trash whose records are in another"),
            Err(error) => warn!(segment = %id, %error, "cannot move a segment to the trash"),
        }
    }
}

fn newest(segment: &Stored) -> Millis {
    segment.reach().high.at().max(segment.reach().accepted)
}
