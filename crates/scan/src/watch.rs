//! Whether a search is still wanted: looked at between bounded slices of work.

use std::cell::Cell;

/// Asks whether to stop, and remembers a yes. Whatever a search says after it was stopped says nothing.
pub(crate) struct Watch<'a> {
    cancel: &'a dyn Fn() -> bool,
    stopped: Cell<bool>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(cancel: &'a dyn Fn() -> bool) -> Self {
        Self { cancel, stopped: Cell::new(false) }
    }

    /// One that never stops a search.
    pub(crate) fn never() -> Self {
        Self::new(&|| false)
    }

    /// Asks whether to stop.
    pub(crate) fn look(&self) -> bool {
        if !self.stopped.get() && (self.cancel)() {
            self.stopped.set(true);
        }
        self.stopped.get()
    }

    /// Whether it was told to stop before.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}
