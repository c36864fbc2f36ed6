//! The text of a log in memory, and what an oracle finds in it.

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};
use serde_json::Value;

/// The whole text of a log.
#[derive(Debug)]
pub(super) struct LogText {
    bytes: Vec<u8>,
}

impl LogText {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The line around a position, without its line feed.
    pub(super) fn line_at(&self, at: usize) -> &[u8] {
        let (before, behind) = self.bytes.split_at(at.min(self.bytes.len()));
        let start = memrchr(b'\n', before).map_or(0, |feed| feed + 1);
        let end = memchr(b'\n', behind).map_or(self.bytes.len(), |feed| before.len() + feed);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// The number of lines that are JSON objects and have this text at the top under this key, and the number of other lines
    /// with the value, in which a more tolerant reader may find the field: truncated objects, half surrogates, `key=value`.
    pub(super) fn lines_with_field(&self, name: &str, value: &str) -> (u64, u64) {
        let finder = Finder::new(value);
        let (mut lines, mut undecided, mut from) = (0, 0, 0);
        while let Some(at) = self.bytes.get(from..).and_then(|rest| finder.find(rest)) {
            let line = self.line_at(from + at);
            match serde_json::from_slice::<Value>(line) {
                Ok(object) => lines += u64::from(object.get(name).and_then(Value::as_str) == Some(value)),
                Err(_) => undecided += 1,
            }
            // A value has no line feed, so the next line begins behind the next one.
            from += at;
            from = memchr(b'\n', self.bytes.get(from..).unwrap_or_default())
                .map_or(self.bytes.len(), |feed| from + feed + 1);
        }
        (lines, undecided)
    }

    /// The number of lines, including a last one without line feed.
    pub(super) fn lines(&self) -> u64 {
        memchr_iter(b'\n', &self.bytes).count() as u64 + u64::from(self.bytes.last().is_some_and(|last| *last != b'\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_at_every_position() {
        let log = LogText::new(b"ab\n\ncde\nf".to_vec());
        let lines: Vec<&[u8]> = (0..=log.bytes().len()).map(|at| log.line_at(at)).collect();
        assert_eq!(lines, [&b"ab"[..], b"ab", b"ab", b"", b"cde", b"cde", b"cde", b"cde", b"f", b"f"]);
        assert_eq!(log.lines(), 4);
    }

    #[test]
    fn fields_are_counted_at_the_top_of_objects() {
        let log = LogText::new(
            b"{\"a\":\"xy\"}\n{\"a\":\"xyz\",\"b\":\"xy\"}\n{\"b\":{\"a\":\"xy\"}}\nxy\n{\"b\":\"xy\",\"a\":\"xy\"}"
                .to_vec(),
        );
        assert_eq!((log.lines_with_field("a", "xy"), log.lines_with_field("b", "xy")), ((2, 1), (2, 1)));
    }
}
