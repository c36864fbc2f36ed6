//! What follows a text that every match of a regex begins with.
//!
//! ```text
//!   "login":"a[a-z]+1"      the head is  "login":"a
//!
//!   ..."login":"  [octocat]  ","id":...        not the head
//!   ..."login":"  [a11y-bot]  ","id":...       the automaton is dead behind two bytes: no match
//!   ..."login":"  [ann1]  ","id":...           matched in the literal behind the value
//! ```
//! The head is found as any text is. Where it is found, the automaton is run on from there over a few bytes and columns:
//! mostly that is enough to see that nothing matches, and then the rest of the line need not be looked at.
#![deny(clippy::indexing_slicing)]

use crate::automaton::{Automaton, DEAD};
use crate::column_search::Needle;

/// Bytes of a value behind a head that are looked at, at most: a head may be in it thousands of times.
const CONTINUATION_BYTES_MAX: usize = 256;

/// A text that every match begins with, and the automaton that is begun where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiteralPrefix<'n> {
    text: &'n [u8],
    pub(crate) automaton: &'n Automaton,
}

impl<'n> LiteralPrefix<'n> {
    pub(crate) fn new(needle: &'n Needle, automaton: &'n Automaton) -> Self {
        Self { text: needle.text(), automaton }
    }

    /// Where the automaton stands after the first bytes of the text.
    pub(crate) fn state_after(&self, taken: usize) -> u16 {
        self.automaton.run(self.automaton.start(), self.text.get(..taken).unwrap_or_default())
    }

    /// Whether something may match that has come to `state` before `rest`: the end of a value, an LF and other values.
    pub(crate) fn may_continue(&self, state: u16, rest: &[u8]) -> bool {
        let rest = rest.get(..CONTINUATION_BYTES_MAX).unwrap_or(rest);
        let end = memchr::memchr(b'\n', rest).and_then(|end| rest.get(..end));
        self.automaton.run(state, end.unwrap_or(rest)) != DEAD
    }
}
