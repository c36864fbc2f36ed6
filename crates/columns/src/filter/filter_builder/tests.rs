//! A filter excludes no text that was added, whichever way the grams were collected.

use super::*;
use crate::filter::Filter;
use crate::filter::grams::{
    ADDRESS_GRAM_BYTES, FOLDED, LETTER_GRAM_BYTES, PAIR_GRAM_BYTES, WIDE_PAIR_GRAM_BYTES, WORD_GRAM_BYTES, gram_bit,
    lower_case,
};
use crate::filter::recent_runs::{RECENT_RUN_BYTES_MAX, RECENT_SLOTS, run_key};
use proptest::prelude::*;

/// The bytes of a pair that belong to words, counted from its end.
const PAIR_WORDS: u32 = 0b11011;
const WIDE_PAIR_WORDS: u32 = 0b111_0111;

/// The grams of a text, found byte by byte.
fn grams_of_any(text: &[u8], mut each: impl FnMut(u32)) {
    let mut bytes = 0_u64;
    // The lengths of the word, of its letters since the last digit, and of the address that end here.
    let (mut word, mut letters, mut address) = (0_u32, 0_u32, 0_u32);
    // The last bytes that are dots, digits, word bytes and joiners, a bit for each.
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
    /// Any part of an added line passes, in any case.
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
    /// A common prefix with the previous text saves work and changes no bit.
    #[test]
    fn common_prefixes_do_not_change_the_filter(
        texts in prop::collection::vec("(abcdefgh|10\\.2\\.){0,3}([a-c]{0,5}|[0-9.]{0,9}|[0-9a-f]{0,9}|[ -~]{0,4}){0,3}", 0..8),
    ) {
        let (mut separate, mut all) = (FilterBuilder::new(), FilterBuilder::new());
        texts.iter().for_each(|text| separate.add(text.as_bytes()));
        all.add_all(texts.iter().map(String::as_bytes));
        prop_assert_eq!(separate.finish(usize::MAX), all.finish(usize::MAX));
    }
}

#[test]
fn eight_bytes_are_folded_as_one_by_one() {
    let in_grams = |byte: &u8| FOLDED[*byte as usize] != 0;
    for byte in (0..=u8::MAX).filter(in_grams) {
        for (at, beside) in (0..8).flat_map(|at| [b'A', b'Z', b'z', 0xff].map(|beside| (at, beside))) {
            let mut eight = [beside; 8];
            eight[at] = byte;
            let folded = eight.map(|byte| FOLDED[byte as usize]);
            assert_eq!(lower_case(u64::from_be_bytes(eight)).to_be_bytes(), folded, "{byte} at {at}");
        }
    }
}

/// The filters of texts by the simple way and by [`FilterBuilder::add`].
fn both_ways<'t>(texts: impl Iterator<Item = &'t [u8]>) -> (Vec<u8>, Vec<u8>) {
    let (mut simple, mut by_runs) = (FilterBuilder::new(), FilterBuilder::new());
    for text in texts {
        text.iter().for_each(|byte| simple.bytes[*byte as usize] = true);
        grams_of_any(text, |place| simple.words[place as usize / 64] |= 1 << (place % 64));
        by_runs.add(text);
    }
    (simple.finish(usize::MAX), by_runs.finish(usize::MAX))
}

proptest! {
    /// A recurring run saves work and changes no bit.
    #[test]
    fn recurring_runs_do_not_change_the_filter(
        texts in prop::collection::vec("([ -~äß]{0,9}| abc-def|=10\\.2\\.3\\.4| word word2|[a-z]{70}){0,24}", 0..8),
    ) {
        let (simple, by_runs) = both_ways(texts.iter().map(String::as_bytes));
        prop_assert_eq!(simple, by_runs);
    }
}

proptest! {
    /// The kinds of the bytes of a run save work and change no gram.
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
    let (simple, by_runs) = both_ways(std::iter::once(text.as_bytes()));
    assert_eq!(simple, by_runs);
}

proptest! {
    /// Equal keys imply equal runs.
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

/// A smaller filter excludes less, and one that would exclude almost nothing is dropped.
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
    assert!(half.len() <= all / 2 + HEAD_BYTES + 8 && half.len() > all / 3, "{} of {all}", half.len());
    assert!(passed(&half) < 100, "{}", passed(&half));
    let smallest = filter(all / 8);
    assert!(smallest.len() == HEAD_BYTES + 8 && passed(&smallest) == 1_000, "{}", smallest.len());
    assert!(!Filter::new(&smallest).may_contain_byte(b'g'), "the set of bytes is kept");
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

/// A filter of random words would exclude nothing, so it is dropped.
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
    let indexed = builder.indexed_bytes;
    assert!(indexed < text.len() / 2, "{indexed}");
    builder.add(b"Z");
    let bytes = builder.finish(usize::MAX);
    assert_eq!(bytes.len(), HEAD_BYTES + 8);
    let filter = Filter::new(&bytes);
    assert!(
        filter.may_contain(&[0x81, 0x99, 0xa5, 0xfe, 0x90], false)
            && filter.may_contain_byte(b'Z')
            && !filter.may_contain_byte(b'Y')
    );
    builder.add(b"words");
    let bytes = builder.finish(usize::MAX);
    assert!(!Filter::new(&bytes).may_contain(b"other", false), "the builder is empty again");
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
    for bytes in [vec![], vec![0; 32 + 64], vec![1; 33], vec![1; 33 + 7], vec![2; 9], vec![2; 49 + 9], vec![3; 49 + 8]]
    {
        let filter = Filter::new(&bytes);
        assert!(filter.may_contain(b"anything", false) && filter.may_contain_byte(0));
        assert_eq!(filter.escaped_bytes(), AsciiSet::ALL);
    }
}

#[test]
fn escaped_bytes_are_kept() {
    let text = br#"{"path":"\/a","name":"\u0041nna","note":"no escape of the others, not even of u0042"}"#;
    let mut builder = FilterBuilder::new();
    builder.add(text);
    builder.read_escapes(text);
    let bytes = builder.finish(usize::MAX);
    let escaped = Filter::new(&bytes).escaped_bytes();
    assert!(escaped.contains(b'/') && escaped.contains(b'A') && !escaped.contains(b'B') && !escaped.contains(b'a'));
    builder.add(b"nothing");
    builder.read_escapes(b"nothing");
    assert_eq!(Filter::new(&builder.finish(usize::MAX)).escaped_bytes(), AsciiSet::default());
    // A text that was not read may have any.
    builder.add(text);
    assert_eq!(Filter::new(&builder.finish(usize::MAX)).escaped_bytes(), AsciiSet::ALL);
    let earlier = [&[1], &bytes[1 + ESCAPED_SET..]].concat();
    let earlier = Filter::new(&earlier);
    assert!(earlier.may_contain(b"Anna", true) || earlier.may_contain(b"nna", false));
    assert!(!earlier.may_contain(b"absent", false) && earlier.escaped_bytes() == AsciiSet::ALL);
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

/// A filter that will be saturated in its largest size takes no more grams, and is stored as if it had.
#[test]
fn a_saturated_filter_of_limited_size_is_the_same_with_less_work() {
    let mut next = crate::tests::text::random();
    let words =
        |count: usize, mut word: Box<dyn FnMut() -> String>| (0..count).map(|_| word() + " ").collect::<String>();
    let random = words(150_000, Box::new(move || format!("{:08x}{:08x}", next(u64::MAX), next(u64::MAX))));
    let repeated = words(150_000, Box::new(|| "order shipped to".to_owned()));
    for (text, bytes_max, is_saturated) in
        [(&random, 16 << 10, true), (&random, usize::MAX, false), (&repeated, 16 << 10, false), (&random, 7, true)]
    {
        let text = [text.as_bytes(), b"\xff last"].concat();
        let (mut all, mut limited) = (FilterBuilder::new(), FilterBuilder::new());
        all.add(&text);
        limited.begin(bytes_max);
        limited.add(&text);
        assert_eq!(limited.indexed_bytes < all.indexed_bytes / 3, is_saturated, "{bytes_max}");
        let indexed = limited.indexed_bytes;
        assert_eq!(all.finish(bytes_max), limited.finish(bytes_max));
        // The next text begins anew.
        limited.add(&text);
        assert!(limited.indexed_bytes - indexed >= indexed);

        let (mut all, mut sampled) = (FilterBuilder::new(), FilterBuilder::new());
        all.add(&text);
        sampled.begin(bytes_max);
        sampled.add_whole(&text);
        assert!(sampled.indexed_bytes < all.indexed_bytes / 8 || !is_saturated, "{}", sampled.indexed_bytes);
        assert_eq!(all.finish(bytes_max), sampled.finish(bytes_max));
    }
}

/// Long texts are read two bytes at a time.
#[test]
fn each_byte_of_a_long_text_is_known() {
    for (length, rare) in (PAIRED_BYTES_MIN..PAIRED_BYTES_MIN + 9)
        .flat_map(|length| [0, 1, 4_097, length - 8, length - 2, length - 1].map(|rare| (length, rare)))
    {
        let mut text = vec![b'x'; length];
        text[rare] = 0xfe;
        let (mut one_by_one, mut paired) = (FilterBuilder::new(), FilterBuilder::new());
        one_by_one.add_bytes(&text);
        paired.add_rest_bytes(&text);
        assert_eq!(paired.bytes, one_by_one.bytes, "{length} {rare}");
    }
}
