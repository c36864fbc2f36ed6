//! An append slot: one active segment, and the records that wait for its sync.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use bucksaw_env::{Clock, FileCipher, lock};
use bucksaw_record::Labels;
use bucksaw_segment::{FrameHeader, FrameKind};
use tokio::sync::Notify;

use crate::append::{Durability, FrameRecords};
use crate::empty_segment_file::EmptySegmentFile;
use crate::segment::{AckCallback, QueueSegment};
use crate::stall::RunningSince;

/// An active segment and its unsynced records, under two locks.
///
/// `writer` is held while a file is created and while a frame is written. Only threads that write to the same segment wait for
/// it, because the frames of a file have one order. All others use `state`, which is never held over disk I/O, and leave it to
/// the writer to close the segment ([`Self::close_if`]).
pub(crate) struct AppendSlot {
    pub(crate) durability: Durability,
    /// The active segment. Locked before `state`.
    writer: Mutex<Option<ActiveSegment>>,
    state: Mutex<AppendSlotState>,
    /// Set while a thread writes.
    pub(crate) write: RunningSince,
    /// The version of the last file. The next one gets it too, so that records of several lines among others do not close a
    /// file each time.
    pub(crate) version: AtomicU32,
    /// Notified when no thread seals a segment of this slot any more.
    all_sealed: Condvar,
    /// Notified when records wait for a sync.
    unsynced_notify: Notify,
    /// Notified when a file may have to be renamed or created; of the durable slot only.
    rotation_notify: Notify,
}

#[derive(Default)]
pub(crate) struct AppendSlotState {
    /// The active segment, for readers without the writer's lock.
    pub(crate) active: Option<Arc<QueueSegment>>,
    /// Whether the thread that has the writer closes the active segment when it releases it.
    is_close_requested: bool,
    /// `durable` records that are written but not synced, oldest first.
    pub(crate) unsynced: Vec<UnsyncedRecords>,
    pub(crate) unsynced_bytes: u64,
    /// The segments that running group commits sync, once for each.
    committing: Vec<Arc<QueueSegment>>,
    /// Closed segments without a seal. The thread that closes one calls [`Queue::seal_closed`] after it has released the writer.
    ///
    /// [`Queue::seal_closed`]: crate::Queue
    closed: Vec<Arc<QueueSegment>>,
    /// The number of segments that threads are sealing.
    sealing: usize,
    /// Sealed segments that are renamed when their seal is synced; of the durable slot only.
    sealed_unrenamed: Vec<Arc<QueueSegment>>,
    /// Whether the file of the next segment is to be created; of the durable slot only.
    pub(crate) is_next_requested: bool,
    /// The file of the next segment; of the durable slot only.
    pub(crate) next_file: Option<EmptySegmentFile>,
}

/// The active segment of a slot.
pub(crate) struct ActiveSegment {
    pub(crate) segment: Arc<QueueSegment>,
    pub(crate) end: u64,
    pub(crate) version: u32,
    stream_numbers: HashMap<Labels, u32>,
    /// Encrypts the frames, if the node has keys.
    cipher: Option<Arc<dyn FileCipher>>,
    /// Whether the file of the next segment was requested.
    pub(crate) has_requested_next: bool,
}

/// Records that are written but not synced. They stay in memory until the sync, because the kernel may drop their pages after
/// a failed one; then they are written to another file.
pub(crate) struct UnsyncedRecords {
    pub(crate) segment: Arc<QueueSegment>,
    pub(crate) labels: Labels,
    pub(crate) header: FrameHeader,
    pub(crate) body: Vec<u8>,
    pub(crate) attempts: u32,
    pub(crate) on_ack: AckCallback,
}

impl AppendSlot {
    pub(crate) fn new(durability: Durability) -> Self {
        Self {
            durability,
            writer: Mutex::default(),
            state: Mutex::default(),
            write: RunningSince::default(),
            version: AtomicU32::new(1),
            all_sealed: Condvar::new(),
            unsynced_notify: Notify::new(),
            rotation_notify: Notify::new(),
        }
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Option<ActiveSegment>> {
        lock(&self.writer)
    }

    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Option<ActiveSegment>>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(writer)) => Some(writer.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, AppendSlotState> {
        lock(&self.state)
    }

    /// Closes the active segment. The caller seals it after it has released the writer.
    pub(crate) fn close(&self, writer: &mut Option<ActiveSegment>) {
        *writer = None;
        let mut state = self.state();
        state.is_close_requested = false;
        let active = state.active.take();
        state.closed.extend(active);
    }

    /// Closes the active segment if it is due, or leaves that to the thread that writes to it.
    pub(crate) fn close_if(&self, is_due: impl FnOnce(&QueueSegment) -> bool) {
        {
            let mut state = self.state();
            if state.active.as_deref().is_some_and(is_due) {
                state.is_close_requested = true;
            }
        }
        self.close_if_requested();
    }

    /// Called after each write, without the writer. A request precedes the attempt to lock the writer: either the requesting
    /// thread gets the lock, or the thread that writes sees the request here.
    pub(crate) fn close_if_requested(&self) {
        let is_requested = || self.state().is_close_requested;
        if is_requested()
            && let Some(mut writer) = self.try_writer()
            && is_requested()
        {
            self.close(&mut writer);
        }
    }

    /// The closed segments, which the caller seals. [`Self::end_sealing`] follows for each.
    pub(crate) fn begin_sealing(&self) -> Vec<Arc<QueueSegment>> {
        let mut state = self.state();
        state.sealing += state.closed.len();
        std::mem::take(&mut state.closed)
    }

    /// Ends the sealing of one segment. A sealed `durable` segment waits for the sync of its seal.
    pub(crate) fn end_sealing(&self, sealed: Option<Arc<QueueSegment>>) {
        let mut state = self.state();
        state.sealed_unrenamed.extend(sealed);
        state.sealing -= 1;
        drop(state);
        self.all_sealed.notify_all();
        self.rotation_notify.notify_one();
    }

    /// Blocks until no thread seals a segment of this slot.
    pub(crate) fn wait_until_sealed(&self) {
        let sealing = self.all_sealed.wait_while(self.state(), |state| state.sealing > 0);
        drop(sealing.unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn notify_unsynced(&self) {
        self.unsynced_notify.notify_one();
    }

    /// Resolves when records wait for a sync. For one waiter.
    pub(crate) async fn wait_unsynced(&self) {
        // A notification without a waiter is kept.
        while self.state().unsynced.is_empty() {
            self.unsynced_notify.notified().await;
        }
    }

    /// Requests the file of the next segment.
    pub(crate) fn request_next(&self) {
        let mut state = self.state();
        state.is_next_requested = state.next_file.is_none();
        drop(state);
        self.rotation_notify.notify_one();
    }

    /// Takes the records that wait for a sync, and their segments, for the group commit. [`Self::end_commit`] follows.
    pub(crate) fn begin_commit(&self) -> (Vec<UnsyncedRecords>, Vec<Arc<QueueSegment>>) {
        let mut segments: Vec<Arc<QueueSegment>> = Vec::new();
        let mut state = self.state();
        let records = std::mem::take(&mut state.unsynced);
        for waiting in &records {
            if !contains(&segments, &waiting.segment) {
                segments.push(Arc::clone(&waiting.segment));
            }
        }
        state.committing.extend_from_slice(&segments);
        (records, segments)
    }

    /// Ends the group commit of these segments.
    pub(crate) fn end_commit(&self, segments: &[Arc<QueueSegment>]) {
        let mut state = self.state();
        for segment in segments {
            let at = state.committing.iter().position(|other| other.id() == segment.id());
            at.map(|at| state.committing.swap_remove(at));
        }
        drop(state);
        self.rotation_notify.notify_one();
    }

    /// Resolves when a file is to be renamed or created. For one waiter.
    pub(crate) async fn wait_rotation(&self) {
        let is_due = || {
            let state = self.state();
            state.is_next_requested || state.sealed_unrenamed.iter().any(|segment| !state.is_unsynced(segment))
        };
        // A notification without a waiter is kept.
        while !is_due() {
            self.rotation_notify.notified().await;
        }
    }

    /// Takes the sealed segments whose records the group commit has synced, or written to another file.
    pub(crate) fn take_sealed_and_synced(&self) -> Vec<Arc<QueueSegment>> {
        let mut state = self.state();
        let sealed = std::mem::take(&mut state.sealed_unrenamed);
        let (unsynced, synced) = sealed.into_iter().partition(|segment| state.is_unsynced(segment));
        state.sealed_unrenamed = unsynced;
        synced
    }
}

impl AppendSlotState {
    /// Whether records of a segment wait for the group commit, or it syncs them.
    fn is_unsynced(&self, segment: &QueueSegment) -> bool {
        contains(&self.committing, segment) || self.unsynced.iter().any(|waiting| waiting.segment.id() == segment.id())
    }
}

pub(crate) fn contains(segments: &[Arc<QueueSegment>], segment: &QueueSegment) -> bool {
    segments.iter().any(|other| other.id() == segment.id())
}

impl ActiveSegment {
    pub(crate) fn new(segment: Arc<QueueSegment>, version: u32, cipher: Option<Arc<dyn FileCipher>>) -> Self {
        let end = segment.end();
        Self { segment, end, version, stream_numbers: HashMap::new(), cipher, has_requested_next: false }
    }

    /// Appends a frame and makes it readable. After an error the caller truncates or closes the file.
    pub(crate) fn append(
        &mut self,
        clock: &dyn Clock,
        labels: &Labels,
        frame: FrameHeader,
        body: &[&[u8]],
    ) -> std::io::Result<FrameHeader> {
        let seed = bucksaw_segment::queue::checksum_seed(self.segment.id());
        let known = self.stream_numbers.get(labels).copied();
        let number = known.unwrap_or(self.stream_numbers.len() as u32);
        let frame = FrameHeader { stream: number, ..frame };
        let cipher = self.cipher.as_deref();
        let declaration = if known.is_none() { stream_frame(number, labels, seed, cipher)? } else { Vec::new() };
        let frame_len = match cipher {
            None => {
                let head = frame.encode(seed, body);
                let parts = [&declaration[..], &head].into_iter().chain(body.iter().copied());
                self.segment.file.append(&parts.filter(|part| !part.is_empty()).collect::<Vec<_>>())?;
                frame.frame_len()
            }
            Some(cipher) => {
                let encrypted = frame.encode_encrypted(seed, body, cipher)?;
                self.segment.file.append(&[&declaration, &encrypted])?;
                encrypted.len() as u64
            }
        };
        if known.is_none() {
            self.stream_numbers.insert(labels.clone(), number);
        }
        self.end += declaration.len() as u64 + frame_len;
        let encoded = body.first().copied().unwrap_or_default();
        let row_meta = encoded.get(..frame.row_meta_len as usize).unwrap_or_default();
        let stream = known.is_none().then_some(labels);
        self.segment.publish(self.end, (&frame, row_meta), stream, clock.uptime());
        Ok(frame)
    }
}

/// The frame that declares a stream and its number in a file, encrypted if there is a cipher.
pub(crate) fn stream_frame(
    number: u32,
    labels: &Labels,
    seed: u32,
    cipher: Option<&dyn FileCipher>,
) -> std::io::Result<Vec<u8>> {
    let (header, body) = FrameHeader::stream(number, labels, bucksaw_record::Millis(0));
    match cipher {
        None => Ok([&header.encode(seed, &[&body])[..], &body].concat()),
        Some(cipher) => header.encode_encrypted(seed, &[&body], cipher),
    }
}

/// The header of a record frame, without the stream number.
pub(crate) fn record_header(records: &FrameRecords<'_>) -> FrameHeader {
    FrameHeader {
        body_len: (records.row_meta.len() + records.text_bytes()) as u32,
        row_meta_len: records.row_meta.len() as u32,
        first_id: records.first_id,
        count: records.count,
        stream: 0,
        accepted: records.accepted,
        kind: FrameKind::Records,
        layout_bits: records.layout_bits,
    }
}
