//! An expression, compiled once for a whole query and shared by all that work on it.

use bucksaw_record::{Expr, Labels};

use crate::plan_node::PlanNode;
use crate::{BoundPlan, CompileError};

/// Bytes that all compiled regexes of an expression may take together, without what each thread's search adds.
pub(crate) const REGEXES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What an expression asks, ready to be searched for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Plan {
    root: PlanNode,
}

impl Plan {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`CompileError`] when a regex is wrong, or would take too much memory.
    pub fn compile(expr: &Expr) -> Result<Self, CompileError> {
        Ok(Self { root: PlanNode::compile(expr, &mut { REGEXES_BYTES_MAX })? })
    }

    /// The plan for the records of one stream: what the labels tell is settled, and what is left is simplified.
    #[must_use]
    pub fn bind(&self, labels: &Labels) -> BoundPlan {
        BoundPlan::new(&self.root.bind(labels))
    }

    /// Whether one record matches, given alone and without an LF behind it. For many records of a stream,
    /// [`Self::bind`] once and ask [`Bound::matches`].
    #[must_use]
    pub fn matches(&self, labels: &Labels, record: &[u8]) -> bool {
        self.bind(labels).matches(record)
    }
}
