//! What the columns of a block say of a plan, before any line is built: which lines match for sure, and which may.
//!
//! Texts are found exactly, and so are most regexes: in lines that have the texts that a match must have, the automaton
//! is run over the columns. Of a field its name and value are found; those lines may match. Logic joins both bounds, and what is left between them is settled by looking at the lines themselves.

use bucksaw_columns::{ColumnBlock, Filter, Needle, RowSet};

use crate::cancel_poll::CancelPoll;
use crate::plan_node::PlanNode;
use crate::regex_term::RegexTerm;

/// Two sets of lines, one within the other.
#[derive(Clone, Debug)]
pub(crate) struct CandidateRows {
    /// These match.
    pub(crate) must_match: RowSet,
    /// All others do not.
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

/// Whether a line of a block with this filter may match. Never wrongly `false`.
pub(crate) fn may_match(node: &PlanNode, filter: Filter<'_>) -> bool {
    let contains = |needle: &Needle| filter.may_contain(needle.text(), needle.any_case());
    match node {
        PlanNode::All | PlanNode::Not(_) => true,
        PlanNode::Nothing => false,
        PlanNode::Text(text) => filter.may_contain(text.bytes(), false),
        PlanNode::Regex(regex) => regex.required_literals().clauses.iter().all(|clause| clause.iter().any(contains)),
        PlanNode::Field(field) => {
            filter.may_contain(field.escape_start(), false)
                || field.needles().all(|needle| filter.may_contain(needle, false))
        }
        PlanNode::And(members) => members.iter().all(|member| may_match(member, filter)),
        PlanNode::Or(members) => members.iter().any(|member| may_match(member, filter)),
    }
}

/// Judges some lines of a block; `None` when it is damaged. Looks at the watch before each term; says nothing when that
/// stopped it.
pub(crate) fn evaluate(
    node: &PlanNode,
    block: &ColumnBlock,
    among: RowSet,
    watch: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    if among == RowSet::None || watch.poll() {
        return Some(CandidateRows::exact(RowSet::None));
    }
    Some(match node {
        PlanNode::All => CandidateRows::exact(among),
        PlanNode::Nothing => CandidateRows::exact(RowSet::None),
        PlanNode::Text(text) => CandidateRows::exact(among & block.find(&Needle::new(text.bytes(), false))?),
        PlanNode::Regex(regex) => evaluate_regex(regex, block, among, watch)?,
        PlanNode::Field(field) => {
            let mut rows = RowSet::All;
            for needle in field.needles() {
                rows = rows & block.find(&Needle::new(needle, false))?;
                if rows == RowSet::None {
                    break;
                }
            }
            // Escapes may hide a name or a value.
            CandidateRows::upper_bound(among & (rows | block.find(&Needle::new(field.escape_start(), false))?))
        }
        PlanNode::And(members) => {
            let mut all = CandidateRows::exact(among);
            // The cheapest first: what it leaves out need not be asked.
            let mut members: Vec<&PlanNode> = members.iter().collect();
            members.sort_by_key(|member| member.cost());
            for member in members {
                let judged = evaluate(member, block, all.may_match.clone(), watch)?;
                all = CandidateRows { must_match: all.must_match & judged.must_match, may_match: judged.may_match };
            }
            all
        }
        PlanNode::Or(members) => {
            let mut any = CandidateRows::exact(RowSet::None);
            for member in members {
                let judged = evaluate(member, block, among.clone() & !any.must_match.clone(), watch)?;
                any = CandidateRows {
                    must_match: any.must_match | judged.must_match,
                    may_match: any.may_match | judged.may_match,
                };
            }
            any
        }
        PlanNode::Not(inner) => {
            let judged = evaluate(inner, block, among.clone(), watch)?;
            CandidateRows { must_match: among.clone() & !judged.may_match, may_match: among & !judged.must_match }
        }
    })
}

fn evaluate_regex(
    regex: &RegexTerm,
    block: &ColumnBlock,
    among: RowSet,
    watch: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    let needles = regex.required_literals();
    let mut rows = among;
    for (number, clause) in needles.clauses.iter().enumerate() {
        let head = regex.prefix_automaton().filter(|_| needles.literal_prefix == Some(number));
        let mut any = RowSet::None;
        for needle in clause {
            if watch.poll() {
                return Some(CandidateRows::exact(RowSet::None));
            }
            any = any
                | match head {
                    Some(automaton) => block.find_literal_prefix(needle, automaton)?,
                    None => block.find(needle)?,
                };
        }
        rows = rows & any;
        if rows == RowSet::None {
            break;
        }
    }
    Some(match regex.column_automaton() {
        _ if needles.is_exact => CandidateRows::exact(rows),
        Some(automaton) => CandidateRows::exact(block.find_accepted(automaton, &rows)?),
        None => CandidateRows::upper_bound(rows),
    })
}
