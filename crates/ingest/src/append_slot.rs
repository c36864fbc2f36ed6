//! An append slot: one active segment, and its records that are not yet synced.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bucksaw_record::Labels;
use bucksaw_segment::{FrameHeader, FrameKind, RowMeta, Rows};
use tokio::sync::Notify;

use crate::append::{Durability, FrameRecords};
use crate::class::SegmentClass;
use crate::segment::{AckCallback, QueueSegment};

/// A mutex with one active segment.
pub(crate) struct AppendSlot {
    pub(crate) durability: Durability,
    state: Mutex<AppendSlotState>,
    /// Notified when no thread seals a segment of this slot any more.
    all_sealed: Condvar,
    /// Notified when records or seals wait for a sync.
    unsynced_notify: Notify,
}

pub(crate) struct AppendSlotState {
    pub(crate) class: SegmentClass,
    pub(crate) active: Option<ActiveSegment>,
    /// `durable` records that are written but not synced, oldest first.
    pub(crate) unsynced: Vec<UnsyncedRecords>,
    pub(crate) unsynced_bytes: u64,
    /// Closed segments without a seal. Whoever closes a segment calls [`Queue::seal_closed`] after it has released the slot.
    ///
    /// [`Queue::seal_closed`]: crate::Queue
    closed: Vec<Arc<QueueSegment>>,
    /// Segments that threads are sealing now, without the lock.
    sealing: usize,
    /// Sealed segments that are renamed when their seal is synced; of the durable slot only.
    pub(crate) sealed_unrenamed: Vec<Arc<QueueSegment>>,
}

/// The active segment of a slot.
pub(crate) struct ActiveSegment {
    pub(crate) segment: Arc<QueueSegment>,
    pub(crate) end: u64,
    stream_numbers: HashMap<Labels, u32>,
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
        let inner = AppendSlotState {
            class: durability.into(),
            active: None,
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            closed: Vec::new(),
            sealing: 0,
            sealed_unrenamed: Vec::new(),
        };
        Self { durability, state: Mutex::new(inner), all_sealed: Condvar::new(), unsynced_notify: Notify::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, AppendSlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, AppendSlotState>> {
        match self.state.try_lock() {
            Ok(inner) => Some(inner),
            Err(std::sync::TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The closed segments, which the caller seals. [`Self::end_sealing`] follows.
    pub(crate) fn begin_sealing(&self) -> Vec<Arc<QueueSegment>> {
        let mut state = self.lock();
        state.sealing += state.closed.len();
        std::mem::take(&mut state.closed)
    }

    /// Ends the sealing of one segment. A sealed `durable` segment waits for the sync of its seal.
    pub(crate) fn end_sealing(&self, sealed: Option<Arc<QueueSegment>>) {
        let is_waiting_for_sync = sealed.is_some();
        let mut state = self.lock();
        state.sealed_unrenamed.extend(sealed);
        state.sealing -= 1;
        drop(state);
        self.all_sealed.notify_all();
        if is_waiting_for_sync {
            self.notify_unsynced();
        }
    }

    /// Blocks until no thread seals a segment of this slot.
    pub(crate) fn wait_until_sealed(&self) {
        let mut state = self.lock();
        while state.sealing > 0 {
            state = self.all_sealed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn notify_unsynced(&self) {
        self.unsynced_notify.notify_one();
    }

    /// Resolves when something waits for a sync. For one waiter.
    pub(crate) async fn wait_unsynced(&self) {
        // A notification without a waiter is kept.
        while self.lock().is_synced() {
            self.unsynced_notify.notified().await;
        }
    }
}

impl AppendSlotState {
    /// Closes the active segment. The caller seals it after it has released the slot.
    pub(crate) fn close_active(&mut self) {
        self.closed.extend(self.active.take().map(|active| active.segment));
    }

    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether nothing waits for a sync.
    fn is_synced(&self) -> bool {
        self.unsynced.is_empty() && self.sealed_unrenamed.is_empty()
    }
}

impl ActiveSegment {
    pub(crate) fn new(segment: Arc<QueueSegment>) -> Self {
        let end = segment.end();
        Self { segment, end, stream_numbers: HashMap::new() }
    }

    /// Appends a frame and makes it readable. After an error the caller truncates or closes the file.
    pub(crate) fn append(
        &mut self,
        labels: &Labels,
        frame: FrameHeader,
        body: &[&[u8]],
    ) -> std::io::Result<FrameHeader> {
        let seed = bucksaw_segment::queue::checksum_seed(self.segment.id());
        let known = self.stream_numbers.get(labels).copied();
        let number = known.unwrap_or(self.stream_numbers.len() as u32);
        let frame = FrameHeader { stream: number, ..frame };
        let head = frame.encode(seed, body);
        let mut declared = Vec::new();
        if known.is_none() {
            declared = stream_frame(number, labels, seed);
        }
        let mut parts: Vec<&[u8]> = Vec::with_capacity(body.len() + 2);
        if !declared.is_empty() {
            parts.push(&declared);
        }
        parts.push(&head);
        parts.extend(body.iter().filter(|part| !part.is_empty()));
        self.segment.file().append(&parts)?;
        if known.is_none() {
            self.stream_numbers.insert(labels.clone(), number);
        }
        self.end += declared.len() as u64 + frame.frame_len();
        let rows = frame_rows(&frame, body);
        self.segment.publish(self.end, &rows, frame.text_len() as usize, known.is_none().then_some(labels));
        Ok(frame)
    }
}

/// The rows of a frame, for the summary of the segment.
fn frame_rows(frame: &FrameHeader, body: &[&[u8]]) -> Rows {
    let sides = body.first().copied().unwrap_or_default().get(..frame.row_meta_len as usize).unwrap_or_default();
    let sides = match frame.layout_bits {
        0 => Some(RowMeta::default()),
        flags => RowMeta::decode(flags, sides, frame.first_id.time(), frame.count),
    };
    sides.and_then(|sides| sides.into_rows(frame.first_id, frame.count, frame.accepted)).unwrap_or_default()
}

/// The frame that declares a stream and its number in a file.
pub(crate) fn stream_frame(number: u32, labels: &Labels, seed: u32) -> Vec<u8> {
    let mut body = Vec::new();
    labels.encode(&mut body);
    let header = FrameHeader {
        body_len: body.len() as u32,
        row_meta_len: 0,
        first_id: bucksaw_record::Id::MIN,
        count: 0,
        stream: number,
        accepted: bucksaw_record::Millis(0),
        kind: FrameKind::Stream,
        layout_bits: 0,
    };
    let mut frame = header.encode(seed, &[&body]).to_vec();
    frame.append(&mut body);
    frame
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
