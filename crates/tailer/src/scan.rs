//! Scans: what became of the known files, and which files are new.
//!
//! One scan runs these steps, each in a file of its own:
//! 1. Matches with a known number are recognised here, and files that lost their path are detached.
//! 2. `search.rs` looks for files that are known by their position only, or whose contents were replaced.
//! 3. `arrivals.rs` decides what the remaining matches are: copies, rotated files or new ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{EntryKind, FileStat};

use crate::arrivals::add_arrivals;
use crate::content::{continues, open_regular};
use crate::pattern::{Directories, find_matches};
use crate::position::FileKey;
use crate::rotation_name::{Compression, family, is_unsupported};
use crate::search::{find_entry, is_of_family, may_be_another, search};
use crate::tailed_file::{Stage, TailedFile, size_and_time};
use crate::tailer::Tailer;
use crate::unpacker::unpacked_head;

/// How often finished files without a match are looked for.
const FINISHED_CHECK_INTERVAL: Duration = Duration::from_secs(600);

impl Tailer {
    /// Matches the patterns, and finds new, rotated, replaced and vanished files. Calls `stat` once for each match, and lists
    /// only directories with wildcards or with a file that has changed its name.
    pub fn scan(&mut self) {
        self.scans += 1;
        let fs = Arc::clone(&self.fs);
        let mut directories = Directories::new(&*fs);
        let config = &self.config;
        let matches = find_matches(&mut directories, &config.patterns, &config.excluded, config.files_max);
        self.gap_log.counters.files_beyond_limit = matches.beyond_limit;
        self.directories = matches.directories;
        let earlier_problems = std::mem::take(&mut self.problems);
        let mut unknown = Vec::new();
        for (path, stat) in matches.found {
            let counters = &mut self.gap_log.counters;
            let skipped = if stat.kind == EntryKind::Directory {
                Some((&mut counters.skipped_not_regular, "it is a directory: append /* to follow the files in it"))
            } else if stat.kind != EntryKind::File {
                Some((&mut counters.skipped_not_regular, "it is no regular file"))
            } else if path.file_name().is_some_and(is_unsupported) {
                Some((&mut counters.skipped_unsupported, "its compression is not supported"))
            } else {
                None
            };
            if let Some((counter, reason)) = skipped {
                *counter += u64::from(!earlier_problems.contains_key(&path));
                self.problems.insert(path, reason.to_owned());
                continue;
            }
            match self.by_identity.get(&stat.identity).copied() {
                Some(key) if self.match_known(key, &path, &stat) => {}
                _ => unknown.push((path, stat)),
            }
        }
        let rotated = self.follow_names(&mut directories);
        let mut suspected = rotated.clone();
        suspected.extend(self.unsettled.keys().cloned());
        let is_sought = |stage| matches!(stage, Stage::Lost | Stage::Replaced);
        let sought = self.files.values().filter(|file| is_sought(file.stage));
        suspected.extend(sought.map(|file| file.position.path.clone()));
        self.check_finished(&mut directories, &suspected);
        search(self, &mut directories);
        add_arrivals(self, &mut directories, unknown, rotated);
        self.gap_log.counters.scan_errors += directories.failed().len() as u64;
        for (path, error) in directories.failed() {
            self.problems.insert(path.clone(), error.to_string());
        }
        self.is_first_start = false;
    }

    /// A pattern has led to a file with the number of a known one. Returns whether it is that one.
    fn match_known(&mut self, key: FileKey, path: &Path, stat: &FileStat) -> bool {
        let Some(file) = self.files.get_mut(&key) else { return false };
        let is_first = file.matched_in != self.scans;
        let is_at_path = path == file.position.path;
        if is_first || is_at_path {
            file.matched_in = self.scans;
            file.is_at_path = is_at_path;
            path.clone_into(&mut file.current_path);
        }
        if is_first && !recognise(self, key, stat) {
            return false;
        }
        // Not the time of later reads: a renamed file may still be written, and another one created and rotated meanwhile has
        // an earlier time than that.
        if is_at_path && let Some(file) = self.files.get_mut(&key).filter(|file| file.stage == Stage::Following) {
            file.position.modified_ms = stat.modified_ms;
        }
        true
    }

    /// Detaches files that lost their path, and ends those that were detached for long. Returns the paths that were lost.
    fn follow_names(&mut self, directories: &mut Directories<'_>) -> BTreeSet<PathBuf> {
        let now = self.clock.uptime();
        let mut rotated = BTreeSet::new();
        let keys: Vec<FileKey> = self.files.keys().copied().collect();
        for key in keys {
            let is_active = self.active.contains(&key);
            let Some(file) = self.files.get_mut(&key) else { continue };
            let is_matched = file.matched_in == self.scans;
            let quiet = now.saturating_sub(file.last_growth);
            match file.stage {
                Stage::Following if is_matched && file.is_at_path => {
                    if file.is_failing {
                        self.active.insert(key);
                    } else if !is_active && quiet >= self.config.close_idle_after {
                        file.handle = None;
                    }
                }
                Stage::Following if !is_matched && directories.is_unknown(&file.position.path) => {}
                Stage::Following => {
                    rotated.insert(file.position.path.clone());
                    self.detach(key, directories);
                }
                Stage::Renamed if is_matched && file.is_at_path => {
                    file.is_closing = false;
                    self.set_stage(key, Stage::Following);
                }
                Stage::Renamed | Stage::Deleted => {
                    let Some(Ok(stat)) = file.handle.as_ref().map(|handle| handle.stat()) else {
                        self.active.insert(key);
                        continue;
                    };
                    if stat.links == 0 {
                        file.stage = Stage::Deleted;
                    }
                    let limit = match file.stage {
                        Stage::Deleted => self.config.close_deleted_after,
                        _ => self.config.close_renamed_after,
                    };
                    if file.is_failing || file.seen != Some(size_and_time(&stat)) {
                        self.active.insert(key);
                    } else if !is_active && quiet >= limit {
                        file.is_closing = true;
                        self.active.insert(key);
                    }
                }
                Stage::Rest | Stage::Ending => {
                    self.active.insert(key);
                }
                Stage::Lost | Stage::Replaced | Stage::Finished => {}
            }
        }
        rotated
    }

    /// A file has lost its path.
    fn detach(&mut self, key: FileKey, directories: &mut Directories<'_>) {
        let now = self.clock.uptime();
        self.gap_log.counters.files_detached += 1;
        let is_matched = self.files.get(&key).is_some_and(|file| file.matched_in == self.scans);
        let Some(file) = self.files.get_mut(&key) else { return };
        let Some(handle) = &file.handle else {
            if is_matched {
                file.stage = Stage::Renamed;
                file.last_growth = now;
                self.active.insert(key);
            } else {
                self.lose(key);
            }
            return;
        };
        // A handle that cannot be inspected is read, which counts the error.
        let stat = handle.stat().ok();
        file.successors_wait_for = stat.map_or(0, |stat| stat.size);
        let is_deleted = stat.is_some_and(|stat| stat.links == 0);
        file.stage = if is_deleted { Stage::Deleted } else { Stage::Renamed };
        file.last_growth = now;
        if !is_deleted
            && !is_matched
            && let Some(path) = find_entry(directories, &file.position)
        {
            file.current_path = path;
        }
        self.active.insert(key);
        self.changes += 1;
    }

    /// The files whose numbers are found under names of rotated files of these paths.
    fn owners_of_rotated(&self, directories: &mut Directories<'_>, paths: &BTreeSet<PathBuf>) -> BTreeSet<FileKey> {
        let mut owners = BTreeSet::new();
        for path in paths {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let own_family = family(name);
            for entry in directories.entries(dir).iter() {
                if entry.kind == EntryKind::File
                    && family(&entry.name) == own_family
                    && let Some(stat) = directories.stat(&dir.join(&entry.name))
                {
                    owners.extend(self.by_identity.get(&stat.identity));
                }
            }
        }
        owners
    }

    /// Looks for finished files that no pattern matches any more: those of the suspected paths, and now and then all.
    /// Another file may have got the number of one.
    fn check_finished(&mut self, directories: &mut Directories<'_>, suspected: &BTreeSet<PathBuf>) {
        let now = self.clock.uptime();
        let is_due = now >= self.next_finished_check;
        if is_due {
            self.next_finished_check = now + FINISHED_CHECK_INTERVAL;
        }
        let number_owners = self.owners_of_rotated(directories, suspected);
        let scans = self.scans;
        let finished = self.files.values().filter(|file| file.stage == Stage::Finished && file.matched_in != scans);
        let is_wanted = |path: &PathBuf, matched_in: u64| is_due || matched_in + 1 == scans || suspected.contains(path);
        let checked: Vec<FileKey> = finished
            .filter(|file| {
                is_wanted(&file.position.path, file.matched_in) || number_owners.contains(&file.position.key)
            })
            .map(|file| file.position.key)
            .collect();
        for key in checked {
            let Some(file) = self.files.get(&key) else { continue };
            if directories.is_unknown(&file.position.path) {
                continue;
            }
            match find_entry(directories, &file.position) {
                Some(path) => {
                    let stat = directories.stat(&path);
                    let Some(file) = self.files.get_mut(&key) else { continue };
                    file.current_path = path;
                    if let Some(stat) = stat.filter(|stat| stat.identity == file.position.identity) {
                        // It may have grown after its end.
                        recognise(self, key, &stat);
                    }
                }
                None => self.lose(key),
            }
        }
    }
}

/// Whether the file of this number at its current path is the known one; otherwise its contents were replaced, or the number was
/// given to another file. Wakes the file if it has grown.
fn recognise(tailer: &mut Tailer, key: FileKey, stat: &FileStat) -> bool {
    let Some(file) = tailer.files.get_mut(&key) else { return false };
    let state = size_and_time(stat);
    if let Some(handle) = file.handle.clone() {
        if file.seen != Some(state) || file.is_failing {
            // Also if the file is not read for a while, because the sink does not take more or another file comes first.
            if file.compare(&*handle, stat.size).is_ok_and(|is_same| !is_same) {
                tailer.replace(key);
                return false;
            }
            tailer.active.insert(key);
        }
        return true;
    }
    let is_doubtful = match file.stage {
        Stage::Lost => true,
        // A rotation since the last scan is more likely than another file with its number.
        Stage::Following => !is_of_family(&file.position, &file.current_path),
        _ => false,
    };
    if is_doubtful && may_be_another(&file.position, &file.current_path, stat.size) {
        tailer.lose(key);
        return false;
    }
    let position = &file.position;
    let is_unchanged =
        has_kind_of_position(file) && file.seen.unwrap_or((position.size, position.modified_ms)) == state;
    let was_empty = position.fingerprint.length() == 0;
    if was_empty && position.is_finished && stat.size > 0 && !is_unchanged {
        // Nothing was read of it, and its number may have been given to any other file.
        tailer.remove(key);
        return false;
    }
    let has_changed = (position.size, position.modified_ms) != state;
    match file.stage {
        Stage::Finished if is_unchanged => return true,
        Stage::Lost if is_unchanged && position.is_finished => {
            file.seen = Some(state);
            file.stage = Stage::Finished;
            return true;
        }
        Stage::Following if file.seen == Some(state) && !file.is_failing => return true,
        Stage::Rest | Stage::Ending => return true,
        Stage::Lost if was_empty && has_changed => {
            // It may have been rotated, and its number given to the new file with its name.
            let (path, modified_ms) = (position.path.clone(), position.modified_ms);
            tailer.unsettle(path, modified_ms);
        }
        _ => {}
    }
    recognise_contents(tailer, key, stat)
}

/// Whether the file is compressed if the one of the position was. If not, another file has got the number: the compressed form of this
/// one, which may have grown before.
fn has_kind_of_position(file: &TailedFile) -> bool {
    file.position.is_compressed == file.current_path.file_name().and_then(Compression::of).is_some()
}

/// Whether the file at its current path has the contents of the known one: see [`recognise`].
fn recognise_contents(tailer: &mut Tailer, key: FileKey, stat: &FileStat) -> bool {
    let now = tailer.clock.uptime();
    let Some(file) = tailer.files.get_mut(&key) else { return false };
    let (is_of_kind, position) = (has_kind_of_position(file), &file.position);
    let compression = file.current_path.file_name().and_then(Compression::of);
    let (handle, opened) = match open_regular(&*tailer.fs, &file.current_path) {
        Ok(opened) => opened,
        Err(error) => {
            tailer.gap_log.counters.open_errors += 1;
            tailer.problems.insert(file.current_path.clone(), error.to_string());
            return true;
        }
    };
    // Renamed meanwhile; the next scan finds it.
    if opened.identity != stat.identity {
        return true;
    }
    let is_same = match compression {
        // The anchor is compared when the text is read up to it.
        Some(compression) => {
            unpacked_head(Arc::clone(&handle), compression).map(|head| position.fingerprint.matches(&head))
        }
        None => continues(&*handle, position).map(|is_same| is_same && opened.size >= position.size),
    };
    match is_same {
        Err(error) => {
            tailer.gap_log.counters.read_errors += 1;
            tailer.problems.insert(file.current_path.clone(), error.to_string());
            true
        }
        Ok(false) => {
            tailer.replace(key);
            false
        }
        Ok(true) => {
            let has_no_more = if compression.is_some() { is_of_kind } else { opened.size == position.offset };
            let is_complete = position.is_finished && has_no_more;
            if is_complete {
                file.seen = Some(size_and_time(&opened));
                file.stage = Stage::Finished;
                return true;
            }
            file.position.is_finished = false;
            file.position.is_compressed = compression.is_some();
            // What cannot be decompressed is not counted again.
            file.position.is_gap_counted &= compression.is_some();
            file.last_growth = now;
            file.is_closing = false;
            file.missing_scans = 0;
            file.successors_wait_for = opened.size;
            file.seen = None;
            let is_followed = file.matched_in == tailer.scans && file.is_at_path;
            file.stage = match compression {
                Some(_) => Stage::Rest,
                None if is_followed => Stage::Following,
                None => Stage::Renamed,
            };
            file.handle = compression.is_none().then_some(handle);
            tailer.active.insert(key);
            tailer.changes += 1;
            true
        }
    }
}
