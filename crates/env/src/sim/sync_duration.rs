//! How long the syncs of a simulated disk take.
//!
//! A calibration of a real machine gives these times, so that queues form in a simulated cluster as they do in a real one.
//! [`Fs::set_sync_duration`](super::Fs::set_sync_duration) sets them, and documents which tasks wait for a sync.

use std::time::Duration;

use super::Entropy;
use crate::Entropy as _;

/// Times of syncs: lognormal, with a mean that grows with the bytes that the sync makes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SyncDuration {
    /// Mean of a sync without bytes, such as that of a directory.
    pub mean: Duration,
    /// What each byte adds to the mean, in seconds. It may stand for the work that produced the byte, such as its encoding.
    pub seconds_per_byte: f64,
    /// Coefficient of variation: standard deviation over mean. 0 for constant times.
    pub variation: f64,
}

impl SyncDuration {
    /// The time of one sync. A mean that is negative, not a number or too large for a [`Duration`] counts as zero.
    ///
    /// The normal number is drawn by the method of Box and Muller, 1958.
    pub(super) fn sample(&self, bytes: u64, rng: &Entropy) -> Duration {
        let variance = (1.0 + self.variation * self.variation).ln();
        let factor = (variance.sqrt() * normal(rng) - variance / 2.0).exp();
        let mean = self.mean.as_secs_f64() + self.seconds_per_byte * bytes as f64;
        Duration::try_from_secs_f64(mean * factor).unwrap_or_default()
    }
}

/// A number of the standard normal distribution.
fn normal(rng: &Entropy) -> f64 {
    let unit = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * unit()).cos()
}

/// The disk's state: its times, and what syncs have taken since the last [`DiskSyncDelay::take`].
#[derive(Clone, Debug)]
pub(super) struct DiskSyncDelay {
    time: SyncDuration,
    rng: Entropy,
    taken: Duration,
}

impl DiskSyncDelay {
    pub(super) fn new(time: SyncDuration, seed: u64) -> Self {
        Self { time, rng: Entropy::seeded(seed), taken: Duration::ZERO }
    }

    /// Adds the time of a sync of `bytes` bytes.
    pub(super) fn add(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(self.time.sample(bytes, &self.rng));
    }

    pub(super) fn take(&mut self) -> Duration {
        std::mem::take(&mut self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean_and_their_variation() {
        let rng = Entropy::seeded(5);
        let time = SyncDuration { mean: Duration::from_millis(2), seconds_per_byte: 1e-6, variation: 0.5 };
        let drawn: Vec<f64> = (0..100_000).map(|_| time.sample(3_000, &rng).as_secs_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let deviation = (drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!((mean / 0.005 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / mean / 0.5 - 1.0).abs() < 0.02, "{deviation}");
        let constant = SyncDuration { variation: 0.0, ..time };
        assert_eq!(constant.sample(1_000, &rng), Duration::from_millis(3));
        let odd = SyncDuration { seconds_per_byte: f64::NAN, ..time };
        assert_eq!(odd.sample(1, &rng), Duration::ZERO);
    }
}
