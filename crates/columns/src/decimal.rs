//! Formats and parses decimal integers.
//!
//! All indices are bounded by the digits of a 64-bit number.

/// The longest number: a sign and 19 digits.
pub(crate) const NUMBER_BYTES_MAX: usize = 20;

/// Numbers below this have eight digits or fewer, which are computed together.
const EIGHT_DIGITS: u64 = 100_000_000;

/// The powers of ten that fit in 64 bits.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// A power of ten; `None` if it does not fit in 64 bits.
pub(crate) fn power_of_ten(exponent: usize) -> Option<u64> {
    POWERS.get(exponent).copied()
}

/// The length of a number in decimal.
#[inline]
pub(crate) fn decimal_length(number: i64) -> usize {
    let rest = number.unsigned_abs();
    // The bit length gives the number of digits up to one: 1,233 / 4,096 is slightly more than the decimal logarithm of 2.
    let log = ((64 - (rest | 1).leading_zeros() as usize) * 1_233) >> 12;
    usize::from(number < 0) + log + usize::from(rest >= POWERS[log] || rest == 0)
}

/// The eight digits of a number below [`EIGHT_DIGITS`] as bytes, the first in the lowest. Each step halves all parts at once.
#[inline]
pub(crate) fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

/// Added to eight digits in bytes, gives their text.
pub(crate) const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// Writes a number to the start of `to` and returns its length.
#[inline]
pub(crate) fn write<const ROOM: usize>(number: i64, to: &mut [u8; ROOM]) -> usize {
    const { assert!(ROOM >= NUMBER_BYTES_MAX) };
    match u32::try_from(number) {
        Ok(small) if u64::from(small) < EIGHT_DIGITS => {
            let digits = eight_digits(small);
            // Leading zeros, except the last digit, at eight bits each.
            let front = (digits | 1 << 56).trailing_zeros() & !7;
            write_eight((digits | ASCII_ZEROS) >> front, to, 0);
            8 - front as usize / 8
        }
        _ => write_long(number, to),
    }
}

#[inline(never)]
fn write_long<const ROOM: usize>(number: i64, to: &mut [u8; ROOM]) -> usize {
    let (mut rest, len) = (number.unsigned_abs(), decimal_length(number));
    to[0] = b'-';
    let start = usize::from(number < 0);
    let mut end = len;
    while rest >= EIGHT_DIGITS {
        end -= 8;
        write_eight(eight_digits((rest % EIGHT_DIGITS) as u32) | ASCII_ZEROS, to, end);
        rest /= EIGHT_DIGITS;
    }
    // The digits behind the first ones are already written.
    let first = ((eight_digits(rest as u32) | ASCII_ZEROS) >> (64 - (end - start) * 8)).to_le_bytes();
    to[start..end].copy_from_slice(&first[..end - start]);
    len
}

#[inline]
fn write_eight<const ROOM: usize>(digits: u64, to: &mut [u8; ROOM], at: usize) {
    to[at..at + 8].copy_from_slice(&digits.to_le_bytes());
}

/// The number that a value stands for, if [`write()`] would write the same bytes.
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
    let limit = i64::MAX as u64 + u64::from(negative);
    (number <= limit).then(|| if negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_to_string_does() {
        let powers = POWERS.iter().filter_map(|power| i64::try_from(*power).ok());
        let near = powers.flat_map(|power| [power - 1, power, power + 1, power / 9 * 4 + 7]);
        let twos = (0..63).map(|bit| (1_i64 << bit) - 1);
        for number in near.chain(twos).flat_map(|number| [number, -number]).chain([12_345, i64::MAX, i64::MIN]) {
            let mut bytes = [0; 64];
            let len = write(number, &mut bytes);
            assert_eq!(str::from_utf8(&bytes[..len]).unwrap(), number.to_string());
            assert_eq!(len, decimal_length(number));
        }
    }

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
