//! Building a gram filter.

use crate::filter::filter::{BYTE_SET, FILTER_VERSION, scaled_bit};
use crate::filter::grams::{BITS_LOG, GRAM_BYTES_MAX, SHORT_GRAM_BYTES, for_each_gram_of_run, leading_run};
use crate::filter::recent_runs::RecentRuns;

/// Bits of the stored filter per bit that is set while it is built, in quarters.
const QUARTER_BITS: usize = 7;

/// Runs of texts of at least this many bytes are looked up among the recent runs: such texts are lines or parts of lines, some of
/// which recur, while shorter texts are distinct values of a column.
const RECENT_CHECK_BYTES_MIN: usize = 64;

/// The share of set bits, in sixteenths, from which on a filter is saturated: it excludes almost nothing, and no more grams
/// are added. Checked each time this many bytes were added.
const SATURATED_SIXTEENTHS: usize = 14;
const SATURATION_CHECK_BYTES: usize = 1 << 20;

/// Collects the grams of a block.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    bytes: [bool; 256],
    words: Vec<u64>,
    /// Runs of long texts whose grams were added.
    recent: RecentRuns,
    /// Bytes until the next check for saturation.
    bytes_until_check: usize,
    is_saturated: bool,
    /// Bytes whose grams were added.
    pub(crate) indexed_bytes: usize,
}

impl FilterBuilder {
    pub(crate) fn new() -> Self {
        let words = vec![0; 1 << (BITS_LOG - 6)];
        let recent = RecentRuns::new();
        Self {
            bytes: [false; 256],
            words,
            recent,
            bytes_until_check: SATURATION_CHECK_BYTES,
            is_saturated: false,
            indexed_bytes: 0,
        }
    }

    /// Empties the filter.
    pub(crate) fn clear(&mut self) {
        self.bytes.fill(false);
        self.words.fill(0);
        self.recent.clear();
        (self.bytes_until_check, self.is_saturated) = (SATURATION_CHECK_BYTES, false);
    }

    /// Adds a text that no word byte precedes or follows.
    pub(crate) fn add(&mut self, text: &[u8]) {
        text.iter().for_each(|byte| self.bytes[*byte as usize] = true);
        self.add_runs(text, text.len() >= RECENT_CHECK_BYTES_MIN);
    }

    /// The number of bits that are set.
    fn count_set_bits(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds the runs of a text; with `skip_recent`, only those that are not remembered.
    fn add_runs(&mut self, text: &[u8], skip_recent: bool) {
        let mut from = 0;
        while let Some(rest) = text.get(from..) {
            // Grams consist of word bytes and joiners.
            let (len, kinds) = leading_run(rest);
            if len >= SHORT_GRAM_BYTES as usize && !(skip_recent && self.recent.contains_or_insert(&rest[..len])) {
                self.add_grams(&rest[..len], kinds);
            }
            from += len + 1;
        }
    }

    #[inline(always)]
    fn add_grams(&mut self, run: &[u8], kinds: u8) {
        match self.bytes_until_check.checked_sub(run.len()) {
            Some(left) => self.bytes_until_check = left,
            None => {
                self.bytes_until_check = SATURATION_CHECK_BYTES;
                self.is_saturated = is_saturated(self.count_set_bits(), 1 << BITS_LOG);
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

    /// The filter as stored, in about `bytes_max` bytes at most; empties the builder. A filter that is saturated at that size
    /// keeps only the set of bytes.
    pub(crate) fn finish(&mut self, bytes_max: usize) -> Vec<u8> {
        let words = (self.count_set_bits() * QUARTER_BITS / 4 / 64 + 1).min(self.words.len()).min(bytes_max / 8).max(1);
        let mut out = vec![0; 1 + BYTE_SET + words * 8];
        let (head, bits) = out.split_at_mut(1 + BYTE_SET);
        head[0] = FILTER_VERSION;
        for (byte, _) in self.bytes.iter().enumerate().filter(|(_, is)| **is) {
            head[1 + byte / 8] |= 1 << (byte % 8);
        }
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| **word != 0) {
            let mut left = *word;
            while left != 0 {
                let bit = scaled_bit(at as u32 * 64 + left.trailing_zeros(), words * 64);
                bits[bit / 8] |= 1 << (bit % 8);
                left &= left - 1;
            }
        }
        if is_saturated(bits.iter().map(|byte| byte.count_ones() as usize).sum(), words * 64) {
            bits[..8].fill(!0);
            out.truncate(1 + BYTE_SET + 8);
        }
        self.clear();
        out
    }
}

/// Whether so many bits are too many of all.
fn is_saturated(set: usize, all: usize) -> bool {
    set * 16 >= SATURATED_SIXTEENTHS * all
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
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::filter::grams::{
        ADDRESS_GRAM_BYTES, FOLDED, LETTER_GRAM_BYTES, PAIR_GRAM_BYTES, WIDE_PAIR_GRAM_BYTES, WORD_GRAM_BYTES, gram_bit,
    };
    use crate::filter::recent_runs::{RECENT_RUN_BYTES_MAX, RECENT_SLOTS, run_key};
    use proptest::prelude::*;

    /// Which of the bytes of a pair, counted from its end, are of words.
    const PAIR_WORDS: u32 = 0b11011;
    const WIDE_PAIR_WORDS: u32 = 0b111_0111;

    /// What the grams of a text are, byte by byte.
    fn grams_of_any(text: &[u8], mut each: impl FnMut(u32)) {
        let mut bytes = 0_u64;
        // Bytes of a word up to here, those without a digit, and digits and dots.
        let (mut word, mut letters, mut address) = (0_u32, 0_u32, 0_u32);
        // A bit for each of the last bytes that is a dot, a digit, of a word, and that joins words.
        let (mut dots, mut digits, mut words, mut joints) = (0_u32, 0_u32, 0_u32, 0_u32);
        for byte in text {
            let folded = FOLDED[*byte as usize];
            bytes = bytes << 8 | u64::from(folded);
            (dots, digits, words, joints) = (dots << 1, digits << 1, words << 1, joints << 1);
            match folded {
                0 => (word, letters, address) = (0, 0, 0),
                b'.' => {
                    (word, letters) = (0, 0);
                    address += 1;
                    dots |= 1;
                    joints |= 1;
                }
                b'-' | b'/' | b':' | b'@' => {
                    (word, letters, address) = (0, 0, 0);
                    joints |= 1;
                }
                b'0'..=b'9' => {
                    word += 1;
                    letters = 0;
                    address += 1;
                    (digits, words) = (digits | 1, words | 1);
                    if word >= WORD_GRAM_BYTES {
                        each(gram_bit(bytes, WORD_GRAM_BYTES));
                    }
                    let dots = dots & ((1 << ADDRESS_GRAM_BYTES) - 1);
                    if address >= ADDRESS_GRAM_BYTES && dots.count_ones() > 1 && dots >> (ADDRESS_GRAM_BYTES - 1) == 0 {
                        each(gram_bit(bytes, ADDRESS_GRAM_BYTES));
                    }
                }
                _ => {
                    word += 1;
                    letters += 1;
                    address = 0;
                    words |= 1;
                    if letters >= SHORT_GRAM_BYTES {
                        each(gram_bit(bytes, SHORT_GRAM_BYTES));
                    }
                    if letters >= LETTER_GRAM_BYTES {
                        each(gram_bit(bytes, LETTER_GRAM_BYTES));
                    } else if word >= WORD_GRAM_BYTES {
                        each(gram_bit(bytes, WORD_GRAM_BYTES));
                    }
                }
            }
            let is_pair = |of: u32| words & of == of && digits & of != of;
            if word == 2 && joints & 0b100 != 0 && is_pair(PAIR_WORDS) {
                each(gram_bit(bytes, PAIR_GRAM_BYTES));
            }
            if word == 3 && joints & 0b1000 != 0 && is_pair(WIDE_PAIR_WORDS) {
                each(gram_bit(bytes, WIDE_PAIR_GRAM_BYTES));
            }
        }
    }

    proptest! {
        /// Whatever is cut out of a line of which the words were taken in, in whatever case.
        #[test]
        fn no_part_of_a_line_is_excluded(
            line in "([0-9]{1,12}|[0-9a-fA-F]{3,12}|[a-zA-Z_]{2,8}|[0-9]{1,3}(\\.[0-9]{1,3}){1,4}|[ -~äß]{0,5}|[.:/-]){0,12}",
            cuts: Vec<(prop::sample::Index, prop::sample::Index)>,
            bytes_max in prop_oneof![Just(usize::MAX), 0_usize..40],
        ) {
            let mut builder = FilterBuilder::new();
            line.split(' ').for_each(|word| builder.add(word.as_bytes()));
            builder.add(b" ");
            let filter = builder.finish(bytes_max);
            for (a, b) in cuts {
                let (a, b) = (a.index(line.len() + 1), b.index(line.len() + 1));
                let part = &line.as_bytes()[a.min(b)..a.max(b)];
                prop_assert!(Filter::new(&filter).may_contain(part, false));
                prop_assert!(Filter::new(&filter).may_contain(&part.to_ascii_lowercase(), true));
                prop_assert!(Filter::new(&filter).may_contain(&part.to_ascii_uppercase(), true));
            }
        }
    }

    proptest! {
        /// That a text begins like the one before spares work and nothing else.
        #[test]
        fn common_prefixes_do_not_change_the_filter(
            texts in prop::collection::vec("(abcdefgh|10\\.2\\.){0,3}([a-c]{0,5}|[0-9.]{0,9}|[0-9a-f]{0,9}|[ -~]{0,4}){0,3}", 0..8),
        ) {
            let (mut one_by_one, mut all) = (FilterBuilder::new(), FilterBuilder::new());
            texts.iter().for_each(|text| one_by_one.add(text.as_bytes()));
            all.add_all(texts.iter().map(String::as_bytes));
            prop_assert_eq!(one_by_one.finish(usize::MAX), all.finish(usize::MAX));
        }
    }

    /// The filters of texts, each taken in at once, and as texts are taken in.
    fn both_ways<'t>(texts: impl Iterator<Item = &'t [u8]>) -> (Vec<u8>, Vec<u8>) {
        let (mut at_once, mut in_pieces) = (FilterBuilder::new(), FilterBuilder::new());
        for text in texts {
            text.iter().for_each(|byte| at_once.bytes[*byte as usize] = true);
            grams_of_any(text, |place| at_once.words[place as usize / 64] |= 1 << (place % 64));
            in_pieces.add(text);
        }
        (at_once.finish(usize::MAX), in_pieces.finish(usize::MAX))
    }

    proptest! {
        /// That pieces recur spares work and nothing else.
        #[test]
        fn recurring_runs_do_not_change_the_filter(
            texts in prop::collection::vec("([ -~äß]{0,9}| abc-def|=10\\.2\\.3\\.4| word word2|[a-z]{70}){0,24}", 0..8),
        ) {
            let (at_once, in_pieces) = both_ways(texts.iter().map(String::as_bytes));
            prop_assert_eq!(at_once, in_pieces);
        }
    }

    proptest! {
        /// What is known of the bytes of a piece spares work and nothing else.
        #[test]
        fn run_grams_equal_text_grams(
            text in "[a-zA-Z_ä]{0,12}|[0-9a-f]{0,14}|[a-h4-6]{0,9}|[0-9]{0,9}|([aB3]{0,7}[-./:@]){0,6}[aB3]{0,7}|([0-9]{0,3}[.:]){0,6}[0-9]{0,3}",
        ) {
            let (mut known, mut any) = (Vec::new(), Vec::new());
            for_each_gram_of_run(text.as_bytes(), leading_run(text.as_bytes()).1, |place| known.push(place));
            grams_of_any(text.as_bytes(), |place| any.push(place));
            let set = |mut places: Vec<u32>| {
                places.sort_unstable();
                places.dedup();
                places
            };
            prop_assert_eq!(set(known), set(any));
        }
    }

    #[test]
    fn more_runs_than_recent_slots_are_indexed() {
        let text: String = (0..RECENT_SLOTS * 6).map(|number| format!("n{number:x}z ")).collect();
        let (at_once, in_pieces) = both_ways(std::iter::once(text.as_bytes()));
        assert_eq!(at_once, in_pieces);
    }

    proptest! {
        /// A piece that is not told from another has the same bytes.
        #[test]
        fn run_keys_are_unique(a in "[ab]{4,35}|a{4,35}", b in "[ab]{4,35}|a{4,35}") {
            prop_assert_eq!(run_key(a.as_bytes()).is_some(), a.len() <= RECENT_RUN_BYTES_MAX);
            for at in 0..a.len() {
                let mut other = a.clone().into_bytes();
                other[at] ^= 1;
                prop_assert!(run_key(&other).is_none() || run_key(&other) != run_key(a.as_bytes()));
            }
            prop_assert_eq!(run_key(a.as_bytes()).is_some() && run_key(a.as_bytes()) == run_key(b.as_bytes()), a == b && a.len() <= RECENT_RUN_BYTES_MAX);
        }
    }

    /// A filter in fewer bytes lets more through, and what would let nearly everything through takes no room.
    #[test]
    fn a_filter_keeps_within_its_byte_limit() {
        let filter = |bytes_max: usize| {
            let mut builder = FilterBuilder::new();
            (0..5_000_u64)
                .for_each(|at| builder.add(format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes()));
            builder.finish(bytes_max)
        };
        let all = filter(usize::MAX).len();
        let passed = |bytes: &[u8]| {
            (5_000..6_000_u64)
                .filter(|at| {
                    let text = format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    Filter::new(bytes).may_contain(text.as_bytes(), false)
                })
                .count()
        };
        let half = filter(all / 2);
        assert!(half.len() <= all / 2 + 41 && half.len() > all / 3, "{} of {all}", half.len());
        assert!(passed(&half) < 100, "{}", passed(&half));
        let little = filter(all / 8);
        assert!(little.len() == 41 && passed(&little) == 1_000, "{}", little.len());
        assert!(!Filter::new(&little).may_contain_byte(b'g'), "it still knows the bytes");
    }

    #[test]
    fn recent_runs_are_cleared_between_blocks() {
        let text: String = (0..20).map(|number| format!("piece{number}z ")).collect();
        let mut builder = FilterBuilder::new();
        let mut filter = || {
            builder.add(text.as_bytes());
            builder.finish(usize::MAX)
        };
        assert_eq!(filter(), filter());
    }

    /// A filter of random words would let everything through, and takes no room.
    #[test]
    fn a_saturated_filter_is_dropped() {
        let mut builder = FilterBuilder::new();
        let mut number = 1_u64;
        let text: Vec<u8> = std::iter::repeat_with(|| {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            if (number >> 33).is_multiple_of(12) { b' ' } else { 0x80 | (number >> 40) as u8 }
        })
        .take(8 << 20)
        .collect();
        builder.add(&text);
        let taken = builder.indexed_bytes;
        assert!(taken < text.len() / 2, "{taken}");
        builder.add(b"Z");
        let bytes = builder.finish(usize::MAX);
        assert!(bytes.len() < 50, "{}", bytes.len());
        let filter = Filter::new(&bytes);
        assert!(
            filter.may_contain(&[0x81, 0x99, 0xa5, 0xfe, 0x90], false)
                && filter.may_contain_byte(b'Z')
                && !filter.may_contain_byte(b'Y')
        );
        builder.add(b"words");
        let bytes = builder.finish(usize::MAX);
        assert!(!Filter::new(&bytes).may_contain(b"other", false), "it starts anew");
    }

    #[test]
    fn numbers_and_addresses_are_distinguished() {
        let mut builder = FilterBuilder::new();
        for number in 0..2_000_u64 {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            builder.add(format!("{mixed:016x}").as_bytes());
            builder.add((mixed >> 20).to_string().as_bytes());
            builder.add(format!("10.{}.{}.1", mixed >> 60, mixed >> 51 & 255).as_bytes());
        }
        let bytes = builder.finish(usize::MAX);
        let filter = Filter::new(&bytes);
        let passed = |text: &dyn Fn(u64) -> String| {
            (0..1_000).filter(|at| filter.may_contain(text(at * 7 + 3).as_bytes(), false)).count()
        };
        let mixed = |at: u64| (at + 5_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hashes = passed(&|at| format!("{:016x}", mixed(at)));
        let numbers = passed(&|at| (mixed(at) >> 20).to_string());
        let addresses = passed(&|at| format!("172.{}.{}.9", mixed(at) >> 60, mixed(at) >> 51 & 255));
        assert!(hashes < 50 && numbers < 50 && addresses < 250, "{hashes} {numbers} {addresses}");
    }

    #[test]
    fn unknown_filter_bytes_exclude_nothing() {
        for bytes in [vec![], vec![0; 32 + 64], vec![1; 33], vec![1; 33 + 7], vec![2; 33 + 8]] {
            assert!(Filter::new(&bytes).may_contain(b"anything", false) && Filter::new(&bytes).may_contain_byte(0));
        }
    }

    #[test]
    fn contained_texts_pass_and_most_others_do_not() {
        let mut builder = FilterBuilder::new();
        let letters = |number: u64| -> String {
            (0..12)
                .map(|at| char::from(b'a' + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at * 5)) as u8 % 26))
                .collect()
        };
        let words: Vec<String> = (0..5_000).map(letters).collect();
        words.iter().for_each(|word| builder.add(word.as_bytes()));
        let filter = builder.finish(usize::MAX);
        let filter = Filter::new(&filter);
        for word in &words {
            let part = word.get(2..9).unwrap().to_uppercase();
            assert!(filter.may_contain(word.as_bytes(), false) && filter.may_contain(part.as_bytes(), true));
        }
        assert!(!filter.may_contain(b"0", true) && !filter.may_contain_byte(b'\\'));
        let passed = (5_000..6_000).filter(|at| filter.may_contain(letters(*at).as_bytes(), false)).count();
        assert!(passed < 20, "{passed}");
        assert!(!filter.may_contain(b"12345678", false));
    }
}
