//! A regex for columns: the literals that are searched for first, and the automata that run over the rows that have them.
//!
//! An alternation is searched branch by branch: each has literals of its own, and its automaton reads only the rows with these.

use bucksaw_search::{Automaton, CancelPoll, RowSet, SearchBlock};
use regex_automata::Anchored;
use regex_syntax::hir::{Hir, HirKind};

use crate::automaton::build_automaton;
use crate::required_literals::RequiredLiterals;

/// The most branches that are searched one by one.
const BRANCHES_MAX: usize = 16;

/// A regex, or a branch of one, for columns.
#[derive(Debug)]
pub(crate) struct ColumnRegex {
    required_literals: RequiredLiterals,
    /// `None` if the required literals are exact, or if it would be too large.
    automaton: Option<Automaton>,
    /// Anchored at the start of a match; only for a regex with a literal prefix.
    prefix_automaton: Option<Automaton>,
}

impl ColumnRegex {
    fn of(hir: &Hir) -> Self {
        let required_literals = RequiredLiterals::of(hir);
        let automaton = |anchored, is_needed: bool| if is_needed { build_automaton(hir, anchored) } else { None };
        let unanchored = automaton(Anchored::No, !required_literals.is_exact);
        let has_prefix = required_literals.literal_prefix.is_some() && unanchored.is_some();
        let prefix_automaton = automaton(Anchored::Yes, has_prefix);
        Self { required_literals, automaton: unanchored, prefix_automaton }
    }

    /// The branches of a regex, if each requires literals; else the regex alone, as when its required literals are exact. A
    /// line matches the regex if it matches one of them.
    pub(crate) fn branches(hir: &Hir, is_exact: bool) -> Vec<Self> {
        let mut outer = hir;
        while let HirKind::Capture(capture) = outer.kind() {
            outer = &capture.sub;
        }
        if let HirKind::Alternation(branches) = outer.kind()
            && branches.len() <= BRANCHES_MAX
            && !is_exact
        {
            let branches: Vec<Self> = branches.iter().map(Self::of).collect();
            if branches.iter().all(|branch| !branch.required_literals.clauses.is_empty()) {
                return branches;
            }
        }
        vec![Self::of(hir)]
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.automaton.iter().chain(&self.prefix_automaton).map(Automaton::memory).sum()
    }

    /// Whether each line of [`Self::find_lines`] matches; otherwise it may match.
    pub(crate) fn is_exact(&self) -> bool {
        self.required_literals.is_exact || self.automaton.is_some()
    }

    /// The lines of `among` that match, or that may match; `None` if the block is damaged. A match that crosses the end of a line
    /// is not found. Lines are meaningless after a cancellation.
    pub(crate) fn find_lines(
        &self,
        block: &impl SearchBlock,
        among: RowSet,
        cancel_poll: &CancelPoll<'_>,
    ) -> Option<RowSet> {
        let literals = &self.required_literals;
        let mut lines = among;
        // A match contains a text of each clause.
        for (number, clause) in literals.clauses.iter().enumerate() {
            let prefix_automaton = self.prefix_automaton.as_ref().filter(|_| literals.literal_prefix == Some(number));
            let mut any = RowSet::None;
            for needle in clause {
                if cancel_poll.poll() {
                    return Some(RowSet::None);
                }
                any = any
                    | match prefix_automaton {
                        Some(automaton) => block.find_literal_prefix(needle, automaton, cancel_poll)?,
                        None => block.find(needle, cancel_poll)?,
                    };
            }
            lines = lines & any;
            if lines == RowSet::None {
                return Some(lines);
            }
        }
        match self.automaton.as_ref().filter(|_| !literals.is_exact) {
            Some(automaton) => block.find_accepted(automaton, &lines, cancel_poll),
            None => Some(lines),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branches(source: &str) -> usize {
        let hir = regex_syntax::ParserBuilder::new().utf8(false).unicode(false).build().parse(source).unwrap();
        ColumnRegex::branches(&hir, RequiredLiterals::of(&hir).is_exact).len()
    }

    #[test]
    fn branches_that_require_literals_are_searched_one_by_one() {
        assert_eq!(branches(r#"head|tron|ize":\d+"#), 3);
        assert_eq!(branches(r"((GET|PUT) \d|timeout=[0-9]+s)"), 2);
        assert_eq!(branches("head|tron"), 1, "the literals are exact");
        assert_eq!(branches(r"\d+ms|\d+"), 1, "any row may match the second");
        assert_eq!(branches(r"(head|tron)\d"), 1);
        let many = (0..=BRANCHES_MAX).map(|at| format!(r"b{at}x\d")).collect::<Vec<_>>().join("|");
        assert_eq!(branches(&many), 1);
    }
}
