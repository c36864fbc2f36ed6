//! When the bytes of a file were first seen, so that the wait of the oldest undelivered one is known.

use std::time::Duration;

/// The most marks of one file. Each further one merges two older ones, so that the error of a wait is at most the wait itself, up to
/// some hours.
const MARKS_MAX: usize = 24;

/// Bytes that are seen within this time share a mark.
const MARK_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes up to an offset, and when the first of them was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GrowthMark {
    end: u64,
    since: Duration,
}

/// The growth of one file: offsets, and when they were first seen, as uptime.
#[derive(Debug, Default)]
pub(crate) struct GrowthMarks(Vec<GrowthMark>);

impl GrowthMarks {
    /// Notes that the file has `end` bytes.
    pub(crate) fn note(&mut self, end: u64, now: Duration) {
        match self.0.last_mut() {
            Some(newest) if end <= newest.end => return,
            Some(newest) if now.saturating_sub(newest.since) < MARK_INTERVAL => {
                newest.end = end;
                return;
            }
            _ => {}
        }
        if self.0.len() == MARKS_MAX {
            self.merge_two(now);
        }
        self.0.push(GrowthMark { end, since: now });
    }

    /// The number of bytes that were seen.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |newest| newest.end)
    }

    /// When the byte at this offset was seen, or earlier: marks were merged. `None` if it was not seen.
    pub(crate) fn seen_at(&self, offset: u64) -> Option<Duration> {
        self.0.iter().find(|mark| mark.end > offset).map(|mark| mark.since)
    }

    /// Merges the two neighbours by which the error of a wait grows least, in proportion to the wait. The merged mark has the time of
    /// the first.
    fn merge_two(&mut self, now: Duration) {
        let error = |three: &[GrowthMark]| match three {
            [first, _, third] => {
                let wait = now.saturating_sub(third.since).as_secs_f64();
                third.since.saturating_sub(first.since).as_secs_f64() / wait.max(f64::MIN_POSITIVE)
            }
            _ => f64::INFINITY,
        };
        let errors = self.0.windows(3).map(error).enumerate();
        let Some((at, _)) = errors.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        let second = self.0.remove(at + 1);
        if let Some(first) = self.0.get_mut(at) {
            first.end = second.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_byte_has_the_time_at_which_it_was_seen() {
        let mut marks = GrowthMarks::default();
        assert_eq!((marks.end(), marks.seen_at(0)), (0, None));
        marks.note(10, seconds(1));
        marks.note(10, seconds(2));
        marks.note(12, seconds(1) + Duration::from_millis(99));
        marks.note(20, seconds(3));
        assert_eq!(marks.end(), 20);
        let seen = [0, 11, 12, 19, 20].map(|offset| marks.seen_at(offset));
        assert_eq!(seen, [Some(seconds(1)), Some(seconds(1)), Some(seconds(3)), Some(seconds(3)), None]);
    }

    #[test]
    fn marks_are_bounded_and_never_too_late() {
        let mut marks = GrowthMarks::default();
        for second in 1..=10_000 {
            marks.note(second, seconds(second));
            assert!(marks.0.len() <= MARKS_MAX);
        }
        for wait in [0, 1, 3, 10, 100, 1_000, 5_000, 9_990] {
            // The byte at this offset was seen one second later.
            let seen = seconds(10_000 - wait);
            let reported = marks.seen_at(10_000 - wait - 1).unwrap();
            assert!(reported <= seen && seen - reported <= seconds(wait + 1), "{wait}: {reported:?}");
        }
    }
}
