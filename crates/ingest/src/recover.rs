//! Opens the queue: the segments of the last run become pending.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Env, File, lock};
use bucksaw_record::Id;
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use bucksaw_segment::queue::{HEADER_LEN, SegmentScan, SegmentTail, read_header, scan_frames, scan_segment};
use bucksaw_segment::{Damage, OpenError, ReadError};
use tracing::{error, info, warn};

use crate::append::Durability;
use crate::boot;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::queue_file::{parse_name, seal_span, tail_damage};
use crate::segment::{QueueSegment, SegmentState, stream_bytes};

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that became pending.
    pub segments: usize,
    /// Their records.
    pub records: u64,
    /// Bytes of torn frames that were truncated.
    pub torn_bytes: u64,
    /// Damaged files.
    pub damaged: usize,
}

/// A file of the last run.
struct FoundFile<'a> {
    id: Id,
    path: &'a Path,
    extension: &'a str,
    file: Arc<dyn File>,
    may_have_lost_writes: bool,
}

impl FoundFile<'_> {
    fn is_committed(&self) -> bool {
        self.extension == "committed"
    }

    fn requires_seal(&self) -> bool {
        self.extension == "pending" && Durability::of_segment(self.id).requires_seal(self.may_have_lost_writes)
    }
}

impl Queue {
    /// Opens the queue in `dir`, which is created if it is missing. The caller holds the lock of the data directory.
    ///
    /// # Errors
    /// [`OpenError`]. Damage is no error: it is logged and counted, and files are quarantined.
    pub fn open(env: Env, dir: &Path, config: Config, metrics: Metrics) -> Result<(Self, Recovery), OpenError> {
        env.fs.create_dir_all(dir).map_err(OpenError::io(dir))?;
        let mut names = env.fs.list(dir).map_err(OpenError::io(dir))?;
        names.sort_unstable();
        remove_committed(&env, dir, &mut names, config.committed_segments_max);
        let may_have_lost_writes = boot::may_have_lost_writes(&env, dir);
        let queue = Self::empty(env, dir.to_owned(), config, metrics);
        queue.load_keys(&names, may_have_lost_writes);
        let mut recovery = Recovery::default();
        for name in names {
            // Files with other names do not belong to the queue.
            let Some((id, extension)) = parse_name(&name) else { continue };
            let path = &dir.join(&name);
            match extension {
                "active" | "pending" | "committed" => {
                    let file = queue.env.fs.open(path).map_err(OpenError::io(path))?;
                    queue.recover(FoundFile { id, path, extension, file, may_have_lost_writes }, &mut recovery)?;
                }
                DAMAGED_EXTENSION | SAVED_EXTENSION => queue.record_damaged_file(path),
                // The draft of an interrupted repair; its input still exists.
                "tmp" => drop(queue.env.fs.remove(path)),
                _ => {}
            }
        }
        queue.check_disk();
        queue.record_boot();
        Ok((queue, recovery))
    }

    fn recover(&self, of: FoundFile<'_>, recovery: &mut Recovery) -> Result<(), OpenError> {
        let path = of.path;
        let mut found = match scan_segment(&of.file, path, of.id) {
            Ok(found) => found,
            Err(newer @ ReadError::Version { .. }) => return Err(OpenError::NewerVersion(newer)),
            Err(error @ ReadError::MissingKey { .. }) if of.is_committed() => {
                warn!(%error, "ignored a queue segment whose records stores have");
                return Ok(());
            }
            Err(unreadable @ ReadError::MissingKey { .. }) => return Err(OpenError::MissingKey { unreadable }),
            Err(error) if of.is_committed() => {
                warn!(%error, "removed an unreadable queue segment whose records stores have");
                let _ = self.env.fs.remove(path);
                return Ok(());
            }
            Err(_) if !of.requires_seal() && of.file.size().unwrap_or(u64::MAX) < HEADER_LEN as u64 => {
                // The process ended while it created the file, so nothing was acknowledged from it.
                info!(path = %path.display(), "removed a queue segment without a header");
                let _ = self.env.fs.remove(path);
                return Ok(());
            }
            Err(error) => {
                error!(%error, "cannot read a queue segment: it is quarantined");
                recovery.damaged += 1;
                self.quarantine_file(path);
                return Ok(());
            }
        };
        for damage in &found.harmless {
            warn!(path = %path.display(), %damage, "a queue segment is damaged; no record is missing");
        }
        if of.is_committed() {
            // Stores have its records.
            found.damage.clear();
        } else if let Some(damage) = tail_damage(&found, of.requires_seal(), of.may_have_lost_writes) {
            found.damage.push(damage);
        } else if found.seal.is_none() {
            if !matches!(found.tail, SegmentTail::Clean) {
                recovery.torn_bytes += found.tail_bytes;
                info!(path = %path.display(), bytes = found.tail_bytes, "truncated a torn frame");
            }
            if of.extension == "pending" {
                warn!(path = %path.display(), "a queue segment lost its unsynced end in a power cut");
            }
        }
        log_damage(path, &found.damage);
        recovery.damaged += usize::from(!found.damage.is_empty());
        if found.summary.is_empty() && found.damage.is_empty() {
            let _ = self.env.fs.remove(path);
            return Ok(());
        }
        self.register(&of, found, recovery);
        Ok(())
    }

    fn register(&self, of: &FoundFile<'_>, found: SegmentScan, recovery: &mut Recovery) {
        let path = self.recovered_name(of, &found);
        let segment = QueueSegment::new(of.id, Arc::clone(&of.file), path, self.env.clock.uptime());
        {
            let mut contents = segment.contents();
            if of.is_committed() {
                contents.state = SegmentState::Committed;
                contents.committed_at = Some(self.env.clock.uptime());
            } else {
                contents.state = SegmentState::Pending;
                recovery.segments += 1;
                recovery.records += found.summary.records;
            }
            contents.stream_bytes = found.streams.iter().map(stream_bytes).sum();
            contents.streams = Arc::new(found.streams);
            if !found.damage.is_empty() || !found.harmless.is_empty() {
                contents.salvaged_frames = Some(Arc::new(found.positions));
            }
            contents.damage = found.damage;
            contents.reach = Arc::new(found.summary);
            contents.span = found.seal.as_ref().and_then(seal_span);
        }
        segment.set_end(found.end);
        lock(&self.segments).insert(of.id, Arc::new(segment));
    }

    /// Renames a recovered file whose name does not state whether it ends in its seal. Returns the path that it then
    /// has.
    fn recovered_name(&self, of: &FoundFile<'_>, found: &SegmentScan) -> PathBuf {
        // `pending` means that the file ends in its seal, so the seal of a `durable` segment is synced before the rename.
        let is_durable = Durability::of_segment(of.id) == Durability::Durable;
        let extension = match (of.extension, found.seal.is_some()) {
            ("active", true) if !is_durable || of.file.sync().is_ok() => "pending",
            ("pending", false) if found.damage.is_empty() => "active",
            _ => return of.path.to_owned(),
        };
        let renamed = of.path.with_extension(extension);
        if let Err(error) = self.env.fs.rename(of.path, &renamed) {
            warn!(path = %of.path.display(), %error, "cannot rename a queue segment");
            return of.path.to_owned();
        }
        if is_durable {
            self.sync_dir();
        }
        renamed
    }

    /// Scans a segment that could not be read for its intact frames. It is quarantined when these are committed.
    ///
    /// # Errors
    /// [`ReadError`] if nothing of it can be read.
    pub fn inspect(&self, id: Id) -> Result<(), ReadError> {
        let Some(segment) = self.segments_by_id(&[id]).pop() else { return Ok(()) };
        let (path, streams) = {
            let contents = segment.contents();
            (Arc::clone(&contents.file.path), contents.streams.to_vec())
        };
        let size = segment.file.size().map_err(|source| ReadError::Io { path: path.to_path_buf(), source })?;
        if size <= HEADER_LEN as u64 {
            error!(path = %path.display(), size, "a queue segment was truncated to nothing: it is quarantined");
            self.quarantine(&segment);
            return Ok(());
        }
        // The truncated part is lost; the rest is still fetched.
        let end = segment.end().min(size);
        segment.set_end(end);
        let found = scan_frames(&segment.file, &path, id, end, streams)?;
        let has_header = read_header(&*segment.file, &path).is_ok_and(|own| own.id == id);
        let mut contents = segment.contents();
        // After a failed sync the summary includes records beyond the end.
        let is_missing = !contents.has_failed_sync && found.summary.records < contents.reach.records;
        if contents.damage.is_empty() {
            if !is_missing {
                // At most the header and stream frames are damaged. A store that fetches the segment gets both rebuilt.
                if !found.damage.is_empty() || !has_header {
                    contents.salvaged_frames = Some(Arc::new(found.positions));
                }
                return Ok(());
            }
            contents.span = contents.span.or(Some((contents.reach.low.time(), contents.reach.high.time())));
        }
        if !found.damage.is_empty() {
            contents.damage = found.damage;
        }
        if contents.damage.is_empty() {
            contents.damage.push(Damage { offset: found.end, what: "the file ends before its last frame" });
        }
        log_damage(&path, &contents.damage);
        contents.salvaged_frames = Some(Arc::new(found.positions));
        Ok(())
    }
}

fn log_damage(path: &Path, damage: &[Damage]) {
    for damage in damage {
        error!(path = %path.display(), %damage, "a queue segment is damaged: its intact frames are kept, the file is quarantined");
    }
}

/// Removes the oldest committed segments beyond `segments_max`. Stores have their records.
fn remove_committed(env: &Env, dir: &Path, names: &mut Vec<String>, segments_max: usize) {
    let is_committed = |name: &String| name.ends_with(".committed");
    let mut excess = names.iter().filter(|name| is_committed(name)).count().saturating_sub(segments_max);
    if excess == 0 {
        return;
    }
    info!(segments = excess, "removed committed segments of the queue: stores have their records");
    names.retain(|name| {
        let is_excess = excess > 0 && is_committed(name);
        excess -= usize::from(is_excess);
        !is_excess || env.fs.remove(&dir.join(name)).is_err()
    });
}
