//! Searches a column of decimal integers without building their texts.
//!
//! An integer starts with a text if it lies in a range, which depends on its length, and ends with one if it has a remainder. A text
//! anywhere in an integer is looked up, four digits at once.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::RowSet;

use crate::decimal::{self, NUMBER_BYTES_MAX};
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};
use crate::search_work;

/// The most digits of a 64-bit integer.
const DIGITS_MAX: usize = NUMBER_BYTES_MAX - 1;

/// Digits that are looked up at once, and their number of values.
const GROUP_DIGITS: usize = 4;
const GROUP_VALUES: usize = 10_000;

/// Groups in which a text is looked up, and the digits that these have at least. A longer text is also compared with the digits.
const PARTS_MAX: usize = 3;
const PARTS_DIGITS_MAX: usize = GROUP_DIGITS * (PARTS_MAX - 1) + 1;

/// The bits of the first part.
const FIRST_PARTS: u16 = (1 << GROUP_DIGITS) - 1;

/// Integers from which on a table is made: it takes as long as comparing this number of integers.
const TABLE_ROWS_MIN: usize = 512;

/// The work of [`find`] for each integer.
pub(crate) fn work_of_row(predicate: &TextPredicate<'_>) -> u64 {
    match predicate.anchor {
        MatchAnchor::Anywhere => search_work::NUMBER_LOOK_UP,
        MatchAnchor::Whole | MatchAnchor::Start | MatchAnchor::End => search_work::ROW,
    }
}

/// The rows of integers whose text passes.
pub(crate) fn find(integers: &DecodedNumbers, predicate: &TextPredicate<'_>) -> RowSet {
    match predicate.text {
        [] if predicate.anchor == MatchAnchor::Whole => RowSet::None,
        [] => RowSet::All,
        [b'-', digits @ ..] => find_negative(integers, digits, predicate),
        digits => find_digits(integers, digits, predicate.anchor),
    }
}

/// As [`find`], for a text that is a sign and `digits`: an integer starts with its sign or has none.
fn find_negative(integers: &DecodedNumbers, digits: &[u8], predicate: &TextPredicate<'_>) -> RowSet {
    match predicate.anchor {
        MatchAnchor::Whole | MatchAnchor::End => {
            let wanted = decimal::parse_integer(predicate.text).map(|number| number as i64);
            rows_that(integers, |integer| wanted == Some(integer))
        }
        MatchAnchor::Start | MatchAnchor::Anywhere if digits.is_empty() => rows_that(integers, |integer| integer < 0),
        MatchAnchor::Start | MatchAnchor::Anywhere => match ranges_by_length(digits) {
            Some(ranges) => rows_that(integers, |integer| {
                let range = ranges.get(decimal::decimal_length(integer).wrapping_sub(1));
                integer < 0 && range.is_some_and(|range| range.contains(&integer.unsigned_abs()))
            }),
            None => RowSet::None,
        },
    }
}

/// As [`find`], for a text that is not empty and has no sign in front.
fn find_digits(integers: &DecodedNumbers, text: &[u8], anchor: MatchAnchor) -> RowSet {
    let Some(value) = decimal_value_of(text) else { return RowSet::None };
    match anchor {
        MatchAnchor::Whole => {
            let wanted = decimal::parse_integer(text);
            rows_that(integers, |integer| wanted == Some(integer as u64))
        }
        MatchAnchor::Start => match ranges_by_length(text) {
            // A negative integer, which starts with its sign, is above all ranges.
            Some(ranges) => rows_that(integers, |integer| {
                let range = ranges.get(decimal::decimal_length(integer));
                range.is_some_and(|range| range.contains(&(integer as u64)))
            }),
            None => RowSet::None,
        },
        MatchAnchor::End => {
            let Some(modulus) = decimal::power_of_ten(text.len()) else { return RowSet::None };
            // Shorter integers do not have enough digits; 0 has one.
            let least = if text.len() == 1 { 0 } else { modulus / 10 };
            rows_that(integers, |integer| {
                let digits = integer.unsigned_abs();
                digits >= least && digits % modulus == value
            })
        }
        MatchAnchor::Anywhere if integers.len() < TABLE_ROWS_MIN => {
            rows_that(integers, |integer| has_digits(integer, text))
        }
        MatchAnchor::Anywhere => {
            let needle = DigitNeedle::new(text);
            rows_that(integers, |integer| needle.is_in(integer))
        }
    }
}

#[inline]
fn rows_that(integers: &DecodedNumbers, test: impl Fn(i64) -> bool) -> RowSet {
    integers.rows_that(|integer| test(integer as i64))
}

/// The number that at most [`DIGITS_MAX`] decimal digits stand for.
pub(crate) fn decimal_value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit.wrapping_sub(b'0')))
}

/// As [`decimal_value`]; `None` if the text has other bytes than digits, or more digits than any integer.
fn decimal_value_of(text: &[u8]) -> Option<u64> {
    (text.len() <= DIGITS_MAX && text.iter().all(u8::is_ascii_digit)).then(|| decimal_value(text))
}

/// For each length, the integers of this many digits that start with these digits; `None` as [`decimal_value_of`].
fn ranges_by_length(digits: &[u8]) -> Option<[Range<u64>; NUMBER_BYTES_MAX]> {
    let value = decimal_value_of(digits)?;
    Some(std::array::from_fn(|length| match length.checked_sub(digits.len()).and_then(decimal::power_of_ten) {
        // At most 10^19, which fits.
        Some(power) => value * power..(value + 1) * power,
        None => 0..0,
    }))
}

/// A text of decimal digits that may occur anywhere in an integer.
///
/// The digits of an integer are read in groups of four. An occurrence starts at one of four places of a group, and has one part
/// in this group and others in the groups behind. For each value of a group, a table says which parts it may hold:
/// ```text
///   text 4217, parts by place     4217      _421,7___   __42,17__   ___4,217_
///   group 8421                    none      first       none        none
///   group 7150                    none      second      none        none
///   integer 84217150              an occurrence starts at the second place of its first group
/// ```
struct DigitNeedle<'n> {
    text: &'n [u8],
    /// The parts that each value of a group may hold: in bit 4 * part + place. Parts that an occurrence does not have are set.
    parts: Vec<u16>,
    /// The parts that an occurrence does not have.
    missing: u16,
}

impl<'n> DigitNeedle<'n> {
    fn new(text: &'n [u8]) -> Self {
        let (mut parts, mut missing) = (vec![0; GROUP_VALUES], 0);
        for place in 0..GROUP_DIGITS {
            for part in 0..PARTS_MAX {
                let bit = 1 << (GROUP_DIGITS * part + place);
                // The digits of the part, and its place in its group.
                let from = (GROUP_DIGITS * part).saturating_sub(place).min(text.len());
                let to = (GROUP_DIGITS * (part + 1) - place).min(text.len());
                let digits = text.get(from..to).unwrap_or_default();
                let place = if part == 0 { place } else { 0 };
                if digits.is_empty() {
                    missing |= bit;
                } else {
                    add_part(&mut parts, bit, decimal_value(digits) as usize, place, digits.len());
                }
            }
        }
        parts.iter_mut().for_each(|parts| *parts |= missing);
        Self { text, parts, missing }
    }

    #[inline]
    fn is_in(&self, integer: i64) -> bool {
        let (mut rest, mut next, mut next_but_one) = (integer.unsigned_abs(), self.missing, self.missing);
        let mut found = 0;
        loop {
            let group = rest % GROUP_VALUES as u64;
            rest /= GROUP_VALUES as u64;
            let parts = self.parts.get(group as usize).copied().unwrap_or_default();
            let starts = parts & (next >> GROUP_DIGITS) & (next_but_one >> (2 * GROUP_DIGITS)) & FIRST_PARTS;
            if rest == 0 {
                return (found | starts) != 0
                    && (found | (starts & places_of_first_group(group))) != 0
                    && (self.text.len() <= PARTS_DIGITS_MAX || has_digits(integer, self.text));
            }
            found |= starts;
            (next, next_but_one) = (parts, next);
        }
    }
}

/// The places of the digits of a group that begins an integer: zeros before them are none.
#[inline]
fn places_of_first_group(group: u64) -> u16 {
    let zeros = u16::from(group < 10) + u16::from(group < 100) + u16::from(group < 1_000);
    FIRST_PARTS << zeros
}

/// Sets a bit of all values of a group that have the `len` digits of `digits` at a place.
fn add_part(values: &mut [u16], bit: u16, digits: usize, place: usize, len: usize) {
    let power = |digits| 10_usize.pow(digits as u32);
    let behind = power(GROUP_DIGITS - place - len);
    for values in values.chunks_mut(power(GROUP_DIGITS - place)) {
        let holding = values.iter_mut().skip(digits * behind).take(behind);
        holding.for_each(|parts| *parts |= bit);
    }
}

/// Whether an integer has these digits on end.
#[cold]
fn has_digits(integer: i64, text: &[u8]) -> bool {
    let mut bytes = [0; NUMBER_BYTES_MAX];
    let len = decimal::write(integer, &mut bytes);
    bytes.get(..len).is_some_and(|digits| digits.windows(text.len()).any(|window| window == text))
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
            changed in prop::option::weighted(0.3, (0_usize..20, prop::sample::select(b"0123456789-a".as_slice()))),
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
                let found = find(&stored, &predicate);
                // A table is made for more integers than these.
                if anchor == MatchAnchor::Anywhere && decimal_value_of(&text).is_some() {
                    let needle = DigitNeedle::new(&text);
                    prop_assert_eq!(&rows_that(&stored, |integer| needle.is_in(integer)), &found, "{:?}", text);
                }
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
        assert_eq!(find(&DecodedNumbers::Near(0, vec![1, 2]), &TextPredicate::whole(&needle, None)), RowSet::None);
    }
}
