//! Which level the state of a node justifies.
//!
//! | sign | 1 | 2 | 3 |
//! | --- | --- | --- | --- |
//! | bytes a second, at least [`Config::busy_bytes_per_second`](super::Config), over the mean of the live ingest nodes | 1.5 | 2 | |
//! | appends refused in this second: the disk does not keep up | | any | |
//! | age of what waits longest for a store, while it grows | 30 s | 60 s | 120 s |
//! | room on the disk, over the room that is kept free | 4 | 2 | full |
//!
//! The worst sign counts. To hold a level three quarters of its bound are enough: of the room, four thirds.
//!
//! More than the others have is no distress, so it never makes a node turn away those that it cannot tell where to go.

use std::time::Duration;

use super::level::LevelBounds;

/// What is known of a node in one second.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadSample {
    /// Bytes accepted in a second.
    pub bytes_per_second: u64,
    /// The mean of that over all live ingest nodes, this one among them.
    pub mean_bytes_per_second: u64,
    /// Appends refused since the second before.
    pub refused: u64,
    /// How long the oldest segment has waited for a store.
    pub oldest_wait: Duration,
    /// Whether that is longer than in the second before.
    pub is_wait_growing: bool,
    /// Room on the disk, in bytes.
    pub free_bytes: u64,
    /// Of which so much is kept free.
    pub free_bytes_min: u64,
    /// Whether nothing is accepted for want of room.
    pub is_halted: bool,
}

/// Tenths of the mean from which on a node is busy, and very busy.
const MEAN_TENTHS: [u64; 2] = [15, 20];

/// Seconds of waiting for each level.
const WAIT_SECONDS: [u64; 3] = [30, 60, 120];

/// Times the room that is kept free, for the first two levels.
const FREE_SPACE_FACTORS: [u64; 2] = [4, 2];

impl LoadSample {
    /// What is justified where fewer than `busy` bytes a second are never much.
    #[must_use]
    pub fn level_bounds(&self, busy: u64) -> LevelBounds {
        let rises_to = self.level(busy, 4, self.is_wait_growing);
        LevelBounds { rise_to: rises_to, hold_at: self.level(busy, 3, true).max(rises_to) }
    }

    /// The level by bounds of so many quarters.
    fn level(&self, busy: u64, quarters: u64, waits: bool) -> u8 {
        let count = |reached: &[bool]| u8::try_from(reached.iter().filter(|reached| **reached).count()).unwrap_or(3);
        let (rate, mean) = (u128::from(self.bytes_per_second), u128::from(self.mean_bytes_per_second.max(1)));
        let much = rate * 4 >= u128::from(busy) * u128::from(quarters) && rate > 0;
        let rate = MEAN_TENTHS.map(|tenths| much && rate * 40 >= mean * u128::from(tenths * quarters));
        let refused = if self.refused > 0 { 2 } else { 0 };
        let waited = u64::try_from(self.oldest_wait.as_millis()).unwrap_or(u64::MAX);
        let wait = WAIT_SECONDS.map(|seconds| waits && waited >= seconds * 250 * quarters);
        let (free, min) = (u128::from(self.free_bytes), u128::from(self.free_bytes_min));
        let room = FREE_SPACE_FACTORS.map(|times| free * u128::from(quarters) < min * u128::from(times) * 4);
        let room = if self.is_halted { 3 } else { count(&room) };
        count(&rate).max(refused).max(count(&wait)).max(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: LoadSample = LoadSample {
        bytes_per_second: 0,
        mean_bytes_per_second: 0,
        refused: 0,
        oldest_wait: Duration::ZERO,
        is_wait_growing: false,
        free_bytes: 1_000,
        free_bytes_min: 0,
        is_halted: false,
    };

    #[test]
    fn a_sample_has_two_bounds() {
        let check = |sample: LoadSample, rise_to: u8, hold_at: u8| {
            assert_eq!(sample.level_bounds(100), LevelBounds { rise_to, hold_at }, "{sample:?}");
        };
        check(GOOD, 0, 0);
        let rate =
            |bytes_per_second, mean_bytes_per_second| LoadSample { bytes_per_second, mean_bytes_per_second, ..GOOD };
        check(rate(1_000, 1_000), 0, 0);
        check(rate(1_200, 1_000), 0, 1);
        check(rate(1_499, 1_000), 0, 1);
        check(rate(1_500, 1_000), 1, 2);
        check(rate(2_000, 1_000), 2, 2);
        check(rate(9_000, 1_000), 2, 2);
        // Below the floor it does not count.
        check(rate(99, 10), 0, 2);
        check(rate(74, 10), 0, 0);
        check(rate(100, 10), 2, 2);
        check(rate(0, 0), 0, 0);
        check(rate(u64::MAX, u64::MAX), 0, 0);
        check(LoadSample { refused: 1, ..GOOD }, 2, 2);
        let waits = |seconds, waits_longer| LoadSample {
            oldest_wait: Duration::from_secs(seconds),
            is_wait_growing: waits_longer,
            ..GOOD
        };
        check(waits(22, true), 0, 0);
        check(waits(23, true), 0, 1);
        check(waits(30, true), 1, 1);
        check(waits(45, true), 1, 2);
        check(waits(60, true), 2, 2);
        check(waits(120, true), 3, 3);
        check(waits(119, false), 0, 3);
        let room = |free_bytes| LoadSample { free_bytes, free_bytes_min: 300, ..GOOD };
        check(room(1_600), 0, 0);
        check(room(1_599), 0, 1);
        check(room(1_199), 1, 1);
        check(room(799), 1, 2);
        check(room(599), 2, 2);
        check(room(0), 2, 2);
        check(LoadSample { is_halted: true, ..room(299) }, 3, 3);
    }
}
