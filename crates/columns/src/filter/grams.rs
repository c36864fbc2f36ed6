//! Grams: the parts of words, numbers and addresses that the filter has a bit for.
//!
//! - four and five bytes of a word (letters, digits, `_`, bytes from 0x80 on) without a digit;
//! - six bytes of a word with a digit among the last five: shorter grams of numbers and hashes are in every block;
//! - seven bytes of digits and at least two dots that start and end with a digit: parts of addresses;
//! - five bytes, two of a word, one of `-./:@`, two of a word, not all digits: both words may be in a block, but not
//!   adjacent;
//! - seven bytes, three and three of the same: where words have many neighbours, most grams of two bytes each occur.
//!
//! ASCII letters count in lower case. A gram contains only these bytes, so the delimiters between tokens do not matter:
//! the words of a text that occurs in a line, and so its grams, are in the line. The bytes between two words of a gram
//! always belong to one token or one delimiter.

/// The number of different grams while a block is encoded, as a power of two.
pub(super) const BITS_LOG: u32 = 21;

/// Bytes of grams of words without digits, of words with digits, and of addresses.
pub(super) const SHORT_GRAM_BYTES: u32 = 4;
pub(super) const LETTER_GRAM_BYTES: u32 = 5;
pub(super) const WORD_GRAM_BYTES: u32 = 6;
pub(super) const ADDRESS_GRAM_BYTES: u32 = 7;

/// Bytes of grams of two joined words: two or three of each, and the joiner.
pub(super) const PAIR_GRAM_BYTES: u32 = 5;
pub(super) const WIDE_PAIR_GRAM_BYTES: u32 = 7;

/// Bytes of the longest gram.
pub(super) const GRAM_BYTES_MAX: usize = ADDRESS_GRAM_BYTES as usize;

/// A word byte or joiner in lower case; 0 for other bytes.
pub(super) const FOLDED: [u8; 256] = {
    let mut folded = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let at = byte as u8;
        folded[byte] = match at {
            b'A'..=b'Z' => at + 32,
            b'0'..=b'9' | b'a'..=b'z' | b'_' | b'.' | b'-' | b'/' | b':' | b'@' | 0x80.. => at,
            _ => 0,
        };
        byte += 1;
    }
    folded
};

/// Kinds of bytes in grams; 0 for other bytes.
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const JOINER: u8 = 4;

const BYTE_KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match FOLDED[byte] {
            0 => 0,
            b'0'..=b'9' => DIGIT,
            b'.' | b'-' | b'/' | b':' | b'@' => JOINER,
            _ => LETTER,
        };
        byte += 1;
    }
    kinds
};

/// The run at the start of a text, up to a byte that is in no gram: its length, and the kinds of its bytes.
#[inline]
pub(super) fn leading_run(text: &[u8]) -> (usize, u8) {
    let mut kinds = 0;
    for (at, byte) in text.iter().enumerate() {
        match BYTE_KINDS[*byte as usize] {
            0 => return (at, kinds),
            kind => kinds |= kind,
        }
    }
    (text.len(), kinds)
}

/// The bit of a gram, given as the last `len` bytes of `bytes`, while a block is encoded.
#[inline]
pub(super) fn gram_bit(bytes: u64, len: u32) -> u32 {
    ((bytes << (64 - len * 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS_LOG)) as u32
}

/// Calls `each` with the bit of each gram of a text.
#[inline]
pub(super) fn for_each_gram(text: &[u8], mut each: impl FnMut(u32)) {
    let mut from = 0;
    while let Some(rest) = text.get(from..).filter(|rest| rest.len() >= SHORT_GRAM_BYTES as usize) {
        let (len, kinds) = leading_run(rest);
        for_each_gram_of_run(&rest[..len], kinds, &mut each);
        from += len + 1;
    }
}

/// The same for a run with these kinds of bytes.
#[inline]
pub(super) fn for_each_gram_of_run(text: &[u8], kinds: u8, each: impl FnMut(u32)) {
    match kinds {
        LETTER => for_each_gram_of_letters(text, each),
        _ if kinds & JOINER != 0 => for_each_gram_of_joined_words(text, kinds, each),
        _ => for_each_gram_of_word(text, each),
    }
}

/// The same for a run of letters, as most runs are.
#[inline]
fn for_each_gram_of_letters(text: &[u8], mut each: impl FnMut(u32)) {
    let mut bytes = 0;
    for (letters, byte) in (1..).zip(text) {
        bytes = bytes << 8 | u64::from(FOLDED[*byte as usize]);
        if letters >= SHORT_GRAM_BYTES {
            each(gram_bit(bytes, SHORT_GRAM_BYTES));
        }
        if letters >= LETTER_GRAM_BYTES {
            each(gram_bit(bytes, LETTER_GRAM_BYTES));
        }
    }
}

/// The same for a run of letters and digits. Branches on digits would be mispredicted. So from the sixth byte on each
/// byte emits two grams; the second may repeat the first.
#[inline]
fn for_each_gram_of_word(text: &[u8], mut each: impl FnMut(u32)) {
    let (mut bytes, mut letters) = (0, 0);
    for (word, byte) in (1..).zip(text) {
        bytes = bytes << 8 | u64::from(FOLDED[*byte as usize]);
        letters = if BYTE_KINDS[*byte as usize] == DIGIT { 0 } else { letters + 1 };
        if word >= WORD_GRAM_BYTES {
            let here = gram_bit(bytes, if letters >= LETTER_GRAM_BYTES { LETTER_GRAM_BYTES } else { WORD_GRAM_BYTES });
            each(here);
            each(if letters >= SHORT_GRAM_BYTES { gram_bit(bytes, SHORT_GRAM_BYTES) } else { here });
        } else if letters >= SHORT_GRAM_BYTES {
            each(gram_bit(bytes, SHORT_GRAM_BYTES));
            if letters >= LETTER_GRAM_BYTES {
                each(gram_bit(bytes, LETTER_GRAM_BYTES));
            }
        }
    }
}

/// The same for joined words: the grams of each word, of each pair of words, and of addresses.
#[inline]
fn for_each_gram_of_joined_words(text: &[u8], kinds: u8, mut each: impl FnMut(u32)) {
    let (mut rest, mut before, mut dots) = (text, 0, 0);
    loop {
        let word = rest.iter().position(|byte| BYTE_KINDS[*byte as usize] == JOINER).unwrap_or(rest.len());
        if word >= SHORT_GRAM_BYTES as usize {
            for_each_gram_of_word(&rest[..word], &mut each);
        }
        let mut pair = |of_each: usize, len: u32| {
            if word >= of_each && before >= of_each {
                // The joiner precedes the rest.
                let from = text.len() - rest.len() - 1 - of_each;
                let pair = &text[from..from + len as usize];
                let has_letter = || pair.iter().any(|byte| BYTE_KINDS[*byte as usize] == LETTER);
                if kinds & DIGIT == 0 || (kinds & LETTER != 0 && has_letter()) {
                    each(gram_bit(folded_pair(text, from, pair), len));
                }
            }
        };
        pair(2, PAIR_GRAM_BYTES);
        pair(3, WIDE_PAIR_GRAM_BYTES);
        let Some((joint, behind)) = rest[word..].split_first() else { break };
        dots += u32::from(*joint == b'.');
        (rest, before) = (behind, word);
    }
    if dots > 1 && kinds & DIGIT != 0 && text.len() >= ADDRESS_GRAM_BYTES as usize {
        for_each_gram_of_addresses(text, each);
    }
}

/// The bytes of a pair in lower case, which begins at `from` in its text, the last byte in the lowest bits.
#[inline]
fn folded_pair(text: &[u8], from: usize, pair: &[u8]) -> u64 {
    match text[from..].first_chunk::<8>() {
        Some(eight) => lower_case(u64::from_be_bytes(*eight)) >> (64 - pair.len() * 8),
        None => pair.iter().fold(0, |bytes, byte| bytes << 8 | u64::from(FOLDED[*byte as usize])),
    }
}

/// Eight bytes with ASCII letters in lower case.
#[inline]
pub(super) fn lower_case(bytes: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The highest bit of each byte says whether the lower seven are at least `A` (0x41), and whether they are above `Z` (0x5a).
    let seven = bytes & (ONES * 0x7f);
    let from_a = seven + ONES * (0x80 - 0x41);
    let above_z = seven + ONES * (0x80 - 0x5b);
    let upper = (from_a & !above_z & !bytes) & (ONES * 0x80);
    bytes | upper >> 2
}

/// The grams of addresses.
fn for_each_gram_of_addresses(text: &[u8], mut each: impl FnMut(u32)) {
    let (mut bytes, mut address, mut dots) = (0, 0, 0_u32);
    for byte in text {
        bytes = bytes << 8 | u64::from(*byte);
        let is_dot = *byte == b'.';
        dots = dots << 1 | u32::from(is_dot);
        address = if is_dot || byte.is_ascii_digit() { address + 1 } else { 0 };
        let within = dots & ((1 << ADDRESS_GRAM_BYTES) - 1);
        if !is_dot
            && address >= ADDRESS_GRAM_BYTES
            && within.count_ones() > 1
            && within >> (ADDRESS_GRAM_BYTES - 1) == 0
        {
            each(gram_bit(bytes, ADDRESS_GRAM_BYTES));
        }
    }
}
