//! Searches a fixed-width column without building its values.
//!
//! ```text
//!   pattern     dd:dd:dd.ddd       a time of day, stored as the number 095407286
//!   text           4:07.2          fits at one offset: over the digits 3 to 6 of the number
//!   test        number % 10^6 lies in 407200..407300
//! ```
//! At an offset where the text fits the pattern, the decimal digits under it are a range of a remainder of their number, and each
//! hexadecimal digit is half a byte.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::RowSet;

use crate::decimal;
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::fixed_width::{self, DIGITS_MAX, PatternByte};
use crate::search::integer_search::decimal_value;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// Offsets that are tested for each row, at most: building the values costs less than more tests.
const OFFSETS_MAX: usize = 3;

/// The decoded values of a fixed-width column.
pub(crate) struct FixedWidthValues<'b> {
    pub(crate) pattern: &'b [PatternByte],
    pub(crate) numbers: &'b [DecodedNumbers],
    pub(crate) nibbles: &'b [u8],
    pub(crate) rows: usize,
}

/// The rows of the values that pass; `None` if the values are to be built, because the text fits at many offsets or because a
/// value is missing.
pub(crate) fn find(values: &FixedWidthValues<'_>, predicate: &TextPredicate<'_>) -> Option<RowSet> {
    let FixedWidthValues { pattern, numbers, nibbles, rows } = *values;
    let nibble_bytes = fixed_width::nibble_bytes(pattern);
    if numbers.iter().any(|numbers| numbers.len() != rows) || nibbles.len() != rows * nibble_bytes {
        return None;
    }
    let tests: Vec<OffsetTest> = fitting_offsets(pattern, predicate)
        .take(OFFSETS_MAX + 1)
        .map(|offset| OffsetTest::new(pattern, offset, predicate.text))
        .collect();
    match tests.as_slice() {
        [OffsetTest { remainders, nibbles }] if nibbles.is_empty() && remainders.len() == 1 => {
            let remainder = remainders.first()?;
            Some(numbers.get(remainder.list)?.rows_that(|number| remainder.is_of(number)))
        }
        tests if tests.len() <= OFFSETS_MAX => Some(RowSet::from_fn(rows, |row| {
            let nibbles = nibbles.get(row * nibble_bytes..).unwrap_or_default();
            tests.iter().any(|test| test.passes(row, numbers, nibbles))
        })),
        _ => None,
    }
}

/// The offsets at which values with this pattern may contain the text of the predicate.
pub(crate) fn fitting_offsets<'p>(
    pattern: &'p [PatternByte],
    predicate: &'p TextPredicate<'_>,
) -> impl Iterator<Item = usize> + 'p {
    let last = pattern.len().checked_sub(predicate.text.len());
    let offsets = match (predicate.anchor, last) {
        (_, None) => 0..0,
        (MatchAnchor::Whole, Some(last)) => 0..usize::from(last == 0),
        (MatchAnchor::Start, Some(_)) => 0..1,
        (MatchAnchor::End, Some(last)) => last..last + 1,
        (MatchAnchor::Anywhere, Some(last)) => 0..last + 1,
    };
    offsets.filter(|offset| fits_at(pattern, *offset, predicate.text, predicate))
}

/// Whether values with this pattern may contain a part of the predicate's text at an offset.
pub(crate) fn fits_at(pattern: &[PatternByte], offset: usize, part: &[u8], predicate: &TextPredicate<'_>) -> bool {
    let window = pattern.get(offset..offset + part.len()).unwrap_or_default();
    window.iter().zip(part).all(|(place, byte)| place_fits(*place, *byte, predicate))
}

fn place_fits(place: PatternByte, byte: u8, predicate: &TextPredicate<'_>) -> bool {
    match place {
        PatternByte::Literal(same) => predicate.texts_equal(&[same], &[byte]),
        PatternByte::Digit => byte.is_ascii_digit(),
        PatternByte::LowerHex => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        PatternByte::UpperHex => {
            let upper = if predicate.needle.any_case() { byte.to_ascii_uppercase() } else { byte };
            upper.is_ascii_digit() || (b'A'..=b'F').contains(&upper)
        }
    }
}

/// What a value with the text at one offset holds.
struct OffsetTest {
    remainders: Vec<Remainder>,
    /// The byte of a hexadecimal digit, its shift in the byte, and its value.
    nibbles: Vec<(usize, u32, u8)>,
}

/// A range for the last digits of one of the numbers.
struct Remainder {
    list: usize,
    /// `None` if the range is that of the whole number.
    modulus: Option<u64>,
    range: Range<u64>,
}

impl Remainder {
    #[inline]
    fn is_of(&self, number: u64) -> bool {
        self.range.contains(&self.modulus.map_or(number, |modulus| number % modulus))
    }
}

impl OffsetTest {
    /// The test for the text at an offset where it fits.
    fn new(pattern: &[PatternByte], offset: usize, text: &[u8]) -> Self {
        let is_hex = |place: &PatternByte| matches!(place, PatternByte::LowerHex | PatternByte::UpperHex);
        let count =
            |places: &[PatternByte], is: &dyn Fn(&PatternByte) -> bool| places.iter().filter(|place| is(place)).count();
        let is_digit = |place: &PatternByte| *place == PatternByte::Digit;
        let before = pattern.get(..offset).unwrap_or_default();
        let window = pattern.get(offset..offset + text.len()).unwrap_or_default();
        let under = |is: &dyn Fn(&PatternByte) -> bool| -> Vec<u8> {
            window.iter().zip(text).filter(|(place, _)| is(place)).map(|(_, byte)| *byte).collect()
        };
        let (digits, all_digits) = (under(&is_digit), count(pattern, &is_digit));
        let first = count(before, &is_digit);
        let remainders = (0..fixed_width::number_count(pattern)).filter_map(|list| {
            // The digits of the number, and those that the text covers.
            let number = list * DIGITS_MAX..((list + 1) * DIGITS_MAX).min(all_digits);
            let covered = first.max(number.start)..(first + digits.len()).min(number.end);
            let wanted = digits.get(covered.start.checked_sub(first)?..covered.end.checked_sub(first)?)?;
            if wanted.is_empty() {
                return None;
            }
            let behind = decimal::power_of_ten(number.end - covered.end)?;
            let modulus =
                if covered.start == number.start { None } else { decimal::power_of_ten(number.end - covered.start) };
            let value = decimal_value(wanted);
            Some(Remainder { list, modulus, range: value * behind..(value + 1) * behind })
        });
        let (first, all_hex) = (count(before, &is_hex), count(pattern, &is_hex));
        let nibbles = under(&is_hex).into_iter().enumerate().map(|(at, byte)| {
            let at = first + at;
            // The last one of an odd number is alone in its byte, in the lower bits.
            let is_upper = at % 2 == 0 && at + 1 != all_hex;
            (at / 2, if is_upper { 4 } else { 0 }, (byte as char).to_digit(16).unwrap_or_default() as u8)
        });
        Self { remainders: remainders.collect(), nibbles: nibbles.collect() }
    }

    #[inline]
    fn passes(&self, row: usize, numbers: &[DecodedNumbers], nibbles: &[u8]) -> bool {
        let number = |list: usize| numbers.get(list).and_then(|numbers| numbers.get(row));
        self.remainders.iter().all(|test| number(test.list).is_some_and(|number| test.is_of(number)))
            && self
                .nibbles
                .iter()
                .all(|(byte, shift, value)| nibbles.get(*byte).is_some_and(|byte| byte >> shift & 15 == *value))
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_search::Needle;
    use proptest::prelude::*;

    use super::*;
    use crate::decode::fixed_width_format::{FORMATTED_BYTES_MAX, FixedWidthTemplate};

    fn place() -> impl Strategy<Value = PatternByte> {
        prop_oneof![
            4 => Just(PatternByte::Digit),
            1 => Just(PatternByte::LowerHex),
            1 => Just(PatternByte::UpperHex),
            1 => prop::sample::select(b":.-aA1".to_vec()).prop_map(PatternByte::Literal),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// Texts are pieces of the values, with a changed byte at times, so that most occur and others nearly do.
        #[test]
        fn values_are_found_as_their_texts_are(
            pattern in prop::collection::vec(place(), 1..45),
            seeds in prop::collection::vec((any::<u64>(), any::<u64>(), any::<[u8; 23]>()), 1..20),
            (index, start, len) in (any::<prop::sample::Index>(), 0_usize..45, 1_usize..46),
            (changed, any_case) in (prop::option::weighted(0.3, (0_usize..45, prop::sample::select(b"0123456789abAB:".to_vec()))), any::<bool>()),
        ) {
            let digits = pattern.iter().filter(|place| **place == PatternByte::Digit).count();
            let nibble_bytes = fixed_width::nibble_bytes(&pattern);
            let numbers: Vec<DecodedNumbers> = (0..fixed_width::number_count(&pattern)).map(|list| {
                let power = decimal::power_of_ten((digits - list * DIGITS_MAX).min(DIGITS_MAX)).unwrap();
                // Small numbers have leading zeros.
                DecodedNumbers::Far(seeds.iter().map(|(one, other, _)| (if list == 0 { *one } else { *other } >> (one % 60)) % power).collect())
            }).collect();
            let odd = pattern.iter().filter(|place| matches!(place, PatternByte::LowerHex | PatternByte::UpperHex)).count() % 2 == 1;
            let nibbles: Vec<u8> = seeds.iter().flat_map(|(_, _, bytes)| {
                let mut bytes = bytes[..nibble_bytes].to_vec();
                bytes.last_mut().filter(|_| odd).into_iter().for_each(|last| *last &= 15);
                bytes
            }).collect();
            let template = FixedWidthTemplate::new(&pattern, &numbers, &nibbles).unwrap();
            let texts: Vec<Vec<u8>> = (0..seeds.len()).map(|row| {
                let mut bytes = [0; FORMATTED_BYTES_MAX];
                let len = template.write(row, &mut bytes).unwrap();
                bytes[..len].to_vec()
            }).collect();
            let source = &texts[index.index(texts.len())];
            let start = start.min(source.len() - 1);
            let mut text = source[start..(start + len).min(source.len())].to_vec();
            if let Some((at, byte)) = changed {
                let at = at.min(text.len() - 1);
                text[at] = byte;
            }
            let needle = Needle::new(&text, any_case);
            let values = FixedWidthValues { pattern: &pattern, numbers: &numbers, nibbles: &nibbles, rows: seeds.len() };
            for anchor in [MatchAnchor::Anywhere, MatchAnchor::Start, MatchAnchor::End, MatchAnchor::Whole] {
                let predicate = TextPredicate { anchor, ..TextPredicate::whole(&needle, None) };
                let offsets = fitting_offsets(&pattern, &predicate).count();
                let Some(found) = find(&values, &predicate) else {
                    prop_assert!(offsets > OFFSETS_MAX);
                    continue;
                };
                for (row, text) in texts.iter().enumerate() {
                    prop_assert_eq!(found.contains(row), predicate.matches(text), "{:?} {:?} {:?}", text, anchor, needle.text());
                }
            }
        }
    }

    #[test]
    fn missing_values_are_no_result() {
        let pattern = [PatternByte::Digit, PatternByte::LowerHex];
        let needle = Needle::new(b"1", false);
        let find_in = |numbers: &[i32], nibbles: &[u8]| {
            let numbers = &[DecodedNumbers::Near(0, numbers.to_vec())];
            find(
                &FixedWidthValues { pattern: &pattern, numbers, nibbles, rows: 2 },
                &TextPredicate::whole(&needle, None),
            )
        };
        assert!(find_in(&[1], &[1, 2]).is_none() && find_in(&[1, 2], &[1]).is_none());
        assert!(find_in(&[1, 2], &[2, 1]).is_some_and(|found| found == RowSet::All));
    }
}
