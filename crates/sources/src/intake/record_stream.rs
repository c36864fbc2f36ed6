//! Assigns ids to the records of one stream, clamps their times and appends them.

use std::borrow::Cow;
use std::time::Duration;

use bucksaw_ingest::{Durability, FrameRecords, IngestError, Source};
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Id, Labels};
use bucksaw_segment::{Frame, FrameError, RowMeta};

use super::clamp::{clamp_frame, clamp_times};
use super::durability_wait::DurabilityWait;
use super::ids::{AssignedIds, IdAssignment, PrepareError};
use super::records::Records;
use super::target::Intake;

/// How often and after which delay an append is repeated while the disk syncs, before a request is refused.
const SYNC_RETRIES_MAX: u32 = 500;
const SYNC_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The ids, clamped times and encoded row metadata of some records: all of a frame but its text and the time of its append.
#[derive(Debug)]
pub struct FrameMeta<'a> {
    /// The id of the first record; the others have the next sequence numbers.
    pub first_id: Id,
    /// The number of records.
    pub count: u32,
    layout_bits: u8,
    pub(super) row_meta: Cow<'a, [u8]>,
    cut_count: u64,
    clamped_count: u64,
}

/// Records of one source with the same labels and durability. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RecordStream {
    /// Where they go.
    pub intake: Intake,
    /// Where they came in.
    pub source: Source,
    /// Their labels, as the client stated them. The intake adds those of the client's label scope.
    pub labels: Labels,
    /// When they count as accepted.
    pub durability: Durability,
}

impl RecordStream {
    /// Assigns ids to records and replaces event times that are too far ahead. `reader` reads the event times of lines; a retry
    /// of an idempotent batch has the same ones, because years are guessed by the time of the batch. `is_last` is whether an
    /// idempotent batch ends with the records.
    ///
    /// # Errors
    /// [`PrepareError`]; no id is used up then, and the reader is unchanged.
    pub fn prepare(
        &self,
        ids: &mut IdAssignment,
        records: Records<'_>,
        reader: Option<&mut LineTimeReader>,
        is_last: bool,
    ) -> Result<FrameMeta<'static>, PrepareError> {
        let assigned = ids.assign(&self.intake, &records, is_last)?;
        let Some(reader) = reader else { return Ok(frame_meta(&assigned, &records)) };
        let mut times = Vec::with_capacity(records.count as usize);
        reader.read(records.text, records.flags, assigned.now, &mut times);
        Ok(frame_meta(&assigned, &Records { times: &times, ..records }))
    }

    /// Checks a frame whose ids and row metadata a client assigned, and replaces times that are too far ahead.
    ///
    /// # Errors
    /// [`FrameError`] if the row metadata does not fit the text.
    pub fn prepare_frame<'a>(&self, frame: &Frame<'a>) -> Result<FrameMeta<'a>, FrameError> {
        let rows = frame.rows()?;
        let clamped = clamp_frame(frame, self.intake.now());
        Ok(FrameMeta {
            first_id: self.intake.tenant_id(clamped.first_id),
            count: frame.header.count,
            layout_bits: clamped.layout_bits,
            row_meta: clamped.row_meta,
            cut_count: cut_count(&rows.flags),
            clamped_count: clamped.clamped_count,
        })
    }

    /// Appends prepared records to the queue; see [`Queue::append`](bucksaw_ingest::Queue::append) for `on_ack`. `text` is the text that was prepared.
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
        let (labels, dropped_labels) = self.intake.stored_labels(&self.labels);
        let frame = FrameRecords {
            source: self.source,
            labels: &labels,
            first_id: records.first_id,
            count: records.count,
            accepted: self.intake.now(),
            layout_bits: records.layout_bits,
            row_meta: &records.row_meta,
            text,
        };
        queue.append(self.durability, &frame, on_ack)?;
        self.intake.client().count_bytes(text.iter().map(|part| part.len() as u64).sum());
        let metrics = queue.metrics();
        for (family, count) in [
            (&metrics.cut_records, records.cut_count),
            (&metrics.times_replaced, records.clamped_count),
            (&metrics.dropped_labels, dropped_labels),
        ] {
            if count > 0 {
                family.get_or_create(&self.source.label()).inc_by(count);
            }
        }
        Ok(())
    }

    /// Appends prepared records, and counts them in `durability_wait`.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(super) fn append_counted(
        &self,
        records: &FrameMeta<'_>,
        text: &[&[u8]],
        durability_wait: &DurabilityWait,
    ) -> Result<(), IngestError> {
        self.append(records, text, durability_wait.add_part()).inspect_err(|_| durability_wait.cancel_part())
    }

    /// Appends prepared records of a request, and repeats it while too many records wait for a sync. Blocks meanwhile.
    /// `durability_wait` counts them.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(crate) fn append_with_retries(
        &self,
        records: &FrameMeta<'_>,
        text: &[&[u8]],
        durability_wait: &DurabilityWait,
    ) -> Result<(), IngestError> {
        for _ in 0..SYNC_RETRIES_MAX {
            match self.append_counted(records, text, durability_wait) {
                Err(IngestError::SyncBacklog) => self.intake.env.clock.sleep(SYNC_RETRY_DELAY),
                appended => return appended,
            }
        }
        Err(IngestError::SyncBacklog)
    }
}

fn frame_meta(assigned: &AssignedIds, records: &Records<'_>) -> FrameMeta<'static> {
    let base = assigned.first_id.time();
    let (times, clamped_count) = clamp_times(records.times, base, assigned.now);
    let mut row_meta = Vec::new();
    let layout_bits = if times.is_none() && records.flags.is_empty() && records.lines.is_none() {
        0
    } else {
        let (lines, attributes) = (records.lines.map(<[u32]>::to_vec), records.attributes.clone());
        RowMeta { times, lines, flags: records.flags.clone(), attributes }.encode(base, &mut row_meta)
    };
    FrameMeta {
        first_id: assigned.first_id,
        count: records.count,
        layout_bits,
        row_meta: Cow::Owned(row_meta),
        cut_count: cut_count(records.flags),
        clamped_count,
    }
}

fn cut_count(flags: &Flags) -> u64 {
    flags.iter().filter(|(_, bits)| bits & Flags::CUT != 0).count() as u64
}
