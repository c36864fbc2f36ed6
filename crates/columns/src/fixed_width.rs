//! Values of one length that differ only in digits at the same places: times, serial numbers, UUIDs.

use crate::values::Values;

/// What stands at a place of all values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternByte {
    Literal(u8),
    Digit,
    LowerHex,
    UpperHex,
}

/// Decimal digits that make a number: any fits in 64 bits.
pub(crate) const DIGITS_MAX: usize = 18;

/// Longer values are not looked at.
pub(crate) const FIXED_WIDTH_MAX: usize = 64;

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

/// The places of the values, if they are of this kind and not all the same.
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
        let mut strange = false;
        for ((kinds, differ), (byte, first)) in seen.iter_mut().zip(value.iter().zip(first)) {
            *kinds &= DIGIT_KINDS[*byte as usize];
            *differ |= byte ^ first;
            strange |= *kinds == 0 && *differ != 0;
        }
        if strange {
            return None;
        }
    }
    let place = |((kinds, differ), first): (&(u8, u8), &u8)| match kinds {
        _ if *differ == 0 => PatternByte::Literal(*first),
        kinds if kinds & DIGIT != 0 => PatternByte::Digit,
        kinds if kinds & LOWER != 0 => PatternByte::LowerHex,
        _ => PatternByte::UpperHex,
    };
    Some(seen.iter().zip(first).map(place).collect())
}

/// How many numbers the digits of such a value make.
pub(crate) fn number_count(places: &[PatternByte]) -> usize {
    places.iter().filter(|place| **place == PatternByte::Digit).count().div_ceil(DIGITS_MAX)
}

/// How many bytes its hexadecimal places make.
pub(crate) fn nibble_bytes(places: &[PatternByte]) -> usize {
    places.iter().filter(|place| matches!(place, PatternByte::LowerHex | PatternByte::UpperHex)).count().div_ceil(2)
}

/// The numbers that the digits of each value make, one list for each of them, and the bytes of the hexadecimal places of
/// all.
pub(crate) fn extract_digits(values: Values<'_>, places: &[PatternByte]) -> (Vec<Vec<u64>>, Vec<u8>) {
    let mut numbers = vec![Vec::with_capacity(values.len()); number_count(places)];
    let digits: Vec<usize> = (0..places.len()).filter(|at| places[*at] == PatternByte::Digit).collect();
    let hex: Vec<usize> =
        (0..places.len()).filter(|at| matches!(places[*at], PatternByte::LowerHex | PatternByte::UpperHex)).collect();
    let mut nibbles = Vec::with_capacity(values.len() * nibble_bytes(places));
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

/// The number that a value stands for, when it is written as we would write it.
pub(crate) fn parse_integer(value: &[u8]) -> Option<u64> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && value.len() > 1) {
        return None;
    }
    let mut number = 0_u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    let most = i64::MAX as u64 + u64::from(negative);
    (number <= most).then(|| if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_integers_are_parsed() {
        let check = |text: &str, want: Option<i64>| {
            assert_eq!(parse_integer(text.as_bytes()), want.map(|number| number as u64), "{text}");
        };
        check("0", Some(0));
        check("-7369107293321978481", Some(-7_369_107_293_321_978_481));
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        for bad in [
            "",
            "-",
            "00",
            "-0",
            "01",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "+1",
            "99999999999999999999",
        ] {
            check(bad, None);
        }
    }
}
