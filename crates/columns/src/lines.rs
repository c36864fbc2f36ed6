//! Searching values that stand one after the other, an LF after each.
#![deny(clippy::indexing_slicing)]

use memchr::{memchr, memchr_iter, memmem};

use crate::bits::{Bits, Rows};
use crate::search::{Ask, Where};

/// Less text than this is looked at value by value, in bytes: to prepare a search takes longer.
const SMALL: usize = 512;

/// The rows whose value begins with what is asked for, ends with it or is it.
pub(crate) fn find(text: &[u8], rows: usize, ask: &Ask<'_>) -> Rows {
    if ask.needle.any_case() || ask.text.is_empty() || text.len() < SMALL {
        let mut values = text.split(|byte| *byte == b'\n');
        return Rows::by(rows, |_| values.next().is_some_and(|value| ask.matches(value)));
    }
    let from_start = matches!(ask.place, Where::Start | Where::Whole);
    let to_end = matches!(ask.place, Where::End | Where::Whole);
    let lf = |is: bool| if is { b"\n".as_slice() } else { b"" };
    let sought = [lf(from_start), ask.text, lf(to_end)].concat();
    let finder = memmem::Finder::new(&sought);
    let found = hits(text, rows, |from| finder.find(text.get(from..)?).map(|at| from + at + usize::from(from_start)));
    // No LF stands before the first value.
    let first = memchr(b'\n', text).and_then(|end| text.get(..end));
    if from_start && first.is_some_and(|first| ask.matches(first)) {
        let mut bits = Bits::new(rows);
        bits.set(0);
        return found | Rows::tidy(bits);
    }
    found
}

/// The rows in which `find` finds something: it gives the next place at or after another.
fn hits(text: &[u8], rows: usize, find: impl Fn(usize) -> Option<usize>) -> Rows {
    let Some(first) = find(0) else { return Rows::None };
    let mut found = Bits::new(rows);
    let (mut row, mut counted, mut next) = (0, 0, Some(first));
    while let Some(at) = next {
        row += memchr_iter(b'\n', text.get(counted..at).unwrap_or_default()).count();
        counted = at;
        found.set(row);
        // The rest of the value says nothing new; its LF may be the first byte of the next hit.
        let Some(end) = text.get(at..).and_then(|rest| memchr(b'\n', rest)) else { break };
        next = find(at + end);
    }
    Rows::tidy(found)
}
