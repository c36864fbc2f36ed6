//! Parses event times: RFC 3339 text, and numbers of seconds, milliseconds, microseconds or nanoseconds since 1970.
//!
//! No value passes through a float. A float resolves today's time to a quarter of a microsecond only, which would
//! reorder records.

use std::iter;
use std::ops::RangeInclusive;

use super::civil;
use crate::Millis;

/// Keys of a JSON object with its event time. The first one that is present and valid is used.
pub const EVENT_TIME_KEYS: [&str; 4] = ["time", "timestamp", "@timestamp", "ts"];

/// Why a text is not a time that an id can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventTimeError {
    /// Not a time.
    Syntax,
    /// A date that no calendar has, or a time of day that no clock shows.
    Nonexistent,
    /// Before 1970 or after [`Millis::MAX`].
    OutOfRange,
}

/// A time, and the nanoseconds below its millisecond.
type EventTime = (Millis, u32);

/// Parses RFC 3339 text into a time and the nanoseconds below its millisecond (0..=999_999). Digits below a nanosecond
/// are dropped.
///
/// Also accepts variants found in logs: a space or `t` for the `T`, a comma before the fraction, no seconds, no offset
/// (then UTC), an offset without minutes or without the colon, a year of five digits. A leap second becomes the first
/// second of the next minute. Returns `None` for other text, for dates that do not exist, and for times before 1970 or
/// after [`Millis::MAX`].
#[must_use]
pub fn event_time_text(text: &[u8]) -> Option<(Millis, u32)> {
    Stated::parse(text).and_then(Stated::utc).ok()
}

/// Parses a JSON number into a time and the nanoseconds below its millisecond, exactly.
///
/// The magnitude decides the unit: seconds since 1970 below 10¹¹, milliseconds below 10¹⁴, microseconds below 10¹⁷, else
/// nanoseconds. Seconds reach 10¹¹ in the year 5138; each other unit passes its lower bound in 1973. Returns `None` for
/// text that is not a number, for negative numbers, and after [`Millis::MAX`].
#[must_use]
pub fn event_time_number(text: &str) -> Option<(Millis, u32)> {
    parse_number(text).ok()
}

/// A time as a text states it, in a time zone that the text may leave open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated {
    /// Days from 1970-01-01 to the date.
    pub(super) days: i64,
    /// Nanoseconds since midnight.
    pub(super) nanos: i128,
    /// Seconds by which the stated time is ahead of UTC.
    pub(super) offset: Option<i64>,
}

impl Stated {
    /// Parses a date and a time of day as described at [`event_time_text`].
    fn parse(text: &[u8]) -> Result<Self, EventTimeError> {
        let mut reader = Reader(text);
        let days = reader.date()?;
        reader.eat(b"Tt ").ok_or(EventTimeError::Syntax)?;
        let nanos = reader.clock(2)?;
        let offset = reader.offset()?;
        reader.end().map(|()| Self { days, nanos, offset })
    }

    /// Parses as [`Self::parse`] does, and accepts a date alone as its midnight.
    pub(super) fn parse_typed(text: &[u8]) -> Result<Self, EventTimeError> {
        let mut reader = Reader(text);
        let days = reader.date()?;
        if reader.0.is_empty() { Ok(Self { days, nanos: 0, offset: None }) } else { Self::parse(text) }
    }

    /// The stated time, which is in UTC unless the text states an offset.
    pub(super) fn utc(self) -> Result<EventTime, EventTimeError> {
        let offset = i128::from(self.offset.unwrap_or(0)) * NANOS_PER_SECOND;
        from_nanos(i128::from(self.days) * NANOS_PER_DAY + self.nanos - offset)
    }
}

/// Parses a time of day such as `9:05` or `10:30:15.5` into nanoseconds since midnight.
pub(super) fn parse_clock(text: &[u8]) -> Result<i128, EventTimeError> {
    let mut reader = Reader(text);
    let nanos = reader.clock(1)?;
    reader.end().map(|()| nanos)
}

/// Parses as [`event_time_number`] does, with the reason of a failure.
pub(super) fn parse_number(text: &str) -> Result<EventTime, EventTimeError> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let mut decimal = Decimal::parse(text.as_bytes()).ok_or(EventTimeError::Syntax)?;
    let whole = decimal.trunc().filter(|_| !negative).ok_or(EventTimeError::OutOfRange)?;
    // Digits by which the point moves to convert the number to nanoseconds.
    let digits = match whole {
        0..100_000_000_000 => 9,
        100_000_000_000..100_000_000_000_000 => 6,
        100_000_000_000_000..100_000_000_000_000_000 => 3,
        _ => 0,
    };
    decimal.point += digits;
    from_nanos(decimal.trunc().ok_or(EventTimeError::OutOfRange)?)
}

/// Nanoseconds in a second.
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Nanoseconds in a day.
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

/// The time `nanos` nanoseconds after 1970.
pub(super) fn from_nanos(nanos: i128) -> Result<EventTime, EventTimeError> {
    let millis = u64::try_from(nanos / 1_000_000).ok().filter(|millis| *millis <= Millis::MAX.0);
    let below = u32::try_from(nanos % 1_000_000).ok();
    millis.map(Millis).zip(below).ok_or(EventTimeError::OutOfRange)
}

/// A decimal number: its digits and the position of its point.
struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    /// The number of digits before the point. Digits that are not written count as zeros.
    point: i64,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(text);
        let whole = reader.digits(1..=usize::MAX)?;
        let fraction = if reader.eat(b".").is_some() { reader.digits(1..=usize::MAX)? } else { &[] };
        let mut point = i64::try_from(whole.len()).ok()?;
        if reader.eat(b"eE").is_some() {
            let sign = reader.eat(b"+-").unwrap_or(b'+');
            // Longer exponents exceed every valid time. The limit also bounds the work of `trunc`.
            let exponent = digits_value(reader.digits(1..=4)?);
            point += if sign == b'-' { -exponent } else { exponent };
        }
        reader.0.is_empty().then_some(Self { whole, fraction, point })
    }

    /// The integer part; `None` if it overflows.
    fn trunc(&self) -> Option<i128> {
        let digits = self.whole.iter().chain(self.fraction).chain(iter::repeat(&b'0'));
        digits
            .take(usize::try_from(self.point).unwrap_or(0))
            .try_fold(0_i128, |number, digit| number.checked_mul(10)?.checked_add(i128::from(digit - b'0')))
    }
}

/// The text that is not yet parsed.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the leading digits, at most the upper bound of `count`; `None` if fewer than its lower bound.
    fn digits(&mut self, count: RangeInclusive<usize>) -> Option<&'a [u8]> {
        let found = self.0.iter().take(*count.end()).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(found).filter(|_| found >= *count.start())?;
        self.0 = rest;
        Some(digits)
    }

    /// Takes the next byte if it is in `any_of`.
    fn eat(&mut self, any_of: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| any_of.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes a number of `digits_min` or two digits, which is below `end` unless the time does not exist.
    fn short_number(&mut self, digits_min: usize, end: i64) -> Result<i64, EventTimeError> {
        let number = self.digits(digits_min..=2).map(digits_value).ok_or(EventTimeError::Syntax)?;
        if number < end { Ok(number) } else { Err(EventTimeError::Nonexistent) }
    }

    /// Fails if text remains.
    fn end(&self) -> Result<(), EventTimeError> {
        if self.0.is_empty() { Ok(()) } else { Err(EventTimeError::Syntax) }
    }

    /// Takes a date and returns its days since 1970.
    fn date(&mut self) -> Result<i64, EventTimeError> {
        let year = digits_value(self.digits(4..=5).ok_or(EventTimeError::Syntax)?);
        self.eat(b"-").ok_or(EventTimeError::Syntax)?;
        let month = self.short_number(2, 100)?;
        self.eat(b"-").ok_or(EventTimeError::Syntax)?;
        let day = self.short_number(2, 100)?;
        civil::days_from_date(year, month, day).ok_or(EventTimeError::Nonexistent)
    }

    /// Takes a time of day and returns nanoseconds since midnight. The hour has at least `hour_digits_min` digits.
    fn clock(&mut self, hour_digits_min: usize) -> Result<i128, EventTimeError> {
        let hour = self.short_number(hour_digits_min, 100)?;
        // Text without the colon is no time of day, so it is not one that does not exist.
        self.eat(b":").ok_or(EventTimeError::Syntax)?;
        if hour > 23 {
            return Err(EventTimeError::Nonexistent);
        }
        let minute = self.short_number(2, 60)?;
        let (mut second, mut nanos) = (0, 0);
        if self.eat(b":").is_some() {
            second = self.short_number(2, 61)?;
            if self.eat(b".,").is_some() {
                nanos = self.fraction().ok_or(EventTimeError::Syntax)?;
            }
        }
        Ok(i128::from(hour * 3_600 + minute * 60 + second) * NANOS_PER_SECOND + nanos)
    }

    /// Takes the digits of a fraction and returns nanoseconds.
    fn fraction(&mut self) -> Option<i128> {
        let fraction = self.digits(1..=usize::MAX)?;
        Decimal { whole: &[], fraction, point: 9 }.trunc()
    }

    /// Parses an offset if there is one, and returns the seconds by which the stated time is ahead of UTC.
    fn offset(&mut self) -> Result<Option<i64>, EventTimeError> {
        let Some(sign) = self.eat(b"+-") else {
            return Ok(self.eat(b"Zz").map(|_| 0));
        };
        let hours = self.short_number(2, 24)?;
        let minutes = if self.eat(b":").is_some() || !self.0.is_empty() { self.short_number(2, 60)? } else { 0 };
        let seconds = hours * 3_600 + minutes * 60;
        Ok(Some(if sign == b'-' { -seconds } else { seconds }))
    }
}

/// Parses an offset such as `+02:00`, `+0200` or `+02` into the seconds by which local time is ahead of UTC.
pub(super) fn parse_offset(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(Some(text).filter(|text| text.starts_with(b"+") || text.starts_with(b"-"))?);
    let offset = reader.offset().ok()??;
    reader.end().ok().map(|()| offset)
}

/// The value of at most five digits.
fn digits_value(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}
