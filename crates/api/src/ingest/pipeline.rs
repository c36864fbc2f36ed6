//! From unpacked bytes to records in the queue. Runs on a thread that may wait for the disk.

use std::time::Duration;

use bucksaw_ingest::{Batch, BySource, Durability, Records, Refusal, Source};
use bucksaw_record::{Cut, Cutter, Id, Labels, Marks, Millis};
use bucksaw_segment::Sides;

use super::ndjson::event_time;
use super::promise::Promise;
use crate::app::App;
use crate::error::ApiError;

/// Records that are gathered before they go to the queue together, in bytes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// As many objects go to the queue together, however short they are: what is noted of each takes memory too.
const PIECE_OBJECTS: usize = 32 << 10;

/// The text that is cut at a time, in bytes, so that a piece stays near its size however much is unpacked at once.
const PORTION_BYTES: usize = 64 << 10;

/// What is held of an object's time: as it was read, as it is stated, and as a column.
const TIME_BYTES: usize = size_of::<Option<(Millis, u32)>>() + 2 * size_of::<(Millis, u32)>();

/// The shortest object, with its LF.
const OBJECT_BYTES_MIN: usize = 3;

/// Lines that are told of in an answer.
const ERRORS_MAX: usize = 10;

/// How long and how often a body waits for a disk that does not keep up, before the client is told to come again.
const BUSY_TRIES: u32 = 500;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// How a body is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record a line.
    Lines,
    /// A JSON object a line, whose time is read. Blank lines are none.
    Ndjson,
}

/// Who numbers the records of a body.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Each record gets the next number.
    Next(Id),
    /// The queue numbers each section, by the key and by what is in it.
    Keyed(Batch),
}

/// Takes the text of one body.
///
/// A body with a key is cut into sections at places that only its text decides, so that a retry is cut alike however its bytes
/// arrive: where it has come by another [`PIECE_BYTES`], and before each object beyond [`PIECE_OBJECTS`].
pub(crate) struct Pipeline {
    app: App,
    kind: Kind,
    labels: Labels,
    durability: Durability,
    numbers: Numbers,
    /// Bytes of text up to the end of the section, of a body with a key.
    section_left: usize,
    promise: Promise,
    cutter: Cutter,
    piece: Piece,
    is_long: bool,
    accepted: u64,
    rejected: u64,
    line: u64,
    errors: Vec<(u64, String)>,
}

/// Records on their way to the queue.
#[derive(Default)]
struct Piece {
    text: Vec<u8>,
    count: u32,
    marks: Marks,
    /// What each record states of its time; of lines, nothing.
    times: Vec<Option<(Millis, u32)>>,
}

impl Pipeline {
    pub(crate) fn new(
        app: App,
        kind: Kind,
        labels: Labels,
        durability: Durability,
        numbers: Numbers,
        promise: Promise,
    ) -> Self {
        Self {
            cutter: Cutter::new(app.config.record_bytes_max),
            app,
            kind,
            labels,
            durability,
            numbers,
            section_left: PIECE_BYTES,
            promise,
            piece: Piece::default(),
            is_long: false,
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
    pub(crate) fn batch(&self) -> Option<&Batch> {
        match &self.numbers {
            Numbers::Next(_) => None,
            Numbers::Keyed(batch) => Some(batch),
        }
    }

    pub(crate) fn errors(&self) -> &[(u64, String)] {
        &self.errors
    }

    /// Bytes that are held between two calls.
    pub(crate) fn held(&self) -> usize {
        self.cutter.carried() + self.piece.held()
    }

    /// Bytes that may be held at any time while so much text is taken, the text itself not counted.
    pub(crate) fn most(&self, text: usize) -> usize {
        let carried = self.cutter.carried().saturating_add(text).min(self.app.config.record_bytes_max);
        let gathered = self.piece.text.len().saturating_add(text).min(PIECE_BYTES);
        // A carried line is copied where it ends.
        let lines = 2 * carried + Piece::text_capacity(gathered);
        match self.kind {
            Kind::Lines => lines,
            Kind::Ndjson => {
                let portion = text.min(PORTION_BYTES);
                let objects = self.piece.times.len().saturating_add(text / OBJECT_BYTES_MIN).min(PIECE_OBJECTS);
                lines + portion + carried + (objects + portion / OBJECT_BYTES_MIN) * TIME_BYTES
            }
        }
    }

    /// What [`Self::most`] may be at most.
    pub(crate) fn most_of_one(record_bytes_max: usize) -> usize {
        let objects = PIECE_OBJECTS + PORTION_BYTES / OBJECT_BYTES_MIN;
        3 * record_bytes_max + PIECE_BYTES + 2 * PORTION_BYTES + objects * TIME_BYTES
    }

    /// The body is known to be longer than a piece.
    pub(crate) fn divide(&mut self) {
        self.is_long = true;
    }

    /// Whether the body is too long to be taken whole or not at all, so that a piece may go to the queue at any time. A body
    /// with a key is cut by its text alone.
    pub(crate) fn is_divided(&self) -> bool {
        !self.is_keyed() && (self.is_long || self.accepted > 0)
    }

    fn is_keyed(&self) -> bool {
        self.batch().is_some()
    }

    /// Takes more of the text.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), ApiError> {
        let mut text = text;
        while !text.is_empty() {
            if self.is_keyed() && self.section_left == 0 {
                self.send()?;
                self.section_left = PIECE_BYTES;
            }
            let most = if self.is_keyed() { self.section_left.min(PORTION_BYTES) } else { PORTION_BYTES };
            let (portion, more) = text.split_at(text.len().min(most));
            text = more;
            if self.is_keyed() {
                self.section_left -= portion.len();
            }
            let cut = self.cutter.cut(portion);
            let rest = cut.rest();
            match self.kind {
                Kind::Lines => {
                    self.piece.push_lines(&cut);
                    self.cutter.advance(portion, rest);
                }
                Kind::Ndjson => {
                    let (text, marks) = (cut.parts.concat(), cut.marks);
                    self.cutter.advance(portion, rest);
                    self.take_objects(&text, &marks)?;
                }
            }
            if !self.is_keyed() && (self.piece.text.len() >= PIECE_BYTES || self.piece.times.len() >= PIECE_OBJECTS) {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Holds no more than is needed until there is more text.
    pub(crate) fn rest(&mut self) {
        if self.piece.count == 0 {
            self.piece = Piece::default();
        }
    }

    /// The text is at its end.
    pub(crate) fn finish(&mut self) -> Result<(), ApiError> {
        if let Some(cut) = self.cutter.finish(Marks::OPEN) {
            match self.kind {
                Kind::Lines => self.piece.push_lines(&cut),
                Kind::Ndjson => {
                    let (text, marks) = (cut.parts.concat(), cut.marks);
                    self.take_objects(&text, &marks)?;
                }
            }
        }
        self.cutter.clear();
        self.give(true)
    }

    fn take_objects(&mut self, text: &[u8], marks: &Marks) -> Result<(), ApiError> {
        for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            self.line += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match event_time(line) {
                Ok(time) => {
                    if self.is_keyed() && self.piece.times.len() >= PIECE_OBJECTS {
                        self.send()?;
                    }
                    self.piece.push_object(line, marks.of(row), time);
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
    pub(crate) fn send(&mut self) -> Result<(), ApiError> {
        self.give(false)
    }

    /// The id of the first record of a piece, and the time by which stated times are judged.
    fn number(&mut self, piece: &Piece, is_last: bool) -> Result<(Id, Millis), ApiError> {
        match &mut self.numbers {
            Numbers::Next(next) => Ok((*next, self.app.now())),
            Numbers::Keyed(batch) => {
                let marks: Vec<u8> =
                    piece.marks.iter().flat_map(|(row, bits)| [&row.to_le_bytes()[..], &[bits]].concat()).collect();
                let first = self.app.queue().number(batch, &[&piece.text, &marks], is_last)?;
                // A retry has to come to the same times, whenever it comes.
                Ok((first, batch.base().unwrap_or(first.at())))
            }
        }
    }

    fn give(&mut self, is_last: bool) -> Result<(), ApiError> {
        if self.piece.count == 0 {
            return match &self.numbers {
                Numbers::Keyed(batch) if is_last => Ok(self.app.queue().end_batch(batch)?),
                _ => Ok(()),
            };
        }
        let mut piece = std::mem::take(&mut self.piece);
        let now = self.app.now();
        let cut = piece.marks.iter().filter(|(_, bits)| bits & Marks::CUT != 0).count();
        let (first, arrival) = self.number(&piece, is_last)?;
        let base = first.at();
        let mut replaced = 0;
        let times = piece.times.iter().any(Option::is_some).then(|| {
            let time = |stated: &Option<(Millis, u32)>| match stated {
                None => (base, 0),
                Some((at, nanos)) => match at.not_ahead_of(arrival) {
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
        let flags = Sides { times, lengths: None, marks: std::mem::take(&mut piece.marks) }.encode(base, &mut sides);
        let Some(next) = first.step(piece.count) else {
            return Err(ApiError::bad("a body of more than 4,294,967,295 records: send several"));
        };
        let records = Records {
            source: Source::Http,
            labels: &self.labels,
            first,
            count: piece.count,
            accepted: now,
            flags,
            sides: &sides,
            text: &[&piece.text],
        };
        self.append(&records)?;
        let metrics = self.app.queue().metrics();
        metrics.cut_records.get_or_create(&by_source()).inc_by(cut as u64);
        metrics.times_replaced.get_or_create(&by_source()).inc_by(replaced);
        if let Numbers::Next(own) = &mut self.numbers {
            *own = next;
        }
        self.accepted += u64::from(piece.count);
        // The next piece has the same buffers.
        piece.clear();
        self.piece = piece;
        Ok(())
    }

    fn append(&self, records: &Records<'_>) -> Result<(), ApiError> {
        for _ in 0..BUSY_TRIES {
            match self.app.queue().append(self.durability, records, self.promise.part()) {
                Ok(()) => return Ok(()),
                Err(refusal) => {
                    self.promise.take_back();
                    if refusal != Refusal::Busy {
                        return Err(refusal.into());
                    }
                    std::thread::sleep(BUSY_WAIT);
                }
            }
        }
        Err(Refusal::Busy.into())
    }
}

impl Piece {
    /// Room for so much text: twice as much each time, up to what a piece may have.
    fn text_capacity(bytes: usize) -> usize {
        bytes.max(bytes.saturating_mul(2).min(PIECE_BYTES + PORTION_BYTES))
    }

    fn held(&self) -> usize {
        self.text.capacity() + self.times.capacity() * size_of::<Option<(Millis, u32)>>() + self.marks.len() * 8
    }

    fn clear(&mut self) {
        self.text.clear();
        self.times.clear();
        self.marks = Marks::none();
        self.count = 0;
    }

    fn push_text(&mut self, text: &[u8]) {
        let bytes = self.text.len() + text.len();
        if bytes > self.text.capacity() {
            self.text.reserve_exact(Self::text_capacity(bytes) - self.text.len());
        }
        self.text.extend_from_slice(text);
    }

    fn push_lines(&mut self, cut: &Cut<'_>) {
        for (row, bits) in cut.marks.iter() {
            self.marks.push(self.count + row, bits);
        }
        cut.parts.iter().for_each(|part| self.push_text(part));
        self.count += cut.count;
    }

    fn push_object(&mut self, line: &[u8], mark: u8, time: Option<(Millis, u32)>) {
        if mark != 0 {
            self.marks.push(self.count, mark);
        }
        self.times.push(time);
        self.push_text(line);
        self.count += 1;
    }
}

fn by_source() -> BySource {
    BySource { source: Source::Http.name() }
}
