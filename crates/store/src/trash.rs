//! The trash: expired segments until their removal.
//!
//! File names state when a segment was moved and its time range: `<when>-<span>-<id>.seg`. Answers do not contain its
//! records, and report how many there are in their time. A file that is moved back to the store's directory, with or without
//! the prefix of its name, is part of the store again after the next start.
//!
//! The oldest files are removed first: after the configured age, or earlier while the disk is nearly full. Freeing space
//! needs no space: a segment that cannot be moved because the disk is full is removed at once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Shortage, file_name, lock, log_limited, set_gauge, to_millis};
use bucksaw_record::Id;
use bucksaw_segment::stored::Reader;
use tracing::{debug, info, warn};

use crate::name;
use crate::segment_store::SegmentStore;
use crate::store::TrashedSegment;
use crate::stored_segment::StoredSegment;

impl SegmentStore {
    /// The segments in the trash, oldest first, as of the last run of retention.
    pub fn trashed(&self) -> Arc<Vec<TrashedSegment>> {
        Arc::clone(&lock(&self.trashed))
    }

    pub(crate) fn trash_dir(&self) -> PathBuf {
        self.dir.join("trash")
    }

    pub(crate) fn scan_trash(&self) {
        let known = self.trashed();
        let Ok(names) = self.env.fs.list(&self.trash_dir()) else { return };
        let mut all: Vec<TrashedSegment> = Vec::new();
        for name in names {
            // Other files are ignored.
            let Some((since, Some((low, high, _, _)))) =
                name::parse_trashed(&name).map(|(since, name)| (since, name::parse(name)))
            else {
                continue;
            };
            if let Some(known) = known.iter().find(|known| known.name == name) {
                all.push(known.clone());
                continue;
            }
            let path = self.trash_dir().join(&name);
            let file = self.env.fs.open(&path);
            let bytes = file.as_ref().ok().and_then(|file| file.size().ok()).unwrap_or_default();
            let reader = file.ok().and_then(|file| Reader::open(file, &path).ok());
            let records = reader.map(|reader| reader.footer().summary().records);
            all.push(TrashedSegment { name, since, low, high, records, bytes });
        }
        self.set_trashed(all);
    }

    fn set_trashed(&self, mut all: Vec<TrashedSegment>) {
        all.sort_by(|one, other| (one.since, &one.name).cmp(&(other.since, &other.name)));
        set_gauge(&self.metrics.trash_bytes, all.iter().map(|file| file.bytes).sum());
        set_gauge(&self.metrics.trash_segments, all.len() as u64);
        *lock(&self.trashed) = Arc::new(all);
    }

    /// Moves an expired segment to the trash, or removes it if the directory is full.
    pub(crate) fn expire_to_trash(&self, segment: &StoredSegment) -> io::Result<()> {
        let path = segment.reader().path();
        let old_name = file_name(path);
        let since = self.now();
        let name = format!("{since}-{old_name}");
        match self.rename_into_trash(path, &self.trash_dir().join(&name)) {
            Ok(()) => {
                let reach = segment.reach();
                let (low, high, bytes) = (reach.low.time(), reach.high.time(), segment.file_bytes());
                let mut all = self.trashed().to_vec();
                all.push(TrashedSegment { name, since, low, high, records: Some(reach.records), bytes });
                self.set_trashed(all);
                debug!(segment = old_name, "past its retention: moved to the trash");
                Ok(())
            }
            Err(error) if Shortage::is_disk_full(&error) => {
                self.env.fs.remove(path)?;
                info!(segment = old_name, "past its retention: removed at once, because the disk is full");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn rename_into_trash(&self, path: &Path, target: &Path) -> io::Result<()> {
        match self.env.fs.rename(path, target) {
            // The directory could not be created at the start, or was removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.env.fs.create_dir_all(&self.trash_dir())?;
                self.env.fs.rename(path, target)
            }
            result => result,
        }
    }

    /// Removes files that are old enough, and the oldest first while the disk is nearly full. `is_full`: writes fail, whatever
    /// the free space.
    pub(crate) fn empty_trash(&self, is_full: bool, is_trusted: bool) {
        self.scan_trash();
        let age = to_millis(self.config.trash_age);
        let over = self.config.retention_bytes.is_some_and(|limit| self.file_bytes() > limit);
        let (mut left, mut removed, mut bytes) = (Vec::new(), 0_u64, 0);
        for file in self.trashed().iter() {
            let is_old = is_trusted && self.now().0.saturating_sub(file.since.0) >= age;
            // If writes fail despite free space, one file is removed per run.
            let is_short = self.is_disk_nearly_full() || (is_full && removed == 0);
            if !is_old && !over && !is_short {
                left.push(file.clone());
                continue;
            }
            match self.env.fs.remove(&self.trash_dir().join(&file.name)) {
                Ok(()) => (removed, bytes) = (removed + 1, bytes + file.bytes),
                Err(error) => {
                    log_limited!(self.log_limits, warn, segment = file.name, %error, "cannot remove a segment from the trash");
                    left.push(file.clone());
                }
            }
        }
        self.set_trashed(left);
        if removed > 0 {
            log_limited!(self.log_limits, info, segments = removed, bytes, "removed segments from the trash");
        }
    }

    pub(crate) fn trash_leftover(&self, path: &Path, id: Id) {
        match self.rename_into_trash(path, &self.trash_dir().join(format!("{}-{}", self.now(), file_name(path)))) {
            Ok(()) => info!(segment = %id, "moved the leftover of a merge to the trash"),
            Err(error) => warn!(segment = %id, %error, "cannot move a segment to the trash"),
        }
    }
}
