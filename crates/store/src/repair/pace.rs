//! How fast a pass gets on: by what was left of it a while ago, and is left now.

use std::time::Duration;

/// What was left is noted so often. Two notes are kept, so the pace is that of the last one to two of these.
const NOTED_EVERY: Duration = Duration::from_secs(45);

/// Sooner than this after the first note nothing can be said.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// The pace of one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    before: Note,
    last: Note,
}

/// So much was left at an uptime.
#[derive(Clone, Copy, Debug)]
struct Note {
    at: Duration,
    left_bytes: u64,
}

impl Pace {
    /// A pass begins.
    pub(crate) fn new(now: Duration, left_bytes: u64) -> Self {
        let first = Note { at: now, left_bytes };
        Self { before: first, last: first }
    }

    /// So much is left now.
    pub(crate) fn note(&mut self, now: Duration, left_bytes: u64) {
        if now.saturating_sub(self.last.at) >= NOTED_EVERY {
            *self = Self { before: self.last, last: Note { at: now, left_bytes } };
        }
    }

    /// Bytes a second, when so much is left now.
    pub(crate) fn bytes_per_second(&self, now: Duration, left_bytes: u64) -> u64 {
        let span = now.saturating_sub(self.before.at);
        if span < SPAN_MIN {
            return 0;
        }
        (self.before.left_bytes.saturating_sub(left_bytes) as f64 / span.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_minute_or_so() {
        let at = Duration::from_secs;
        let mut left = 1_000_000;
        let mut pace = Pace::new(at(0), left);
        assert_eq!(pace.bytes_per_second(at(0), left), 0);
        for second in 1..=600 {
            left -= 100;
            pace.note(at(second), left);
            assert_eq!(pace.bytes_per_second(at(second), left), 100, "{second}");
        }
        // It stops: that is seen within two spans.
        for second in 601..=700 {
            pace.note(at(second), left);
        }
        assert_eq!(pace.bytes_per_second(at(700), left), 0);
        // More is left than before: what was there has moved.
        assert_eq!(pace.bytes_per_second(at(701), left + 1), 0);
    }
}
