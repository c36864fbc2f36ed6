//! Cutting a byte stream into lines without looking at each line.
//!
//! A line ends at LF; every other byte is kept, a CR too. What comes out is text in which every record is followed by an
//! LF: whole chunks of the stream as they came, with only the unfinished last line held back. Too long a line is cut into
//! records of the greatest length, each but the last marked [`Marks::CUT`]; no byte is lost. The end of a stream without a
//! line end is marked [`Marks::OPEN`].
//!
//! Lengths are not checked line by line: a line longer than `max` leaves a window of `max + 1` bytes without an LF, so one
//! backward search per window suffices.

use memchr::{memchr_iter, memrchr};

use crate::Flags;

/// The room for an unfinished line that an idle stream keeps, in bytes: thousands of streams are idle at a time.
const CARRY_CAPACITY_MAX: usize = 4 << 10;

/// Cuts one stream.
#[derive(Debug)]
pub struct LineSplitter {
    /// The unfinished line: at most `max` bytes and no LF.
    carry: Vec<u8>,
    record_bytes_max: usize,
}

/// The whole lines of a chunk, together with what was carried over.
#[derive(Debug)]
pub struct SplitLines<'a> {
    /// Put one after the other: `count` records, each followed by an LF.
    pub parts: Vec<&'a [u8]>,
    /// How many records.
    pub count: u32,
    /// Which records were cut.
    pub flags: Flags,
    /// Where in the chunk the unfinished line starts.
    remainder_at: usize,
}

/// What a cut leaves of its chunk.
#[derive(Clone, Copy, Debug)]
pub struct SplitRemainder {
    /// Where in the chunk the unfinished line starts.
    at: usize,
    /// Whether the cut holds what was carried.
    consumed_carry: bool,
}

impl LineSplitter {
    /// A cutter for records of at most `record_bytes_max` bytes (at least 1), the LF not counted.
    #[must_use]
    pub fn new(record_bytes_max: usize) -> Self {
        Self { carry: Vec::new(), record_bytes_max: record_bytes_max.max(1) }
    }

    /// Bytes held back.
    #[must_use]
    pub fn carry_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Cuts what is carried and `chunk`. Changes nothing: when the records are safe, [`Self::advance`].
    /// A chunk may hold up to 4 GiB.
    #[must_use]
    pub fn split<'a>(&'a self, chunk: &'a [u8]) -> SplitLines<'a> {
        let mut cut = SplitLines { parts: Vec::with_capacity(2), count: 0, flags: Flags::empty(), remainder_at: 0 };
        let mut run_at = 0_usize;
        let mut at = 0_usize;
        let mut room = self.record_bytes_max.saturating_sub(self.carry.len());
        let mut carry = self.carry.as_slice();
        loop {
            let window_end = at.saturating_add(room).saturating_add(1).min(chunk.len());
            let window = chunk.get(at..window_end).unwrap_or_default();
            if let Some(last) = memrchr(b'\n', window) {
                at += last + 1;
                room = self.record_bytes_max;
            } else if window.len() > room {
                cut.append_lines(&mut carry, chunk.get(run_at..at + room).unwrap_or_default());
                cut.parts.push(b"\n");
                cut.flags.push(cut.count, Flags::CUT);
                cut.count += 1;
                at += room;
                run_at = at;
                room = self.record_bytes_max;
            } else {
                break;
            }
        }
        if run_at < at {
            cut.append_lines(&mut carry, chunk.get(run_at..at).unwrap_or_default());
        }
        cut.remainder_at = at;
        cut
    }

    /// Goes on after a cut of `chunk` whose records are safe, with what [`Cut::rest`] said of it.
    pub fn advance(&mut self, chunk: &[u8], rest: SplitRemainder) {
        if rest.consumed_carry {
            self.carry.clear();
            if self.carry.capacity() > CARRY_CAPACITY_MAX {
                self.carry = Vec::new();
            }
        }
        self.carry.extend_from_slice(chunk.get(rest.at..).unwrap_or_default());
    }

    /// What is carried, as a last record: at the end of the stream (`Marks::OPEN`), or because the memory is wanted
    /// (`Marks::CUT`). `None` when nothing is. When the record is safe, [`Self::clear`].
    #[must_use]
    pub fn finish(&self, flag: u8) -> Option<SplitLines<'_>> {
        if self.carry.is_empty() {
            return None;
        }
        let mut flags = Flags::empty();
        flags.push(0, flag);
        Some(SplitLines { parts: vec![&self.carry, b"\n"], count: 1, flags, remainder_at: 0 })
    }

    /// Forgets what is carried.
    pub fn clear(&mut self) {
        self.carry = Vec::new();
    }
}

impl<'a> SplitLines<'a> {
    /// Takes what ends here: the carried start of the first line, and then the run.
    fn append_lines(&mut self, carry: &mut &'a [u8], run: &'a [u8]) {
        if !carry.is_empty() {
            self.parts.push(std::mem::take(carry));
        }
        self.count += u32::try_from(memchr_iter(b'\n', run).count()).unwrap_or(u32::MAX);
        self.parts.push(run);
    }

    /// What [`Cutter::advance`] wants to know, free of the borrow.
    #[must_use]
    pub fn remainder(&self) -> SplitRemainder {
        SplitRemainder { at: self.remainder_at, consumed_carry: self.count > 0 }
    }

    /// Bytes of text, the LFs included.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds the chunks; returns the text that came out and the marks by record.
    fn run(max: usize, chunks: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let mut cutter = LineSplitter::new(max);
        let (mut text, mut flags) = (Vec::new(), Vec::new());
        let mut note = |cut: &SplitLines<'_>| {
            text.extend(cut.parts.concat());
            flags.extend((0..cut.count).map(|row| cut.flags.get(row)));
        };
        for chunk in chunks {
            let cut = cutter.split(chunk);
            note(&cut);
            let rest = cut.remainder();
            cutter.advance(chunk, rest);
            assert!(cutter.carry_bytes() <= max);
        }
        if let Some(cut) = cutter.finish(Flags::UNTERMINATED) {
            note(&cut);
        }
        (text, flags)
    }

    #[test]
    fn lines_are_whole() {
        let check = |chunks: &[&[u8]], text: &[u8], marks: &[u8]| {
            assert_eq!(run(4, chunks), (text.to_vec(), marks.to_vec()), "{chunks:?}");
        };
        check(&[b"a\nb\n"], b"a\nb\n", &[0, 0]);
        check(&[b"a", b"b\nc", b"\n"], b"ab\nc\n", &[0, 0]);
        check(&[b"\n\n"], b"\n\n", &[0, 0]);
        check(&[b"a\r\n\0\n"], b"a\r\n\0\n", &[0, 0]);
        check(&[b"abcd\n"], b"abcd\n", &[0]);
        check(&[b"abcde\n"], b"abcd\ne\n", &[1, 0]);
        check(&[b"abcd", b"efghi", b"j\nk\n"], b"abcd\nefgh\nij\nk\n", &[1, 1, 0, 0]);
        check(&[b"x\nabcdefgh"], b"x\nabcd\nefgh\n", &[0, 1, 2]);
        check(&[b"abc"], b"abc\n", &[2]);
        check(&[], b"", &[]);
    }

    proptest! {
        /// Joining cut records again and dropping the line end that was added gives the stream back.
        #[test]
        fn nothing_is_lost(stream in "[ab\n]{0,60}", max in 1_usize..9, cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let stream = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let (text, marks) = run(max, &chunks);
            let mut back = Vec::new();
            let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            prop_assert_eq!(lines.len(), marks.len());
            for (line, mark) in lines.into_iter().zip(marks) {
                prop_assert!(line.len() <= max + 1);
                back.extend_from_slice(if mark == 0 { line } else { &line[..line.len() - 1] });
            }
            prop_assert_eq!(back, stream);
        }
    }
}
