//! Looks for the contents of files that are known by their position only, or whose contents were replaced: in the directory of
//! the file, first by number and then by contents.

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{EntryKind, File, FileStat};

use crate::content::{continues, has_bytes_before, head_of, open_regular};
use crate::fingerprint::{ANCHOR_BYTES_MAX, Anchor, FINGERPRINT_BYTES_MAX, Fingerprint};
use crate::gaps::Gap;
use crate::pattern::Directories;
use crate::position::{FileKey, FilePosition};
use crate::rotation_name::{Compression, family, rotation_of};
use crate::tailed_file::{Stage, TailedFile, size_and_time};
use crate::tailer::{HeldCopy, Tailer};
use crate::unpacker::{is_read_error, unpacked_head};

/// A file is given up when this many scans have not found it. One scan can miss a file that is being renamed.
const MISSING_SCANS_MAX: u32 = 2;

/// A file that may hold the contents.
struct SearchCandidate {
    path: PathBuf,
    stat: FileStat,
}

/// The name in the directory of a file under which its number is found.
pub(crate) fn find_entry(directories: &mut Directories<'_>, position: &FilePosition) -> Option<PathBuf> {
    let dir = position.path.parent()?;
    let entries = directories.entries(dir);
    let is_it = |kind, inode| kind == EntryKind::File && inode == position.identity.inode;
    let entry = entries.iter().find(|entry| is_it(entry.kind, entry.inode))?;
    Some(dir.join(&entry.name))
}

/// Looks for all lost and replaced files. Those that several scans have not found end here.
pub(crate) fn search(tailer: &mut Tailer, directories: &mut Directories<'_>) {
    if sought(tailer).is_empty() {
        return;
    }
    free_reused_numbers(tailer, directories);
    let mut unfound = Vec::new();
    for key in sought(tailer) {
        match search_by_number(tailer, key, directories) {
            Ok(true) => {}
            Ok(false) => unfound.push(key),
            Err(_) => tailer.gap_log.counters.read_errors += 1,
        }
    }
    // Numbers that were reused are free now.
    for key in unfound {
        match search_by_contents(tailer, key, directories) {
            Ok(true) => {}
            Ok(false) => give_up(tailer, key, directories),
            Err(_) => tailer.gap_log.counters.read_errors += 1,
        }
    }
}

/// The lost and replaced files that no pattern has led to in this scan.
fn sought(tailer: &Tailer) -> Vec<FileKey> {
    let is_sought = |file: &&TailedFile| match file.stage {
        Stage::Lost => {
            file.matched_in != tailer.scans
                || tailer.by_identity.get(&file.position.identity) != Some(&file.position.key)
        }
        stage => stage == Stage::Replaced,
    };
    tailer.files.values().filter(is_sought).map(|file| file.position.key).collect()
}

/// Loses the copies and compressed files that wait to be read and whose numbers other files have got since. A sought file may have
/// become such a one, and a file whose number is taken is not found by its contents.
fn free_reused_numbers(tailer: &mut Tailer, directories: &mut Directories<'_>) {
    let is_unread = |file: &&TailedFile| file.stage == Stage::Rest && file.handle.is_none() && file.unpacker.is_none();
    let unread: Vec<FileKey> = tailer.files.values().filter(is_unread).map(|file| file.position.key).collect();
    for key in unread {
        match has_other_contents(tailer, key, directories) {
            Ok(true) => tailer.lose(key),
            Ok(false) => {}
            Err(_) => tailer.gap_log.counters.read_errors += 1,
        }
    }
}

/// Whether the file with the number of this one begins with other text.
fn has_other_contents(tailer: &Tailer, key: FileKey, directories: &mut Directories<'_>) -> io::Result<bool> {
    let Some(file) = tailer.files.get(&key) else { return Ok(false) };
    let Some(path) = find_entry(directories, &file.position) else { return Ok(false) };
    let Some(stat) = directories.stat(&path) else { return Ok(false) };
    let candidate = SearchCandidate { path, stat };
    let Some((handle, _)) = open_candidate(tailer, &candidate)? else { return Ok(false) };
    match begins_like(handle, &candidate.path, &file.position) {
        Ok(is_same) => Ok(!is_same),
        Err(error) if is_read_error(&error) => Err(error),
        // What cannot be decompressed yet is not known.
        Err(_) => Ok(false),
    }
}

/// Whether a file, decompressed as its name says, has the text that was read.
fn begins_like(handle: Arc<dyn File>, path: &Path, position: &FilePosition) -> io::Result<bool> {
    match path.file_name().and_then(Compression::of) {
        Some(compression) => unpacked_head(handle, compression).map(|head| position.fingerprint.matches(&head)),
        None => continues(&*handle, position),
    }
}

/// Whether a lost file is in its directory under its number, with the same contents.
fn search_by_number(tailer: &mut Tailer, key: FileKey, directories: &mut Directories<'_>) -> io::Result<bool> {
    let Some(file) = tailer.files.get(&key).filter(|file| file.stage == Stage::Lost) else { return Ok(false) };
    let path = find_entry(directories, &file.position);
    if let Some(path) = path
        && let Some(stat) = directories.stat(&path)
        && !may_be_another(&file.position, &path, stat.size)
        && adopt(tailer, key, &SearchCandidate { path, stat }, false)?
    {
        return Ok(true);
    }
    tailer.forget_identity(key);
    Ok(false)
}

/// Whether a file with the number of a lost one may be another file: nothing was in the lost one, so that there is nothing to
/// compare, and this one has a name that rotation does not give it, or has text and another name or one that rotation gives. It may
/// be a copy of a known file, and is read from the start if it is not.
pub(crate) fn may_be_another(position: &FilePosition, path: &Path, size: u64) -> bool {
    let is_rotated = path.file_name().is_some_and(|name| family(name) != name);
    let is_elsewhere = !is_of_family(position, path) || path.parent() != position.path.parent();
    position.fingerprint.length() == 0 && (is_elsewhere || (size > 0 && (is_rotated || path != position.path)))
}

/// Whether the name of `path` is that of the file, apart from what rotation adds. Only such files are found by their contents.
pub(crate) fn is_of_family(position: &FilePosition, path: &Path) -> bool {
    path.file_name().map(family) == position.path.file_name().map(family)
}

/// Whether a file in its directory has the same contents.
fn search_by_contents(tailer: &mut Tailer, key: FileKey, directories: &mut Directories<'_>) -> io::Result<bool> {
    let mut candidates = candidates(tailer, key, directories);
    let was_empty = tailer.files.get(&key).filter(|file| file.was_empty());
    // Its compressed form has its time or a later one.
    let since_ms = was_empty.map_or(u64::MAX, |file| file.position.modified_ms);
    for candidate in candidates.iter().filter(|candidate| candidate.stat.modified_ms >= since_ms) {
        if is_compressed_empty(tailer, candidate)? {
            // Nothing is left to be read.
            tailer.remove(key);
            return Ok(true);
        }
    }
    for candidate in &candidates {
        if adopt(tailer, key, candidate, true)? {
            return Ok(true);
        }
    }
    // The copy of the last contents is the newest one.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.stat.modified_ms));
    for candidate in &candidates {
        if adopt_short(tailer, key, candidate)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a file is the compressed form of an empty one.
fn is_compressed_empty(tailer: &Tailer, candidate: &SearchCandidate) -> io::Result<bool> {
    let compression = candidate.path.file_name().and_then(Compression::of).filter(|_| candidate.stat.size > 0);
    let Some(compression) = compression else { return Ok(false) };
    let Some((handle, _)) = open_candidate(tailer, candidate)? else { return Ok(false) };
    match unpacked_head(handle, compression) {
        Ok(head) => Ok(head.is_empty()),
        Err(error) if is_read_error(&error) => Err(error),
        Err(_) => Ok(false),
    }
}

/// Files of the same family that are not known, the most likely ones first.
fn candidates(tailer: &Tailer, key: FileKey, directories: &mut Directories<'_>) -> Vec<SearchCandidate> {
    let Some(file) = tailer.files.get(&key) else { return Vec::new() };
    let position = &file.position;
    let (Some(dir), Some(name)) = (position.path.parent(), position.path.file_name()) else { return Vec::new() };
    let own_family = family(name);
    // A file with the same path and another number is a new one, unless it begins with much of what was read.
    let is_long =
        position.fingerprint.length() == FINGERPRINT_BYTES_MAX && position.anchor.as_bytes().len() == ANCHOR_BYTES_MAX;
    let may_be_itself = file.stage == Stage::Lost && is_long;
    let mut found = Vec::new();
    for entry in directories.entries(dir).iter() {
        if entry.kind != EntryKind::File || family(&entry.name) != own_family || (entry.name == name && !may_be_itself)
        {
            continue;
        }
        let path = dir.join(&entry.name);
        let Some(stat) = directories.stat(&path) else { continue };
        if !tailer.by_identity.contains_key(&stat.identity) && !tailer.rejected.contains(&(key, stat.identity)) {
            found.push(SearchCandidate { path, stat });
        }
    }
    // The contents were moved after the last change, and those of later files later.
    found.sort_by_key(|candidate| {
        let modified_ms = candidate.stat.modified_ms;
        (modified_ms < position.modified_ms, modified_ms, candidate.path.clone())
    });
    found
}

/// Goes on in another file if it begins with what was read.
///
/// # Errors
/// The file cannot be read, so that nothing is known of it.
fn adopt(tailer: &mut Tailer, key: FileKey, candidate: &SearchCandidate, is_copy: bool) -> io::Result<bool> {
    let Some(file) = tailer.files.get(&key) else { return Ok(false) };
    let position = &file.position;
    if is_copy && position.fingerprint.length() == 0 {
        return Ok(false);
    }
    let owner = tailer.by_identity.get(&candidate.stat.identity);
    if owner.is_some_and(|owner| *owner != key) {
        return Ok(false);
    }
    let compression = candidate.path.file_name().and_then(Compression::of);
    let Some((handle, stat)) = open_candidate(tailer, candidate)? else { return Ok(false) };
    match begins_like(Arc::clone(&handle), &candidate.path, position) {
        Err(error) if is_read_error(&error) => return Err(error),
        // A decoder finds no text.
        Ok(false) | Err(_) => return Ok(false),
        Ok(true) => {}
    }
    // The file may have grown after its end, and before it was compressed. How long the text is shows only when it is read.
    let was_read = !is_copy && position.is_compressed;
    let has_no_more = if compression.is_some() { was_read } else { stat.size == position.offset };
    let is_complete = position.is_finished && has_no_more;
    let stage = if is_complete {
        Stage::Finished
    } else if compression.is_some() {
        Stage::Rest
    } else if candidate.path == position.path {
        Stage::Following
    } else if is_copy {
        Stage::Rest
    } else {
        Stage::Renamed
    };
    if is_copy && compression.is_none() && stat.size < position.size {
        // What was added to the file after the copy was made, and before it was truncated.
        let (path, bytes) = (position.path.clone(), position.size - stat.size);
        let reason = file.gap_reason();
        tailer.gap_log.add(Gap { path, reason, bytes, unix_ms: tailer.clock.unix_ms() });
    }
    tailer.gap_log.counters.copies_continued += u64::from(is_copy);
    take_over(tailer, key, candidate, stage, (compression.is_none() && !is_complete).then_some(handle));
    Ok(true)
}

/// Opens a candidate, unless another file has its name now.
fn open_candidate(tailer: &Tailer, candidate: &SearchCandidate) -> io::Result<Option<(Arc<dyn File>, FileStat)>> {
    match open_regular(&*tailer.fs, &candidate.path) {
        Ok((handle, stat)) => Ok((stat.identity == candidate.stat.identity).then_some((handle, stat))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file lives on as `candidate`.
fn take_over(
    tailer: &mut Tailer,
    key: FileKey,
    candidate: &SearchCandidate,
    stage: Stage,
    handle: Option<Arc<dyn File>>,
) {
    tailer.forget_identity(key);
    if let Some(position) = tailer.files.get(&key).map(|file| &file.position).filter(|at| at.path != candidate.path) {
        // After this rotation there may have been another one.
        let (path, modified_ms) = (position.path.clone(), position.modified_ms);
        tailer.unsettle(path, modified_ms);
    }
    tailer.held.remove(&candidate.stat.identity);
    tailer.by_identity.insert(candidate.stat.identity, key);
    tailer.reset(key);
    let (now, scans) = (tailer.clock.uptime(), tailer.scans);
    let Some(file) = tailer.files.get_mut(&key) else { return };
    file.position.identity = candidate.stat.identity;
    file.position.is_compressed = candidate.path.file_name().and_then(Compression::of).is_some();
    file.position.is_gap_counted = false;
    file.current_path.clone_from(&candidate.path);
    if handle.is_some() {
        file.position.size = candidate.stat.size;
    }
    file.handle = handle;
    file.last_growth = now;
    if stage == Stage::Finished {
        file.seen = Some((candidate.stat.size, candidate.stat.modified_ms));
    } else {
        file.position.is_finished = false;
        file.successors_wait_for = candidate.stat.size;
        tailer.active.insert(key);
    }
    if stage == Stage::Following {
        file.matched_in = scans;
        file.is_at_path = true;
    }
    tailer.set_stage(key, stage);
}

/// Recognises a copy that ends before the position, because more was read after it was made. The file ends here, and the copy is
/// remembered as read.
fn adopt_short(tailer: &mut Tailer, key: FileKey, candidate: &SearchCandidate) -> io::Result<bool> {
    let Some(file) = tailer.files.get(&key).filter(|_| candidate.stat.size > 0) else { return Ok(false) };
    let Some((handle, stat)) = open_candidate(tailer, candidate)? else { return Ok(false) };
    // In another state the number may have been given to another file.
    let held = HeldCopy { of: key, state: size_and_time(&stat) };
    let is_held = tailer.held.get(&stat.identity).is_some_and(|found| *found == held);
    let compression = candidate.path.file_name().and_then(Compression::of);
    let (head, offset, is_short) = match compression {
        Some(compression) => match unpacked_head(handle.clone(), compression) {
            // A longer text is compared when it is read.
            Ok(head) if head.len() < FINGERPRINT_BYTES_MAX && !head.is_empty() => {
                let is_short = file.head.starts_with(&head);
                let length = head.len() as u64;
                (head, length, is_short)
            }
            Err(error) if is_read_error(&error) => return Err(error),
            _ => return Ok(false),
        },
        None if stat.size >= file.position.offset => return Ok(false),
        None => (head_of(&*handle)?, stat.size, is_short_copy(&*handle, stat.size, file)?),
    };
    // The original may have been filled again since it was compared with the copy.
    let is_copy = is_short || (is_held && may_begin_alike(&head, file));
    if !is_copy {
        return Ok(false);
    }
    let from = offset.saturating_sub(ANCHOR_BYTES_MAX as u64);
    let anchor = match compression {
        Some(_) => Anchor::of(&head),
        None => Anchor::of(&handle.read_bytes(from, (offset - from) as usize)?),
    };
    let copy = FilePosition {
        key: FileKey(tailer.next_key),
        path: file.position.path.clone(),
        identity: stat.identity,
        fingerprint: Fingerprint::of(&head),
        offset,
        anchor,
        size: stat.size,
        modified_ms: stat.modified_ms,
        is_finished: true,
        is_compressed: compression.is_some(),
        is_gap_counted: false,
    };
    let (is_finished, has_missing) = (file.position.is_finished, file.missing_bytes() > 0);
    if has_missing && !is_finished {
        tailer.add_gap(key, file.gap_reason());
    }
    let mut copy = TailedFile::new(copy, Stage::Finished, tailer.clock.uptime());
    copy.current_path.clone_from(&candidate.path);
    copy.seen = Some((stat.size, stat.modified_ms));
    tailer.next_key += 1;
    tailer.held.remove(&stat.identity);
    tailer.by_identity.insert(stat.identity, copy.position.key);
    tailer.files.insert(copy.position.key, copy);
    if is_finished {
        tailer.remove(key);
    } else {
        tailer.set_stage(key, Stage::Ending);
        tailer.active.insert(key);
    }
    Ok(true)
}

/// Whether a file that begins with `head` is the beginning of what was read, as far as the first bytes are known.
fn may_begin_alike(head: &[u8], file: &TailedFile) -> bool {
    let length = head.len().min(file.head.len());
    let is_covered = file.position.fingerprint.length() <= head.len();
    head.get(..length) == file.head.get(..length) && (!is_covered || file.position.fingerprint.matches(head))
}

/// Whether a file of `size` bytes is the beginning of what was read.
fn is_short_copy(copy: &dyn File, size: u64, file: &TailedFile) -> io::Result<bool> {
    let fingerprint = &file.position.fingerprint;
    if size <= file.head.len() as u64 {
        return Ok(file.head.starts_with(&head_of(copy)?));
    }
    if fingerprint.length() as u64 > size || !fingerprint.matches(&head_of(copy)?) {
        return Ok(false);
    }
    let earlier = file.history.iter().rev().find(|(offset, _)| *offset <= size);
    match earlier {
        Some((offset, anchor)) if *offset > 0 => has_bytes_before(copy, *offset, anchor.as_bytes()),
        // Nothing is left to compare, unless the fingerprint is.
        _ => Ok(fingerprint.length() == FINGERPRINT_BYTES_MAX),
    }
}

/// Counts a scan without success. At last the rest of the file is a gap.
fn give_up(tailer: &mut Tailer, key: FileKey, directories: &mut Directories<'_>) {
    let now = tailer.clock.uptime();
    let Some(path) = tailer.files.get(&key).map(|file| file.position.path.clone()) else { return };
    let dir = path.parent().unwrap_or(Path::new(""));
    let is_dir_missing = directories.entries(dir).is_empty() && directories.stat(dir).is_none();
    if directories.is_unknown(&path) {
        return;
    }
    let Some(file) = tailer.files.get_mut(&key) else { return };
    file.missing_scans = file.missing_scans.saturating_add(1);
    // A directory may be mounted late.
    let is_awaited = is_dir_missing && now.saturating_sub(file.last_growth) < tailer.config.close_deleted_after;
    if file.missing_scans < MISSING_SCANS_MAX || is_awaited {
        return;
    }
    let was_empty = file.was_empty();
    if file.position.is_finished || (was_empty && is_followed_by_rotated(tailer, key, &path)) {
        tailer.remove(key);
        return;
    }
    let Some(file) = tailer.files.get(&key) else { return };
    let reason = file.gap_reason();
    tailer.add_gap(key, reason);
    tailer.set_stage(key, Stage::Ending);
    tailer.active.insert(key);
}

/// Whether of the files that were found after this one of `path`, in this run or before, the first one, or the one that was changed
/// first, is a rotated file of that path. Then it is the one that was empty. Some programs that compress a file keep its time.
fn is_followed_by_rotated(tailer: &Tailer, key: FileKey, path: &Path) -> bool {
    let Some(file) = tailer.files.get(&key) else { return false };
    let is_of_path = |other: &&TailedFile| {
        let names = path.file_name().zip(other.position.path.file_name());
        let is_rotated = names.is_some_and(|(name, other)| rotation_of(name, other).is_some());
        let is_of_path = other.position.path == path || (is_rotated && other.position.path.parent() == path.parent());
        is_of_path && other.position.modified_ms >= file.position.modified_ms
    };
    // Keys grow in the order in which files are found.
    let later = tailer.files.range((Bound::Excluded(key), Bound::Unbounded)).map(|(_, file)| file).filter(is_of_path);
    let (first, first_changed) = (later.clone().next(), later.min_by_key(|other| other.position.modified_ms));
    [first, first_changed].into_iter().flatten().any(|next| next.current_path != path)
}
