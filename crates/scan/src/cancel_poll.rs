//! Whether a search is still wanted: looked at between bounded slices of work.

use std::cell::Cell;

/// Asks whether to stop, and remembers a yes. Whatever a search says after it was stopped says nothing.
pub(crate) struct CancelPoll<'a> {
    cancel: &'a dyn Fn() -> bool,
    is_cancelled: Cell<bool>,
}

impl<'a> CancelPoll<'a> {
    pub(crate) fn new(cancel: &'a dyn Fn() -> bool) -> Self {
        Self { cancel, is_cancelled: Cell::new(false) }
    }

    /// One that never stops a search.
    pub(crate) fn never() -> Self {
        Self::new(&|| false)
    }

    /// Asks whether to stop.
    pub(crate) fn poll(&self) -> bool {
        if !self.is_cancelled.get() && (self.cancel)() {
            self.is_cancelled.set(true);
        }
        self.is_cancelled.get()
    }

    /// Whether it was told to stop before.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }
}

impl std::fmt::Debug for CancelPoll<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("stopped", &self.is_cancelled).finish_non_exhaustive()
    }
}
