//! A small seeded random number generator, with the skewed distributions of logs.
//!
//! xoshiro256++, seeded by splitmix64 so that adjacent seeds differ. Not for secrets. The distributions use shifts instead of logarithms, which are slow and
//! differ in the last bit between machines.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A sequence of numbers determined by a seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Xoshiro256PlusPlus);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 uniform bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number below `bound`, or 0 if `bound` is 0. The bias is below 1 in 4 billion.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        scale(self.next_u64() >> 32, bound)
    }

    /// The smaller of two uniform numbers below `bound`.
    pub(crate) fn skewed_below(&mut self, bound: u32) -> u32 {
        let drawn = self.next_u64();
        scale(drawn >> 32, bound).min(scale(drawn & 0xffff_ffff, bound))
    }

    /// True with probability 1 in `n`.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// A rank in `0..2^bits - 1` with a probability of about 1 / (rank + 1), a Zipf distribution.
    ///
    /// Each power of two is equally probable, and so are the ranks within it.
    pub(crate) fn zipf(&mut self, bits: u32) -> usize {
        let drawn = self.next_u64();
        let first = 1 << scale(drawn >> 32, bits);
        (first - 1 + (drawn & (first - 1))) as usize
    }

    /// A number from `unit` up with a long tail: each doubling is half as probable, up to `unit << (doublings + 1)`.
    pub(crate) fn long_tailed(&mut self, unit: u32, doublings: u32) -> u64 {
        let drawn = self.next_u64();
        let base = u64::from(unit) + u64::from(scale(drawn >> 32, unit));
        base << (drawn | 1 << doublings).trailing_zeros()
    }
}

/// Maps 32 bits uniformly to numbers below `bound`.
fn scale(drawn: u64, bound: u32) -> u32 {
    ((drawn * u64::from(bound)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        // rotl(a + d, 23) + a, where splitmix64 with seed 0 gives a to d: the generated lines of a seed depend on it.
        assert_eq!(Rng::new(0).next_u64(), 0x53175d61490b23df);
        assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    }

    #[test]
    fn numbers_cover_their_range() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn smaller_of_two_prefers_small_numbers() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 4];
        for _ in 0..16_000 {
            seen[rng.skewed_below(4) as usize] += 1;
        }
        let near = |count: u32, want: u32| count.abs_diff(want) < 500;
        assert!(seen.iter().zip([7_000, 5_000, 3_000, 1_000]).all(|(&count, want)| near(count, want)), "{seen:?}");
    }

    #[test]
    fn ranks_are_skewed() {
        let mut rng = Rng::new(2);
        let mut seen = [0u32; 255];
        for _ in 0..80_000 {
            seen[rng.zipf(8)] += 1;
        }
        assert!((9_500..10_500).contains(&seen[0]), "one in eight is the first: {}", seen[0]);
        assert!(seen[128..].iter().sum::<u32>() < 10_500);
        assert!(seen.iter().all(|&count| count > 0));
    }

    #[test]
    fn tails_are_long() {
        let mut rng = Rng::new(3);
        let mut drawn: Vec<u64> = (0..10_000).map(|_| rng.long_tailed(100, 10)).collect();
        drawn.sort_unstable();
        assert!(drawn[0] >= 100 && drawn[9_999] < 100 << 11);
        assert!(drawn[5_000] <= 220 && drawn[9_900] > 3_000, "{} {}", drawn[5_000], drawn[9_900]);
    }
}
