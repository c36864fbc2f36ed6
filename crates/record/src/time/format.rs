//! Prints times as RFC 3339 in UTC, always with microseconds, so that printed times align and sort as text.

use super::civil;
use crate::Millis;

/// Formats a time as `2026-11-20T23:10:00.123456Z`.
///
/// `nanos` are the nanoseconds below the millisecond, at most 999_999; larger values are clamped. Nanoseconds below a
/// microsecond are dropped. Years above 9999 have more digits.
pub fn format_rfc3339(at: Millis, nanos: u32) -> String {
    let mut out = Vec::with_capacity(RFC3339_LEN);
    write_rfc3339(&mut out, at, nanos);
    out.into_iter().map(char::from).collect()
}

/// Appends the text of [`format_rfc3339`] to `out`.
pub fn write_rfc3339(out: &mut Vec<u8>, at: Millis, nanos: u32) {
    let (seconds, milli) = (at.0 / 1_000, at.0 % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil::date_from_days(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let micro = u64::from(nanos.min(999_999)) / 1_000;
    if year > 9_999 {
        out.extend_from_slice((year / 10_000).to_string().as_bytes());
    }
    let text: [u8; RFC3339_LEN] = [
        digit(year / 1_000),
        digit(year / 100),
        digit(year / 10),
        digit(year),
        b'-',
        digit(month / 10),
        digit(month),
        b'-',
        digit(day / 10),
        digit(day),
        b'T',
        digit(hour / 10),
        digit(hour),
        b':',
        digit(minute / 10),
        digit(minute),
        b':',
        digit(second / 10),
        digit(second),
        b'.',
        digit(milli / 100),
        digit(milli / 10),
        digit(milli),
        digit(micro / 100),
        digit(micro / 10),
        digit(micro),
        b'Z',
    ];
    out.extend_from_slice(&text);
}

/// The length of a printed time, up to the year 9999.
const RFC3339_LEN: usize = "2026-11-20T23:10:00.123456Z".len();

/// The last decimal digit of a number.
fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}
