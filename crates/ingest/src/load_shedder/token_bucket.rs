//! The redirect budget: a token bucket that is refilled by replacement.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bucksaw_env::Entropy;

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
    fn lock(&self) -> MutexGuard<'_, TokenBucketState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the contents.
    pub(super) fn refill(&self, bytes: u64) {
        *self.lock() = TokenBucketState { bytes_left: bytes, is_unspent: bytes > 0 };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().bytes_left == 0
    }

    /// Whether the bucket is empty although no client was redirected, by chance.
    pub(super) fn is_spent_without_redirect(&self) -> bool {
        let held = self.lock();
        held.bytes_left == 0 && held.is_unspent
    }

    /// Takes `bytes` out; returns whether the client may be redirected. If there are fewer, the client is redirected with the
    /// probability of their share, and the bucket is empty in either case. So one busy client is redirected now and then, and
    /// never many at once.
    pub(super) fn try_spend(&self, bytes: u64, entropy: &dyn Entropy) -> bool {
        let mut held = self.lock();
        let had = held.bytes_left;
        held.bytes_left = had.saturating_sub(bytes);
        let goes = had >= bytes || u128::from(entropy.next_u64()) * u128::from(bytes) < u128::from(had) << u64::BITS;
        held.is_unspent &= !goes;
        goes
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
        let mut in_vain = 0;
        for _ in 0..1_000 {
            bucket.refill(1);
            assert!(!bucket.is_spent_without_redirect());
            let went = bucket.try_spend(2, &*entropy);
            assert_eq!(bucket.is_spent_without_redirect(), !went);
            in_vain += usize::from(!went);
        }
        assert!((400..600).contains(&in_vain), "{in_vain}");
        bucket.refill(0);
        assert!(bucket.is_empty() && !bucket.is_spent_without_redirect());
        let mut gone = 0;
        for _ in 0..4_000 {
            bucket.refill(7);
            // The first fits in; the second goes in three of five tries, and then nothing does.
            for bytes in [4, 5, 1, 1] {
                gone += if bucket.try_spend(bytes, &*entropy) { bytes } else { 0 };
            }
        }
        // Five standard deviations are under 0.2.
        let mean = gone as f64 / 4_000.0;
        assert!((6.8..7.2).contains(&mean), "{mean}");
    }
}
