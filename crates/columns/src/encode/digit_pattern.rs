//! Recognises fixed-width values and extracts their digits.

use crate::encode::values::Values;
use crate::fixed_width::{DIGITS_MAX, FIXED_WIDTH_MAX, PatternByte, nibble_bytes, number_count};

const DIGIT: u8 = 1;
const LOWER: u8 = 2;
const UPPER: u8 = 4;

const DIGIT_KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT | LOWER | UPPER,
            b'a'..=b'f' => LOWER,
            b'A'..=b'F' => UPPER,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// The pattern of the values, if they are fixed-width and not all equal.
pub(crate) fn common_pattern(values: Values<'_>) -> Option<Vec<PatternByte>> {
    let first = values.get(0);
    if first.is_empty() || first.len() > FIXED_WIDTH_MAX {
        return None;
    }
    let mut seen = [(0_u8, 0_u8); FIXED_WIDTH_MAX];
    let seen = &mut seen[..first.len()];
    for (place, byte) in seen.iter_mut().zip(first) {
        *place = (DIGIT_KINDS[*byte as usize], 0);
    }
    for value in values.iter() {
        if value.len() != first.len() {
            return None;
        }
        let mut differs = false;
        for ((kinds, difference), (byte, first)) in seen.iter_mut().zip(value.iter().zip(first)) {
            *kinds &= DIGIT_KINDS[*byte as usize];
            *difference |= byte ^ first;
            differs |= *kinds == 0 && *difference != 0;
        }
        if differs {
            return None;
        }
    }
    let pattern_byte = |((kinds, difference), first): (&(u8, u8), &u8)| match kinds {
        _ if *difference == 0 => PatternByte::Literal(*first),
        kinds if kinds & DIGIT != 0 => PatternByte::Digit,
        kinds if kinds & LOWER != 0 => PatternByte::LowerHex,
        _ => PatternByte::UpperHex,
    };
    Some(seen.iter().zip(first).map(pattern_byte).collect())
}

/// The numbers of the decimal digits, one list per number of a value, and the nibbles of all values.
pub(crate) fn extract_digits(values: Values<'_>, pattern: &[PatternByte]) -> (Vec<Vec<u64>>, Vec<u8>) {
    let mut numbers = vec![Vec::with_capacity(values.len()); number_count(pattern)];
    let digits: Vec<usize> = (0..pattern.len()).filter(|at| pattern[*at] == PatternByte::Digit).collect();
    let hex: Vec<usize> =
        (0..pattern.len()).filter(|at| matches!(pattern[*at], PatternByte::LowerHex | PatternByte::UpperHex)).collect();
    let mut nibbles = Vec::with_capacity(values.len() * nibble_bytes(pattern));
    for value in values.iter() {
        for (list, digits) in numbers.iter_mut().zip(digits.chunks(DIGITS_MAX)) {
            list.push(digits.iter().fold(0, |number, at| number * 10 + u64::from(value[*at] - b'0')));
        }
        for pair in hex.chunks(2) {
            nibbles.push(pair.iter().fold(0, |byte, at| byte << 4 | hex_digit_value(value[*at])));
        }
    }
    (numbers, nibbles)
}

fn hex_digit_value(byte: u8) -> u8 {
    if byte.is_ascii_digit() { byte - b'0' } else { (byte | 0x20) - b'a' + 10 }
}
