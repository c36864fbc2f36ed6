//! Draws from a seed.

use std::time::Duration;

use bucksaw_env::Entropy as _;
use bucksaw_env::sim::Entropy;

/// Dice.
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

    /// A number of `0..bound`; 0 when the bound is.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    /// A number of `least..=most`.
    pub(crate) fn between(&self, min: usize, max: usize) -> usize {
        min + self.below(max.saturating_sub(min) + 1)
    }

    /// Whether something happens that happens so often of a hundred times.
    pub(crate) fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A time between two.
    pub(crate) fn duration(&self, min: Duration, max: Duration) -> Duration {
        let micros = max.saturating_sub(min).as_micros() as usize;
        min + Duration::from_micros(self.below(micros + 1) as u64)
    }

    /// One of them; `None` of none.
    pub(crate) fn choose<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}
