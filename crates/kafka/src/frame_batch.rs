//! Records that become frames together.

use bucksaw_ingest::IngestError;
use bucksaw_protocols::Event;
use bucksaw_record::{Id, InvalidAttributes, Labels, Millis, Producer};
use bucksaw_sources::intake::{EventTarget, IdAssignment, PrepareError, RecordBuffer, RecordStream};

use crate::commit_tracker::BatchAcks;

/// Text, in bytes, at which a batch is appended, as for the bodies of HTTP.
const BATCH_BYTES: usize = 1 << 20;

/// Records at which a batch is appended, however short.
const BATCH_RECORDS: usize = 32 << 10;

/// Frames at which a batch is appended: each has buffers of its own.
const BATCH_FRAMES: usize = 4 << 10;

/// Buffers larger than this are freed when a batch was appended, except that of the first frame.
const KEPT_BYTES: usize = 16 << 10;

/// Where the last record of a partition was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePlace {
    batch: u64,
    frame: usize,
}

/// A record as it is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    pub(crate) labels: &'a Labels,
    pub(crate) event: &'a Event<'a>,
    /// The line of the event, or a part of it.
    pub(crate) line: &'a [u8],
    pub(crate) flags: u8,
    pub(crate) producer: Producer,
    pub(crate) sequence: u32,
    /// The time if the event states none.
    pub(crate) arrival: Millis,
}

/// Records of several partitions and streams, collected until they are worth an append.
#[derive(Debug, Default)]
pub(crate) struct FrameBatch {
    /// The first `used` are frames of this batch, the others are buffers for later ones.
    frames: Vec<OpenFrame>,
    used: usize,
    /// The number of the batch.
    number: u64,
    records: usize,
    text_bytes: usize,
    /// Frames that the queue has.
    appended: usize,
}

#[derive(Debug)]
struct OpenFrame {
    labels: Labels,
    first_id: Id,
    next_sequence: Option<u32>,
    buffer: RecordBuffer,
}

impl FrameBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.text_bytes >= BATCH_BYTES || self.records >= BATCH_RECORDS || self.used >= BATCH_FRAMES
    }

    /// Adds a record to the frame at `place`, if it continues that frame, else to a new one.
    ///
    /// # Errors
    /// [`InvalidAttributes`]; nothing is added then.
    pub(crate) fn push(
        &mut self,
        place: Option<FramePlace>,
        record: &NewRecord<'_>,
    ) -> Result<FramePlace, InvalidAttributes> {
        let NewRecord { labels, event, line, flags, producer, sequence, arrival } = *record;
        let time = event.time.unwrap_or((arrival, 0));
        let is_continued = |frame: &OpenFrame| {
            frame.next_sequence == Some(sequence) && frame.first_id.producer() == producer && frame.labels == *labels
        };
        let place =
            place.filter(|place| place.batch == self.number && self.frames.get(place.frame).is_some_and(is_continued));
        let number = place.map_or(self.used, |place| place.frame);
        if number == self.frames.len() {
            let (labels, buffer) = (labels.clone(), RecordBuffer::new(BATCH_BYTES));
            self.frames.push(OpenFrame { labels, first_id: Id::MIN, next_sequence: None, buffer });
        }
        let here = FramePlace { batch: self.number, frame: number };
        let Some(frame) = self.frames.get_mut(number) else { return Ok(here) };
        let before = frame.buffer.text_bytes();
        frame.buffer.push_event(line, event.attributes, flags, Some(time))?;
        self.text_bytes += frame.buffer.text_bytes() - before;
        self.records += 1;
        frame.next_sequence = sequence.checked_add(1);
        if place.is_none() {
            frame.labels.clone_from(labels);
            frame.first_id = Id::new(time.0, producer, sequence);
            self.used += 1;
        }
        Ok(here)
    }

    /// Appends the frames that the queue does not have yet. `acks` counts them. After an error the same frames are appended by the
    /// next call, with the same ids.
    ///
    /// # Errors
    /// The refusal of the first frame that is not appended.
    pub(crate) fn append(&mut self, target: &EventTarget, acks: &BatchAcks) -> Result<(), IngestError> {
        let EventTarget { intake, source, durability } = target;
        let (source, durability) = (*source, *durability);
        let frames = self.frames.get(..self.used).unwrap_or_default();
        for frame in frames.iter().skip(self.appended) {
            let (intake, labels) = (intake.clone(), frame.labels.clone());
            let stream = RecordStream { intake, source, labels, durability };
            let mut ids = IdAssignment::Derived(frame.first_id);
            frame.buffer.with_records(|records| {
                let meta = stream.prepare(&mut ids, records, None, false).map_err(|error| match error {
                    PrepareError::Refused(refusal) => refusal,
                    error => IngestError::Io(error.to_string()),
                })?;
                acks.begin();
                let acked = acks.clone();
                let appended = stream.append(&meta, records.text, move |result| acked.end(result.is_ok()));
                appended.inspect_err(|_| acks.end(true))
            })?;
            self.appended += 1;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        for (number, frame) in self.frames.iter_mut().take(self.used).enumerate() {
            if number > 0 && frame.buffer.memory_bytes() > KEPT_BYTES {
                frame.buffer = RecordBuffer::new(BATCH_BYTES);
            } else {
                frame.buffer.clear();
            }
        }
        (self.used, self.records, self.text_bytes, self.appended) = (0, 0, 0, 0);
        self.number += 1;
    }
}
