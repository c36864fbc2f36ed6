//! Splits a byte stream into records at LF, without examining each line.
//!
//! All bytes but LF are kept, including CR. The output is text in which an LF follows every record: chunks of the stream
//! as received, except for the unfinished last line, which is carried over. A line longer than the maximum is cut into
//! records of the maximum length, all but the last with [`Flags::CUT`]; no byte is lost. A last line without LF has
//! [`Flags::UNTERMINATED`].
//!
//! A line longer than `max` leaves a window of `max + 1` bytes without an LF, so one backward search per window checks all
//! lengths.

use memchr::{memchr_iter, memrchr};

use crate::Flags;

/// The maximum capacity in bytes that an idle stream keeps for its carry. Thousands of streams may be idle.
const CARRY_CAPACITY_MAX: usize = 4 << 10;

/// The line splitter of one stream.
#[derive(Debug)]
pub struct LineSplitter {
    /// The unfinished line: at most `record_bytes_max` bytes, without LF.
    carry: Vec<u8>,
    record_bytes_max: usize,
}

/// The complete lines of the carry and a chunk.
#[derive(Debug)]
pub struct SplitLines<'a> {
    /// Their concatenation is `count` records, each followed by an LF.
    pub parts: Vec<&'a [u8]>,
    /// The number of records.
    pub count: u32,
    /// The flags of the records, by their index.
    pub flags: Flags,
    /// The offset of the unfinished line in the chunk.
    remainder_at: usize,
}

/// The part of a chunk that [`SplitLines`] does not contain.
#[derive(Clone, Copy, Debug)]
pub struct SplitRemainder {
    /// The offset of the unfinished line in the chunk.
    at: usize,
    /// Whether the lines include the carry.
    consumed_carry: bool,
}

impl LineSplitter {
    /// A splitter for records of at most `record_bytes_max` bytes (at least 1), without LF.
    pub fn new(record_bytes_max: usize) -> Self {
        Self { carry: Vec::new(), record_bytes_max: record_bytes_max.max(1) }
    }

    /// Bytes of the unfinished line.
    pub fn carry_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Splits the carry followed by `chunk`, which has less than 4 GiB. Changes no state: the caller stores the records
    /// and then calls [`Self::advance`].
    pub fn split<'a>(&'a self, chunk: &'a [u8]) -> SplitLines<'a> {
        let mut lines = SplitLines { parts: Vec::with_capacity(2), count: 0, flags: Flags::empty(), remainder_at: 0 };
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
                lines.append_lines(&mut carry, chunk.get(run_at..at + room).unwrap_or_default());
                lines.parts.push(b"\n");
                lines.flags.push(lines.count, Flags::CUT);
                lines.count += 1;
                at += room;
                run_at = at;
                room = self.record_bytes_max;
            } else {
                break;
            }
        }
        if run_at < at {
            lines.append_lines(&mut carry, chunk.get(run_at..at).unwrap_or_default());
        }
        lines.remainder_at = at;
        lines
    }

    /// Carries over the remainder of `chunk`, given by [`SplitLines::remainder`].
    pub fn advance(&mut self, chunk: &[u8], remainder: SplitRemainder) {
        if remainder.consumed_carry {
            self.carry.clear();
            if self.carry.capacity() > CARRY_CAPACITY_MAX {
                self.carry = Vec::new();
            }
        }
        self.carry.extend_from_slice(chunk.get(remainder.at..).unwrap_or_default());
    }

    /// The carry as a last record, or `None` if it is empty. `flag` is [`Flags::UNTERMINATED`] at the end of the stream, or
    /// [`Flags::CUT`] to release memory. The caller stores the record and then calls [`Self::clear`].
    #[must_use]
    pub fn finish(&self, flag: u8) -> Option<SplitLines<'_>> {
        if self.carry.is_empty() {
            return None;
        }
        Some(SplitLines::whole(&self.carry, flag))
    }

    /// Drops the carry.
    pub fn clear(&mut self) {
        self.carry = Vec::new();
    }
}

impl<'a> SplitLines<'a> {
    /// One record of this text, which has no LF, with a flag.
    pub fn whole(text: &'a [u8], flag: u8) -> Self {
        let mut flags = Flags::empty();
        flags.push(0, flag);
        Self { parts: vec![text, b"\n"], count: 1, flags, remainder_at: 0 }
    }

    /// Appends the carry, if not yet appended, and then `run`.
    fn append_lines(&mut self, carry: &mut &'a [u8], run: &'a [u8]) {
        if !carry.is_empty() {
            self.parts.push(std::mem::take(carry));
        }
        self.count += u32::try_from(memchr_iter(b'\n', run).count()).unwrap_or(u32::MAX);
        self.parts.push(run);
    }

    /// The argument of [`LineSplitter::advance`], without the borrow of the chunk.
    pub fn remainder(&self) -> SplitRemainder {
        SplitRemainder { at: self.remainder_at, consumed_carry: self.count > 0 }
    }

    /// Bytes of the chunk that the records contain; the rest is the unfinished line.
    pub fn chunk_bytes(&self) -> usize {
        self.remainder_at
    }

    /// Bytes of text, including LFs.
    pub fn text_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Splits the chunks, and returns the text and the flags of each record.
    fn run(max: usize, chunks: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let mut splitter = LineSplitter::new(max);
        let (mut text, mut flags) = (Vec::new(), Vec::new());
        let mut append = |lines: &SplitLines<'_>| {
            text.extend(lines.parts.concat());
            flags.extend((0..lines.count).map(|row| lines.flags.get(row)));
        };
        for chunk in chunks {
            let lines = splitter.split(chunk);
            append(&lines);
            let remainder = lines.remainder();
            splitter.advance(chunk, remainder);
            assert!(splitter.carry_bytes() <= max);
        }
        if let Some(lines) = splitter.finish(Flags::UNTERMINATED) {
            append(&lines);
        }
        (text, flags)
    }

    #[test]
    fn lines_are_split_at_lf_and_at_the_maximum_length() {
        let check = |chunks: &[&[u8]], text: &[u8], flags: &[u8]| {
            assert_eq!(run(4, chunks), (text.to_vec(), flags.to_vec()), "{chunks:?}");
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
        /// Joining cut records and removing the LF of an unterminated one restores the stream.
        #[test]
        fn no_byte_is_lost(stream in "[ab\n]{0,60}", max in 1_usize..9, cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let stream = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let (text, flags) = run(max, &chunks);
            let mut joined = Vec::new();
            let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            prop_assert_eq!(lines.len(), flags.len());
            for (line, flag) in lines.into_iter().zip(flags) {
                prop_assert!(line.len() <= max + 1);
                joined.extend_from_slice(if flag == 0 { line } else { &line[..line.len() - 1] });
            }
            prop_assert_eq!(joined, stream);
        }
    }
}
