//! The segment store: the list of its segments, and how a new one enters it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Env, LogRateLimiter};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_segment::stored::{Reader, SegmentOrigin, Writer};
use tracing::warn;

use crate::backlog::CompactionBacklog;
use crate::clock_guard::{ClockGuard, Suspension};
use crate::config::Config;
use crate::error::StoreError;
use crate::foreground::Foreground;
use crate::gather_batch_size::GatherBatchSize;
use crate::index_memory::StoreIndexMemory;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::name;
use crate::stored_segment::{DamagedSegment, StoredSegment};
use crate::throttle::BackgroundThrottle;
use crate::trashed_segment::TrashedSegment;

/// The segment store of one node. Gathering, compaction, retention and queries share it.
pub struct SegmentStore {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) foreground: Arc<Foreground>,
    pub(crate) gather_throttle: BackgroundThrottle,
    pub(crate) merge_throttle: BackgroundThrottle,
    pub(crate) repair_throttle: BackgroundThrottle,
    pub(crate) backlog: CompactionBacklog,
    /// By lowest id. Replaced as a whole, so that a query works on one snapshot.
    pub(crate) segments: Mutex<Arc<Vec<Arc<StoredSegment>>>>,
    pub(crate) quarantined_files: Mutex<Vec<DamagedSegment>>,
    /// Ids of the segments that are being received.
    pub(crate) receiving: Mutex<BTreeSet<Id>>,
    /// The time up to which retention by size has removed records.
    pub(crate) evicted_until: Mutex<Millis>,
    /// Held with no other lock.
    pub(crate) clock_guard: Mutex<ClockGuard>,
    /// The trusted time in `clock.json`.
    pub(crate) clock_persisted: Mutex<Millis>,
    pub(crate) suspension: Mutex<Option<Suspension>>,
    pub(crate) is_short_of_descriptors: AtomicBool,
    /// Bytes of the segment files when the store was opened.
    pub(crate) stored_bytes_at_open: u64,
    pub(crate) index_memory: StoreIndexMemory,
    /// Replaced as a whole, like `segments`.
    pub(crate) trashed: Mutex<Arc<Vec<TrashedSegment>>>,
    pub(crate) gather_batch_size: GatherBatchSize,
    pub(crate) log_limits: StoreLogLimits,
}

/// Recurring errors. Each is logged at most once a minute.
#[derive(Debug, Default)]
pub(crate) struct StoreLogLimits {
    pub(crate) discard: LogRateLimiter,
    pub(crate) trash: LogRateLimiter,
    pub(crate) expired: LogRateLimiter,
    pub(crate) emptied: LogRateLimiter,
    pub(crate) clock: LogRateLimiter,
    pub(crate) replicate: LogRateLimiter,
    pub(crate) ack: LogRateLimiter,
    pub(crate) repair: LogRateLimiter,
    pub(crate) descriptors: LogRateLimiter,
    pub(crate) index: LogRateLimiter,
}

impl std::fmt::Debug for SegmentStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A segment file that is being written.
pub(crate) struct SegmentDraft {
    pub(crate) writer: Writer,
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
}

impl SegmentStore {
    /// Bytes of the segment files when the store was opened.
    #[must_use]
    pub fn stored_bytes_at_open(&self) -> u64 {
        self.stored_bytes_at_open
    }

    /// A snapshot of the segments, by lowest id.
    #[must_use]
    pub fn segments(&self) -> Arc<Vec<Arc<StoredSegment>>> {
        Arc::clone(&lock(&self.segments))
    }

    /// Marks work that a client waits for; background work is throttled meanwhile.
    #[must_use]
    pub fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    /// On how many stores each record is kept.
    #[must_use]
    pub fn replication_factor(&self) -> usize {
        self.config.replication_factor.max(1)
    }

    /// Whether the compaction backlog is above its limit, so that background work is not throttled.
    #[must_use]
    pub fn is_backlogged(&self) -> bool {
        self.backlog.is_exceeded()
    }

    /// Ends all throttling, also of running work: the node is stopping.
    pub fn stop_throttling(&self) {
        self.gather_throttle.disable();
        self.merge_throttle.disable();
        self.repair_throttle.disable();
    }

    /// Files whose footer cannot be read. Answers over their time are partial unless they are re-replicated.
    #[must_use]
    pub fn quarantined_files(&self) -> Vec<DamagedSegment> {
        lock(&self.quarantined_files).clone()
    }

    /// Quarantined files and segments with damaged blocks, also those that are re-replicated.
    #[must_use]
    pub fn damaged_segments(&self) -> Vec<DamagedSegment> {
        let mut damage = self.quarantined_files();
        damage.extend(self.segments().iter().filter_map(|segment| segment.damage()));
        damage
    }

    /// Bytes of all segment files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.segments().iter().map(|segment| segment.file_bytes()).sum()
    }

    /// The number of suppressed log lines, if one may be logged now.
    pub(crate) fn may_log(&self, error: fn(&StoreLogLimits) -> &LogRateLimiter) -> Option<u64> {
        error(&self.log_limits).check(self.env.clock.uptime())
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.env.clock.unix_ms())
    }

    pub(crate) fn new_id(&self) -> Id {
        Id::new(self.now(), Producer::random(self.env.entropy.next_u64()), 0)
    }

    pub(crate) fn create_draft(&self) -> std::io::Result<SegmentDraft> {
        let id = self.new_id();
        let path = self.dir.join(format!("{id}.tmp"));
        let file = self.env.fs.create(&path)?;
        match Writer::start(file, id) {
            Ok(writer) => Ok(SegmentDraft { writer, id, path }),
            Err(error) => {
                self.discard(&path);
                Err(error)
            }
        }
    }

    pub(crate) fn discard(&self, path: &Path) {
        if let Err(error) = self.env.fs.remove(path)
            && let Some(suppressed) = self.may_log(|errors| &errors.discard)
        {
            warn!(path = %path.display(), %error, suppressed, "cannot remove a file that is not needed");
        }
    }

    /// Seals a draft and renames it to its final name. It is durable only after the directory is synced too.
    pub(crate) fn seal(&self, draft: SegmentDraft, origin: SegmentOrigin) -> Result<PathBuf, StoreError> {
        let SegmentDraft { writer, id, path } = draft;
        let reach = writer.summary();
        let sealed = self.dir.join(name::file_name(reach.low.time(), reach.high.time(), id, "seg"));
        let sealed_file = writer
            .seal(origin)
            .map_err(StoreError::io("write", &path))
            .and_then(|_| self.env.fs.rename(&path, &sealed).map_err(StoreError::io("rename", &path)));
        match sealed_file {
            Ok(()) => Ok(sealed),
            Err(error) => {
                self.discard(&path);
                Err(error)
            }
        }
    }

    /// Opens a written file, which also checks it.
    fn read_back(&self, path: &Path) -> Result<Arc<StoredSegment>, StoreError> {
        let file = self.env.fs.open(path).map_err(StoreError::io("open", path))?;
        let reader = Reader::open(file, path).map_err(StoreError::ReadBack)?;
        self.metrics.written_bytes.inc_by(reader.file_bytes());
        Ok(Arc::new(StoredSegment::new(reader)))
    }

    /// Syncs the names of sealed files and opens them; removes them all on failure.
    pub(crate) fn sync_and_open(&self, sealed: &[PathBuf]) -> Result<Vec<Arc<StoredSegment>>, StoreError> {
        let synced = self.env.fs.sync_dir(&self.dir).map_err(StoreError::io("sync", &self.dir));
        let opened = synced.and_then(|()| sealed.iter().map(|path| self.read_back(path)).collect());
        if opened.is_err() {
            sealed.iter().for_each(|path| self.discard(path));
        }
        opened
    }

    /// Replaces old segments by new ones in one step.
    pub(crate) fn replace_segments(&self, new: &[Arc<StoredSegment>], old: &[Id]) {
        let mut segments = lock(&self.segments);
        let retained = segments.iter().filter(|segment| !old.contains(&segment.id()));
        let mut list: Vec<Arc<StoredSegment>> = retained.chain(new).cloned().collect();
        list.sort_by_key(|segment| (segment.reach().low, segment.id()));
        let became_high = self.index_memory.update(&list, self.config.index_bytes_max);
        *segments = Arc::new(list);
        drop(segments);
        if became_high && let Some(suppressed) = self.may_log(|errors| &errors.index) {
            let (bytes, bytes_max) = (self.index_memory.bytes(), self.config.index_bytes_max);
            warn!(
                bytes,
                bytes_max,
                suppressed,
                "the index of stored segments takes more than three quarters of its memory: when that is used up, nothing is \
                 accepted; raise --memory-limit, or lower --retention-bytes or --retention-age"
            );
        }
        self.update_metrics();
    }

    /// Sets whether more open files would take the descriptors of connections. Meanwhile the store accepts nothing from
    /// other nodes; merges and retention continue and reduce the number of files.
    pub fn set_short_of_descriptors(&self, is_short: bool) {
        self.is_short_of_descriptors.store(is_short, Ordering::Relaxed);
    }

    /// Memory of the index: what is kept in memory of all segments.
    #[must_use]
    pub fn index_memory(&self) -> &StoreIndexMemory {
        &self.index_memory
    }

    /// Maximum of [`Self::index_memory`], in bytes.
    #[must_use]
    pub fn index_bytes_max(&self) -> u64 {
        self.config.index_bytes_max
    }

    /// See [`Self::set_short_of_descriptors`].
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.is_short_of_descriptors.load(Ordering::Relaxed)
    }

    /// Removes a segment whose records are elsewhere.
    pub(crate) fn remove_segment(&self, segment: &StoredSegment) {
        self.replace_segments(&[], &[segment.id()]);
        self.discard(segment.reader().path());
    }

    pub(crate) fn update_metrics(&self) {
        let segments = self.segments();
        let gauge = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.metrics.segments.set(gauge(segments.len() as u64));
        self.metrics.stored_bytes.set(gauge(segments.iter().map(|segment| segment.file_bytes()).sum()));
        self.metrics.text_bytes.set(gauge(segments.iter().map(|segment| segment.reach().text_bytes).sum()));
        self.metrics.index_bytes.set(gauge(self.index_memory.bytes()));
        let rebuilt = segments.iter().filter(|segment| segment.has_rebuilt_damage()).count();
        self.metrics.rebuilt.set(gauge(rebuilt as u64));
        let (re_replicated, damaged): (Vec<DamagedSegment>, Vec<DamagedSegment>) =
            self.damaged_segments().into_iter().partition(DamagedSegment::is_re_replicated);
        self.metrics.damaged.set(gauge(damaged.len() as u64));
        self.metrics.damaged_re_replicated.set(gauge(re_replicated.len() as u64));
    }
}
