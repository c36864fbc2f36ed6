//! Polls for cancellation between bounded slices of work.

use std::cell::Cell;

/// Polls a cancel callback and remembers a cancellation. Results of a search after a cancellation are meaningless.
pub struct CancelPoll<'a> {
    cancel: &'a dyn Fn() -> bool,
    is_cancelled: Cell<bool>,
}

impl<'a> CancelPoll<'a> {
    /// A poll of this callback, which is cheap and may be called thousands of times per block.
    #[must_use]
    pub fn new(cancel: &'a dyn Fn() -> bool) -> Self {
        Self { cancel, is_cancelled: Cell::new(false) }
    }

    /// A poll that is never cancelled.
    #[must_use]
    pub fn never() -> Self {
        Self::new(&|| false)
    }

    /// Calls the callback, unless already cancelled; returns whether the search is cancelled.
    pub fn poll(&self) -> bool {
        if !self.is_cancelled.get() && (self.cancel)() {
            self.is_cancelled.set(true);
        }
        self.is_cancelled.get()
    }

    /// Whether a poll saw a cancellation.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }
}
