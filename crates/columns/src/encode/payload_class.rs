//! Which payloads of a block are packed beside each other.
//!
//! zstd codes 128 KiB with one Huffman code, so bytes with other frequencies make their neighbours longer. Payloads of one class have
//! similar bytes: letters beside letters, codes of few values beside others of few values.

use std::ops::RangeInclusive;

use crate::encode::number_planes::entropy_bits;

/// The class of a payload. Payloads are packed in the order of their classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PayloadClass {
    content: PayloadContent,
    /// The entropy of a byte by the frequencies of a sample, in bits, rounded down.
    bits: u8,
    /// Bytes per number, four for more; 1 for texts.
    width: u8,
}

/// What the bytes of a payload are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PayloadContent {
    /// Texts, most of whose bytes are these.
    Digits,
    LowerCase,
    UpperCase,
    Alphanumeric,
    /// Other texts.
    Text,
    /// Codes of values in a dictionary, or of tables.
    Codes,
    /// Differences of numbers from their minimum.
    Offsets,
    /// Differences of numbers from the one before.
    Deltas,
    /// Hexadecimal digits, two to a byte.
    Nibbles,
}

/// Bytes of a sample, and the number of pieces in which they are: a payload may be several planes.
const SAMPLE_BYTES: usize = 4_096;
const SAMPLE_PIECES: usize = 16;

/// Tenths of the bytes of a text from which on it is of one kind.
const DIGITS_MIN: u32 = 4;
const LOWER_CASE_MIN: u32 = 7;
const UPPER_CASE_MIN: u32 = 6;
const ALPHANUMERIC_MIN: u32 = 8;

/// Bytes per number from which on numbers are in one class.
const WIDTH_MAX: usize = 4;

/// The lowest level of a block that is raised. Lower ones are chosen for text of which less time is to be taken.
const RAISED_LEVEL_MIN: i32 = 3;

/// Bits of a byte up to which numbers are compressible.
const COMPRESSIBLE_BITS: u8 = 5;

/// Levels by which compressible numbers and the tree are packed higher. They become 4 % smaller for 3 % of the time of encoding; text gains
/// a tenth of that, and four more levels save 1 % for 10 % of the time.
const RAISED_LEVELS: i32 = 2;

impl PayloadClass {
    /// The class of texts.
    pub(crate) fn of_text(text: &[u8]) -> Self {
        let counts = byte_counts(text);
        let sum = |range: RangeInclusive<u8>| range.filter_map(|byte| counts.get(usize::from(byte))).sum::<u32>() * 10;
        let (digits, lower, upper) = (sum(b'0'..=b'9'), sum(b'a'..=b'z'), sum(b'A'..=b'Z'));
        let all = counts.iter().sum::<u32>();
        let content = match () {
            () if digits >= all * DIGITS_MIN => PayloadContent::Digits,
            () if lower >= all * LOWER_CASE_MIN => PayloadContent::LowerCase,
            () if upper >= all * UPPER_CASE_MIN => PayloadContent::UpperCase,
            () if digits + lower + upper >= all * ALPHANUMERIC_MIN => PayloadContent::Alphanumeric,
            () => PayloadContent::Text,
        };
        Self { content, bits: mean_bits(&counts), width: 1 }
    }

    /// The class of planes of numbers with this many bytes each.
    pub(crate) fn of_numbers(content: PayloadContent, width: usize, planes: &[u8]) -> Self {
        Self { content, bits: mean_bits(&byte_counts(planes)), width: width.min(WIDTH_MAX) as u8 }
    }

    /// Whether it is one of numbers.
    pub(crate) fn is_number(self) -> bool {
        self.content >= PayloadContent::Codes
    }

    /// The level for the tree of columns.
    pub(crate) fn tree_level(level: i32) -> i32 {
        if level < RAISED_LEVEL_MIN { level } else { level + RAISED_LEVELS }
    }

    /// The level of zstd for this class, given that of the block.
    pub(crate) fn level(self, level: i32) -> i32 {
        let is_raised = self.is_number() && self.bits <= COMPRESSIBLE_BITS && level >= RAISED_LEVEL_MIN;
        if is_raised { level + RAISED_LEVELS } else { level }
    }
}

/// The frequencies of bytes in a sample.
fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0_u32; 256];
    let piece_bytes = SAMPLE_BYTES / SAMPLE_PIECES;
    let distance = (bytes.len() / SAMPLE_PIECES).max(piece_bytes);
    for piece in bytes.chunks(distance) {
        for byte in piece.iter().take(piece_bytes) {
            if let Some(count) = counts.get_mut(usize::from(*byte)) {
                *count += 1;
            }
        }
    }
    counts
}

fn mean_bits(counts: &[u32; 256]) -> u8 {
    let all = counts.iter().sum::<u32>();
    (entropy_bits(counts.iter().copied(), all) / f64::from(all.max(1))) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_payloads_have_one_class() {
        let text = |text: &str| PayloadClass::of_text(text.as_bytes()).content;
        assert_eq!(text("10.0.0.1\n10.0.0.2\n"), PayloadContent::Digits);
        assert_eq!(text("connection refused\n"), PayloadContent::LowerCase);
        assert_eq!(text("WARN\nERROR\n"), PayloadContent::UpperCase);
        assert_eq!(text("getUserById\nsetUserName\n"), PayloadContent::LowerCase);
        assert_eq!(text("GetURLs\nXMLNodes\nSSL3Keys\n"), PayloadContent::Alphanumeric);
        assert_eq!(text("--- / ---\n"), PayloadContent::Text);
        assert_eq!(text(""), PayloadContent::Digits);
        let bits = |planes: &[u8]| PayloadClass::of_numbers(PayloadContent::Codes, 1, planes).bits;
        let cycle = |period: usize, bytes: usize| (0..bytes).map(|at| (at % period) as u8).collect::<Vec<u8>>();
        assert_eq!((bits(&[]), bits(&[7; 100_000]), bits(&cycle(2, 5_000))), (0, 0, 1));
        assert_eq!((bits(&cycle(16, 160)), bits(&cycle(256, 100_000))), (4, 8));
        // The second half is another plane.
        let planes = [vec![0; 50_000], cycle(64, 50_000)].concat();
        assert!((3..=5).contains(&bits(&planes)), "{}", bits(&planes));
    }

    #[test]
    fn levels_follow_from_what_they_save() {
        let class = |content, bits| PayloadClass { content, bits, width: 1 };
        let levels = [0, 3, 4, 5, 6, 8].map(|bits| class(PayloadContent::Codes, bits).level(3));
        assert_eq!(levels, [5, 5, 5, 5, 3, 3]);
        assert_eq!((class(PayloadContent::LowerCase, 1).level(3), PayloadClass::tree_level(3)), (3, 5));
        assert_eq!((class(PayloadContent::Codes, 1).level(2), PayloadClass::tree_level(2)), (2, 2));
    }
}
