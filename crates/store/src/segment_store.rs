//! The segment store: the list of its segments, and how a new one enters it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Env, LogLimits, lock, log_limited, set_gauge};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::FileHeader;
use bucksaw_segment::stored::{Reader, ReplicaGroup, SegmentOrigin, Writer};

use crate::backlog::CompactionBacklog;
use crate::batch_sink::BatchSink;
use crate::clock_guard::{ClockGuard, Suspension};
use crate::config::Config;
use crate::encryption_status::KeylessSegment;
use crate::erasure::ErasureBook;
use crate::error::StoreError;
use crate::foreground::Foreground;
use crate::gather_batch_size::GatherBatchSize;
use crate::index_memory::StoreIndexMemory;
use crate::metrics::Metrics;
use crate::name;
use crate::segment_list::SegmentList;
use crate::store::{Store, TrashedSegment};
use crate::stored_segment::{DamagedSegment, StoredSegment};
use crate::temp_file::{TempFile, remove_file};
use crate::throttle::BackgroundThrottle;

/// The segment store of one node. Gathering, compaction, retention and queries share it.
#[derive(Debug)]
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
    /// Replaced as a whole, so that a query works on one snapshot.
    pub(crate) segments: Mutex<Arc<SegmentList>>,
    /// Segments that were removed since the start and not replaced.
    pub(crate) removals: AtomicU64,
    /// Differs for each start.
    pub(crate) start_id: u64,
    pub(crate) quarantined_files: Mutex<Vec<DamagedSegment>>,
    /// Encrypted segments whose keys are unknown.
    pub(crate) keyless: Mutex<Vec<KeylessSegment>>,
    pub(crate) receiving: Mutex<BTreeSet<Id>>,
    /// The time up to which retention by size has removed records.
    pub(crate) evicted_until: Mutex<Millis>,
    /// Held with no other lock.
    pub(crate) clock_guard: Mutex<ClockGuard>,
    /// The trusted time in `clock.json`.
    pub(crate) clock_persisted: Mutex<Millis>,
    pub(crate) suspension: Mutex<Option<Suspension>>,
    pub(crate) stored_bytes_at_open: u64,
    pub(crate) index_memory: StoreIndexMemory,
    /// Replaced as a whole, like `segments`.
    pub(crate) trashed: Mutex<Arc<Vec<TrashedSegment>>>,
    pub(crate) gather_batch_size: GatherBatchSize,
    pub(crate) log_limits: LogLimits,
    pub(crate) erasures: Arc<ErasureBook>,
    pub(crate) sink: Option<Arc<dyn BatchSink>>,
}

/// A segment file that is being written. Dropping it removes the file.
pub(crate) struct SegmentDraft {
    pub(crate) writer: Writer,
    pub(crate) file: TempFile,
}

impl SegmentStore {
    /// A store whose batches a sink gets, too.
    #[must_use]
    pub fn with_sink(self, sink: Option<Arc<dyn BatchSink>>) -> Self {
        Self { sink, ..self }
    }

    /// A snapshot of the segments, by lowest id.
    pub fn segments(&self) -> Arc<SegmentList> {
        Arc::clone(&lock(&self.segments))
    }

    /// Files whose footer cannot be read. Answers over their time are partial unless they are re-replicated.
    pub fn quarantined_files(&self) -> Vec<DamagedSegment> {
        lock(&self.quarantined_files).clone()
    }

    /// Quarantined files and segments with damaged blocks, also those that are re-replicated.
    pub fn damaged_segments(&self) -> Vec<DamagedSegment> {
        let mut damage = self.quarantined_files();
        damage.extend(self.segments().iter().filter_map(|segment| segment.damage()));
        damage
    }

    /// Bytes of all segment files.
    pub fn file_bytes(&self) -> u64 {
        self.segments().iter().map(|segment| segment.file_bytes()).sum()
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.env.clock.unix_ms())
    }

    /// A draft of this version, for records that a group of stores has.
    pub(crate) fn create_draft(&self, version: u32, group: Option<ReplicaGroup>) -> Result<SegmentDraft, StoreError> {
        let file = TempFile::create(&self.env, &self.dir).map_err(StoreError::io("create a file in", &self.dir))?;
        let header = FileHeader { id: file.id, version };
        let writer = Writer::start(Arc::clone(&file.file), header).map_err(StoreError::io("write", &file.path))?;
        Ok(SegmentDraft { writer: writer.with_replicas(group), file })
    }

    pub(crate) fn remove_file(&self, path: &Path) {
        remove_file(&self.env, path);
    }

    /// Seals a draft and renames it to its final name. It is durable only after the directory is synced too.
    pub(crate) fn seal(&self, draft: SegmentDraft, origin: SegmentOrigin) -> Result<PathBuf, StoreError> {
        let SegmentDraft { writer, file } = draft;
        let reach = writer.summary();
        let sealed = self.dir.join(name::file_name(reach.low.time(), reach.high.time(), file.id, "seg"));
        writer.seal(origin).map_err(StoreError::io("write", &file.path))?;
        self.env.fs.rename(&file.path, &sealed).map_err(StoreError::io("rename", &file.path))?;
        Ok(sealed)
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
            sealed.iter().for_each(|path| self.remove_file(path));
        }
        opened
    }

    /// Replaces old segments by new ones in one step.
    pub(crate) fn replace_segments(&self, new: &[Arc<StoredSegment>], old: &[Id]) {
        let mut segments = lock(&self.segments);
        // Before the list: see `ShareFilter`.
        if new.is_empty() {
            self.removals.fetch_add(old.len() as u64, Ordering::SeqCst);
        }
        let retained = segments.iter().filter(|segment| !old.contains(&segment.id()));
        let list = segments.next(retained.chain(new).cloned().collect());
        let became_high = self.index_memory.update(&list, self.config.index_bytes_max);
        *segments = Arc::new(list);
        drop(segments);
        if became_high {
            let (bytes, bytes_max) = (self.index_memory.bytes(), self.config.index_bytes_max);
            log_limited!(
                self.log_limits,
                warn,
                bytes,
                bytes_max,
                "the index of stored segments takes more than three quarters of its memory: when that is used up, nothing is \
                 accepted; raise --memory-limit, or lower --retention-bytes or --retention-age"
            );
        }
        self.update_metrics();
    }

    pub(crate) fn update_metrics(&self) {
        let (metrics, status) = (&self.metrics, self.status());
        set_gauge(&metrics.segments, status.segments as u64);
        set_gauge(&metrics.stored_bytes, status.stored_bytes);
        set_gauge(&metrics.text_bytes, status.text_bytes);
        set_gauge(&metrics.index_bytes, status.index_bytes);
        set_gauge(&metrics.rebuilt, status.rebuilt_segments as u64);
        self.update_encryption_metrics(&status.encryption);
        let damage = status.quarantined_files.iter().chain(&status.damaged_segments);
        let (re_replicated, damaged): (Vec<_>, Vec<_>) = damage.partition(|damage| damage.is_re_replicated());
        set_gauge(&metrics.damaged, damaged.len() as u64);
        set_gauge(&metrics.damaged_re_replicated, re_replicated.len() as u64);
    }
}
