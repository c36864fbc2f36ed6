//! A time in the spellings that logs use, each kept as text.
//!
//! Many lines share a millisecond and most share a second, so the text is made when the second changes, only the last
//! three digits when the millisecond does, and a line copies it.

use crate::append_text::AppendText;

const MS_PER_DAY: u64 = 86_400_000;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of the line at hand, UTC.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimestampTexts {
    unix_ms: Option<u64>,
    rfc3339: Vec<u8>,
    comma_millis: Vec<u8>,
    point_millis: Vec<u8>,
    access_log: Vec<u8>,
    syslog: Vec<u8>,
}

impl TimestampTexts {
    /// Moves to a time in milliseconds since 1970.
    pub(crate) fn set(&mut self, unix_ms: u64) {
        if self.unix_ms == Some(unix_ms) {
            return;
        }
        if self.unix_ms.map(|known| known / 1_000) != Some(unix_ms / 1_000) {
            self.format_second(unix_ms);
        }
        self.format_millis(unix_ms % 1_000);
        self.unix_ms = Some(unix_ms);
    }

    /// `2025-11-20T23:29:01.123Z`
    pub(crate) fn rfc3339(&self) -> &[u8] {
        &self.rfc3339
    }

    /// `2025-11-20 23:29:01,123`, as Java loggers write it.
    pub(crate) fn comma_millis(&self) -> &[u8] {
        &self.comma_millis
    }

    /// `2025-11-20 23:29:01.123`, as databases write it.
    pub(crate) fn point_millis(&self) -> &[u8] {
        &self.point_millis
    }

    /// `20/Nov/2025:23:29:01 +0000`, as web servers write it.
    pub(crate) fn access_log(&self) -> &[u8] {
        &self.access_log
    }

    /// `Nov 20 23:29:01`, the day padded with a space.
    pub(crate) fn syslog(&self) -> &[u8] {
        &self.syslog
    }

    fn format_second(&mut self, unix_ms: u64) {
        let (year, month, day) = date_from_days(unix_ms / MS_PER_DAY);
        let second_of_day = unix_ms % MS_PER_DAY / 1_000;
        let mut clock = Vec::with_capacity(8);
        clock
            .padded(second_of_day / 3_600, 2)
            .text(":")
            .padded(second_of_day / 60 % 60, 2)
            .text(":")
            .padded(second_of_day % 60, 2);
        let name = MONTHS.get(month as usize - 1).copied().unwrap_or_default();

        for (out, between, point, end) in [
            (&mut self.rfc3339, "T", ".", "Z"),
            (&mut self.comma_millis, " ", ",", ""),
            (&mut self.point_millis, " ", ".", ""),
        ] {
            out.clear();
            out.padded(year, 4).text("-").padded(month, 2).text("-").padded(day, 2).text(between);
            out.extend_from_slice(&clock);
            out.text(point).text("000").text(end);
        }
        self.access_log.clear();
        self.access_log.padded(day, 2).text("/").text(name).text("/").padded(year, 4).text(":");
        self.access_log.extend_from_slice(&clock);
        self.access_log.text(" +0000");
        self.syslog.clear();
        self.syslog.text(name).text(if day < 10 { "  " } else { " " }).number(day).text(" ");
        self.syslog.extend_from_slice(&clock);
    }

    fn format_millis(&mut self, ms: u64) {
        let digits = [ms / 100, ms / 10 % 10, ms % 10].map(|digit| b'0' + digit as u8);
        if let [.., a, b, c, _zone] = self.rfc3339.as_mut_slice() {
            [*a, *b, *c] = digits;
        }
        for out in [&mut self.comma_millis, &mut self.point_millis] {
            if let [.., a, b, c] = out.as_mut_slice() {
                [*a, *b, *c] = digits;
            }
        }
    }
}

/// Year, month and day (both from 1) of a day since 1970.
///
/// Years are counted from March, so that the leap day is the last of its year and months follow a straight line.
fn date_from_days(day: u64) -> (u64, u64, u64) {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    // From 1 March of the year 0 to 1 January 1970.
    let day = day + 719_468;
    let (cycle, day_of_cycle) = (day / DAYS_PER_400_YEARS, day % DAYS_PER_400_YEARS);
    // Takes out the leap days before, but for those of full centuries; the last day of the cycle is a leap day itself.
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (cycle * 400 + year_of_cycle + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::{Timestamp, tz::TimeZone};
    use proptest::prelude::*;

    fn check(stamp: &mut TimestampTexts, unix_ms: u64) {
        stamp.set(unix_ms);
        let zoned = Timestamp::from_millisecond(unix_ms as i64).unwrap().to_zoned(TimeZone::UTC);
        let same = |got: &[u8], want: &str| assert_eq!(str::from_utf8(got).unwrap(), zoned.strftime(want).to_string());
        same(stamp.rfc3339(), "%Y-%m-%dT%H:%M:%S.%3fZ");
        same(stamp.comma_millis(), "%Y-%m-%d %H:%M:%S,%3f");
        same(stamp.point_millis(), "%Y-%m-%d %H:%M:%S.%3f");
        same(stamp.access_log(), "%d/%b/%Y:%H:%M:%S +0000");
        same(stamp.syslog(), "%b %e %H:%M:%S");
    }

    #[test]
    fn turns_of_the_calendar() {
        let mut stamp = TimestampTexts::default();
        for at in ["1970-01-01T00:00:00Z", "2000-02-29T12:00:00Z", "2024-02-29T23:59:59.999Z", "2100-03-01T00:00:00Z"] {
            let ms = at.parse::<Timestamp>().unwrap().as_millisecond() as u64;
            for ms in [ms, ms + 1, ms + 1, ms + 999, ms + 1_000, ms + 86_400_000, ms.saturating_sub(1)] {
                check(&mut stamp, ms);
            }
        }
    }

    #[test]
    fn times_past_all_calendars_do_not_panic() {
        TimestampTexts::default().set(u64::MAX);
    }

    proptest! {
        #[test]
        fn same_as_jiff(times in prop::collection::vec((0u64..253_402_200_000_000, 0u64..3_000), 1..20)) {
            let mut stamp = TimestampTexts::default();
            for (ms, later) in times {
                check(&mut stamp, ms);
                check(&mut stamp, ms + later);
            }
        }
    }
}
