//! The way into the queue for the records of every source.
//!
//! ```text
//!   TCP lines   chunk ─► LineSplitter ─► Records ─────────────────────────┐
//!   HTTP lines  body ──► LineSplitter ─► RecordBuffer ─► Records ─────────┤ ids, clamped times,  ─► Queue::append
//!   HTTP NDJSON body ──► LineSplitter ─► event_time ─► RecordBuffer ──────┤ row metadata
//!   framed      batch ─► Frame with ids and row metadata of the client ───┘
//! ```
//! A source decodes: it yields records with optional event times ([`Records`], or a [`RecordBuffer`] that collects them). A
//! [`RecordStream`] does the rest: it assigns ids, replaces times too far ahead of the clock, encodes the row metadata,
//! appends one frame, and counts. A source whose records have different labels uses one `RecordStream` per label set.
//!
//! Text is passed on as slices; nothing here copies it.
//!
//! Preparing and appending are two steps. Ids are assigned once, in [`RecordStream::prepare`]; an append that the queue
//! refuses for now is repeated with the same [`FrameMeta`], so that records that reached the disk all the same are not
//! stored twice.

mod clamp;
mod ids;
mod record_buffer;

use std::borrow::Cow;
use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_ingest::{Durability, FrameRecords, IngestError, Queue, Source, SourceLabels};
use bucksaw_record::{Flags, Id, Labels, Millis, Producer, SplitLines};
use bucksaw_segment::{Frame, FrameError, RowMeta};

use clamp::{clamp_frame, clamp_times};
pub use ids::IdAssignment;
pub use record_buffer::{RecordBuffer, RecordTime};

/// Where all sources append: the queue, with the clock and the random numbers of its node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Takes the records.
    pub queue: Arc<Queue>,
    /// Time and randomness.
    pub env: Env,
}

/// Decoded records of one stream, without ids.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// The text of `count` records, each followed by an LF, in any number of parts.
    pub text: &'a [&'a [u8]],
    /// The number of records.
    pub count: u32,
    /// Which records were cut or had no line end.
    pub flags: &'a Flags,
    /// The event time of each record, or nothing if no record of this source has one.
    pub times: &'a [Option<RecordTime>],
}

impl<'a> From<&'a SplitLines<'a>> for Records<'a> {
    fn from(lines: &'a SplitLines<'a>) -> Self {
        Self { text: &lines.parts, count: lines.count, flags: &lines.flags, times: &[] }
    }
}

/// The ids, clamped times and encoded row metadata of some records: all of a frame but its text and the time of its append.
#[derive(Debug)]
pub struct FrameMeta<'a> {
    /// The id of the first record; the others have the next sequence numbers.
    pub first_id: Id,
    /// The number of records.
    pub count: u32,
    layout_bits: u8,
    row_meta: Cow<'a, [u8]>,
    cut_count: u64,
    clamped_count: u64,
}

/// Why records get no ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The queue does not accept the section of an idempotent batch.
    #[error(transparent)]
    Refused(#[from] IngestError),
    /// The producer has no sequence numbers left.
    #[error("a body of more than 4,294,967,295 records: send several")]
    SequenceExhausted,
}

/// Records of one source with the same labels and durability. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RecordStream {
    /// Where they go.
    pub intake: Intake,
    /// Where they came in.
    pub source: Source,
    /// Their labels.
    pub labels: Labels,
    /// When they count as accepted.
    pub durability: Durability,
}

impl Intake {
    /// The time by the node's clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(self.env.clock.unix_ms()).min(Millis::MAX)
    }

    /// A producer that no other source has.
    #[must_use]
    pub fn new_producer(&self) -> Producer {
        Producer::random(self.env.entropy.next_u64())
    }
}

impl RecordStream {
    /// Assigns ids to records and replaces event times that are too far ahead. `is_last` says that an idempotent batch ends
    /// with them.
    ///
    /// # Errors
    /// [`PrepareError`]; no id is used up then.
    pub fn prepare(
        &self,
        ids: &mut IdAssignment,
        records: Records<'_>,
        is_last: bool,
    ) -> Result<FrameMeta<'static>, PrepareError> {
        let assigned = ids.assign(&self.intake, &records, is_last)?;
        let base = assigned.first_id.time();
        let (times, clamped_count) = clamp_times(records.times, base, assigned.now);
        let mut row_meta = Vec::new();
        let layout_bits = if times.is_none() && records.flags.is_empty() {
            0
        } else {
            RowMeta { times, lengths: None, flags: records.flags.clone() }.encode(base, &mut row_meta)
        };
        Ok(FrameMeta {
            first_id: assigned.first_id,
            count: records.count,
            layout_bits,
            row_meta: Cow::Owned(row_meta),
            cut_count: cut_count(records.flags),
            clamped_count,
        })
    }

    /// Checks a frame whose ids and row metadata a client assigned, and replaces times that are too far ahead.
    ///
    /// # Errors
    /// [`FrameError`] if the row metadata does not fit the text.
    pub fn prepare_frame<'a>(&self, frame: &Frame<'a>) -> Result<FrameMeta<'a>, FrameError> {
        let rows = frame.rows()?;
        let clamped = clamp_frame(frame, self.intake.now());
        Ok(FrameMeta {
            first_id: clamped.first_id,
            count: frame.header.count,
            layout_bits: clamped.layout_bits,
            row_meta: clamped.row_meta,
            cut_count: cut_count(&rows.flags),
            clamped_count: clamped.clamped_count,
        })
    }

    /// Appends prepared records to the queue; see [`Queue::append`] for `on_ack`. `text` is the text that was prepared.
    ///
    /// # Errors
    /// [`IngestError`]; `on_ack` is not called then, and the same records may be appended again if the error is transient.
    pub fn append(
        &self,
        records: &FrameMeta<'_>,
        text: &[&[u8]],
        on_ack: impl FnOnce(Result<(), IngestError>) + Send + 'static,
    ) -> Result<(), IngestError> {
        let queue = &self.intake.queue;
        let frame = FrameRecords {
            source: self.source,
            labels: &self.labels,
            first_id: records.first_id,
            count: records.count,
            accepted: self.intake.now(),
            layout_bits: records.layout_bits,
            row_meta: &records.row_meta,
            text,
        };
        queue.append(self.durability, &frame, on_ack)?;
        let metrics = queue.metrics();
        for (family, count) in
            [(&metrics.cut_records, records.cut_count), (&metrics.times_replaced, records.clamped_count)]
        {
            if count > 0 {
                family.get_or_create(&SourceLabels { source: self.source.name() }).inc_by(count);
            }
        }
        Ok(())
    }
}

fn cut_count(flags: &Flags) -> u64 {
    flags.iter().filter(|(_, bits)| bits & Flags::CUT != 0).count() as u64
}

#[cfg(test)]
mod tests;
