//! The queue: its append slots, its segments, and the calls of sources, stores and queries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, lock, log_limited};
use bucksaw_record::Id;
use bucksaw_segment::FrameHeader;
use bucksaw_segment::queue::{HEADER_LEN, Seal, frame_cipher, frames_version};
use tokio::sync::Notify;

use crate::append::{Durability, FrameRecords, IngestError};
use crate::append_slot::{ActiveSegment, AppendSlot, UnsyncedRecords, record_header};
use crate::boot;
use crate::config::Config;
use crate::empty_segment_file::EmptySegmentFile;
use crate::halt_reason::HaltReason;
use crate::halt_state::HaltState;
use crate::index_memory::QueueIndexMemory;
use crate::keys::IdempotencyKeys;
use crate::metrics::Metrics;
use crate::queue_file::DamagedQueueFile;
use crate::recent_frames::{RecentFrame, RecentFrames};
use crate::removed_files::RemovedFiles;
use crate::segment::{AckCallback, QueueSegment, SegmentState, SegmentView};
use crate::segment_file::FileTarget;
use crate::stall::RunningSince;

/// The queue of one node, shared by sources, stores and queries.
pub struct Queue {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) fast_slots: Vec<AppendSlot>,
    pub(crate) durable_slot: AppendSlot,
    pub(crate) bulk_slot: AppendSlot,
    /// All segments by id, which orders them by age. Locked after a slot and before the contents of a segment.
    pub(crate) segments: Mutex<BTreeMap<Id, Arc<QueueSegment>>>,
    /// Segments that are removed, and whose blocks are not free yet.
    pub(crate) removed_files: Mutex<RemovedFiles>,
    /// Quarantined files.
    pub(crate) damaged_files: Mutex<Vec<DamagedQueueFile>>,
    /// The newest frames, if a reader wants them. Locked after a slot, briefly.
    recent_frames: Mutex<RecentFrames>,
    pub(crate) idempotency_keys: IdempotencyKeys,
    pub(crate) halt_state: HaltState,
    pub(crate) index_memory: QueueIndexMemory,
    /// Set while a thread ticks or commits.
    pub(crate) ticking: RunningSince,
    pub(crate) group_commit: RunningSince,
    /// Notified when a segment becomes pending or is flushed.
    pub(crate) pending_notify: Notify,
    /// Whether stores of other nodes fetch segments.
    pub(crate) has_remote_stores: AtomicBool,
    /// See [`Queue::set_closes_by_age`].
    pub(crate) closes_by_age: AtomicBool,
    pub(crate) is_closed: AtomicBool,
    pub(crate) log_limits: LogLimits,
    is_boot_recorded: AtomicBool,
    appends: AtomicU64,
    /// Notified of each append. One task may wait for it.
    append_notify: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Segments that wait for a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBacklog {
    /// Their number.
    pub segments: usize,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// The age of the oldest.
    pub oldest_age: Duration,
    /// Whether a client waits for their commit.
    pub has_waiting_client: bool,
}

/// The backlog from which a store fetches segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchThreshold {
    /// Bytes of text,
    pub text_bytes_min: u64,
    /// or the age of the oldest segment.
    pub age_min: Duration,
}

impl Queue {
    pub(crate) fn empty(env: Env, dir: PathBuf, config: Config, metrics: Metrics) -> Self {
        Self {
            idempotency_keys: IdempotencyKeys::new(env.clone(), dir.clone(), &config),
            fast_slots: (0..config.fast_slots.max(1)).map(|_| AppendSlot::new(Durability::Fast)).collect(),
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
            env,
            dir,
            config,
            metrics,
            durable_slot: AppendSlot::new(Durability::Durable),
            bulk_slot: AppendSlot::new(Durability::Bulk),
            segments: Mutex::default(),
            removed_files: Mutex::default(),
            damaged_files: Mutex::default(),
            recent_frames: Mutex::default(),
            halt_state: HaltState::default(),
            index_memory: QueueIndexMemory::default(),
            ticking: RunningSince::default(),
            group_commit: RunningSince::default(),
            pending_notify: Notify::new(),
            has_remote_stores: AtomicBool::new(false),
            closes_by_age: AtomicBool::new(true),
            is_closed: AtomicBool::new(false),
            is_boot_recorded: AtomicBool::new(false),
            appends: AtomicU64::new(0),
            append_notify: Notify::new(),
        }
    }

    /// Appends records. They are readable when this returns `Ok`. `done` is called once, when they have their durability or
    /// cannot get it: before the return for `fast`, by [`Self::commit_group`] for `durable`, by [`Self::commit`] for `bulk`.
    ///
    /// # Errors
    /// [`IngestError`]; `done` is not called then.
    pub fn append(
        &self,
        durability: Durability,
        records: &FrameRecords<'_>,
        done: impl FnOnce(Result<(), IngestError>) + Send + 'static,
    ) -> Result<(), IngestError> {
        let appended = self.try_append(durability, records, Box::new(done));
        match &appended {
            Ok(()) => {
                let label = records.source.label();
                self.metrics.records.get_or_create(&label).inc_by(u64::from(records.count));
                self.metrics.bytes.get_or_create(&label).inc_by(records.text_bytes() as u64);
                self.appends.fetch_add(1, Ordering::Release);
                self.append_notify.notify_one();
            }
            Err(_) => drop(self.metrics.refused_appends.inc()),
        }
        appended
    }

    /// Takes the frame that an append wrote to a segment from the offset `start` on, if memory still has it. Its labels are
    /// among those of the segment.
    pub fn take_recent(&self, segment: Id, start: u64) -> Option<RecentFrame> {
        lock(&self.recent_frames).take(segment, start)
    }

    fn try_append(
        &self,
        durability: Durability,
        records: &FrameRecords<'_>,
        done: AckCallback,
    ) -> Result<(), IngestError> {
        let check_open =
            || if self.is_closed.load(Ordering::Acquire) { Err(IngestError::ShuttingDown) } else { Ok(()) };
        let body_len = records.row_meta.len() + records.text_bytes();
        check_open()?;
        self.reserve_space(body_len as u64)?;
        let (slot, mut writer) = self.append_slot(durability);
        check_open()?;
        if body_len > FrameHeader::BODY_BYTES_MAX {
            return Err(IngestError::Io("the records are too large for one frame".to_owned()));
        }
        if slot.durability == Durability::Durable && slot.state().unsynced_bytes >= self.config.unsynced_bytes_max {
            return Err(IngestError::SyncBacklog);
        }
        let body: Vec<&[u8]> = [records.row_meta].into_iter().chain(records.text.iter().copied()).collect();
        let written = self.write(slot, &mut writer, records.labels, record_header(records), &body);
        let appended = written.map(|(segment, header)| match slot.durability {
            Durability::Fast => {
                drop(writer);
                done(Ok(()));
            }
            Durability::Durable => {
                let (body, labels) = (body.concat(), records.labels.clone());
                let mut state = slot.state();
                state.unsynced_bytes += body.len() as u64;
                state.unsynced.push(UnsyncedRecords { segment, labels, header, body, attempts: 0, on_ack: done });
                drop(state);
                // Not earlier, so that a failed sync finds all records of the file.
                drop(writer);
                slot.notify_unsynced();
            }
            Durability::Bulk => {
                segment.contents().on_commit.push(done);
                drop(writer);
            }
        });
        slot.close_if_requested();
        self.seal_closed(slot);
        appended.map_err(|error| self.record_io_error(&error))
    }

    /// Writes a frame to the active segment of a slot. Opens a segment if there is none or it has too little space.
    pub(crate) fn write(
        &self,
        slot: &AppendSlot,
        writer: &mut Option<ActiveSegment>,
        labels: &bucksaw_record::Labels,
        header: FrameHeader,
        body: &[&[u8]],
    ) -> std::io::Result<(Arc<QueueSegment>, FrameHeader)> {
        let _running = slot.write.start(self.env.clock.uptime());
        let is_full = |active: &ActiveSegment| {
            active.end > HEADER_LEN as u64 && active.end + header.frame_len() > self.config.segment_bytes_max
        };
        let version = frames_version(header.layout_bits);
        if writer.as_ref().is_some_and(|active| is_full(active) || active.version < version) {
            slot.close(writer);
        }
        let active = match &mut *writer {
            Some(active) => active,
            none => none.insert(self.open_segment(slot, version)?),
        };
        let start = active.end;
        match active.append(&*self.env.clock, labels, header, body) {
            Ok(header) => {
                if self.config.recent_bytes_max > 0 {
                    let place = (active.segment.id(), start..active.end);
                    lock(&self.recent_frames).push(self.config.recent_bytes_max, place, header, body);
                }
                let is_half_full = active.end >= self.config.segment_bytes_max / 2;
                if slot.durability == Durability::Durable && is_half_full && !active.has_requested_next {
                    active.has_requested_next = true;
                    slot.request_next();
                }
                Ok((Arc::clone(&active.segment), header))
            }
            Err(error) => {
                // The file may have a part of the frame, which is truncated. If that fails, too, the file is closed: readers
                // and stores stop at the published end.
                let cut = active.segment.file.truncate(active.end);
                if let Err(error) = &cut {
                    log_limited!(self.log_limits, warn, segment = %active.segment.id(), %error, "cannot truncate a torn frame; the segment is closed");
                }
                // That place on the disk may be defective, so the next append goes to another file.
                if cut.is_err() || matches!(HaltReason::of(&error), HaltReason::Failing(_)) {
                    slot.close(writer);
                }
                Err(error)
            }
        }
    }

    pub(crate) fn record_io_error(&self, error: &std::io::Error) -> IngestError {
        let halt = HaltReason::of(error);
        self.record_write_failure(halt.clone());
        halt.into()
    }

    /// Opens a segment of this version or that of the slot's last one, whichever is newer, in the prepared file if there is one.
    fn open_segment(&self, slot: &AppendSlot, version: u32) -> std::io::Result<ActiveSegment> {
        let version = slot.version.fetch_max(version, Ordering::Relaxed).max(version);
        let (prepared, outdated) = {
            let next = slot.state().next_file.take();
            if next.as_ref().is_some_and(|next| next.version < version) { (None, next) } else { (next, None) }
        };
        outdated.iter().for_each(|outdated| outdated.remove(&self.env));
        let new = match prepared {
            Some(prepared) => prepared,
            None => EmptySegmentFile::create(&self.env, &self.dir, slot.durability, version)?,
        };
        let segment = Arc::new(QueueSegment::new(new.id, new.file, new.path, self.env.clock.uptime()));
        segment.contents().is_name_synced = new.is_name_synced;
        lock(&self.segments).insert(new.id, Arc::clone(&segment));
        slot.state().active = Some(Arc::clone(&segment));
        Ok(ActiveSegment::new(segment, new.version, new.cipher))
    }

    /// Seals the closed segments of a slot, makes them pending and renames them. Called without the writer: other threads append
    /// to the slot's next segment meanwhile.
    pub(crate) fn seal_closed(&self, slot: &AppendSlot) {
        for segment in slot.begin_sealing() {
            let is_sealed = self.seal(&segment, slot.durability);
            slot.end_sealing((is_sealed && slot.durability == Durability::Durable).then_some(segment));
        }
    }

    /// Seals a closed segment, to which no thread appends, and makes it pending. Returns whether its file ends in a seal.
    fn seal(&self, segment: &QueueSegment, durability: Durability) -> bool {
        if segment.end() <= HEADER_LEN as u64 {
            lock(&self.segments).remove(&segment.id());
            self.move_file(segment, FileTarget::Removed);
            return false;
        }
        let is_sealed = match self.write_seal(segment) {
            Ok(is_sealed) => is_sealed,
            Err(error) => {
                log_limited!(self.log_limits, warn, segment = %segment.id(), %error, "cannot seal a queue segment: it keeps its name");
                // A partial seal reads as a torn tail.
                let _ = segment.file.truncate(segment.end());
                false
            }
        };
        {
            let mut contents = segment.contents();
            contents.state = SegmentState::Pending;
            contents.is_flushed = false;
        }
        self.pending_notify.notify_waiters();
        // The name of a `durable` segment states that its seal is synced; `rotate_files` renames it.
        if is_sealed && durability != Durability::Durable {
            self.move_file(segment, FileTarget::Pending);
        }
        is_sealed
    }

    /// Ends a file with its seal. False if the file's bytes are not those that the seal would describe.
    fn write_seal(&self, segment: &QueueSegment) -> std::io::Result<bool> {
        let (file, end) = (&segment.file, segment.end());
        if file.size()? != end {
            return Ok(false);
        }
        let seal = {
            let contents = segment.contents();
            if contents.has_failed_sync {
                return Ok(false);
            }
            Seal::new(end, &contents.reach, &contents.streams)
        };
        let cipher = frame_cipher(&**file, segment.id());
        file.append(&[&seal.encode(segment.id(), cipher.as_deref())?])?;
        Ok(true)
    }

    /// Renames a segment whose seal is synced, unless a store has committed it. Returns whether this call renamed it.
    pub(crate) fn rename_sealed(&self, segment: &QueueSegment) -> bool {
        let may_be_renamed = {
            let contents = segment.contents();
            // After a failed sync, the success of a later one proves nothing about bytes written before the failure.
            matches!(contents.state, SegmentState::Pending | SegmentState::Reserved) && !contents.has_failed_sync
        };
        may_be_renamed
            && self.segments_by_id(&[segment.id()]).len() == 1
            && self.move_file(segment, FileTarget::Pending)
    }

    /// A slot of this durability with its writer; of `fast`, the first free one, so that little traffic goes to one file.
    fn append_slot(&self, durability: Durability) -> (&AppendSlot, MutexGuard<'_, Option<ActiveSegment>>) {
        let only = match durability {
            Durability::Durable => &self.durable_slot,
            Durability::Bulk => &self.bulk_slot,
            Durability::Fast => {
                let mut slots = self.fast_slots.iter();
                if let Some(free) = slots.find_map(|slot| Some((slot, slot.try_writer()?))) {
                    return free;
                }
                self.fast_slots.last().unwrap_or(&self.durable_slot)
            }
        };
        (only, only.writer())
    }

    /// Whether a store should fetch segments: the backlog reaches the threshold, a client waits for it, or the queue needs room.
    pub(crate) fn is_due(&self, due: FetchThreshold, backlog: &QueueBacklog) -> bool {
        let is_met = backlog.text_bytes >= due.text_bytes_min || backlog.oldest_age >= due.age_min;
        // Stored segments are smaller, so a fetch frees space on a full disk too.
        let needs_room = self.is_full() || self.is_short_of_descriptors() || self.index_memory.is_full();
        let is_closed = self.is_closed.load(Ordering::Acquire);
        backlog.segments > 0 && (is_met || backlog.has_waiting_client || needs_room || is_closed)
    }

    /// The newest version of the segments that were opened since the start.
    pub fn version_written(&self) -> u32 {
        let slots = self.fast_slots.iter().chain([&self.durable_slot, &self.bulk_slot]);
        slots.map(|slot| slot.version.load(Ordering::Relaxed)).max().unwrap_or(1)
    }

    /// The number of appends, by which readers detect new records.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Acquire)
    }

    /// Resolves when the number of appends is another than `seen`. For one waiter.
    pub async fn wait_appended(&self, seen: u64) {
        // A notification without a waiter is kept.
        while self.appends() == seen {
            self.append_notify.notified().await;
        }
    }

    /// Checks whether records are accepted, before they are read. Counts a refusal.
    ///
    /// # Errors
    /// The error of an append.
    pub fn check_accepting(&self) -> Result<(), IngestError> {
        let Some(halt) = self.refusal_reason() else { return Ok(()) };
        self.metrics.refused_appends.inc();
        Err(halt.into())
    }

    /// Free bytes of the disk at the last check.
    pub fn free_bytes(&self) -> u64 {
        u64::try_from(self.metrics.free_bytes.get()).unwrap_or_default()
    }

    /// The metrics of the queue, to which sources add.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Free bytes of the disk below which nothing is accepted.
    pub fn free_bytes_min(&self) -> u64 {
        self.config.free_bytes_min
    }

    /// Segments that are not committed yet, oldest first: stores may lack their records.
    pub fn uncommitted_segments(&self) -> Vec<SegmentView> {
        let segments = self.readable_segments();
        let wanted = segments.iter().filter(|segment| segment.state() != SegmentState::Committed);
        wanted.map(|segment| segment.view()).filter(|view| view.end > HEADER_LEN as u64).collect()
    }

    /// All segments, oldest first. Includes committed ones, for queries that read the stores at another moment.
    pub fn readable_segments(&self) -> Vec<Arc<QueueSegment>> {
        lock(&self.segments).values().cloned().collect()
    }

    /// The segments that wait for a store.
    pub fn backlog(&self) -> QueueBacklog {
        self.backlog_of(&self.readable_segments())
    }

    pub(crate) fn backlog_of(&self, segments: &[Arc<QueueSegment>]) -> QueueBacklog {
        let now = self.env.clock.uptime();
        let mut backlog = QueueBacklog::default();
        for segment in segments {
            let contents = segment.contents();
            if contents.state == SegmentState::Pending || contents.is_flushed {
                backlog.segments += 1;
                backlog.text_bytes += contents.reach.text_bytes;
                backlog.oldest_age = backlog.oldest_age.max(now.saturating_sub(segment.opened_at));
                backlog.has_waiting_client |= !contents.on_commit.is_empty();
            }
        }
        backlog
    }

    /// Records that stores have these segments. Unknown ids are ignored.
    pub fn commit(&self, ids: &[Id]) {
        for segment in self.segments_by_id(ids) {
            let mut contents = segment.contents();
            if contents.state == SegmentState::Committed {
                continue;
            }
            let now = self.env.clock.uptime();
            contents.state = SegmentState::Committed;
            contents.lease = None;
            contents.committed_at = Some(now);
            let done = std::mem::take(&mut contents.on_commit);
            self.metrics.consumed_bytes.inc_by(contents.reach.text_bytes);
            self.metrics.consumed_byte_seconds.inc_by(segment.byte_seconds(&contents, now));
            let broken = !contents.damage.is_empty();
            drop(contents);
            self.move_file(&segment, if broken { FileTarget::Quarantined } else { FileTarget::Committed });
            // Which frames stores have is unknown, so waiting clients must send theirs again.
            let result = || match broken {
                true => Err(IngestError::Io("the segment was damaged before it was replicated".to_owned())),
                false => Ok(()),
            };
            done.into_iter().for_each(|done| done(result()));
        }
    }

    /// Removes committed segments whose records retention removed from the store. Otherwise queries would find these records
    /// until the grace period ends. Segments in other states stay.
    pub fn forget(&self, ids: &[Id]) {
        for segment in self.segments_by_id(ids) {
            if segment.state() == SegmentState::Committed {
                self.move_file(&segment, FileTarget::Removed);
            }
        }
    }

    /// Records the boot id, unless that is done or was tried within the last minute. See [`crate::boot`].
    pub(crate) fn record_boot(&self) {
        let is_recorded = self.is_boot_recorded.load(Ordering::Relaxed);
        if !is_recorded && !self.is_full() && self.log_limits.check().is_some() {
            self.is_boot_recorded.store(boot::record_boot(&self.env, &self.dir), Ordering::Relaxed);
        }
    }

    pub(crate) fn segments_by_id(&self, ids: &[Id]) -> Vec<Arc<QueueSegment>> {
        let segments = lock(&self.segments);
        ids.iter().filter_map(|id| segments.get(id)).cloned().collect()
    }

    /// Marks the active `bulk` segment as ready for a store. The next fetch closes it. Until then clients append to it, so
    /// while all stores are busy, the flushes of many clients share one file.
    pub fn flush_bulk(&self) {
        let active = self.bulk_slot.state().active.clone();
        let Some(active) = active.filter(|active| active.end() > HEADER_LEN as u64) else { return };
        {
            let mut contents = active.contents();
            contents.is_flushed = contents.state == SegmentState::Active;
        }
        self.pending_notify.notify_waiters();
    }

    /// Stops accepting records, makes the accepted ones durable, and closes and seals all segments.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        while self.commit_group() {}
        self.discard_next();
        for slot in self.append_slots() {
            slot.close(&mut slot.writer());
            self.seal_closed(slot);
            // An append that closed a segment may still be sealing it.
            slot.wait_until_sealed();
        }
        while self.commit_group() {}
        self.rotate_files();
    }

    pub(crate) fn append_slots(&self) -> impl Iterator<Item = &AppendSlot> {
        self.fast_slots.iter().chain([&self.durable_slot, &self.bulk_slot])
    }
}
