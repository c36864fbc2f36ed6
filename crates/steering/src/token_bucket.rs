//! The redirect budget: a token bucket that is refilled by replacement.

use std::sync::{Mutex, MutexGuard};

use bucksaw_env::{Entropy, lock};

/// The total rate of clients that may still be redirected, in bytes per second.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket(Mutex<TokenBucketState>);

#[derive(Debug, Default)]
struct TokenBucketState {
    bytes_left: u64,
    /// Whether no client was redirected since the bucket was refilled.
    is_unspent: bool,
}

impl TokenBucket {
    fn lock(&self) -> MutexGuard<'_, TokenBucketState> {
        lock(&self.0)
    }

    /// Replaces the contents.
    pub(crate) fn refill(&self, bytes: u64) {
        *self.lock() = TokenBucketState { bytes_left: bytes, is_unspent: bytes > 0 };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().bytes_left == 0
    }

    /// Whether the bucket is empty although no client was redirected, by chance.
    pub(crate) fn is_wasted(&self) -> bool {
        let state = self.lock();
        state.bytes_left == 0 && state.is_unspent
    }

    /// Takes `bytes` out; returns whether the client may be redirected. If fewer are left, the client is redirected with the
    /// probability of their share, and the bucket is empty in either case.
    pub(crate) fn try_spend(&self, bytes: u64, entropy: &dyn Entropy) -> bool {
        let mut state = self.lock();
        let left = state.bytes_left;
        state.bytes_left = left.saturating_sub(bytes);
        let is_redirected =
            left >= bytes || u128::from(entropy.next_u64()) * u128::from(bytes) < u128::from(left) << u64::BITS;
        state.is_unspent &= !is_redirected;
        is_redirected
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
        assert!(bucket.is_empty() && !bucket.try_spend(1, &*entropy) && !bucket.is_wasted());
        bucket.refill(10);
        assert!(
            bucket.try_spend(6, &*entropy)
                && bucket.try_spend(4, &*entropy)
                && bucket.is_empty()
                && !bucket.is_wasted()
        );
        let mut wasted = 0;
        for _ in 0..1_000 {
            bucket.refill(1);
            assert!(!bucket.is_wasted());
            let is_redirected = bucket.try_spend(2, &*entropy);
            assert_eq!(bucket.is_wasted(), !is_redirected);
            wasted += usize::from(!is_redirected);
        }
        assert!((400..600).contains(&wasted), "{wasted}");
        bucket.refill(0);
        assert!(bucket.is_empty() && !bucket.is_wasted());
        let mut spent = 0;
        for _ in 0..4_000 {
            bucket.refill(7);
            // 4 fit; 5 fit with a probability of three fifths; then the bucket is empty.
            for bytes in [4, 5, 1, 1] {
                spent += if bucket.try_spend(bytes, &*entropy) { bytes } else { 0 };
            }
        }
        // Five standard deviations are under 0.2.
        let mean = spent as f64 / 4_000.0;
        assert!((6.8..7.2).contains(&mean), "{mean}");
    }
}
