//! From unpacked bytes to records in the queue. Runs on a thread that may wait for the disk.

use std::time::Duration;

use bucksaw_ingest::{Durability, FrameRecords, IdempotentBatch, IngestError, Source, SourceLabels};
use bucksaw_record::{Flags, Id, Labels, LineSplitter, Millis, SplitLines};
use bucksaw_segment::RowMeta;

use super::durability::DurabilityWait;
use super::ndjson::event_time;
use crate::app::App;
use crate::error::ApiError;

/// Records that are gathered before they go to the queue together, in bytes.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// As many objects go to the queue together, however short they are: what is noted of each takes memory too.
const BUFFER_OBJECTS_MAX: usize = 32 << 10;

/// The text that is cut at a time, in bytes, so that a piece stays near its size however much is unpacked at once.
const CUT_BYTES_MAX: usize = 64 << 10;

/// What is held of an object's time: as it was read, as it is stated, and as a column.
const OBJECT_TIME_BYTES: usize = size_of::<Option<(Millis, u32)>>() + 2 * size_of::<(Millis, u32)>();

/// The shortest object, with its LF.
const OBJECT_BYTES_MIN: usize = 3;

/// Lines that are told of in an answer.
const ERRORS_MAX: usize = 10;

/// How long and how often a body waits for a disk that does not keep up, before the client is told to come again.
const BUSY_TRIES: u32 = 500;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// How a body is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// A record a line.
    Lines,
    /// A JSON object a line, whose time is read. Blank lines are none.
    Ndjson,
}

/// Who numbers the records of a body.
#[derive(Debug)]
pub(crate) enum IdAssignment {
    /// Each record gets the next number.
    Sequential(Id),
    /// The queue numbers each section, by the key and by what is in it.
    Keyed(IdempotentBatch),
}

/// Takes the text of one body.
///
/// A body with a key is cut into sections at places that only its text decides, so that a retry is cut alike however its bytes
/// arrive: where it has come by another [`PIECE_BYTES`], and before each object beyond [`PIECE_OBJECTS`].
pub(crate) struct Pipeline {
    app: App,
    format: BodyFormat,
    labels: Labels,
    durability: Durability,
    id_assignment: IdAssignment,
    /// Bytes of text up to the end of the section, of a body with a key.
    section_left: usize,
    durability_wait: DurabilityWait,
    cutter: LineSplitter,
    buffer: RecordBuffer,
    is_streamed: bool,
    accepted: u64,
    rejected: u64,
    line: u64,
    errors: Vec<(u64, String)>,
}

/// Records on their way to the queue.
#[derive(Default)]
struct RecordBuffer {
    text: Vec<u8>,
    count: u32,
    flags: Flags,
    /// What each record states of its time; of lines, nothing.
    times: Vec<Option<(Millis, u32)>>,
}

impl Pipeline {
    pub(crate) fn new(
        app: App,
        format: BodyFormat,
        labels: Labels,
        durability: Durability,
        id_assignment: IdAssignment,
        durability_wait: DurabilityWait,
    ) -> Self {
        Self {
            cutter: LineSplitter::new(app.config.record_bytes_max),
            app,
            format,
            labels,
            durability,
            id_assignment,
            section_left: BUFFER_BYTES,
            durability_wait,
            buffer: RecordBuffer::default(),
            is_streamed: false,
            accepted: 0,
            rejected: 0,
            line: 0,
            errors: Vec::new(),
        }
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// The batch, of a body with a key.
    pub(crate) fn batch(&self) -> Option<&IdempotentBatch> {
        match &self.id_assignment {
            IdAssignment::Sequential(_) => None,
            IdAssignment::Keyed(batch) => Some(batch),
        }
    }

    pub(crate) fn errors(&self) -> &[(u64, String)] {
        &self.errors
    }

    /// Bytes that are held between two calls.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.cutter.carry_bytes() + self.buffer.buffered_bytes()
    }

    /// Bytes that may be held at any time while so much text is taken, the text itself not counted.
    pub(crate) fn peak_bytes(&self, text: usize) -> usize {
        let carried = self.cutter.carry_bytes().saturating_add(text).min(self.app.config.record_bytes_max);
        let gathered = self.buffer.text.len().saturating_add(text).min(BUFFER_BYTES);
        // A carried line is copied where it ends.
        let lines = 2 * carried + RecordBuffer::text_capacity(gathered);
        match self.format {
            BodyFormat::Lines => lines,
            BodyFormat::Ndjson => {
                let portion = text.min(CUT_BYTES_MAX);
                let objects = self.buffer.times.len().saturating_add(text / OBJECT_BYTES_MIN).min(BUFFER_OBJECTS_MAX);
                lines + portion + carried + (objects + portion / OBJECT_BYTES_MIN) * OBJECT_TIME_BYTES
            }
        }
    }

    /// What [`Self::most`] may be at most.
    pub(crate) fn peak_bytes_max(record_bytes_max: usize) -> usize {
        let objects = BUFFER_OBJECTS_MAX + CUT_BYTES_MAX / OBJECT_BYTES_MIN;
        3 * record_bytes_max + BUFFER_BYTES + 2 * CUT_BYTES_MAX + objects * OBJECT_TIME_BYTES
    }

    /// The body is known to be longer than a piece.
    pub(crate) fn set_streamed(&mut self) {
        self.is_streamed = true;
    }

    /// Whether the body is too long to be taken whole or not at all, so that a piece may go to the queue at any time. A body
    /// with a key is cut by its text alone.
    pub(crate) fn may_flush_early(&self) -> bool {
        !self.is_keyed() && (self.is_streamed || self.accepted > 0)
    }

    fn is_keyed(&self) -> bool {
        self.batch().is_some()
    }

    /// Takes more of the text.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), ApiError> {
        let mut text = text;
        while !text.is_empty() {
            if self.is_keyed() && self.section_left == 0 {
                self.flush()?;
                self.section_left = BUFFER_BYTES;
            }
            let most = if self.is_keyed() { self.section_left.min(CUT_BYTES_MAX) } else { CUT_BYTES_MAX };
            let (portion, more) = text.split_at(text.len().min(most));
            text = more;
            if self.is_keyed() {
                self.section_left -= portion.len();
            }
            let cut = self.cutter.split(portion);
            let rest = cut.remainder();
            match self.format {
                BodyFormat::Lines => {
                    self.buffer.push_lines(&cut);
                    self.cutter.advance(portion, rest);
                }
                BodyFormat::Ndjson => {
                    let (text, marks) = (cut.parts.concat(), cut.flags);
                    self.cutter.advance(portion, rest);
                    self.push_objects(&text, &marks)?;
                }
            }
            if !self.is_keyed()
                && (self.buffer.text.len() >= BUFFER_BYTES || self.buffer.times.len() >= BUFFER_OBJECTS_MAX)
            {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Holds no more than is needed until there is more text.
    pub(crate) fn release_buffer(&mut self) {
        if self.buffer.count == 0 {
            self.buffer = RecordBuffer::default();
        }
    }

    /// The text is at its end.
    pub(crate) fn finish(&mut self) -> Result<(), ApiError> {
        if let Some(cut) = self.cutter.finish(Flags::UNTERMINATED) {
            match self.format {
                BodyFormat::Lines => self.buffer.push_lines(&cut),
                BodyFormat::Ndjson => {
                    let (text, marks) = (cut.parts.concat(), cut.flags);
                    self.push_objects(&text, &marks)?;
                }
            }
        }
        self.cutter.clear();
        self.append_buffer(true)
    }

    fn push_objects(&mut self, text: &[u8], marks: &Flags) -> Result<(), ApiError> {
        for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            self.line += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match event_time(line) {
                Ok(time) => {
                    if self.is_keyed() && self.buffer.times.len() >= BUFFER_OBJECTS_MAX {
                        self.flush()?;
                    }
                    self.buffer.push_object(line, marks.get(row), time);
                }
                Err(error) => self.reject(&format!("not a JSON object: {error}")),
            }
        }
        Ok(())
    }

    fn reject(&mut self, error: &str) {
        self.rejected += 1;
        self.app.queue().metrics().rejected_records.get_or_create(&by_source()).inc();
        if self.errors.len() < ERRORS_MAX {
            self.errors.push((self.line, error.to_owned()));
        }
    }

    /// Appends what is gathered to the queue.
    pub(crate) fn flush(&mut self) -> Result<(), ApiError> {
        self.append_buffer(false)
    }

    /// The id of the first record of a piece, and the time by which stated times are judged.
    fn assign_ids(&mut self, piece: &RecordBuffer, is_last: bool) -> Result<(Id, Millis), ApiError> {
        match &mut self.id_assignment {
            IdAssignment::Sequential(next) => Ok((*next, self.app.now())),
            IdAssignment::Keyed(batch) => {
                let marks: Vec<u8> =
                    piece.flags.iter().flat_map(|(row, bits)| [&row.to_le_bytes()[..], &[bits]].concat()).collect();
                let first = self.app.queue().assign_ids(batch, &[&piece.text, &marks], is_last)?;
                // A retry has to come to the same times, whenever it comes.
                Ok((first, batch.base_time().unwrap_or(first.time())))
            }
        }
    }

    fn append_buffer(&mut self, is_last: bool) -> Result<(), ApiError> {
        if self.buffer.count == 0 {
            return match &self.id_assignment {
                IdAssignment::Keyed(batch) if is_last => Ok(self.app.queue().end_batch(batch)?),
                _ => Ok(()),
            };
        }
        let mut piece = std::mem::take(&mut self.buffer);
        let now = self.app.now();
        let cut = piece.flags.iter().filter(|(_, bits)| bits & Flags::CUT != 0).count();
        let (first, arrival) = self.assign_ids(&piece, is_last)?;
        let base = first.time();
        let mut replaced = 0;
        let times = piece.times.iter().any(Option::is_some).then(|| {
            let time = |stated: &Option<(Millis, u32)>| match stated {
                None => (base, 0),
                Some((at, nanos)) => match at.clamp_future(arrival) {
                    (at, false) => (at, *nanos),
                    (at, true) => {
                        replaced += 1;
                        (at, 0)
                    }
                },
            };
            piece.times.iter().map(time).collect()
        });
        let mut sides = Vec::new();
        let flags = RowMeta { times, lengths: None, flags: std::mem::take(&mut piece.flags) }.encode(base, &mut sides);
        let Some(next) = first.checked_add(piece.count) else {
            return Err(ApiError::bad_request("a body of more than 4,294,967,295 records: send several"));
        };
        let records = FrameRecords {
            source: Source::Http,
            labels: &self.labels,
            first_id: first,
            count: piece.count,
            accepted: now,
            layout_bits: flags,
            row_meta: &sides,
            text: &[&piece.text],
        };
        self.append(&records)?;
        let metrics = self.app.queue().metrics();
        metrics.cut_records.get_or_create(&by_source()).inc_by(cut as u64);
        metrics.times_replaced.get_or_create(&by_source()).inc_by(replaced);
        if let IdAssignment::Sequential(own) = &mut self.id_assignment {
            *own = next;
        }
        self.accepted += u64::from(piece.count);
        // The next piece has the same buffers.
        piece.clear();
        self.buffer = piece;
        Ok(())
    }

    fn append(&self, records: &FrameRecords<'_>) -> Result<(), ApiError> {
        for _ in 0..BUSY_TRIES {
            match self.app.queue().append(self.durability, records, self.durability_wait.add_part()) {
                Ok(()) => return Ok(()),
                Err(refusal) => {
                    self.durability_wait.cancel_part();
                    if refusal != IngestError::SyncBacklog {
                        return Err(refusal.into());
                    }
                    std::thread::sleep(BUSY_WAIT);
                }
            }
        }
        Err(IngestError::SyncBacklog.into())
    }
}

impl RecordBuffer {
    /// Room for so much text: twice as much each time, up to what a piece may have.
    fn text_capacity(bytes: usize) -> usize {
        bytes.max(bytes.saturating_mul(2).min(BUFFER_BYTES + CUT_BYTES_MAX))
    }

    fn buffered_bytes(&self) -> usize {
        self.text.capacity() + self.times.capacity() * size_of::<Option<(Millis, u32)>>() + self.flags.len() * 8
    }

    fn clear(&mut self) {
        self.text.clear();
        self.times.clear();
        self.flags = Flags::empty();
        self.count = 0;
    }

    fn push_text(&mut self, text: &[u8]) {
        let bytes = self.text.len() + text.len();
        if bytes > self.text.capacity() {
            self.text.reserve_exact(Self::text_capacity(bytes) - self.text.len());
        }
        self.text.extend_from_slice(text);
    }

    fn push_lines(&mut self, cut: &SplitLines<'_>) {
        for (row, bits) in cut.flags.iter() {
            self.flags.push(self.count + row, bits);
        }
        cut.parts.iter().for_each(|part| self.push_text(part));
        self.count += cut.count;
    }

    fn push_object(&mut self, line: &[u8], mark: u8, time: Option<(Millis, u32)>) {
        if mark != 0 {
            self.flags.push(self.count, mark);
        }
        self.times.push(time);
        self.push_text(line);
        self.count += 1;
    }
}

fn by_source() -> SourceLabels {
    SourceLabels { source: Source::Http.name() }
}
