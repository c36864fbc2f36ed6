//! The state of all files, and reading. `scan.rs` finds the files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, Env, FileIdentity, Fs};

use crate::config::TailerConfig;
use crate::fingerprint::ANCHOR_BYTES_MAX;
use crate::gaps::{Gap, GapLog, GapReason, TailerCounters};
use crate::position::{FileKey, FilePosition};
use crate::tailed_file::{SizeAndTime, Stage, TailedFile};
use crate::turn::{ChunkSink, Turn, TurnContext, take_turn};

/// What [`Tailer::read`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadReport {
    /// The bytes that sinks consumed.
    pub consumed_bytes: u64,
    /// Whether a file has more bytes, so that reading again at once is worthwhile.
    pub has_more: bool,
    /// Whether a file was truncated or replaced. The next scan finds out what happened; it should come soon.
    pub is_scan_due: bool,
}

/// A file that matches a pattern and equals the beginning of one that is being followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldCopy {
    pub(crate) of: FileKey,
    pub(crate) state: SizeAndTime,
}

/// Follows files. The page of the crate says what is recognised as what.
///
/// [`Self::scan`] finds files, [`Self::read`] reads those that are active. Neither waits or starts a thread. A driver scans every few
/// seconds, reads active files several times a second, and watches the idle ones.
#[derive(Debug)]
pub struct Tailer {
    pub(crate) config: TailerConfig,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) files: BTreeMap<FileKey, TailedFile>,
    pub(crate) by_identity: HashMap<FileIdentity, FileKey>,
    /// The files that `read` reads.
    pub(crate) active: BTreeSet<FileKey>,
    /// Copies that are not read while their original is there.
    pub(crate) held: HashMap<FileIdentity, HeldCopy>,
    /// Compressed files that turned out not to be the rotated form of a file.
    pub(crate) rejected: BTreeSet<(FileKey, FileIdentity)>,
    /// Compressed files without a readable head, and their state.
    pub(crate) unreadable: HashMap<FileIdentity, SizeAndTime>,
    /// Paths whose directory has to be searched for files that were rotated unseen, and the earliest time of their changes.
    pub(crate) unsettled: BTreeMap<PathBuf, u64>,
    pub(crate) next_key: u64,
    /// The number of scans.
    pub(crate) scans: u64,
    pub(crate) is_first_start: bool,
    /// The directories of the newest scan.
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Files that became idle and were not taken yet.
    idled: Vec<FileKey>,
    pub(crate) gap_log: GapLog,
    /// Matches that are not read, with the reason, as of the newest scan.
    pub(crate) problems: BTreeMap<PathBuf, String>,
    pub(crate) changes: u64,
    /// When finished files without a match are looked for, as uptime.
    pub(crate) next_finished_check: Duration,
    pub(crate) pending_bytes: u64,
    buffer: Vec<u8>,
}

impl Tailer {
    /// A tailer that resumes at `positions`. At the first start ever, `is_first_start`, [`TailerConfig::read_from`] applies; the
    /// driver then persists [`Self::positions`] after the first scan.
    pub fn new(config: TailerConfig, env: &Env, positions: Vec<FilePosition>, is_first_start: bool) -> Self {
        let now = env.clock.uptime();
        // Above all numbers of earlier runs, also of files that are forgotten.
        let next_key = positions.iter().map(|position| position.key.0 + 1).max().unwrap_or(0);
        let next_key = next_key.max(env.clock.unix_ms().saturating_mul(1 << 16) & (u64::MAX >> 1));
        let mut by_identity = HashMap::new();
        let mut files = BTreeMap::new();
        let mut positions = positions;
        // Of two files with one number the newer one has it.
        positions.sort_by_key(|position| position.key);
        for position in positions {
            by_identity.insert(position.identity, position.key);
            files.insert(position.key, TailedFile::new(position, Stage::Lost, now));
        }
        Self {
            config,
            fs: Arc::clone(&env.fs),
            clock: Arc::clone(&env.clock),
            files,
            by_identity,
            active: BTreeSet::new(),
            held: HashMap::new(),
            rejected: BTreeSet::new(),
            unreadable: HashMap::new(),
            unsettled: BTreeMap::new(),
            next_key,
            scans: 0,
            is_first_start,
            directories: BTreeSet::new(),
            idled: Vec::new(),
            gap_log: GapLog::default(),
            problems: BTreeMap::new(),
            changes: 0,
            next_finished_check: now,
            pending_bytes: 0,
            buffer: Vec::new(),
        }
    }

    /// Reads one turn of every active file. The sink returns how many bytes of the chunk it has consumed and persisted; the
    /// position moves by them. Files whose predecessor is not read yet have no turn.
    ///
    /// # Errors
    /// That of the sink, at once. The chunk that it refused is delivered again.
    pub fn read(&mut self, sink: &mut ChunkSink<'_>) -> io::Result<ReadReport> {
        let mut report = ReadReport::default();
        let active: Vec<FileKey> = self.active.iter().copied().collect();
        for key in active {
            self.read_file_into(key, sink, &mut report)?;
        }
        Ok(report)
    }

    /// Reads one turn of a file, also if it is idle.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_file(&mut self, key: FileKey, sink: &mut ChunkSink<'_>) -> io::Result<ReadReport> {
        let mut report = ReadReport::default();
        self.wake(key);
        self.read_file_into(key, sink, &mut report)?;
        Ok(report)
    }

    fn read_file_into(&mut self, key: FileKey, sink: &mut ChunkSink<'_>, report: &mut ReadReport) -> io::Result<()> {
        if self.is_blocked(key) {
            return Ok(());
        }
        let Some(file) = self.files.get_mut(&key) else { return Ok(()) };
        let (offset_before, pending_before) = (file.position.offset, file.pending.len() as u64);
        let context = TurnContext {
            fs: &*self.fs,
            config: &self.config,
            now: self.clock.uptime(),
            may_retain: self.pending_bytes - pending_before < self.config.pending_bytes_total_max as u64,
        };
        let turn = take_turn(file, &context, &mut self.buffer, sink);
        report.consumed_bytes += file.position.offset - offset_before;
        self.pending_bytes = self.pending_bytes - pending_before + file.pending.len() as u64;
        // A line of a megabyte is rare; the memory that it took is not kept for ever.
        let kept = 2 * (ANCHOR_BYTES_MAX + self.config.read_bytes);
        if self.buffer.len() > kept {
            self.buffer = Vec::new();
        }
        match turn {
            Turn::More => report.has_more = true,
            Turn::CaughtUp => {}
            Turn::Idle => {
                self.active.remove(&key);
                self.idled.push(key);
            }
            Turn::Replaced => {
                self.replace(key);
                report.is_scan_due = true;
            }
            Turn::Misplaced => {
                self.lose(key);
                report.is_scan_due = true;
            }
            Turn::Rejected => {
                self.rejected.insert((key, self.identity_of(key)));
                self.lose(key);
                report.is_scan_due = true;
            }
            Turn::Short => {
                self.set_stage(key, Stage::Ending);
                report.has_more = true;
            }
            Turn::Ended => {
                self.finish(key);
                report.is_scan_due = true;
            }
            Turn::Damaged(reason) => {
                self.add_gap(key, reason);
                self.set_stage(key, Stage::Ending);
                report.has_more = true;
            }
            Turn::OpenFailed => {
                self.gap_log.counters.open_errors += 1;
                self.fail(key);
            }
            Turn::ReadFailed => {
                self.gap_log.counters.read_errors += 1;
                self.fail(key);
            }
            Turn::SinkFailed(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the text of another file comes first.
    fn is_blocked(&mut self, key: FileKey) -> bool {
        let mut next = self.files.get(&key).and_then(|file| file.predecessor);
        while let Some(predecessor) = next {
            let Some(file) = self.files.get(&predecessor) else { break };
            let is_read = match file.stage {
                // Its end was consumed.
                Stage::Finished => true,
                Stage::Lost => file.position.is_finished,
                Stage::Replaced | Stage::Rest | Stage::Ending => false,
                Stage::Following | Stage::Renamed | Stage::Deleted => file.read_end() >= file.successors_wait_for,
            };
            // A file that cannot be read does not stop others.
            if !is_read && !file.is_failing {
                return true;
            }
            next = file.predecessor;
        }
        if let Some(file) = self.files.get_mut(&key) {
            file.predecessor = None;
        }
        false
    }

    /// Makes a file active, as something was written to it. An incomplete line at its end is delivered once more when it has
    /// waited for long.
    pub fn wake(&mut self, key: FileKey) {
        if let Some(file) = self.files.get_mut(&key).filter(|file| file.stage != Stage::Finished) {
            file.is_flushed = false;
            self.active.insert(key);
        }
    }

    /// Delivers the rest of the last chunk of a file in the next turn, although nothing was written to the file.
    pub fn deliver_again(&mut self, key: FileKey) {
        self.wake(key);
        if let Some(file) = self.files.get_mut(&key) {
            file.seen = None;
        }
    }

    /// Stops reading a file until [`Self::deliver_again`], or until a scan finds that it has changed. For a sink that cannot take
    /// its text yet. Text that can be read again is not kept in memory meanwhile.
    pub fn pause(&mut self, key: FileKey) {
        self.active.remove(&key);
        if let Some(file) =
            self.files.get_mut(&key).filter(|file| file.unpacker.is_none() && file.stage != Stage::Ending)
        {
            self.pending_bytes -= file.pending.len() as u64;
            file.pending = Vec::new();
        }
    }

    /// The numbers of the files that [`Self::read`] reads.
    pub fn active_files(&self) -> impl Iterator<Item = FileKey> {
        self.active.iter().copied()
    }

    /// The files that became idle since the last call. The driver watches them for growth.
    pub fn take_idled(&mut self) -> Vec<FileKey> {
        std::mem::take(&mut self.idled)
    }

    /// The newest known name of an idle file; `None` if the file is active, deleted or not read any more. The next scan
    /// finds the growth of a deleted file.
    pub fn idle_path(&self, key: FileKey) -> Option<&Path> {
        let file = self.files.get(&key).filter(|_| !self.active.contains(&key))?;
        matches!(file.stage, Stage::Following | Stage::Renamed).then_some(&*file.current_path)
    }

    /// Makes an idle file active if it has changed since it was last read.
    pub fn check_growth(&mut self, key: FileKey) {
        let Some(file) = self.files.get(&key) else { return };
        let stat = file.handle.as_ref().map_or_else(|| self.fs.stat(&file.current_path), |handle| handle.stat());
        // Reading tells what is wrong.
        if stat.map_or(true, |stat| stat.size != file.read_end()) {
            self.wake(key);
        }
    }

    /// The files that are watched for growth.
    #[cfg(test)]
    pub(crate) fn idle_files(&self) -> impl Iterator<Item = FileKey> {
        let is_watched = |file: &&TailedFile| matches!(file.stage, Stage::Following | Stage::Renamed | Stage::Deleted);
        let idle = self.files.values().filter(|file| !self.active.contains(&file.position.key)).filter(is_watched);
        idle.map(|file| file.position.key)
    }

    /// Whether the next scan should come soon, because contents that were rotated away are looked for.
    pub fn is_searching(&self) -> bool {
        // A file whose directory is missing is looked for at the usual interval.
        let is_sought = |file: &TailedFile| file.missing_scans == 1 && !file.position.is_finished;
        self.files.values().any(|file| matches!(file.stage, Stage::Lost | Stage::Replaced) && is_sought(file))
    }

    /// The directories in which files may appear, as of the newest scan. An empty path is the current directory.
    pub fn directories(&self) -> &BTreeSet<PathBuf> {
        &self.directories
    }

    /// Whether no scan of the very first start was done yet.
    pub fn is_first_start(&self) -> bool {
        self.is_first_start
    }

    /// Whether this file is known.
    pub fn is_known(&self, key: FileKey) -> bool {
        self.files.contains_key(&key)
    }

    /// The positions of all known files, finished ones included: the whole state that a restart needs.
    pub fn positions(&self) -> impl Iterator<Item = &FilePosition> {
        self.files.values().map(|file| &file.position)
    }

    /// Grows with every change of [`Self::positions`] that the sink has not seen: files that appeared, moved, ended or were
    /// forgotten. The driver then persists all positions, sooner or later: without it files are looked for again.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Events since the start.
    pub fn counters(&self) -> &TailerCounters {
        &self.gap_log.counters
    }

    /// The newest gaps, at most 64, oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gap_log.newest()
    }

    /// Paths that are not read, with the reason, as of the newest scan.
    pub fn problems(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.problems.iter().map(|(path, reason)| (path.as_path(), reason.as_str()))
    }

    pub(crate) fn identity_of(&self, key: FileKey) -> FileIdentity {
        self.files.get(&key).map_or(FileIdentity { device: 0, inode: 0 }, |file| file.position.identity)
    }

    pub(crate) fn set_stage(&mut self, key: FileKey, stage: Stage) {
        if let Some(file) = self.files.get_mut(&key) {
            file.stage = stage;
            self.changes += 1;
        }
    }

    /// Frees the number of the file for another one. That may be there already, and was taken for this one.
    pub(crate) fn forget_identity(&mut self, key: FileKey) {
        let Some(file) = self.files.get(&key) else { return };
        let identity = file.position.identity;
        if self.by_identity.get(&identity) == Some(&key) {
            let (path, modified_ms) = (file.position.path.clone(), file.position.modified_ms);
            self.by_identity.remove(&identity);
            self.unsettle(path, modified_ms);
        }
    }

    /// Lets the next scan search for files that were rotated away from `path` unseen, and changed not before this time.
    pub(crate) fn unsettle(&mut self, path: PathBuf, modified_ms: u64) {
        let earliest = self.unsettled.entry(path).or_insert(modified_ms);
        *earliest = modified_ms.min(*earliest);
    }

    /// The contents of the file were replaced: it lives on in a copy, or not at all.
    pub(crate) fn replace(&mut self, key: FileKey) {
        self.gap_log.counters.truncations += 1;
        self.forget_identity(key);
        if let Some(file) = self.files.get_mut(&key) {
            file.stage = if file.position.is_finished { Stage::Lost } else { Stage::Replaced };
            file.handle = None;
            file.unpacker = None;
            file.missing_scans = 0;
        }
        self.active.remove(&key);
        self.changes += 1;
    }

    /// The file is not where it was.
    pub(crate) fn lose(&mut self, key: FileKey) {
        self.forget_identity(key);
        if let Some(file) = self.files.get_mut(&key) {
            file.stage = Stage::Lost;
            file.handle = None;
            file.unpacker = None;
            file.missing_scans = 0;
        }
        self.active.remove(&key);
        self.changes += 1;
    }

    /// The end of the file was consumed.
    fn finish(&mut self, key: FileKey) {
        let identity = self.identity_of(key);
        let is_named = self.by_identity.get(&identity) == Some(&key);
        let Some(file) = self.files.get_mut(&key) else { return };
        file.position.is_finished = true;
        let was = file.stage;
        file.handle = None;
        file.unpacker = None;
        file.is_closing = false;
        file.stage = Stage::Finished;
        self.active.remove(&key);
        self.changes += 1;
        match was {
            Stage::Ending if !is_named => self.remove(key),
            // A compressed form may have replaced it, which must not be read as a new file.
            Stage::Deleted => self.lose(key),
            _ => {}
        }
    }

    /// Forgets a file.
    pub(crate) fn remove(&mut self, key: FileKey) {
        self.forget_identity(key);
        if let Some(file) = self.files.remove(&key) {
            self.pending_bytes -= file.pending.len() as u64;
        }
        self.active.remove(&key);
        self.rejected.retain(|(other, _)| *other != key);
        self.changes += 1;
    }

    /// Drops what is open and in memory of a file.
    pub(crate) fn reset(&mut self, key: FileKey) {
        if let Some(file) = self.files.get_mut(&key) {
            self.pending_bytes -= file.pending.len() as u64;
            file.reset();
        }
    }

    /// The next scan tries the file again.
    fn fail(&mut self, key: FileKey) {
        if let Some(file) = self.files.get_mut(&key) {
            file.is_failing = true;
        }
        self.active.remove(&key);
    }

    /// Counts the rest of a file as a gap, unless an earlier run did so.
    pub(crate) fn add_gap(&mut self, key: FileKey, reason: GapReason) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let (path, bytes) = (file.position.path.clone(), file.missing_bytes());
        if std::mem::replace(&mut file.position.is_gap_counted, true) && bytes == 0 {
            return;
        }
        file.position.size = file.position.size.min(file.next_offset());
        self.gap_log.add(Gap { path, reason, bytes, unix_ms: self.clock.unix_ms() });
        self.changes += 1;
    }
}
