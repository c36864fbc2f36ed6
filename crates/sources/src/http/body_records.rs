//! Cuts the decompressed text of a body into records and appends them. Runs on threads that may wait for the disk.

use bucksaw_ingest::IdempotentBatch;
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, LineSplitter, Millis};

use super::body_consumer::BodyConsumer;
use super::body_error::{BodyError, BodyErrorReason};
use super::ndjson::event_time;
use super::request::{BodyFormat, IngestReply};
use crate::intake::{DurabilityWait, IdAssignment, PrepareError, RecordBuffer, RecordStream, RecordTime, Records};

/// Records are appended when their text has this size, in bytes.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// Records with times are appended when there are this many, however short: the time of each takes memory too.
const BUFFER_RECORDS_MAX: usize = 32 << 10;

/// Text that is cut at once, in bytes, so that the buffer stays near its size however much is decompressed at once.
const SPLIT_BYTES_MAX: usize = 64 << 10;

/// The largest capacity to which the buffer grows ahead, in bytes.
const BUFFER_CAPACITY_MAX: usize = BUFFER_BYTES + SPLIT_BYTES_MAX;

/// Memory for the event time of a record: as read, as stated, and in the column.
const RECORD_TIME_BYTES: usize = size_of::<Option<RecordTime>>() + 2 * size_of::<(Millis, u32)>();

/// The shortest object, with its LF.
const OBJECT_BYTES_MIN: usize = 3;

/// The shortest line: its LF.
const LINE_BYTES_MIN: usize = 1;

/// Text of lines with times that is cut at once, in bytes: no more records than objects in [`SPLIT_BYTES_MAX`].
const SPLIT_TIMED_BYTES_MAX: usize = SPLIT_BYTES_MAX / OBJECT_BYTES_MIN;

/// Rejected lines that a reply names.
const LINE_ERRORS_MAX: usize = 10;

/// The records of one body.
///
/// The text alone divides a body with an idempotency key into sections, so a retry has the same sections. A section
/// ends after [`BUFFER_BYTES`], and before each record with a time beyond [`BUFFER_RECORDS_MAX`].
pub(super) struct BodyRecords {
    stream: RecordStream,
    format: BodyFormat,
    /// Reads the times of lines, if they have some.
    pub(super) line_times: Option<LineTimeReader>,
    ids: IdAssignment,
    /// Bytes of text up to the end of the section, of a body with a key.
    section_left: usize,
    durability_wait: DurabilityWait,
    splitter: LineSplitter,
    record_bytes_max: usize,
    buffer: RecordBuffer,
    pub(super) is_streamed: bool,
    line: u64,
    reply: IngestReply,
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

    /// The upper bound of [`BodyConsumer::peak_bytes`].
    pub(super) fn peak_bytes_max(record_bytes_max: usize) -> usize {
        let records = BUFFER_RECORDS_MAX + SPLIT_BYTES_MAX / OBJECT_BYTES_MIN;
        3 * record_bytes_max + BUFFER_BYTES + 2 * SPLIT_BYTES_MAX + records * RECORD_TIME_BYTES
    }

    fn is_buffer_full(&self) -> bool {
        self.buffer.text_bytes() >= BUFFER_BYTES || self.has_records_max()
    }

    fn has_times(&self) -> bool {
        self.format == BodyFormat::Ndjson || self.line_times.is_some()
    }

    fn has_records_max(&self) -> bool {
        self.has_times() && self.buffer.count() as usize >= BUFFER_RECORDS_MAX
    }

    /// Objects are parsed, and the section of a keyed body must end at the same line, however the body is divided.
    fn pushes_lines_one_by_one(&self) -> bool {
        self.format == BodyFormat::Ndjson || self.line_times.is_some() && self.is_keyed()
    }

    fn push_one_by_one(&mut self, text: &[u8], flags: &Flags) -> Result<(), BodyError> {
        if self.format == BodyFormat::Ndjson {
            return self.push_objects(text, flags);
        }
        for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            if self.has_records_max() {
                self.flush()?;
            }
            self.buffer.push_line(line, flags.get(row));
        }
        Ok(())
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
        let meta = self.stream.prepare(&mut self.ids, records, self.line_times.as_mut(), is_last)?;
        Ok(self.stream.append_with_retries(&meta, records.text, &self.durability_wait)?)
    }
}

impl BodyConsumer for BodyRecords {
    fn push(&mut self, mut text: &[u8]) -> Result<(), BodyError> {
        while !text.is_empty() {
            if self.is_keyed() && self.section_left == 0 {
                self.flush()?;
                self.section_left = BUFFER_BYTES;
            }
            let portion_max = if self.line_times.is_some() { SPLIT_TIMED_BYTES_MAX } else { SPLIT_BYTES_MAX };
            let portion_max = if self.is_keyed() { self.section_left.min(portion_max) } else { portion_max };
            let (portion, rest) = text.split_at(text.len().min(portion_max));
            text = rest;
            if self.is_keyed() {
                self.section_left -= portion.len();
            }
            let lines = self.splitter.split(portion);
            let remainder = lines.remainder();
            if self.pushes_lines_one_by_one() {
                let (text, flags) = (lines.parts.concat(), lines.flags);
                self.splitter.advance(portion, remainder);
                self.push_one_by_one(&text, &flags)?;
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

    fn finish(&mut self) -> Result<(), BodyError> {
        if let Some(lines) = self.splitter.finish(Flags::UNTERMINATED) {
            if self.pushes_lines_one_by_one() {
                let (text, flags) = (lines.parts.concat(), lines.flags);
                self.push_one_by_one(&text, &flags)?;
            } else {
                self.buffer.push_lines(&lines);
            }
        }
        self.splitter.clear();
        self.append_buffer(true)
    }

    fn flush(&mut self) -> Result<(), BodyError> {
        self.append_buffer(false)
    }

    fn release_buffer(&mut self) {
        if self.buffer.count() == 0 {
            self.buffer = RecordBuffer::new(BUFFER_CAPACITY_MAX);
        }
    }

    fn accepted(&self) -> u64 {
        self.reply.accepted
    }

    // A body with a key is cut by its text alone.
    fn may_flush_early(&self) -> bool {
        !self.is_keyed() && (self.is_streamed || self.accepted() > 0)
    }

    fn buffered_bytes(&self) -> usize {
        self.splitter.carry_bytes() + self.buffer.memory_bytes()
    }

    fn peak_bytes(&self, text_bytes: usize) -> usize {
        let carried = self.splitter.carry_bytes().saturating_add(text_bytes).min(self.record_bytes_max);
        let buffered = self.buffer.text_bytes().saturating_add(text_bytes).min(BUFFER_BYTES);
        // A carried line is copied where it ends.
        let lines = 2 * carried + RecordBuffer::text_capacity(buffered, BUFFER_CAPACITY_MAX);
        let (record_bytes_min, portion_max) = match self.format {
            BodyFormat::Lines if self.line_times.is_none() => return lines,
            BodyFormat::Lines => (LINE_BYTES_MIN, SPLIT_TIMED_BYTES_MAX),
            BodyFormat::Ndjson => (OBJECT_BYTES_MIN, SPLIT_BYTES_MAX),
        };
        let portion = text_bytes.min(portion_max);
        let buffered = self.buffer.count() as usize;
        let records = buffered.saturating_add(text_bytes / record_bytes_min).min(BUFFER_RECORDS_MAX);
        lines + portion + carried + (records + portion / record_bytes_min) * RECORD_TIME_BYTES
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
