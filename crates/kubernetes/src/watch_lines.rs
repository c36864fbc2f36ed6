//! Splits the stream of a watch into events: one JSON object per line.

use memchr::memchr;

/// The longest event, in bytes. The metadata of a pod has at most some hundred KiB.
pub const EVENT_BYTES_MAX: usize = 4 << 20;

/// The memory that is kept between two events.
const KEPT_BYTES: usize = 64 << 10;

/// Splits a stream into lines of bounded length. A longer line is skipped and counted.
#[derive(Debug)]
pub struct WatchLines {
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    bytes_max: usize,
    /// Whether the rest of the line is skipped.
    is_skipping: bool,
    skipped: u64,
}

impl WatchLines {
    /// Lines have at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { begun: Vec::new(), bytes_max, is_skipping: false, skipped: 0 }
    }

    /// Adds bytes, and gives each line that they complete to `sink`, without its line end. Empty lines are left out.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.end_line(line, sink);
        }
        if !self.is_skipping && self.begun.len() + bytes.len() <= self.bytes_max {
            self.begun.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            self.is_skipping = true;
            self.begun = Vec::new();
        }
    }

    /// Lines that were skipped because they are too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Bytes in memory.
    pub fn held_bytes(&self) -> usize {
        self.begun.capacity()
    }

    fn end_line(&mut self, end: &[u8], sink: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.is_skipping) || self.begun.len() + end.len() > self.bytes_max {
            self.skipped += 1;
        } else if self.begun.is_empty() {
            if !end.is_empty() {
                sink(end);
            }
        } else {
            self.begun.extend_from_slice(end);
            sink(&self.begun);
        }
        self.begun.clear();
        self.begun.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(parts: &[&[u8]], bytes_max: usize) -> (Vec<Vec<u8>>, u64) {
        let (mut lines, mut found) = (WatchLines::new(bytes_max), Vec::new());
        parts.iter().for_each(|part| lines.push(part, &mut |line| found.push(line.to_vec())));
        (found, lines.skipped())
    }

    #[test]
    fn lines_are_split_and_long_ones_skipped() {
        let text = b"one\n\nlonger\nfour\nfive5\n6\nrest";
        let want = ["one", "four", "five5", "6"].map(|line| line.as_bytes().to_vec());
        for size in 1..=text.len() {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(split(&parts, 5), (want.to_vec(), 1), "{size}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_give_the_lines_of_the_whole(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..60),
            size in 1_usize..9,
            bytes_max in 0_usize..9,
        ) {
            let whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let ended = &whole[..whole.len() - 1];
            let want: Vec<Vec<u8>> = ended.iter().filter(|line| !line.is_empty() && line.len() <= bytes_max)
                .map(|line| line.to_vec()).collect();
            let long = ended.iter().filter(|line| line.len() > bytes_max).count() as u64;
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(split(&parts, bytes_max), (want, long));
        }
    }
}
