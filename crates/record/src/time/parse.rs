//! Parses timestamps typed by users, in flags and in the API.

use jiff::tz::TimeZone;

use super::civil;
use super::duration::duration_nanos;
use super::event::{self, EventTimeError, Stated};
use super::invalid::InvalidTime;
use crate::Millis;

/// Parses a timestamp and truncates it to the millisecond.
///
/// - `now`, and `now` with a duration added or subtracted: `now-1h`, `now+5m`;
/// - a duration as in [`parse_duration`](super::parse_duration), which is subtracted from `now`: `15m`, `15m ago`;
/// - `today` and `yesterday`: midnight in `zone`, or a time of day as in `yesterday 10:30`;
/// - a time of day such as `10:30` or `10:30:15`: today in `zone`;
/// - RFC 3339 and its variants as in [`event_time_text`](super::event_time_text), in `zone` unless an offset is stated;
///   a date alone is its midnight;
/// - a number since 1970, including `0`; its magnitude decides the unit, as in
///   [`event_time_number`](super::event_time_number).
///
/// A day of a duration has 24 hours. Of a local time that occurs twice, because clocks are set back, the first is
/// taken. A local time that clocks skip when they are set forward is later by the skipped time. A time relative to
/// `now` is at least 1970 and at most [`Millis::MAX`].
///
/// # Errors
/// [`InvalidTime::Timestamp`]; [`InvalidTime::Nonexistent`] for a date or time of day that does not exist; or
/// [`InvalidTime::OutOfRange`] before 1970 or after [`Millis::MAX`].
pub fn parse_timestamp(text: &str, now: Millis, zone: &TimeZone) -> Result<Millis, InvalidTime> {
    let text = text.trim_ascii();
    if let Some(at) = relative(text, now) {
        return Ok(at);
    }
    stated(text, now, zone).map_err(|error| match error {
        EventTimeError::Syntax => InvalidTime::Timestamp(text.to_owned()),
        EventTimeError::Nonexistent => InvalidTime::Nonexistent(text.to_owned()),
        EventTimeError::OutOfRange => InvalidTime::OutOfRange(text.to_owned()),
    })
}

/// A time given by its distance from `now`.
fn relative(text: &str, now: Millis) -> Option<Millis> {
    let distance = |text: &str| {
        let nanos = duration_nanos(text.trim_ascii().as_bytes())?;
        Some(i128::try_from(nanos).unwrap_or(i128::MAX / 2))
    };
    let nanos = match text.strip_prefix("now").map(str::trim_ascii_start) {
        Some("") => 0,
        Some(rest) => match rest.strip_prefix('+') {
            Some(later) => distance(later)?,
            None => -distance(rest.strip_prefix('-')?)?,
        },
        None => -distance(text.strip_suffix(" ago").unwrap_or(text))?,
    };
    let at = (i128::from(now.0) * NANOS_PER_MILLI).saturating_add(nanos).div_euclid(NANOS_PER_MILLI);
    Some(Millis(u64::try_from(at.max(0)).unwrap_or(u64::MAX)).min(Millis::MAX))
}

/// Nanoseconds in a millisecond.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// A time given by a number, or by a date or time of day.
fn stated(text: &str, now: Millis, zone: &TimeZone) -> Result<Millis, EventTimeError> {
    match event::parse_number(text) {
        Err(EventTimeError::Syntax) => {}
        number => return number.map(|(at, _)| at),
    }
    let today = civil::local_days(i128::from(now.0) * NANOS_PER_MILLI, zone).ok_or(EventTimeError::OutOfRange)?;
    let named = [("today", 0), ("yesterday", 1)].iter().find_map(|(name, days)| Some((text.strip_prefix(name)?, days)));
    let (days, nanos) = match named {
        Some(("", days)) => (today - days, 0),
        Some((rest, days)) => {
            let clock = rest.strip_prefix([' ', 'T']).ok_or(EventTimeError::Syntax)?;
            (today - days, event::parse_clock(clock.as_bytes())?)
        }
        None => match event::parse_clock(text.as_bytes()) {
            Err(EventTimeError::Syntax) => {
                let stated = Stated::parse_typed(text.as_bytes())?;
                if stated.offset.is_some() {
                    return stated.utc().map(|(at, _)| at);
                }
                (stated.days, stated.nanos)
            }
            clock => (today, clock?),
        },
    };
    let nanos = civil::from_local(days, nanos, zone).ok_or(EventTimeError::OutOfRange)?;
    event::from_nanos(nanos).map(|(at, _)| at)
}
