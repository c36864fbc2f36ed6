//! Batches with a key: a retry gets the ids that the first try had.
//!
//! The producer of such a batch is made from its key, its sequence numbers count its records, and its time is that of the
//! key, if the key carries one that can be right: then all nodes number it alike and none has to know of it. Else it is that
//! of the first try, which must be remembered, and only the node that saw it does. The frames carry it, and so does what the
//! store gathers from them, so a restart does not forget what is in the queue or on the shelf of this node.

use std::collections::{HashMap, VecDeque};

use bucksaw_record::{Millis, Producer, key_time};

/// How long a key is remembered, in milliseconds: a day.
pub(crate) const KEY_AGE_MAX_MS: u64 = 24 * 3_600_000;

/// How long ago the time that a key carries may be, in milliseconds: a week. Long enough for whoever keeps batches while no
/// node can be reached, and too short for a number that only looks like a time to be taken for one.
pub(crate) const STATED_AGE_MAX_MS: u64 = 7 * KEY_AGE_MAX_MS;

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
    /// The time of a batch with this key.
    pub(crate) fn base(&mut self, key: &[u8], now: Millis) -> Millis {
        self.forget(now);
        let producer = Producer::keyed(key);
        // What is known comes first: while a key gets too old, or its time comes near, its batch stays where it was.
        if let Some(base) = self.base.get(&producer) {
            return *base;
        }
        if let Some(stated) = stated(key, now) {
            return stated;
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

/// The time that a key carries, unless it is too far from now: a key must not put records where nobody looks for them.
fn stated(key: &[u8], now: Millis) -> Option<Millis> {
    let at = key_time(key)?;
    let (_, is_ahead) = at.not_ahead_of(now);
    (!is_ahead && at >= now.minus(STATED_AGE_MAX_MS)).then_some(at)
}

#[cfg(test)]
mod tests {
    use bucksaw_record::Id;

    use super::*;

    #[test]
    fn a_retry_has_the_time_of_the_first_try() {
        let mut keys = Keys::default();
        let (a, b) = (b"a", b"b");
        assert_eq!(keys.base(a, Millis(1_000)), Millis(1_000));
        assert_eq!(keys.base(a, Millis(5_000)), Millis(1_000));
        assert_eq!(keys.base(b, Millis(6_000)), Millis(6_000));
        assert_eq!(keys.base(a, Millis(1_001 + KEY_AGE_MAX_MS)), Millis(1_001 + KEY_AGE_MAX_MS));
        assert_eq!(keys.base(b, Millis(1_001 + KEY_AGE_MAX_MS)), Millis(6_000));
    }

    #[test]
    fn a_key_that_carries_its_time_needs_no_memory() {
        let stated = 1_700_000_000_000_u64;
        let key = Id::new(Millis(stated), Producer::new(5), 6).to_string();
        let check = |now: u64, want: u64| {
            // Each time at a node that has not met it.
            assert_eq!(Keys::default().base(key.as_bytes(), Millis(now)), Millis(want), "{now}");
        };
        check(stated, stated);
        check(stated + 5_000, stated);
        check(stated + STATED_AGE_MAX_MS, stated);
        check(stated - Millis::AHEAD_MAX, stated);
        // A time that cannot be right counts for nothing.
        check(stated + STATED_AGE_MAX_MS + 1, stated + STATED_AGE_MAX_MS + 1);
        check(stated - Millis::AHEAD_MAX - 1, stated - Millis::AHEAD_MAX - 1);
        for hostile in [Id::MIN, Id::MAX] {
            assert_eq!(Keys::default().base(hostile.to_string().as_bytes(), Millis(stated)), Millis(stated));
        }
        let mut keys = Keys::default();
        keys.base(key.as_bytes(), Millis(stated));
        assert!(keys.base.is_empty() && keys.order.is_empty(), "nothing is kept of it");
    }

    #[test]
    fn what_was_begun_stays_where_it_is() {
        let stated = 1_700_000_000_000_u64;
        let key = Id::new(Millis(stated), Producer::new(5), 6).to_string();
        // Too far ahead at the first try, and no more at the second.
        let mut keys = Keys::default();
        let first = stated - Millis::AHEAD_MAX - 10;
        assert_eq!(keys.base(key.as_bytes(), Millis(first)), Millis(first));
        assert_eq!(keys.base(key.as_bytes(), Millis(first + 1_000)), Millis(first));
        // Found on disk, and too old by now.
        let mut keys = Keys::default();
        let later = stated + STATED_AGE_MAX_MS + 10;
        keys.remember(Producer::keyed(key.as_bytes()), Millis(stated), Millis(later));
        assert_eq!(keys.base(key.as_bytes(), Millis(later)), Millis(stated));
    }
}
