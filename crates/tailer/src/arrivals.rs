//! Files with an unknown number: copies of known files, files that were rotated unseen, and new files.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{EntryKind, File, FileStat};

use crate::config::ReadFrom;
use crate::content::{continues, ends_alike, has_bytes_before, head_of, open_regular};
use crate::fingerprint::{Anchor, Fingerprint};
use crate::gaps::{Gap, GapReason};
use crate::pattern::Directories;
use crate::position::{FileKey, FilePosition};
use crate::rotation_name::{Compression, family, rotation_of};
use crate::tailed_file::{Stage, TailedFile, size_and_time};
use crate::tailer::{HeldCopy, Tailer};
use crate::unpacker::{is_read_error, unpacked_head};

/// The bytes in which the last line end is sought at once.
const LINE_SEARCH_BYTES: usize = 64 << 10;

/// A directory and a family of names in it.
type FamilyKey = (PathBuf, OsString);

fn family_of(path: &Path) -> FamilyKey {
    (path.parent().unwrap_or(Path::new("")).to_owned(), family(path.file_name().unwrap_or_default()))
}

/// The known files when the scan began, by what is asked of them.
struct KnownFiles {
    by_family: HashMap<FamilyKey, Vec<FileKey>>,
    /// The newest one with each path.
    by_path: HashMap<PathBuf, FileKey>,
}

impl KnownFiles {
    fn of(tailer: &Tailer) -> Self {
        let mut known = Self { by_family: HashMap::new(), by_path: HashMap::new() };
        for (key, file) in &tailer.files {
            known.by_family.entry(family_of(&file.position.path)).or_default().push(*key);
            known.by_path.insert(file.position.path.clone(), *key);
        }
        known
    }
}

/// A file that is read from its start.
struct Arrival {
    /// Where it is.
    path: PathBuf,
    /// The path that it is read under.
    base: PathBuf,
    stat: FileStat,
    head: Vec<u8>,
    /// Its handle, unless it is compressed.
    handle: Option<Arc<dyn File>>,
    is_damaged: bool,
}

/// Decides what the unknown matches are, and looks for files that were rotated away from `rotated` paths unseen.
pub(crate) fn add_arrivals(
    tailer: &mut Tailer,
    directories: &mut Directories<'_>,
    unknown: Vec<(PathBuf, FileStat)>,
    mut rotated: BTreeSet<PathBuf>,
) {
    let identities: HashSet<_> = unknown.iter().map(|(_, stat)| stat.identity).collect();
    tailer.held.retain(|identity, _| identities.contains(identity));
    tailer.unreadable.retain(|identity, _| identities.contains(identity));
    if unknown.is_empty() && rotated.is_empty() && tailer.unsettled.is_empty() {
        return;
    }
    let known = KnownFiles::of(tailer);
    let mut unsettled = std::mem::take(&mut tailer.unsettled);
    let mut arrivals = Vec::new();
    let mut examined = HashSet::new();
    for (path, stat) in unknown {
        // Two names of one file.
        if !examined.insert(stat.identity) || tailer.by_identity.contains_key(&stat.identity) {
            continue;
        }
        if known.by_path.contains_key(&path) {
            rotated.insert(path.clone());
        }
        arrivals.extend(examine(tailer, &known, path.clone(), path, stat));
    }
    for base in rotated {
        let modified_ms =
            known.by_path.get(&base).and_then(|key| tailer.files.get(key)).map(|file| file.position.modified_ms);
        if let Some(modified_ms) = modified_ms {
            let earliest = unsettled.entry(base).or_insert(modified_ms);
            *earliest = modified_ms.min(*earliest);
        }
    }
    for (base, modified_ms) in unsettled {
        arrivals.extend(rotated_unseen(tailer, &known, directories, &base, modified_ms, &mut examined));
        // While the path leads to no file, one may be created there and rotated before the next scan.
        let is_followed = |file: &TailedFile| file.stage == Stage::Following;
        let is_known =
            known.by_path.get(&base).and_then(|key| tailer.files.get(key)).is_some_and(|file| !is_followed(file));
        if is_known && arrivals.iter().all(|arrival: &Arrival| arrival.path != base) {
            tailer.unsettle(base, modified_ms);
        }
    }
    leave_copies(&mut arrivals);
    let bases: HashSet<PathBuf> = arrivals.iter().map(|arrival| arrival.base.clone()).collect();
    // Files of one group are read one after the other, in the order of their last changes; the current one last.
    let group = |arrival: &Arrival| {
        let (dir, name) = family_of(&arrival.base);
        let first = dir.join(name);
        if bases.contains(&first) || known.by_path.contains_key(&first) { first } else { arrival.base.clone() }
    };
    arrivals.sort_by_cached_key(|arrival| {
        let group = group(arrival);
        let number = rotation_number(&group, &arrival.path);
        (arrival.path == group, arrival.stat.modified_ms, std::cmp::Reverse(number), arrival.path.clone())
    });
    let is_empty = |file: &&TailedFile| file.stage == Stage::Lost && file.position.fingerprint.length() == 0;
    let lost_empty: HashMap<_, _> =
        tailer.files.values().filter(is_empty).map(|file| (file.position.identity, file.position.key)).collect();
    let mut newest: HashMap<PathBuf, FileKey> = HashMap::new();
    for arrival in arrivals {
        let (group, identity) = (group(&arrival), arrival.stat.identity);
        let current = known.by_path.get(&group).copied().filter(|key| !is_unread_at_path(tailer, *key));
        if let Some(key) = add(tailer, arrival, newest.get(&group).copied().or(current)) {
            newest.insert(group, key);
            // Nothing was read of the file with this number, and all of it is read now.
            if let Some(lost) = lost_empty.get(&identity) {
                tailer.remove(*lost);
            }
        }
    }
    for (group, newest) in newest {
        if let Some(current) = known.by_path.get(&group).copied().filter(|key| is_unread_at_path(tailer, *key))
            && let Some(file) = tailer.files.get_mut(&current)
        {
            file.predecessor.get_or_insert(newest);
        }
    }
}

/// Whether a file has its path, and nothing was read of it. What was rotated away from there comes before it.
fn is_unread_at_path(tailer: &Tailer, key: FileKey) -> bool {
    let file = tailer.files.get(&key);
    file.is_some_and(|file| file.stage == Stage::Following && file.is_at_path && file.position.offset == 0)
}

/// Leaves copies of other arrivals to the next scan, to which the originals are known.
fn leave_copies(arrivals: &mut Vec<Arrival>) {
    let mut by_family: HashMap<FamilyKey, Vec<usize>> = HashMap::new();
    for (at, arrival) in arrivals.iter().enumerate() {
        by_family.entry(family_of(&arrival.path)).or_default().push(at);
    }
    let mut copies = HashSet::new();
    for members in by_family.values().filter(|members| members.len() > 1) {
        let pairs = members.iter().flat_map(|one| members.iter().map(move |other| (*one, *other)));
        for (at, of) in pairs {
            if let (Some(copy), Some(original)) = (arrivals.get(at), arrivals.get(of))
                && is_copy_of_arrival(copy, original)
            {
                copies.insert(at);
            }
        }
    }
    let mut at = 0;
    arrivals.retain(|_| {
        at += 1;
        !copies.contains(&(at - 1))
    });
}

fn is_copy_of_arrival(copy: &Arrival, original: &Arrival) -> bool {
    let names = original.path.file_name().zip(copy.path.file_name());
    if copy.head.is_empty() || names.is_none_or(|(original, name)| rotation_of(original, name).is_none()) {
        return false;
    }
    let Some(handle) = &original.handle else { return false };
    let Some(copied) = &copy.handle else { return copy.head.starts_with(&original.head) && !original.head.is_empty() };
    let is_shorter = copy.stat.size <= original.stat.size && original.head.starts_with(&copy.head);
    // An error leaves it to the next scan too.
    is_shorter && ends_alike(&**copied, &**handle, copy.stat.size).unwrap_or(true)
}

fn rotation_number(original: &Path, path: &Path) -> Option<u64> {
    rotation_of(original.file_name()?, path.file_name()?)?.number
}

/// Files that were created at `base` and rotated since the last scan. They are not known, no copies, and not older than the file
/// that was there before.
fn rotated_unseen(
    tailer: &mut Tailer,
    known: &KnownFiles,
    directories: &mut Directories<'_>,
    base: &Path,
    modified_ms: u64,
    examined: &mut HashSet<bucksaw_env::FileIdentity>,
) -> Vec<Arrival> {
    let (Some(dir), Some(name)) = (base.parent(), base.file_name()) else { return Vec::new() };
    // How the file before was named, if it was found.
    let before = known.by_path.get(base).and_then(|key| tailer.files.get(key));
    let naming = before.and_then(|file| rotation_of(name, file.current_path.file_name()?));
    let mut found = Vec::new();
    for entry in directories.entries(dir).iter() {
        let Some(rotation) = rotation_of(name, &entry.name).filter(|_| entry.kind == EntryKind::File) else { continue };
        if naming.is_some_and(|naming| naming.is_inserted != rotation.is_inserted) {
            continue;
        }
        let path = dir.join(&entry.name);
        let Some(stat) = directories.stat(&path) else { continue };
        let has_lower_number = naming
            .and_then(|naming| naming.number)
            .is_some_and(|own| rotation.number.is_some_and(|number| number < own));
        let is_newer = stat.modified_ms >= modified_ms || has_lower_number;
        if !is_newer || tailer.by_identity.contains_key(&stat.identity) || !examined.insert(stat.identity) {
            continue;
        }
        match examine(tailer, known, path, base.to_owned(), stat) {
            Some(arrival) => found.push(arrival),
            None if tailer.held.contains_key(&stat.identity) => {}
            None => tailer.unsettle(base.to_owned(), modified_ms),
        }
    }
    found
}

/// Opens a file with an unknown number. Returns nothing if it is the copy of a known one, or cannot be read now.
fn examine(tailer: &mut Tailer, known: &KnownFiles, path: PathBuf, base: PathBuf, stat: FileStat) -> Option<Arrival> {
    let state = size_and_time(&stat);
    let is_there = |of: &FileKey| {
        let stage = tailer.files.get(of).map(|file| file.stage);
        stage.is_some_and(|stage| !matches!(stage, Stage::Lost | Stage::Replaced | Stage::Ending))
    };
    if tailer.held.get(&stat.identity).is_some_and(|held| held.state == state && is_there(&held.of)) {
        return None;
    }
    let compression = path.file_name().and_then(Compression::of);
    let (handle, opened) = match open_regular(&*tailer.fs, &path) {
        Ok(opened) => opened,
        Err(error) => {
            tailer.gap_log.counters.open_errors += 1;
            tailer.problems.insert(path, error.to_string());
            return None;
        }
    };
    // Renamed meanwhile; the next scan finds it.
    if opened.identity != stat.identity {
        return None;
    }
    let head = match compression {
        Some(compression) => unpacked_head(Arc::clone(&handle), compression),
        None => head_of(&*handle),
    };
    let arrival = |head, is_damaged| Arrival {
        path: path.clone(),
        base: base.clone(),
        stat: opened,
        head,
        handle: compression.is_none().then(|| Arc::clone(&handle)),
        is_damaged,
    };
    let head = match head {
        Ok(head) => head,
        Err(error) => {
            tailer.problems.insert(path.clone(), error.to_string());
            if is_read_error(&error) {
                tailer.gap_log.counters.read_errors += 1;
                return None;
            }
            // It may still be written.
            let is_damaged = tailer.unreadable.insert(stat.identity, state) == Some(state);
            return is_damaged.then(|| arrival(Vec::new(), true));
        }
    };
    let siblings = known.by_family.get(&family_of(&path)).map(Vec::as_slice).unwrap_or_default();
    for key in siblings {
        match is_copy_of(tailer, *key, &*handle, &head, &opened, &path) {
            Ok(true) => {
                tailer.held.insert(stat.identity, HeldCopy { of: *key, state });
                return None;
            }
            Ok(false) => {}
            Err(error) => {
                tailer.gap_log.counters.read_errors += 1;
                tailer.problems.insert(path, error.to_string());
                return None;
            }
        }
    }
    Some(arrival(head, false))
}

/// Whether a file is a copy of a known file that is still there.
fn is_copy_of(
    tailer: &mut Tailer,
    key: FileKey,
    copy: &dyn File,
    head: &[u8],
    stat: &FileStat,
    path: &Path,
) -> io::Result<bool> {
    let Some(file) = tailer.files.get(&key) else { return Ok(false) };
    let position = &file.position;
    if position.identity == stat.identity || matches!(file.stage, Stage::Lost | Stage::Replaced | Stage::Ending) {
        return Ok(false);
    }
    let is_named_after = |original: &Path| {
        let names = original.file_name().zip(path.file_name());
        names.is_some_and(|(original, name)| rotation_of(original, name).is_some())
    };
    // A copy begins empty.
    if head.is_empty() {
        return Ok(is_named_after(&position.path) || is_named_after(&file.current_path));
    }
    if path.file_name().and_then(Compression::of).is_some() {
        if tailer.rejected.contains(&(key, stat.identity)) {
            return Ok(false);
        }
        if position.fingerprint.length() > 0 {
            return Ok(position.fingerprint.matches(head));
        }
        // Nothing was read of the file yet.
        let Some(original) = original_of(tailer, file) else { return Ok(false) };
        let own_head = head_of(&*original)?;
        return Ok(!own_head.is_empty() && (head.starts_with(&own_head) || own_head.starts_with(head)));
    }
    if file.current_path.file_name().and_then(Compression::of).is_some() {
        return Ok(position.fingerprint.length() > 0 && continues(copy, position)?);
    }
    let Some(original) = original_of(tailer, file) else { return Ok(false) };
    let is_shorter = stat.size <= original.size()? && head_of(&*original)?.starts_with(head);
    if is_shorter && ends_alike(copy, &*original, stat.size)? {
        return Ok(true);
    }
    // The original may have been overwritten a moment ago, and this be its copy.
    let before = file.bytes_before();
    if continues(copy, position)? && !has_bytes_before(&*original, file.next_offset(), before.as_bytes())? {
        tailer.replace(key);
        return Ok(true);
    }
    Ok(false)
}

/// The file that a copy may be of, unless its path leads to another one.
fn original_of(tailer: &Tailer, file: &TailedFile) -> Option<Arc<dyn File>> {
    if let Some(handle) = &file.handle {
        return Some(Arc::clone(handle));
    }
    let (handle, found) = open_regular(&*tailer.fs, &file.current_path).ok()?;
    (found.identity == file.position.identity).then_some(handle)
}

/// Begins to read a file.
fn add(tailer: &mut Tailer, arrival: Arrival, predecessor: Option<FileKey>) -> Option<FileKey> {
    let now = tailer.clock.uptime();
    let key = FileKey(tailer.next_key);
    let is_match = arrival.path == arrival.base;
    let is_compressed = arrival.handle.is_none();
    // Nothing is to be read, and another file may get the number.
    let is_known_empty = arrival.head.is_empty() && arrival.stat.size > 0;
    let starts_at_end = tailer.is_first_start && tailer.config.read_from == ReadFrom::End && is_match;
    let (mut offset, mut anchor) = (0, Anchor::default());
    if starts_at_end && let Some(handle) = &arrival.handle {
        match end_of_lines(&**handle, arrival.stat.size) {
            Ok(end) => (offset, anchor) = end,
            Err(error) => {
                tailer.gap_log.counters.read_errors += 1;
                tailer.problems.insert(arrival.path, error.to_string());
                return None;
            }
        }
    }
    let position = FilePosition {
        key,
        path: arrival.base,
        identity: arrival.stat.identity,
        fingerprint: Fingerprint::of(&arrival.head),
        offset,
        anchor,
        size: if is_compressed { 0 } else { arrival.stat.size },
        modified_ms: arrival.stat.modified_ms,
        is_finished: arrival.is_damaged || (is_compressed && (starts_at_end || is_known_empty)),
        is_compressed,
        is_gap_counted: false,
    };
    if arrival.is_damaged {
        let (path, reason, unix_ms) = (arrival.path.clone(), GapReason::Damaged, tailer.clock.unix_ms());
        tailer.gap_log.add(Gap { path, reason, bytes: 0, unix_ms });
    }
    let stage = if position.is_finished {
        Stage::Finished
    } else if is_compressed {
        Stage::Rest
    } else if is_match {
        Stage::Following
    } else {
        Stage::Renamed
    };
    let mut file = TailedFile::new(position, stage, now);
    file.current_path = arrival.path;
    file.handle = arrival.handle;
    file.head = arrival.head;
    file.predecessor = predecessor;
    if stage == Stage::Finished {
        file.seen = Some(size_and_time(&arrival.stat));
    } else {
        tailer.active.insert(key);
    }
    if is_match {
        file.matched_in = tailer.scans;
        file.is_at_path = true;
    }
    tailer.next_key += 1;
    tailer.held.remove(&arrival.stat.identity);
    tailer.by_identity.insert(arrival.stat.identity, key);
    tailer.files.insert(key, file);
    tailer.gap_log.counters.files_found += 1;
    tailer.changes += 1;
    Some(key)
}

/// The offset after the last line end, and the bytes before it.
fn end_of_lines(file: &dyn File, size: u64) -> io::Result<(u64, Anchor)> {
    let mut end = size;
    while end > 0 {
        let start = end.saturating_sub(LINE_SEARCH_BYTES as u64);
        let bytes = file.read_bytes(start, (end - start) as usize)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    let from = end.saturating_sub(crate::fingerprint::ANCHOR_BYTES_MAX as u64);
    Ok((end, Anchor::of(&file.read_bytes(from, (end - from) as usize)?)))
}
