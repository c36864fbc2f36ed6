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

use crate::bits::Rows;
use crate::search::{Ask, Search, Where};
use crate::tree::{Part, Table};

/// Steps and questions to columns for each part of a table and byte of text, at most. Texts such as `1 1 1 1` can lie
/// over a row of numbers in more ways than it takes to look at the rows.
const STEPS_MAX: usize = 16;
const QUESTIONS_MAX: usize = 4;

/// Parts behind a head that are looked at, and heads in one literal, at most. Beyond, and for more heads than a table has
/// parts and the text bytes, rows are left in.
const PARTS_BEHIND_MAX: usize = 4;
const HEADS_MAX: usize = 4;

/// Of many rows so many are looked at first, and all of them if behind the head some of these are dead: it takes less
/// time than to have the automaton go through the lines from their beginning.
const SAMPLE_ROWS: usize = 64;
const SAMPLE_DEAD_MIN: usize = 8;

/// Follows all ways over one table.
pub(crate) struct Ways<'w> {
    search: &'w Search<'w>,
    parts: &'w [Part],
    rows: usize,
    ask: Ask<'w>,
    /// What the way so far asks of which columns: the part of the text, and where it must be.
    path: Vec<(usize, Range<usize>, Where)>,
    found: Rows,
    steps_left: usize,
    questions_left: usize,
    heads_left: usize,
}

/// What a part begins with.
#[derive(Clone, Copy)]
enum Next<'b> {
    /// There is no part any more.
    End,
    /// A text that is the same in all rows.
    Literal(&'b [u8]),
    /// That differs from row to row.
    Any,
}

/// Why it was stopped.
enum Stop {
    Damaged,
    TooMany,
}

impl<'w> Ways<'w> {
    /// The rows that match in some way; `None` inside when there are too many ways, outside when the block is damaged.
    pub(crate) fn follow_all(search: &'w Search<'w>, table: &Table, ask: Ask<'w>) -> Option<Option<Rows>> {
        let (parts, rows) = (search.block.tree.parts(table), table.rows);
        let size = parts.len() + ask.text.len();
        let (steps_left, questions_left) = (size * STEPS_MAX, size * QUESTIONS_MAX);
        let (path, found, heads_left) = (Vec::new(), Rows::None, size);
        let mut ways = Self { search, parts, rows, ask, path, found, steps_left, questions_left, heads_left };
        let done = match ask.place {
            Where::Start | Where::Whole => ways.follow(0, 0),
            Where::Anywhere | Where::End => (0..parts.len()).try_for_each(|at| ways.begin(at)),
        };
        match done {
            Ok(()) => Some(Some(ways.found)),
            Err(Stop::TooMany) => Some(None),
            Err(Stop::Damaged) => None,
        }
    }

    /// The ways that begin in part `at`, wherever in it.
    fn begin(&mut self, at: usize) -> Result<(), Stop> {
        let Some(part) = self.parts.get(at).filter(|_| self.found != Rows::All) else { return Ok(()) };
        let text = self.ask.text;
        let anywhere = self.ask.place == Where::Anywhere;
        let last = at + 1 == self.parts.len();
        match (self.search.same_in_all(part), part) {
            (Some(list), _) => {
                if anywhere && self.search.is_in_all(list, &self.ask) {
                    self.answer_all(at)?;
                    if self.found == Rows::All {
                        return Ok(());
                    }
                }
                let literal = self.search.block.literal(list);
                let tail = literal.get(literal.len().saturating_sub(text.len())..).unwrap_or_default();
                // What begins the text is seldom in the gap between two columns.
                let (first, other) = self.ask.first();
                for start in memchr::memchr2_iter(first, other, tail) {
                    let end = tail.get(start..).unwrap_or_default();
                    if self.ask.same(end, text.get(..end.len()).unwrap_or_default()) {
                        self.follow(at + 1, end.len())?;
                    }
                }
                Ok(())
            }
            (None, Part::Column(node)) => {
                if anywhere {
                    self.question(*node, 0..text.len(), Where::Anywhere, Self::answer)?;
                }
                // A text that ends with the value is found in it, unless it must end the row.
                let most = if anywhere { text.len().saturating_sub(1) } else { text.len() };
                let next = self.next(at + 1);
                let most = if last && anywhere || !self.may_go_on(next) { 0 } else { most };
                for taken in 1..=most {
                    if self.may_follow(next, taken) {
                        self.question(*node, 0..taken, Where::End, |ways| ways.follow(at + 1, taken))?;
                    }
                }
                Ok(())
            }
            (None, Part::Literal(_)) => Ok(()),
        }
    }

    /// The ways in which the text goes on from byte `taken` at the beginning of part `at`.
    fn follow(&mut self, at: usize, taken: usize) -> Result<(), Stop> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Stop::TooMany)?;
        let to_end = matches!(self.ask.place, Where::End | Where::Whole);
        let text = self.ask.text;
        let rest = text.get(taken..).unwrap_or_default();
        if rest.is_empty() && !to_end {
            return self.end(at, taken);
        }
        let Some(part) = self.parts.get(at) else {
            return if rest.is_empty() { self.answer() } else { Ok(()) };
        };
        match (self.search.same_in_all(part), part) {
            (Some(list), _) => {
                let literal = self.search.block.literal(list);
                match rest.get(..literal.len()) {
                    Some(over) if self.ask.same(literal, over) => self.follow(at + 1, taken + literal.len()),
                    None if !to_end && literal.get(..rest.len()).is_some_and(|start| self.ask.same(start, rest)) => {
                        self.end(at, taken)
                    }
                    _ => Ok(()),
                }
            }
            (None, Part::Column(node)) => {
                if !to_end {
                    self.question(*node, taken..text.len(), Where::Start, |ways| ways.end(at, taken))?;
                }
                // A text that ends with the whole value begins it too.
                let next = self.next(at + 1);
                for end in taken..text.len() + usize::from(to_end) {
                    if self.may_follow(next, end) {
                        self.question(*node, taken..end, Where::Whole, |ways| ways.follow(at + 1, end))?;
                    }
                }
                Ok(())
            }
            (None, Part::Literal(_)) => Ok(()),
        }
    }

    /// What is known of the beginning of part `at`.
    fn next(&self, at: usize) -> Next<'w> {
        match self.parts.get(at) {
            None => Next::End,
            Some(part) => {
                self.search.same_in_all(part).map_or(Next::Any, |list| Next::Literal(self.search.block.literal(list)))
            }
        }
    }

    /// Whether the text may go on in the next part from anywhere in it.
    fn may_go_on(&self, next: Next<'_>) -> bool {
        match next {
            // A text that must end the row may also end where the part begins.
            Next::Literal(literal) if self.ask.place == Where::Anywhere => {
                literal.first().is_none_or(|first| self.ask.needle.has(*first))
            }
            _ => true,
        }
    }

    /// Whether the text from `taken` on may go on in the next part.
    fn may_follow(&self, next: Next<'_>, taken: usize) -> bool {
        let rest = self.ask.text.get(taken..).unwrap_or_default();
        match next {
            Next::End => rest.is_empty(),
            Next::Any => true,
            Next::Literal(literal) => {
                let both = literal.len().min(rest.len());
                self.ask.same(literal.get(..both).unwrap_or_default(), rest.get(..both).unwrap_or_default())
            }
        }
    }

    /// Goes on with one more question on the path, if the column can say yes to it.
    fn question(
        &mut self,
        node: usize,
        text: Range<usize>,
        place: Where,
        go_on: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let ask = self.ask.part(text.clone(), place);
        if self.found == Rows::All || !self.search.may(node, &ask) {
            return Ok(());
        }
        self.path.push((node, text, place));
        let done = go_on(self);
        self.path.pop();
        done
    }

    /// The way is at its end: asks the columns on it.
    fn answer(&mut self) -> Result<(), Stop> {
        let rows = self.ask_columns()?;
        self.add(rows);
        Ok(())
    }

    /// The same, and then looks at what follows the text, of which `taken` bytes lie before part `at`.
    fn end(&mut self, at: usize, taken: usize) -> Result<(), Stop> {
        let rows = self.ask_columns()?;
        let rows = match self.ask.head {
            Some(head) => self.that_may_go_on(rows, at, head.after(taken))?,
            None => rows,
        };
        self.add(rows);
        Ok(())
    }

    /// The text lies in part `at`, which is the same in all rows.
    fn answer_all(&mut self, at: usize) -> Result<(), Stop> {
        let (Some(head), Some(list)) =
            (self.ask.head, self.parts.get(at).and_then(|part| self.search.same_in_all(part)))
        else {
            self.found = Rows::All;
            return Ok(());
        };
        let literal = self.search.block.literal(list);
        let find = |from| self.ask.needle.find(literal, from);
        let heads: Vec<usize> = std::iter::successors(find(0), |head| find(head + 1)).take(HEADS_MAX + 1).collect();
        if heads.len() > HEADS_MAX {
            self.found = Rows::All;
            return Ok(());
        }
        for head_at in heads {
            let rest = literal.get(head_at..).unwrap_or_default();
            let state = head.automaton.run(head.automaton.start(), rest);
            let rows = self.that_may_go_on(Rows::All, at + 1, state)?;
            self.add(rows);
        }
        Ok(())
    }

    /// The rows that match all that the way asks.
    fn ask_columns(&mut self) -> Result<Rows, Stop> {
        let mut rows = Rows::All;
        for (node, text, place) in &self.path {
            self.questions_left = self.questions_left.checked_sub(1).ok_or(Stop::TooMany)?;
            let ask = self.ask.part(text.clone(), *place);
            rows = rows & self.search.ask(*node, ask).ok_or(Stop::Damaged)?;
            if rows == Rows::None {
                break;
            }
        }
        Ok(rows)
    }

    /// Those of some rows in which a match may go on at part `at`, where its automaton stands at `state`.
    fn that_may_go_on(&mut self, rows: Rows, at: usize, state: u16) -> Result<Rows, Stop> {
        let Some(head) = self.ask.head.filter(|_| rows != Rows::None && self.heads_left > 0) else { return Ok(rows) };
        self.heads_left -= 1;
        let parts = self.parts.get(at..).unwrap_or_default();
        let parts = parts.get(..PARTS_BEHIND_MAX).unwrap_or(parts);
        let not_dead = |rows: &Rows| {
            self.search.block.not_dead(head.automaton, state, parts, self.rows, rows).ok_or(Stop::Damaged)
        };
        if let Some(sample) = rows.sample(self.rows, SAMPLE_ROWS)
            && not_dead(&sample)?.count(self.rows) > SAMPLE_ROWS - SAMPLE_DEAD_MIN
        {
            return Ok(rows);
        }
        not_dead(&rows)
    }

    fn add(&mut self, rows: Rows) {
        let before = std::mem::replace(&mut self.found, Rows::None);
        self.found = before | rows;
    }
}
