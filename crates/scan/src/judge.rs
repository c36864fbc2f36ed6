//! What the columns of a block say of a plan, before any line is built: which lines match for sure, and which may.
//!
//! Texts are found exactly. Of a regex the texts are found that a match must have, of a field its name and value; those
//! lines may match. Logic joins both bounds, and what is left between them is settled by looking at the lines themselves.

use bucksaw_columns::{Block, Filter, Needle, Rows};

use crate::node::Node;

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
        Node::Field(field) => filter.may_have(b'\\') || field.needles().all(|needle| filter.may_contain(needle, false)),
        Node::And(members) => members.iter().all(|member| may_match(member, filter)),
        Node::Or(members) => members.iter().any(|member| may_match(member, filter)),
    }
}

/// Judges all lines of a block; `None` when it is damaged.
pub(crate) fn judge(node: &Node, block: &Block) -> Option<Judged> {
    Some(match node {
        Node::All => Judged::exactly(Rows::All),
        Node::Nothing => Judged::exactly(Rows::None),
        Node::Text(text) => Judged::exactly(block.find(&Needle::new(text.bytes(), false))?),
        Node::Regex(regex) => {
            let needles = regex.needles();
            let mut rows = Rows::All;
            for clause in &needles.clauses {
                let mut any = Rows::None;
                for needle in clause {
                    any = any | block.find(needle)?;
                }
                rows = rows & any;
                if rows == Rows::None {
                    break;
                }
            }
            if needles.exact { Judged::exactly(rows) } else { Judged::at_most(rows) }
        }
        Node::Field(field) => {
            let mut rows = Rows::All;
            for needle in field.needles() {
                rows = rows & block.find(&Needle::new(needle, false))?;
                if rows == Rows::None {
                    break;
                }
            }
            // Escapes may hide a name or a value.
            Judged::at_most(rows | block.find(&Needle::new(b"\\", false))?)
        }
        Node::And(members) => {
            let mut all = Judged::exactly(Rows::All);
            // The cheapest first: what it leaves out need not be asked.
            let mut members: Vec<&Node> = members.iter().collect();
            members.sort_by_key(|member| member.weight());
            for member in members {
                let judged = judge(member, block)?;
                all = Judged { sure: all.sure & judged.sure, may: all.may & judged.may };
                if all.may == Rows::None {
                    break;
                }
            }
            all
        }
        Node::Or(members) => {
            let mut any = Judged::exactly(Rows::None);
            for member in members {
                let judged = judge(member, block)?;
                any = Judged { sure: any.sure | judged.sure, may: any.may | judged.may };
                if any.sure == Rows::All {
                    break;
                }
            }
            any
        }
        Node::Not(inner) => {
            let judged = judge(inner, block)?;
            Judged { sure: !judged.may, may: !judged.sure }
        }
    })
}
