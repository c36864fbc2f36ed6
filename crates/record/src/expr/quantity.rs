//! Limits of comparisons: numbers, durations and sizes.
//!
//! A limit with a unit compares with values that have a unit of its kind, whatever the unit: `dur>1500ms` matches `2s`.
//! A value without a unit is a number, and compares only with limits without a unit, because its unit is unknown.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};

use super::number::Number;
use crate::time::{duration_nanos, scaled};

/// The limit of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A decimal number.
    Number(Number),
    /// A duration such as `10ms` or `1h30m`.
    Duration(Quantity),
    /// A size such as `1.5MB` or `64KiB`.
    Size(Quantity),
}

/// An amount as typed, with its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    text: String,
    /// Nanoseconds or bytes.
    amount: i128,
}

impl Limit {
    /// Parses a number, a duration or a size; `None` for other text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let Some(number) = Number::parse(text) {
            return Some(Self::Number(number));
        }
        let quantity = |amount| Some(Quantity { text: str::from_utf8(text).ok()?.to_owned(), amount });
        match signed(text, duration_nanos) {
            Some(nanos) => quantity(nanos).map(Self::Duration),
            None => signed(text, size_bytes).and_then(quantity).map(Self::Size),
        }
    }

    /// How a value compares with this limit; `None` if the value is none of its kind.
    #[must_use]
    pub fn compare(&self, value: &[u8]) -> Option<Ordering> {
        match self {
            Self::Number(limit) => limit.compare_to(value).map(Ordering::reverse),
            Self::Duration(limit) => signed(value, duration_nanos).map(|nanos| nanos.cmp(&limit.amount)),
            Self::Size(limit) => signed(value, size_bytes).map(|bytes| bytes.cmp(&limit.amount)),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Duration(quantity) | Self::Size(quantity) => f.write_str(&quantity.text),
        }
    }
}

/// An amount with an optional sign. Amounts beyond 128 bits become the greatest.
fn signed(text: &[u8], parse: fn(&[u8]) -> Option<u128>) -> Option<i128> {
    let (is_negative, text) = match text {
        [b'-', text @ ..] => (true, text),
        [b'+', text @ ..] => (false, text),
        text => (false, text),
    };
    let amount = i128::try_from(parse(text)?).unwrap_or(i128::MAX);
    Some(if is_negative { -amount } else { amount })
}

/// The bytes of a size: a number, at most one space, and a unit. `B` is a byte; `K`, `M`, `G`, `T` and `P`, alone or with
/// `B` or `iB`, are powers of 1024, as in the settings of a node. Digits below a byte are dropped.
///
/// Case of letters does not matter, except that `m` alone is a minute and no size.
fn size_bytes(text: &[u8]) -> Option<u128> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let (number, unit) = text.split_at_checked(end)?;
    let shift = unit_shift(unit.strip_prefix(b" ").unwrap_or(unit))?;
    let (whole, fraction) = match number.iter().position(|byte| *byte == b'.') {
        Some(point) => (number.get(..point)?, number.get(point + 1..).filter(|fraction| !fraction.is_empty())?),
        None => (number, &[][..]),
    };
    if whole.is_empty() || fraction.contains(&b'.') {
        return None;
    }
    Some(scaled(whole, fraction, 1 << shift))
}

/// The power of two of a unit.
fn unit_shift(unit: &[u8]) -> Option<u32> {
    let (prefix, rest) = unit.split_first()?;
    if unit.eq_ignore_ascii_case(b"b") {
        return Some(0);
    }
    if unit == b"m" || !(rest.is_empty() || rest.eq_ignore_ascii_case(b"b") || rest.eq_ignore_ascii_case(b"ib")) {
        return None;
    }
    match prefix.to_ascii_uppercase() {
        b'K' => Some(10),
        b'M' => Some(20),
        b'G' => Some(30),
        b'T' => Some(40),
        b'P' => Some(50),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a value compares with a limit: `<`, `=`, `>`, or `none`.
    fn compare(value: &str, limit: &str) -> &'static str {
        match Limit::parse(limit.as_bytes()).unwrap().compare(value.as_bytes()) {
            None => "none",
            Some(Ordering::Less) => "<",
            Some(Ordering::Equal) => "=",
            Some(Ordering::Greater) => ">",
        }
    }

    #[test]
    fn durations_compare_whatever_their_units() {
        let check = |value: &str, limit: &str, want: &str| assert_eq!(compare(value, limit), want, "{value} {limit}");
        check("12.5ms", "10ms", ">");
        check("3s", "10ms", ">");
        check("1h2m3s", "1h", ">");
        check("1h2m3s", "3723s", "=");
        check("0.5s", "500ms", "=");
        check("350\u{b5}s", "1ms", "<");
        check("350us", "350000ns", "=");
        check("12 ms", "10ms", ">");
        check("2m30.5s", "150s", ">");
        check("-1ms", "0s", "<");
        check("+2s", "1s", ">");
        check("99999999999999999999999999999999999999999999h", "99999999999999999999999999999999999999999999999w", "=");
        check("12", "10ms", "none");
        check("0", "10ms", "none");
        check("12MB", "10ms", "none");
        check("12ms,", "10ms", "none");
        check("fast", "10ms", "none");
        check("", "10ms", "none");
        check("12ms", "10", "none");
    }

    #[test]
    fn sizes_compare_whatever_their_units() {
        let check = |value: &str, limit: &str, want: &str| assert_eq!(compare(value, limit), want, "{value} {limit}");
        check("1.5MB", "1MB", ">");
        check("512KiB", "1MB", "<");
        check("1024KiB", "1MB", "=");
        check("1024kb", "1M", "=");
        check("1 GB", "1024MB", "=");
        check("1536B", "1.5K", "=");
        check("100b", "1KB", "<");
        check("0.0001B", "0B", "=");
        check("-1GB", "1B", "<");
        check("2P", "1T", ">");
        check("1P", "1024T", "=");
        check("1T", "1024G", "=");
        check("1KIB", "1024B", "=");
        check("0.123456789GB", "132560717B", "=");
        check("0.123456789GB", "132560716B", ">");
        check("0.123456789GB", "132560719B", "<");
        check("99999999999999999999999999999999999999999P", "1B", ">");
        check("5m", "1M", "none");
        check("5M", "1m", "none");
        check("5", "1M", "none");
        check("5MBs", "1M", "none");
        check("5.M", "1M", "none");
        check("1.2.3M", "1M", "none");
        check(".5M", "1M", "none");
        check("5  M", "1M", "none");
    }

    #[test]
    fn limits_are_numbers_durations_or_sizes() {
        let check = |text: &str, want: &str| {
            let limit = Limit::parse(text.as_bytes());
            let kind = match &limit {
                None => "none",
                Some(Limit::Number(_)) => "number",
                Some(Limit::Duration(_)) => "duration",
                Some(Limit::Size(_)) => "size",
            };
            assert_eq!(kind, want, "{text}");
            if let Some(limit) = limit {
                assert_eq!(Limit::parse(limit.to_string().as_bytes()), Some(limit), "{text}");
            }
        };
        check("10", "number");
        check("1e3", "number");
        check("10ms", "duration");
        check("-10ms", "duration");
        check("5m", "duration");
        check("5M", "size");
        check("5d", "duration");
        check("5b", "size");
        check("1e3ms", "none");
        check("10px", "none");
        check("\"5\"", "none");
        check("", "none");
    }
}
