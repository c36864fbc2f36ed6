//! Numbering the records of one producer as they arrive.
//!
//! The ids of a connection should rise, since ordered records are cheap to store; so a clock that steps back a little
//! does not show. One that steps back far was wrong before, and is followed: the numbers go on, so no id is given twice.

use crate::{Id, Millis, Producer};

/// The numbers of one producer.
#[derive(Clone, Copy, Debug)]
pub struct IdAllocator {
    producer: Producer,
    /// The next number; one more than `u32::MAX` when all are used up.
    next_sequence: u64,
    last_time: Millis,
}

impl IdAllocator {
    /// How far the clock may step back, in milliseconds, before its new time is taken: one hour.
    pub const CLOCK_BACKSTEP_MS_MAX: u64 = 3_600_000;

    /// The numbers of a producer that has none yet.
    #[must_use]
    pub fn new(producer: Producer) -> Self {
        Self { producer, next_sequence: 0, last_time: Millis(0) }
    }

    /// The id of the first of `count` records (at least 1) that arrive at `now`. It is used up only by
    /// [`Self::advance`]. `None` when the numbers do not reach, and the caller must take a new producer.
    #[must_use]
    pub fn next_first_id(&self, now: Millis, count: u32) -> Option<Id> {
        let next = u32::try_from(self.next_sequence).ok()?;
        next.checked_add(count.saturating_sub(1))?;
        let at = if self.last_time.saturating_sub(Self::CLOCK_BACKSTEP_MS_MAX) > now {
            now
        } else {
            now.max(self.last_time)
        };
        Some(Id::new(at, self.producer, next))
    }

    /// Uses up the ids of `count` records from `first` on.
    pub fn advance(&mut self, first: Id, count: u32) {
        self.next_sequence = u64::from(first.sequence()) + u64::from(count);
        self.last_time = first.time();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_unless_the_clock_was_far_off() {
        let mut numbering = IdAllocator::new(Producer::new(7));
        let mut check = |now: u64, want_ms: u64, want_sequence: u32| {
            let first = numbering.next_first_id(Millis(now), 10).unwrap();
            assert_eq!(first, Id::new(Millis(want_ms), Producer::new(7), want_sequence));
            numbering.advance(first, 10);
        };
        check(10_000_000, 10_000_000, 0);
        check(10_000_005, 10_000_005, 10);
        check(9_000_000, 10_000_005, 20);
        check(10_000_005 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 10_000_005, 30);
        check(10_000_004 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 10_000_004 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 40);
    }

    #[test]
    fn sequence_numbers_run_out() {
        let mut numbering = IdAllocator::new(Producer::new(7));
        numbering.advance(Id::new(Millis(1), Producer::new(7), u32::MAX - 2), 1);
        assert!(numbering.next_first_id(Millis(1), 3).is_none());
        let last = numbering.next_first_id(Millis(1), 2).unwrap();
        numbering.advance(last, 2);
        assert!(numbering.next_first_id(Millis(1), 1).is_none());
    }
}
