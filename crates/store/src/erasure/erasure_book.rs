//! The erasures of a node: durable, and in effect once added.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, KeyId, LogLimits, lock, log_limited};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::OpenError;
use prometheus_client::metrics::counter::Counter;
use tracing::{error, info, warn};

use super::definition::{ERASURES_MAX, Erasure, InvalidErasure};
use super::erasure_set::{ErasureSet, OpenErasure};
use super::file::{self, StoredErasure};
use super::progress::ErasureProgress;
use super::sweep_state::SweepState;

/// The erasures of a node.
#[derive(Debug)]
pub struct ErasureBook {
    env: Env,
    dir: PathBuf,
    /// Held while a file is written or removed, so that each has the last progress and the key that [`BookState`] states. Taken
    /// before `state`.
    writing: Mutex<()>,
    /// Not held over disk I/O.
    state: Mutex<BookState>,
    pub(super) sweep: Mutex<SweepState>,
    damaged: Vec<String>,
    log_limits: LogLimits,
    /// Copies of records that were left out of new files.
    erased_records: Counter,
}

#[derive(Debug, Default)]
struct BookState {
    set: ErasureSet,
    progress: BTreeMap<Id, ErasureProgress>,
    stored: BTreeMap<Id, StoredErasure>,
    last_number: u64,
    /// Erasures that were requested before are removed.
    removed_before: Millis,
}

/// Why an erasure is not in effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErasureError {
    /// It is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidErasure),
    /// There are too many.
    #[error(
        "there are {ERASURES_MAX} erasures already: they are removed once the retention of all records before them is over"
    )]
    TooMany,
    /// Its file cannot be written.
    #[error("cannot write the erasure: {0}")]
    Io(#[from] io::Error),
}

impl ErasureBook {
    /// Reads the erasures in a directory, which is created with the first one. A damaged file is logged.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file is of a newer version or under an unknown key.
    pub(crate) fn open(env: &Env, dir: &Path, erased_records: Counter) -> Result<Self, OpenError> {
        let found = file::read_all(env, dir)?;
        for name in &found.damaged {
            error!(
                file = name,
                "the file of an erasure is damaged: what it erases may be in answers until another node sends it again"
            );
        }
        let mut state = BookState::default();
        for (file, stored) in found.files {
            let id = file.erasure.id;
            state.insert(file.erasure, env.clock.uptime()).map_err(OpenError::io(dir))?;
            state.progress.insert(id, file.progress);
            state.stored.insert(id, stored);
        }
        if !state.set.is_empty() {
            info!(erasures = state.set.open.len(), "erasures are in effect");
        }
        Ok(Self {
            env: env.clone(),
            dir: dir.to_owned(),
            writing: Mutex::default(),
            state: Mutex::new(state),
            sweep: Mutex::default(),
            damaged: found.damaged,
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
            erased_records,
        })
    }

    /// The erasures in effect.
    pub fn set(&self) -> ErasureSet {
        lock(&self.state).set.clone()
    }

    /// All erasures, in the order of their ids.
    pub fn erasures(&self) -> Vec<Erasure> {
        let mut all: Vec<Erasure> = self.set().open.iter().map(|open| (*open.erasure).clone()).collect();
        all.sort_by_key(|erasure| erasure.id);
        all
    }

    /// Whether an erasure is so old that it was removed here.
    pub(crate) fn is_past(&self, id: Id) -> bool {
        id.time() < lock(&self.state).removed_before
    }

    /// Names of files that could not be read when the node started, without those of erasures that it knows by now.
    pub fn damaged_files(&self) -> Vec<String> {
        let state = lock(&self.state);
        let is_known = |name: &String| state.progress.keys().any(|id| file::name(*id) == *name);
        self.damaged.iter().filter(|name| !is_known(name)).cloned().collect()
    }

    /// When this process learned of each erasure, as its uptime.
    pub(crate) fn in_effect_since(&self) -> Vec<(Id, Duration)> {
        self.set().open.iter().map(|open| (open.erasure.id, open.since)).collect()
    }

    /// Makes an erasure durable and puts it into effect. Returns whether it is new; one that is known, or past all
    /// retention, changes nothing.
    ///
    /// # Errors
    /// [`ErasureError`]; then it is not in effect.
    pub fn add(&self, erasure: &Erasure) -> Result<bool, ErasureError> {
        erasure.check()?;
        let is_known =
            |state: &BookState| state.progress.contains_key(&erasure.id) || erasure.id.time() < state.removed_before;
        {
            let state = lock(&self.state);
            if is_known(&state) {
                return Ok(false);
            }
            if state.progress.len() >= ERASURES_MAX {
                return Err(ErasureError::TooMany);
            }
        }
        let writing = lock(&self.writing);
        // Another thread may have added it.
        if is_known(&lock(&self.state)) {
            return Ok(false);
        }
        self.env.fs.create_dir_all(&self.dir)?;
        let stored = file::write(&*self.env.fs, &self.dir, erasure, &ErasureProgress::default())?;
        let mut state = lock(&self.state);
        state.insert(erasure.clone(), self.env.clock.uptime()).map_err(io::Error::other)?;
        state.progress.insert(erasure.id, ErasureProgress::default());
        state.stored.insert(erasure.id, stored);
        drop((state, writing));
        info!(erasure = %erasure.id, "an erasure is in effect");
        Ok(true)
    }

    pub(crate) fn get(&self, id: Id) -> Option<(OpenErasure, ErasureProgress)> {
        let state = lock(&self.state);
        let open = state.set.open.iter().find(|open| open.erasure.id == id)?.clone();
        Some((open, state.progress.get(&id).cloned().unwrap_or_default()))
    }

    /// Adds to the progress of an erasure. A failed write of its file is logged: the counts after a restart are then too low.
    pub(crate) fn add_progress(&self, id: Id, change: impl FnOnce(&mut ErasureProgress)) {
        {
            let mut state = lock(&self.state);
            let Some(progress) = state.progress.get_mut(&id) else { return };
            change(progress);
        }
        if let Err(error) = self.write_file(id) {
            warn!(erasure = %id, %error, "cannot write the progress of an erasure");
        }
    }

    /// Writes the file of an erasure with its progress, under the key of new files. Does nothing for one that was removed.
    fn write_file(&self, id: Id) -> io::Result<()> {
        let _writing = lock(&self.writing);
        let Some((open, progress)) = self.get(id) else { return Ok(()) };
        let stored = file::write(&*self.env.fs, &self.dir, &open.erasure, &progress)?;
        lock(&self.state).stored.insert(id, stored);
        Ok(())
    }

    /// Rewrites the files that are not under the key of new files, or of which one copy is damaged. Returns whether there were
    /// some. One that cannot be written is tried again by the next call.
    pub(crate) fn rewrite_files(&self) -> bool {
        let writing_key = self.env.fs.keys().and_then(|keys| keys.writing_key());
        let is_due =
            |stored: &StoredErasure| !stored.is_current || (writing_key.is_some() && stored.key != writing_key);
        let due: Vec<Id> = {
            let state = lock(&self.state);
            state.stored.iter().filter(|(_, stored)| is_due(stored)).map(|(id, _)| *id).collect()
        };
        for id in &due {
            if let Err(error) = self.write_file(*id) {
                log_limited!(self.log_limits, warn, erasure = %id, %error, "cannot rewrite the file of an erasure; retrying");
                break;
            }
        }
        !due.is_empty()
    }

    /// The key of each file, and its bytes with the backup.
    pub(crate) fn key_usage(&self) -> Vec<(Option<KeyId>, u64)> {
        lock(&self.state).stored.values().map(|stored| (stored.key, stored.bytes)).collect()
    }

    /// Adds the records that a merge left out. `rewritten`: how many stored segments it replaced.
    pub(crate) fn add_counts(&self, counts: BTreeMap<Id, (u64, u64)>, rewritten: u64) {
        for (id, (records, bytes)) in counts {
            self.erased_records.inc_by(records);
            self.add_progress(id, |progress| {
                progress.segments += rewritten;
                progress.records += records;
                progress.bytes += bytes;
            });
        }
    }

    /// Removes the erasures that were requested, and whose time range ends, before `before`: all records of that time are past
    /// their retention.
    pub(crate) fn remove_before(&self, before: Millis) {
        let removed: Vec<Id> = {
            let mut state = lock(&self.state);
            state.removed_before = state.removed_before.max(before);
            let is_past = |open: &&OpenErasure| open.erasure.id.time() < before && open.erasure.to <= before;
            let removed: Vec<Id> = state.set.open.iter().filter(is_past).map(|open| open.erasure.id).collect();
            if removed.is_empty() {
                return;
            }
            let kept = state.set.open.iter().filter(|open| !removed.contains(&open.erasure.id)).cloned();
            state.set.open = Arc::new(kept.collect());
            state.progress.retain(|id, _| !removed.contains(id));
            state.stored.retain(|id, _| !removed.contains(id));
            removed
        };
        let _writing = lock(&self.writing);
        for id in removed {
            file::remove(&self.env, &self.dir, id);
            info!(erasure = %id, "an erasure was removed: all records before it are past their retention");
        }
    }
}

impl BookState {
    fn insert(&mut self, erasure: Erasure, since: Duration) -> io::Result<()> {
        let checked = erasure.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        self.last_number += 1;
        let open = OpenErasure {
            number: self.last_number,
            erasure: Arc::new(erasure),
            expr: Arc::new(checked.expr),
            scope: checked.scope,
            since,
        };
        // Queries in progress keep their list.
        let mut all = self.set.open.to_vec();
        all.push(open);
        self.set.open = Arc::new(all);
        Ok(())
    }
}
