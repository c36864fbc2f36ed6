//! A compiled expression, shared by all threads of a query.

use bucksaw_record::{Expr, Labels};

use crate::bound_plan::BoundPlan;
use crate::error::CompileError;
use crate::plan_node::{PlanNode, REGEXES_BYTES_MAX};

/// A compiled expression. Needles and automata are compiled once, not per block. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Plan {
    root: PlanNode,
}

impl Plan {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`CompileError`] if a regex is invalid, or would take too much memory.
    pub fn compile(expr: &Expr) -> Result<Self, CompileError> {
        Ok(Self { root: PlanNode::compile(expr, &mut { REGEXES_BYTES_MAX })? })
    }

    /// The plan for the records of one stream: terms on its labels are resolved, and the rest is simplified.
    #[must_use]
    pub fn bind(&self, labels: &Labels) -> BoundPlan {
        BoundPlan::new(&self.root.bind(labels))
    }

    /// Whether one record, without an LF behind it, matches. For many records of a stream, [`Self::bind`] once and call
    /// [`BoundPlan::matches`].
    #[must_use]
    pub fn matches(&self, labels: &Labels, record: &[u8]) -> bool {
        self.bind(labels).matches(record)
    }
}
