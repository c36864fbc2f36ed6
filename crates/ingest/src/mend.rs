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

use bucksaw_doors::{Doors, File, Fs};
use bucksaw_record::Id;
use bucksaw_segment::health::{Aside, Checked, DAMAGED, Health, Loss, Mended, SAVED, put, rename, saved_id, set_aside};
use bucksaw_segment::queue::{HEADER_LEN, Survey, Tail, rewrite, survey};
use bucksaw_segment::{Damage, ReadError};

use crate::class::Class;
use crate::keys::KeyNotes;
use crate::{boot, keys};

/// A file of the queue that was checked.
#[derive(Debug)]
pub struct CheckedSegment {
    path: PathBuf,
    id: Id,
    state: FileState,
    file: Arc<dyn File>,
    /// `None` when nothing of it can be read.
    survey: Option<Survey>,
    health: Health,
    note: Option<Damage>,
}

/// What a file's name says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    Active,
    Pending,
    Committed,
    Damaged,
    Saved,
}

impl FileState {
    fn of(extension: &str) -> Option<Self> {
        match extension {
            "active" => Some(Self::Active),
            "pending" => Some(Self::Pending),
            "committed" => Some(Self::Committed),
            DAMAGED => Some(Self::Damaged),
            SAVED => Some(Self::Saved),
            _ => None,
        }
    }
}

/// Checks a file in the queue's directory. `None` when it is no segment. The end of a file that no sync covered is no damage
/// when the power may have been cut, as for a node that starts.
///
/// # Errors
/// [`ReadError`] when the operating system cannot read it, or when it is of a newer version.
pub fn check(doors: &Doors, path: &Path) -> Result<Option<CheckedSegment>, ReadError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let parsed = name.split_once('.').and_then(|(id, state)| Some((id.parse().ok()?, FileState::of(state)?)));
    let Some((id, state)) = parsed else { return Ok(None) };
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let file = doors.fs.open(path).map_err(io)?;
    let (health, note) = (Health::default(), None);
    let mut checked = CheckedSegment { path: path.to_owned(), id, state, file, survey: None, health, note };
    if state == FileState::Saved {
        return Ok(Some(checked));
    }
    let lost_writes = boot::may_have_lost_writes(doors, path.parent().unwrap_or(Path::new(".")));
    match survey(&checked.file, path, id) {
        Ok(found) => checked.judge(found, lost_writes),
        Err(ReadError::Damaged { damage, .. }) => {
            let size = checked.file.size().map_err(io)?;
            let must_be_sealed = state.must_be_sealed(id, lost_writes);
            match state {
                FileState::Committed => checked.health.harmless.push(damage),
                // It was being made when the process ended.
                _ if !must_be_sealed && size < HEADER_LEN as u64 => {}
                _ => {
                    checked.health.harmful.push(damage);
                    checked.health.loss = Loss::UNKNOWN;
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
pub fn check_keys(doors: &Doors, path: &Path) -> io::Result<Option<KeyNotes>> {
    keys::check(doors, path, boot::may_have_lost_writes(doors, path.parent().unwrap_or(Path::new("."))))
}

/// Whether a node understands these bytes of the file `boot`, or takes them for a file that a crash left unfinished.
#[must_use]
pub fn is_boot(bytes: &[u8]) -> bool {
    boot::is_sound(bytes)
}

impl FileState {
    /// Whether a file without a sound seal lacks something. One that was set aside lost its old name, and with it the answer.
    fn must_be_sealed(self, id: Id, lost_writes: bool) -> bool {
        match self {
            Self::Pending => Class::of(id).must_be_sealed(lost_writes),
            Self::Damaged => true,
            Self::Active | Self::Committed | Self::Saved => false,
        }
    }
}

impl Checked for CheckedSegment {
    fn health(&self) -> &Health {
        &self.health
    }

    fn set_aside(&self) -> Option<Aside> {
        match self.state {
            FileState::Damaged => Some(Aside::Damaged),
            FileState::Saved => Some(Aside::Saved),
            FileState::Active | FileState::Pending | FileState::Committed => None,
        }
    }

    fn note(&self) -> Option<&Damage> {
        self.note.as_ref()
    }

    fn mend(&self, fs: &dyn Fs) -> Result<Mended, ReadError> {
        match (self.state, &self.survey) {
            (FileState::Saved, _) => Ok(Mended::Left),
            (FileState::Active | FileState::Pending | FileState::Committed, _) if self.health.is_sound() => {
                Ok(Mended::Left)
            }
            (_, Some(survey)) if self.health.loss.is_none() => self.restore(fs, survey),
            (_, Some(survey)) if !survey.reach.is_empty() => self.save(fs, survey),
            // A node removes a committed segment that cannot be read.
            (FileState::Damaged | FileState::Committed, _) => Ok(Mended::Left),
            (FileState::Active | FileState::Pending, _) => {
                let original = self.path.with_extension(DAMAGED);
                set_aside(fs, &self.path, &original)?;
                Ok(Mended::Aside(name_of(&original)))
            }
        }
    }
}

impl CheckedSegment {
    /// Decides what the damage of a file costs.
    fn judge(&mut self, mut found: Survey, lost_writes: bool) {
        let health = &mut self.health;
        health.records = found.reach.records;
        health.harmless.append(&mut found.harmless);
        if self.state == FileState::Committed {
            health.harmless.append(&mut found.damage);
            self.survey = Some(found);
            return;
        }
        health.harmful.append(&mut found.damage);
        if found.seal.is_none() {
            let is_pending = self.state == FileState::Pending && Class::of(self.id) != Class::Unsealed;
            if self.state.must_be_sealed(self.id, lost_writes) {
                let what = "the segment was closed and has no sound seal: records behind this may be missing";
                health.harmful.push(Damage { offset: found.end, what });
            } else if let Tail::Broken(damage) = &found.tail
                && !lost_writes
            {
                health.harmful.push(damage.clone());
            } else if is_pending || matches!(found.tail, Tail::Broken(_)) {
                let what = "the end is missing: a power cut took what was not synced";
                self.note = Some(Damage { offset: found.end, what });
            }
        }
        if !health.harmful.is_empty() {
            let missing = found.missing_records().filter(|missing| *missing > 0);
            health.loss = missing.map_or(Loss::UNKNOWN, Loss::of);
        }
        self.survey = Some(found);
    }

    /// Writes the segment anew, in its own place.
    fn restore(&self, fs: &dyn Fs, survey: &Survey) -> Result<Mended, ReadError> {
        if !self.health.is_sound() {
            self.write(fs, survey, self.id, &self.path)?;
        }
        if self.state == FileState::Committed {
            return Ok(Mended::Whole(name_of(&self.path)));
        }
        let target = self.path.with_extension("pending");
        if target != self.path {
            rename(fs, &self.path, &target)?;
        }
        Ok(Mended::Whole(name_of(&target)))
    }

    /// Saves the whole frames to a segment of its own, and then sets the file aside.
    fn save(&self, fs: &dyn Fs, survey: &Survey) -> Result<Mended, ReadError> {
        let saved = saved_id(self.id);
        let target = self.path.with_file_name(format!("{saved}.pending"));
        let original = self.path.with_extension(SAVED);
        self.write(fs, survey, saved, &target)?;
        set_aside(fs, &self.path, &original)?;
        Ok(Mended::Saved { name: name_of(&target), original: name_of(&original) })
    }

    fn write(&self, fs: &dyn Fs, found: &Survey, id: Id, target: &Path) -> Result<(), ReadError> {
        let draft = self.path.with_file_name(format!("{id}.tmp"));
        let fill = |file: &Arc<dyn File>| rewrite(&self.file, &self.path, self.id, found, &**file, id);
        let is_same = |file| {
            let anew = survey(&file, &draft, id)?;
            let is_sound = anew.seal.is_some() && anew.damage.is_empty() && anew.harmless.is_empty();
            Ok(is_sound && anew.reach == found.reach)
        };
        put(fs, &draft, target, fill, is_same)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
