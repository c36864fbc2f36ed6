//! What is going to happen, and when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use std::task::Waker;

use super::host::Owner;

/// The moment, then the seed's lot among those of one moment, then a number that is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at: Duration,
    lot: u64,
    number: u64,
}

/// Something that happens at its time.
pub(super) enum Timer {
    /// Somebody goes on who waited for nothing but the time.
    Wake(Waker),
    /// Something is done, if who does it still lives then.
    Do(Owner, Deed),
}

/// What is done when its time has come.
pub(super) type Deed = Box<dyn FnOnce() + Send>;

/// A tree, not a heap, because most timers are limits of time that are taken back before they come.
#[derive(Default)]
pub(super) struct Timers {
    timers: BTreeMap<Due, Timer>,
    given: u64,
}

impl Timers {
    /// A moment for something that is yet to be said.
    pub(super) fn due(&mut self, at: Duration, lot: u64) -> Due {
        self.given += 1;
        Due { at, lot, number: self.given }
    }

    pub(super) fn insert(&mut self, due: Due, timer: Timer) {
        self.timers.insert(due, timer);
    }

    /// The next one that is due at `until` or before.
    pub(super) fn pop(&mut self, until: Duration) -> Option<(Due, Timer)> {
        let first = self.timers.first_entry().filter(|first| first.key().at <= until)?;
        Some(first.remove_entry())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    pub(super) fn get_mut(&mut self, due: &Due) -> Option<&mut Timer> {
        self.timers.get_mut(due)
    }

    pub(super) fn remove(&mut self, due: &Due) -> Option<Timer> {
        self.timers.remove(due)
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.timers.keys()).finish()
    }
}
