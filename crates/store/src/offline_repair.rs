//! Offline check and repair of the store's files, while no node uses them.
//!
//! ```text
//!   X.seg, X.damaged   no record is lost      ──► X.seg, rewritten, the same segment
//!                      some records are lost  ──► Y.seg with the others, then X.saved.damaged
//!                      nothing can be read    ──► X.damaged
//! ```
//! Y has a new id, and neither sources nor merge info. Otherwise a restart could remove, because of Y, a queue segment or a
//! merge input that has the records lost in X. Answers drop duplicates of records that are in Y and in such files.
//! Answers and `status` report X.saved.damaged like any quarantined file.

use std::io;
use std::path::{Path, PathBuf};

use bucksaw_env::{Fs, file_name};
use bucksaw_record::Id;
use bucksaw_segment::ReadError;
use bucksaw_segment::health::{
    CheckedFile, DAMAGED_EXTENSION, Health, QuarantineKind, RepairOutcome, SAVED_EXTENSION, quarantine, rename_durably,
    saved_id, write_checked,
};
use bucksaw_segment::stored::VerifiedSegment;

use crate::{erasure, name};

/// What a check of the file of an erasure and its backup found.
#[derive(Debug)]
pub struct ErasureFileReport {
    /// The name of the file.
    pub name: String,
    /// `None` if it is intact; the damage of one copy, as a predicate to follow the name, if the other has the erasure; or why no
    /// copy can be read.
    pub outcome: Result<Option<&'static str>, ReadError>,
}

/// Checks the files of the erasures in a directory, which may be missing. Those that a node removes meanwhile are left out.
///
/// # Errors
/// If the directory cannot be listed.
pub fn check_erasures(fs: &dyn Fs, dir: &Path) -> io::Result<Vec<ErasureFileReport>> {
    let reports = erasure::file_ids(fs, dir)?.into_iter().map(|id| {
        let check = || erasure::check_file(fs, dir, id);
        // A node may replace both copies between the reading of one and of the other.
        let outcome = check().and_then(|damage| if damage.is_some() { check() } else { Ok(None) });
        ErasureFileReport { name: erasure::file_name(id), outcome }
    });
    let is_missing =
        |error: &ReadError| matches!(error, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
    Ok(reports.filter(|report| !report.outcome.as_ref().is_err_and(is_missing)).collect())
}

/// A checked file of the store or of its trash.
#[derive(Debug)]
pub struct CheckedStoreFile {
    path: PathBuf,
    name: String,
    /// The id in the name; a file without one is not repaired.
    id: Option<Id>,
    kind: StoreFileKind,
    /// `None` if the content is not checked.
    verified: Option<VerifiedSegment>,
    unverified_health: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreFileKind {
    Store,
    Trash,
    Quarantined(QuarantineKind),
}

/// Checks a file in the store's directory or in its trash. `None` if it is no segment.
///
/// # Errors
/// [`ReadError`] when it cannot be read at all.
pub fn check(fs: &dyn Fs, path: &Path) -> Result<Option<CheckedStoreFile>, ReadError> {
    let name = file_name(path);
    let own = |name| name::parse(name).map(|(_, _, id, extension)| (id, extension.to_owned()));
    // Names in the trash begin with the time of the move.
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
        // A node ignores files with other names, but the check reports them.
        _ if name.ends_with(".seg") => (None, StoreFileKind::Store),
        _ if name.ends_with(".damaged") => (None, StoreFileKind::Quarantined(QuarantineKind::Damaged)),
        _ => return Ok(None),
    };
    let mut checked = CheckedStoreFile {
        path: path.to_owned(),
        name,
        id,
        kind,
        verified: None,
        unverified_health: Health::default(),
    };
    if id.is_some() && kind == StoreFileKind::Quarantined(QuarantineKind::Saved)
        || id.is_none() && kind != StoreFileKind::Store
    {
        return Ok(Some(checked));
    }
    let file = fs.open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    checked.verified = Some(VerifiedSegment::open(file, path, id)?);
    Ok(Some(checked))
}

impl CheckedFile for CheckedStoreFile {
    fn health(&self) -> &Health {
        self.verified.as_ref().map_or(&self.unverified_health, VerifiedSegment::health)
    }

    fn quarantine_kind(&self) -> Option<QuarantineKind> {
        match self.kind {
            StoreFileKind::Quarantined(kind) => Some(kind),
            StoreFileKind::Store | StoreFileKind::Trash => None,
        }
    }

    fn repair(&self, fs: &dyn Fs) -> Result<RepairOutcome, ReadError> {
        let (Some(id), Some(verified)) = (self.id, &self.verified) else { return Ok(RepairOutcome::Unchanged) };
        let health = verified.health();
        match self.kind {
            // A copy under another name is not the segment of that name.
            _ if verified.id() != id => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Quarantined(QuarantineKind::Saved) => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Store | StoreFileKind::Trash if health.is_intact() => Ok(RepairOutcome::Unchanged),
            _ if health.loss.is_none() => self.rewrite_in_place(fs, id, verified),
            // It is past its retention and will be removed.
            StoreFileKind::Trash => Ok(RepairOutcome::Unchanged),
            StoreFileKind::Store | StoreFileKind::Quarantined(QuarantineKind::Damaged) => {
                self.salvage(fs, id, verified)
            }
        }
    }
}

impl CheckedStoreFile {
    /// Rewrites the segment under its own name.
    fn rewrite_in_place(&self, fs: &dyn Fs, id: Id, verified: &VerifiedSegment) -> Result<RepairOutcome, ReadError> {
        if !verified.health().is_intact() {
            self.write(fs, verified, id, &self.path)?;
        }
        if self.quarantine_kind().is_none() {
            return Ok(RepairOutcome::Repaired(self.name.clone()));
        }
        let target = self.path.with_extension("seg");
        rename_durably(fs, &self.path, &target)?;
        Ok(RepairOutcome::Repaired(file_name(&target)))
    }

    /// Saves the readable records in a new segment, and then quarantines the file.
    fn salvage(&self, fs: &dyn Fs, id: Id, verified: &VerifiedSegment) -> Result<RepairOutcome, ReadError> {
        if verified.summary().is_empty() {
            return match self.kind {
                StoreFileKind::Quarantined(_) => Ok(RepairOutcome::Unchanged),
                StoreFileKind::Store | StoreFileKind::Trash => {
                    let original = self.path.with_extension(DAMAGED_EXTENSION);
                    quarantine(fs, &self.path, &original)?;
                    Ok(RepairOutcome::Quarantined(file_name(&original)))
                }
            };
        }
        let (saved, reach) = (saved_id(id), verified.summary());
        let target = self.path.with_file_name(name::file_name(reach.low.time(), reach.high.time(), saved, "seg"));
        let original = self.path.with_extension(SAVED_EXTENSION);
        self.write(fs, verified, saved, &target)?;
        quarantine(fs, &self.path, &original)?;
        Ok(RepairOutcome::Saved { name: file_name(&target), original: file_name(&original) })
    }

    fn write(&self, fs: &dyn Fs, verified: &VerifiedSegment, id: Id, target: &Path) -> Result<(), ReadError> {
        // A node removes drafts with these names at its start.
        let draft = match self.kind {
            StoreFileKind::Trash => self.path.with_extension("tmp"),
            StoreFileKind::Store | StoreFileKind::Quarantined(_) => self.path.with_file_name(format!("{id}.tmp")),
        };
        let fill = |file: &_| verified.write(std::sync::Arc::clone(file), &draft, id);
        let is_same = |file| {
            let rewritten = VerifiedSegment::open(file, &draft, None)?;
            Ok(rewritten.id() == id && rewritten.health().is_intact() && rewritten.summary() == verified.summary())
        };
        write_checked(fs, &draft, target, fill, is_same)
    }
}
