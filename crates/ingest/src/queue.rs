//! The queue: its append slots, its segments, and the calls of sources, stores and queries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::{Env, LogRateLimiter};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::FrameHeader;
use bucksaw_segment::queue::{HEADER_LEN, Seal};
use tokio::sync::Notify;
use tracing::warn;

use crate::append::{Durability, FrameRecords, IngestError};
use crate::append_slot::{ActiveSegment, AppendSlot, AppendSlotState, UnsyncedRecords, record_header};
use crate::boot;
use crate::class::SegmentClass;
use crate::config::Config;
use crate::damaged_file::DamagedQueueFile;
use crate::halt_reason::HaltReason;
use crate::halt_state::HaltState;
use crate::index_memory::QueueIndexMemory;
use crate::keys::IdempotencyKeys;
use crate::load_shedder::LoadShedder;
use crate::lock::lock;
use crate::metrics::{Metrics, SourceLabels};
use crate::segment::{AckCallback, QueueSegment, SegmentState, SegmentView};
use crate::segment_file::FileTarget;
use crate::stall::StallDetector;

/// The queue of one node, shared by sources, stores and queries.
pub struct Queue {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    load_shedder: LoadShedder,
    pub(crate) fast_slots: Vec<AppendSlot>,
    pub(crate) durable_slot: AppendSlot,
    bulk_slot: AppendSlot,
    /// All segments by id, which orders them by age. Locked after a slot and before the contents of a segment.
    pub(crate) segments: Mutex<BTreeMap<Id, Arc<QueueSegment>>>,
    /// Quarantined files.
    pub(crate) damaged_files: Mutex<Vec<DamagedQueueFile>>,
    pub(crate) idempotency_keys: IdempotencyKeys,
    pub(crate) halt_state: HaltState,
    pub(crate) index_memory: QueueIndexMemory,
    pub(crate) stall: StallDetector,
    /// Notified when a segment becomes pending or is flushed.
    pub(crate) pending_notify: Notify,
    /// Whether stores of other nodes fetch segments.
    pub(crate) has_remote_stores: AtomicBool,
    is_closed: AtomicBool,
    pub(crate) log_limits: QueueLogLimits,
    is_boot_recorded: AtomicBool,
    appends: AtomicU64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Errors that recur with each attempt. Each is logged at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct QueueLogLimits {
    cut: LogRateLimiter,
    seal: LogRateLimiter,
    pub(crate) rename: LogRateLimiter,
    pub(crate) remove: LogRateLimiter,
    pub(crate) sync: LogRateLimiter,
    pub(crate) read: LogRateLimiter,
    pub(crate) quarantine: LogRateLimiter,
    boot: LogRateLimiter,
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

impl FetchThreshold {
    /// Whether a backlog reaches the threshold. A waiting client suffices.
    #[must_use]
    pub fn is_met(&self, backlog: &QueueBacklog) -> bool {
        let met = backlog.text_bytes >= self.text_bytes_min
            || backlog.oldest_age >= self.age_min
            || backlog.has_waiting_client;
        backlog.segments > 0 && met
    }
}

impl Queue {
    pub(crate) fn empty(env: Env, dir: PathBuf, config: Config, metrics: Metrics) -> Self {
        let keys = IdempotencyKeys::new(env.clone(), dir.clone(), &config);
        let fast = (0..config.fast_slots.max(1)).map(|_| AppendSlot::new(Durability::Fast)).collect();
        Self {
            env,
            dir,
            config,
            load_shedder: LoadShedder::new(metrics.clone()),
            metrics,
            fast_slots: fast,
            durable_slot: AppendSlot::new(Durability::Durable),
            bulk_slot: AppendSlot::new(Durability::Bulk),
            segments: Mutex::default(),
            damaged_files: Mutex::default(),
            idempotency_keys: keys,
            halt_state: HaltState::default(),
            index_memory: QueueIndexMemory::default(),
            stall: StallDetector::default(),
            pending_notify: Notify::new(),
            has_remote_stores: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            log_limits: QueueLogLimits::default(),
            is_boot_recorded: AtomicBool::new(false),
            appends: AtomicU64::new(0),
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
        let appended = self.check_space(records).and_then(|()| {
            let (slot, state) = self.append_slot(durability);
            self.append_to(slot, state, records, Box::new(done))
        });
        match &appended {
            Ok(()) => {
                let by = SourceLabels { source: records.source.name() };
                self.metrics.accepted_records.get_or_create(&by).inc_by(u64::from(records.count));
                self.metrics.accepted_bytes.get_or_create(&by).inc_by(records.text_bytes() as u64);
                self.appends.fetch_add(1, Ordering::Release);
            }
            Err(_) => drop(self.metrics.refused_appends.inc()),
        }
        appended
    }

    /// Checks the disk if too little space is known to be free. Not to be called with a slot locked.
    fn check_space(&self, records: &FrameRecords<'_>) -> Result<(), IngestError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(IngestError::ShuttingDown);
        }
        Ok(self.reserve_space((records.row_meta.len() + records.text_bytes()) as u64)?)
    }

    fn append_to(
        &self,
        slot: &AppendSlot,
        mut inner: MutexGuard<'_, AppendSlotState>,
        records: &FrameRecords<'_>,
        done: AckCallback,
    ) -> Result<(), IngestError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(IngestError::ShuttingDown);
        }
        let header = record_header(records);
        if records.row_meta.len() + records.text_bytes() > FrameHeader::BODY_BYTES_MAX {
            return Err(IngestError::Io("the records are too large for one frame".to_owned()));
        }
        if slot.durability == Durability::Durable && inner.unsynced_bytes >= self.config.unsynced_bytes_max {
            return Err(IngestError::SyncBacklog);
        }
        let mut body: Vec<&[u8]> = Vec::with_capacity(records.text.len() + 1);
        body.push(records.row_meta);
        body.extend(records.text);
        let written = self.write(&mut inner, records.labels, header, &body);
        let has_closed = inner.has_closed();
        let appended = written.map(|(segment, header)| match slot.durability {
            Durability::Fast => {
                drop(inner);
                done(Ok(()));
            }
            Durability::Durable => {
                let body = body.concat();
                inner.unsynced_bytes += body.len() as u64;
                inner.unsynced.push(UnsyncedRecords {
                    segment,
                    labels: records.labels.clone(),
                    header,
                    body,
                    attempts: 0,
                    on_ack: done,
                });
                drop(inner);
                slot.notify_unsynced();
            }
            Durability::Bulk => {
                segment.contents().on_commit.push(done);
                drop(inner);
            }
        });
        if has_closed {
            self.seal_closed(slot);
        }
        appended.map_err(|error| self.record_io_error(&error))
    }

    /// Writes a frame to the active segment of a slot. Opens a segment if there is none or it has too little space.
    pub(crate) fn write(
        &self,
        inner: &mut AppendSlotState,
        labels: &bucksaw_record::Labels,
        header: FrameHeader,
        body: &[&[u8]],
    ) -> std::io::Result<(Arc<QueueSegment>, FrameHeader)> {
        let (max, class) = (self.config.segment_bytes_max, inner.class);
        if inner.active.as_ref().is_some_and(|open| open.end > HEADER_LEN as u64 && open.end + header.frame_len() > max)
        {
            inner.close_active();
        }
        let open = match &mut inner.active {
            Some(open) => open,
            none => none.insert(self.open_segment(class)?),
        };
        match open.append(labels, header, body) {
            Ok(header) => Ok((Arc::clone(&open.segment), header)),
            Err(error) => {
                // The file may have a part of the frame, which is truncated. If that fails, too, the file is closed: readers
                // and stores stop at the published end.
                let (segment, end) = (Arc::clone(&open.segment), open.end);
                let cut = segment.file().truncate(end);
                if let Err(error) = &cut
                    && let Some(suppressed) = self.may_log(|errors| &errors.cut)
                {
                    warn!(segment = %segment.id(), %error, suppressed, "cannot truncate a torn frame; the segment is closed");
                }
                // That place on the disk may be defective, so the next append goes to another file.
                if cut.is_err() || matches!(HaltReason::of(&error), HaltReason::Failing(_)) {
                    inner.close_active();
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

    fn open_segment(&self, class: SegmentClass) -> std::io::Result<ActiveSegment> {
        let id = class.segment_id(Millis(self.env.clock.unix_ms()), self.env.entropy.next_u64());
        let path = self.dir.join(format!("{id}.active"));
        let file = self.env.fs.create(&path)?;
        if let Err(error) = file.append(&[&bucksaw_segment::queue::encode_header(id)]) {
            let _ = self.env.fs.remove(&path);
            return Err(error);
        }
        let segment = Arc::new(QueueSegment::new(id, file, path, self.env.clock.uptime()));
        lock(&self.segments).insert(id, Arc::clone(&segment));
        Ok(ActiveSegment::new(segment))
    }

    /// Seals the segments of a slot that were closed, makes them pending and renames them. Not to be called with the slot
    /// locked: other threads append to the slot's next segment meanwhile.
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
                if let Some(suppressed) = self.may_log(|errors| &errors.seal) {
                    warn!(segment = %segment.id(), %error, suppressed, "cannot seal a queue segment: it keeps its name");
                }
                // A partial seal reads as a torn tail.
                let _ = segment.file().truncate(segment.end());
                false
            }
        };
        {
            let mut contents = segment.contents();
            contents.state = SegmentState::Pending;
            contents.is_flushed = false;
        }
        self.pending_notify.notify_waiters();
        // The name of a `durable` segment says that its seal is synced; the group commit renames it.
        if is_sealed && durability != Durability::Durable {
            self.move_file(segment, FileTarget::Pending);
        }
        is_sealed
    }

    /// Ends a file with its seal. False if the file's bytes are not those that the seal would describe.
    fn write_seal(&self, segment: &QueueSegment) -> std::io::Result<bool> {
        let (file, end) = (segment.file(), segment.end());
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
        file.append(&[&seal.encode(segment.id())])?;
        Ok(true)
    }

    /// Renames a segment whose seal is synced, unless a store has committed it. Returns whether this call renamed it.
    pub(crate) fn rename_sealed(&self, segment: &QueueSegment) -> bool {
        let may_be_renamed = {
            let contents = segment.contents();
            // After a failed sync a later success proves nothing for what was written before.
            matches!(contents.state, SegmentState::Pending | SegmentState::Reserved) && !contents.has_failed_sync
        };
        may_be_renamed
            && self.segments_by_id(&[segment.id()]).len() == 1
            && self.move_file(segment, FileTarget::Pending)
    }

    /// A locked slot of this durability; of `fast`, the first free one, so that little traffic goes to one file.
    fn append_slot(&self, durability: Durability) -> (&AppendSlot, MutexGuard<'_, AppendSlotState>) {
        let only = match durability {
            Durability::Durable => &self.durable_slot,
            Durability::Bulk => &self.bulk_slot,
            Durability::Fast => {
                for slot in &self.fast_slots {
                    if let Some(inner) = slot.try_lock() {
                        return (slot, inner);
                    }
                }
                self.fast_slots.last().unwrap_or(&self.durable_slot)
            }
        };
        (only, only.lock())
    }

    /// Whether a store should fetch segments.
    pub(crate) fn is_due(&self, due: FetchThreshold, backlog: &QueueBacklog) -> bool {
        // A full disk makes everything due, because stored segments are smaller.
        let pressed = self.is_closed.load(Ordering::Acquire)
            || self.is_full()
            || self.is_short_of_descriptors()
            || self.index_memory.is_full();
        due.is_met(backlog) || (backlog.segments > 0 && pressed)
    }

    /// The number of appends, by which readers detect new records.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Acquire)
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
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        u64::try_from(self.metrics.free_bytes.get()).unwrap_or_default()
    }

    /// The metrics of the queue, to which sources add.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Decides which clients are redirected.
    #[must_use]
    pub fn load_shedder(&self) -> &LoadShedder {
        &self.load_shedder
    }

    /// Free bytes of the disk below which nothing is accepted.
    #[must_use]
    pub fn free_bytes_min(&self) -> u64 {
        self.config.free_bytes_min
    }

    /// Segments whose records stores do not have yet, oldest first.
    #[must_use]
    pub fn uncommitted_segments(&self) -> Vec<SegmentView> {
        let segments = self.readable_segments();
        let wanted = segments.iter().filter(|segment| segment.state() != SegmentState::Committed);
        wanted.map(|segment| segment.view()).filter(|view| view.end > HEADER_LEN as u64).collect()
    }

    /// All segments, oldest first. Includes committed ones, for queries that read the stores at another moment.
    #[must_use]
    pub fn readable_segments(&self) -> Vec<Arc<QueueSegment>> {
        lock(&self.segments).values().cloned().collect()
    }

    /// The segments that wait for a store.
    #[must_use]
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
                backlog.oldest_age = backlog.oldest_age.max(now.saturating_sub(segment.opened_at()));
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
            contents.state = SegmentState::Committed;
            contents.lease = None;
            contents.committed_at = Some(self.env.clock.uptime());
            let done = std::mem::take(&mut contents.on_commit);
            self.metrics.consumed_bytes.inc_by(contents.reach.text_bytes);
            let broken = !contents.damage.is_empty();
            drop(contents);
            self.move_file(&segment, if broken { FileTarget::Quarantined } else { FileTarget::Committed });
            // Which frames stores have is unknown, so waiting clients must send theirs again.
            let kept = || match broken {
                true => Err(IngestError::Io("the segment was damaged before it was replicated".to_owned())),
                false => Ok(()),
            };
            done.into_iter().for_each(|done| done(kept()));
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

    /// If an error of this kind may be logged now, the number of suppressed ones.
    pub(crate) fn may_log(&self, error: fn(&QueueLogLimits) -> &LogRateLimiter) -> Option<u64> {
        error(&self.log_limits).check(self.env.clock.uptime())
    }

    /// Records the boot id, unless that is done or was tried within the last minute. See [`crate::boot`].
    pub(crate) fn record_boot(&self) {
        let noted = self.is_boot_recorded.load(Ordering::Relaxed);
        if !noted && !self.is_full() && self.may_log(|errors| &errors.boot).is_some() {
            self.is_boot_recorded.store(boot::record_boot(&self.env, &self.dir), Ordering::Relaxed);
        }
    }

    pub(crate) fn segments_by_id(&self, ids: &[Id]) -> Vec<Arc<QueueSegment>> {
        let segments = lock(&self.segments);
        ids.iter().filter_map(|id| segments.get(id)).cloned().collect()
    }

    /// Lets a store fetch the active `bulk` segment. It stays active until a store asks, so that flushes of many clients go to
    /// one file while stores are busy.
    pub fn flush_bulk(&self) {
        let inner = self.bulk_slot.lock();
        let Some(open) = inner.active.as_ref().filter(|open| open.end > HEADER_LEN as u64) else { return };
        open.segment.contents().is_flushed = true;
        drop(inner);
        self.pending_notify.notify_waiters();
    }

    /// Closes and seals the active segment if it was flushed.
    pub(crate) fn seal_flushed(&self) {
        {
            let mut state = self.bulk_slot.lock();
            if state.active.as_ref().is_some_and(|active| active.segment.contents().is_flushed) {
                state.close_active();
            }
        }
        self.seal_closed(&self.bulk_slot);
    }

    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }

    /// Stops accepting records, makes the accepted ones durable, and closes and seals all segments.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        while self.commit_group() {}
        for slot in self.append_slots() {
            slot.lock().close_active();
            self.seal_closed(slot);
            // An append that closed a segment may still be sealing it.
            slot.wait_until_sealed();
        }
        while self.commit_group() {}
    }

    pub(crate) fn append_slots(&self) -> impl Iterator<Item = &AppendSlot> {
        self.fast_slots.iter().chain([&self.durable_slot, &self.bulk_slot])
    }
}
