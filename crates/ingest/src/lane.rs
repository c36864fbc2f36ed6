//! A lane: one active segment at a time, and the records in it whose promise is not yet kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_record::Labels;
use bucksaw_segment::{Header, Kind, Rows, Sides};
use tokio::sync::Notify;

use crate::append::{Durability, Records};
use crate::class::Class;
use crate::segment::{Done, Segment};

/// Appended to by many, one at a time.
pub(crate) struct Lane {
    pub(crate) durability: Durability,
    inner: Mutex<Inner>,
    /// Rung when something in [`Inner`] waits for a sync.
    bell: Notify,
}

pub(crate) struct Inner {
    pub(crate) class: Class,
    pub(crate) open: Option<Open>,
    /// `durable` records that are written and not synced, oldest first.
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) waiting_bytes: u64,
    /// Closed segments of this lane that are renamed when their seal is synced; of the durable lane only.
    pub(crate) closing: Vec<Arc<Segment>>,
}

/// The active segment of a lane.
pub(crate) struct Open {
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    numbers: HashMap<Labels, u32>,
}

/// Records that are written and not yet synced. They are kept in memory until then: after a failed sync the kernel may
/// have dropped the pages, and they are written again elsewhere.
pub(crate) struct Waiting {
    pub(crate) segment: Arc<Segment>,
    pub(crate) labels: Labels,
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) tries: u32,
    pub(crate) done: Done,
}

impl Lane {
    pub(crate) fn new(durability: Durability) -> Self {
        let inner =
            Inner { class: durability.into(), open: None, waiting: Vec::new(), waiting_bytes: 0, closing: Vec::new() };
        Self { durability, inner: Mutex::new(inner), bell: Notify::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(std::sync::TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Resolves when something waits for a sync. One waits.
    pub(crate) async fn wait(&self) {
        // What was rung while nobody waited is not lost.
        while self.lock().is_synced() {
            self.bell.notified().await;
        }
    }
}

impl Inner {
    /// Whether nothing waits for a sync.
    fn is_synced(&self) -> bool {
        self.waiting.is_empty() && self.closing.is_empty()
    }
}

impl Open {
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        let end = segment.end();
        Self { segment, end, numbers: HashMap::new() }
    }

    /// Appends a frame and publishes it. On an error the file is as it was, or is given up by the caller.
    pub(crate) fn append(&mut self, labels: &Labels, frame: Header, body: &[&[u8]]) -> std::io::Result<Header> {
        let seed = bucksaw_segment::queue::seed(self.segment.id());
        let known = self.numbers.get(labels).copied();
        let number = known.unwrap_or(self.numbers.len() as u32);
        let frame = Header { stream: number, ..frame };
        let head = frame.seal(seed, body);
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
            self.numbers.insert(labels.clone(), number);
        }
        self.end += declared.len() as u64 + frame.frame_len();
        let rows = rows_of(&frame, body);
        self.segment.publish(self.end, &rows, frame.text_len() as usize, known.is_none().then_some(labels));
        Ok(frame)
    }
}

/// The rows of a frame as far as a segment's reach needs them.
fn rows_of(frame: &Header, body: &[&[u8]]) -> Rows {
    let sides = body.first().copied().unwrap_or_default().get(..frame.sides_len as usize).unwrap_or_default();
    let sides = match frame.flags {
        0 => Some(Sides::default()),
        flags => Sides::decode(flags, sides, frame.first.at(), frame.count),
    };
    sides.and_then(|sides| sides.into_rows(frame.first, frame.count, frame.accepted)).unwrap_or_default()
}

/// The frame that gives a stream its number in a file.
pub(crate) fn stream_frame(number: u32, labels: &Labels, seed: u32) -> Vec<u8> {
    let mut body = Vec::new();
    labels.encode(&mut body);
    let header = Header {
        body_len: body.len() as u32,
        sides_len: 0,
        first: bucksaw_record::Id::MIN,
        count: 0,
        stream: number,
        accepted: bucksaw_record::Millis(0),
        kind: Kind::Stream,
        flags: 0,
    };
    let mut frame = header.seal(seed, &[&body]).to_vec();
    frame.append(&mut body);
    frame
}

/// The header of a record frame; its stream number is set when it is written.
pub(crate) fn record_header(records: &Records<'_>) -> Header {
    Header {
        body_len: (records.sides.len() + records.text_bytes()) as u32,
        sides_len: records.sides.len() as u32,
        first: records.first,
        count: records.count,
        stream: 0,
        accepted: records.accepted,
        kind: Kind::Records,
        flags: records.flags,
    }
}
