//! What the columns of a block say of a plan, before any line is built: which lines match for sure, and which may.
//!
//! Texts are found exactly, and so are most regexes: in lines that have the texts that a match must have, the automaton
//! is run over the columns. Of a field its name and value are found; those lines may match. Logic joins both bounds, and what is left between them is settled by looking at the lines themselves.

use bucksaw_columns::{Block, Filter, Needle, Rows};

use crate::node::Node;
use crate::regex::Regex;
use crate::watch::Watch;

/// Two sets of lines, one within the other.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// These match.
    pub(crate) sure: Rows,
    /// All others do not.
    pub(crate) may: Rows,
}

impl Judged {
    fn exactly(rows: Rows) -> Self {
        Self { sure: rows.clone(), may: rows }
    }

    fn at_most(rows: Rows) -> Self {
        Self { sure: Rows::None, may: rows }
    }
}

/// Whether a line of a block with this filter may match. Never wrongly `false`.
pub(crate) fn may_match(node: &Node, filter: Filter<'_>) -> bool {
    let contains = |needle: &Needle| filter.may_contain(needle.text(), needle.any_case());
    match node {
        Node::All | Node::Not(_) => true,
        Node::Nothing => false,
        Node::Text(text) => filter.may_contain(text.bytes(), false),
        Node::Regex(regex) => regex.needles().clauses.iter().all(|clause| clause.iter().any(contains)),
        Node::Field(field) => {
            filter.may_contain(field.hidden_by(), false)
                || field.needles().all(|needle| filter.may_contain(needle, false))
        }
        Node::And(members) => members.iter().all(|member| may_match(member, filter)),
        Node::Or(members) => members.iter().any(|member| may_match(member, filter)),
    }
}

/// Judges some lines of a block; `None` when it is damaged. Looks at the watch before each term; says nothing when that
/// stopped it.
pub(crate) fn judge(node: &Node, block: &Block, among: Rows, watch: &Watch<'_>) -> Option<Judged> {
    if among == Rows::None || watch.look() {
        return Some(Judged::exactly(Rows::None));
    }
    Some(match node {
        Node::All => Judged::exactly(among),
        Node::Nothing => Judged::exactly(Rows::None),
        Node::Text(text) => Judged::exactly(among & block.find(&Needle::new(text.bytes(), false))?),
        Node::Regex(regex) => judge_regex(regex, block, among, watch)?,
        Node::Field(field) => {
            let mut rows = Rows::All;
            for needle in field.needles() {
                rows = rows & block.find(&Needle::new(needle, false))?;
                if rows == Rows::None {
                    break;
                }
            }
            // Escapes may hide a name or a value.
            Judged::at_most(among & (rows | block.find(&Needle::new(field.hidden_by(), false))?))
        }
        Node::And(members) => {
            let mut all = Judged::exactly(among);
            // The cheapest first: what it leaves out need not be asked.
            let mut members: Vec<&Node> = members.iter().collect();
            members.sort_by_key(|member| member.weight());
            for member in members {
                let judged = judge(member, block, all.may.clone(), watch)?;
                all = Judged { sure: all.sure & judged.sure, may: judged.may };
            }
            all
        }
        Node::Or(members) => {
            let mut any = Judged::exactly(Rows::None);
            for member in members {
                let judged = judge(member, block, among.clone() & !any.sure.clone(), watch)?;
                any = Judged { sure: any.sure | judged.sure, may: any.may | judged.may };
            }
            any
        }
        Node::Not(inner) => {
            let judged = judge(inner, block, among.clone(), watch)?;
            Judged { sure: among.clone() & !judged.may, may: among & !judged.sure }
        }
    })
}

fn judge_regex(regex: &Regex, block: &Block, among: Rows, watch: &Watch<'_>) -> Option<Judged> {
    let needles = regex.needles();
    let mut rows = among;
    for (number, clause) in needles.clauses.iter().enumerate() {
        let head = regex.head().filter(|_| needles.head == Some(number));
        let mut any = Rows::None;
        for needle in clause {
            if watch.look() {
                return Some(Judged::exactly(Rows::None));
            }
            any = any
                | match head {
                    Some(automaton) => block.find_head(needle, automaton)?,
                    None => block.find(needle)?,
                };
        }
        rows = rows & any;
        if rows == Rows::None {
            break;
        }
    }
    Some(match regex.columns() {
        _ if needles.exact => Judged::exactly(rows),
        Some(automaton) => Judged::exactly(block.accepted(automaton, &rows)?),
        None => Judged::at_most(rows),
    })
}
