//! Searches a raw column: values with an LF after each.
#![deny(clippy::indexing_slicing)]

use bucksaw_search::{Bitmap, RowSet};
use memchr::{memchr, memchr_iter, memmem};

use crate::search::text_predicate::{MatchAnchor, TextPredicate};

/// A shorter column is tested value by value, in bytes: preparing a finder takes longer.
const FINDER_TEXT_BYTES_MIN: usize = 512;

/// The rows that pass a predicate with an anchor other than `Anywhere`.
pub(crate) fn find_anchored(text: &[u8], rows: usize, predicate: &TextPredicate<'_>) -> RowSet {
    if predicate.needle.any_case() || predicate.text.is_empty() || text.len() < FINDER_TEXT_BYTES_MIN {
        let mut values = text.split(|byte| *byte == b'\n');
        return RowSet::from_fn(rows, |_| values.next().is_some_and(|value| predicate.matches(value)));
    }
    let at_start = matches!(predicate.anchor, MatchAnchor::Start | MatchAnchor::Whole);
    let at_end = matches!(predicate.anchor, MatchAnchor::End | MatchAnchor::Whole);
    let lf = |is: bool| if is { b"\n".as_slice() } else { b"" };
    // Prepared per column, because the delimiters depend on the predicate's anchor, and `FINDER_TEXT_BYTES_MIN` bounds the share of
    // its cost. A cache per predicate would live through the plan of a query, above this crate.
    let delimited = [lf(at_start), predicate.text, lf(at_end)].concat();
    let finder = memmem::Finder::new(&delimited);
    let found =
        collect_rows(text, rows, |from| finder.find(text.get(from..)?).map(|at| from + at + usize::from(at_start)));
    // No LF precedes the first value.
    let first = memchr(b'\n', text).and_then(|end| text.get(..end));
    if at_start && first.is_some_and(|first| predicate.matches(first)) {
        let mut bits = Bitmap::new(rows);
        bits.set(0);
        return found | RowSet::from_bitmap(bits);
    }
    found
}

/// The rows that contain an offset returned by `find`, which searches from a given offset on.
fn collect_rows(text: &[u8], rows: usize, find: impl Fn(usize) -> Option<usize>) -> RowSet {
    let Some(first) = find(0) else { return RowSet::None };
    let mut found = Bitmap::new(rows);
    let (mut row, mut counted, mut next) = (0, 0, Some(first));
    while let Some(at) = next {
        row += memchr_iter(b'\n', text.get(counted..at).unwrap_or_default()).count();
        counted = at;
        found.set(row);
        // Continue behind the value. Its LF may be the first byte of the next occurrence.
        let Some(end) = text.get(at..).and_then(|rest| memchr(b'\n', rest)) else { break };
        next = find(at + end);
    }
    RowSet::from_bitmap(found)
}
