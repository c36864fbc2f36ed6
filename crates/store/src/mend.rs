//! Checking the files of the shelf while no node runs on them, and mending what can be mended.
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

use bucksaw_doors::Fs;
use bucksaw_record::Id;
use bucksaw_segment::ReadError;
use bucksaw_segment::health::{Aside, Checked, DAMAGED, Health, Mended, SAVED, put, rename, saved_id, set_aside};
use bucksaw_segment::shelf::Examined;

use crate::name;

/// A file of the shelf, or of its trash, that was checked.
#[derive(Debug)]
pub struct CheckedSegment {
    path: PathBuf,
    name: String,
    /// The id in the name; without one the file is left as it is.
    id: Option<Id>,
    place: Place,
    /// `None` of a file that is not looked into.
    examined: Option<Examined>,
    unread: Health,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Shelf,
    Trash,
    Aside(Aside),
}

/// Checks a file in the shelf's directory or in its trash. `None` when it is no segment.
///
/// # Errors
/// [`ReadError`] when it cannot be read at all.
pub fn check(fs: &dyn Fs, path: &Path) -> Result<Option<CheckedSegment>, ReadError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = |name| name::parse(name).map(|(_, _, id, extension)| (id, extension.to_owned()));
    // In the trash the time at which it went there stands in front.
    let trashed = || name.split_once('-').filter(|(ms, _)| ms.parse::<u64>().is_ok()).and_then(|(_, rest)| own(rest));
    let (id, place) = match (own(&name), trashed()) {
        (Some((id, extension)), _) if extension == "seg" => (Some(id), Place::Shelf),
        (Some((id, extension)), _) if extension == DAMAGED => (Some(id), Place::Aside(Aside::Damaged)),
        (Some((id, extension)), _) if extension == SAVED => (Some(id), Place::Aside(Aside::Saved)),
        (None, Some((id, extension))) if extension == "seg" => (Some(id), Place::Trash),
        // A node leaves files with other names alone; a person may want to know of them all the same.
        _ if name.ends_with(".seg") => (None, Place::Shelf),
        _ if name.ends_with(".damaged") => (None, Place::Aside(Aside::Damaged)),
        _ => return Ok(None),
    };
    let mut checked =
        CheckedSegment { path: path.to_owned(), name, id, place, examined: None, unread: Health::default() };
    if id.is_some() && place == Place::Aside(Aside::Saved) || id.is_none() && place != Place::Shelf {
        return Ok(Some(checked));
    }
    let file = fs.open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    checked.examined = Some(Examined::open(file, path, id)?);
    Ok(Some(checked))
}

impl Checked for CheckedSegment {
    fn health(&self) -> &Health {
        self.examined.as_ref().map_or(&self.unread, Examined::health)
    }

    fn set_aside(&self) -> Option<Aside> {
        match self.place {
            Place::Aside(aside) => Some(aside),
            Place::Shelf | Place::Trash => None,
        }
    }

    fn mend(&self, fs: &dyn Fs) -> Result<Mended, ReadError> {
        let (Some(id), Some(examined)) = (self.id, &self.examined) else { return Ok(Mended::Left) };
        let health = examined.health();
        match self.place {
            // A copy under another name than its own is not taken for the segment of that name.
            _ if examined.id() != id => Ok(Mended::Left),
            Place::Aside(Aside::Saved) => Ok(Mended::Left),
            Place::Shelf | Place::Trash if health.is_sound() => Ok(Mended::Left),
            _ if health.loss.is_none() => self.restore(fs, id, examined),
            // Past its retention, and gone before long.
            Place::Trash => Ok(Mended::Left),
            Place::Shelf | Place::Aside(Aside::Damaged) => self.save(fs, id, examined),
        }
    }
}

impl CheckedSegment {
    /// Writes the segment anew, in its own place.
    fn restore(&self, fs: &dyn Fs, id: Id, examined: &Examined) -> Result<Mended, ReadError> {
        if !examined.health().is_sound() {
            self.write(fs, examined, id, &self.path)?;
        }
        if self.set_aside().is_none() {
            return Ok(Mended::Whole(self.name.clone()));
        }
        let target = self.path.with_extension("seg");
        rename(fs, &self.path, &target)?;
        Ok(Mended::Whole(name_of(&target)))
    }

    /// Saves what can be read to a segment of its own, and then sets the file aside.
    fn save(&self, fs: &dyn Fs, id: Id, examined: &Examined) -> Result<Mended, ReadError> {
        if examined.reach().is_empty() {
            return match self.place {
                Place::Aside(_) => Ok(Mended::Left),
                Place::Shelf | Place::Trash => {
                    let original = self.path.with_extension(DAMAGED);
                    set_aside(fs, &self.path, &original)?;
                    Ok(Mended::Aside(name_of(&original)))
                }
            };
        }
        let (saved, reach) = (saved_id(id), examined.reach());
        let target = self.path.with_file_name(name::of(reach.low.at(), reach.high.at(), saved, "seg"));
        let original = self.path.with_extension(SAVED);
        self.write(fs, examined, saved, &target)?;
        set_aside(fs, &self.path, &original)?;
        Ok(Mended::Saved { name: name_of(&target), original: name_of(&original) })
    }

    fn write(&self, fs: &dyn Fs, examined: &Examined, id: Id, target: &Path) -> Result<(), ReadError> {
        // A name by which a node removes the draft at its start.
        let draft = match self.place {
            Place::Trash => self.path.with_extension("tmp"),
            Place::Shelf | Place::Aside(_) => self.path.with_file_name(format!("{id}.tmp")),
        };
        let fill = |file: &_| examined.write(std::sync::Arc::clone(file), &draft, id);
        let is_same = |file| {
            let anew = Examined::open(file, &draft, None)?;
            Ok(anew.id() == id && anew.health().is_sound() && anew.reach() == examined.reach())
        };
        put(fs, &draft, target, fill, is_same)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
