//! What is to be done later, by the order of its times.

use std::collections::BTreeMap;
use std::time::Duration;

/// Things with their times. Those of the same time come in the order in which they were put in.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    pending: BTreeMap<(Duration, u64), T>,
    next_sequence: u64,
}

impl<T> Timers<T> {
    pub(crate) fn new() -> Self {
        Self { pending: BTreeMap::new(), next_sequence: 0 }
    }

    pub(crate) fn add(&mut self, at: Duration, thing: T) {
        self.pending.insert((at, self.next_sequence), thing);
        self.next_sequence += 1;
    }

    /// The first whose time has come.
    pub(crate) fn due(&mut self, now: Duration) -> Option<T> {
        let first = self.pending.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// When the first is due.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order() {
        let ms = Duration::from_millis;
        let mut timers = Timers::new();
        for (at, thing) in [(5, 'c'), (3, 'a'), (9, 'd'), (3, 'b')] {
            timers.add(ms(at), thing);
        }
        assert_eq!(timers.next_at(), Some(ms(3)));
        let due: String = std::iter::from_fn(|| timers.due(ms(8))).collect();
        assert_eq!((due.as_str(), timers.next_at()), ("abc", Some(ms(9))));
    }
}
