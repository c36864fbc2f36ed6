//! Where tokens of a line may begin and end, for a whole text at once: a bit for each byte.
//!
//! Most bytes lie within tokens, and a bit map is looked over 64 bytes at a time. The loops are such that the compiler
//! makes wide instructions of them.

/// Bytes for a word of bits.
const WIDE: usize = 64;

/// The bit maps of a text.
#[derive(Debug, Default)]
pub(crate) struct Borders {
    /// Bytes of tokens.
    token: Vec<u64>,
    /// Quotes, and what takes their meaning from them.
    quote: Vec<u64>,
    /// Whether there are zero bytes.
    pub(crate) has_zeros: bool,
}

impl Borders {
    /// Looks over a text; takes the place of the one before.
    pub(crate) fn look(&mut self, text: &[u8]) {
        self.token.clear();
        self.quote.clear();
        self.has_zeros = memchr::memchr(0, text).is_some();
        let (chunks, rest) = text.as_chunks::<WIDE>();
        let mut last = [b' '; WIDE];
        last[..rest.len()].copy_from_slice(rest);
        for chunk in chunks.iter().chain([&last]) {
            self.token.push(bits(chunk, is_of_token));
            self.quote.push(bits(chunk, |byte| byte == b'"' || byte == b'\\'));
        }
    }

    /// The first byte at or after `at` that is of a token, a quote or a backslash; beyond the text when there is none.
    #[inline]
    pub(crate) fn begin(&self, at: usize) -> usize {
        first(at, self.token.len(), |word| self.token[word] | self.quote[word])
    }

    /// The first byte at or after `at` that is of no token.
    #[inline]
    pub(crate) fn end(&self, at: usize) -> usize {
        first(at, self.token.len(), |word| !self.token[word])
    }

    /// The first quote or backslash at or after `at`; beyond the text when there is none.
    #[inline]
    pub(crate) fn quote(&self, at: usize) -> usize {
        first(at, self.quote.len(), |word| self.quote[word])
    }
}

/// The first bit that is set at or after `at` in `words` words.
#[inline]
fn first(at: usize, words: usize, word: impl Fn(usize) -> u64) -> usize {
    let mut place = at / WIDE;
    if place >= words {
        return usize::MAX;
    }
    let mut bits = word(place) >> (at % WIDE) << (at % WIDE);
    while bits == 0 {
        place += 1;
        if place == words {
            return usize::MAX;
        }
        bits = word(place);
    }
    place * WIDE + bits.trailing_zeros() as usize
}

/// Whether a byte is of a token of a line: all but white space, quotes, brackets and such. See `cut`.
#[inline]
fn is_of_token(byte: u8) -> bool {
    let within = |low: u8, high: u8| byte.wrapping_sub(low) <= high - low;
    within(b'#', b'&')
        | (byte == b'+')
        | within(b'-', b':')
        | within(b'?', b'Z')
        | within(b'^', b'_')
        | within(b'a', b'z')
        | (byte == b'~')
        | (byte >= 0x80)
        | (byte == 0)
}

/// A bit for each byte.
#[inline]
fn bits(chunk: &[u8; WIDE], is: impl Fn(u8) -> bool) -> u64 {
    let flags = chunk.map(|byte| u8::from(is(byte)));
    let (eights, _) = flags.as_chunks::<8>();
    // The product brings the lowest bits of eight bytes together in the highest byte.
    let gather = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().enumerate().fold(0, |all, (at, eight)| all | gather(eight) << (at * 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::{Class, class};

    #[test]
    fn bits_are_what_the_classes_say() {
        let text: Vec<u8> = (0..=255).chain([b'x'; 3]).collect();
        let mut borders = Borders::default();
        borders.look(&text);
        for (at, byte) in text.iter().enumerate() {
            let token = class(*byte) <= Class::Soft;
            assert_eq!(borders.end(at) != at, token, "{byte}");
            assert_eq!(borders.begin(at) == at, token || *byte == b'"' || *byte == b'\\', "{byte}");
            assert_eq!(borders.quote(at) == at, *byte == b'"' || *byte == b'\\', "{byte}");
        }
        assert!(borders.has_zeros);
        assert_eq!((borders.end(256), borders.begin(259)), (259, usize::MAX));
    }
}
