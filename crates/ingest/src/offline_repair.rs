//! Checks the files of the queue while no node runs on them, and repairs them.
//!
//! ```text
//!   X.active, X.pending, X.damaged   no record is lost      ──► X.pending, rewritten with the same id
//!                                    some records are lost  ──► Y.pending with all whole frames, then X.saved.damaged
//!                                    nothing is readable    ──► X.damaged
//!   X.committed                      stores have its records: rewritten as far as it is readable
//! ```
//! Y has an id of its own, which no stored segment names as its origin. So it is gathered even if a part of X was; answers drop
//! records that are stored twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Env, File, Fs, file_name};
use bucksaw_record::Id;
use bucksaw_segment::health::{
    CheckedFile, DAMAGED_EXTENSION, Health, QuarantineKind, RecordLoss, RepairOutcome, SAVED_EXTENSION, quarantine,
    rename_durably, saved_id, write_checked,
};
use bucksaw_segment::queue::{HEADER_LEN, SegmentScan, SegmentTail, rewrite, scan_segment};
use bucksaw_segment::{Damage, ReadError};

use crate::append::Durability;
use crate::keys::KeyFileReport;
use crate::queue_file::{parse_name, tail_damage};
use crate::{boot, keys};

/// A checked file of the queue.
#[derive(Debug)]
pub struct CheckedQueueFile {
    path: PathBuf,
    id: Id,
    state: QueueFileState,
    file: Arc<dyn File>,
    /// `None` if nothing is readable.
    found: Option<SegmentScan>,
    health: Health,
    note: Option<Damage>,
}

/// The state that a file's extension names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueFileState {
    Active,
    Pending,
    Committed,
    Damaged,
    Saved,
}

impl QueueFileState {
    fn of(extension: &str) -> Option<Self> {
        match extension {
            "active" => Some(Self::Active),
            "pending" => Some(Self::Pending),
            "committed" => Some(Self::Committed),
            DAMAGED_EXTENSION => Some(Self::Damaged),
            SAVED_EXTENSION => Some(Self::Saved),
            _ => None,
        }
    }

    /// Whether the file is damaged if it does not end in its seal. The former name of a quarantined file is unknown.
    fn requires_seal(self, id: Id, may_have_lost_writes: bool) -> bool {
        match self {
            Self::Pending => Durability::of_segment(id).requires_seal(may_have_lost_writes),
            Self::Damaged => true,
            Self::Active | Self::Committed | Self::Saved => false,
        }
    }
}

/// Checks a file in the queue's directory; `None` if it is no segment. As at the start of a node, an unsynced end that a power
/// cut may have taken is no damage.
///
/// # Errors
/// [`ReadError`] if the operating system cannot read it, or if it has a newer version.
pub fn check(env: &Env, path: &Path) -> Result<Option<CheckedQueueFile>, ReadError> {
    let name = file_name(path);
    let parsed = parse_name(&name).and_then(|(id, extension)| Some((id, QueueFileState::of(extension)?)));
    let Some((id, state)) = parsed else { return Ok(None) };
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let file = env.fs.open(path).map_err(io)?;
    let (health, note) = (Health::default(), None);
    let mut checked = CheckedQueueFile { path: path.to_owned(), id, state, file, found: None, health, note };
    if state == QueueFileState::Saved {
        return Ok(Some(checked));
    }
    let may_have_lost_writes = boot::may_have_lost_writes(env, directory(path));
    match scan_segment(&checked.file, path, id) {
        Ok(found) => checked.evaluate_damage(found, may_have_lost_writes),
        Err(ReadError::Damaged { damage, .. }) => {
            let size = checked.file.size().map_err(io)?;
            match state {
                QueueFileState::Committed => checked.health.harmless.push(damage),
                // The process ended while it created the file.
                _ if !state.requires_seal(id, may_have_lost_writes) && size < HEADER_LEN as u64 => {}
                _ => {
                    checked.health.harmful.push(damage);
                    checked.health.loss = RecordLoss::UNKNOWN;
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(Some(checked))
}

/// Checks a file of idempotency keys in the queue's directory, as a node does at its start; `None` if it is no such file. It
/// cannot be repaired, because no other file has its entries.
///
/// # Errors
/// The error of the operating system.
pub fn check_keys(env: &Env, path: &Path) -> io::Result<Option<KeyFileReport>> {
    keys::check(env, path, boot::may_have_lost_writes(env, directory(path)))
}

/// Whether these bytes are the file `boot`, or a prefix of it that a crash left.
pub fn is_valid_boot_file(bytes: &[u8]) -> bool {
    boot::is_valid_prefix(bytes)
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

impl CheckedFile for CheckedQueueFile {
    fn health(&self) -> &Health {
        &self.health
    }

    fn quarantine_kind(&self) -> Option<QuarantineKind> {
        match self.state {
            QueueFileState::Damaged => Some(QuarantineKind::Damaged),
            QueueFileState::Saved => Some(QuarantineKind::Saved),
            QueueFileState::Active | QueueFileState::Pending | QueueFileState::Committed => None,
        }
    }

    fn note(&self) -> Option<&Damage> {
        self.note.as_ref()
    }

    fn repair(&self, fs: &dyn Fs) -> Result<RepairOutcome, ReadError> {
        let is_quarantined = self.quarantine_kind().is_some();
        match &self.found {
            _ if self.state == QueueFileState::Saved => Ok(RepairOutcome::Unchanged),
            _ if !is_quarantined && self.health.is_intact() => Ok(RepairOutcome::Unchanged),
            Some(found) if self.health.loss.is_none() => self.rewrite_in_place(fs, found),
            Some(found) if !found.summary.is_empty() => self.salvage(fs, found),
            // A node removes a committed segment that cannot be read.
            _ if is_quarantined || self.state == QueueFileState::Committed => Ok(RepairOutcome::Unchanged),
            _ => {
                let original = self.path.with_extension(DAMAGED_EXTENSION);
                quarantine(fs, &self.path, &original)?;
                Ok(RepairOutcome::Quarantined(file_name(&original)))
            }
        }
    }
}

impl CheckedQueueFile {
    /// Decides which records the damage costs.
    fn evaluate_damage(&mut self, mut found: SegmentScan, may_have_lost_writes: bool) {
        let health = &mut self.health;
        health.records = found.summary.records;
        health.harmless.append(&mut found.harmless);
        if self.state == QueueFileState::Committed {
            health.harmless.append(&mut found.damage);
            self.found = Some(found);
            return;
        }
        health.harmful.append(&mut found.damage);
        let requires_seal = self.state.requires_seal(self.id, may_have_lost_writes);
        if let Some(damage) = tail_damage(&found, requires_seal, may_have_lost_writes) {
            health.harmful.push(damage);
        } else if found.seal.is_none()
            && (self.state == QueueFileState::Pending || matches!(found.tail, SegmentTail::Damaged(_)))
        {
            let what = "the end is missing: a power cut removed unsynced bytes";
            self.note = Some(Damage { offset: found.end, what });
        }
        if !health.harmful.is_empty() {
            let missing = found.missing_records().filter(|missing| *missing > 0);
            health.loss = missing.map_or(RecordLoss::UNKNOWN, RecordLoss::exact);
        }
        self.found = Some(found);
    }

    /// Rewrites the segment with the same id.
    fn rewrite_in_place(&self, fs: &dyn Fs, found: &SegmentScan) -> Result<RepairOutcome, ReadError> {
        if !self.health.is_intact() {
            self.write(fs, found, self.id, &self.path)?;
        }
        if self.state == QueueFileState::Committed {
            return Ok(RepairOutcome::Repaired(file_name(&self.path)));
        }
        let target = self.path.with_extension("pending");
        if target != self.path {
            rename_durably(fs, &self.path, &target)?;
        }
        Ok(RepairOutcome::Repaired(file_name(&target)))
    }

    /// Saves the whole frames in another segment, then quarantines the file.
    fn salvage(&self, fs: &dyn Fs, found: &SegmentScan) -> Result<RepairOutcome, ReadError> {
        let saved = saved_id(self.id);
        let target = self.path.with_file_name(format!("{saved}.pending"));
        let original = self.path.with_extension(SAVED_EXTENSION);
        self.write(fs, found, saved, &target)?;
        quarantine(fs, &self.path, &original)?;
        Ok(RepairOutcome::Saved { name: file_name(&target), original: file_name(&original) })
    }

    fn write(&self, fs: &dyn Fs, found: &SegmentScan, id: Id, target: &Path) -> Result<(), ReadError> {
        let draft = self.path.with_file_name(format!("{id}.tmp"));
        let fill = |file: &Arc<dyn File>| rewrite(&self.file, &self.path, self.id, found, &**file, id);
        let is_same = |file| {
            let written = scan_segment(&file, &draft, id)?;
            let is_sound = written.seal.is_some() && written.damage.is_empty() && written.harmless.is_empty();
            Ok(is_sound && written.summary == found.summary)
        };
        write_checked(fs, &draft, target, fill, is_same)
    }
}
