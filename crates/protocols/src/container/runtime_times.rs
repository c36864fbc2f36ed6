//! Times of a container runtime, most of which are in the minute of the one before.

use bucksaw_record::Millis;
use bucksaw_record::time::event_time_text;

/// Bytes of a time up to its seconds: `2026-11-24T22:40:`.
const MINUTE_BYTES: usize = 17;

/// Milliseconds of a second.
const SECOND: u64 = 1_000;

/// Nanoseconds of a millisecond.
const MILLI: u32 = 1_000_000;

/// Reads times as [`event_time_text`] does, and remembers the last minute, so that most take a comparison.
#[derive(Debug, Default)]
pub(super) struct RuntimeTimes {
    minute: [u8; MINUTE_BYTES],
    /// The start of the minute; `None` at first.
    start: Option<Millis>,
}

impl RuntimeTimes {
    pub(super) fn read(&mut self, text: &[u8]) -> Option<(Millis, u32)> {
        if let Some(time) = self.read_in_minute(text) {
            return Some(time);
        }
        let time = event_time_text(text)?;
        if let Some(minute) = text.first_chunk::<MINUTE_BYTES>().filter(|_| text.ends_with(b"Z")) {
            let start = event_time_text(&[minute, &b"00Z"[..]].concat());
            (self.minute, self.start) = (*minute, start.map(|(start, _)| start));
        }
        Some(time)
    }

    /// The time, if it is in the remembered minute, in UTC, with at most nine digits of a fraction.
    fn read_in_minute(&self, text: &[u8]) -> Option<(Millis, u32)> {
        let start = self.start?;
        let (minute, rest) = text.split_first_chunk::<MINUTE_BYTES>()?;
        let ([tens @ b'0'..=b'5', ones @ b'0'..=b'9'], rest) = rest.split_first_chunk::<2>()? else { return None };
        let fraction = rest.strip_suffix(b"Z")?;
        if *minute != self.minute {
            return None;
        }
        let nanos = match fraction {
            [] => 0,
            [b'.', digits @ ..] if (1..=9).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
                let read = digits.iter().fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'));
                read * 10_u32.pow(9 - digits.len() as u32)
            }
            _ => return None,
        };
        let seconds = u64::from((tens - b'0') * 10 + (ones - b'0'));
        let at = Millis(start.0 + seconds * SECOND + u64::from(nanos / MILLI));
        (at <= Millis::MAX).then_some((at, nanos % MILLI))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_of_runtimes() {
        let mut times = RuntimeTimes::default();
        let mut check = |text: &str, want: Option<(u64, u32)>| {
            assert_eq!(times.read(text.as_bytes()), want.map(|(at, below)| (Millis(at), below)), "{text}");
        };
        check("2023-11-14T22:13:20.123456789Z", Some((1_700_000_000_123, 456_789)));
        check("2023-11-14T22:13:21.5Z", Some((1_700_000_001_500, 0)));
        check("2023-11-14T22:13:59Z", Some((1_700_000_039_000, 0)));
        check("2023-11-14T22:13:21.1234567899Z", Some((1_700_000_001_123, 456_789)));
        check("2023-11-14T23:13:20.5+01:00", Some((1_700_000_000_500, 0)));
        check("2023-11-14T22:14:00.000000001Z", Some((1_700_000_040_000, 1)));
        check("2023-11-14T22:14:", None);
        check("2023-11-14T22:14:0xZ", None);
        check("2023-11-14T22:14:00.Z", None);
        check("", None);
    }

    proptest! {
        #[test]
        fn times_are_those_of_the_general_reader(
            texts in prop::collection::vec("2026-11-24[T ]22:4[01]:[0-7][0-9](\\.[0-9x]{0,11})?(Z|z|\\+01:00|)", 1..9),
        ) {
            let mut times = RuntimeTimes::default();
            for text in texts {
                prop_assert_eq!(times.read(text.as_bytes()), event_time_text(text.as_bytes()), "{}", text);
            }
        }
    }
}
