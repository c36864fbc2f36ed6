//! Token boundaries of a whole text as bitmaps with one bit per byte.
//!
//! Most bytes lie inside tokens, and a bitmap is scanned 64 bytes at a time. The compiler vectorises the loops.

use wide::i8x16;

/// Bytes of text per word of a bitmap.
const WORD_BITS: usize = 64;

/// The bitmaps of a text.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    /// The first byte of each possible token, the byte behind it, and all quotes.
    edges: Vec<u64>,
    /// Quotes and backslashes.
    quotes: Vec<u64>,
    /// Whether the text has zero bytes.
    pub(crate) has_zeros: bool,
}

impl Boundaries {
    /// Computes the bitmaps of a text, in place of the previous one.
    pub(crate) fn compute(&mut self, text: &[u8]) {
        self.edges.clear();
        self.quotes.clear();
        let (chunks, rest) = text.as_chunks::<WORD_BITS>();
        let mut last = [b' '; WORD_BITS];
        last[..rest.len()].copy_from_slice(rest);
        let mut before = 0;
        let mut zeros = 0;
        for chunk in chunks.iter().chain([&last]) {
            let tokens = byte_mask(chunk, is_token_byte);
            let quotes = byte_mask(chunk, |byte| (byte == b'"') | (byte == b'\\'));
            self.edges.push(tokens ^ (tokens << 1 | before) | quotes);
            self.quotes.push(quotes);
            before = tokens >> (WORD_BITS - 1);
            zeros |= chunk.iter().fold(0, |zeros, byte| zeros | u8::from(*byte == 0));
        }
        self.has_zeros = zeros != 0;
    }

    /// The edges from an offset on. The search ends soon behind `end`: a text of empty lines has no edges.
    #[inline]
    pub(crate) fn edges(&self, from: usize, end: usize) -> SetBits<'_> {
        SetBits::new(words_until(&self.edges, end), from)
    }

    /// The first quote or backslash at or after an offset; `end` or more if none is before `end`.
    #[inline]
    pub(crate) fn next_quote(&self, from: usize, end: usize) -> usize {
        SetBits::new(words_until(&self.quotes, end), from).next()
    }
}

/// The words with the bits before `end`.
#[inline]
fn words_until(words: &[u64], end: usize) -> &[u64] {
    words.get(..end / WORD_BITS + 1).unwrap_or(words)
}

/// Iterates over the bits that are set.
pub(crate) struct SetBits<'b> {
    words: &'b [u64],
    word_index: usize,
    bits: u64,
}

impl<'b> SetBits<'b> {
    #[inline]
    fn new(words: &'b [u64], from: usize) -> Self {
        let place = from / WORD_BITS;
        let bits = words.get(place).map_or(0, |word| word >> (from % WORD_BITS) << (from % WORD_BITS));
        Self { words, word_index: place, bits }
    }

    /// The next bit; `usize::MAX` if none is left.
    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        while self.bits == 0 {
            self.word_index += 1;
            match self.words.get(self.word_index) {
                Some(word) => self.bits = *word,
                None => return usize::MAX,
            }
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        self.word_index * WORD_BITS + bit
    }

    /// The first bit at or after an offset, which is not before the previous bit.
    #[inline]
    pub(crate) fn next_from(&mut self, from: usize) -> usize {
        *self = SetBits::new(self.words, from);
        self.next()
    }
}

/// Whether a byte belongs to a token of a line: not white space, a quote, a bracket or another delimiter.
#[inline]
fn is_token_byte(byte: u8) -> bool {
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

/// One bit per byte.
#[inline]
fn byte_mask(chunk: &[u8; WORD_BITS], is: impl Fn(u8) -> bool) -> u64 {
    // The highest bit of each flag counts.
    let flags = chunk.map(|byte| if is(byte) { -1 } else { 0 });
    let (vectors, _) = flags.as_chunks::<16>();
    let mask = |vector: &[i8; 16]| u64::from(i8x16::new(*vector).to_bitmask());
    vectors.iter().enumerate().fold(0, |all, (at, vector)| all | mask(vector) << (at * 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::byte_class::{ByteClass, byte_class};

    fn boundaries_of(text: &[u8]) -> Boundaries {
        let mut boundaries = Boundaries::default();
        boundaries.compute(text);
        boundaries
    }

    #[test]
    fn bitmaps_agree_with_byte_classes() {
        let text: Vec<u8> = (0..=255).chain(*b"xx  x\"\"").collect();
        let boundaries = boundaries_of(&text);
        let is_token = |at: usize| byte_class(text[at]) <= ByteClass::Connector;
        let is_quote = |at: usize| text[at] == b'"' || text[at] == b'\\';
        let want: Vec<usize> =
            (0..text.len()).filter(|at| is_quote(*at) || is_token(*at) != (*at > 0 && is_token(at - 1))).collect();
        let mut edges = boundaries.edges(0, text.len());
        let mut got = Vec::new();
        loop {
            let at = edges.next();
            if at >= text.len() {
                break;
            }
            got.push(at);
            assert_eq!(boundaries.edges(0, text.len()).next_from(at), at);
        }
        assert_eq!(got, want);
        for at in 0..text.len() {
            assert_eq!(boundaries.next_quote(at, text.len()) == at, is_quote(at), "{at}");
        }
        assert!(boundaries.has_zeros);
        assert!(!boundaries_of(b"0").has_zeros && boundaries_of(b"\0").has_zeros);
        assert_eq!(boundaries.next_quote(text.len(), text.len()), usize::MAX);
        assert_eq!((boundaries.edges(129, 130).next(), boundaries.edges(129, text.len()).next()), (usize::MAX, 258));
    }
}
