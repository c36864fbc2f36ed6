//! Scheduled wake-ups and actions.

use std::collections::BTreeMap;
use std::fmt;
use std::task::Waker;
use std::time::Duration;

use super::process_id::Owner;

/// Orders timers by time, then by a random number, then by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    pub(super) at: Duration,
    tie_break: u64,
    sequence: u64,
}

pub(super) enum TimerAction {
    Wake(Waker),
    /// Runs the action if its owner still runs.
    Run(Owner, ScheduledAction),
}

pub(super) type ScheduledAction = Box<dyn FnOnce() + Send>;

/// A tree, not a heap, because most timers are timeouts that are removed before they fire.
#[derive(Default)]
pub(super) struct TimerQueue {
    timers: BTreeMap<TimerKey, TimerAction>,
    last_sequence: u64,
}

impl TimerQueue {
    pub(super) fn new_key(&mut self, at: Duration, tie_break: u64) -> TimerKey {
        self.last_sequence += 1;
        TimerKey { at, tie_break, sequence: self.last_sequence }
    }

    pub(super) fn insert(&mut self, key: TimerKey, timer: TimerAction) {
        self.timers.insert(key, timer);
    }

    /// The next timer that is due at `until` or before.
    pub(super) fn pop(&mut self, until: Duration) -> Option<(TimerKey, TimerAction)> {
        let first = self.timers.first_entry().filter(|first| first.key().at <= until)?;
        Some(first.remove_entry())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    pub(super) fn get_mut(&mut self, key: &TimerKey) -> Option<&mut TimerAction> {
        self.timers.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &TimerKey) -> Option<TimerAction> {
        self.timers.remove(key)
    }
}

impl fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.timers.keys()).finish()
    }
}
