//! The redirect budget: a token bucket that is refilled by replacement.

use std::sync::Mutex;

use bucksaw_env::Entropy;

use crate::lock::lock;

/// The total rate of clients that may be redirected, in bytes per second.
#[derive(Debug, Default)]
pub(super) struct TokenBucket(Mutex<TokenBucketState>);

#[derive(Debug, Default)]
struct TokenBucketState {
    bytes_left: u64,
    /// Whether the bucket was refilled and no client was redirected since.
    is_unspent: bool,
}

impl TokenBucket {
    /// Replaces the contents.
    pub(super) fn refill(&self, bytes: u64) {
        *lock(&self.0) = TokenBucketState { bytes_left: bytes, is_unspent: bytes > 0 };
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).bytes_left == 0
    }

    /// Whether the bucket is empty although no client was redirected, by chance.
    pub(super) fn is_spent_without_redirect(&self) -> bool {
        let state = lock(&self.0);
        state.bytes_left == 0 && state.is_unspent
    }

    /// Takes `bytes` out; returns whether the client may be redirected. If there are fewer, the client is redirected with the
    /// probability of their share, and the bucket is empty in either case. So one busy client is redirected now and then, and
    /// never many at once.
    pub(super) fn try_spend(&self, bytes: u64, entropy: &dyn Entropy) -> bool {
        let mut state = lock(&self.0);
        let left = state.bytes_left;
        state.bytes_left = left.saturating_sub(bytes);
        let fits = left >= bytes || u128::from(entropy.next_u64()) * u128::from(bytes) < u128::from(left) << u64::BITS;
        state.is_unspent &= !fits;
        fits
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_env::Env;

    use super::*;

    #[test]
    fn spending_averages_to_the_refilled_amount() {
        let entropy = Env::real().entropy;
        let bucket = TokenBucket::default();
        assert!(bucket.is_empty() && !bucket.try_spend(1, &*entropy) && !bucket.is_spent_without_redirect());
        bucket.refill(10);
        assert!(
            bucket.try_spend(6, &*entropy)
                && bucket.try_spend(4, &*entropy)
                && bucket.is_empty()
                && !bucket.is_spent_without_redirect()
        );
        let mut unspent = 0;
        for _ in 0..1_000 {
            bucket.refill(1);
            assert!(!bucket.is_spent_without_redirect());
            let is_redirected = bucket.try_spend(2, &*entropy);
            assert_eq!(bucket.is_spent_without_redirect(), !is_redirected);
            unspent += usize::from(!is_redirected);
        }
        assert!((400..600).contains(&unspent), "{unspent}");
        bucket.refill(0);
        assert!(bucket.is_empty() && !bucket.is_spent_without_redirect());
        let mut spent = 0;
        for _ in 0..4_000 {
            bucket.refill(7);
            // The first fits, the second in three of five cases, the others never.
            for bytes in [4, 5, 1, 1] {
                spent += if bucket.try_spend(bytes, &*entropy) { bytes } else { 0 };
            }
        }
        // Five standard deviations are under 0.2.
        let mean = spent as f64 / 4_000.0;
        assert!((6.8..7.2).contains(&mean), "{mean}");
    }
}
