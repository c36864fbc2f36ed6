//! The result of checking a file, the loss that damage causes, and offline repair.

use std::fmt;
use std::io::ErrorKind;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, Fs};
use bucksaw_record::{Id, Producer};

use crate::{Damage, ReadError};

/// Extension of a quarantined file.
pub const DAMAGED_EXTENSION: &str = "damaged";

/// Extension of a quarantined file whose readable records were saved to another file. Only the other file is used; this one
/// is kept for its lost records.
pub const SAVED_EXTENSION: &str = "saved.damaged";

/// Records that cannot be read any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLoss {
    /// Number of records known to be lost.
    pub records: u64,
    /// Whether more may be lost: the record count is damaged too.
    pub is_lower_bound: bool,
}

impl RecordLoss {
    /// An unknown number of records may be lost.
    pub const UNKNOWN: Self = Self { records: 0, is_lower_bound: true };

    /// An exact number of records is lost.
    pub fn exact(records: u64) -> Self {
        Self { records, is_lower_bound: false }
    }

    /// Whether it is certain that no record is lost.
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

/// The result of checking a segment file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Number of readable records.
    pub records: u64,
    /// Damage that loses no record, because the file repeats the content.
    pub harmless: Vec<Damage>,
    /// Damage that loses records.
    pub harmful: Vec<Damage>,
    /// The lost records.
    pub loss: RecordLoss,
}

impl Health {
    /// Whether nothing is damaged.
    pub fn is_intact(&self) -> bool {
        self.harmless.is_empty() && self.harmful.is_empty()
    }
}

/// A checked file of the data directory.
pub trait CheckedFile {
    /// The result of the check.
    fn health(&self) -> &Health;

    /// How the file was quarantined; `None` if it is in use.
    fn quarantine_kind(&self) -> Option<QuarantineKind>;

    /// A remark on the file that is no damage.
    fn note(&self) -> Option<&Damage> {
        None
    }

    /// Repairs the file as far as possible. After a power cut at any time, every readable record is in a file that can be
    /// repaired again. A second repair changes nothing.
    ///
    /// # Errors
    /// [`ReadError`] when a file cannot be read or written.
    fn repair(&self, fs: &dyn Fs) -> Result<RepairOutcome, ReadError>;
}

/// Why a file is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineKind {
    /// Its readable records may be in no other file.
    Damaged,
    /// Its readable records were saved to another file.
    Saved,
}

/// The outcome of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// The file is intact, or cannot be repaired.
    Unchanged,
    /// All its records are in an intact file of this name.
    Repaired(String),
    /// Its readable records are in an intact file; the others are lost.
    Saved {
        /// The name of the intact file.
        name: String,
        /// The new name of the damaged file.
        original: String,
    },
    /// No record is readable. It was quarantined under this name.
    Quarantined(String),
}

/// The id of the segment with the saved records of a damaged one: always the same, so that a repeated repair makes one file.
pub fn saved_id(damaged: Id) -> Id {
    let mixed = (damaged.producer().bits() ^ u64::from(damaged.sequence())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Id::new(damaged.time(), Producer::random(mixed.rotate_right(16)), damaged.sequence())
}

/// Writes a file as `draft` and renames it to `target` after it is complete and durable. `fill` writes and syncs it, `check`
/// verifies it.
///
/// # Errors
/// [`ReadError`], also if the verification fails; the draft is removed.
pub fn write_checked(
    fs: &dyn Fs,
    draft: &Path,
    target: &Path,
    fill: impl FnOnce(&Arc<dyn File>) -> Result<(), ReadError>,
    check: impl FnOnce(Arc<dyn File>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    // A leftover of an interrupted repair.
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

/// Renames a file durably.
///
/// # Errors
/// [`ReadError`].
pub fn rename_durably(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(), ReadError> {
    let dir = from.parent().unwrap_or(Path::new("."));
    fs.rename(from, to).and_then(|()| fs.sync_dir(dir)).map_err(ReadError::io(from))
}

/// Renames a file to a quarantine name durably. Never overwrites another quarantined file.
///
/// # Errors
/// [`ReadError`], also if a file has that name.
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
