//! Fields that pad a line to its size: `shard=17 cursor=5f0c… `.
//!
//! Most bytes of a long line are padding, so it decides the rate of the generator. The names and the small numbers are made at
//! compile time, as words of eight bytes. A word is copied at once, and the next one begins at the end of its text.

use crate::append_text::hex_digits;
use crate::rng::Rng;

/// The number of different small values.
const NUMBERS: usize = 4_096;

/// Bytes that one field may write, with those behind the end of its text.
const FIELD_BYTES_MAX: usize = 32;

/// Text of at most eight bytes.
#[derive(Clone, Copy, Debug)]
struct PaddingWord {
    bytes: [u8; 8],
    length: usize,
}

/// Names of the fields, with what precedes their value.
static NAMES: [PaddingWord; 8] = [
    word(b"shard="),
    word(b"zone=z"),
    word(b"span="),
    word(b"attempt="),
    word(b"build="),
    word(b"lane="),
    word(b"cursor="),
    word(b"batch="),
];

/// The decimal digits of each small value, and a space.
static VALUES: [PaddingWord; NUMBERS] = values();

const fn word(text: &[u8]) -> PaddingWord {
    let mut bytes = [b' '; 8];
    bytes.split_at_mut(text.len()).0.copy_from_slice(text);
    PaddingWord { bytes, length: text.len() }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which reports an index out of range")]
const fn values() -> [PaddingWord; NUMBERS] {
    let mut values = [word(b"0 "); NUMBERS];
    let mut number = 1;
    while number < NUMBERS {
        let length = number.ilog10() as usize + 1;
        let (mut bytes, mut rest, mut at) = ([b' '; 8], number, length);
        while at > 0 {
            at -= 1;
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        values[number] = PaddingWord { bytes, length: length + 1 };
        number += 1;
    }
    values
}

/// Appends `name=value` pairs until `out` has `end` bytes, truncating the last. Nothing is appended if it has as many.
pub(crate) fn append_fields(out: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    let mut at = out.len();
    if at < end {
        // The last field may reach beyond the end.
        out.resize(end + FIELD_BYTES_MAX, 0);
        while at < end {
            let drawn = rng.next_u64();
            at = put(out, at, NAMES.get(drawn as usize % NAMES.len()));
            // Three quarters of the values are small numbers, the others look like ids.
            if drawn >> 62 == 0 {
                let id = rng.next_u64();
                for half in [id >> 32, id & 0xffff_ffff] {
                    at = put(out, at, Some(&PaddingWord { bytes: hex_digits(half), length: 8 }));
                }
                at = put(out, at, Some(&const { word(b" ") }));
            } else {
                at = put(out, at, VALUES.get((drawn >> 8) as usize % NUMBERS));
            }
        }
    }
    out.truncate(end);
}

/// Writes a word at this offset; returns the offset behind it.
fn put(out: &mut [u8], at: usize, word: Option<&PaddingWord>) -> usize {
    let place = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    match (place, word) {
        (Some(place), Some(word)) => {
            *place = word.bytes;
            at + word.length
        }
        // No field is longer than the room for it.
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    /// The same as `format!` makes it.
    fn fields(length: usize, rng: &mut Rng) -> String {
        let names = ["shard=", "zone=z", "span=", "attempt=", "build=", "lane=", "cursor=", "batch="];
        let mut text = String::new();
        while text.len() < length {
            let drawn = rng.next_u64();
            let name = names[drawn as usize % 8];
            text += &match drawn >> 62 {
                0 => format!("{name}{:016x} ", rng.next_u64()),
                _ => format!("{name}{} ", drawn >> 8 & 0xfff),
            };
        }
        text.truncate(length);
        text
    }

    proptest! {
        #[test]
        fn fields_are_those_of_format(seed: u64, before in 0_usize..50, length in 0_usize..600) {
            let (mut rng, mut other) = (Rng::new(seed), Rng::new(seed));
            let mut out = vec![b'x'; before];
            append_fields(&mut out, before + length, &mut rng);
            let want = "x".repeat(before) + &fields(length, &mut other);
            prop_assert_eq!(String::from_utf8(out).unwrap(), want);
            prop_assert_eq!(rng.next_u64(), other.next_u64(), "as many numbers are drawn");
        }
    }
}
