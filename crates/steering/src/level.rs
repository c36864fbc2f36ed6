//! The load level of a node.
//!
//! | measurement | 1 | 2 | 3 |
//! | --- | --- | --- | --- |
//! | ingest rate, at least the busy rate, over the mean rate of the ingest nodes | 1.5 | 2 | |
//! | appends refused in the last second | | any | |
//! | age of the oldest pending segment, while it grows | 30 s | 60 s | 120 s |
//! | free disk space over the space that is kept free | 4 | 2 | full |
//!
//! The worst measurement counts. A level is held down to three quarters of its bounds (of free space, up to four thirds).
//!
//! Invariant: a level rises no sooner than [`RISE_SECONDS`] and falls no sooner than [`FALL_SECONDS`] after it changed.

use std::time::Duration;

use bucksaw_env::to_millis;

/// Consecutive seconds with higher bounds after which the level rises.
pub(crate) const RISE_SECONDS: u32 = 3;

/// Consecutive seconds with lower bounds after which the level falls.
pub(crate) const FALL_SECONDS: u32 = 15;

/// Tenths of the mean rate, for levels 1 and 2.
const MEAN_TENTHS: [u64; 2] = [15, 20];

/// Age of the oldest pending segment in seconds, for levels 1 to 3.
const WAIT_SECONDS: [u64; 3] = [30, 60, 120];

/// Multiples of the space that is kept free, for levels 1 and 2.
const FREE_SPACE_FACTORS: [u64; 2] = [4, 2];

/// The state of a node's queue at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadSample {
    /// Bytes accepted since the start.
    pub accepted_bytes: u64,
    /// Appends refused since the start.
    pub refused_appends: u64,
    /// Age of the oldest segment that waits for a store.
    pub oldest_wait: Duration,
    /// Free disk space, in bytes.
    pub free_bytes: u64,
    /// Disk space that is kept free, in bytes.
    pub free_bytes_min: u64,
    /// Whether the queue accepts nothing.
    pub is_halted: bool,
}

/// Ingest rates in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IngestRates {
    pub(crate) own: u64,
    /// The mean of all ingest nodes, this one included.
    pub(crate) mean: u64,
    /// The busy rate: a node below it is not busy, regardless of the mean.
    pub(crate) busy: u64,
}

/// The levels that the measurements of one second justify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelBounds {
    pub(crate) rise_to: u8,
    /// The level that is held if it was reached; not below `rise_to`.
    pub(crate) hold_at: u8,
}

impl LevelBounds {
    /// Compares a sample with that of the second before.
    pub(crate) fn new(now: &LoadSample, before: &LoadSample, rates: IngestRates) -> Self {
        let has_refused = now.refused_appends > before.refused_appends;
        let is_wait_growing = now.oldest_wait > before.oldest_wait;
        let level = |quarters, is_wait_growing| {
            let wait = if is_wait_growing { wait_level(now.oldest_wait, quarters) } else { 0 };
            let refused = if has_refused { 2 } else { 0 };
            rate_level(rates, quarters).max(refused).max(wait).max(space_level(now, quarters))
        };
        let rise_to = level(4, is_wait_growing);
        Self { rise_to, hold_at: level(3, true).max(rise_to) }
    }
}

/// The number of bounds that are reached.
fn count<const N: usize>(reached: [bool; N]) -> u8 {
    reached.into_iter().map(u8::from).sum()
}

fn rate_level(rates: IngestRates, quarters: u64) -> u8 {
    let (own, mean) = (u128::from(rates.own), u128::from(rates.mean.max(1)));
    let is_busy = own > 0 && own * 4 >= u128::from(rates.busy) * u128::from(quarters);
    count(MEAN_TENTHS.map(|tenths| is_busy && own * 40 >= mean * u128::from(tenths * quarters)))
}

fn wait_level(wait: Duration, quarters: u64) -> u8 {
    let millis = to_millis(wait);
    count(WAIT_SECONDS.map(|seconds| millis >= seconds * 250 * quarters))
}

fn space_level(sample: &LoadSample, quarters: u64) -> u8 {
    let (free, min) = (u128::from(sample.free_bytes), u128::from(sample.free_bytes_min));
    let level = count(FREE_SPACE_FACTORS.map(|factor| free * u128::from(quarters) < min * u128::from(factor) * 4));
    if sample.is_halted { 3 } else { level }
}

/// The level, which follows the bounds with hysteresis.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadLevel {
    level: u8,
    /// Consecutive seconds with higher bounds, and the lowest of these bounds.
    above: (u32, u8),
    /// Consecutive seconds with lower bounds, and the highest of these bounds.
    below: (u32, u8),
}

impl LoadLevel {
    /// Applies the bounds of another second and returns the level.
    pub(crate) fn step(&mut self, bounds: LevelBounds) -> u8 {
        let LevelBounds { rise_to, hold_at } = bounds;
        self.above = match self.above {
            _ if rise_to <= self.level => (0, 0),
            (0, _) => (1, rise_to),
            (seconds, lowest) => (seconds + 1, lowest.min(rise_to)),
        };
        self.below = match self.below {
            _ if hold_at >= self.level => (0, 0),
            (seconds, highest) => (seconds + 1, highest.max(hold_at)),
        };
        let next = match (self.above, self.below) {
            ((RISE_SECONDS.., lowest), _) => lowest,
            (_, (FALL_SECONDS.., highest)) => highest,
            _ => return self.level,
        };
        *self = Self { level: next, ..Self::default() };
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: LoadSample = LoadSample {
        accepted_bytes: 0,
        refused_appends: 0,
        oldest_wait: Duration::ZERO,
        free_bytes: 1_000,
        free_bytes_min: 0,
        is_halted: false,
    };

    #[test]
    fn the_worst_measurement_sets_the_bounds() {
        let check_all = |now: LoadSample, before: LoadSample, own: u64, mean: u64, rise_to: u8, hold_at: u8| {
            let bounds = LevelBounds::new(&now, &before, IngestRates { own, mean, busy: 100 });
            assert_eq!(bounds, LevelBounds { rise_to, hold_at }, "{now:?} {own} {mean}");
        };
        check_all(IDLE, IDLE, 0, 0, 0, 0);
        let check_rate = |own, mean, rise_to, hold_at| check_all(IDLE, IDLE, own, mean, rise_to, hold_at);
        check_rate(1_000, 1_000, 0, 0);
        check_rate(1_200, 1_000, 0, 1);
        check_rate(1_499, 1_000, 0, 1);
        check_rate(1_500, 1_000, 1, 2);
        check_rate(2_000, 1_000, 2, 2);
        check_rate(9_000, 1_000, 2, 2);
        // Below the busy rate of 100 the mean does not count.
        check_rate(99, 10, 0, 2);
        check_rate(74, 10, 0, 0);
        check_rate(100, 10, 2, 2);
        check_rate(0, 0, 0, 0);
        check_rate(u64::MAX, u64::MAX, 0, 0);
        let refused = LoadSample { refused_appends: 1, ..IDLE };
        check_all(refused, IDLE, 0, 0, 2, 2);
        check_all(refused, refused, 0, 0, 0, 0);
        let wait = |seconds| LoadSample { oldest_wait: Duration::from_secs(seconds), ..IDLE };
        let check_wait =
            |seconds, rise_to, hold_at| check_all(wait(seconds), wait(seconds - 1), 0, 0, rise_to, hold_at);
        check_wait(22, 0, 0);
        check_wait(23, 0, 1);
        check_wait(30, 1, 1);
        check_wait(45, 1, 2);
        check_wait(60, 2, 2);
        check_wait(120, 3, 3);
        check_all(wait(119), wait(119), 0, 0, 0, 3);
        let space = |free_bytes| LoadSample { free_bytes, free_bytes_min: 300, ..IDLE };
        let check_space = |free_bytes, rise_to, hold_at| check_all(space(free_bytes), IDLE, 0, 0, rise_to, hold_at);
        check_space(1_600, 0, 0);
        check_space(1_599, 0, 1);
        check_space(1_199, 1, 1);
        check_space(799, 1, 2);
        check_space(599, 2, 2);
        check_space(0, 2, 2);
        check_all(LoadSample { is_halted: true, ..space(299) }, IDLE, 0, 0, 3, 3);
    }

    #[test]
    fn a_level_rises_after_3_seconds_and_falls_after_15() {
        let check = |runs: &[(u32, u8, u8)], want: u8| {
            let mut level = LoadLevel::default();
            let bounds = runs.iter().flat_map(|(seconds, rise_to, hold_at)| {
                (0..*seconds).map(|_| LevelBounds { rise_to: *rise_to, hold_at: *hold_at })
            });
            assert_eq!(bounds.map(|bounds| level.step(bounds)).last(), Some(want), "{runs:?}");
        };
        check(&[(2, 3, 3)], 0);
        check(&[(3, 3, 3)], 3);
        // An interruption restarts the count, and the lowest of the three seconds counts.
        check(&[(2, 3, 3), (1, 0, 3), (2, 3, 3)], 0);
        check(&[(1, 1, 1), (1, 2, 3), (1, 3, 3)], 1);
        // Between the bounds the level is held.
        check(&[(3, 2, 2), (1_000, 0, 2)], 2);
        check(&[(3, 2, 2), (14, 0, 0)], 2);
        check(&[(3, 2, 2), (15, 0, 0)], 0);
        check(&[(3, 2, 2), (14, 0, 0), (1, 0, 2), (14, 0, 0)], 2);
        // The level falls to the highest of the 15 seconds.
        check(&[(3, 3, 3), (10, 0, 0), (1, 0, 2), (4, 0, 1)], 2);
    }

    proptest! {
        #[test]
        fn a_level_changes_no_more_often_than_stated(
            runs in prop::collection::vec((1_u32..25, 0_u8..4, 0_u8..4), 1..60),
        ) {
            let mut level = LoadLevel::default();
            let (mut before, mut changed_at, mut second) = (0, None, 0_u32);
            let mut rises = Vec::new();
            let mut seen: Vec<LevelBounds> = Vec::new();
            for (seconds, rise_to, more) in runs {
                for _ in 0..seconds {
                    let bounds = LevelBounds { rise_to, hold_at: (rise_to + more).min(3) };
                    seen.push(bounds);
                    let now = level.step(bounds);
                    second += 1;
                    prop_assert!(now <= 3);
                    if now == before {
                        continue;
                    }
                    let interval = second - changed_at.unwrap_or(0);
                    let (interval_min, rose) = if now > before { (RISE_SECONDS, true) } else { (FALL_SECONDS, false) };
                    prop_assert!(interval >= interval_min, "{before} to {now} after {interval} s");
                    // All seconds of that time justify the level.
                    let justifying = &seen[seen.len() - interval_min as usize..];
                    prop_assert!(!rose || justifying.iter().all(|bounds| bounds.rise_to >= now));
                    prop_assert!(rose || justifying.iter().all(|bounds| bounds.hold_at <= now));
                    if rose && before == 0 {
                        rises.push(second);
                    }
                    (before, changed_at) = (now, Some(second));
                }
            }
            prop_assert!(rises.windows(2).all(|pair| pair[1] - pair[0] >= RISE_SECONDS + FALL_SECONDS), "{rises:?}");
        }
    }
}
