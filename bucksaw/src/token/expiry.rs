//! When a token expires.

use std::str::FromStr;
use std::time::Duration;

use bucksaw_record::Millis;
use bucksaw_record::time::{event_time_text, parse_duration};

/// A time from now, or a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    After(Duration),
    At(Millis),
}

impl Expiry {
    /// The moment, in whole seconds.
    pub(super) fn at(self, now: Millis) -> Millis {
        let at = match self {
            Self::After(time) => now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            Self::At(at) => at,
        };
        Millis(at.min(Millis::MAX).0 / 1_000 * 1_000)
    }
}

impl FromStr for Expiry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse_duration(text) {
            Ok(time) if !time.is_zero() => return Ok(Self::After(time)),
            Ok(_) => return Err("expected a time from now that is not 0"),
            Err(_) => {}
        }
        let has_zone = text.ends_with('Z') || text.get(19..).is_some_and(|rest| rest.contains(['+', '-']));
        let at = event_time_text(text.as_bytes()).filter(|_| has_zone);
        at.map(|(at, _)| Self::At(at))
            .ok_or("expected a time from now such as 90d, or a moment such as 2030-01-01T00:00:00Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_times_from_now_or_moments() {
        let check = |text: &str, want: Option<u64>| {
            let got = text.parse::<Expiry>().ok().map(|expiry| expiry.at(Millis(1_000_500)).0);
            assert_eq!(got, want, "{text}");
        };
        check("1h", Some(4_600_000));
        check("90d", Some(90 * 86_400_000 + 1_000_000));
        check("1970-01-02T00:00:00Z", Some(86_400_000));
        check("1970-01-02T00:00:00+01:00", Some(82_800_000));
        for bad in ["", "0s", "tomorrow", "2030-01-01", "2030-01-01T00:00:00", "-1h"] {
            check(bad, None);
        }
    }
}
