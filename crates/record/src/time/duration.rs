//! Parses durations: numbers with units, which are added.
//!
//! One grammar serves settings, times such as `15m ago`, and durations in filter expressions and in records.

use std::time::Duration;

use super::invalid::InvalidTime;

/// The names of units, and their nanoseconds. Months and years have no constant length, so they are not units.
const UNITS: [(&[&str], u64); 8] = [
    (&["ns"], 1),
    // The micro sign and the Greek letter look alike; Go prints the first.
    (&["us", "\u{b5}s", "\u{3bc}s"], 1_000),
    (&["ms"], NANOS_PER_MILLI),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["w", "week", "weeks"], 604_800_000_000_000),
];

/// Nanoseconds in a millisecond.
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Parses a duration: numbers with units, which are added, as in `1h30m` or `1.5h`; or `0`.
///
/// The units are `ns`, `us`, `ms`, `s`, `m`, `h`, `d` (24 hours) and `w`; also `min`, `minutes` and the like, and a space
/// before a unit or number. Digits below a nanosecond are dropped.
///
/// # Errors
/// [`InvalidTime::Duration`] or [`InvalidTime::TooLong`].
pub fn parse_duration(text: &str) -> Result<Duration, InvalidTime> {
    let text = text.trim_ascii();
    let nanos = if text == "0" { Some(0) } else { duration_nanos(text.as_bytes()) };
    let nanos = nanos.ok_or_else(|| InvalidTime::Duration(text.to_owned()))?;
    let too_long = || InvalidTime::TooLong(text.to_owned());
    let millis = u64::try_from(nanos / u128::from(NANOS_PER_MILLI)).map_err(|_| too_long())?;
    Ok(Duration::from_millis(millis) + Duration::from_nanos((nanos % u128::from(NANOS_PER_MILLI)) as u64))
}

/// The nanoseconds of a duration as in [`parse_duration`], without the `0` that has no unit; `None` for other text.
///
/// Durations of more than 10²² years give `u128::MAX`.
#[must_use]
pub fn duration_nanos(text: &[u8]) -> Option<u128> {
    let mut rest = text;
    let mut total = 0_u128;
    loop {
        let (nanos, after) = component(rest)?;
        total = total.saturating_add(nanos);
        if after.is_empty() {
            return Some(total);
        }
        rest = after.strip_prefix(b" ").unwrap_or(after);
    }
}

/// Takes a number and its unit. Returns their nanoseconds, and the text after them.
fn component(text: &[u8]) -> Option<(u128, &[u8])> {
    let (whole, rest) = split_while(text, u8::is_ascii_digit);
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => Some(split_while(rest, u8::is_ascii_digit)).filter(|(digits, _)| !digits.is_empty())?,
        None => (&[][..], rest),
    };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let (unit, rest) = split_while(rest, |byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
    let names = |names: &[&str]| names.iter().any(|name| name.as_bytes() == unit);
    let (_, unit) = UNITS.iter().find(|(all, _)| names(all))?;
    if whole.is_empty() {
        return None;
    }
    let unit = u128::from(*unit);
    Some((scaled(whole, fraction, unit), rest))
}

/// A number of units, of the decimal digits before and after its point, in the smallest unit. The greatest for what exceeds 128
/// bits.
pub(crate) fn scaled(whole: &[u8], fraction: &[u8], unit: u128) -> u128 {
    /// Digits of a fraction that count. The product of 18 digits and a petabyte, or a week of nanoseconds, fits 128 bits.
    const FRACTION_DIGITS_MAX: usize = 18;
    let add = |number: u128, digit: &u8| number.saturating_mul(10).saturating_add(u128::from(digit - b'0'));
    let digits = |digits: &[u8]| digits.iter().fold(0, add);
    let fraction = fraction.get(..FRACTION_DIGITS_MAX).unwrap_or(fraction);
    let below = digits(fraction) * unit / 10_u128.pow(fraction.len() as u32);
    digits(whole).saturating_mul(unit).saturating_add(below)
}

/// Splits off the leading bytes for which `kind` holds.
fn split_while(text: &[u8], kind: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !kind(byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}
