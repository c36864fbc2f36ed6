//! Parses durations and timestamps typed by users, in flags and in the API.

use std::time::Duration;

use super::event::{self, EventTimeError};
use crate::Millis;

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTime {
    /// Not a duration.
    #[error("expected a duration such as `15m`, `1h30m` or `7d` (units ms, s, m, h, d, w), found `{0}`")]
    Duration(String),
    /// A duration of more milliseconds than 64 bits hold.
    #[error("expected a duration of less than 500 million years, found `{0}`")]
    TooLong(String),
    /// Not a timestamp.
    #[error(
        "expected a time such as `2026-11-20T23:10:00Z`, `2026-11-20`, `1795216200` (Unix seconds), \
         `15m` (that long ago) or `now`, found `{0}`"
    )]
    Timestamp(String),
    /// A timestamp before 1970 or after [`Millis::MAX`].
    #[error("expected a time from 1970 to the year 10889, found `{0}`")]
    OutOfRange(String),
}

/// The units of durations, and their milliseconds.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Parses a duration: integers with units, which are added, as in `1h30m`; or `0`.
///
/// # Errors
/// [`InvalidTime::Duration`] or [`InvalidTime::TooLong`].
pub fn parse_duration(text: &str) -> Result<Duration, InvalidTime> {
    match duration_ms(text) {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) if text == "0" => Ok(Duration::ZERO),
        Err(EventTimeError::Syntax) => Err(InvalidTime::Duration(text.to_owned())),
        Err(EventTimeError::OutOfRange) => Err(InvalidTime::TooLong(text.to_owned())),
    }
}

/// Parses a timestamp and truncates it to the millisecond.
///
/// - `now`;
/// - a duration as in [`parse_duration`], which is subtracted from `now`; the result is at least 1970;
/// - RFC 3339 and its variants as in [`event_time_text`](super::event_time_text); a date alone is midnight UTC;
/// - a number since 1970, including `0`; its magnitude decides the unit, as in
///   [`event_time_number`](super::event_time_number).
///
/// # Errors
/// [`InvalidTime::Timestamp`], or [`InvalidTime::OutOfRange`] before 1970 or after [`Millis::MAX`].
pub fn parse_timestamp(text: &str, now: Millis) -> Result<Millis, InvalidTime> {
    if text == "now" {
        return Ok(now);
    }
    match duration_ms(text) {
        Ok(ms) => return Ok(now.saturating_sub(ms)),
        Err(EventTimeError::OutOfRange) => return Ok(Millis(0)),
        Err(EventTimeError::Syntax) => {}
    }
    let parsed = match event::parse_number(text) {
        Err(EventTimeError::Syntax) => event::parse_text(text.as_bytes()),
        number => number,
    };
    match parsed {
        Ok((at, _)) => Ok(at),
        Err(EventTimeError::Syntax) => Err(InvalidTime::Timestamp(text.to_owned())),
        Err(EventTimeError::OutOfRange) => Err(InvalidTime::OutOfRange(text.to_owned())),
    }
}

/// Parses a duration into milliseconds. Reports an overflow only if the syntax is correct.
fn duration_ms(text: &str) -> Result<u64, EventTimeError> {
    let mut total = Some(0_u64);
    let mut rest = text;
    while !rest.is_empty() {
        let (digits, after) = split_while(rest, |char| char.is_ascii_digit());
        let (unit, after) = split_while(after, |char| char.is_ascii_alphabetic());
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(EventTimeError::Syntax)?;
        if digits.is_empty() {
            return Err(EventTimeError::Syntax);
        }
        // Parsing digits fails only by overflow.
        let part = digits.parse().ok().and_then(|count: u64| count.checked_mul(*unit_ms));
        total = total.zip(part).and_then(|(total, part)| total.checked_add(part));
        rest = after;
    }
    if text.is_empty() { Err(EventTimeError::Syntax) } else { total.ok_or(EventTimeError::OutOfRange) }
}

/// Splits off the leading characters for which `kind` holds.
fn split_while(text: &str, kind: fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|char| !kind(char)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}
