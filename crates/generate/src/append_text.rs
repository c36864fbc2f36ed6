//! Appends text and numbers to bytes, faster than `format!`.

/// Appends to a line; calls can be chained.
pub(crate) trait AppendText {
    /// Appends text.
    fn text(&mut self, text: &str) -> &mut Self;
    /// Appends a decimal number.
    fn number(&mut self, number: u64) -> &mut Self;
    /// Appends a decimal number, zero-padded to `width` digits (at most 20).
    fn padded(&mut self, number: u64, width: usize) -> &mut Self;
    /// Appends 16 hexadecimal digits.
    fn hex(&mut self, number: u64) -> &mut Self;
    /// Appends 8 hexadecimal digits.
    fn hex_half(&mut self, number: u32) -> &mut Self;
}

impl AppendText for Vec<u8> {
    fn text(&mut self, text: &str) -> &mut Self {
        self.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        self.padded(number, 1)
    }

    fn padded(&mut self, number: u64, width: usize) -> &mut Self {
        let mut digits = [0; 20];
        let (mut rest, mut used) = (number, 0);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            used += 1;
            if rest == 0 && used >= width {
                break;
            }
        }
        self.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
        self
    }

    fn hex(&mut self, number: u64) -> &mut Self {
        self.hex_half((number >> 32) as u32).hex_half(number as u32)
    }

    fn hex_half(&mut self, number: u32) -> &mut Self {
        self.extend_from_slice(&hex_digits(u64::from(number)));
        self
    }
}

/// Eight hexadecimal digits of a number below 2^32, computed at once: one digit per byte, then converted to letters.
pub(crate) fn hex_digits(number: u64) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let spread = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & (EACH * 0x0f);
    // Adding six to a digit of ten or more carries into the upper half of its byte.
    let letters = ((spread + EACH * 6) >> 4) & EACH;
    (spread + EACH * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn put(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn same_as_format(number: u64, shift in 0u32..64, width in 1usize..=20) {
            let number = number >> shift;
            prop_assert_eq!(put(|out| _ = out.number(number)), number.to_string());
            prop_assert_eq!(put(|out| _ = out.padded(number, width)), format!("{number:0width$}"));
            prop_assert_eq!(put(|out| _ = out.hex(number)), format!("{number:016x}"));
        }
    }

    #[test]
    fn extreme_numbers_are_written() {
        assert_eq!(put(|out| _ = out.number(0)), "0");
        assert_eq!(put(|out| _ = out.number(u64::MAX)), "18446744073709551615");
        assert_eq!(put(|out| _ = out.hex(0x0123_4567_89ab_cdef)), "0123456789abcdef");
    }
}
