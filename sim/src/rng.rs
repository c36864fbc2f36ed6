//! Random choices of a run.

use std::time::Duration;

use bucksaw_env::Entropy as _;
use bucksaw_env::sim::Entropy;

/// Random numbers decided by a seed.
#[derive(Debug)]
pub(crate) struct SeededRng(Entropy);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// Any number.
    pub(crate) fn next_u64(&self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    /// A number in `min..=max`.
    pub(crate) fn between(&self, min: usize, max: usize) -> usize {
        min + self.below(max.saturating_sub(min) + 1)
    }

    /// True with a probability in percent.
    pub(crate) fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A duration in `min..=max`.
    pub(crate) fn duration(&self, min: Duration, max: Duration) -> Duration {
        let micros = max.saturating_sub(min).as_micros() as usize;
        min + Duration::from_micros(self.below(micros + 1) as u64)
    }

    /// A number of the exponential distribution with this mean: the time until the next of independent events.
    pub(crate) fn exponential(&self, mean: f64) -> f64 {
        let unit = ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -mean * unit.ln()
    }

    /// A random element.
    pub(crate) fn choose<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}
