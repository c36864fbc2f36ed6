//! Divides a text into parts at line ends, by the text alone.

use std::io::{self, Read};

use memchr::memrchr;

/// A part ends at the first line end behind this many bytes.
const PART_BYTES: usize = 4 << 20;

/// The end of a part without a line end behind [`PART_BYTES`]. A node cuts such lines anyway.
const PART_BYTES_MAX: usize = 16 << 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Some whole lines of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes of the text before them.
    pub(super) offset: u64,
    pub(super) text: Vec<u8>,
}

/// The whole lines before an error.
#[derive(Debug)]
pub(super) struct DamagedPart {
    pub(super) part: Part,
    pub(super) error: io::Error,
}

/// The parts of a text.
pub(super) struct Parts<R> {
    text: R,
    offset: u64,
    /// What was read behind the last part.
    rest: Vec<u8>,
    has_ended: bool,
}

impl<R: Read> Parts<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, offset: 0, rest: Vec::new(), has_ended: false }
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`DamagedPart`] if the text cannot be read further; the unfinished line is not in it.
    pub(super) fn next_part(&mut self) -> Result<Option<Part>, DamagedPart> {
        loop {
            if let Some(end) = self.part_end() {
                return Ok(Some(self.part(end)));
            }
            if self.has_ended {
                let end = self.rest.len();
                return Ok((end > 0).then(|| self.part(end)));
            }
            let begun = self.rest.len();
            self.rest.resize(begun + READ_BYTES, 0);
            let read = self.text.read(self.rest.get_mut(begun..).unwrap_or_default());
            self.rest.truncate(begun + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(count) => self.has_ended = count == 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let end = memrchr(b'\n', &self.rest).map_or(0, |at| at + 1);
                    return Err(DamagedPart { part: self.part(end), error });
                }
            }
        }
    }

    /// Where the next part ends in the text that was read, if that is known.
    fn part_end(&self) -> Option<usize> {
        let behind = self.rest.get(PART_BYTES - 1..)?;
        let end = memchr::memchr(b'\n', behind).map(|at| PART_BYTES + at);
        end.filter(|end| *end <= PART_BYTES_MAX)
            .or_else(|| (self.rest.len() >= PART_BYTES_MAX).then_some(PART_BYTES_MAX))
    }

    fn part(&mut self, end: usize) -> Part {
        let rest = self.rest.split_off(end);
        let text = std::mem::replace(&mut self.rest, rest);
        let offset = self.offset;
        self.offset += text.len() as u64;
        Part { offset, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, the maximum of bytes that one read gives of it, and an error that follows.
    struct InPieces<'a>(&'a [u8], usize, Option<io::ErrorKind>);

    impl Read for InPieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty()
                && let Some(kind) = self.2.take()
            {
                return Err(kind.into());
            }
            let (piece, rest) = self.0.split_at(self.1.min(buffer.len()).min(self.0.len()));
            buffer[..piece.len()].copy_from_slice(piece);
            self.0 = rest;
            Ok(piece.len())
        }
    }

    /// The offsets and lengths of the parts.
    fn parts(text: &[u8], piece: usize) -> Vec<(u64, usize)> {
        let mut parts = Parts::new(InPieces(text, piece, None));
        let (mut found, mut joined) = (Vec::new(), Vec::new());
        while let Some(part) = parts.next_part().unwrap() {
            found.push((part.offset, part.text.len()));
            joined.extend(part.text);
        }
        assert!(joined == text, "other text");
        found
    }

    #[test]
    fn parts_end_at_lines_however_the_text_is_read() {
        let line = [&[b'x'; 999][..], b"\n"].concat();
        let text = line.repeat(10_000);
        let want = [(0, 4_195_000), (4_195_000, 4_195_000), (8_390_000, 1_610_000)];
        for piece in [7_777, 100_000, usize::MAX] {
            assert_eq!(parts(&text, piece), want);
        }
        assert_eq!(parts(b"", 9), []);
        assert_eq!(parts(b"a\nb", 1), [(0, 3)]);
        // A line end that is the last byte of the minimum counts.
        let exact = [&vec![b'x'; PART_BYTES - 1][..], b"\ny\n"].concat();
        assert_eq!(parts(&exact, 100_000), [(0, PART_BYTES), (PART_BYTES as u64, 2)]);
    }

    #[test]
    fn a_text_without_line_ends_is_divided_too() {
        let text = vec![b'x'; PART_BYTES_MAX + 5];
        assert_eq!(parts(&text, 100_000), [(0, PART_BYTES_MAX), (PART_BYTES_MAX as u64, 5)]);
    }

    #[test]
    fn whole_lines_before_an_error_are_a_part() {
        let mut parts = Parts::new(InPieces(b"a\nb\nc", 2, Some(io::ErrorKind::InvalidData)));
        let damaged = parts.next_part().unwrap_err();
        assert_eq!(damaged.part, Part { offset: 0, text: b"a\nb\n".to_vec() });
        assert_eq!(damaged.error.kind(), io::ErrorKind::InvalidData);
    }
}
