//! Cuts the decompressed text of a body into records and appends them. Runs on threads that may wait for the disk.

use std::time::Duration;

use bucksaw_ingest::{IdempotentBatch, IngestError};
use bucksaw_record::time::{LineTimeReader, TimeZone};
use bucksaw_record::{Flags, LineSplitter, Millis};

use super::body_error::{BodyError, BodyErrorReason};
use super::durability_wait::DurabilityWait;
use super::ndjson::event_time;
use super::request::{BodyFormat, IngestReply};
use crate::intake::{
    FrameMeta, IdAssignment, PrepareError, RecordBuffer, RecordStream, RecordTime, Records, for_each_timed_line,
};

/// Records are appended when their text has this size, in bytes.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// Objects are appended when there are this many, however short: the time of each takes memory too.
const BUFFER_OBJECTS_MAX: usize = 32 << 10;

/// Text that is cut at once, in bytes, so that the buffer stays near its size however much is decompressed at once.
const SPLIT_BYTES_MAX: usize = 64 << 10;

/// The largest capacity to which the buffer grows ahead, in bytes.
const BUFFER_CAPACITY_MAX: usize = BUFFER_BYTES + SPLIT_BYTES_MAX;

/// Memory for an object's event time: as read, as stated, and in the column.
const OBJECT_TIME_BYTES: usize = size_of::<Option<RecordTime>>() + 2 * size_of::<(Millis, u32)>();

/// The shortest object, with its LF.
const OBJECT_BYTES_MIN: usize = 3;

/// The shortest line: its LF.
const LINE_BYTES_MIN: usize = 1;

/// Rejected lines that a reply names.
const LINE_ERRORS_MAX: usize = 10;

/// How often and after which delay an append is repeated while the disk syncs, before the body is refused.
const SYNC_RETRIES_MAX: u32 = 500;
const SYNC_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The records of one body.
///
/// A body with an idempotency key is divided into sections by its text alone, so a retry has the same sections: after each
/// [`BUFFER_BYTES`], and before each object beyond [`BUFFER_OBJECTS_MAX`].
pub(super) struct BodyRecords {
    stream: RecordStream,
    format: BodyFormat,
    line_times: Option<LineTimes>,
    ids: IdAssignment,
    /// Bytes of text up to the end of the section, of a body with a key.
    section_left: usize,
    durability_wait: DurabilityWait,
    splitter: LineSplitter,
    record_bytes_max: usize,
    buffer: RecordBuffer,
    is_streamed: bool,
    line: u64,
    reply: IngestReply,
}

/// Reads the times of the lines of a body.
struct LineTimes {
    reader: LineTimeReader,
    /// The last record was cut.
    is_continuation: bool,
    /// The time near which times without a year are.
    now: Millis,
}

impl BodyRecords {
    pub(super) fn new(
        stream: RecordStream,
        format: BodyFormat,
        ids: IdAssignment,
        record_bytes_max: usize,
        durability_wait: DurabilityWait,
    ) -> Self {
        Self {
            stream,
            format,
            line_times: None,
            ids,
            section_left: BUFFER_BYTES,
            durability_wait,
            splitter: LineSplitter::new(record_bytes_max),
            record_bytes_max,
            buffer: RecordBuffer::new(BUFFER_CAPACITY_MAX),
            is_streamed: false,
            line: 0,
            reply: IngestReply::default(),
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.reply.accepted
    }

    pub(super) fn into_reply(self) -> IngestReply {
        self.reply
    }

    /// The batch of a body with a key.
    pub(super) fn batch(&self) -> Option<&IdempotentBatch> {
        self.ids.batch()
    }

    fn is_keyed(&self) -> bool {
        self.batch().is_some()
    }

    /// Bytes of memory that are held between two calls.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.splitter.carry_bytes() + self.buffer.memory_bytes()
    }

    /// The peak of memory while `text_bytes` of text are processed, the text itself not counted.
    pub(super) fn peak_bytes(&self, text_bytes: usize) -> usize {
        let carried = self.splitter.carry_bytes().saturating_add(text_bytes).min(self.record_bytes_max);
        let buffered = self.buffer.text_bytes().saturating_add(text_bytes).min(BUFFER_BYTES);
        // A carried line is copied where it ends.
        let lines = 2 * carried + RecordBuffer::text_capacity(buffered, BUFFER_CAPACITY_MAX);
        let record_bytes_min = match self.format {
            BodyFormat::Lines if self.line_times.is_none() => return lines,
            BodyFormat::Lines => LINE_BYTES_MIN,
            BodyFormat::Ndjson => OBJECT_BYTES_MIN,
        };
        let portion = text_bytes.min(SPLIT_BYTES_MAX);
        let buffered = self.buffer.count() as usize;
        let records = buffered.saturating_add(text_bytes / record_bytes_min).min(BUFFER_OBJECTS_MAX);
        lines + portion + carried + (records + portion / record_bytes_min) * OBJECT_TIME_BYTES
    }

    /// The upper bound of [`Self::peak_bytes`].
    pub(super) fn peak_bytes_max(record_bytes_max: usize) -> usize {
        let objects = BUFFER_OBJECTS_MAX + SPLIT_BYTES_MAX / LINE_BYTES_MIN;
        3 * record_bytes_max + BUFFER_BYTES + 2 * SPLIT_BYTES_MAX + objects * OBJECT_TIME_BYTES
    }

    /// Reads the times of lines, in `zone`. Times without a year are in the one nearest to the time in the key, or else to
    /// now.
    pub(super) fn set_line_zone(&mut self, zone: TimeZone, key_time: Option<Millis>) {
        let now = self.stream.intake.now();
        let now = key_time.filter(|at| *at <= now).unwrap_or(now);
        self.line_times = Some(LineTimes { reader: LineTimeReader::new(zone), is_continuation: false, now });
    }

    /// Records that the body is longer than the buffer.
    pub(super) fn set_streamed(&mut self) {
        self.is_streamed = true;
    }

    /// Whether the body is too long to be accepted atomically, so that records may be appended at any time. A
    /// body with a key is cut by its text alone.
    pub(super) fn may_flush_early(&self) -> bool {
        !self.is_keyed() && (self.is_streamed || self.accepted() > 0)
    }

    /// Processes more of the text.
    pub(super) fn push(&mut self, mut text: &[u8]) -> Result<(), BodyError> {
        while !text.is_empty() {
            if self.is_keyed() && self.section_left == 0 {
                self.flush()?;
                self.section_left = BUFFER_BYTES;
            }
            let portion_max = if self.is_keyed() { self.section_left.min(SPLIT_BYTES_MAX) } else { SPLIT_BYTES_MAX };
            let (portion, rest) = text.split_at(text.len().min(portion_max));
            text = rest;
            if self.is_keyed() {
                self.section_left -= portion.len();
            }
            let lines = self.splitter.split(portion);
            let remainder = lines.remainder();
            if self.has_times() {
                let (text, flags) = (lines.parts.concat(), lines.flags);
                self.splitter.advance(portion, remainder);
                self.push_timed(&text, &flags)?;
            } else {
                self.buffer.push_lines(&lines);
                self.splitter.advance(portion, remainder);
            }
            if !self.is_keyed() && self.is_buffer_full() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn is_buffer_full(&self) -> bool {
        self.buffer.text_bytes() >= BUFFER_BYTES || self.has_records_max()
    }

    fn has_records_max(&self) -> bool {
        self.buffer.has_times() && self.buffer.count() as usize >= BUFFER_OBJECTS_MAX
    }

    /// Frees memory that is not needed until there is more text.
    pub(super) fn release_buffer(&mut self) {
        if self.buffer.count() == 0 {
            self.buffer = RecordBuffer::new(BUFFER_CAPACITY_MAX);
        }
    }

    /// Processes the end of the text.
    pub(super) fn finish(&mut self) -> Result<(), BodyError> {
        if let Some(lines) = self.splitter.finish(Flags::UNTERMINATED) {
            if self.has_times() {
                let (text, flags) = (lines.parts.concat(), lines.flags);
                self.push_timed(&text, &flags)?;
            } else {
                self.buffer.push_lines(&lines);
            }
        }
        self.splitter.clear();
        self.append_buffer(true)
    }

    /// Whether its records have event times.
    fn has_times(&self) -> bool {
        self.format == BodyFormat::Ndjson || self.line_times.is_some()
    }

    fn push_timed(&mut self, text: &[u8], flags: &Flags) -> Result<(), BodyError> {
        if self.format == BodyFormat::Ndjson {
            return self.push_objects(text, flags);
        }
        let Some(mut times) = self.line_times.take() else { return Ok(()) };
        let LineTimes { reader, is_continuation, now } = &mut times;
        let pushed = for_each_timed_line(reader, is_continuation, (text, flags), *now, |line, bits, time| {
            if self.is_keyed() && self.has_records_max() {
                self.flush()?;
            }
            self.buffer.push_record(line, bits, time);
            Ok(())
        });
        self.line_times = Some(times);
        pushed
    }

    fn push_objects(&mut self, text: &[u8], flags: &Flags) -> Result<(), BodyError> {
        for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            self.line += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match event_time(line) {
                Ok(time) => {
                    if self.is_keyed() && self.has_records_max() {
                        self.flush()?;
                    }
                    self.buffer.push_record(line, flags.get(row), time);
                }
                Err(error) => self.reject(&format!("not a JSON object: {error}")),
            }
        }
        Ok(())
    }

    fn reject(&mut self, error: &str) {
        self.reply.rejected += 1;
        let labels = self.stream.source.label();
        self.stream.intake.queue.metrics().rejected_records.get_or_create(&labels).inc();
        if self.reply.line_errors.len() < LINE_ERRORS_MAX {
            self.reply.line_errors.push((self.line, error.to_owned()));
        }
    }

    /// Appends the collected records to the queue.
    pub(super) fn flush(&mut self) -> Result<(), BodyError> {
        self.append_buffer(false)
    }

    fn append_buffer(&mut self, is_last: bool) -> Result<(), BodyError> {
        if self.buffer.count() == 0 {
            return match self.batch() {
                Some(batch) if is_last => Ok(self.stream.intake.queue.end_batch(batch)?),
                _ => Ok(()),
            };
        }
        // An error ends the body: its records are dropped, and no memory is held for them.
        let mut buffer = std::mem::replace(&mut self.buffer, RecordBuffer::new(BUFFER_CAPACITY_MAX));
        buffer.with_records(|records| self.append(records, is_last))?;
        self.reply.accepted += u64::from(buffer.count());
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn append(&mut self, records: Records<'_>, is_last: bool) -> Result<(), BodyError> {
        let meta = self.stream.prepare(&mut self.ids, records, is_last)?;
        for _ in 0..SYNC_RETRIES_MAX {
            match self.append_once(&meta, records.text) {
                Err(IngestError::SyncBacklog) => self.stream.intake.env.clock.sleep(SYNC_RETRY_DELAY),
                appended => return Ok(appended?),
            }
        }
        Err(IngestError::SyncBacklog.into())
    }

    fn append_once(&self, meta: &FrameMeta<'_>, text: &[&[u8]]) -> Result<(), IngestError> {
        let appended = self.stream.append(meta, text, self.durability_wait.add_part());
        appended.inspect_err(|_| self.durability_wait.cancel_part())
    }
}

impl From<PrepareError> for BodyErrorReason {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Refused(refusal) => Self::Refused(refusal),
            PrepareError::SequenceExhausted => Self::Invalid(error.to_string()),
        }
    }
}
