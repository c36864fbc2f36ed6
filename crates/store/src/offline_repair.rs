//! Checking the files of the store while no node runs on them, and mending what can be mended.
//!
//! ```text
//!   X.seg, X.damaged   damage costs nothing   ──► X.seg, written anew, the same segment
//!                      some records are lost  ──► Y.seg with all others, then X.saved.damaged
//!                      nothing can be read    ──► X.damaged
//! ```
//! Y has an id of its own, and names neither sources nor a merge: a restart must not remove, because of Y, a queue segment
//! or an input of a merge that has what is lost in X. The records of Y that are in such files too are answered once.
//! X.saved.damaged is told of in answers and in `status` as any file that was set aside.

use std::path::{Path, PathBuf};

use bucksaw_env::Fs;
use bucksaw_record::Id;
use bucksaw_segment::ReadError;
use bucksaw_segment::health::{
    CheckedFile, DAMAGED_EXTENSION, Health, QuarantineKind, RepairOutcome, SAVED_EXTENSION, quarantine, rename_durably,
    saved_id, write_checked,
};
use bucksaw_segment::stored::VerifiedSegment;

use crate::name;

/// A file of the store, or of its trash, that was checked.
#[derive(Debug)]
pub struct CheckedStoreFile {
    path: PathBuf,
    name: String,
    /// The id in the name; without one the file is left as it is.
    id: Option<Id>,
    kind: StoreFileKind,
    /// `None` of a file that is not looked into.
    examined: Option<VerifiedSegment>,
    unexamined_health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreFileKind {
    Store,
    Trash,
    Quarantined(QuarantineKind),
}

/// Checks a file in the store's directory or in its trash. `None` when it is no segment.
///
/// # Errors
/// [`ReadError`] when it cannot be read at all.
pub fn check(fs: &dyn Fs, path: &Path) -> Result<Option<CheckedStoreFile>, ReadError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = |name| name::parse(name).map(|(_, _, id, extension)| (id, extension.to_owned()));
    // In the trash the time at which it went there stands in front.
    let trashed = || name.split_once('-').filter(|(ms, _)| ms.parse::<u64>().is_ok()).and_then(|(_, rest)| own(rest));
    let (id, kind) = match (own(&name), trashed()) {
        (Some((id, extension)), _) if extension == "seg" => (Some(id), StoreFileKind::Store),
        (Some((id, extension)), _) if extension == DAMAGED_EXTENSION => {
            (Some(id), StoreFileKind::Quarantined(QuarantineKind::Damaged))
        }
        (Some((id, extension)), _) if extension == SAVED_EXTENSION => {
            (Some(id), StoreFileKind::Quarantined(QuarantineKind::Saved))
        }
        (None, Some((id, extension))) if extension == "seg" => (Some(id), StoreFileKind::Trash),
        // A node leaves files with other names alone; a person may want to know of them all the same.
        _ if name.ends_with(".seg") => (None, StoreFileKind::Store),
        _ if name.ends_with(".damaged") => (None, StoreFileKind::Quarantined(QuarantineKind::Damaged)),
        _ => return Ok(None),
    };
    let mut checked = CheckedStoreFile {
        path: path.to_owned(),
        name,
        id,
        kind,
        examined: None,
        unexamined_health: Health::default(),
    };
    if id.is_some() && kind == StoreFileKind::Quarantined(QuarantineKind::Saved)
        || id.is_none() && kind != StoreFileKind::Store
    {
        return Ok(Some(checked));
    }
    let file = fs.open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    checked.examined = Some(VerifiedSegment::open(file, path, id)?);
    Ok(Some(checked))
}

impl CheckedFile for CheckedStoreFile {
    fn health(&self) -> &Health {
        self.examined.as_ref().map_or(&self.unexamined_health, VerifiedSegment::health)
    }

    fn quarantine_kind(&self) -> Option<QuarantineKind> {
        match self.kind {
            StoreFileKind::Quarantined(aside) => Some(aside),
            StoreFileKind::Store | StoreFileKind::Trash => None,
        }
    }

    fn repair(&self, fs: &dyn Fs) -> Result<RepairOutcome, ReadError> {
        let (Some(id), Some(examined)) = (self.id, &self.examined) else { return Ok(RepairOutcome::Unchanged) };
        let health = examined.health();
        match self.kind {
            // A copy under another name than its own is not taken for the segment of that name.
            _ if examined.id() != id => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Quarantined(QuarantineKind::Saved) => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Store | StoreFileKind::Trash if health.is_intact() => Ok(RepairOutcome::Unchanged),
            _ if health.loss.is_none() => self.rewrite_in_place(fs, id, examined),
            // Past its retention, and gone before long.
            StoreFileKind::Trash => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Store | StoreFileKind::Quarantined(QuarantineKind::Damaged) => {
                self.salvage(fs, id, examined)
            }
        }
    }
}

impl CheckedStoreFile {
    /// Writes the segment anew, in its own place.
    fn rewrite_in_place(&self, fs: &dyn Fs, id: Id, examined: &VerifiedSegment) -> Result<RepairOutcome, ReadError> {
        if !examined.health().is_intact() {
            self.write(fs, examined, id, &self.path)?;
        }
        if self.quarantine_kind().is_none() {
            return Ok(RepairOutcome::Repaired(self.name.clone()));
        }
        let target = self.path.with_extension("seg");
        rename_durably(fs, &self.path, &target)?;
        Ok(RepairOutcome::Repaired(name_of(&target)))
    }

    /// Saves what can be read to a segment of its own, and then sets the file aside.
    fn salvage(&self, fs: &dyn Fs, id: Id, examined: &VerifiedSegment) -> Result<RepairOutcome, ReadError> {
        if examined.summary().is_empty() {
            return match self.kind {
                StoreFileKind::Quarantined(_) => Ok(RepairOutcome::Unchanged),
                StoreFileKind::Store | StoreFileKind::Trash => {
                    let original = self.path.with_extension(DAMAGED_EXTENSION);
                    quarantine(fs, &self.path, &original)?;
                    Ok(RepairOutcome::Quarantined(name_of(&original)))
                }
            };
        }
        let (saved, reach) = (saved_id(id), examined.summary());
        let target = self.path.with_file_name(name::file_name(reach.low.time(), reach.high.time(), saved, "seg"));
        let original = self.path.with_extension(SAVED_EXTENSION);
        self.write(fs, examined, saved, &target)?;
        quarantine(fs, &self.path, &original)?;
        Ok(RepairOutcome::Saved { name: name_of(&target), original: name_of(&original) })
    }

    fn write(&self, fs: &dyn Fs, examined: &VerifiedSegment, id: Id, target: &Path) -> Result<(), ReadError> {
        // A name by which a node removes the draft at its start.
        let draft = match self.kind {
            StoreFileKind::Trash => self.path.with_extension("tmp"),
            StoreFileKind::Store | StoreFileKind::Quarantined(_) => self.path.with_file_name(format!("{id}.tmp")),
        };
        let fill = |file: &_| examined.write(std::sync::Arc::clone(file), &draft, id);
        let is_same = |file| {
            let anew = VerifiedSegment::open(file, &draft, None)?;
            Ok(anew.id() == id && anew.health().is_intact() && anew.summary() == examined.summary())
        };
        write_checked(fs, &draft, target, fill, is_same)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
