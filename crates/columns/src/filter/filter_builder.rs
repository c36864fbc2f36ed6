//! Building a gram filter.

use bucksaw_search::AsciiSet;

use crate::filter::escaped_bytes::escaped_bytes;
use crate::filter::filter::{BYTE_SET, ESCAPED_SET, FILTER_VERSION, scaled_bit};
use crate::filter::grams::{BITS_LOG, GRAM_BYTES_MAX, SHORT_GRAM_BYTES, for_each_gram_of_run, leading_run};
use crate::filter::recent_runs::RecentRuns;
use crate::filter::saturation::{SampledBits, is_saturated};

/// Bits of the stored filter per bit that is set while it is built, in quarters.
const QUARTER_BITS: usize = 7;

/// Bytes of a stored filter before the bits of its grams.
const HEAD_BYTES: usize = 1 + ESCAPED_SET + BYTE_SET;

/// Runs of texts of at least this many bytes are looked up among the recent runs. Long texts are lines or parts of
/// lines, of which some recur; shorter texts are distinct values of a column.
const RECENT_CHECK_BYTES_MIN: usize = 64;

/// A saturated filter takes no more grams. It is checked each time this many bytes were added.
const SATURATION_CHECK_BYTES: usize = 256 << 10;

/// Pieces of a text that say whether its filter will be saturated, an even number, and the part of the text that they have
/// together. Shorter texts are not sampled.
const SAMPLE_PIECES: usize = 128;
const SAMPLE_DIVISOR: usize = 32;
const SAMPLED_BYTES_MIN: usize = 1 << 20;

/// Texts of at least this many bytes are read two bytes at a time, with a table of 64 KiB.
const PAIRED_BYTES_MIN: usize = 256 << 10;

/// Set bits per bit of a smaller filter, in hundredths, from which on it may be saturated, which is a little less than the
/// expected number. Below that the smaller filter need not be made to know.
const SCALE_HUNDREDTHS: usize = 200;

/// A filter that was not saturated is made again once this part more bits are set.
const SCALE_AGAIN_DIVISOR: usize = 16;

/// Words of a filter while it is built. A number of a bit always fits, so no access to a word checks it.
const FILTER_WORDS: usize = 1 << (BITS_LOG - u64::BITS.ilog2());

/// Collects the grams of a block.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bytes: [bool; 256],
    words: Box<[u64; FILTER_WORDS]>,
    /// All, until the text was read.
    escaped: AsciiSet,
    /// Runs of long texts whose grams were added.
    recent: RecentRuns,
    /// Bytes until the next check for saturation.
    bytes_until_check: usize,
    is_saturated: bool,
    /// The most bytes of the stored filter.
    bytes_max: usize,
    /// Set bits below which a filter of that size is known not to be saturated.
    set_bits_unsaturated: usize,
    /// Bytes whose grams were added.
    pub(crate) indexed_bytes: usize,
}

impl FilterBuilder {
    pub(crate) fn new() -> Self {
        let words = Box::new([0; FILTER_WORDS]);
        let recent = RecentRuns::new();
        Self {
            bytes: [false; 256],
            words,
            escaped: AsciiSet::ALL,
            recent,
            bytes_until_check: SATURATION_CHECK_BYTES,
            is_saturated: false,
            bytes_max: usize::MAX,
            set_bits_unsaturated: 0,
            indexed_bytes: 0,
        }
    }

    /// Empties the filter. It will be stored in about `bytes_max` bytes at most, so grams are added only until a filter of that
    /// size is saturated: random words fill one within the first part of a block.
    pub(crate) fn begin(&mut self, bytes_max: usize) {
        self.clear();
        self.bytes_max = bytes_max;
        self.set_bits_unsaturated = (bytes_max / 8).saturating_mul(64).saturating_mul(SCALE_HUNDREDTHS) / 100;
    }

    /// Adds a whole text, as [`Self::add`] does. If samples of it say that the filter will be saturated, it is taken to be, which
    /// saves most of the work for random words.
    pub(crate) fn add_whole(&mut self, text: &[u8]) {
        self.is_saturated = self.will_be_saturated(text);
        self.add(text);
    }

    /// Empties the filter.
    pub(crate) fn clear(&mut self) {
        self.bytes.fill(false);
        self.words.fill(0);
        self.escaped = AsciiSet::ALL;
        self.recent.clear();
        (self.bytes_until_check, self.is_saturated) = (SATURATION_CHECK_BYTES, false);
        (self.bytes_max, self.set_bits_unsaturated) = (usize::MAX, 0);
    }

    /// Adds a text that no word byte precedes or follows.
    pub(crate) fn add(&mut self, text: &[u8]) {
        let skip_recent = text.len() >= RECENT_CHECK_BYTES_MIN;
        let mut from = 0;
        while let Some(rest) = text.get(from..) {
            if self.is_saturated {
                return self.add_rest_bytes(rest);
            }
            // Grams consist of word bytes and joiners.
            let (len, kinds) = leading_run(rest);
            // The bytes of a remembered run were added with it.
            if len < SHORT_GRAM_BYTES as usize {
                self.add_bytes(&rest[..len]);
            } else if !(skip_recent && self.recent.contains_or_insert(&rest[..len])) {
                self.add_bytes(&rest[..len]);
                self.add_grams(&rest[..len], kinds);
            }
            if let Some(behind) = rest.get(len) {
                self.bytes[*behind as usize] = true;
            }
            from += len + 1;
        }
    }

    /// Reads the escapes of the text, all of whose bytes were added.
    pub(crate) fn read_escapes(&mut self, text: &[u8]) {
        self.escaped = if self.bytes[usize::from(b'\\')] { escaped_bytes(text) } else { AsciiSet::default() };
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.bytes[*byte as usize] = true);
    }

    /// Adds the bytes of what may be the rest of a block.
    fn add_rest_bytes(&mut self, text: &[u8]) {
        if text.len() < PAIRED_BYTES_MIN {
            return self.add_bytes(text);
        }
        let mut pairs = Box::new([false; 1 << 16]);
        let (words, end) = text.as_chunks::<8>();
        for word in words {
            let word = u64::from_le_bytes(*word);
            for shift in [0, 16, 32, 48] {
                pairs[usize::from((word >> shift) as u16)] = true;
            }
        }
        for (pair, _) in pairs.iter().enumerate().filter(|(_, is)| **is) {
            self.add_bytes(&(pair as u16).to_le_bytes());
        }
        self.add_bytes(end);
    }

    /// The number of bits that are set.
    fn count_set_bits(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    #[inline(always)]
    fn add_grams(&mut self, run: &[u8], kinds: u8) {
        match self.bytes_until_check.checked_sub(run.len()) {
            Some(left) => self.bytes_until_check = left,
            None => {
                self.bytes_until_check = SATURATION_CHECK_BYTES;
                self.is_saturated = self.would_be_saturated();
            }
        }
        if !self.is_saturated {
            self.indexed_bytes += run.len();
            for_each_gram_of_run(run, kinds, |place| self.words[place as usize / 64] |= 1 << (place % 64));
        }
    }

    /// Adds texts that no word byte precedes or follows.
    pub(crate) fn add_all<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) {
        let mut before: &[u8] = &[];
        for text in texts {
            // The common prefix with the previous text adds nothing but the start of grams that end behind it. Values of a
            // column often share a prefix.
            let known = common_prefix_length(before, text).saturating_sub(GRAM_BYTES_MAX - 1);
            self.add(&text[known..]);
            before = text;
        }
    }

    /// Whether the stored filter would be saturated now, and so with more grams.
    fn would_be_saturated(&mut self) -> bool {
        let set = self.count_set_bits();
        if is_saturated(set, 1 << BITS_LOG) {
            return true;
        }
        // A filter below its largest size grows with its grams instead.
        let words = self.bytes_max / 8;
        if self.stored_words(set, usize::MAX) <= words || set < self.set_bits_unsaturated {
            return false;
        }
        let mut bits = vec![0; words.max(1) * 8];
        self.scale(&mut bits);
        self.set_bits_unsaturated = set + set / SCALE_AGAIN_DIVISOR;
        are_saturated(&bits)
    }

    /// Whether samples of a text say that the filter, which is empty, will be saturated.
    fn will_be_saturated(&mut self, text: &[u8]) -> bool {
        let bytes_max = self.bytes_max;
        // Without a limit the filter grows with its grams.
        if text.len() < SAMPLED_BYTES_MIN || bytes_max == usize::MAX {
            return false;
        }
        let step = text.len() / SAMPLE_PIECES;
        let mut add = |first: usize| {
            for part in text.chunks(step).skip(first).step_by(2) {
                self.add(&part[..part.len().min(step / SAMPLE_DIVISOR)]);
            }
            self.count_set_bits()
        };
        let sampled = SampledBits { half: add(0), whole: add(1), all: 1 << BITS_LOG };
        self.begin(bytes_max);
        sampled.will_saturate(bytes_max.saturating_mul(8), SAMPLE_DIVISOR as f64)
    }

    /// The words of the stored filter with this many bits set.
    fn stored_words(&self, set: usize, bytes_max: usize) -> usize {
        (set * QUARTER_BITS / 4 / 64 + 1).min(self.words.len()).min(bytes_max / 8).max(1)
    }

    /// Sets the bits of a filter of this length.
    fn scale(&self, bits: &mut [u8]) {
        let count = bits.len() * 8;
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| **word != 0) {
            let mut left = *word;
            while left != 0 {
                let bit = scaled_bit(at as u32 * 64 + left.trailing_zeros(), count);
                bits[bit / 8] |= 1 << (bit % 8);
                left &= left - 1;
            }
        }
    }

    /// The filter as stored, in about `bytes_max` bytes at most; empties the builder. A filter that is saturated at that size
    /// keeps only the set of bytes.
    pub(crate) fn finish(&mut self, bytes_max: usize) -> Vec<u8> {
        let words = self.stored_words(self.count_set_bits(), bytes_max);
        let mut out = vec![0; HEAD_BYTES + words * 8];
        let (head, bits) = out.split_at_mut(HEAD_BYTES);
        let (version, sets) = head.split_at_mut(1);
        version.fill(FILTER_VERSION);
        let (escaped, bytes) = sets.split_at_mut(ESCAPED_SET);
        escaped.copy_from_slice(&self.escaped.to_le_bytes());
        for (byte, _) in self.bytes.iter().enumerate().filter(|(_, is)| **is) {
            bytes[byte / 8] |= 1 << (byte % 8);
        }
        if !self.is_saturated {
            self.scale(bits);
        }
        if self.is_saturated || are_saturated(bits) {
            bits[..8].fill(!0);
            out.truncate(HEAD_BYTES + 8);
        }
        self.clear();
        out
    }
}

/// Whether a stored filter with these bits is saturated.
fn are_saturated(bits: &[u8]) -> bool {
    is_saturated(bits.iter().map(|byte| byte.count_ones() as usize).sum(), bits.len() * 8)
}

/// A lower bound of the length of the common prefix.
#[inline]
fn common_prefix_length(a: &[u8], b: &[u8]) -> usize {
    let (a, _) = a.as_chunks::<8>();
    let (b, _) = b.as_chunks::<8>();
    let mut same = 0;
    for (a, b) in a.iter().zip(b) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return same + differ.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    same
}

#[cfg(test)]
mod tests;
