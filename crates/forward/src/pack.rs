//! Packing lines into batches: cut, numbered, and encoded as they will be sent, once.

use bucksaw_doors::Doors;
use bucksaw_record::{Cut, Cutter, Id, Marks, Millis, Numbering, Producer};
use bucksaw_segment::{Header, Sides};
use bucksaw_wire::Batch;

use crate::Config;

/// The greatest record: two of them fit in a frame.
const RECORD_BYTES_LIMIT: usize = Header::BODY_BYTES_MAX / 2;

/// The greatest batch: leaves room in a frame for what is added to it last.
const BATCH_BYTES_LIMIT: usize = Header::BODY_BYTES_MAX / 4;

/// A batch as it is sent.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) frame: Vec<u8>,
    pub(crate) records: u32,
    pub(crate) text_bytes: usize,
}

/// Packs one stream.
pub(crate) struct Packer {
    cutter: Cutter,
    batch: Begun,
}

/// A batch that is being filled.
struct Begun {
    doors: Doors,
    numbering: Numbering,
    bytes_max: usize,
    text: Vec<u8>,
    count: u32,
    marks: Marks,
}

impl Packer {
    pub(crate) fn new(config: &Config, doors: &Doors) -> Self {
        let batch = Begun {
            doors: doors.clone(),
            numbering: Numbering::new(Producer::drawn(doors.entropy.next_u64())),
            bytes_max: config.batch_bytes.clamp(1, BATCH_BYTES_LIMIT),
            text: Vec::new(),
            count: 0,
            marks: Marks::none(),
        };
        Self { cutter: Cutter::new(config.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT)), batch }
    }

    /// Takes a chunk of at most a few MiB; returns the batches that are full.
    pub(crate) fn take(&mut self, chunk: &[u8]) -> Vec<Packed> {
        let cut = self.cutter.cut(chunk);
        let full = self.batch.add(&cut);
        let rest = cut.rest();
        self.cutter.advance(chunk, rest);
        full
    }

    /// Takes the end of the stream: a last line without a line end is marked.
    pub(crate) fn finish(&mut self) -> Vec<Packed> {
        let mut full = self.cutter.finish(Marks::OPEN).map(|cut| self.batch.add(&cut)).unwrap_or_default();
        self.cutter.clear();
        full.extend(self.seal());
        full
    }

    /// Whether a batch has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.batch.count > 0
    }

    /// Ends the batch that has begun, if any.
    pub(crate) fn seal(&mut self) -> Option<Packed> {
        self.batch.seal()
    }
}

impl Begun {
    fn add(&mut self, cut: &Cut<'_>) -> Vec<Packed> {
        let mut full = Vec::new();
        if self.text.len() + cut.text_bytes() > self.bytes_max {
            full.extend(self.seal());
        }
        for part in &cut.parts {
            self.text.extend_from_slice(part);
        }
        for (row, bits) in cut.marks.iter() {
            self.marks.push(self.count + row, bits);
        }
        self.count += cut.count;
        if self.text.len() >= self.bytes_max {
            full.extend(self.seal());
        }
        full
    }

    fn seal(&mut self) -> Option<Packed> {
        if self.count == 0 {
            return None;
        }
        let now = Millis(self.doors.clock.unix_ms()).min(Millis::MAX);
        let (count, marks, text) = (self.count, std::mem::take(&mut self.marks), std::mem::take(&mut self.text));
        self.count = 0;
        let first = self.first(now, count);
        let mut sides = Vec::new();
        let flags = Sides::marked(marks).encode(first.at(), &mut sides);
        let frame = Batch { first, count, accepted: now, flags, sides: &sides, text: &text }.encode();
        Some(Packed { frame, records: count, text_bytes: text.len() })
    }

    fn first(&mut self, now: Millis, count: u32) -> Id {
        let first = self.numbering.first(now, count).unwrap_or_else(|| {
            let producer = Producer::drawn(self.doors.entropy.next_u64());
            self.numbering = Numbering::new(producer);
            Id::new(now, producer, 0)
        });
        self.numbering.advance(first, count);
        first
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::{Message, Step};
    use proptest::prelude::*;

    use super::*;

    /// What is in a frame: text, first number, marks.
    type Contents = (String, u32, Vec<(u32, u8)>);

    fn pack(config: &Config, stream: &[u8], chunk: usize) -> Vec<Contents> {
        let mut packer = Packer::new(config, &Doors::real());
        let mut packed: Vec<Packed> = stream.chunks(chunk).flat_map(|chunk| packer.take(chunk)).collect();
        packed.extend(packer.finish());
        let open = |packed: &Packed| {
            let Ok(Step::Whole(Message::Batch(frame), used)) = Message::decode(&packed.frame, u32::MAX) else {
                panic!("no batch")
            };
            let rows = frame.rows().unwrap();
            assert_eq!((used, rows.count, frame.text().len()), (packed.frame.len(), packed.records, packed.text_bytes));
            let text = String::from_utf8(frame.text().to_vec()).unwrap();
            (text, frame.header.first.sequence(), rows.marks.iter().collect())
        };
        packed.iter().map(open).collect()
    }

    #[test]
    fn batches_have_their_size_and_their_marks() {
        let config = Config { record_bytes_max: 4, batch_bytes: 8, ..Config::default() };
        let check = |stream: &str, chunk: usize, want: &[Contents]| {
            assert_eq!(pack(&config, stream.as_bytes(), chunk), want, "{stream:?}");
        };
        let batch = |text: &str, first: u32, marks: &[(u32, u8)]| (text.to_owned(), first, marks.to_vec());
        check("", 9, &[]);
        check("a\nb\n", 9, &[batch("a\nb\n", 0, &[])]);
        check("aa\nbb\ncc\ndd\n", 3, &[batch("aa\nbb\n", 0, &[]), batch("cc\ndd\n", 2, &[])]);
        check("abcdef\ng", 9, &[batch("abcd\nef\n", 0, &[(0, Marks::CUT)]), batch("g\n", 2, &[(0, Marks::OPEN)])]);
        check("x\nab", 9, &[batch("x\nab\n", 0, &[(1, Marks::OPEN)])]);
    }

    proptest! {
        #[test]
        fn no_byte_and_no_number_is_lost(
            stream in "[ab\\n]{0,80}",
            chunk in 1_usize..30,
            record_bytes_max in 1_usize..9,
            batch_bytes in 1_usize..40,
        ) {
            let config = Config { record_bytes_max, batch_bytes, ..Config::default() };
            let mut back = String::new();
            let mut next = 0;
            for (text, first, marks) in pack(&config, stream.as_bytes(), chunk) {
                prop_assert_eq!(first, next);
                for (row, line) in (0..).zip(text.split_inclusive('\n')) {
                    let is_marked = marks.iter().any(|(marked, _)| *marked == row);
                    back.push_str(if is_marked { &line[..line.len() - 1] } else { line });
                    next += 1;
                }
            }
            prop_assert_eq!(back, stream);
        }
    }
}
