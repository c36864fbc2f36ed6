//! Decimal numbers, which compare exactly: no value passes through a float, so `9007199254740993` differs from
//! `9007199254740992`, and `1e400` is a number like any other.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};

/// Digits of an exponent. A longer one is no number; this bounds the arithmetic, not what logs contain.
const EXPONENT_DIGITS_MAX: usize = 15;

/// A decimal number as written, without copying it.
///
/// Its digits are those of `whole` and `fraction`, and its value is `0.digits × 10^point`.
#[derive(Clone, Copy, Debug)]
struct WrittenNumber<'a> {
    is_negative: bool,
    /// Without leading zeros.
    whole: &'a [u8],
    /// Without trailing zeros, and without leading ones if `whole` is empty.
    fraction: &'a [u8],
    point: i64,
}

impl<'a> WrittenNumber<'a> {
    /// Reads digits with or without sign, point and exponent; `None` for other text.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let (is_negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, rest) = rest.strip_prefix(b".").map_or((&[][..], rest), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => parse_exponent(rest)?,
            _ => return None,
        };
        let whole = trim_start(whole);
        let fraction = trim_end(fraction);
        let significant = if whole.is_empty() { trim_start(fraction) } else { fraction };
        let leading_zeros = i64::try_from(fraction.len() - significant.len()).ok()?;
        let point = i64::try_from(whole.len()).ok()? - leading_zeros + exponent;
        let number = Self { is_negative, whole, fraction: significant, point };
        Some(if number.is_zero() { Self { is_negative: false, point: 0, ..number } } else { number })
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// The digits, of which the first is not zero.
    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.iter().chain(self.fraction).copied()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.is_zero(), number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let (mine, others) = (sign(self), sign(other));
        if mine != others || mine == 0 {
            return mine.cmp(&others);
        }
        let magnitude = self.point.cmp(&other.point).then_with(|| compare_digits(self.digits(), other.digits()));
        if mine < 0 { magnitude.reverse() } else { magnitude }
    }
}

/// Compares fractions by their digits; digits that are not written are zeros.
fn compare_digits(mut mine: impl Iterator<Item = u8>, mut others: impl Iterator<Item = u8>) -> Ordering {
    loop {
        match (mine.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (mine, other) => match mine.unwrap_or(b'0').cmp(&other.unwrap_or(b'0')) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (digits, rest) = split_digits(digits);
    if digits.is_empty() || !rest.is_empty() {
        return None;
    }
    let digits = trim_start(digits);
    let value = digits.iter().take(EXPONENT_DIGITS_MAX).fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    (digits.len() <= EXPONENT_DIGITS_MAX).then_some(if is_negative { -value } else { value })
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at_checked(length).unwrap_or((text, &[]))
}

fn trim_start(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.get(zeros..).unwrap_or_default()
}

fn trim_end(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    digits.get(..digits.len() - zeros).unwrap_or_default()
}

/// A decimal number of an expression, in the one form that all spellings of its value have.
///
/// ```
/// # use bucksaw_record::expr::Number;
/// # use std::cmp::Ordering;
/// let limit = Number::parse(b"9007199254740992").unwrap();
/// assert_eq!(limit.compare_to(b"9007199254740993"), Some(Ordering::Less));
/// assert_eq!(limit.compare_to(b"9007199254740992.0"), Some(Ordering::Equal));
/// assert_eq!(limit.compare_to(b"12ms"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    is_negative: bool,
    /// ASCII digits, neither the first nor the last of them `0`; empty for zero.
    digits: Vec<u8>,
    /// The value is `0.digits × 10^point`.
    point: i64,
}

impl Number {
    /// Parses digits with or without sign, point and exponent (of at most 15 digits); `None` for other text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let number = WrittenNumber::parse(text)?;
        let mut digits: Vec<u8> = number.digits().collect();
        digits.truncate(trim_end(&digits).len());
        Some(Self { is_negative: number.is_negative, digits, point: number.point })
    }

    /// How this number compares with the one written as `text`; `None` if that is no number.
    #[must_use]
    pub fn compare_to(&self, text: &[u8]) -> Option<Ordering> {
        let written = WrittenNumber::parse(text)?;
        let own =
            WrittenNumber { is_negative: self.is_negative, whole: &self.digits, fraction: &[], point: self.point };
        Some(own.compare(&written))
    }

    /// The power of ten above the first digit.
    pub(super) fn places(&self) -> i64 {
        self.point
    }

    /// The number of significant digits.
    pub(super) fn digit_count(&self) -> usize {
        self.digits.len()
    }
}

/// Prints without exponent unless that is much longer.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let digits = String::from_utf8_lossy(&self.digits);
        let Some(first) = digits.get(..1) else { return f.write_str("0") };
        let count = i64::try_from(self.digits.len()).unwrap_or(i64::MAX);
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        match self.point {
            point if point >= count && point <= count + ZEROS_MAX => {
                write!(f, "{sign}{digits}{}", zeros(point - count))
            }
            point if point > 0 && point < count => {
                let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
                write!(f, "{sign}{whole}.{fraction}")
            }
            point if (-ZEROS_MAX..=0).contains(&point) => write!(f, "{sign}0.{}{digits}", zeros(-point)),
            point => {
                let rest = digits.get(1..).unwrap_or_default();
                let fraction = if rest.is_empty() { String::new() } else { format!(".{rest}") };
                write!(f, "{sign}{first}{fraction}e{}", point - 1)
            }
        }
    }
}

/// Zeros that are printed instead of an exponent.
const ZEROS_MAX: i64 = 9;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exponents_have_a_sign_and_up_to_fifteen_digits() {
        let compare = |text: &[u8], with: &[u8]| Number::parse(text).unwrap().compare_to(with);
        assert_eq!(compare(b"1e+3", b"1000"), Some(Ordering::Equal));
        assert_eq!(compare(b"1e999999999999999", b"1e999999999999998"), Some(Ordering::Greater));
        assert_eq!(Number::parse(b"1e1000000000000000"), None);
    }

    #[test]
    fn numbers_print_in_one_form() {
        let check = |text: &str, want: &str| {
            let number = Number::parse(text.as_bytes()).unwrap();
            assert_eq!(number.to_string(), want, "{text}");
            assert_eq!(Number::parse(want.as_bytes()), Some(number), "{want}");
        };
        for zero in ["0", "-0", "+0.0", ".0", "0.", "0e5", "-0e-5", "000"] {
            check(zero, "0");
        }
        check("007", "7");
        check("500", "500");
        check("5e2", "500");
        check("+1.50", "1.5");
        check("-.5", "-0.5");
        check("1.", "1");
        check("1500e-3", "1.5");
        check("1e9", "1000000000");
        check("1e10", "1e10");
        check("123e10", "1.23e12");
        check("0.000000001", "0.000000001");
        check("1e-11", "1e-11");
        check("9007199254740993", "9007199254740993");
        check("18446744073709551616", "18446744073709551616");
        check("1e400", "1e400");
        check("-1.25E-400", "-1.25e-400");
        check("1e000000000000000000007", "10000000");
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in [
            "", "+", "-", ".", "1.2.3", "1e", "1e+", "e5", "--1", "1 ", " 1", "1_0", "0x1", "inf", "NaN", "1e1.5",
            "5ms",
        ] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::parse(b"1e9999999999999999"), None);
        assert_eq!(Number::parse("\u{661}".as_bytes()), None);
    }

    #[test]
    fn numbers_compare_by_value() {
        let ascending = [
            "-1e400",
            "-18446744073709551617",
            "-9007199254740993",
            "-9007199254740992.0",
            "-1.5",
            "-1",
            "-0.1",
            "-1e-400",
            "0",
            "1e-400",
            "0.09999999999999999999",
            "0.1",
            "0.10000000000000000001",
            "1",
            "1.5",
            "10",
            "9007199254740992",
            "9007199254740992.5",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e400",
            "1e401",
        ];
        for (at, text) in ascending.iter().enumerate() {
            let number = Number::parse(text.as_bytes()).unwrap();
            for (other, written) in ascending.iter().enumerate() {
                assert_eq!(number.compare_to(written.as_bytes()), Some(at.cmp(&other)), "{text} {written}");
            }
        }
        let equal = ["100", "1e2", "+100.000", "0.1e3", "1000e-1", "0000100"];
        for (text, other) in equal.iter().flat_map(|text| equal.iter().map(move |other| (text, other))) {
            assert_eq!(Number::parse(text.as_bytes()).unwrap().compare_to(other.as_bytes()), Some(Ordering::Equal));
        }
    }

    proptest! {
        #[test]
        fn integers_compare_as_integers(mine: i128, other: i128) {
            let number = Number::parse(mine.to_string().as_bytes()).unwrap();
            prop_assert_eq!(number.compare_to(other.to_string().as_bytes()), Some(mine.cmp(&other)));
        }

        #[test]
        fn fractions_compare_as_scaled_integers(mine: i64, other: i64, shift in 0..12_usize) {
            let scaled = |number: i64| format!("{number}e-{shift}");
            let number = Number::parse(scaled(mine).as_bytes()).unwrap();
            prop_assert_eq!(number.compare_to(scaled(other).as_bytes()), Some(mine.cmp(&other)));
            prop_assert_eq!(number.compare_to(number.to_string().as_bytes()), Some(Ordering::Equal));
        }

        #[test]
        fn numbers_print_as_numbers(text in "[+-]?[0-9]{0,30}(\\.[0-9]{0,30})?([eE][+-]?[0-9]{1,6})?") {
            if let Some(number) = Number::parse(text.as_bytes()) {
                prop_assert_eq!(Number::parse(number.to_string().as_bytes()), Some(number), "{}", text);
            }
        }
    }
}
