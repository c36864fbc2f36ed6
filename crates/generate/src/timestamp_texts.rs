//! The current time in the formats of common loggers, cached as text.
//!
//! Most lines share their second with the previous line, and many their millisecond. The texts are formatted when the
//! second changes, and only their last three digits are replaced when the millisecond changes.

use jiff::Timestamp;
use jiff::tz::Offset;

use crate::append_text::AppendText;

/// The time of the current line, in UTC.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimestampTexts {
    unix_ms: Option<u64>,
    /// `2025-11-20T23:29:01.123Z`
    pub(crate) rfc3339: Vec<u8>,
    /// `2025-11-20 23:29:01,123`, as Java loggers write it.
    pub(crate) comma_millis: Vec<u8>,
    /// `2025-11-20 23:29:01.123`, as databases write it.
    pub(crate) point_millis: Vec<u8>,
    /// `20/Nov/2025:23:29:01 +0000`, as web servers write it.
    pub(crate) access_log: Vec<u8>,
    /// `Nov 20 23:29:01`, the day padded with a space.
    pub(crate) syslog: Vec<u8>,
}

impl TimestampTexts {
    /// Sets the time, in milliseconds since 1970.
    pub(crate) fn set(&mut self, unix_ms: u64) {
        if self.unix_ms == Some(unix_ms) {
            return;
        }
        if self.unix_ms.map(|current| current / 1_000) != Some(unix_ms / 1_000) {
            self.format_second(unix_ms);
        }
        self.format_millis(unix_ms % 1_000);
        self.unix_ms = Some(unix_ms);
    }

    fn format_second(&mut self, unix_ms: u64) {
        // `jiff` ends at the year 9999.
        let second = (unix_ms / 1_000).cast_signed();
        let time = Offset::UTC.to_datetime(Timestamp::from_second(second).unwrap_or(Timestamp::MAX));
        for (out, format) in [
            (&mut self.rfc3339, "%Y-%m-%dT%H:%M:%S.000Z"),
            (&mut self.comma_millis, "%Y-%m-%d %H:%M:%S,000"),
            (&mut self.point_millis, "%Y-%m-%d %H:%M:%S.000"),
            (&mut self.access_log, "%d/%b/%Y:%H:%M:%S +0000"),
            (&mut self.syslog, "%b %e %H:%M:%S"),
        ] {
            out.clear();
            out.text(&time.strftime(format).to_string());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &mut TimestampTexts, unix_ms: u64, want: [&str; 5]) {
        texts.set(unix_ms);
        let got = [&texts.rfc3339, &texts.comma_millis, &texts.point_millis, &texts.access_log, &texts.syslog];
        assert_eq!(got.map(|text| str::from_utf8(text).unwrap()), want);
    }

    #[test]
    fn texts_follow_seconds_and_milliseconds() {
        let mut texts = TimestampTexts::default();
        check(
            &mut texts,
            1_709_251_199_999,
            [
                "2024-02-29T23:59:59.999Z",
                "2024-02-29 23:59:59,999",
                "2024-02-29 23:59:59.999",
                "29/Feb/2024:23:59:59 +0000",
                "Feb 29 23:59:59",
            ],
        );
        for (ms, digits) in [(1_709_251_200_000, "000"), (1_709_251_200_040, "040")] {
            check(
                &mut texts,
                ms,
                [
                    &format!("2024-03-01T00:00:00.{digits}Z"),
                    &format!("2024-03-01 00:00:00,{digits}"),
                    &format!("2024-03-01 00:00:00.{digits}"),
                    "01/Mar/2024:00:00:00 +0000",
                    "Mar  1 00:00:00",
                ],
            );
        }
    }

    #[test]
    fn times_after_the_year_9999_do_not_panic() {
        TimestampTexts::default().set(u64::MAX);
    }
}
