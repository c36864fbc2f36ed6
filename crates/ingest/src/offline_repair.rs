//! Checking the files of the queue while no node runs on them, and mending what can be mended.
//!
//! ```text
//!   X.active, X.pending, X.damaged   damage costs nothing   ──► X.pending, written anew, the same segment
//!                                    some records are lost  ──► Y.pending with all whole frames, then X.saved.damaged
//!                                    nothing can be read    ──► X.damaged
//!   X.committed                      stores keep its records, so nothing is lost: written anew as far as it is whole
//! ```
//! Y has an id of its own, so no stored segment names it as its source: it is gathered whatever of X was gathered before.
//! Records that are stored already are answered once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Env, File, Fs};
use bucksaw_record::Id;
use bucksaw_segment::health::{
    CheckedFile, DAMAGED_EXTENSION, Health, QuarantineKind, RecordLoss, RepairOutcome, SAVED_EXTENSION, quarantine,
    rename_durably, saved_id, write_checked,
};
use bucksaw_segment::queue::{HEADER_LEN, SegmentScan, SegmentTail, rewrite, scan_segment};
use bucksaw_segment::{Damage, ReadError};

use crate::class::SegmentClass;
use crate::keys::KeyFileReport;
use crate::{boot, keys};

/// A file of the queue that was checked.
#[derive(Debug)]
pub struct CheckedQueueFile {
    path: PathBuf,
    id: Id,
    state: QueueFileState,
    file: Arc<dyn File>,
    /// `None` when nothing of it can be read.
    survey: Option<SegmentScan>,
    health: Health,
    note: Option<Damage>,
}

/// What a file's name says of it.
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
}

/// Checks a file in the queue's directory. `None` when it is no segment. The end of a file that no sync covered is no damage
/// when the power may have been cut, as for a node that starts.
///
/// # Errors
/// [`ReadError`] when the operating system cannot read it, or when it is of a newer version.
pub fn check(env: &Env, path: &Path) -> Result<Option<CheckedQueueFile>, ReadError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parsed = name.split_once('.').and_then(|(id, state)| Some((id.parse().ok()?, QueueFileState::of(state)?)));
    let Some((id, state)) = parsed else { return Ok(None) };
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let file = env.fs.open(path).map_err(io)?;
    let (health, note) = (Health::default(), None);
    let mut checked = CheckedQueueFile { path: path.to_owned(), id, state, file, survey: None, health, note };
    if state == QueueFileState::Saved {
        return Ok(Some(checked));
    }
    let lost_writes = boot::may_have_lost_writes(env, path.parent().unwrap_or(Path::new(".")));
    match scan_segment(&checked.file, path, id) {
        Ok(found) => checked.evaluate_damage(found, lost_writes),
        Err(ReadError::Damaged { damage, .. }) => {
            let size = checked.file.size().map_err(io)?;
            let must_be_sealed = state.must_be_sealed(id, lost_writes);
            match state {
                QueueFileState::Committed => checked.health.harmless.push(damage),
                // It was being made when the process ended.
                _ if !must_be_sealed && size < HEADER_LEN as u64 => {}
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

/// Checks a file of idempotency keys in the queue's directory, as a node that starts reads it. `None` when it is none. It is
/// not mended: a node writes its keys anew, and what cannot be read is nowhere else.
///
/// # Errors
/// What the operating system says.
pub fn check_keys(env: &Env, path: &Path) -> io::Result<Option<KeyFileReport>> {
    keys::check(env, path, boot::may_have_lost_writes(env, path.parent().unwrap_or(Path::new("."))))
}

/// Whether a node understands these bytes of the file `boot`, or takes them for a file that a crash left unfinished.
#[must_use]
pub fn is_valid_boot_file(bytes: &[u8]) -> bool {
    boot::is_valid_prefix(bytes)
}

impl QueueFileState {
    /// Whether a file without a sound seal lacks something. One that was set aside lost its old name, and with it the answer.
    fn must_be_sealed(self, id: Id, lost_writes: bool) -> bool {
        match self {
            Self::Pending => SegmentClass::of(id).must_be_sealed(lost_writes),
            Self::Damaged => true,
            Self::Active | Self::Committed | Self::Saved => false,
        }
    }
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
        match (self.state, &self.survey) {
            (QueueFileState::Saved, _) => Ok(RepairOutcome::Unchanged),
            (QueueFileState::Active | QueueFileState::Pending | QueueFileState::Committed, _)
                if self.health.is_intact() =>
            {
                Ok(RepairOutcome::Unchanged)
            }
            (_, Some(survey)) if self.health.loss.is_none() => self.rewrite_in_place(fs, survey),
            (_, Some(survey)) if !survey.summary.is_empty() => self.salvage(fs, survey),
            // A node removes a committed segment that cannot be read.
            (QueueFileState::Damaged | QueueFileState::Committed, _) => Ok(RepairOutcome::Unchanged),
            (QueueFileState::Active | QueueFileState::Pending, _) => {
                let original = self.path.with_extension(DAMAGED_EXTENSION);
                quarantine(fs, &self.path, &original)?;
                Ok(RepairOutcome::Quarantined(name_of(&original)))
            }
        }
    }
}

impl CheckedQueueFile {
    /// Decides what the damage of a file costs.
    fn evaluate_damage(&mut self, mut found: SegmentScan, lost_writes: bool) {
        let health = &mut self.health;
        health.records = found.summary.records;
        health.harmless.append(&mut found.harmless);
        if self.state == QueueFileState::Committed {
            health.harmless.append(&mut found.damage);
            self.survey = Some(found);
            return;
        }
        health.harmful.append(&mut found.damage);
        if found.seal.is_none() {
            let is_pending =
                self.state == QueueFileState::Pending && SegmentClass::of(self.id) != SegmentClass::Unsealed;
            if self.state.must_be_sealed(self.id, lost_writes) {
                let what = "the segment was closed and has no sound seal: records behind this may be missing";
                health.harmful.push(Damage { offset: found.end, what });
            } else if let SegmentTail::Damaged(damage) = &found.tail
                && !lost_writes
            {
                health.harmful.push(damage.clone());
            } else if is_pending || matches!(found.tail, SegmentTail::Damaged(_)) {
                let what = "the end is missing: a power cut took what was not synced";
                self.note = Some(Damage { offset: found.end, what });
            }
        }
        if !health.harmful.is_empty() {
            let missing = found.missing_records().filter(|missing| *missing > 0);
            health.loss = missing.map_or(RecordLoss::UNKNOWN, RecordLoss::exact);
        }
        self.survey = Some(found);
    }

    /// Writes the segment anew, in its own place.
    fn rewrite_in_place(&self, fs: &dyn Fs, survey: &SegmentScan) -> Result<RepairOutcome, ReadError> {
        if !self.health.is_intact() {
            self.write(fs, survey, self.id, &self.path)?;
        }
        if self.state == QueueFileState::Committed {
            return Ok(RepairOutcome::Repaired(name_of(&self.path)));
        }
        let target = self.path.with_extension("pending");
        if target != self.path {
            rename_durably(fs, &self.path, &target)?;
        }
        Ok(RepairOutcome::Repaired(name_of(&target)))
    }

    /// Saves the whole frames to a segment of its own, and then sets the file aside.
    fn salvage(&self, fs: &dyn Fs, survey: &SegmentScan) -> Result<RepairOutcome, ReadError> {
        let saved = saved_id(self.id);
        let target = self.path.with_file_name(format!("{saved}.pending"));
        let original = self.path.with_extension(SAVED_EXTENSION);
        self.write(fs, survey, saved, &target)?;
        quarantine(fs, &self.path, &original)?;
        Ok(RepairOutcome::Saved { name: name_of(&target), original: name_of(&original) })
    }

    fn write(&self, fs: &dyn Fs, found: &SegmentScan, id: Id, target: &Path) -> Result<(), ReadError> {
        let draft = self.path.with_file_name(format!("{id}.tmp"));
        let fill = |file: &Arc<dyn File>| rewrite(&self.file, &self.path, self.id, found, &**file, id);
        let is_same = |file| {
            let anew = scan_segment(&file, &draft, id)?;
            let is_sound = anew.seal.is_some() && anew.damage.is_empty() && anew.harmless.is_empty();
            Ok(is_sound && anew.summary == found.summary)
        };
        write_checked(fs, &draft, target, fill, is_same)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
