//! The queue itself: its lanes, its segments, and what the store and the queries ask of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bucksaw_doors::{Doors, Repeats};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::Header;
use bucksaw_segment::queue::{HEADER_LEN, Seal};
use tokio::sync::Notify;
use tracing::warn;

use crate::append::{Durability, Records, Refusal};
use crate::boot;
use crate::class::Class;
use crate::config::Config;
use crate::guide::Guide;
use crate::index_memory::IndexMemory;
use crate::keys::Keys;
use crate::lane::{Inner, Lane, Open, Waiting, record_header};
use crate::metrics::{BySource, Metrics};
use crate::quarantine::SetAside;
use crate::room::{Halt, Room};
use crate::segment::{Done, Segment, State, View};
use crate::stall::Stall;

/// The queue of one node. Shared by all who append, read and consume.
pub struct Queue {
    pub(crate) doors: Doors,
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    guide: Guide,
    pub(crate) fast: Vec<Lane>,
    pub(crate) durable: Lane,
    bulk: Lane,
    /// Every segment that is not removed, by id and so by age. Taken after a lane's lock, before a segment's.
    pub(crate) segments: Mutex<BTreeMap<Id, Arc<Segment>>>,
    /// Quarantined files.
    pub(crate) damaged: Mutex<Vec<SetAside>>,
    pub(crate) keys: Mutex<Keys>,
    pub(crate) room: Room,
    pub(crate) index: IndexMemory,
    pub(crate) stall: Stall,
    /// Rung when a segment has become pending, or was flushed.
    pub(crate) pended: Notify,
    /// Whether other nodes take from it.
    pub(crate) shared: AtomicBool,
    closed: AtomicBool,
    pub(crate) errors: Errors,
    boot_noted: AtomicBool,
    appends: AtomicU64,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Errors that occur again at each try. Each is logged at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    cut: Repeats,
    seal: Repeats,
    rename: Repeats,
    pub(crate) remove: Repeats,
    pub(crate) sync: Repeats,
    pub(crate) read: Repeats,
    pub(crate) aside: Repeats,
    boot: Repeats,
}

/// What waits for a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Segments that wait.
    pub segments: usize,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// How long the oldest has been there.
    pub oldest: Duration,
    /// Whether a client waits for the store's commit.
    pub awaited: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When what waits is worth being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When there is so much text, in bytes,
    pub text_bytes: u64,
    /// or when the oldest has waited so long,
    pub age: Duration,
}

impl Due {
    /// Whether it is: also when a client waits.
    #[must_use]
    pub fn is_met(&self, backlog: &Backlog) -> bool {
        let met = backlog.text_bytes >= self.text_bytes || backlog.oldest >= self.age || backlog.awaited;
        backlog.segments > 0 && met
    }
}

impl Queue {
    pub(crate) fn empty(doors: Doors, dir: PathBuf, config: Config, metrics: Metrics) -> Self {
        let keys = Mutex::new(Keys::new(doors.clone(), dir.clone(), &config));
        let fast = (0..config.fast_lanes.max(1)).map(|_| Lane::new(Durability::Fast)).collect();
        Self {
            doors,
            dir,
            config,
            guide: Guide::new(metrics.clone()),
            metrics,
            fast,
            durable: Lane::new(Durability::Durable),
            bulk: Lane::new(Durability::Bulk),
            segments: Mutex::default(),
            damaged: Mutex::default(),
            keys,
            room: Room::default(),
            index: IndexMemory::default(),
            stall: Stall::default(),
            pended: Notify::new(),
            shared: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            errors: Errors::default(),
            boot_noted: AtomicBool::new(false),
            appends: AtomicU64::new(0),
        }
    }

    /// Appends records. When this returns `Ok` they can be read; `done` is told when the promise holds, or that it
    /// cannot be kept: at once for `fast`, from [`Self::commit_group`] for `durable`, from [`Self::commit`] for `bulk`.
    ///
    /// # Errors
    /// [`Refusal`]; `done` is not told then.
    pub fn append(
        &self,
        durability: Durability,
        records: &Records<'_>,
        done: impl FnOnce(Result<(), Refusal>) + Send + 'static,
    ) -> Result<(), Refusal> {
        let lane = self.lane(durability);
        let appended = self.append_to(lane.0, lane.1, records, Box::new(done));
        match &appended {
            Ok(()) => {
                let by = BySource { source: records.source.name() };
                self.metrics.accepted_records.get_or_create(&by).inc_by(u64::from(records.count));
                self.metrics.accepted_bytes.get_or_create(&by).inc_by(records.text_bytes() as u64);
                self.appends.fetch_add(1, Ordering::Release);
            }
            Err(_) => drop(self.metrics.refused.inc()),
        }
        appended
    }

    fn append_to(
        &self,
        lane: &Lane,
        mut inner: MutexGuard<'_, Inner>,
        records: &Records<'_>,
        done: Done,
    ) -> Result<(), Refusal> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Refusal::Closed);
        }
        self.take_room((records.sides.len() + records.text_bytes()) as u64)?;
        let header = record_header(records);
        if records.sides.len() + records.text_bytes() > Header::BODY_BYTES_MAX {
            return Err(Refusal::Io("the records are too large for one frame".to_owned()));
        }
        if lane.durability == Durability::Durable && inner.waiting_bytes >= self.config.unsynced_bytes_max {
            return Err(Refusal::Busy);
        }
        let mut body: Vec<&[u8]> = Vec::with_capacity(records.text.len() + 1);
        body.push(records.sides);
        body.extend(records.text);
        let (segment, header) = self.write(&mut inner, records.labels, header, &body)?;
        match lane.durability {
            Durability::Fast => {
                drop(inner);
                done(Ok(()));
            }
            Durability::Durable => {
                let body = body.concat();
                inner.waiting_bytes += body.len() as u64;
                inner.waiting.push(Waiting { segment, labels: records.labels.clone(), header, body, tries: 0, done });
                drop(inner);
                lane.ring();
            }
            Durability::Bulk => segment.contents().on_commit.push(done),
        }
        Ok(())
    }

    /// Writes a frame to the lane's active segment, opening one where there is none or no room.
    pub(crate) fn write(
        &self,
        inner: &mut Inner,
        labels: &bucksaw_record::Labels,
        header: Header,
        body: &[&[u8]],
    ) -> Result<(Arc<Segment>, Header), Refusal> {
        let (max, class) = (self.config.segment_bytes_max, inner.class);
        if inner.open.as_ref().is_some_and(|open| open.end > HEADER_LEN as u64 && open.end + header.frame_len() > max) {
            self.seal(inner);
        }
        let open = match &mut inner.open {
            Some(open) => open,
            none => none.insert(self.open_segment(class).map_err(|error| self.refusal(&error))?),
        };
        match open.append(labels, header, body) {
            Ok(header) => Ok((Arc::clone(&open.segment), header)),
            Err(error) => {
                // A part of the frame may be in the file. Cut it away; where that fails too, the file is closed here:
                // readers and the store stop at the end that was published.
                let (segment, end) = (Arc::clone(&open.segment), open.end);
                let cut = segment.file().truncate(end);
                if let Err(error) = &cut
                    && let Some(suppressed) = self.may_log(|errors| &errors.cut)
                {
                    warn!(segment = %segment.id(), %error, suppressed, "cannot cut a torn frame away; the segment is closed");
                }
                // The place on the disk may be what fails: the next append is to another file.
                if cut.is_err() || matches!(Halt::of(&error), Halt::Failing(_)) {
                    self.seal(inner);
                }
                Err(self.refusal(&error))
            }
        }
    }

    pub(crate) fn refusal(&self, error: &std::io::Error) -> Refusal {
        let halt = Halt::of(error);
        self.note_failure(halt.clone());
        halt.into()
    }

    fn open_segment(&self, class: Class) -> std::io::Result<Open> {
        let id = class.segment_id(Millis(self.doors.clock.unix_ms()), self.doors.entropy.next_u64());
        let path = self.dir.join(format!("{id}.active"));
        let file = self.doors.fs.create(&path)?;
        if let Err(error) = file.append(&[&bucksaw_segment::queue::header(id)]) {
            let _ = self.doors.fs.remove(&path);
            return Err(error);
        }
        let segment = Arc::new(Segment::new(id, file, path, self.doors.clock.uptime()));
        lock(&self.segments).insert(id, Arc::clone(&segment));
        Ok(Open::new(segment))
    }

    /// Closes the lane's active segment.
    pub(crate) fn seal(&self, inner: &mut Inner) {
        let Some(open) = inner.open.take() else { return };
        let segment = open.segment;
        if segment.end() <= HEADER_LEN as u64 {
            let path = Arc::clone(&segment.contents().path);
            lock(&self.segments).remove(&segment.id());
            let _ = self.doors.fs.remove(&path);
            return;
        }
        let sealed = match self.write_seal(&segment) {
            Ok(sealed) => sealed,
            Err(error) => {
                if let Some(suppressed) = self.may_log(|errors| &errors.seal) {
                    warn!(segment = %segment.id(), %error, suppressed, "cannot seal a queue segment: it keeps its name");
                }
                // What is there of the seal reads as a torn tail.
                let _ = segment.file().truncate(segment.end());
                false
            }
        };
        {
            let mut contents = segment.contents();
            contents.state = State::Pending;
            contents.flushed = false;
        }
        match inner.class {
            Class::Durable if sealed => {
                inner.closing.push(segment);
                self.durable.ring();
            }
            _ if sealed => self.rename(&segment, "pending"),
            _ => {}
        }
        self.pended.notify_waiters();
    }

    /// Ends a file with its seal. False where its bytes are not those that the seal would tell of.
    fn write_seal(&self, segment: &Segment) -> std::io::Result<bool> {
        let (file, end) = (segment.file(), segment.end());
        let seal = {
            let contents = segment.contents();
            if contents.untrusted || file.size()? != end {
                return Ok(false);
            }
            Seal::new(end, &contents.reach, &contents.streams)
        };
        file.append(&[&seal.encode(segment.id())])?;
        Ok(true)
    }

    /// Gives a closed segment its name, unless a store was quicker; whether it did.
    pub(crate) fn rename_closed(&self, segment: &Segment) -> bool {
        let state = segment.contents().state;
        let is_due = matches!(state, State::Pending | State::Reserved) && self.of(&[segment.id()]).len() == 1;
        if is_due {
            self.rename(segment, "pending");
        }
        is_due
    }

    /// Says a segment's state in its file's name. The name helps a restart to do less; nothing rests on it.
    pub(crate) fn rename(&self, segment: &Segment, extension: &str) {
        let mut contents = segment.contents();
        let path = contents.path.with_extension(extension);
        match self.doors.fs.rename(&contents.path, &path) {
            Ok(()) => contents.path = path.into(),
            Err(error) => {
                if let Some(suppressed) = self.may_log(|errors| &errors.rename) {
                    warn!(path = %contents.path.display(), %error, suppressed, "cannot rename a queue segment");
                }
            }
        }
    }

    /// A free lane of the class, locked; for `fast` the first that nobody holds, so that little traffic makes one file.
    fn lane(&self, durability: Durability) -> (&Lane, MutexGuard<'_, Inner>) {
        let only = match durability {
            Durability::Durable => &self.durable,
            Durability::Bulk => &self.bulk,
            Durability::Fast => {
                for lane in &self.fast {
                    if let Some(inner) = lane.try_lock() {
                        return (lane, inner);
                    }
                }
                self.fast.last().unwrap_or(&self.durable)
            }
        };
        (only, only.lock())
    }

    /// Whether what waits is worth being taken.
    pub(crate) fn is_due(&self, due: Due, backlog: &Backlog) -> bool {
        // On a full disk all that waits is due: what a store makes of it is smaller.
        let pressed =
            self.closed.load(Ordering::Acquire) || self.is_full() || self.is_crowded() || self.has_too_many_segments();
        due.is_met(backlog) || (backlog.segments > 0 && pressed)
    }

    /// Rises with every append; for those who wait for something new.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::Acquire)
    }

    /// Refuses, and counts, what comes while nothing is accepted: for those who have not begun to read it.
    ///
    /// # Errors
    /// What an append would give.
    pub fn check_halt(&self) -> Result<(), Refusal> {
        let Some(halt) = self.refusing() else { return Ok(()) };
        self.metrics.refused.inc();
        Err(halt.into())
    }

    /// Room on the disk, when it was last looked at.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        u64::try_from(self.metrics.free_bytes.get()).unwrap_or_default()
    }

    /// The metrics, for those who count what they refuse before it gets here.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What clients are told when others have less to do.
    #[must_use]
    pub fn guide(&self) -> &Guide {
        &self.guide
    }

    /// Room on the disk below which nothing is accepted.
    #[must_use]
    pub fn free_bytes_min(&self) -> u64 {
        self.config.free_bytes_min
    }

    /// The segments whose records are not in the store, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<View> {
        let segments = self.readable();
        let wanted = segments.iter().filter(|segment| segment.state() != State::Committed);
        wanted.map(|segment| segment.view()).filter(|view| view.end > HEADER_LEN as u64).collect()
    }

    /// All segments that can still be read, oldest first: also those that are committed and will go soon, for whoever looks
    /// at the stores at another moment.
    #[must_use]
    pub fn readable(&self) -> Vec<Arc<Segment>> {
        lock(&self.segments).values().cloned().collect()
    }

    /// What waits for a store.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.backlog_of(&self.readable())
    }

    pub(crate) fn backlog_of(&self, segments: &[Arc<Segment>]) -> Backlog {
        let now = self.doors.clock.uptime();
        let mut backlog = Backlog::default();
        for segment in segments {
            let contents = segment.contents();
            if contents.state == State::Pending || contents.flushed {
                backlog.segments += 1;
                backlog.text_bytes += contents.reach.text_bytes;
                backlog.oldest = backlog.oldest.max(now.saturating_sub(segment.opened_at()));
                backlog.awaited |= !contents.on_commit.is_empty();
            }
        }
        backlog
    }

    /// The records of these segments are durable in the store. Ids that the queue does not have are passed over.
    pub fn commit(&self, ids: &[Id]) {
        for segment in self.of(ids) {
            let mut contents = segment.contents();
            if contents.state == State::Committed {
                continue;
            }
            contents.state = State::Committed;
            contents.lease = None;
            contents.committed_at = Some(self.doors.clock.uptime());
            let done = std::mem::take(&mut contents.on_commit);
            self.metrics.consumed_bytes.inc_by(contents.reach.text_bytes);
            let broken = !contents.damage.is_empty();
            drop(contents);
            self.rename(&segment, if broken { "damaged" } else { "committed" });
            if broken {
                self.quarantined(&segment);
            }
            // It is not known which of its frames stores have: clients that wait send theirs again.
            let kept = || match broken {
                true => Err(Refusal::Io("the segment was damaged before stores had all of it".to_owned())),
                false => Ok(()),
            };
            done.into_iter().for_each(|done| done(kept()));
        }
    }

    /// Forgets segments whose records retention has removed from the store. Without this they would be found again, here,
    /// until the grace of their files ends. Only committed segments are forgotten.
    pub fn forget(&self, ids: &[Id]) {
        for segment in self.of(ids) {
            if segment.state() == State::Committed {
                self.remove(&segment);
            }
        }
    }

    /// How many errors of a kind were suppressed, when one may be logged now.
    pub(crate) fn may_log(&self, error: fn(&Errors) -> &Repeats) -> Option<u64> {
        error(&self.errors).pass(self.doors.clock.uptime())
    }

    /// Notes the boot, unless that is done, or was tried within the last minute. See [`crate::boot`].
    pub(crate) fn note_boot(&self) {
        let noted = self.boot_noted.load(Ordering::Relaxed);
        if !noted && !self.is_full() && self.may_log(|errors| &errors.boot).is_some() {
            self.boot_noted.store(boot::note(&self.doors, &self.dir), Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, ids: &[Id]) -> Vec<Arc<Segment>> {
        let segments = lock(&self.segments);
        ids.iter().filter_map(|id| segments.get(id)).cloned().collect()
    }

    /// Lets a store take the active `bulk` segment. Until one asks it stays active: what clients flush while all stores are
    /// busy goes into one file, and not each into its own.
    pub fn flush_bulk(&self) {
        let inner = self.bulk.lock();
        let Some(open) = inner.open.as_ref().filter(|open| open.end > HEADER_LEN as u64) else { return };
        open.segment.contents().flushed = true;
        drop(inner);
        self.pended.notify_waiters();
    }

    /// Closes the active segment that was flushed, if there is one.
    pub(crate) fn seal_flushed(&self) {
        let mut inner = self.bulk.lock();
        if inner.open.as_ref().is_some_and(|open| open.segment.contents().flushed) {
            self.seal(&mut inner);
        }
    }

    /// Accepts nothing more, keeps the promises that are open, and closes all segments.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        while self.commit_group() {}
        for lane in self.lanes() {
            self.seal(&mut lane.lock());
        }
        while self.commit_group() {}
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.fast.iter().chain([&self.durable, &self.bulk])
    }
}
