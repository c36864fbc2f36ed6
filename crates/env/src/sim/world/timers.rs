//! Scheduled wake-ups and actions.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use super::process_id::Owner;

/// Orders timers by time, then by a random number, then by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    pub(super) at: Duration,
    pub(super) tie_break: u64,
    pub(super) sequence: u64,
}

pub(super) enum TimerAction {
    Wake(Waker),
    /// Runs the action if its owner still runs.
    Run(Owner, ScheduledAction),
}

pub(super) type ScheduledAction = Box<dyn FnOnce() + Send>;

/// A tree, not a heap, because most timers are timeouts that are removed before they fire.
pub(super) type TimerMap = BTreeMap<TimerKey, TimerAction>;
