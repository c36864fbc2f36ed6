//! Evaluates a plan on a block without building rows: which rows match for certain, and which may match.
//!
//! Texts are found exactly, and so are most regexes: the automaton runs over the rows that contain the required literals.
//! Of a field, name and value are searched for as texts, and the rows that contain them may match. Rows that match the
//! prefilter of a level may match. Conjunction, disjunction
//! and negation combine both bounds. The rows between the bounds are built and tested one by one.

use bucksaw_search::{Needle, RowSet, SearchBlock, SkipFilter};

use crate::cancel_poll::CancelPoll;
use crate::plan_node::PlanNode;
use crate::regex_term::RegexTerm;

/// The bounds of the matching rows.
#[derive(Clone, Debug)]
pub(crate) struct CandidateRows {
    /// Rows that match.
    pub(crate) must_match: RowSet,
    /// A superset of `must_match`; rows outside it do not match.
    pub(crate) may_match: RowSet,
}

impl CandidateRows {
    fn exact(rows: RowSet) -> Self {
        Self { must_match: rows.clone(), may_match: rows }
    }

    fn upper_bound(rows: RowSet) -> Self {
        Self { must_match: RowSet::None, may_match: rows }
    }
}

/// Whether a row of a block with this filter may match; `false` is certain.
pub(crate) fn may_match(node: &PlanNode, filter: impl SkipFilter) -> bool {
    let contains = |needle: &Needle| filter.may_contain(needle.text(), needle.any_case());
    let may_match_regex =
        |regex: &RegexTerm| regex.required_literals.clauses.iter().all(|clause| clause.iter().any(contains));
    match node {
        PlanNode::All | PlanNode::Not(_) => true,
        PlanNode::Nothing => false,
        PlanNode::Text(text) => contains(&text.needle),
        PlanNode::Regex(regex) => may_match_regex(regex),
        PlanNode::Level(level) => may_match_regex(&level.prefilter),
        PlanNode::Field(field) => contains(&field.escape_start) || field.needles.iter().all(contains),
        PlanNode::And(members) => members.iter().all(|member| may_match(member, filter)),
        PlanNode::Or(members) => members.iter().any(|member| may_match(member, filter)),
    }
}

/// The bounds for the rows of `among`; `None` if the block is damaged. Polls for cancellation before each term; the bounds
/// have no meaning after that.
pub(crate) fn evaluate<B: SearchBlock>(
    node: &PlanNode,
    block: &B,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    if among == RowSet::None || cancel_poll.poll() {
        return Some(CandidateRows::exact(RowSet::None));
    }
    Some(match node {
        PlanNode::All => CandidateRows::exact(among),
        PlanNode::Nothing => CandidateRows::exact(RowSet::None),
        PlanNode::Text(text) => CandidateRows::exact(among & block.find(&text.needle)?),
        PlanNode::Regex(regex) => evaluate_regex(regex, block, among, cancel_poll)?,
        PlanNode::Level(level) => {
            CandidateRows::upper_bound(evaluate_regex(&level.prefilter, block, among, cancel_poll)?.may_match)
        }
        PlanNode::Field(field) => {
            let mut rows = RowSet::All;
            for needle in &field.needles {
                rows = rows & block.find(needle)?;
                if rows == RowSet::None {
                    break;
                }
            }
            // A row with an escape may contain the name or the value in escaped form.
            CandidateRows::upper_bound(among & (rows | block.find(&field.escape_start)?))
        }
        PlanNode::And(members) => {
            let mut all = CandidateRows::exact(among);
            // The cheapest member first: the others are evaluated on the remaining rows only.
            let mut members: Vec<&PlanNode> = members.iter().collect();
            members.sort_by_key(|member| member.cost());
            for member in members {
                let rows = evaluate(member, block, all.may_match.clone(), cancel_poll)?;
                all = CandidateRows { must_match: all.must_match & rows.must_match, may_match: rows.may_match };
            }
            all
        }
        PlanNode::Or(members) => {
            let mut any = CandidateRows::exact(RowSet::None);
            for member in members {
                let rows = evaluate(member, block, among.clone() & !any.must_match.clone(), cancel_poll)?;
                any = CandidateRows {
                    must_match: any.must_match | rows.must_match,
                    may_match: any.may_match | rows.may_match,
                };
            }
            any
        }
        PlanNode::Not(inner) => {
            let rows = evaluate(inner, block, among.clone(), cancel_poll)?;
            CandidateRows { must_match: among.clone() & !rows.may_match, may_match: among & !rows.must_match }
        }
    })
}

fn evaluate_regex<B: SearchBlock>(
    regex: &RegexTerm,
    block: &B,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    let literals = &regex.required_literals;
    let mut rows = among;
    for (number, clause) in literals.clauses.iter().enumerate() {
        let prefix_automaton = regex.prefix_automaton.as_ref().filter(|_| literals.literal_prefix == Some(number));
        let mut any = RowSet::None;
        for needle in clause {
            if cancel_poll.poll() {
                return Some(CandidateRows::exact(RowSet::None));
            }
            any = any
                | match prefix_automaton {
                    Some(automaton) => block.find_literal_prefix(needle, automaton)?,
                    None => block.find(needle)?,
                };
        }
        rows = rows & any;
        if rows == RowSet::None {
            break;
        }
    }
    Some(match &regex.column_automaton {
        _ if literals.is_exact => CandidateRows::exact(rows),
        Some(automaton) => CandidateRows::exact(block.find_accepted(automaton, &rows)?),
        None => CandidateRows::upper_bound(rows),
    })
}
