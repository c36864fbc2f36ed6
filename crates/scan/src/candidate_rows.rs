//! Evaluates a plan on a block without building rows: which rows match for certain, and which may match.
//!
//! Texts are found exactly, and so are most regexes: the automaton runs over the rows that contain the required literals.
//! Of a field that is a key of the line, the values are tested alone where the layout of a line shows where they are; of the other
//! rows those may match that contain name and value. Of an attribute, the values that may pass are built
//! alone. Rows that match the prefilter of a level may match. Conjunction, disjunction
//! and negation combine both bounds. The rows between the bounds are built and tested one by one.

use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::ControlFlow;

use bucksaw_search::{
    CancelPoll, LayoutPart, LayoutReader, Needle, RowSet, RowsByLayout, SearchBlock, SkipFilter, TestedText,
};
use bucksaw_segment::{RecordBlock, RecordPart};

use crate::field_term::FieldTerm;
use crate::fields::{FieldRole, layout};
use crate::line_term::LineTerm;
use crate::plan_node::PlanNode;
use crate::regex_term::RegexTerm;
use crate::text_term::TextTerm;

/// Up to one in this many records of a block are built rather than searched for the parts of a name: each part is one pass over the
/// columns.
const FEW_RECORDS_DIVISOR: usize = 32;

/// Bytes of values that are tested between two polls for cancellation.
const VALUE_BYTES_UNPOLLED_MAX: usize = 64 * 1024;

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

/// Whether a record of a block with this filter may match; `false` is certain.
pub(crate) fn may_match(node: &PlanNode, filter: impl SkipFilter, has_attributes: bool) -> bool {
    // The filter is about lines.
    let contains = |needle: &Needle| {
        let mut lines = needle.text().split(|byte| *byte == b'\n');
        lines.all(|line| filter.may_contain(line, needle.any_case()))
    };
    let may_match_regex =
        |regex: &RegexTerm| regex.required_literals.clauses.iter().all(|clause| clause.iter().any(contains));
    match node {
        PlanNode::All | PlanNode::Not(_) => true,
        PlanNode::Nothing => false,
        PlanNode::Text(text) | PlanNode::Line(LineTerm::Text(text)) => contains(&text.needle),
        PlanNode::Regex(regex) | PlanNode::Line(LineTerm::Regex(regex)) => may_match_regex(regex),
        PlanNode::Level(level) => may_match_regex(&level.prefilter),
        PlanNode::Field(field) => {
            field.escapes(filter.escaped_bytes()).iter().any(contains)
                || field.needles.iter().all(contains)
                || (has_attributes && field.attribute_needle.iter().all(contains))
        }
        PlanNode::And(members) => members.iter().all(|member| may_match(member, filter, has_attributes)),
        PlanNode::Or(members) => members.iter().any(|member| may_match(member, filter, has_attributes)),
    }
}

/// The bounds for the rows of `among`; `None` if the block is damaged. Polls for cancellation before each term and while a
/// codec searches; the bounds have no meaning after that.
pub(crate) fn evaluate<B: SearchBlock>(
    node: &PlanNode,
    block: RecordBlock<'_, B>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    if among == RowSet::None || cancel_poll.poll() {
        return Some(CandidateRows::exact(RowSet::None));
    }
    Some(match node {
        PlanNode::All => CandidateRows::exact(among),
        PlanNode::Nothing => CandidateRows::exact(RowSet::None),
        PlanNode::Text(text) => evaluate_text(text, block, RecordPart::Whole, among, cancel_poll)?,
        PlanNode::Line(LineTerm::Text(text)) => evaluate_text(text, block, RecordPart::Line, among, cancel_poll)?,
        PlanNode::Regex(regex) => evaluate_regex(regex, block, RecordPart::Whole, among, cancel_poll)?,
        PlanNode::Line(LineTerm::Regex(regex)) => evaluate_regex(regex, block, RecordPart::Line, among, cancel_poll)?,
        PlanNode::Level(level) => {
            let rows = evaluate_regex(&level.prefilter, block, RecordPart::Whole, among, cancel_poll)?;
            CandidateRows::upper_bound(rows.may_match)
        }
        PlanNode::Field(field) => evaluate_field(field, block, among, cancel_poll)?,
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

fn evaluate_text<B: SearchBlock>(
    text: &TextTerm,
    block: RecordBlock<'_, B>,
    part: RecordPart<'_>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    if !text.has_lf || block.is_identity() {
        return Some(CandidateRows::exact(among & block.find(&text.needle, part, cancel_poll)?));
    }
    let rows = among & block.with_several_lines();
    if rows == RowSet::None {
        return Some(CandidateRows::exact(rows));
    }
    Some(CandidateRows::upper_bound(rows & block.find(&text.longest_line(), part, cancel_poll)?))
}

/// The field is an attribute of the records that have one of its name, else a key of the line.
fn evaluate_field<B: SearchBlock>(
    field: &FieldTerm,
    block: RecordBlock<'_, B>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    let with_attribute = among.clone() & block.with_attribute(&field.name);
    let with_key = among & !with_attribute.clone();
    let mut all = evaluate_attribute(field, block, with_attribute, cancel_poll)?;
    if with_key == RowSet::None {
        return Some(all);
    }
    // Reading a column may cost less than a search of all columns for value, name and escapes.
    let mut may_match = with_key;
    let is_searched = field.has_value_needle && !block.lines().prefers_layouts();
    if is_searched {
        may_match = may_match & may_contain(field, block, cancel_poll)?;
    }
    let by_layout = read_layouts(field, block, may_match.clone(), cancel_poll)?;
    may_match = may_match & !by_layout.decided;
    if !is_searched && !are_few(&may_match, block) {
        may_match = may_match & may_contain(field, block, cancel_poll)?;
    }
    all.may_match = all.may_match | by_layout.passing.clone() | may_match;
    all.must_match = all.must_match | by_layout.passing;
    Some(all)
}

/// Whether building these records costs less than another search for a part of a name or for a value.
fn are_few<B: SearchBlock>(records: &RowSet, block: RecordBlock<'_, B>) -> bool {
    records.count(block.record_count()) * FEW_RECORDS_DIVISOR <= block.record_count()
}

/// The records whose line contains the parts of the name and the value, or an escape in which they may be written. Few records
/// with some of the parts are enough.
fn may_contain<B: SearchBlock>(
    field: &FieldTerm,
    block: RecordBlock<'_, B>,
    cancel_poll: &CancelPoll<'_>,
) -> Option<RowSet> {
    let mut rows = RowSet::All;
    // Long texts are rarer, and found faster.
    let mut needles: Vec<&Needle> = field.needles.iter().collect();
    needles.sort_by_key(|needle| Reverse(needle.text().len()));
    for needle in needles {
        rows = rows & block.find(needle, RecordPart::Line, cancel_poll)?;
        if are_few(&rows, block) {
            break;
        }
    }
    for escape in field.escapes(block.escaped_bytes()) {
        rows = rows | block.find(escape, RecordPart::Line, cancel_poll)?;
    }
    Some(rows)
}

/// The records of `among`, without such an attribute, of which the layout of the line decides.
fn read_layouts<B: SearchBlock>(
    field: &FieldTerm,
    block: RecordBlock<'_, B>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<RowsByLayout> {
    // A key may be in any line of a record.
    let one_line = among & !block.with_several_lines();
    if one_line == RowSet::None {
        return Some(RowsByLayout { decided: RowSet::None, passing: RowSet::None });
    }
    let reader = FieldReader { field, cancel_poll, unpolled: Cell::new(0) };
    let lines = block.lines().read_layouts(&reader, &block.lines_of(&one_line))?;
    let records = |lines| block.records_of(lines, RecordPart::Line) & one_line.clone();
    Some(RowsByLayout { decided: records(lines.decided), passing: records(lines.passing) })
}

/// Reads a field of lines by their layout.
struct FieldReader<'a> {
    field: &'a FieldTerm,
    cancel_poll: &'a CancelPoll<'a>,
    /// Bytes of values that were tested since the last poll.
    unpolled: Cell<usize>,
}

impl LayoutReader for FieldReader<'_> {
    type Role = FieldRole;

    fn roles(&self, layout: &[LayoutPart<'_>]) -> Option<Vec<FieldRole>> {
        layout::roles(layout)
    }

    fn find(&self, layout: &[LayoutPart<'_>]) -> TestedText<FieldRole> {
        if self.cancel_poll.poll() {
            return TestedText::Unknown;
        }
        layout::find(layout, &self.field.name, self.field.name_needles())
    }

    fn fits(&self, role: FieldRole, text: &[u8]) -> bool {
        role.fits(text)
    }

    fn all_parts_fit(&self, role: FieldRole, text: &[u8]) -> bool {
        role.all_parts_fit(text)
    }

    fn passes(&self, role: FieldRole, text: &[u8]) -> bool {
        let unpolled = self.unpolled.get() + text.len() + 1;
        self.unpolled.set(unpolled % VALUE_BYTES_UNPOLLED_MAX);
        if unpolled >= VALUE_BYTES_UNPOLLED_MAX {
            self.cancel_poll.poll();
        }
        !self.cancel_poll.is_cancelled() && self.field.value_matches(&role.value(text), self.cancel_poll)
    }
}

/// The bounds for records that have the attribute: only the values that may pass are built.
fn evaluate_attribute<B: SearchBlock>(
    field: &FieldTerm,
    block: RecordBlock<'_, B>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    if among == RowSet::None || field.is_existence() {
        return Some(CandidateRows::exact(among));
    }
    let several_lines = among.clone() & block.with_several_lines();
    let one_line = among & !several_lines.clone();
    // A value with an LF is in no line.
    let lines = match &field.attribute_needle {
        Some(needle) if needle.text().contains(&b'\n') => RowSet::None,
        Some(needle) => block.lines().find(needle, cancel_poll)?,
        None => RowSet::All,
    };
    let mut unpolled = 0;
    let found = block.find_value(&field.name, &one_line, &lines, &mut |value| {
        unpolled += value.len() + 1;
        if unpolled >= VALUE_BYTES_UNPOLLED_MAX {
            unpolled = 0;
            if cancel_poll.poll() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(field.value_matches(value, cancel_poll))
    })?;
    Some(CandidateRows { may_match: found.clone() | several_lines, must_match: found })
}

fn evaluate_regex<B: SearchBlock>(
    regex: &RegexTerm,
    block: RecordBlock<'_, B>,
    part: RecordPart<'_>,
    among: RowSet,
    cancel_poll: &CancelPoll<'_>,
) -> Option<CandidateRows> {
    let among_lines = block.lines_of(&among);
    let (mut rows, mut is_exact) = (RowSet::None, true);
    for branch in &regex.for_columns {
        let others = among_lines.clone() & !rows.clone();
        rows = rows | branch.find_lines(block.lines(), others, cancel_poll)?;
        is_exact &= branch.is_exact();
    }
    if cancel_poll.is_cancelled() {
        return Some(CandidateRows::exact(RowSet::None));
    }
    let rows = block.records_of(rows, part);
    if !is_exact {
        let several_lines = if regex.is_within_lines() { RowSet::None } else { among & block.with_several_lines() };
        return Some(CandidateRows::upper_bound(rows | several_lines));
    }
    if regex.is_within_lines() || block.is_identity() {
        return Some(CandidateRows::exact(rows));
    }
    // In a part with several lines a match may cross line ends, and the end of a line need not be the end of the part.
    let several_lines = among & block.with_several_lines();
    Some(CandidateRows { must_match: rows.clone() & !several_lines.clone(), may_match: rows | several_lines })
}
