//! Converts dates and times of day to times since 1970, and remembers the last conversions.
//!
//! Neighbouring lines have the same date, and often the same second, so most lines need no calendar.

use jiff::tz::TimeZone;

use super::forms::CivilTime;
use crate::Millis;
use crate::time::{civil, event};

const DAY_SECONDS: i64 = 86_400;
const SECOND_NANOS: i128 = 1_000_000_000;

/// A time without a year that is as near as this is nearer than in any other year, also a minute later. In milliseconds.
const NEAR_MS: u64 = 181 * 86_400_000;

#[derive(Clone, Debug)]
pub(super) struct CivilCache {
    zone: TimeZone,
    is_utc: bool,
    /// A year, month and day, and its days since 1970.
    date: Option<((u32, u32, u32), i64)>,
    /// A local second, and the seconds since 1970 at which clocks in the zone show it.
    second: Option<(i64, i64)>,
    /// A day since 1970, and its year.
    year_of: Option<(u64, u32)>,
}

impl CivilCache {
    pub(super) fn new(zone: TimeZone) -> Self {
        let is_utc = zone == TimeZone::UTC;
        Self { zone, is_utc, date: None, second: None, year_of: None }
    }

    /// The time since 1970; `None` if the date does not exist or is out of range. With it the local seconds since 1970, unless
    /// they may change with `now`.
    pub(super) fn resolve(&mut self, time: &CivilTime, now: Millis) -> Option<((Millis, u32), Option<i64>)> {
        if let Some(year) = time.year {
            let local = self.local(time, year)?;
            return Some((self.at_local(local, time.nanos, time.offset)?, Some(local)));
        }
        let this = self.year(now);
        let distance = |at: &(Millis, u32)| at.0.0.abs_diff(now.0);
        if let Some(local) = self.local(time, this)
            && let Some(found) = self.at_local(local, time.nanos, time.offset)
            && distance(&found) < NEAR_MS
        {
            return Some((found, Some(local)));
        }
        // 29 February may be years away.
        let years = this.saturating_sub(4)..=this + 1;
        let found = years.filter_map(|year| {
            let local = self.local(time, year)?;
            self.at_local(local, time.nanos, time.offset)
        });
        Some((found.min_by_key(distance)?, None))
    }

    /// The time since 1970 at local seconds since 1970.
    pub(super) fn at_local(&mut self, local: i64, nanos: u32, offset: Option<i32>) -> Option<(Millis, u32)> {
        let seconds = match offset {
            Some(offset) => local - i64::from(offset),
            None if self.is_utc => local,
            None => self.unix_of_local(local)?,
        };
        // Within the range of today's times no division of 128 bits is needed.
        if let Ok(seconds) = u64::try_from(seconds)
            && seconds < Millis::MAX.0 / 1_000
        {
            return Some((Millis(seconds * 1_000 + u64::from(nanos / 1_000_000)), nanos % 1_000_000));
        }
        event::from_nanos(i128::from(seconds) * SECOND_NANOS + i128::from(nanos)).ok()
    }

    fn local(&mut self, time: &CivilTime, year: u32) -> Option<i64> {
        Some(self.days(year, time.month, time.day)? * DAY_SECONDS + i64::from(time.second))
    }

    fn days(&mut self, year: u32, month: u32, day: u32) -> Option<i64> {
        let date = (year, month, day);
        if let Some((cached, days)) = self.date
            && cached == date
        {
            return Some(days);
        }
        let days = civil::days_from_date(year.into(), month.into(), day.into())?;
        self.date = Some((date, days));
        Some(days)
    }

    fn unix_of_local(&mut self, local: i64) -> Option<i64> {
        if let Some((cached, seconds)) = self.second
            && cached == local
        {
            return Some(seconds);
        }
        let nanos = i128::from(local.rem_euclid(DAY_SECONDS)) * SECOND_NANOS;
        let at = civil::from_local(local.div_euclid(DAY_SECONDS), nanos, &self.zone)?;
        let seconds = i64::try_from(at.div_euclid(SECOND_NANOS)).ok()?;
        self.second = Some((local, seconds));
        Some(seconds)
    }

    fn year(&mut self, now: Millis) -> u32 {
        let day = now.0 / 86_400_000;
        match self.year_of {
            Some((cached, year)) if cached == day => year,
            _ => {
                let year = u32::try_from(civil::date_from_days(day).0).unwrap_or(1970);
                self.year_of = Some((day, year));
                year
            }
        }
    }
}
