//! The number of lines due at a rate.
//!
//! The count derives from the time since the start, not since the last call, so late or uneven calls cause no drift.
//! The rate is an integer in billionths of a line per second.

use std::time::Duration;

/// Billionths of a line per line, times nanoseconds per second.
const ONE_LINE: u128 = 1_000_000_000 * 1_000_000_000;

/// Converts a rate into numbers of lines.
///
/// The writer calls it every few milliseconds and writes the lines that are due.
///
/// ```
/// use bucksaw_generate::LineSchedule;
/// use std::time::Duration;
/// let mut schedule = LineSchedule::new(50.0);
/// assert_eq!(schedule.lines_due(Duration::from_millis(50)), 2);
/// assert_eq!(schedule.lines_due(Duration::from_millis(100)), 3);
/// assert_eq!(schedule.lines_due(Duration::from_millis(100)), 0);
/// ```
#[derive(Clone, Debug)]
pub struct LineSchedule {
    /// Billionths of a line per second.
    rate: u128,
    lines_emitted: u64,
}

impl LineSchedule {
    /// A schedule in lines per second, with a precision of nine decimals.
    ///
    /// A rate that is negative or not a number counts as 0.
    pub fn new(lines_per_second: f64) -> Self {
        // The cast saturates: NaN and negative rates become 0, an infinite rate the largest number.
        Self { rate: (lines_per_second * 1e9).round() as u128, lines_emitted: 0 }
    }

    /// The number of lines due at `elapsed` since the start, minus those that earlier calls returned.
    ///
    /// After a long pause the result includes all lines missed. Returns 0 if `elapsed` is smaller than in an earlier
    /// call.
    pub fn lines_due(&mut self, elapsed: Duration) -> u64 {
        let lines = elapsed.as_nanos().saturating_mul(self.rate) / ONE_LINE;
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        let due = lines.saturating_sub(self.lines_emitted);
        self.lines_emitted += due;
        due
    }

    /// The time since the start at which the next line is due; [`Duration::MAX`] if none ever is.
    pub fn next_due(&self) -> Duration {
        let lines = u128::from(self.lines_emitted) + 1;
        let nanos = lines.saturating_mul(ONE_LINE).checked_div(self.rate).map_or(u128::MAX, |nanos| nanos + 1);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Leaves out the lines that were due more than `late_max` ago at `elapsed` since the start; returns their number.
    pub fn skip_late(&mut self, elapsed: Duration, late_max: Duration) -> u64 {
        self.lines_due(elapsed.saturating_sub(late_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Calls `due` every `tick_ms`, and returns the sum and the maximum of the results.
    fn run(rate: f64, tick_ms: u64, ticks: u64) -> (u64, u64) {
        let mut schedule = LineSchedule::new(rate);
        let due = (1..=ticks).map(|tick| schedule.lines_due(Duration::from_millis(tick * tick_ms)));
        due.fold((0, 0), |(sum, most), due| (sum + due, most.max(due)))
    }

    #[test]
    fn due_lines_add_up_exactly_over_hours() {
        let check = |rate, tick_ms, hours: u64, want| {
            let (sum, most) = run(rate, tick_ms, hours * 3_600_000 / tick_ms);
            assert_eq!(sum, want, "{rate} a second, every {tick_ms} ms for {hours} h");
            let even = (rate * tick_ms as f64 / 1_000.0).ceil() as u64;
            assert!(most <= even.max(1), "{most} lines at once where {even} are even");
        };
        check(1.0, 50, 1, 3_600);
        check(0.1, 50, 10, 3_600);
        check(0.001, 50, 10, 36);
        check(2.5, 40, 1, 9_000);
        check(333.0, 50, 3, 3_596_400);
        check(100_000.0, 50, 5, 1_800_000_000);
        check(12_345_678.0, 50, 2, 88_888_881_600);
        check(1e9, 50, 1, 3_600_000_000_000);
        check(7.0, 48, 6, 151_200);
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let year = Duration::from_secs(365 * 86_400);
        for rate in [0.0, -3.0, f64::NAN, f64::NEG_INFINITY] {
            let mut schedule = LineSchedule::new(rate);
            assert_eq!((schedule.lines_due(year), schedule.next_due()), (0, Duration::MAX), "{rate}");
        }
        let mut schedule = LineSchedule::new(f64::INFINITY);
        assert_eq!(schedule.lines_due(Duration::ZERO), 0);
        assert!(schedule.lines_due(Duration::from_secs(100)) > 1 << 60);
        assert_eq!(LineSchedule::new(1e300).lines_due(Duration::MAX), u64::MAX);
        let mut schedule = LineSchedule::new(10.0);
        assert_eq!(schedule.lines_due(Duration::from_secs(2)), 20);
        assert_eq!(schedule.lines_due(Duration::from_secs(1)), 0);
        assert_eq!(schedule.lines_due(Duration::from_secs(3)), 10);
    }

    #[test]
    fn late_lines_are_left_out() {
        let (mut schedule, second) = (LineSchedule::new(100.0), Duration::from_secs(1));
        assert_eq!(schedule.skip_late(second, second), 0);
        assert_eq!(schedule.skip_late(10 * second, second), 900);
        assert_eq!((schedule.lines_due(10 * second), schedule.lines_due(11 * second)), (100, 100));
        assert_eq!(schedule.skip_late(11 * second, second), 0);
    }

    proptest! {
        #[test]
        fn a_line_is_due_when_the_schedule_says_so(rate in 1_u64..2_000_000_000, lines in 0_u64..100) {
            let mut schedule = LineSchedule::new(rate as f64 / 1_000.0);
            for _ in 0..=lines {
                let next = schedule.next_due();
                prop_assert_eq!(schedule.lines_due(next.saturating_sub(Duration::from_nanos(2))), 0);
                prop_assert!(schedule.lines_due(next) >= 1);
            }
        }

        #[test]
        fn uneven_ticks_do_not_drift(rate in 0u32..20_000_000, ticks in prop::collection::vec(0u64..500_000_000, 1..50)) {
            let mut schedule = LineSchedule::new(f64::from(rate));
            let (mut nanos, mut sum) = (0, 0);
            for tick in ticks {
                nanos += tick;
                sum += schedule.lines_due(Duration::from_nanos(nanos));
                prop_assert_eq!(u128::from(sum), u128::from(nanos) * u128::from(rate) / 1_000_000_000);
            }
        }
    }
}
