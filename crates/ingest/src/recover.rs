//! Opens the queue: the segments of the last run become pending.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{Env, File};
use bucksaw_record::Id;
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use bucksaw_segment::queue::{HEADER_LEN, SegmentScan, SegmentTail, read_header, scan_frames, scan_segment};
use bucksaw_segment::{Damage, OpenError, ReadError};
use tracing::{error, info, warn};

use crate::boot;
use crate::class::SegmentClass;
use crate::config::Config;
use crate::damaged_file::seal_span;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::segment::{QueueSegment, SegmentState};
use crate::stream_bytes::stream_bytes;

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

/// How the last run may have ended.
#[derive(Clone, Copy, Debug)]
struct PreviousRun {
    /// Whether unsynced writes may be missing.
    may_have_lost_writes: bool,
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
        let last = PreviousRun { may_have_lost_writes: boot::may_have_lost_writes(&env, dir) };
        let queue = Self::empty(env, dir.to_owned(), config, metrics);
        queue.load_keys(&names, last.may_have_lost_writes);
        let mut recovery = Recovery::default();
        for name in names {
            // Files with other names do not belong to the queue.
            let Some((id, state)) = name.split_once('.').and_then(|(id, state)| Some((id.parse::<Id>().ok()?, state)))
            else {
                continue;
            };
            match state {
                "active" | "pending" | "committed" => {
                    queue.recover(id, &dir.join(&name), state, last, &mut recovery)?;
                }
                DAMAGED_EXTENSION | SAVED_EXTENSION => queue.record_damaged_file(&dir.join(&name)),
                // The draft of an interrupted repair; its input still exists.
                "tmp" => drop(queue.env.fs.remove(&dir.join(&name))),
                _ => {}
            }
        }
        queue.check_disk();
        queue.record_boot();
        Ok((queue, recovery))
    }

    fn recover(
        &self,
        id: Id,
        path: &Path,
        state: &str,
        last: PreviousRun,
        recovery: &mut Recovery,
    ) -> Result<(), OpenError> {
        let file = self.env.fs.open(path).map_err(OpenError::io(path))?;
        let must_be_sealed = state == "pending" && SegmentClass::of(id).must_be_sealed(last.may_have_lost_writes);
        let mut found = match scan_segment(&file, path, id) {
            Ok(found) => found,
            Err(newer @ ReadError::Version { .. }) => return Err(OpenError::NewerVersion(newer)),
            Err(error) if state == "committed" => {
                warn!(%error, "removed an unreadable queue segment whose records stores have");
                let _ = self.env.fs.remove(path);
                return Ok(());
            }
            Err(_) if !must_be_sealed && file.size().unwrap_or(u64::MAX) < HEADER_LEN as u64 => {
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
        if state == "committed" {
            // Stores have its records.
            found.damage.clear();
        } else {
            self.evaluate_tail(id, path, last, &mut found, recovery);
        }
        for damage in &found.damage {
            error!(path = %path.display(), %damage, "a queue segment is damaged: its intact frames are kept, the file is quarantined");
        }
        recovery.damaged += usize::from(!found.damage.is_empty());
        if found.summary.is_empty() && found.damage.is_empty() {
            let _ = self.env.fs.remove(path);
            return Ok(());
        }
        self.register(id, file, path, state, found, recovery);
        Ok(())
    }

    /// Decides whether the end of a file without a seal is torn or damaged.
    fn evaluate_tail(&self, id: Id, path: &Path, last: PreviousRun, found: &mut SegmentScan, recovery: &mut Recovery) {
        if found.seal.is_some() {
            return;
        }
        let is_pending = path.extension().is_some_and(|state| state == "pending");
        if is_pending && SegmentClass::of(id).must_be_sealed(last.may_have_lost_writes) {
            let what = "the segment was closed and has no sound seal: records behind this may be missing";
            found.damage.push(Damage { offset: found.end, what });
            return;
        }
        match &found.tail {
            SegmentTail::Damaged(damage) if !last.may_have_lost_writes => found.damage.push(damage.clone()),
            SegmentTail::Clean => {}
            SegmentTail::Torn | SegmentTail::Damaged(_) => {
                recovery.torn_bytes += found.tail_bytes;
                info!(path = %path.display(), bytes = found.tail_bytes, "truncated a torn frame");
            }
        }
        if is_pending && SegmentClass::of(id) != SegmentClass::Unsealed {
            warn!(path = %path.display(), "a queue segment lost its unsynced end in a power cut");
        }
    }

    fn register(
        &self,
        id: Id,
        file: Arc<dyn File>,
        path: &Path,
        state: &str,
        found: SegmentScan,
        recovery: &mut Recovery,
    ) {
        let path = self.recovered_name(id, &file, path, state, &found);
        let segment = QueueSegment::new(id, file, path, self.env.clock.uptime());
        {
            let mut contents = segment.contents();
            contents.state = if state == "committed" { SegmentState::Committed } else { SegmentState::Pending };
            contents.committed_at = (state == "committed").then(|| self.env.clock.uptime());
            contents.stream_bytes = found.streams.iter().map(stream_bytes).sum();
            contents.streams = Arc::new(found.streams);
            if !found.damage.is_empty() || !found.harmless.is_empty() {
                contents.salvaged_frames = Some(Arc::new(found.positions));
            }
            contents.damage = found.damage;
            if state != "committed" {
                recovery.segments += 1;
                recovery.records += found.summary.records;
            }
            contents.reach = Arc::new(found.summary);
            contents.span = found.seal.as_ref().and_then(seal_span);
        }
        segment.set_end(found.end);
        lock(&self.segments).insert(id, Arc::new(segment));
    }

    /// Renames a recovered file whose name does not say whether it ends in its seal. Returns the path that it then has.
    fn recovered_name(
        &self,
        id: Id,
        file: &Arc<dyn File>,
        path: &Path,
        state: &str,
        found: &SegmentScan,
    ) -> std::path::PathBuf {
        // `pending` means that the file ends in its seal, so the seal of a `durable` segment is synced before the rename.
        let is_durable = SegmentClass::of(id) == SegmentClass::Durable;
        let extension = match (state, found.seal.is_some()) {
            ("active", true) if is_durable && file.sync().is_err() => None,
            ("active", true) => Some("pending"),
            ("pending", false) if found.damage.is_empty() && SegmentClass::of(id) != SegmentClass::Unsealed => {
                Some("active")
            }
            _ => None,
        };
        let Some(extension) = extension else { return path.to_owned() };
        let renamed = path.with_extension(extension);
        if let Err(error) = self.env.fs.rename(path, &renamed) {
            warn!(path = %path.display(), %error, "cannot rename a queue segment");
            return path.to_owned();
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
        let Some(segment) = lock(&self.segments).get(&id).cloned() else { return Ok(()) };
        let (path, streams) = {
            let contents = segment.contents();
            (Arc::clone(&contents.file.path), contents.streams.to_vec())
        };
        let size = segment.file().size().map_err(|source| ReadError::Io { path: path.to_path_buf(), source })?;
        if size <= HEADER_LEN as u64 {
            error!(path = %path.display(), size, "a queue segment was truncated to nothing: it is quarantined");
            self.quarantine(&segment);
            return Ok(());
        }
        // The truncated part is lost; the rest is still fetched.
        let end = segment.end().min(size);
        segment.set_end(end);
        let found = scan_frames(segment.file(), &path, id, end, streams)?;
        let has_header = read_header(&**segment.file(), &path).is_ok_and(|own| own == id);
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
        for damage in &contents.damage {
            error!(path = %path.display(), %damage, "a queue segment is damaged: its intact frames are kept, the file is quarantined");
        }
        contents.salvaged_frames = Some(Arc::new(found.positions));
        Ok(())
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
        let goes = excess > 0 && is_committed(name);
        excess -= usize::from(goes);
        !goes || env.fs.remove(&dir.join(name)).is_err()
    });
}
