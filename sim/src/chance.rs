//! Draws from a seed.

use std::time::Duration;

use bucksaw_doors::Entropy as _;
use bucksaw_doors::sim::Entropy;

/// Dice.
#[derive(Debug)]
pub(crate) struct Chance(Entropy);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// Any number.
    pub(crate) fn any(&self) -> u64 {
        self.0.next_u64()
    }

    /// A number of `0..bound`; 0 when the bound is.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    /// A number of `least..=most`.
    pub(crate) fn within(&self, least: usize, most: usize) -> usize {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Whether something happens that happens so often of a hundred times.
    pub(crate) fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A time between two.
    pub(crate) fn time(&self, least: Duration, most: Duration) -> Duration {
        let micros = most.saturating_sub(least).as_micros() as usize;
        least + Duration::from_micros(self.below(micros + 1) as u64)
    }

    /// One of them; `None` of none.
    pub(crate) fn one<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}
