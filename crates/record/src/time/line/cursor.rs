//! Reads digits and separators from a position in a line.

const POWERS_OF_TEN: [u32; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// A position in a line. Each method moves it only if the expected bytes follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextCursor<'a>(&'a [u8]);

impl<'a> TextCursor<'a> {
    pub(super) fn at(line: &'a [u8], at: usize) -> Self {
        Self(line.get(at..).unwrap_or_default())
    }

    pub(super) fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    /// The number of digits that follow, at most 20.
    pub(super) fn digit_count(self) -> usize {
        self.0.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// Takes `N` bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Takes exactly two digits.
    pub(super) fn two(&mut self) -> Option<u32> {
        let [tens, ones] = self.first_bytes::<2>()?.map(|byte| byte.wrapping_sub(b'0'));
        if tens > 9 || ones > 9 {
            return None;
        }
        self.skip(2);
        Some(u32::from(tens) * 10 + u32::from(ones))
    }

    /// Takes exactly four digits.
    pub(super) fn four(&mut self) -> Option<u32> {
        Some(self.two()? * 100 + self.two()?)
    }

    /// Takes one or two digits.
    pub(super) fn one_or_two(&mut self) -> Option<u32> {
        if let Some(number) = self.two() {
            return Some(number);
        }
        let digit = self.peek().filter(u8::is_ascii_digit)?;
        self.skip(1);
        Some(u32::from(digit - b'0'))
    }

    /// Takes the next byte if it is in `any_of`.
    pub(super) fn eat(&mut self, any_of: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| any_of.contains(byte))?;
        self.skip(1);
        Some(byte)
    }

    /// Takes the digits of a fraction as nanoseconds; digits below a nanosecond are dropped.
    pub(super) fn fraction(&mut self) -> Option<u32> {
        let (mut value, mut count) = (0, 0);
        for digit in self.0.iter().take(9).map(|byte| byte.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            value = value * 10 + u32::from(digit);
            count += 1;
        }
        let weight = POWERS_OF_TEN.get(9_usize.checked_sub(count)?)?;
        self.skip(count);
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.skip(1);
        }
        (count > 0).then_some(value * weight)
    }

    /// Takes a number of this many digits, at most 19.
    pub(super) fn number(&mut self, digits: usize) -> Option<u64> {
        let (taken, rest) = self.0.split_at_checked(digits.min(19))?;
        let mut number = 0;
        for digit in taken.iter().map(|byte| byte.wrapping_sub(b'0')) {
            if digit > 9 {
                return None;
            }
            number = number * 10 + u64::from(digit);
        }
        self.0 = rest;
        Some(number)
    }

    /// Whether no letter or digit follows.
    pub(super) fn is_word_end(self) -> bool {
        !self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric())
    }

    /// The next `N` bytes.
    pub(super) fn first_bytes<const N: usize>(self) -> Option<[u8; N]> {
        self.0.first_chunk::<N>().copied()
    }

    /// Whether this text follows.
    pub(super) fn starts_with(self, text: &[u8]) -> bool {
        self.0.starts_with(text)
    }

    /// Bytes up to the end of the line.
    pub(super) fn bytes_left(self) -> usize {
        self.0.len()
    }
}
