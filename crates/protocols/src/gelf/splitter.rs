//! Finds messages in a byte stream, in which a NUL follows each.
//!
//! Memory is bounded: a message longer than the maximum is skipped up to its NUL, and reported once.

use memchr::memchr;

use super::GelfError;

/// Capacity in bytes that an idle stream keeps. Thousands of streams may be idle.
const CARRY_CAPACITY_MAX: usize = 4 << 10;

/// Called for each message, or with the error of one that is too long.
pub type FoundMessage<'a> = dyn FnMut(Result<&[u8], GelfError>) + 'a;

/// Splits one byte stream.
#[derive(Debug)]
pub struct GelfSplitter {
    carry: Vec<u8>,
    message_bytes_max: usize,
    /// Whether the rest of a message that is too long is being skipped.
    skips: bool,
}

impl GelfSplitter {
    /// A splitter for messages of at most `message_bytes_max` bytes.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { carry: Vec::new(), message_bytes_max, skips: false }
    }

    /// Bytes of the unfinished message.
    pub fn carry_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Splits the next bytes of the stream, and calls `found` for each message, or with [`GelfError::TooLong`].
    pub fn push(&mut self, mut chunk: &[u8], found: &mut FoundMessage<'_>) {
        while let Some(at) = memchr(0, chunk) {
            let (end, rest) = chunk.split_at(at);
            self.append(end, true, found);
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.append(chunk, false, found);
    }

    /// Ends the stream: the last message needs no NUL.
    pub fn finish(&mut self, found: &mut FoundMessage<'_>) {
        self.append(b"", true, found);
    }

    fn append(&mut self, bytes: &[u8], is_end: bool, found: &mut FoundMessage<'_>) {
        if !self.skips && self.carry.len() + bytes.len() > self.message_bytes_max {
            self.skips = true;
            self.carry = Vec::new();
            found(Err(GelfError::TooLong(self.message_bytes_max)));
        }
        if self.skips {
            self.skips = !is_end;
            return;
        }
        if !is_end {
            return self.carry.extend_from_slice(bytes);
        }
        let message = if self.carry.is_empty() {
            bytes
        } else {
            self.carry.extend_from_slice(bytes);
            self.carry.as_slice()
        };
        if !message.trim_ascii().is_empty() {
            found(Ok(message));
        }
        self.carry.clear();
        if self.carry.capacity() > CARRY_CAPACITY_MAX {
            self.carry = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(max: usize, chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = GelfSplitter::new(max);
        let mut found = Vec::new();
        let mut note = |message: Result<&[u8], GelfError>| {
            found
                .push(message.map_or_else(|error| error.to_string(), |text| String::from_utf8(text.to_vec()).unwrap()));
        };
        for chunk in chunks {
            splitter.push(chunk, &mut note);
            assert!(splitter.carry_bytes() <= max);
        }
        splitter.finish(&mut note);
        found
    }

    #[test]
    fn messages_end_at_nul() {
        assert_eq!(split(9, &[b"ab\0c", b"d\0\0\n\0ef"]), ["ab", "cd", "ef"]);
        let error = "the GELF message is longer than 3 bytes";
        assert_eq!(split(3, &[b"abc\0abcd\0", b"ab", b"cd", b"ef\0x\0", b"abcd"]), ["abc", error, error, "x", error]);
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(stream in "[ab\0]{0,60}", max in 1_usize..9, cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let stream = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(split(max, &chunks), split(max, &[stream]));
        }
    }
}
