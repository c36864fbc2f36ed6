//! Follows the alignments of a text with the parts of a table.
//!
//! ```text
//!   parts    took  [number]  ms for "  [path]  "
//!   text       ok 1210 ms
//!              ══ ════ ═══       the end of a literal, a whole value, the beginning of a literal
//! ```
//! A text starts in a literal or a value, may span several parts, and ends in a literal or a value. The part of the
//! text over a column becomes a predicate on its values: first the end of a value, then whole values, last the start of
//! a value. A row matches if all predicates of one alignment hold in it.
#![deny(clippy::indexing_slicing)]

use std::ops::Range;

use bucksaw_search::RowSet;

use crate::decode::column_tree::{TableNode, TablePart};
use crate::search::automaton_run::AutomatonRun;
use crate::search::part_lengths::PartLengths;
use crate::search::search_context::SearchContext;
use crate::search::text_predicate::{MatchAnchor, TextPredicate};
use crate::search_work;

/// Steps and predicates per part of the table and byte of the text, at most. A text such as `1 1 1 1` has more alignments
/// with columns of numbers than the table has rows to test.
const STEPS_PER_BYTE_MAX: usize = 16;
const PREDICATES_PER_BYTE_MAX: usize = 4;

/// Parts behind a literal prefix that are examined, and occurrences of the prefix in one literal, at most. Beyond these
/// limits, and beyond one occurrence per part and byte of text, rows remain candidates.
const FOLLOWING_PARTS_MAX: usize = 4;
const LITERAL_PREFIXES_MAX: usize = 4;

/// Rows that are examined first. The others follow only if at least `SAMPLE_DEAD_MIN` of the sample are dead behind the
/// prefix: otherwise running the automaton over whole lines is cheaper.
const SAMPLE_ROWS: usize = 64;
const SAMPLE_DEAD_MIN: usize = 8;

/// Evaluates a predicate on a column; `None` if the block is damaged.
type EvaluateColumn<'w> = &'w dyn Fn(usize, TextPredicate<'_>) -> Option<RowSet>;

/// The search for all alignments with one table.
pub(crate) struct Alignments<'w> {
    context: &'w SearchContext<'w>,
    evaluate: EvaluateColumn<'w>,
    parts: &'w [TablePart],
    rows: usize,
    predicate: TextPredicate<'w>,
    /// The predicates of the alignment so far. All but the last are evaluated.
    path: Vec<AlignmentStep>,
    matching_rows: RowSet,
    steps_left: usize,
    predicates_left: usize,
    prefixes_left: usize,
}

/// A part of the text over a column.
struct AlignmentStep {
    node: usize,
    text: Range<usize>,
    anchor: MatchAnchor,
    /// The rows in which this predicate and those before it hold, once evaluated.
    rows: Option<RowSet>,
}

/// How a part starts.
#[derive(Clone, Copy)]
enum PartStart<'b> {
    /// The table has no such part.
    End,
    /// A text, the same in all rows.
    Literal(&'b [u8]),
    /// Different from row to row.
    Varying,
}

/// Why the search stopped early.
enum StopReason {
    Damaged,
    TooManyAlignments,
}

impl<'w> Alignments<'w> {
    /// The rows that match in some alignment; the inner `None` if there are too many alignments, the outer `None` if the
    /// block is damaged.
    pub(crate) fn search(
        context: &'w SearchContext<'w>,
        evaluate: EvaluateColumn<'w>,
        table: &TableNode,
        predicate: TextPredicate<'w>,
    ) -> Option<Option<RowSet>> {
        let parts = context.block.tree.parts(table);
        let size = parts.len() + predicate.text.len();
        let mut alignments = Self {
            context,
            evaluate,
            parts,
            rows: table.rows,
            predicate,
            path: Vec::new(),
            matching_rows: RowSet::None,
            steps_left: size * STEPS_PER_BYTE_MAX,
            predicates_left: size * PREDICATES_PER_BYTE_MAX,
            prefixes_left: size,
        };
        let result = match predicate.anchor {
            MatchAnchor::Start | MatchAnchor::Whole => alignments.continue_at(0, 0),
            MatchAnchor::Anywhere | MatchAnchor::End => {
                (0..parts.len()).try_for_each(|at| alignments.start_in_part(at))
            }
        };
        match result {
            Ok(()) => Some(Some(alignments.matching_rows)),
            Err(StopReason::TooManyAlignments) => Some(None),
            Err(StopReason::Damaged) => None,
        }
    }

    /// Follows the alignments that start anywhere in part `at`.
    fn start_in_part(&mut self, at: usize) -> Result<(), StopReason> {
        let Some(part) = self.parts.get(at).filter(|_| self.matching_rows != RowSet::All) else { return Ok(()) };
        self.context.occurrences.add_work(search_work::VISIT);
        let text = self.predicate.text;
        let anywhere = self.predicate.anchor == MatchAnchor::Anywhere;
        let last = at + 1 == self.parts.len();
        match (self.context.constant_literal(part), part) {
            (Some(list), _) => {
                if anywhere && self.context.literal_matches(list, &self.predicate) {
                    self.match_literal(at)?;
                    if self.matching_rows == RowSet::All {
                        return Ok(());
                    }
                }
                let literal = self.context.block.literal(list);
                let tail = literal.get(literal.len().saturating_sub(text.len())..).unwrap_or_default();
                // The first byte of the text is rare in delimiters.
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
                // A text that ends with the value was found in the value, unless it must end the row.
                let taken_max = if anywhere { text.len().saturating_sub(1) } else { text.len() };
                let next = self.next_part(at + 1);
                let taken_max = if last && anywhere || !self.may_continue(next) { 0 } else { taken_max };
                let lengths = match taken_max {
                    0 => PartLengths::ALL,
                    _ => self.context.part_lengths(*node, &self.predicate, 0, MatchAnchor::End),
                };
                for taken in 1..=taken_max {
                    if lengths.contains(taken) && self.may_continue_with(next, taken) {
                        self.with_predicate(*node, 0..taken, MatchAnchor::End, |alignments| {
                            alignments.continue_at(at + 1, taken)
                        })?;
                    }
                }
                Ok(())
            }
            (None, TablePart::Literal(_)) => Ok(()),
        }
    }

    /// Follows the alignments in which byte `taken` of the text lies at the start of part `at`.
    fn continue_at(&mut self, at: usize, taken: usize) -> Result<(), StopReason> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(StopReason::TooManyAlignments)?;
        self.context.occurrences.add_work(search_work::VISIT);
        let to_end = matches!(self.predicate.anchor, MatchAnchor::End | MatchAnchor::Whole);
        let text = self.predicate.text;
        let rest = text.get(taken..).unwrap_or_default();
        if rest.is_empty() && !to_end {
            return self.finish_before(at, taken);
        }
        let Some(part) = self.parts.get(at) else {
            return if rest.is_empty() { self.finish_alignment() } else { Ok(()) };
        };
        match (self.context.constant_literal(part), part) {
            (Some(list), _) => {
                let literal = self.context.block.literal(list);
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
                    self.with_predicate(*node, taken..text.len(), MatchAnchor::Start, |alignments| {
                        alignments.finish_before(at, taken)
                    })?;
                }
                // A text that ends with the whole value also starts it.
                let next = self.next_part(at + 1);
                let lengths = self.context.part_lengths(*node, &self.predicate, taken, MatchAnchor::Whole);
                for end in taken..text.len() + usize::from(to_end) {
                    if lengths.contains(end - taken) && self.may_continue_with(next, end) {
                        self.with_predicate(*node, taken..end, MatchAnchor::Whole, |alignments| {
                            alignments.continue_at(at + 1, end)
                        })?;
                    }
                }
                Ok(())
            }
            (None, TablePart::Literal(_)) => Ok(()),
        }
    }

    /// How part `at` starts.
    fn next_part(&self, at: usize) -> PartStart<'w> {
        match self.parts.get(at) {
            None => PartStart::End,
            Some(part) => self
                .context
                .constant_literal(part)
                .map_or(PartStart::Varying, |list| PartStart::Literal(self.context.block.literal(list))),
        }
    }

    /// Whether any rest of the text may continue in the next part.
    fn may_continue(&self, next: PartStart<'_>) -> bool {
        match next {
            // A text that must end the row may also end before the part.
            PartStart::Literal(literal) if self.predicate.anchor == MatchAnchor::Anywhere => {
                literal.first().is_none_or(|first| self.predicate.needle.contains_byte(*first))
            }
            _ => true,
        }
    }

    /// Whether the text from byte `taken` on may continue in the next part.
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

    /// Calls `follow` with one more predicate on the path, unless no value of the column can pass it, or no row those before it.
    fn with_predicate(
        &mut self,
        node: usize,
        text: Range<usize>,
        anchor: MatchAnchor,
        follow: impl FnOnce(&mut Self) -> Result<(), StopReason>,
    ) -> Result<(), StopReason> {
        let predicate = self.predicate.sub_predicate(text.clone(), anchor);
        if self.matching_rows == RowSet::All || !self.context.may_match(node, &predicate) {
            return Ok(());
        }
        if *self.evaluate_path()? == RowSet::None {
            return Ok(());
        }
        self.path.push(AlignmentStep { node, text, anchor, rows: None });
        let result = follow(self);
        self.path.pop();
        result
    }

    /// Evaluates a complete alignment.
    fn finish_alignment(&mut self) -> Result<(), StopReason> {
        let rows = self.evaluate_path()?.clone();
        self.add_rows(rows);
        Ok(())
    }

    /// Evaluates a complete alignment with `taken` bytes of the text before part `at`, and drops the rows in which no match
    /// follows the literal prefix.
    fn finish_before(&mut self, at: usize, taken: usize) -> Result<(), StopReason> {
        let rows = self.evaluate_path()?.clone();
        let rows = match self.predicate.literal_prefix {
            Some(prefix) => self.retain_continuing(rows, at, prefix.state_after(taken))?,
            None => rows,
        };
        self.add_rows(rows);
        Ok(())
    }

    /// Adds the rows for a text that occurs in part `at`, which is the same in all rows.
    fn match_literal(&mut self, at: usize) -> Result<(), StopReason> {
        let (Some(prefix), Some(list)) =
            (self.predicate.literal_prefix, self.parts.get(at).and_then(|part| self.context.constant_literal(part)))
        else {
            self.matching_rows = RowSet::All;
            return Ok(());
        };
        let literal = self.context.block.literal(list);
        let find = |from| self.predicate.needle.find(literal, from);
        let occurrences: Vec<usize> =
            std::iter::successors(find(0), |at| find(at + 1)).take(LITERAL_PREFIXES_MAX + 1).collect();
        if occurrences.len() > LITERAL_PREFIXES_MAX {
            self.matching_rows = RowSet::All;
            return Ok(());
        }
        for occurrence in occurrences {
            let rest = literal.get(occurrence..).unwrap_or_default();
            let state = prefix.automaton.run(prefix.automaton.start(), rest);
            let rows = self.retain_continuing(RowSet::All, at + 1, state)?;
            self.add_rows(rows);
        }
        Ok(())
    }

    /// The rows in which all predicates of the alignment hold. Each is evaluated once, however many alignments continue it.
    fn evaluate_path(&mut self) -> Result<&RowSet, StopReason> {
        let Some((step, before)) = self.path.split_last_mut() else { return Ok(&RowSet::All) };
        if step.rows.is_none() {
            self.predicates_left = self.predicates_left.checked_sub(1).ok_or(StopReason::TooManyAlignments)?;
            let predicate = self.predicate.sub_predicate(step.text.clone(), step.anchor);
            let rows = (self.evaluate)(step.node, predicate).ok_or(StopReason::Damaged)?;
            let before = before.last().and_then(|step| step.rows.as_ref());
            step.rows = Some(before.map_or(RowSet::All, RowSet::clone) & rows);
        }
        Ok(step.rows.as_ref().unwrap_or(&RowSet::None))
    }

    /// The rows in which a match may continue at part `at` with the automaton in `state`.
    fn retain_continuing(&mut self, rows: RowSet, at: usize, state: u16) -> Result<RowSet, StopReason> {
        let Some(prefix) = self.predicate.literal_prefix.filter(|_| rows != RowSet::None && self.prefixes_left > 0)
        else {
            return Ok(rows);
        };
        self.prefixes_left -= 1;
        let parts = self.parts.get(at..).unwrap_or_default();
        let parts = parts.get(..FOLLOWING_PARTS_MAX).unwrap_or(parts);
        let not_dead = |rows: &RowSet| {
            let run = AutomatonRun::new(self.context.block, prefix.automaton, self.context.cancel);
            run.find_not_dead(state, parts, self.rows, rows).ok_or(StopReason::Damaged)
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
