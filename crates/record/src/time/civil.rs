//! Converts between days since 1970 and dates of the Gregorian calendar.
//!
//! `jiff` ends at the year 9999, ids in the year 10889. The calendar repeats every 400 years, so dates are moved by
//! whole cycles into the range of `jiff` and back.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};

/// Days in 400 years, after which the calendar repeats. They are whole weeks, so rules for daylight-saving time that name
/// weekdays repeat too.
const CYCLE_DAYS: i64 = 146_097;

/// Seconds in a day.
const DAY_SECONDS: i64 = 86_400;

/// Nanoseconds in a day.
const DAY_NANOS: i128 = 86_400_000_000_000;

/// Days after 1970 that `jiff` handles in any time zone: up to the year 9909.
const LOCAL_DAYS_MAX: i64 = 2_900_000;

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

/// The days from 1970-01-01 to the date that calendars in `zone` show at a time in nanoseconds since 1970.
pub(super) fn local_days(at: i128, zone: &TimeZone) -> Option<i64> {
    let (cycles, at) = within_range(at)?;
    let date = zone.to_datetime(Timestamp::from_nanosecond(at).ok()?).date();
    let days = days_from_date(date.year().into(), date.month().into(), date.day().into())?;
    Some(days + cycles * CYCLE_DAYS)
}

/// The time in nanoseconds since 1970 at which clocks in `zone` show `nanos` after midnight of the day `days` after
/// 1970-01-01.
///
/// Of two such times, when clocks are set back, it is the first. If there is none, because clocks are set forward, it is
/// later by the hour that they skip: 02:30 is then 03:30.
pub(super) fn from_local(days: i64, nanos: i128, zone: &TimeZone) -> Option<i128> {
    let (cycles, local) = within_range(i128::from(days) * DAY_NANOS + nanos)?;
    let local = Offset::UTC.to_datetime(Timestamp::from_nanosecond(local).ok()?);
    let at = zone.to_ambiguous_timestamp(local).compatible().ok()?;
    Some(at.as_nanosecond() + i128::from(cycles * CYCLE_DAYS) * DAY_NANOS)
}

/// Moves a time in nanoseconds since 1970 back by whole cycles of the calendar into the range of `jiff`. Returns the
/// number of cycles and the moved time.
fn within_range(at: i128) -> Option<(i64, i128)> {
    let excess = i64::try_from(at.div_euclid(DAY_NANOS)).ok()? - LOCAL_DAYS_MAX;
    let cycles = if excess > 0 { excess / CYCLE_DAYS + 1 } else { 0 };
    Some((cycles, at - i128::from(cycles * CYCLE_DAYS) * DAY_NANOS))
}
