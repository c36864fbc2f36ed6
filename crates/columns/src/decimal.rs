//! Numbers in decimal digits.
//!
//! All indices here are bounded by what a number of 64 bits can be.

use crate::open::SLACK;

/// The longest number: a sign and 19 digits.
pub(crate) const NUMBER_BYTES_MAX: usize = 20;

/// The digits of all numbers below a hundred: two at once halve the divisions.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// Bytes of which those from the returned place up to [`NUMBER_BYTES_MAX`] are the number.
#[inline]
pub(crate) fn decimal(number: i64) -> ([u8; NUMBER_BYTES_MAX + SLACK], usize) {
    let mut bytes = [0; NUMBER_BYTES_MAX + SLACK];
    let mut rest = number.unsigned_abs();
    let mut at = NUMBER_BYTES_MAX;
    while rest >= 100 {
        at -= 2;
        bytes[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        bytes[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        at -= 1;
        bytes[at] = b'0' + rest as u8;
    }
    if number < 0 {
        at -= 1;
        bytes[at] = b'-';
    }
    (bytes, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_anybody_would() {
        for number in [0, 9, 10, 99, 100, 12_345, -1, -10, i64::MAX, i64::MIN] {
            let (bytes, at) = decimal(number);
            assert_eq!(str::from_utf8(&bytes[at..NUMBER_BYTES_MAX]).unwrap(), number.to_string());
        }
    }
}
