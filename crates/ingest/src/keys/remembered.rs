//! The keys of the last day, in memory and on disk.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, lock};

use super::entry::KeyEntry;
use super::log::{KeyLog, KeyLogProgress};
use super::table::{KeyTable, SectionStatus};
use crate::config::Config;

#[derive(Debug)]
pub(crate) struct IdempotencyKeys {
    /// Held while an entry is written to the key file, so only threads with new sections wait for the disk. Locked before `table`.
    pub(super) log: Mutex<KeyLog>,
    /// Never held over disk I/O. Entries are added only with `log` held; any thread may evict.
    pub(super) table: Mutex<KeyTable>,
    pub(super) progress: Arc<KeyLogProgress>,
    /// Entries that could not be read at the start.
    pub(super) damaged: AtomicU64,
    /// The uptime at the start.
    pub(super) opened_at: Duration,
}

/// Why a section gets no ids.
#[derive(Debug)]
pub(super) enum RememberError {
    Reused,
    Io(std::io::Error),
}

impl IdempotencyKeys {
    pub(crate) fn new(env: Env, dir: std::path::PathBuf, config: &Config) -> Self {
        let opened_at = env.clock.uptime();
        let progress = Arc::new(KeyLogProgress::default());
        let log = Mutex::new(KeyLog::new(env, dir, Arc::clone(&progress)));
        let table = Mutex::new(KeyTable::new(config.keys_max, config.key_sections_max));
        Self { log, table, progress, damaged: AtomicU64::new(0), opened_at }
    }

    /// Compares a section with the remembered ones, and remembers it if it is new. `entry_in` makes its entry, whose time
    /// depends on the table.
    ///
    /// Known sections do not wait for the disk. A new one is in the file before it is in the table, so that a restart does not
    /// forget it. Only the thread that has the log adds entries, so two first sections of one key get the same time.
    pub(super) fn remember(&self, entry_in: impl Fn(&mut KeyTable) -> KeyEntry) -> Result<KeyEntry, RememberError> {
        let classify = || {
            let mut table = lock(&self.table);
            let entry = entry_in(&mut table);
            match table.classify(&entry) {
                SectionStatus::Known | SectionStatus::Forgotten => Ok((entry, false)),
                SectionStatus::New => Ok((entry, true)),
                SectionStatus::Reused => Err(RememberError::Reused),
            }
        };
        if let (entry, false) = classify()? {
            return Ok(entry);
        }
        let mut log = lock(&self.log);
        let (entry, is_new) = classify()?;
        if !is_new {
            return Ok(entry);
        }
        log.append(&entry, &self.table).map_err(RememberError::Io)?;
        let mut table = lock(&self.table);
        // Its batch may have been evicted meanwhile.
        if table.classify(&entry) == SectionStatus::New {
            table.insert(&entry);
        }
        table.evict(entry.first_seen);
        Ok(entry)
    }

    /// Makes the written entries durable.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let sync = lock(&self.log).begin_sync(&self.table)?;
        let synced = sync.run();
        lock(&self.log).end_sync(&sync, synced.is_ok());
        synced
    }
}
