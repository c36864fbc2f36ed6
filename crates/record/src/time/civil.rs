//! Converts between days since 1970 and dates of the Gregorian calendar.
//!
//! `jiff` ends at the year 9999, ids in the year 10889. The calendar repeats every 400 years, so dates are moved by
//! whole cycles into the range of `jiff` and back.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;

/// Days in 400 years, after which the calendar repeats.
const CYCLE_DAYS: i64 = 146_097;

/// Seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// The year, month (1..=12) and day (1..=31) that are `days` after 1970-01-01.
pub(super) fn date_from_days(days: u64) -> (u64, u64, u64) {
    let days = days.cast_signed();
    let (cycles, day) = (days / CYCLE_DAYS, days % CYCLE_DAYS);
    // 400 years after 1970 are within the range of `Timestamp`, so the default is never used.
    let midnight = Timestamp::from_second(day * DAY_SECONDS).unwrap_or_default();
    let date = Offset::UTC.to_datetime(midnight).date();
    let [year, month, day] = [cycles * 400 + i64::from(date.year()), date.month().into(), date.day().into()];
    (year.cast_unsigned(), month.cast_unsigned(), day.cast_unsigned())
}

/// Days from 1970-01-01 to a date, negative before 1970; `None` if the date does not exist.
pub(super) fn days_from_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let (cycles, year) = (year.div_euclid(400), i16::try_from(year.rem_euclid(400)).ok()?);
    // 2000 is the first year of a cycle.
    let date = Date::new(2000 + year, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    let midnight = Offset::UTC.to_timestamp(date.to_datetime(Time::midnight())).ok()?;
    Some(midnight.as_second() / DAY_SECONDS + (cycles - 5) * CYCLE_DAYS)
}
