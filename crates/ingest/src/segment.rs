//! A queue segment: written by one append slot, read by queries and stores.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::{File, FileCipher, lock};
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_segment::queue::{FramePosition, FrameReader, HEADER_LEN, SegmentScan, VERSION, frame_cipher, read_header};
use bucksaw_segment::{Damage, FileHeader, FrameHeader, ReadError, RecordSummary};

use crate::append::IngestError;
use crate::segment_file::SegmentFile;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SegmentState {
    /// An append slot writes to it, or is sealing it.
    Active,
    /// It waits for a store.
    Pending,
    /// A store has a lease on it. On disk it is `pending`.
    Reserved,
    /// Stores have its records.
    Committed,
}

impl SegmentState {
    pub(crate) const ALL: [Self; 4] = [Self::Active, Self::Pending, Self::Reserved, Self::Committed];

    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

/// A lease of another node, which expires because its holder may vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) holder: Id,
    /// The uptime at which it expires.
    pub(crate) expires_at: Duration,
}

/// Called once, when records have their durability or cannot get it.
pub(crate) type AckCallback = Box<dyn FnOnce(Result<(), IngestError>) + Send>;

/// One file of the queue.
pub struct QueueSegment {
    id: Id,
    pub(crate) file: Arc<dyn File>,
    /// The end of the last whole frame. Written after the frame is in the file and in `contents`, so a reader may read up to
    /// here.
    end: AtomicU64,
    /// The end of the bytes that are synced.
    synced_end: AtomicU64,
    /// Locked for short sections, never over disk I/O; after a slot and after the list of segments.
    contents: Mutex<SegmentContents>,
    pub(crate) opened_at: Duration,
    /// Set when a frame could not be read; the next tick scans the file.
    read_failed: Arc<AtomicBool>,
}

pub(crate) struct SegmentContents {
    pub(crate) state: SegmentState,
    pub(crate) file: SegmentFile,
    /// Streams and summary are shared with views, which each query takes of each segment.
    pub(crate) streams: Arc<Vec<Labels>>,
    /// Memory of the streams, approximately, in bytes.
    pub(crate) stream_bytes: u64,
    pub(crate) reach: Arc<RecordSummary>,
    /// The sum over all frames of the bytes of text times the seconds from [`QueueSegment::opened_at`] to the append.
    append_byte_seconds: f64,
    /// Damage between whole frames.
    pub(crate) damage: Vec<Damage>,
    /// The positions of the intact frames if there is damage between them.
    pub(crate) salvaged_frames: Option<Arc<Vec<FramePosition>>>,
    /// Clients that wait for the commit.
    pub(crate) on_commit: Vec<AckCallback>,
    pub(crate) committed_at: Option<Duration>,
    /// The lease, if another node has it.
    pub(crate) lease: Option<Lease>,
    /// How many attempts to read it failed.
    pub(crate) failed_reads: u32,
    /// Whether the name of the file is durable.
    pub(crate) is_name_synced: bool,
    /// Whether a request of a store for segments seals it, although it is active.
    pub(crate) is_flushed: bool,
    /// Whether a sync of the file failed. Such a file is not sealed, because a power cut may remove frames.
    pub(crate) has_failed_sync: bool,
    /// The times of the first and last record that the file should have, if known.
    pub(crate) span: Option<(Millis, Millis)>,
}

impl QueueSegment {
    pub(crate) fn new(id: Id, file: Arc<dyn File>, path: PathBuf, opened_at: Duration) -> Self {
        let contents = SegmentContents {
            state: SegmentState::Active,
            file: SegmentFile::new(path.into()),
            streams: Arc::default(),
            stream_bytes: 0,
            reach: Arc::default(),
            append_byte_seconds: 0.0,
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
        Self {
            id,
            file,
            end: AtomicU64::new(HEADER_LEN as u64),
            synced_end: AtomicU64::new(0),
            contents: Mutex::new(contents),
            opened_at,
            read_failed: Arc::default(),
        }
    }

    /// The id; its time is that of the file's creation.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Its state.
    pub fn state(&self) -> SegmentState {
        self.contents().state
    }

    /// The end of the last whole frame, in bytes.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Passes its state and summary to `read`; `None` while it has no records.
    pub fn with_summary<R>(&self, read: impl FnOnce(SegmentState, &RecordSummary) -> R) -> Option<R> {
        let contents = self.contents();
        (self.end() > HEADER_LEN as u64).then(|| read(contents.state, &contents.reach))
    }

    /// A view of the bytes that are readable now.
    pub fn view(&self) -> SegmentView {
        // Reads the end first. Frames published later may appear in the contents; readers ignore them.
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

    pub(crate) fn contents(&self) -> MutexGuard<'_, SegmentContents> {
        lock(&self.contents)
    }

    /// The sum over all records of the bytes of text times the seconds from the append, or the recovery, to the uptime `now`.
    pub(crate) fn byte_seconds(&self, contents: &SegmentContents, now: Duration) -> f64 {
        let since_open = now.saturating_sub(self.opened_at).as_secs_f64();
        (contents.reach.text_bytes as f64 * since_open - contents.append_byte_seconds).max(0.0)
    }

    /// Whether reading a frame failed since the last call.
    pub(crate) fn take_read_failure(&self) -> bool {
        self.read_failed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn synced_end(&self) -> u64 {
        self.synced_end.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced_end(&self, end: u64) {
        self.synced_end.fetch_max(end, Ordering::AcqRel);
    }

    /// Makes a written frame readable. `now` is the uptime.
    pub(crate) fn publish(
        &self,
        end: u64,
        (frame, row_meta): (&FrameHeader, &[u8]),
        stream: Option<&Labels>,
        now: Duration,
    ) {
        let mut contents = self.contents();
        contents.append_byte_seconds += f64::from(frame.text_len()) * now.saturating_sub(self.opened_at).as_secs_f64();
        if let Some(stream) = stream {
            contents.stream_bytes += stream_bytes(stream);
            Arc::make_mut(&mut contents.streams).push(stream.clone());
        }
        Arc::make_mut(&mut contents.reach).add_frame(frame, row_meta);
        drop(contents);
        self.end.store(end, Ordering::Release);
    }

    /// Sets the end of the whole frames: after recovery, or to a lower value when the rest is readable in another file.
    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }
}

/// Memory that the index of a segment takes for a stream, in bytes: its labels, and its number while the segment is active.
pub(crate) fn stream_bytes(labels: &Labels) -> u64 {
    const STREAM_BYTES: u64 = 160;
    const LABEL_BYTES: u64 = 64;
    let label = |(name, value): (&str, &str)| LABEL_BYTES + (name.len() + value.len()) as u64;
    STREAM_BYTES + labels.iter().map(label).sum::<u64>()
}

/// The readable part of a segment at one moment. It stays readable when the file is removed.
#[derive(Clone, Debug)]
pub struct SegmentView {
    /// The id of the segment.
    pub id: Id,
    file: Arc<dyn File>,
    path: Arc<Path>,
    /// The end of the last whole frame.
    pub end: u64,
    streams: Arc<Vec<Labels>>,
    /// A summary of at least these records.
    pub reach: Arc<RecordSummary>,
    /// Damage between whole frames.
    pub damage: Vec<Damage>,
    salvaged_frames: Option<Arc<Vec<FramePosition>>>,
    read_failed: Arc<AtomicBool>,
}

impl SegmentView {
    /// A view of a scanned file that came from another node.
    pub fn from_scan(id: Id, file: Arc<dyn File>, path: PathBuf, found: SegmentScan) -> Self {
        Self {
            id,
            file,
            path: path.into(),
            end: found.end,
            streams: Arc::new(found.streams),
            reach: Arc::new(found.summary),
            damage: found.damage,
            salvaged_frames: Some(Arc::new(found.positions)),
            read_failed: Arc::default(),
        }
    }

    /// Up to `bytes_max` bytes of the file from `at`; fewer only at the end of the whole frames.
    pub(crate) fn read_bytes(&self, at: u64, bytes_max: usize) -> std::io::Result<Vec<u8>> {
        self.file.read_bytes(at, self.end.saturating_sub(at).min(bytes_max as u64) as usize)
    }

    /// The version of the file; the newest if its header is damaged.
    pub fn version(&self) -> u32 {
        read_header(&*self.file, &self.path).map_or(VERSION, FileHeader::content_version)
    }

    /// Encrypts frames of the segment; `None` if the node has no keys.
    pub(crate) fn cipher(&self) -> Option<Arc<dyn FileCipher>> {
        frame_cipher(&*self.file, self.id)
    }

    /// Reports that a frame could not be read. The queue then scans the file for damage.
    pub fn report_unreadable(&self) {
        self.read_failed.store(true, Ordering::Relaxed);
    }

    /// The path of the file when the view was taken.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The streams of the file.
    pub fn streams(&self) -> &[Labels] {
        &self.streams
    }

    /// Reads the frames from offset `from`: [`HEADER_LEN`] for all, or the end of an earlier read.
    pub fn frames(&self, from: u64) -> FrameReader {
        let (file, path) = (Arc::clone(&self.file), self.path.to_path_buf());
        FrameReader::new(file, path, self.id, from, self.end, self.streams.to_vec())
    }

    /// The positions of the intact frames, if there is damage between them.
    pub fn salvaged_frames(&self) -> Option<&[FramePosition]> {
        self.salvaged_frames.as_deref().map(Vec::as_slice)
    }

    /// The positions of all record frames, and the streams by number.
    ///
    /// # Errors
    /// [`ReadError`] if the frames cannot be read.
    pub fn frame_positions(&self) -> Result<(Vec<FramePosition>, Vec<Labels>), ReadError> {
        match &self.salvaged_frames {
            Some(positions) => Ok((positions.to_vec(), self.streams.to_vec())),
            None => {
                bucksaw_segment::queue::index_frames(&self.file, &self.path, self.id, self.end, self.streams.to_vec())
            }
        }
    }
}
