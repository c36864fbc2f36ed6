//! Searches a column of decimal integers without building their texts.
//!
//! An integer starts with a text if it lies in a range, which depends on its length, and ends with one if it has a remainder. A text
//! anywhere in an integer is compared with its digits, up to eight at once.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::RowSet;

use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// The most digits of a 64-bit integer.
const DIGITS_MAX: usize = NUMBER_BYTES_MAX - 1;

/// Digits that are compared at once.
const EIGHT: usize = 8;

/// The rows of integers whose text passes; `None` if the text has a sign, so that values are built.
pub(crate) fn find(integers: &DecodedNumbers, predicate: &TextPredicate<'_>) -> Option<RowSet> {
    let text = predicate.text;
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if text.len() > DIGITS_MAX {
        return Some(RowSet::None);
    }
    let value = decimal_value(text);
    Some(match predicate.anchor {
        MatchAnchor::Whole => {
            let wanted = decimal::parse_integer(text);
            rows_that(integers, |integer| wanted == Some(integer as u64))
        }
        MatchAnchor::Start => {
            let ranges = ranges_by_length(value, text.len());
            // A negative integer, which starts with its sign, is above all ranges.
            rows_that(integers, |integer| {
                let range = ranges.get(decimal::decimal_length(integer));
                range.is_some_and(|range| range.contains(&(integer as u64)))
            })
        }
        MatchAnchor::End => {
            let modulus = decimal::power_of_ten(text.len())?;
            // Shorter integers do not have enough digits; 0 has one.
            let least = if text.len() == 1 { 0 } else { modulus / 10 };
            rows_that(integers, |integer| {
                let digits = integer.unsigned_abs();
                digits >= least && digits % modulus == value
            })
        }
        MatchAnchor::Anywhere => {
            let needle = DigitNeedle::new(text);
            rows_that(integers, |integer| needle.is_in(integer))
        }
    })
}

#[inline]
fn rows_that(integers: &DecodedNumbers, test: impl Fn(i64) -> bool) -> RowSet {
    integers.rows_that(|integer| test(integer as i64))
}

/// The number that at most [`DIGITS_MAX`] decimal digits stand for.
pub(crate) fn decimal_value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit.wrapping_sub(b'0')))
}

/// For each length, the integers of this many digits that start with the `digits` digits of `value`.
fn ranges_by_length(value: u64, digits: usize) -> [Range<u64>; NUMBER_BYTES_MAX] {
    std::array::from_fn(|length| match length.checked_sub(digits).and_then(decimal::power_of_ten) {
        // At most 10^19, which fits.
        Some(power) => value * power..(value + 1) * power,
        None => 0..0,
    })
}

/// A text of decimal digits that may occur anywhere in an integer.
struct DigitNeedle<'n> {
    text: &'n [u8],
    /// The text and its mask, the first digit in the lowest byte; `None` if the text is longer than [`EIGHT`].
    word: Option<(u64, u64)>,
}

impl<'n> DigitNeedle<'n> {
    fn new(text: &'n [u8]) -> Self {
        let word = (text.len() <= EIGHT).then(|| {
            let word = text.iter().rev().fold(0, |word, digit| word << 8 | u64::from(*digit));
            (word, u64::MAX >> (64 - 8 * text.len()))
        });
        Self { text, word }
    }

    #[inline]
    fn is_in(&self, integer: i64) -> bool {
        let Some(digits) = decimal::short_text(integer.unsigned_abs()) else { return self.is_in_long(integer) };
        // Behind the digits are zero bytes, which no digit equals.
        self.word
            .is_some_and(|(word, mask)| (0..=EIGHT - self.text.len()).any(|at| (digits >> (8 * at)) & mask == word))
    }

    #[cold]
    fn is_in_long(&self, integer: i64) -> bool {
        let mut bytes = [0; NUMBER_BYTES_MAX];
        let len = decimal::write(integer, &mut bytes);
        bytes.get(..len).is_some_and(|digits| digits.windows(self.text.len()).any(|window| window == self.text))
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_search::Needle;
    use proptest::prelude::*;

    use super::*;

    fn integer() -> impl Strategy<Value = i64> {
        let short = (0_u32..63).prop_flat_map(|bits| 0..1_i64 << bits);
        prop_oneof![4 => short.clone(), 1 => short.prop_map(|integer| -integer), 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => 0_i64..12]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// Texts are pieces of the integers, with a changed digit at times, so that most occur and others nearly do.
        #[test]
        fn integers_are_found_as_their_texts_are(
            integers in prop::collection::vec(integer(), 1..70),
            (index, start, len) in (any::<prop::sample::Index>(), 0_usize..20, 1_usize..21),
            changed in prop::option::weighted(0.3, (0_usize..20, b'0'..=b'9')),
        ) {
            let source = integers[index.index(integers.len())].to_string().into_bytes();
            let start = start.min(source.len() - 1);
            let mut text = source[start..(start + len).min(source.len())].to_vec();
            if let Some((at, digit)) = changed {
                let at = at.min(text.len() - 1);
                text[at] = digit;
            }
            let needle = Needle::new(&text, false);
            let stored = DecodedNumbers::Far(integers.iter().map(|integer| *integer as u64).collect());
            for anchor in [MatchAnchor::Anywhere, MatchAnchor::Start, MatchAnchor::End, MatchAnchor::Whole] {
                let predicate = TextPredicate { anchor, ..TextPredicate::whole(&needle, None) };
                let Some(found) = find(&stored, &predicate) else {
                    prop_assert!(text.starts_with(b"-"));
                    continue;
                };
                for (row, integer) in integers.iter().enumerate() {
                    let expected = predicate.matches(integer.to_string().as_bytes());
                    prop_assert_eq!(found.contains(row), expected, "{} {:?} {:?}", integer, anchor, needle.text());
                }
            }
        }
    }

    #[test]
    fn a_text_longer_than_any_integer_is_in_none() {
        let needle = Needle::new(b"12345678901234567890", false);
        assert_eq!(
            find(&DecodedNumbers::Near(0, vec![1, 2]), &TextPredicate::whole(&needle, None)),
            Some(RowSet::None)
        );
    }
}
