//! What is remembered of keys, on disk: `queue/<id>.keys`, appended to.
//!
//! ```text
//!   offset  size  field     meaning (little-endian)
//!        0     8  magic     "BSWKEYS1"
//!        8        entries   40 bytes each:
//!                   4  crc32c    over the 36 bytes that follow; seeded with the crc32c of the file's id
//!                   4  number    of the section within its batch
//!                   8  key       XXH3 of the key
//!                   8  base      Unix ms: the time of the batch
//!                   8  producer  of the section; the top bit is 1 when the batch ends with it
//!                   8  seen      Unix ms of the node's clock when it took the first section
//! ```
//! A run of the node begins a file of its own with its first note, and writes into it all that is remembered. Then the files
//! before it are removed. The same is done when most of a file is forgotten, and after a failed sync: what was written since
//! the last success may be lost, and is in memory.
//!
//! Entries that cannot be read are passed over: their keys are forgotten, which the log, a metric and `status` report.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Env, File, Shortage};
use bucksaw_record::{Id, Millis, Producer};
use tracing::warn;

use super::entry::{ENTRY_LEN, KeyEntry, MAGIC};
use super::scan::scan_key_file;
use super::table::KeyTable;
use crate::lock::lock;

/// The least number of entries at which a file is written anew; it may have twice as many as are remembered.
const ENTRIES_MIN: usize = 1 << 16;

/// Entries that are written at a time.
const ENTRIES_AT_ONCE: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct KeyLog {
    env: Env,
    dir: PathBuf,
    file: Option<KeyLogFile>,
    /// Files whose entries are to be written again, and then to be removed.
    retired_files: Vec<PathBuf>,
    progress: Arc<KeyLogProgress>,
}

/// How many entries were written and synced. Readable without waiting for the disk.
#[derive(Debug, Default)]
pub(super) struct KeyLogProgress {
    written: AtomicU64,
    synced: AtomicU64,
}

impl KeyLogProgress {
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    fn record_synced(&self, written: u64) {
        self.synced.fetch_max(written, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct KeyLogFile {
    file: Arc<dyn File>,
    path: PathBuf,
    id: Id,
    entries: usize,
    name_synced: bool,
}

/// A sync that is under way without the lock.
#[derive(Debug)]
pub(super) struct KeyLogSync {
    env: Env,
    dir: PathBuf,
    /// `None` when nothing has to be synced.
    of: Option<(Arc<dyn File>, Id, bool)>,
    written: u64,
}

impl KeyLog {
    pub(super) fn new(env: Env, dir: PathBuf, progress: Arc<KeyLogProgress>) -> Self {
        Self { env, dir, file: None, retired_files: Vec::new(), progress }
    }

    /// Reads what earlier runs wrote; to be called once, at the start. Gives how many notes cannot be read; a file of which
    /// nothing can be read counts as one.
    pub(super) fn read(
        &mut self,
        names: &[String],
        may_have_lost_writes: bool,
        each: &mut dyn FnMut(&KeyEntry),
    ) -> u64 {
        let mut damaged = 0;
        for name in names {
            let Some(id) = name.strip_suffix(".keys").and_then(|id| id.parse::<Id>().ok()) else { continue };
            let path = self.dir.join(name);
            let found = self.env.fs.open(&path).and_then(|file| scan_key_file(&*file, id, may_have_lost_writes, each));
            match found {
                Ok(found) => {
                    if let Some(at) = found.damaged_at {
                        warn!(path = %path.display(), at, unreadable = found.damaged, "a file of batch keys is damaged: a retry of a batch whose note cannot be read may be stored as new records");
                    }
                    damaged += found.damaged;
                    self.retired_files.push(path);
                    // It may not be synced.
                    self.progress.written.store(1, Ordering::Release);
                }
                Err(error) => {
                    damaged += 1;
                    // It stays: the next start may be able to read it.
                    warn!(path = %path.display(), %error, "batch keys cannot be read: a retry of such a batch may be stored as new records");
                }
            }
        }
        damaged
    }

    /// Writes one more entry, beside all that is remembered already.
    pub(super) fn append(&mut self, entry: &KeyEntry, known: &Mutex<KeyTable>) -> io::Result<()> {
        let entries_max = ENTRIES_MIN.max(2 * lock(known).entries_len());
        let is_long = |open: &KeyLogFile| open.entries >= entries_max;
        if self.file.as_ref().is_some_and(is_long) {
            self.retire_file();
        }
        if self.file.is_none() {
            self.start_file(known)?;
        }
        let Some(open) = &mut self.file else { return Err(io::ErrorKind::Other.into()) };
        if let Err(error) = open.file.append(&[&entry.encode(open.id)]) {
            // A part of it may be there, and entries have their places. The place on the disk may be what fails.
            if open.file.truncate(open.end()).is_err() || Shortage::from_error(&error).is_none() {
                self.retire_file();
            }
            return Err(error);
        }
        open.entries += 1;
        self.progress.written.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Begins a sync of all that was written.
    pub(super) fn begin_sync(&mut self, known: &Mutex<KeyTable>) -> io::Result<KeyLogSync> {
        let (env, dir, written) = (self.env.clone(), self.dir.clone(), self.progress.written());
        if self.file.is_none() && written > self.progress.synced() {
            self.start_file(known)?;
        }
        let of = self.file.as_ref().filter(|_| written > self.progress.synced());
        Ok(KeyLogSync { env, dir, of: of.map(|open| (Arc::clone(&open.file), open.id, open.name_synced)), written })
    }

    pub(super) fn end_sync(&mut self, sync: &KeyLogSync, is_synced: bool) {
        let Some((_, id, _)) = &sync.of else { return };
        // It may have been given up meanwhile: then all was written again, or will be.
        let Some(open) = self.file.as_mut().filter(|open| open.id == *id) else { return };
        if is_synced {
            open.name_synced = true;
            self.progress.record_synced(sync.written);
        } else {
            self.retire_file();
        }
    }

    fn retire_file(&mut self) {
        self.retired_files.extend(self.file.take().map(|open| open.path));
    }

    /// Begins a file with all that is remembered, in place of those before.
    fn start_file(&mut self, known: &Mutex<KeyTable>) -> io::Result<()> {
        let id = Id::new(Millis(self.env.clock.unix_ms()), Producer::random(self.env.entropy.next_u64()), 0);
        let path = self.dir.join(format!("{id}.keys"));
        let file = self.env.fs.create(&path)?;
        let mut open = KeyLogFile { file, path, id, entries: 0, name_synced: false };
        let written = self.write_entries(&mut open, known);
        if let Err(error) = written {
            let _ = self.env.fs.remove(&open.path);
            return Err(error);
        }
        if open.name_synced {
            // What was given up is here.
            self.progress.record_synced(self.progress.written());
        }
        self.file = Some(open);
        Ok(())
    }

    fn write_entries(&mut self, open: &mut KeyLogFile, known: &Mutex<KeyTable>) -> io::Result<()> {
        open.file.append(&[&MAGIC])?;
        let mut position = 0;
        loop {
            let entries = lock(known).next_entries(&mut position, ENTRIES_AT_ONCE);
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
            open.name_synced = true;
            for path in self.retired_files.drain(..) {
                if let Err(error) = self.env.fs.remove(&path) {
                    warn!(path = %path.display(), %error, "cannot remove a file of batch keys that is not needed any more");
                }
            }
        }
        Ok(())
    }
}

impl KeyLogFile {
    fn end(&self) -> u64 {
        (MAGIC.len() + self.entries * ENTRY_LEN) as u64
    }
}

impl KeyLogSync {
    pub(super) fn run(&self) -> io::Result<()> {
        let Some((file, _, name_synced)) = &self.of else { return Ok(()) };
        file.sync()?;
        if *name_synced { Ok(()) } else { self.env.fs.sync_dir(&self.dir) }
    }
}
