//! Assigns ids to the records of one producer as they arrive.
//!
//! Ascending ids are cheap to store, so the time of an id does not follow a clock that steps back by up to an hour. A
//! larger step means that the clock was wrong before, so the new time is used. Sequence numbers never repeat, so ids stay
//! unique.

use crate::{Id, Millis, Producer};

/// The id allocator of one producer.
#[derive(Clone, Copy, Debug)]
pub struct IdAllocator {
    producer: Producer,
    /// The next sequence number; `u32::MAX + 1` if none is left.
    next_sequence: u64,
    last_time: Millis,
}

impl IdAllocator {
    /// The largest step back of the clock, in milliseconds, that ids do not follow: one hour.
    pub const CLOCK_BACKSTEP_MS_MAX: u64 = 3_600_000;

    /// An allocator that starts at sequence number 0.
    pub fn new(producer: Producer) -> Self {
        Self { producer, next_sequence: 0, last_time: Millis(0) }
    }

    /// The id of the first of `count` records (at least 1) that arrive at `now`. Only [`Self::advance`] allocates it.
    /// `None` if fewer than `count` sequence numbers are left, and the caller needs a new producer.
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

    /// Allocates the ids of `count` records from `first` on.
    pub fn advance(&mut self, first: Id, count: u32) {
        self.next_sequence = u64::from(first.sequence()) + u64::from(count);
        self.last_time = first.time();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_unless_the_clock_steps_back_by_more_than_an_hour() {
        let mut allocator = IdAllocator::new(Producer::new(7));
        let mut check = |now: u64, want_ms: u64, want_sequence: u32| {
            let first = allocator.next_first_id(Millis(now), 10).unwrap();
            assert_eq!(first, Id::new(Millis(want_ms), Producer::new(7), want_sequence));
            allocator.advance(first, 10);
        };
        check(10_000_000, 10_000_000, 0);
        check(10_000_005, 10_000_005, 10);
        check(9_000_000, 10_000_005, 20);
        check(10_000_005 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 10_000_005, 30);
        check(10_000_004 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 10_000_004 - IdAllocator::CLOCK_BACKSTEP_MS_MAX, 40);
    }

    #[test]
    fn sequence_numbers_run_out() {
        let mut allocator = IdAllocator::new(Producer::new(7));
        allocator.advance(Id::new(Millis(1), Producer::new(7), u32::MAX - 2), 1);
        assert!(allocator.next_first_id(Millis(1), 3).is_none());
        let last = allocator.next_first_id(Millis(1), 2).unwrap();
        allocator.advance(last, 2);
        assert!(allocator.next_first_id(Millis(1), 1).is_none());
    }
}
