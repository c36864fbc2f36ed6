//! From unpacked bytes to records in the queue. Runs on a thread that may wait for the disk.

use std::time::Duration;

use bucksaw_ingest::{BySource, Durability, Records, Refusal, Source};
use bucksaw_record::{Cutter, Id, Labels, Marks, Millis, Producer};
use bucksaw_segment::Sides;

use super::ndjson::event_time;
use super::promise::Promise;
use crate::app::App;
use crate::error::ApiError;

/// Records that are gathered before they go to the queue together, in bytes. This is what a request holds in memory.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

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

/// Takes the text of one body.
pub(crate) struct Pipeline {
    app: App,
    kind: Kind,
    labels: Labels,
    durability: Durability,
    next: Id,
    promise: Promise,
    cutter: Cutter,
    piece: Piece,
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
        producer: Producer,
        base: Millis,
        promise: Promise,
    ) -> Self {
        Self {
            cutter: Cutter::new(app.config.record_bytes_max),
            app,
            kind,
            labels,
            durability,
            next: Id::new(base, producer, 0),
            promise,
            piece: Piece::default(),
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

    pub(crate) fn errors(&self) -> &[(u64, String)] {
        &self.errors
    }

    /// Takes more of the text.
    pub(crate) fn push(&mut self, text: &[u8]) -> Result<(), ApiError> {
        // Cut in portions, so that a piece stays near its size however much is unpacked at once.
        for portion in text.chunks(PIECE_BYTES) {
            let cut = self.cutter.cut(portion);
            let rest = cut.rest();
            let (text, count, marks) = (cut.parts.concat(), cut.count, cut.marks);
            self.cutter.advance(portion, rest);
            self.take(&text, count, &marks)?;
        }
        Ok(())
    }

    /// The text is at its end.
    pub(crate) fn finish(&mut self) -> Result<(), ApiError> {
        if let Some(cut) = self.cutter.finish(Marks::OPEN) {
            let (text, marks) = (cut.parts.concat(), cut.marks);
            self.cutter.clear();
            self.take(&text, 1, &marks)?;
        }
        self.send()
    }

    /// Takes `count` whole records, each with its LF.
    fn take(&mut self, text: &[u8], count: u32, marks: &Marks) -> Result<(), ApiError> {
        match self.kind {
            Kind::Lines => self.piece.push_lines(text, count, marks),
            Kind::Ndjson => self.take_objects(text, marks),
        }
        if self.piece.text.len() >= PIECE_BYTES { self.send() } else { Ok(()) }
    }

    fn take_objects(&mut self, text: &[u8], marks: &Marks) {
        for (row, line) in (0..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            self.line += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match event_time(line) {
                Ok(time) => self.piece.push_object(line, marks.of(row), time),
                Err(error) => self.reject(&format!("not a JSON object: {error}")),
            }
        }
    }

    fn reject(&mut self, error: &str) {
        self.rejected += 1;
        self.app.queue().metrics().rejected_records.get_or_create(&by_source()).inc();
        if self.errors.len() < ERRORS_MAX {
            self.errors.push((self.line, error.to_owned()));
        }
    }

    /// Appends what is gathered to the queue.
    fn send(&mut self) -> Result<(), ApiError> {
        let piece = std::mem::take(&mut self.piece);
        if piece.count == 0 {
            return Ok(());
        }
        let now = self.app.now();
        let metrics = self.app.queue().metrics();
        let cut = piece.marks.iter().filter(|(_, bits)| bits & Marks::CUT != 0).count();
        let base = self.next.at();
        let mut replaced = 0;
        let times = piece.times.iter().any(Option::is_some).then(|| {
            let time = |stated: &Option<(Millis, u32)>| match stated {
                None => (base, 0),
                Some((at, nanos)) => match at.not_ahead_of(now) {
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
        let flags = Sides { times, lengths: None, marks: piece.marks }.encode(base, &mut sides);
        let Some(next) = self.next.step(piece.count) else {
            return Err(ApiError::bad("a body of more than 4,294,967,295 records: send several"));
        };
        let records = Records {
            source: Source::Http,
            labels: &self.labels,
            first: self.next,
            count: piece.count,
            accepted: now,
            flags,
            sides: &sides,
            text: &[&piece.text],
        };
        self.append(&records)?;
        metrics.cut_records.get_or_create(&by_source()).inc_by(cut as u64);
        metrics.times_replaced.get_or_create(&by_source()).inc_by(replaced);
        self.next = next;
        self.accepted += u64::from(piece.count);
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
    fn push_lines(&mut self, text: &[u8], count: u32, marks: &Marks) {
        for (row, bits) in marks.iter() {
            self.marks.push(self.count + row, bits);
        }
        self.text.extend_from_slice(text);
        self.count += count;
    }

    fn push_object(&mut self, line: &[u8], mark: u8, time: Option<(Millis, u32)>) {
        if mark != 0 {
            self.marks.push(self.count, mark);
        }
        self.times.push(time);
        self.text.extend_from_slice(line);
        self.count += 1;
    }
}

fn by_source() -> BySource {
    BySource { source: Source::Http.name() }
}
