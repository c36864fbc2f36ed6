//! Times in headers: RFC 3339, and `Nov 14 22:13:20`, which states neither a year nor a zone.
//!
//! A time without a zone is in the zone of the listener. The year is the one that puts the time nearest to the time of
//! arrival: a message of 31 December that arrives in January is of last year.

use bucksaw_record::Millis;
use bucksaw_record::time::{self, TimeZone};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// A time, and the nanoseconds below its millisecond.
pub(super) type StatedTime = (Millis, u32);

/// Three-letter names of the months in order.
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Milliseconds for which the year of a time without one is taken as decided.
const YEAR_DECIDED_MS: u64 = 60_000;

/// Turns stated times into points in time.
#[derive(Debug)]
pub(super) struct StatedTimes {
    zone: TimeZone,
    /// The minute that was turned last, and its result: most messages of one listener are of the same minute.
    last: Option<(Minute, u64, u64)>,
}

/// A minute of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Minute {
    year: Option<i16>,
    month: i8,
    day: i8,
    hour: i8,
    minute: i8,
}

/// A time of the form `Nov 14 22:13:20`, with the year and the fraction if they are stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MonthTime {
    minute: Minute,
    second: u8,
    nanos: u32,
}

impl StatedTimes {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, last: None }
    }

    /// Reads RFC 3339 text and its variants; `None` if it is none, or states a time that no id can hold.
    pub(super) fn rfc3339(&self, text: &[u8]) -> Option<StatedTime> {
        let (at, below) = time::event_time_text(text)?;
        // The zone begins behind the date, whose hyphens are no sign.
        let has_offset = text.get(10..)?.iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
        if has_offset {
            return Some((at, below));
        }
        let local = Offset::UTC.to_datetime(Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?);
        Some((self.at(local)?, below))
    }

    /// The point in time of `stated`, which is in UTC if `is_utc`.
    pub(super) fn of_month_time(&mut self, stated: &MonthTime, is_utc: bool, now: Millis) -> Option<StatedTime> {
        let period = now.0 / YEAR_DECIDED_MS;
        let start = match self.last {
            Some((minute, last_period, start)) if minute == stated.minute && last_period == period && !is_utc => start,
            _ if is_utc => Self::new(TimeZone::UTC).minute_start(&stated.minute, now)?,
            _ => {
                let start = self.minute_start(&stated.minute, now)?;
                self.last = Some((stated.minute, period, start));
                start
            }
        };
        let at = start + u64::from(stated.second) * 1_000 + u64::from(stated.nanos / 1_000_000);
        Some((Millis(at), stated.nanos % 1_000_000)).filter(|(at, _)| *at <= Millis::MAX)
    }

    fn minute_start(&self, minute: &Minute, now: Millis) -> Option<u64> {
        let start = |year| {
            let local = DateTime::new(year, minute.month, minute.day, minute.hour, minute.minute, 0, 0).ok()?;
            self.at(local).map(|at| at.0)
        };
        if let Some(year) = minute.year {
            return start(year);
        }
        let now_local = self.zone.to_datetime(Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?);
        let years = [now_local.year(), now_local.year() - 1, now_local.year() + 1];
        years.into_iter().filter_map(start).min_by_key(|at| at.abs_diff(now.0))
    }

    /// The point in time at which clocks of the zone show `local`; the first, if there are two.
    fn at(&self, local: DateTime) -> Option<Millis> {
        let at = self.zone.to_ambiguous_timestamp(local).compatible().ok()?;
        u64::try_from(at.as_millisecond()).ok().map(Millis)
    }
}

/// Takes a time such as `Nov  4 22:13:20`, `Nov 4 2023 22:13:20.123`, `2023 Nov 4 22:13:20` or `Nov 4 22:13:20 2023` from
/// the start of a text.
pub(super) fn take_month_time(text: &[u8]) -> Option<(MonthTime, &[u8])> {
    let (mut year, text) = take_year(text);
    let (month, rest) = text.split_first_chunk::<3>()?;
    let month = MONTHS.chunks_exact(3).zip(1..).find_map(|(name, number)| (name == month).then_some(number))?;
    let (day, rest) = take_number(take_spaces(rest)?, 2)?;
    let mut rest = take_spaces(rest)?;
    if year.is_none() {
        (year, rest) = take_year(rest);
    }
    let (hour, rest) = take_number(rest, 2)?;
    let (minute, rest) = take_number(rest.strip_prefix(b":")?, 2)?;
    let (second, rest) = take_number(rest.strip_prefix(b":")?, 2)?;
    let (nanos, mut rest) = take_fraction(rest);
    if year.is_none()
        && let Some(behind) = rest.strip_prefix(b" ")
        && let (Some(stated), _) = take_year(behind)
    {
        // The space behind the year stays, as the one behind the time.
        (year, rest) = (Some(stated), behind.get(4..)?);
    }
    let valid = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let minute = Minute { year, month, day: small(day)?, hour: small(hour)?, minute: small(minute)? };
    valid.then_some((MonthTime { minute, second: u8::try_from(second).ok()?, nanos }, rest))
}

/// Takes a year from 1970 to 2099, and the space behind it.
fn take_year(text: &[u8]) -> (Option<i16>, &[u8]) {
    let taken = take_number(text, 4).and_then(|(year, rest)| {
        let year = i16::try_from(year).ok().filter(|year| (1970..2100).contains(year))?;
        Some((Some(year), rest.strip_prefix(b" ")?))
    });
    taken.unwrap_or((None, text))
}

fn small(number: u32) -> Option<i8> {
    i8::try_from(number).ok()
}

/// Takes one to `digits_max` digits.
fn take_number(text: &[u8], digits_max: usize) -> Option<(u32, &[u8])> {
    let length = text.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(length).filter(|_| length > 0)?;
    Some((digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')), rest))
}

/// Takes one or more spaces.
fn take_spaces(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().take_while(|byte| **byte == b' ').count();
    text.get(length..).filter(|_| length > 0)
}

/// Takes a fraction of a second and returns nanoseconds; digits below them are dropped.
fn take_fraction(text: &[u8]) -> (u32, &[u8]) {
    let Some(digits_from) = text.strip_prefix(b".").filter(|rest| rest.first().is_some_and(u8::is_ascii_digit)) else {
        return (0, text);
    };
    let length = digits_from.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits_from.split_at(length);
    let nanos = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    (nanos.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Millis = Millis(1_700_000_000_000); // 2023-11-14T22:13:20Z

    fn read(zone: &str, now: Millis, text: &str) -> Option<(String, String)> {
        let mut times = StatedTimes::new(time::parse_zone(zone).unwrap());
        let (stated, rest) = take_month_time(text.as_bytes())?;
        let (at, below) = times.of_month_time(&stated, false, now)?;
        Some((time::format_rfc3339(at, below), String::from_utf8(rest.to_vec()).unwrap()))
    }

    #[test]
    fn times_without_year_and_zone_are_read() {
        let check = |zone: &str, text: &str, want: &str, rest: &str| {
            assert_eq!(read(zone, NOW, text), Some((want.to_owned(), rest.to_owned())), "{text}");
        };
        check("UTC", "Nov 14 22:13:20 host", "2023-11-14T22:13:20.000000Z", " host");
        check("UTC", "Nov  4 22:13:20 host", "2023-11-04T22:13:20.000000Z", " host");
        check("UTC", "Nov 4 22:13:20.123456789 host", "2023-11-04T22:13:20.123456Z", " host");
        check("UTC", "Nov 04 2018 22:13:20: %ASA", "2018-11-04T22:13:20.000000Z", ": %ASA");
        check("UTC", "2018 Nov 4 22:13:20 CET: %X", "2018-11-04T22:13:20.000000Z", " CET: %X");
        check("UTC", "Nov  4 22:13:20 2018 host", "2018-11-04T22:13:20.000000Z", " host");
        check("UTC", "Nov  4 22:13:20 2018x host", "2023-11-04T22:13:20.000000Z", " 2018x host");
        check("UTC", "Dec 31 23:59:60", "2024-01-01T00:00:00.000000Z", "");
        check("Europe/Berlin", "Nov 14 22:13:20", "2023-11-14T21:13:20.000000Z", "");
        check("Europe/Berlin", "Jul 14 22:13:20", "2023-07-14T20:13:20.000000Z", "");
        for bad in
            ["", "Nov", "Foo 14 22:13:20", "Nov 32 22:13:20", "Nov 14 24:00:00", "Nov 14 22:60:00", "Nov 14 22:13"]
        {
            assert_eq!(read("UTC", NOW, bad), None, "{bad}");
        }
        assert_eq!(read("UTC", NOW, "Feb 30 00:00:00"), None);
    }

    #[test]
    fn the_year_is_the_one_nearest_to_the_arrival() {
        let check = |now: &str, text: &str, want: &str| {
            let now = time::event_time_text(now.as_bytes()).unwrap().0;
            assert_eq!(read("UTC", now, text).unwrap().0, format!("{want}.000000Z"), "{text} at {now}");
        };
        check("2024-01-01T00:00:05Z", "Dec 31 23:59:59", "2023-12-31T23:59:59");
        check("2023-12-31T23:59:59Z", "Jan  1 00:00:03", "2024-01-01T00:00:03");
        check("2024-03-01T00:00:00Z", "Feb 29 12:00:00", "2024-02-29T12:00:00");
        check("2025-03-01T00:00:00Z", "Feb 29 12:00:00", "2024-02-29T12:00:00");
        check("2023-03-01T00:00:00Z", "Feb 29 12:00:00", "2024-02-29T12:00:00");
    }

    #[test]
    fn rfc_3339_without_an_offset_is_in_the_zone_of_the_listener() {
        let times = StatedTimes::new(time::parse_zone("Europe/Berlin").unwrap());
        let read = |text: &str| times.rfc3339(text.as_bytes()).map(|(at, below)| time::format_rfc3339(at, below));
        assert_eq!(read("2023-11-14T22:13:20.000001+02:00").unwrap(), "2023-11-14T20:13:20.000001Z");
        assert_eq!(read("2023-11-14T22:13:20Z").unwrap(), "2023-11-14T22:13:20.000000Z");
        assert_eq!(read("2023-11-14T22:13:20.5").unwrap(), "2023-11-14T21:13:20.500000Z");
        assert_eq!(read("2023-11-14"), None);
        assert_eq!(read("-"), None);
    }

    proptest! {
        /// A time within half a year of the arrival is found again from its text, in every zone, with one state for all.
        #[test]
        fn a_time_near_the_arrival_is_found(
            now in 1_000_000_000_u64..3_000_000_000,
            distances in prop::collection::vec(-15_000_000_i64..15_000_000, 1..8),
        ) {
            let mut times = StatedTimes::new(time::parse_zone("+05:30").unwrap());
            for distance in distances {
                let at = now.checked_add_signed(distance).unwrap();
                let local = Timestamp::from_second(at as i64 + 19_800).unwrap();
                let local = Offset::UTC.to_datetime(local);
                let text = local.strftime("%b %e %H:%M:%S").to_string();
                let (stated, rest) = take_month_time(text.as_bytes()).unwrap();
                prop_assert!(rest.is_empty());
                let found = times.of_month_time(&stated, false, Millis(now * 1_000));
                prop_assert_eq!(found, Some((Millis(at * 1_000), 0)), "{}", text);
            }
        }
    }
}
