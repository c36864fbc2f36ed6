//! What a check of a file has found, what that costs, and what can be done about it.

use std::fmt;
use std::io::ErrorKind;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, Fs};
use bucksaw_record::{Id, Producer};

use crate::{Damage, ReadError};

/// Extension of a file that was set aside as damaged.
pub const DAMAGED_EXTENSION: &str = "damaged";

/// Extension of a file that was set aside and whose readable records were saved to another file. Only that other file is
/// used; this one is kept because of what cannot be read of it.
pub const SAVED_EXTENSION: &str = "saved.damaged";

/// Number of records that cannot be read any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLoss {
    /// Records that are known to be lost.
    pub records: u64,
    /// Whether more may be lost than these: what tells their number is damaged, too.
    pub is_lower_bound: bool,
}

impl RecordLoss {
    /// Records may be lost, and nothing tells how many.
    pub const UNKNOWN: Self = Self { records: 0, is_lower_bound: true };

    /// The number of records that are lost, which is known.
    #[must_use]
    pub fn exact(records: u64) -> Self {
        Self { records, is_lower_bound: false }
    }

    /// Whether no record is lost for sure.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl AddAssign for RecordLoss {
    fn add_assign(&mut self, other: Self) {
        self.records = self.records.saturating_add(other.records);
        self.is_lower_bound = self.is_lower_bound || other.is_lower_bound;
    }
}

impl fmt::Display for RecordLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.records, self.is_lower_bound) {
            (0, true) => write!(f, "an unknown number of records is lost"),
            (1, false) => write!(f, "1 record is lost"),
            (records, false) => write!(f, "{records} records are lost"),
            (records, true) => write!(f, "at least {records} records are lost"),
        }
    }
}

/// What a check of a segment's file has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Number of records that can be read.
    pub records: u64,
    /// Damage that costs no record: the file says the same elsewhere.
    pub harmless: Vec<Damage>,
    /// Damage that costs records.
    pub harmful: Vec<Damage>,
    /// The records that it costs.
    pub loss: RecordLoss,
}

impl Health {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.harmless.is_empty() && self.harmful.is_empty()
    }
}

/// A file of the data directory that was checked.
pub trait CheckedFile {
    /// What was found.
    fn health(&self) -> &Health;

    /// How the file was set aside before; `None` when it is in use.
    fn quarantine_kind(&self) -> Option<QuarantineKind>;

    /// What stands in the file and is no damage, for a person to read.
    fn note(&self) -> Option<&Damage> {
        None
    }

    /// Mends the file as far as it can be. A power cut at any moment leaves each record that could be read in a file that
    /// can be mended again. Done again, it changes nothing.
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read or written.
    fn repair(&self, fs: &dyn Fs) -> Result<RepairOutcome, ReadError>;
}

/// How a file was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineKind {
    /// Its records, as far as they can be read, may be in no other file.
    Damaged,
    /// What can be read of it was saved.
    Saved,
}

/// What became of a file that was to be mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// It is as it was: nothing is wrong, or nothing can be done.
    Unchanged,
    /// All its records are in a sound file of this name.
    Repaired(String),
    /// What can be read of it is in a sound file; the rest is lost.
    Saved {
        /// The name of the sound file.
        name: String,
        /// The name of the damaged file now.
        original: String,
    },
    /// Nothing of it can be read. It was set aside under this name.
    Quarantined(String),
}

/// The id of the segment to which the readable records of a damaged one are saved. The same each time, so that a repair
/// that is interrupted and done again makes one file.
#[must_use]
pub fn saved_id(damaged: Id) -> Id {
    let mixed = (damaged.producer().bits() ^ u64::from(damaged.sequence())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Id::new(damaged.time(), Producer::random(mixed.rotate_right(16)), damaged.sequence())
}

/// Makes a file by the name of `draft` and gives it the name `target` when it is whole and durable. `fill` writes and syncs
/// it, `check` reads it again.
///
/// # Errors
/// [`ReadError`], also when the file does not read as it was written; the draft is removed then.
pub fn write_checked(
    fs: &dyn Fs,
    draft: &Path,
    target: &Path,
    fill: impl FnOnce(&Arc<dyn File>) -> Result<(), ReadError>,
    check: impl FnOnce(Arc<dyn File>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    // Left behind by a repair that was interrupted.
    match fs.remove(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(ReadError::io(draft)(error)),
        _ => {}
    }
    let file = fs.create(draft).map_err(ReadError::io(draft))?;
    let done = fill(&file).and_then(|()| {
        let file = fs.open(draft).map_err(ReadError::io(draft))?;
        if check(file)? {
            rename_durably(fs, draft, target)
        } else {
            Err(ReadError::damaged(draft, 0, "verification of the written file failed"))
        }
    });
    if done.is_err() {
        let _ = fs.remove(draft);
    }
    done
}

/// Gives a file another name, durably.
///
/// # Errors
/// [`ReadError`].
pub fn rename_durably(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(), ReadError> {
    let dir = from.parent().unwrap_or(Path::new("."));
    fs.rename(from, to).and_then(|()| fs.sync_dir(dir)).map_err(ReadError::io(from))
}

/// Gives a file the name of one that was set aside, durably. The only copy of another one is not overwritten.
///
/// # Errors
/// [`ReadError`], also when a file has that name.
pub fn quarantine(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(), ReadError> {
    if from == to {
        return Ok(());
    }
    if fs.open(to).is_ok() {
        return Err(ReadError::io(to)(ErrorKind::AlreadyExists.into()));
    }
    rename_durably(fs, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fails_its_check_replaces_nothing() {
        let fs = bucksaw_env::sim::Fs::new();
        let (draft, target) = (Path::new("x.tmp"), Path::new("x.seg"));
        fs.create(target).unwrap().append(&[b"before"]).unwrap();
        let fill = |file: &Arc<dyn File>| file.append(&[b"anew"]).map_err(ReadError::io(draft));
        write_checked(&fs, draft, target, fill, |_| Ok(false)).unwrap_err();
        write_checked(&fs, draft, target, fill, |_| Err(ReadError::damaged(draft, 0, "another"))).unwrap_err();
        assert_eq!((fs.live_bytes(target).unwrap(), fs.live_bytes(draft)), (b"before".to_vec(), None));
        write_checked(&fs, draft, target, fill, |_| Ok(true)).unwrap();
        assert_eq!((fs.live_bytes(target).unwrap(), fs.live_bytes(draft)), (b"anew".to_vec(), None));
    }

    #[test]
    fn losses_add_up() {
        let mut sum = RecordLoss::default();
        assert!(sum.is_none());
        sum += RecordLoss::exact(1);
        assert_eq!(sum.to_string(), "1 record is lost");
        sum += RecordLoss::exact(2);
        assert_eq!(sum.to_string(), "3 records are lost");
        sum += RecordLoss::UNKNOWN;
        assert_eq!(sum.to_string(), "at least 3 records are lost");
        assert_eq!(RecordLoss::UNKNOWN.to_string(), "an unknown number of records is lost");
        assert!(!RecordLoss::UNKNOWN.is_none());
    }
}
