//! What is going to happen, and when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use std::task::Waker;

use super::host_state::Owner;

/// The moment, then the seed's lot among those of one moment, then a number that is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    pub(super) at: Duration,
    tie_break: u64,
    sequence: u64,
}

/// Something that happens at its time.
pub(super) enum TimerAction {
    /// Somebody goes on who waited for nothing but the time.
    Wake(Waker),
    /// Something is done, if who does it still lives then.
    Run(Owner, ScheduledAction),
}

/// What is done when its time has come.
pub(super) type ScheduledAction = Box<dyn FnOnce() + Send>;

/// A tree, not a heap, because most timers are limits of time that are taken back before they come.
#[derive(Default)]
pub(super) struct TimerQueue {
    timers: BTreeMap<TimerKey, TimerAction>,
    last_sequence: u64,
}

impl TimerQueue {
    /// A moment for something that is yet to be said.
    pub(super) fn new_key(&mut self, at: Duration, lot: u64) -> TimerKey {
        self.last_sequence += 1;
        TimerKey { at, tie_break: lot, sequence: self.last_sequence }
    }

    pub(super) fn insert(&mut self, due: TimerKey, timer: TimerAction) {
        self.timers.insert(due, timer);
    }

    /// The next one that is due at `until` or before.
    pub(super) fn pop(&mut self, until: Duration) -> Option<(TimerKey, TimerAction)> {
        let first = self.timers.first_entry().filter(|first| first.key().at <= until)?;
        Some(first.remove_entry())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    pub(super) fn get_mut(&mut self, due: &TimerKey) -> Option<&mut TimerAction> {
        self.timers.get_mut(due)
    }

    pub(super) fn remove(&mut self, due: &TimerKey) -> Option<TimerAction> {
        self.timers.remove(due)
    }
}

impl fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.timers.keys()).finish()
    }
}
