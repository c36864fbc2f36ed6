//! The key file: the remembered keys on disk, `queue/<id>.keys`, append-only.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     8  magic     "BSWKEYS1"
//!        8        entries   40 bytes each:
//!                   4  crc32c    over the 36 bytes that follow; seeded with the crc32c of the file's id
//!                   4  number    of the section within its batch
//!                   8  key       XXH3 of the key
//!                   8  base      Unix ms: the time of the batch
//!                   8  producer  of the section; the top bit is 1 if the batch ends with it
//!                   8  seen      Unix ms of the node's clock when the first section arrived
//! ```
//! The first entry of a run opens a new file, to which all remembered keys are written; then the earlier files are removed. The
//! same happens when most entries of a file are outdated, and after a failed sync, which may have lost entries that are still in
//! memory.
//!
//! Unreadable entries are skipped: their keys are forgotten. The log, a metric and `status` report them.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Env, File, Shortage, lock};
use bucksaw_record::{Id, Millis, Producer};
use tracing::warn;

use super::entry::{ENTRY_LEN, KeyEntry, MAGIC};
use super::scan::scan_key_file;
use super::table::KeyTable;
use crate::queue_file::parse_name;

/// Minimum number of entries at which a file is replaced; it may have twice as many as are remembered.
const ENTRIES_MIN: usize = 1 << 16;

/// Entries that are written at a time.
const ENTRIES_AT_ONCE: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct KeyLog {
    env: Env,
    dir: PathBuf,
    file: Option<KeyLogFile>,
    /// Files that are removed when the next one has all remembered keys.
    retired_files: Vec<PathBuf>,
    progress: Arc<KeyLogProgress>,
}

/// How many entries were written and synced. Readable without the lock of the log.
#[derive(Debug, Default)]
pub(super) struct KeyLogProgress {
    pub(super) written: AtomicU64,
    pub(super) synced: AtomicU64,
}

#[derive(Debug)]
struct KeyLogFile {
    file: Arc<dyn File>,
    path: PathBuf,
    id: Id,
    entries: usize,
    is_name_synced: bool,
}

/// A sync, which runs without the lock of the log.
#[derive(Debug)]
pub(super) struct KeyLogSync {
    env: Env,
    dir: PathBuf,
    /// The file, its id, and whether its name is synced; `None` if there is nothing to sync.
    file: Option<(Arc<dyn File>, Id, bool)>,
    written: u64,
}

impl KeyLog {
    pub(super) fn new(env: Env, dir: PathBuf, progress: Arc<KeyLogProgress>) -> Self {
        Self { env, dir, file: None, retired_files: Vec::new(), progress }
    }

    /// Reads the files of earlier runs. Called once, at the start. Returns the number of unreadable entries; an unreadable file
    /// counts as one.
    pub(super) fn read(
        &mut self,
        names: &[String],
        may_have_lost_writes: bool,
        each: &mut dyn FnMut(&KeyEntry),
    ) -> u64 {
        let mut damaged = 0;
        for name in names {
            let Some((id, "keys")) = parse_name(name) else { continue };
            let path = self.dir.join(name);
            match self.env.fs.open(&path).and_then(|file| scan_key_file(&*file, id, may_have_lost_writes, each)) {
                Ok(found) => {
                    if let Some(at) = found.damaged_at {
                        warn!(path = %path.display(), at, unreadable = found.damaged, "a key file is damaged: retries of the affected batches may be stored as new records");
                    }
                    damaged += found.damaged;
                    self.retired_files.push(path);
                    // It may not be synced.
                    self.progress.written.store(1, Ordering::Release);
                }
                Err(error) => {
                    damaged += 1;
                    // The file is kept: the next start may be able to read it.
                    warn!(path = %path.display(), %error, "cannot read a key file: retries of its batches may be stored as new records");
                }
            }
        }
        damaged
    }

    /// Writes one entry. Opens a new file first if needed, with all keys in `table`.
    pub(super) fn append(&mut self, entry: &KeyEntry, table: &Mutex<KeyTable>) -> io::Result<()> {
        let entries_max = ENTRIES_MIN.max(2 * lock(table).entries_len());
        if self.file.as_ref().is_some_and(|open| open.entries >= entries_max) {
            self.retire_file();
        }
        if self.file.is_none() {
            self.start_file(table)?;
        }
        let Some(open) = &mut self.file else { return Err(io::ErrorKind::Other.into()) };
        if let Err(error) = open.file.append(&[&entry.encode(open.id)]) {
            // The file may have a part of the entry, and the place on the disk may be defective.
            let end = (MAGIC.len() + open.entries * ENTRY_LEN) as u64;
            if open.file.truncate(end).is_err() || Shortage::from_error(&error).is_none() {
                self.retire_file();
            }
            return Err(error);
        }
        open.entries += 1;
        self.progress.written.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Begins a sync of all written entries.
    pub(super) fn begin_sync(&mut self, table: &Mutex<KeyTable>) -> io::Result<KeyLogSync> {
        let written = self.progress.written.load(Ordering::Acquire);
        let is_unsynced = |log: &Self| written > log.progress.synced.load(Ordering::Acquire);
        if self.file.is_none() && is_unsynced(self) {
            self.start_file(table)?;
        }
        let open = self.file.as_ref().filter(|_| is_unsynced(self));
        let file = open.map(|open| (Arc::clone(&open.file), open.id, open.is_name_synced));
        Ok(KeyLogSync { env: self.env.clone(), dir: self.dir.clone(), file, written })
    }

    pub(super) fn end_sync(&mut self, sync: &KeyLogSync, is_synced: bool) {
        let Some((_, id, _)) = &sync.file else { return };
        // If the file was retired meanwhile, all entries are or will be in another one.
        let Some(open) = self.file.as_mut().filter(|open| open.id == *id) else { return };
        if is_synced {
            open.is_name_synced = true;
            self.progress.synced.fetch_max(sync.written, Ordering::AcqRel);
        } else {
            self.retire_file();
        }
    }

    fn retire_file(&mut self) {
        self.retired_files.extend(self.file.take().map(|open| open.path));
    }

    /// Opens a file with all remembered keys, and removes the earlier ones. The lock of the log is held over this disk I/O: an
    /// entry that another thread wrote meanwhile would be in a retired file, which is removed, and not in the new one.
    fn start_file(&mut self, table: &Mutex<KeyTable>) -> io::Result<()> {
        let id = Id::new(Millis(self.env.clock.unix_ms()), Producer::random(self.env.entropy.next_u64()), 0);
        let path = self.dir.join(format!("{id}.keys"));
        let file = self.env.fs.create(&path)?;
        let mut open = KeyLogFile { file, path, id, entries: 0, is_name_synced: false };
        if let Err(error) = self.write_entries(&mut open, table) {
            let _ = self.env.fs.remove(&open.path);
            return Err(error);
        }
        if open.is_name_synced {
            // The entries of retired files are in this one.
            self.progress.synced.fetch_max(self.progress.written.load(Ordering::Acquire), Ordering::AcqRel);
        }
        self.file = Some(open);
        Ok(())
    }

    fn write_entries(&mut self, open: &mut KeyLogFile, table: &Mutex<KeyTable>) -> io::Result<()> {
        open.file.append(&[&MAGIC])?;
        let mut position = 0;
        loop {
            let entries = lock(table).next_entries(&mut position, ENTRIES_AT_ONCE);
            if entries.is_empty() {
                break;
            }
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode(open.id)).collect();
            open.file.append(&[&bytes])?;
            open.entries += entries.len();
        }
        if !self.retired_files.is_empty() {
            open.file.sync()?;
            self.env.fs.sync_dir(&self.dir)?;
            open.is_name_synced = true;
            for path in self.retired_files.drain(..) {
                if let Err(error) = self.env.fs.remove(&path) {
                    warn!(path = %path.display(), %error, "cannot remove an outdated key file");
                }
            }
        }
        Ok(())
    }
}

impl KeyLogSync {
    pub(super) fn run(&self) -> io::Result<()> {
        let Some((file, _, is_name_synced)) = &self.file else { return Ok(()) };
        file.sync()?;
        if *is_name_synced { Ok(()) } else { self.env.fs.sync_dir(&self.dir) }
    }
}
