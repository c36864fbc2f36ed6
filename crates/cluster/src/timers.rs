//! A timer queue.

use std::collections::BTreeMap;
use std::time::Duration;

/// Timers, ordered by time and then by insertion.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    pending: BTreeMap<(Duration, u64), T>,
    next_sequence: u64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self { pending: BTreeMap::new(), next_sequence: 0 }
    }

    pub(crate) fn add(&mut self, at: Duration, item: T) {
        self.pending.insert((at, self.next_sequence), item);
        self.next_sequence += 1;
    }

    /// Removes the first timer that is due.
    pub(crate) fn due(&mut self, now: Duration) -> Option<T> {
        let first = self.pending.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// The time of the first timer.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_order() {
        let ms = Duration::from_millis;
        let mut timers = Timers::new();
        for (at, item) in [(5, 'c'), (3, 'a'), (9, 'd'), (3, 'b')] {
            timers.add(ms(at), item);
        }
        assert_eq!(timers.next_at(), Some(ms(3)));
        let due: String = std::iter::from_fn(|| timers.due(ms(8))).collect();
        assert_eq!((due.as_str(), timers.next_at()), ("abc", Some(ms(9))));
    }
}
