//! Leaves out rows in which a literal prefix occurs, but no match follows.
//!
//! ```text
//!   "login":"a[a-z]+1"      literal prefix  "login":"a
//!
//!   ..."login":"  [octocat]  ","id":...        no literal prefix
//!   ..."login":"  [a11y-bot]  ","id":...       dead two bytes later: no match
//!   ..."login":"  [ann1]  ","id":...           matched in the literal behind the value
//! ```
//! The prefix is found like any needle. From each occurrence the automaton runs over a few more bytes and columns. That is
//! usually enough to exclude a match without the rest of the line.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::{Automaton, DEAD, Needle};

/// The longest needle that is used as a literal prefix, in bytes.
pub(crate) const LITERAL_PREFIX_BYTES_MAX: usize = 256;

/// Bytes of a value behind a prefix that are examined, at most: one value may contain thousands of prefixes.
const CONTINUATION_BYTES_MAX: usize = 256;

/// A text with which every match begins, and the automaton that starts at its first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiteralPrefix<'n> {
    text: &'n [u8],
    pub(crate) automaton: &'n Automaton,
}

impl<'n> LiteralPrefix<'n> {
    pub(crate) fn new(needle: &'n Needle, automaton: &'n Automaton) -> Self {
        Self { text: needle.text(), automaton }
    }

    /// The state after the first `len` bytes of the prefix.
    pub(crate) fn state_after(&self, len: usize) -> u16 {
        self.automaton.run(self.automaton.start(), self.text.get(..len).unwrap_or_default())
    }

    /// Whether a match may follow in `state`. `rest` is the rest of the value, an LF and further values.
    pub(crate) fn may_continue(&self, state: u16, rest: &[u8]) -> bool {
        let rest = rest.get(..CONTINUATION_BYTES_MAX).unwrap_or(rest);
        let end = memchr::memchr(b'\n', rest).and_then(|end| rest.get(..end));
        self.automaton.run(state, end.unwrap_or(rest)) != DEAD
    }
}
