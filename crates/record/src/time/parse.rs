//! Durations and moments as people type them, in flags and in the API.

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
    /// A duration, but of more milliseconds than 64 bits hold.
    #[error("expected a duration of less than 500 million years, found `{0}`")]
    TooLong(String),
    /// Not a moment.
    #[error(
        "expected a time such as `2026-11-20T23:10:00Z`, `2026-11-20`, `1795216200` (Unix seconds), \
         `15m` (that long ago) or `now`, found `{0}`"
    )]
    Timestamp(String),
    /// A moment, but one that no id can hold.
    #[error("expected a time from 1970 to the year 10889, found `{0}`")]
    OutOfRange(String),
}

/// The units of durations, in milliseconds.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// The duration that `text` spells: whole numbers, each with its unit, added up, as in `1h30m`; or a bare `0`.
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

/// The moment that `text` spells, cut to the millisecond.
///
/// - `now`;
/// - a duration as [`parse_duration`] takes it: that long before `now`, but at least 1970;
/// - RFC 3339, with what [`event_time_text`](super::event_time_text) also takes; a date alone is midnight UTC;
/// - a number since 1970: seconds, or by its size a part of them, as [`event_time_number`](super::event_time_number)
///   takes it. A bare `0` is one.
///
/// # Errors
/// [`InvalidTime::Moment`], or [`InvalidTime::OutOfRange`] when it is before 1970 or after [`Millis::MAX`].
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

/// The duration that `text` spells, in milliseconds. That it is too long is said only when it is written well.
fn duration_ms(text: &str) -> Result<u64, EventTimeError> {
    let mut total = Some(0_u64);
    let mut rest = text;
    while !rest.is_empty() {
        let (digits, behind) = split_while(rest, |char| char.is_ascii_digit());
        let (unit, behind) = split_while(behind, |char| char.is_ascii_alphabetic());
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(EventTimeError::Syntax)?;
        if digits.is_empty() {
            return Err(EventTimeError::Syntax);
        }
        // Digits alone fail to parse only when there are too many.
        let part = digits.parse().ok().and_then(|count: u64| count.checked_mul(*unit_ms));
        total = total.zip(part).and_then(|(total, part)| total.checked_add(part));
        rest = behind;
    }
    if text.is_empty() { Err(EventTimeError::Syntax) } else { total.ok_or(EventTimeError::OutOfRange) }
}

/// The first characters that are of a kind, and the rest.
fn split_while(text: &str, kind: fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|char| !kind(char)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}
