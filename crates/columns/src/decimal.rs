//! Numbers in decimal digits.
//!
//! All indices here are bounded by what a number of 64 bits can be.

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

/// How many bytes a number takes.
#[inline]
pub(crate) fn len(number: i64) -> usize {
    usize::from(number < 0) + number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes a number to the beginning of some room; gives its bytes.
#[inline]
pub(crate) fn write<const ROOM: usize>(number: i64, to: &mut [u8; ROOM]) -> usize {
    const { assert!(ROOM >= NUMBER_BYTES_MAX) };
    let mut rest = number.unsigned_abs();
    to[0] = b'-';
    let len = len(number);
    let mut at = len;
    while rest >= 100 {
        at -= 2;
        to[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        to[at - 2..at].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        to[at - 1] = b'0' + rest as u8;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_anybody_would() {
        for number in [0, 9, 10, 99, 100, 12_345, -1, -10, i64::MAX, i64::MIN] {
            let mut bytes = [0; NUMBER_BYTES_MAX];
            let count = write(number, &mut bytes);
            assert_eq!(str::from_utf8(&bytes[..count]).unwrap(), number.to_string());
            assert_eq!(len(number), count);
        }
    }
}
