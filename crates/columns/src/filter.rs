//! A filter that tells of most texts that a block cannot contain them, without opening it.
//!
//! A bit for each *gram*: four bytes of a word (letters, digits, `_`, bytes from 0x80 on) that are not all digits, with
//! ASCII letters in lower case. Digits alone are in every block in any order, and would fill the filter. Bytes between
//! words are in no gram, so that it does not matter how words are put together; whatever is contained in a line has its
//! words there, whole or in part, and so its grams.
//!
//! In front of them stands a bit for each byte that occurs at all.
//!
//! One hash, a bit each, and about a quarter of the bits set: a text with five grams is wrongly let through once in a
//! thousand times. (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970, with k = 1: that leaves
//! the bits of many grams in one cache line unneeded, and the table can be made half as large by laying its halves over
//! each other.)

/// Bits while a block is encoded, as a power of two.
const BITS_LOG_MAX: u32 = 21;

/// Bits of the smallest filter.
const BITS_LOG_MIN: u32 = 9;

/// Of 256 bits, at most so many may be set when the table is halved.
const FILLED_MAX: usize = 88;

/// Bytes of the set of all bytes.
const BYTE_SET: usize = 32;

/// Bytes of a gram.
const GRAM: usize = 4;

const FOLDED: [u8; 256] = {
    let mut folded = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let at = byte as u8;
        folded[byte] = match at {
            b'A'..=b'Z' => at + 32,
            b'0'..=b'9' | b'a'..=b'z' | b'_' | 0x80.. => at,
            _ => 0,
        };
        byte += 1;
    }
    folded
};

fn place(gram: u32) -> u32 {
    gram.wrapping_mul(0x9e37_79b1) >> (32 - BITS_LOG_MAX)
}

/// Calls `each` with the grams of a text.
#[inline]
fn grams(text: &[u8], mut each: impl FnMut(u32)) {
    let (mut gram, mut run, mut digits) = (0_u32, 0_usize, 0_usize);
    for byte in text {
        let folded = FOLDED[*byte as usize];
        if folded == 0 {
            (run, digits) = (0, 0);
            continue;
        }
        gram = gram << 8 | u32::from(folded);
        run += 1;
        digits = if folded.is_ascii_digit() { digits + 1 } else { 0 };
        if run >= GRAM && digits < GRAM {
            each(gram);
        }
    }
}

/// A filter in the making.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bytes: [bool; 256],
    words: Vec<u64>,
}

impl FilterBuilder {
    pub(crate) fn new() -> Self {
        Self { bytes: [false; 256], words: vec![0; 1 << (BITS_LOG_MAX - 6)] }
    }

    /// Starts anew.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Takes in a text that stands between bytes of no word.
    pub(crate) fn add(&mut self, text: &[u8]) {
        self.add_bytes(text);
        grams(text, |gram| {
            let place = place(gram);
            self.words[place as usize / 64] |= 1 << (place % 64);
        });
    }

    /// Takes in bytes that stand in some word of which nothing is known but that it has no grams.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.bytes[*byte as usize] = true);
    }

    /// The filter as it is kept, in as few bytes as do; starts anew.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut words = std::mem::replace(&mut self.words, vec![0; 1 << (BITS_LOG_MAX - 6)]);
        while words.len() * 64 > 1 << BITS_LOG_MIN {
            let half = words.len() / 2;
            let (low, high) = words.split_at(half);
            let halved: Vec<u64> = low.iter().zip(high).map(|(low, high)| low | high).collect();
            let filled: usize = halved.iter().map(|word| word.count_ones() as usize).sum();
            if filled * 256 > half * 64 * FILLED_MAX {
                break;
            }
            words = halved;
        }
        let mut out = vec![0; BYTE_SET];
        for (byte, _) in std::mem::replace(&mut self.bytes, [false; 256]).iter().enumerate().filter(|(_, is)| **is) {
            out[byte / 8] |= 1 << (byte % 8);
        }
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out
    }
}

/// A filter as it is kept. Never says wrongly that something is not there; of bytes that are no filter it says that all
/// may be.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a>(Option<(&'a [u8; BYTE_SET], &'a [u8])>);

impl<'a> Filter<'a> {
    /// Takes the bytes for a filter.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.split_first_chunk().filter(|(_, grams)| grams.len().is_power_of_two()))
    }

    /// Whether a line may have this byte.
    #[must_use]
    pub fn may_have(self, byte: u8) -> bool {
        self.0.is_none_or(|(set, _)| set.get(byte as usize / 8).is_some_and(|bits| bits >> (byte % 8) & 1 == 1))
    }

    /// Whether a line may contain the text; with `any_case`, ASCII letters in either case.
    #[must_use]
    pub fn may_contain(self, text: &[u8], any_case: bool) -> bool {
        let Some((_, bits)) = self.0 else { return true };
        let mut may = text.iter().all(|byte| {
            let other =
                any_case && (self.may_have(byte.to_ascii_lowercase()) || self.may_have(byte.to_ascii_uppercase()));
            other || self.may_have(*byte)
        });
        grams(text, |gram| {
            let place = place(gram) as usize & (bits.len() * 8 - 1);
            may &= bits.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1);
        });
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_passes_and_most_else_does_not() {
        let mut builder = FilterBuilder::new();
        let letters = |number: u64| -> String {
            (0..12)
                .map(|at| char::from(b'a' + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at * 5)) as u8 % 26))
                .collect()
        };
        let words: Vec<String> = (0..5_000).map(letters).collect();
        words.iter().for_each(|word| builder.add(word.as_bytes()));
        let filter = builder.take();
        let filter = Filter::new(&filter);
        for word in &words {
            let part = word.get(2..9).unwrap().to_uppercase();
            assert!(filter.may_contain(word.as_bytes(), false) && filter.may_contain(part.as_bytes(), true));
        }
        assert!(!filter.may_contain(b"0", true) && !filter.may_have(b'\\'));
        let passed = (5_000..6_000).filter(|at| filter.may_contain(letters(*at).as_bytes(), false)).count();
        assert!(passed < 20, "{passed}");
        assert!(!filter.may_contain(b"12345678", false));
        assert!(Filter::new(&[]).may_contain(b"anything", false));
    }
}
