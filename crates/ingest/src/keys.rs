//! Batches with a key: a retry gets the ids that the first try had.
//!
//! The producer of such a batch is made from its key, its sequence numbers count its records, and its time is that of
//! the first try. The last must be remembered. The frames carry it, and so does what the store gathers from them, so a
//! restart does not forget it.

use std::collections::{HashMap, VecDeque};

use bucksaw_record::{Millis, Producer};

/// How long a key is remembered, in milliseconds: a day.
pub(crate) const KEY_AGE_MAX_MS: u64 = 24 * 3_600_000;

/// How many keys are remembered: 16 bytes each and as much again for the tables, so some 64 MB at the very most.
const KEYS_MAX: usize = 1 << 20;

/// The keys of the last day.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    base: HashMap<Producer, Millis>,
    /// In the order in which they were first seen here.
    order: VecDeque<(Millis, Producer)>,
}

impl Keys {
    /// The time of the first try of this producer's batch: `now` when this is it.
    pub(crate) fn base(&mut self, producer: Producer, now: Millis) -> Millis {
        self.forget(now);
        if let Some(base) = self.base.get(&producer) {
            return *base;
        }
        self.remember(producer, now, now);
        now
    }

    /// Takes note of a key that was found on disk.
    pub(crate) fn remember(&mut self, producer: Producer, base: Millis, now: Millis) {
        if self.base.insert(producer, base).is_none() {
            self.order.push_back((now, producer));
        }
        self.forget(now);
    }

    fn forget(&mut self, now: Millis) {
        while let Some((seen, producer)) = self.order.front() {
            if self.order.len() <= KEYS_MAX && now.0.saturating_sub(seen.0) <= KEY_AGE_MAX_MS {
                break;
            }
            self.base.remove(producer);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_has_the_time_of_the_first_try() {
        let mut keys = Keys::default();
        let (a, b) = (Producer::keyed(b"a"), Producer::keyed(b"b"));
        assert_eq!(keys.base(a, Millis(1_000)), Millis(1_000));
        assert_eq!(keys.base(a, Millis(5_000)), Millis(1_000));
        assert_eq!(keys.base(b, Millis(6_000)), Millis(6_000));
        assert_eq!(keys.base(a, Millis(1_001 + KEY_AGE_MAX_MS)), Millis(1_001 + KEY_AGE_MAX_MS));
        assert_eq!(keys.base(b, Millis(1_001 + KEY_AGE_MAX_MS)), Millis(6_000));
    }
}
