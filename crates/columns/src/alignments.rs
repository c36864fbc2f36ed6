//! The ways in which a text can lie over the columns of a table.
//!
//! ```text
//!   parts    took  [number]  ms for "  [path]  "
//!   text       ok 1210 ms
//!              ══ ════ ═══       the end of a literal, a whole value, the beginning of a literal
//! ```
//! It begins in a literal or in a value, goes over borders, and ends in a literal or a value. What falls on a column is
//! what that is asked for: the end of a value first, then whole values, the beginning of one at last. A row matches when
//! all the columns of one way answer with it.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use crate::column_search::{ColumnSearch, MatchAnchor, TextPredicate};
use crate::column_tree::{TableNode, TablePart};
use crate::row_set::RowSet;

/// Steps and questions to columns for each part of a table and byte of text, at most. Texts such as `1 1 1 1` can lie
/// over a row of numbers in more ways than it takes to look at the rows.
const STEPS_PER_BYTE_MAX: usize = 16;
const PREDICATES_PER_BYTE_MAX: usize = 4;

/// Parts behind a head that are looked at, and heads in one literal, at most. Beyond, and for more heads than a table has
/// parts and the text bytes, rows are left in.
const FOLLOWING_PARTS_MAX: usize = 4;
const LITERAL_PREFIXES_MAX: usize = 4;

/// Of many rows so many are looked at first, and all of them if behind the head some of these are dead: it takes less
/// time than to have the automaton go through the lines from their beginning.
const SAMPLE_ROWS: usize = 64;
const SAMPLE_DEAD_MIN: usize = 8;

/// Follows all ways over one table.
pub(crate) struct Alignments<'w> {
    search: &'w ColumnSearch<'w>,
    parts: &'w [TablePart],
    rows: usize,
    predicate: TextPredicate<'w>,
    /// What the way so far asks of which columns: the part of the text, and where it must be.
    path: Vec<(usize, Range<usize>, MatchAnchor)>,
    matching_rows: RowSet,
    steps_left: usize,
    predicates_left: usize,
    prefixes_left: usize,
}

/// What a part begins with.
#[derive(Clone, Copy)]
enum PartStart<'b> {
    /// There is no part any more.
    End,
    /// A text that is the same in all rows.
    Literal(&'b [u8]),
    /// That differs from row to row.
    Varying,
}

/// Why it was stopped.
enum StopReason {
    Damaged,
    TooManyAlignments,
}

impl<'w> Alignments<'w> {
    /// The rows that match in some way; `None` inside when there are too many ways, outside when the block is damaged.
    pub(crate) fn search(
        search: &'w ColumnSearch<'w>,
        table: &TableNode,
        ask: TextPredicate<'w>,
    ) -> Option<Option<RowSet>> {
        let (parts, rows) = (search.block.tree.parts(table), table.rows);
        let size = parts.len() + ask.text.len();
        let (steps_left, questions_left) = (size * STEPS_PER_BYTE_MAX, size * PREDICATES_PER_BYTE_MAX);
        let (path, found, heads_left) = (Vec::new(), RowSet::None, size);
        let mut ways = Self {
            search,
            parts,
            rows,
            predicate: ask,
            path,
            matching_rows: found,
            steps_left,
            predicates_left: questions_left,
            prefixes_left: heads_left,
        };
        let done = match ask.anchor {
            MatchAnchor::Start | MatchAnchor::Whole => ways.continue_at(0, 0),
            MatchAnchor::Anywhere | MatchAnchor::End => (0..parts.len()).try_for_each(|at| ways.start_in_part(at)),
        };
        match done {
            Ok(()) => Some(Some(ways.matching_rows)),
            Err(StopReason::TooManyAlignments) => Some(None),
            Err(StopReason::Damaged) => None,
        }
    }

    /// The ways that begin in part `at`, wherever in it.
    fn start_in_part(&mut self, at: usize) -> Result<(), StopReason> {
        let Some(part) = self.parts.get(at).filter(|_| self.matching_rows != RowSet::All) else { return Ok(()) };
        let text = self.predicate.text;
        let anywhere = self.predicate.anchor == MatchAnchor::Anywhere;
        let last = at + 1 == self.parts.len();
        match (self.search.constant_literal(part), part) {
            (Some(list), _) => {
                if anywhere && self.search.literal_matches(list, &self.predicate) {
                    self.match_literal(at)?;
                    if self.matching_rows == RowSet::All {
                        return Ok(());
                    }
                }
                let literal = self.search.block.literal(list);
                let tail = literal.get(literal.len().saturating_sub(text.len())..).unwrap_or_default();
                // What begins the text is seldom in the gap between two columns.
                let (first, other) = self.predicate.first_byte_cases();
                for start in memchr::memchr2_iter(first, other, tail) {
                    let end = tail.get(start..).unwrap_or_default();
                    if self.predicate.texts_equal(end, text.get(..end.len()).unwrap_or_default()) {
                        self.continue_at(at + 1, end.len())?;
                    }
                }
                Ok(())
            }
            (None, TablePart::Column(node)) => {
                if anywhere {
                    self.with_predicate(*node, 0..text.len(), MatchAnchor::Anywhere, Self::finish_alignment)?;
                }
                // A text that ends with the value is found in it, unless it must end the row.
                let most = if anywhere { text.len().saturating_sub(1) } else { text.len() };
                let next = self.next_part(at + 1);
                let most = if last && anywhere || !self.may_continue(next) { 0 } else { most };
                for taken in 1..=most {
                    if self.may_continue_with(next, taken) {
                        self.with_predicate(*node, 0..taken, MatchAnchor::End, |ways| ways.continue_at(at + 1, taken))?;
                    }
                }
                Ok(())
            }
            (None, TablePart::Literal(_)) => Ok(()),
        }
    }

    /// The ways in which the text goes on from byte `taken` at the beginning of part `at`.
    fn continue_at(&mut self, at: usize, taken: usize) -> Result<(), StopReason> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(StopReason::TooManyAlignments)?;
        let to_end = matches!(self.predicate.anchor, MatchAnchor::End | MatchAnchor::Whole);
        let text = self.predicate.text;
        let rest = text.get(taken..).unwrap_or_default();
        if rest.is_empty() && !to_end {
            return self.finish_before(at, taken);
        }
        let Some(part) = self.parts.get(at) else {
            return if rest.is_empty() { self.finish_alignment() } else { Ok(()) };
        };
        match (self.search.constant_literal(part), part) {
            (Some(list), _) => {
                let literal = self.search.block.literal(list);
                match rest.get(..literal.len()) {
                    Some(over) if self.predicate.texts_equal(literal, over) => {
                        self.continue_at(at + 1, taken + literal.len())
                    }
                    None if !to_end
                        && literal.get(..rest.len()).is_some_and(|start| self.predicate.texts_equal(start, rest)) =>
                    {
                        self.finish_before(at, taken)
                    }
                    _ => Ok(()),
                }
            }
            (None, TablePart::Column(node)) => {
                if !to_end {
                    self.with_predicate(*node, taken..text.len(), MatchAnchor::Start, |ways| {
                        ways.finish_before(at, taken)
                    })?;
                }
                // A text that ends with the whole value begins it too.
                let next = self.next_part(at + 1);
                for end in taken..text.len() + usize::from(to_end) {
                    if self.may_continue_with(next, end) {
                        self.with_predicate(*node, taken..end, MatchAnchor::Whole, |ways| {
                            ways.continue_at(at + 1, end)
                        })?;
                    }
                }
                Ok(())
            }
            (None, TablePart::Literal(_)) => Ok(()),
        }
    }

    /// What is known of the beginning of part `at`.
    fn next_part(&self, at: usize) -> PartStart<'w> {
        match self.parts.get(at) {
            None => PartStart::End,
            Some(part) => self
                .search
                .constant_literal(part)
                .map_or(PartStart::Varying, |list| PartStart::Literal(self.search.block.literal(list))),
        }
    }

    /// Whether the text may go on in the next part from anywhere in it.
    fn may_continue(&self, next: PartStart<'_>) -> bool {
        match next {
            // A text that must end the row may also end where the part begins.
            PartStart::Literal(literal) if self.predicate.anchor == MatchAnchor::Anywhere => {
                literal.first().is_none_or(|first| self.predicate.needle.contains_byte(*first))
            }
            _ => true,
        }
    }

    /// Whether the text from `taken` on may go on in the next part.
    fn may_continue_with(&self, next: PartStart<'_>, taken: usize) -> bool {
        let rest = self.predicate.text.get(taken..).unwrap_or_default();
        match next {
            PartStart::End => rest.is_empty(),
            PartStart::Varying => true,
            PartStart::Literal(literal) => {
                let both = literal.len().min(rest.len());
                self.predicate
                    .texts_equal(literal.get(..both).unwrap_or_default(), rest.get(..both).unwrap_or_default())
            }
        }
    }

    /// Goes on with one more question on the path, if the column can say yes to it.
    fn with_predicate(
        &mut self,
        node: usize,
        text: Range<usize>,
        place: MatchAnchor,
        go_on: impl FnOnce(&mut Self) -> Result<(), StopReason>,
    ) -> Result<(), StopReason> {
        let ask = self.predicate.sub_predicate(text.clone(), place);
        if self.matching_rows == RowSet::All || !self.search.may_match(node, &ask) {
            return Ok(());
        }
        self.path.push((node, text, place));
        let done = go_on(self);
        self.path.pop();
        done
    }

    /// The way is at its end: asks the columns on it.
    fn finish_alignment(&mut self) -> Result<(), StopReason> {
        let rows = self.evaluate_path()?;
        self.add_rows(rows);
        Ok(())
    }

    /// The same, and then looks at what follows the text, of which `taken` bytes lie before part `at`.
    fn finish_before(&mut self, at: usize, taken: usize) -> Result<(), StopReason> {
        let rows = self.evaluate_path()?;
        let rows = match self.predicate.literal_prefix {
            Some(head) => self.retain_continuing(rows, at, head.state_after(taken))?,
            None => rows,
        };
        self.add_rows(rows);
        Ok(())
    }

    /// The text lies in part `at`, which is the same in all rows.
    fn match_literal(&mut self, at: usize) -> Result<(), StopReason> {
        let (Some(head), Some(list)) =
            (self.predicate.literal_prefix, self.parts.get(at).and_then(|part| self.search.constant_literal(part)))
        else {
            self.matching_rows = RowSet::All;
            return Ok(());
        };
        let literal = self.search.block.literal(list);
        let find = |from| self.predicate.needle.find(literal, from);
        let heads: Vec<usize> =
            std::iter::successors(find(0), |head| find(head + 1)).take(LITERAL_PREFIXES_MAX + 1).collect();
        if heads.len() > LITERAL_PREFIXES_MAX {
            self.matching_rows = RowSet::All;
            return Ok(());
        }
        for head_at in heads {
            let rest = literal.get(head_at..).unwrap_or_default();
            let state = head.automaton.run(head.automaton.start(), rest);
            let rows = self.retain_continuing(RowSet::All, at + 1, state)?;
            self.add_rows(rows);
        }
        Ok(())
    }

    /// The rows that match all that the way asks.
    fn evaluate_path(&mut self) -> Result<RowSet, StopReason> {
        let mut rows = RowSet::All;
        for (node, text, place) in &self.path {
            self.predicates_left = self.predicates_left.checked_sub(1).ok_or(StopReason::TooManyAlignments)?;
            let ask = self.predicate.sub_predicate(text.clone(), *place);
            rows = rows & self.search.evaluate(*node, ask).ok_or(StopReason::Damaged)?;
            if rows == RowSet::None {
                break;
            }
        }
        Ok(rows)
    }

    /// Those of some rows in which a match may go on at part `at`, where its automaton stands at `state`.
    fn retain_continuing(&mut self, rows: RowSet, at: usize, state: u16) -> Result<RowSet, StopReason> {
        let Some(head) = self.predicate.literal_prefix.filter(|_| rows != RowSet::None && self.prefixes_left > 0)
        else {
            return Ok(rows);
        };
        self.prefixes_left -= 1;
        let parts = self.parts.get(at..).unwrap_or_default();
        let parts = parts.get(..FOLLOWING_PARTS_MAX).unwrap_or(parts);
        let not_dead = |rows: &RowSet| {
            self.search.block.find_not_dead(head.automaton, state, parts, self.rows, rows).ok_or(StopReason::Damaged)
        };
        if let Some(sample) = rows.sample(self.rows, SAMPLE_ROWS)
            && not_dead(&sample)?.count(self.rows) > SAMPLE_ROWS - SAMPLE_DEAD_MIN
        {
            return Ok(rows);
        }
        not_dead(&rows)
    }

    fn add_rows(&mut self, rows: RowSet) {
        let before = std::mem::replace(&mut self.matching_rows, RowSet::None);
        self.matching_rows = before | rows;
    }
}
