//! A queue segment as the processes of the node share it: written by one lane, read by queries and the store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_segment::queue::{FramePosition, FrameReader, HEADER_LEN, SegmentScan};
use bucksaw_segment::{Damage, ReadError, RecordSummary, Rows};

use crate::IngestError;
use crate::segment_file::SegmentFile;
use crate::stream_bytes::stream_bytes;

/// What is being done with a segment. The first word of each is its name on disk, in metrics and in `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentState {
    /// A lane appends to it.
    Active,
    /// It waits for a store.
    Pending,
    /// A store is taking it. On disk it is still `pending`.
    Reserved,
    /// Its records are in the store.
    Committed,
}

impl SegmentState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Pending, Self::Reserved, Self::Committed];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Reserved => "reserved",
            Self::Committed => "committed",
        }
    }
}

/// A reservation by another node: it may never hear of its end, so it ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The other node.
    pub(crate) holder: Id,
    /// When it ends, by the uptime.
    pub(crate) expires_at: Duration,
}

/// Told once, when the promise holds or cannot be kept.
pub(crate) type AckCallback = Box<dyn FnOnce(Result<(), IngestError>) + Send>;

/// One file of the queue.
pub struct QueueSegment {
    id: Id,
    file: Arc<dyn File>,
    /// Where the last whole frame ends. Written after the frame is in the file and in `contents`, so whoever reads this
    /// may read so far.
    end: AtomicU64,
    /// Where the bytes that are known to be synced end.
    synced_end: AtomicU64,
    /// Short sections only; taken after the lane's lock and after the queue's, never before them.
    contents: Mutex<SegmentContents>,
    opened_at: Duration,
    /// Set when a frame could not be read; the next tick looks through the file.
    read_failed: Arc<AtomicBool>,
}

pub(crate) struct SegmentContents {
    pub(crate) state: SegmentState,
    pub(crate) file: SegmentFile,
    /// The streams and the reach are shared with the views: each query takes a view of each segment.
    pub(crate) streams: Arc<Vec<Labels>>,
    /// Memory that the streams take, about.
    pub(crate) stream_bytes: u64,
    pub(crate) reach: Arc<RecordSummary>,
    /// Set after a crash when something lies broken between whole frames.
    pub(crate) damage: Vec<Damage>,
    /// The whole frames, when they do not simply follow each other.
    pub(crate) salvaged_frames: Option<Arc<Vec<FramePosition>>>,
    /// Who waits until the store has committed.
    pub(crate) on_commit: Vec<AckCallback>,
    pub(crate) committed_at: Option<Duration>,
    /// Who has it reserved, when that is another node.
    pub(crate) lease: Option<Lease>,
    /// How often it could not be read.
    pub(crate) failed_reads: u32,
    /// Whether the name of the file is durable.
    pub(crate) is_name_synced: bool,
    /// Whether it is to be taken though it is active: it is sealed when a store asks for something.
    pub(crate) is_flushed: bool,
    /// Whether a sync of the file has failed: it is not sealed then, because frames in it may be lost at a power cut.
    pub(crate) has_failed_sync: bool,
    /// From when to when the records are that the file should hold, in Unix milliseconds, where that is known.
    pub(crate) span: Option<(Millis, Millis)>,
}

impl std::fmt::Debug for QueueSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment").field("id", &self.id).field("end", &self.end).finish_non_exhaustive()
    }
}

impl QueueSegment {
    pub(crate) fn new(id: Id, file: Arc<dyn File>, path: PathBuf, opened_at: Duration) -> Self {
        let contents = SegmentContents {
            state: SegmentState::Active,
            file: SegmentFile::new(path.into()),
            streams: Arc::default(),
            stream_bytes: 0,
            reach: Arc::default(),
            damage: Vec::new(),
            salvaged_frames: None,
            on_commit: Vec::new(),
            committed_at: None,
            lease: None,
            failed_reads: 0,
            is_name_synced: false,
            is_flushed: false,
            has_failed_sync: false,
            span: None,
        };
        let end = AtomicU64::new(HEADER_LEN as u64);
        Self {
            id,
            file,
            end,
            synced_end: AtomicU64::new(0),
            contents: Mutex::new(contents),
            opened_at,
            read_failed: Arc::default(),
        }
    }

    /// The id of the segment; its time is when it was opened.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// What is being done with it.
    #[must_use]
    pub fn state(&self) -> SegmentState {
        self.contents().state
    }

    /// Bytes of whole frames, and of the file's header.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// What is being done with it, and what its records reach over, without a view of it; `None` while it has none.
    pub fn with_summary<R>(&self, read: impl FnOnce(SegmentState, &RecordSummary) -> R) -> Option<R> {
        let contents = self.contents();
        (self.end() > HEADER_LEN as u64).then(|| read(contents.state, &contents.reach))
    }

    /// What can be read of it now.
    #[must_use]
    pub fn view(&self) -> SegmentView {
        // The end first: what is published behind it meanwhile is in the contents as well, which does no harm.
        let end = self.end();
        let contents = self.contents();
        SegmentView {
            id: self.id,
            file: Arc::clone(&self.file),
            path: Arc::clone(&contents.file.path),
            end,
            streams: Arc::clone(&contents.streams),
            reach: Arc::clone(&contents.reach),
            damage: contents.damage.clone(),
            salvaged_frames: contents.salvaged_frames.clone(),
            read_failed: Arc::clone(&self.read_failed),
        }
    }

    pub(crate) fn contents(&self) -> std::sync::MutexGuard<'_, SegmentContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Whether a frame could not be read since this was last asked.
    pub(crate) fn take_read_failure(&self) -> bool {
        self.read_failed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn opened_at(&self) -> Duration {
        self.opened_at
    }

    pub(crate) fn synced_end(&self) -> u64 {
        self.synced_end.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced_end(&self, end: u64) {
        self.synced_end.fetch_max(end, Ordering::AcqRel);
    }

    /// Makes a frame that is in the file readable.
    pub(crate) fn publish(&self, end: u64, rows: &Rows, text_bytes: usize, stream: Option<&Labels>) {
        let mut contents = self.contents();
        if let Some(stream) = stream {
            contents.stream_bytes += stream_bytes(stream);
            Arc::make_mut(&mut contents.streams).push(stream.clone());
        }
        Arc::make_mut(&mut contents.reach).add(rows, text_bytes);
        drop(contents);
        self.end.store(end, Ordering::Release);
    }

    /// Says where the whole frames end: after a recovery, or lower than before when what lies behind is readable elsewhere.
    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }
}

/// What was readable of a segment at one moment. Reading stays possible when the file is removed.
#[derive(Clone, Debug)]
pub struct SegmentView {
    /// The segment.
    pub id: Id,
    file: Arc<dyn File>,
    path: Arc<Path>,
    /// Where the last whole frame ends.
    pub end: u64,
    streams: Arc<Vec<Labels>>,
    /// What the records reach over, at the least.
    pub reach: Arc<RecordSummary>,
    /// What is broken in it, after a crash.
    pub damage: Vec<Damage>,
    salvaged_frames: Option<Arc<Vec<FramePosition>>>,
    read_failed: Arc<AtomicBool>,
}

impl SegmentView {
    /// A view of a file that was surveyed: one that came from another node.
    #[must_use]
    pub fn from_scan(id: Id, file: Arc<dyn File>, path: PathBuf, survey: SegmentScan) -> Self {
        let SegmentScan { positions: places, streams, summary: reach, end, damage, .. } = survey;
        Self {
            id,
            file,
            path: path.into(),
            end,
            streams: Arc::new(streams),
            reach: Arc::new(reach),
            damage,
            salvaged_frames: Some(Arc::new(places)),
            read_failed: Arc::default(),
        }
    }

    /// Bytes of the file, from `at` on; fewer than `most` only at the end of the whole frames.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_bytes(&self, at: u64, most: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.end.saturating_sub(at).min(most as u64) as usize];
        self.file.read_exact_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reports that a frame could not be read, so that the queue looks through the file and counts what is damaged.
    pub fn report_unreadable(&self) {
        self.read_failed.store(true, Ordering::Relaxed);
    }

    /// Where the file was when the view was taken.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's streams so far.
    #[must_use]
    pub fn streams(&self) -> &[Labels] {
        &self.streams
    }

    /// A walk over the frames from `from` on: [`HEADER_LEN`] for all, or where an earlier walk ended.
    #[must_use]
    pub fn frames(&self, from: u64) -> FrameReader {
        FrameReader::new(
            Arc::clone(&self.file),
            self.path.to_path_buf(),
            self.id,
            from,
            self.end,
            self.streams.to_vec(),
        )
    }

    /// Where the whole frames are, when something lies broken between them; else they follow each other.
    #[must_use]
    pub fn salvaged_frames(&self) -> Option<&[FramePosition]> {
        self.salvaged_frames.as_deref().map(Vec::as_slice)
    }

    /// Where all record frames are, with the streams by number.
    ///
    /// # Errors
    /// [`ReadError`] when the frames cannot be read.
    pub fn frame_positions(&self) -> Result<(Vec<FramePosition>, Vec<Labels>), ReadError> {
        match &self.salvaged_frames {
            Some(places) => Ok((places.to_vec(), self.streams.to_vec())),
            None => {
                bucksaw_segment::queue::index_frames(&self.file, &self.path, self.id, self.end, self.streams.to_vec())
            }
        }
    }
}
