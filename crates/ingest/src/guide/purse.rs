//! How much may go until it is said anew.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bucksaw_doors::Entropy;

/// Bytes a second that may go.
#[derive(Debug, Default)]
pub(super) struct Purse(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    left: u64,
    /// Whether something was filled in, and nobody has gone since.
    unspent: bool,
}

impl Purse {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much may go from now on, whatever was left.
    pub(super) fn fill(&self, bytes: u64) {
        *self.held() = Held { left: bytes, unspent: bytes > 0 };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held().left == 0
    }

    /// Whether nothing is left, and yet nobody went: chance was against it.
    pub(super) fn was_in_vain(&self) -> bool {
        let held = self.held();
        held.left == 0 && held.unspent
    }

    /// Whether so much may go. What is more than is left goes by chance, as much on the average as is left; whatever chance
    /// says, nothing is left then. So one client that brings much goes now and then, and never many of them at once.
    pub(super) fn spend(&self, bytes: u64, entropy: &dyn Entropy) -> bool {
        let mut held = self.held();
        let had = held.left;
        held.left = had.saturating_sub(bytes);
        let goes = had >= bytes || u128::from(entropy.next_u64()) * u128::from(bytes) < u128::from(had) << u64::BITS;
        held.unspent &= !goes;
        goes
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_doors::Doors;

    use super::*;

    #[test]
    fn as_much_goes_on_the_average_as_was_filled_in() {
        let entropy = Doors::real().entropy;
        let purse = Purse::default();
        assert!(purse.is_empty() && !purse.spend(1, &*entropy) && !purse.was_in_vain());
        purse.fill(10);
        assert!(purse.spend(6, &*entropy) && purse.spend(4, &*entropy) && purse.is_empty() && !purse.was_in_vain());
        let mut in_vain = 0;
        for _ in 0..1_000 {
            purse.fill(1);
            assert!(!purse.was_in_vain());
            let went = purse.spend(2, &*entropy);
            assert_eq!(purse.was_in_vain(), !went);
            in_vain += usize::from(!went);
        }
        assert!((400..600).contains(&in_vain), "{in_vain}");
        purse.fill(0);
        assert!(purse.is_empty() && !purse.was_in_vain());
        let mut gone = 0;
        for _ in 0..4_000 {
            purse.fill(7);
            // The first fits in; the second goes in three of five tries, and then nothing does.
            for bytes in [4, 5, 1, 1] {
                gone += if purse.spend(bytes, &*entropy) { bytes } else { 0 };
            }
        }
        // Five standard deviations are under 0.2.
        let mean = gone as f64 / 4_000.0;
        assert!((6.8..7.2).contains(&mean), "{mean}");
    }
}
