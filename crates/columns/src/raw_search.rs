//! Searching values that stand one after the other, an LF after each.
#![deny(clippy::indexing_slicing)]

use memchr::{memchr, memchr_iter, memmem};

use crate::column_search::{MatchAnchor, TextPredicate};
use crate::row_set::{Bitmap, RowSet};

/// Less text than this is looked at value by value, in bytes: to prepare a search takes longer.
const FINDER_TEXT_BYTES_MIN: usize = 512;

/// The rows whose value begins with what is asked for, ends with it or is it.
pub(crate) fn find_anchored(text: &[u8], rows: usize, ask: &TextPredicate<'_>) -> RowSet {
    if ask.needle.any_case() || ask.text.is_empty() || text.len() < FINDER_TEXT_BYTES_MIN {
        let mut values = text.split(|byte| *byte == b'\n');
        return RowSet::from_fn(rows, |_| values.next().is_some_and(|value| ask.matches(value)));
    }
    let from_start = matches!(ask.anchor, MatchAnchor::Start | MatchAnchor::Whole);
    let to_end = matches!(ask.anchor, MatchAnchor::End | MatchAnchor::Whole);
    let lf = |is: bool| if is { b"\n".as_slice() } else { b"" };
    let sought = [lf(from_start), ask.text, lf(to_end)].concat();
    let finder = memmem::Finder::new(&sought);
    let found =
        collect_rows(text, rows, |from| finder.find(text.get(from..)?).map(|at| from + at + usize::from(from_start)));
    // No LF stands before the first value.
    let first = memchr(b'\n', text).and_then(|end| text.get(..end));
    if from_start && first.is_some_and(|first| ask.matches(first)) {
        let mut bits = Bitmap::new(rows);
        bits.set(0);
        return found | RowSet::from_bitmap(bits);
    }
    found
}

/// The rows in which `find` finds something: it gives the next place at or after another.
fn collect_rows(text: &[u8], rows: usize, find: impl Fn(usize) -> Option<usize>) -> RowSet {
    let Some(first) = find(0) else { return RowSet::None };
    let mut found = Bitmap::new(rows);
    let (mut row, mut counted, mut next) = (0, 0, Some(first));
    while let Some(at) = next {
        row += memchr_iter(b'\n', text.get(counted..at).unwrap_or_default()).count();
        counted = at;
        found.set(row);
        // The rest of the value says nothing new; its LF may be the first byte of the next hit.
        let Some(end) = text.get(at..).and_then(|rest| memchr(b'\n', rest)) else { break };
        next = find(at + end);
    }
    RowSet::from_bitmap(found)
}
