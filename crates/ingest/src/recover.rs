//! Opening the queue: what the last run left, whole or torn, becomes pending.

use std::path::Path;
use std::sync::Arc;

use bucksaw_doors::{Doors, File};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::queue::{Survey, read_header, survey};
use bucksaw_segment::{Damage, OpenError, ReadError};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::queue::{Queue, lock};
use crate::segment::{Segment, State};

/// What was found at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that became pending.
    pub segments: usize,
    /// Their records.
    pub records: u64,
    /// Bytes of frames that were being written at a crash.
    pub torn_bytes: u64,
    /// Files in which something was broken.
    pub damaged: usize,
}

impl Queue {
    /// Opens the queue in `dir`, which is made if it is missing. One process at a time; the caller holds the lock.
    ///
    /// # Errors
    /// [`OpenError`]. Damage is no error: it is logged, counted and set aside.
    pub fn open(doors: Doors, dir: &Path, config: Config, metrics: Metrics) -> Result<(Self, Recovery), OpenError> {
        doors.fs.create_dir_all(dir).map_err(OpenError::io(dir))?;
        let mut names = doors.fs.list(dir).map_err(OpenError::io(dir))?;
        names.sort_unstable();
        let queue = Self::empty(doors, dir.to_owned(), config, metrics);
        let mut recovery = Recovery::default();
        for name in names {
            // Files with other names were not made by us, and are left alone.
            let Some((id, state)) = name.split_once('.').and_then(|(id, state)| Some((id.parse::<Id>().ok()?, state)))
            else {
                continue;
            };
            match state {
                "active" | "pending" | "committed" => queue.recover(id, &dir.join(&name), state, &mut recovery)?,
                "damaged" => lock(&queue.damaged).push(name),
                _ => {}
            }
        }
        Ok((queue, recovery))
    }

    fn recover(&self, id: Id, path: &Path, state: &str, recovery: &mut Recovery) -> Result<(), OpenError> {
        let file = self.doors.fs.open(path).map_err(OpenError::io(path))?;
        let found = match read_header(&*file, path) {
            // The frames are sealed with the id in the header; a file under another's name is none of ours.
            Ok(own) if own != id => Err(ReadError::Damaged { path: path.to_owned(), damage: misnamed() }),
            _ => survey(&file, path),
        };
        let found = match found {
            Ok(found) => found,
            Err(newer @ ReadError::Version { .. }) => return Err(OpenError::Newer(newer)),
            Err(_) if file.size().unwrap_or(u64::MAX) < bucksaw_segment::queue::HEADER_LEN as u64 => {
                // The file was being made when the power went: nothing can have been written to it.
                info!(path = %path.display(), "removed a queue segment that was never begun");
                let _ = self.doors.fs.remove(path);
                return Ok(());
            }
            Err(error) if state == "committed" => {
                warn!(%error, "removed a queue segment that cannot be read, and whose records stores keep");
                let _ = self.doors.fs.remove(path);
                return Ok(());
            }
            Err(error) => {
                error!(%error, "cannot read a queue segment: it is set aside as damaged");
                recovery.damaged += 1;
                self.set_aside(path);
                return Ok(());
            }
        };
        recovery.torn_bytes += found.torn_bytes;
        if found.torn_bytes > 0 {
            info!(path = %path.display(), bytes = found.torn_bytes, "cut a frame that was being written");
        }
        for damage in &found.damage {
            error!(path = %path.display(), %damage, "a queue segment is damaged: its whole frames are kept, the file is set aside");
        }
        recovery.damaged += usize::from(!found.damage.is_empty());
        if found.reach.is_empty() && found.damage.is_empty() {
            let _ = self.doors.fs.remove(path);
            return Ok(());
        }
        self.adopt(id, file, path, state, found, recovery);
        Ok(())
    }

    fn adopt(&self, id: Id, file: Arc<dyn File>, path: &Path, state: &str, found: Survey, recovery: &mut Recovery) {
        let segment = Segment::new(id, file, path.to_owned(), self.doors.clock.uptime());
        for (producer, base) in self.keys_in(&segment, &found) {
            self.remember_key(producer, base);
        }
        {
            let mut contents = segment.contents();
            contents.state = if state == "committed" { State::Committed } else { State::Pending };
            contents.committed_at = (state == "committed").then(|| self.doors.clock.uptime());
            contents.streams = found.streams;
            if !found.damage.is_empty() {
                contents.places = Some(Arc::new(found.places));
            }
            contents.damage = found.damage;
            if state != "committed" {
                recovery.segments += 1;
                recovery.records += found.reach.records;
            }
            contents.reach = found.reach;
            if state == "active" {
                let path = contents.path.with_extension("pending");
                match self.doors.fs.rename(&contents.path, &path) {
                    Ok(()) => contents.path = path,
                    Err(error) => warn!(path = %contents.path.display(), %error, "cannot rename a queue segment"),
                }
            }
        }
        segment.set_end(found.end);
        lock(&self.segments).insert(id, Arc::new(segment));
    }

    /// Looks through a segment that could not be read frame by frame, so that its whole frames are found. It is set aside
    /// when they are committed.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read at all.
    pub fn inspect(&self, id: Id) -> Result<(), ReadError> {
        let Some(segment) = lock(&self.segments).get(&id).cloned() else { return Ok(()) };
        let path = segment.contents().path.clone();
        let found = survey(segment.file(), &path)?;
        let mut contents = segment.contents();
        if found.damage.is_empty() && found.end < segment.end() {
            contents.damage.push(Damage { offset: found.end, what: "the file ends before its last frame" });
        }
        contents.damage.extend(found.damage);
        for damage in &contents.damage {
            error!(path = %path.display(), %damage, "a queue segment is damaged: its whole frames are kept, the file is set aside");
        }
        contents.streams = found.streams;
        contents.places = Some(Arc::new(found.places));
        Ok(())
    }

    /// The keyed batches of a segment, with the time of the first try.
    fn keys_in(&self, segment: &Segment, found: &Survey) -> Vec<(bucksaw_record::Producer, Millis)> {
        if found.reach.keyed_producers().next().is_none() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        segment.set_end(found.end);
        let mut frames = segment.view().frames(0);
        for place in &found.places {
            frames.seek(place.at);
            if let Ok(Some(header)) = frames.next_header()
                && header.first.producer().is_keyed()
            {
                keys.push((header.first.producer(), header.first.at()));
            }
        }
        keys
    }

    fn set_aside(&self, path: &Path) {
        let aside = path.with_extension("damaged");
        if let Err(error) = self.doors.fs.rename(path, &aside) {
            warn!(path = %path.display(), %error, "cannot rename a damaged queue segment");
        }
        let name = aside.file_name().map(|name| name.to_string_lossy().into_owned());
        lock(&self.damaged).push(name.unwrap_or_default());
    }
}

fn misnamed() -> Damage {
    Damage { offset: 16, what: "the id in the header is not the one in the file's name" }
}
