//! The time zone of a user.

use std::str::FromStr;

use bucksaw_record::Millis;
use bucksaw_record::time::{self, InvalidTime, TimeZone};

/// A zone in which times are read and printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisplayZone(TimeZone);

impl DisplayZone {
    pub(crate) const fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone of this machine, by `TZ` or else `/etc/localtime`; UTC if there is neither.
    pub(crate) fn system() -> Self {
        Self(TimeZone::system())
    }

    /// The zone itself.
    pub(crate) const fn zone(&self) -> &TimeZone {
        &self.0
    }

    /// A time as typed.
    pub(crate) fn parse(&self, text: &str, now: Millis) -> Result<Millis, InvalidTime> {
        time::parse_timestamp(text, now, &self.0)
    }

    /// A time with its offset from UTC: `2026-11-20T23:10:00.123456+01:00`, or `…Z` where the offset is zero.
    pub(crate) fn format(&self, at: Millis, nanos: u32) -> String {
        let seconds = self.offset_seconds(at);
        let shifted = i64::try_from(at.0).ok().and_then(|at| at.checked_add(seconds * 1_000));
        match shifted.and_then(|shifted| u64::try_from(shifted).ok()) {
            Some(shifted) if seconds != 0 => {
                let local = time::format_rfc3339(Millis(shifted), nanos);
                let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
                format!("{}{sign}{:02}:{:02}", local.trim_end_matches('Z'), seconds / 3_600, seconds / 60 % 60)
            }
            _ => time::format_rfc3339(at, nanos),
        }
    }

    /// The same for a time as a node prints it; a text of another form is returned as it is.
    pub(crate) fn format_text(&self, text: &str) -> String {
        match time::event_time_text(text.as_bytes()) {
            Some((at, nanos)) => self.format(at, nanos),
            None => text.to_owned(),
        }
    }

    fn offset_seconds(&self, at: Millis) -> i64 {
        let at = i64::try_from(at.0).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
        at.map_or(0, |at| i64::from(self.0.to_offset(at).seconds()))
    }
}

impl FromStr for DisplayZone {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        time::parse_zone(text).map(Self)
    }
}

/// Checks that a text is a time. The result depends on neither the current time nor the zone.
pub(crate) fn checked_time(text: &str) -> Result<String, InvalidTime> {
    // Late enough for any time before it.
    DisplayZone::utc().parse(text, Millis(4_000_000_000_000)).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_offset_of_their_zone() {
        let check = |zone: &str, text: &str, want: &str| {
            assert_eq!(zone.parse::<DisplayZone>().unwrap().format_text(text), want, "{zone} {text}");
        };
        let winter = "2026-11-20T23:10:00.123456Z";
        check("UTC", winter, winter);
        check("Europe/Berlin", winter, "2026-11-21T00:10:00.123456+01:00");
        check("Europe/Berlin", "2026-07-01T00:00:00.000000Z", "2026-07-01T02:00:00.000000+02:00");
        check("-03:30", winter, "2026-11-20T19:40:00.123456-03:30");
        // A local time before 1970 is printed in UTC.
        check("-03:30", "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z");
        check("+01:00", "soon", "soon");
    }

    #[test]
    fn zones_and_times_are_checked() {
        for zone in ["Europe/Atlantis", "", "+25:00"] {
            assert!(zone.parse::<DisplayZone>().is_err(), "{zone}");
        }
        for text in ["15m", "15m ago", "now-1h", "today", "yesterday", "10:30", "1.5h", "2026-11-20 23:10"] {
            assert!(checked_time(text).is_ok(), "{text}");
        }
        assert!(checked_time("soon").is_err());
    }
}
