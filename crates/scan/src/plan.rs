//! A compiled expression, shared by all threads of a query.

use bucksaw_record::expr::SyntaxError;
use bucksaw_record::{Expr, Labels, RecordView};

use crate::bound_plan::BoundPlan;
use crate::error::CompileError;
use crate::plan_node::PlanNode;

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
        Ok(Self { root: PlanNode::compile(expr)? })
    }

    /// Parses and compiles an expression. Unlike [`Self::compile`], it names the position of an error in a regex within the
    /// whole expression.
    ///
    /// ```
    /// # use bucksaw_scan::Plan;
    /// let error = Plan::parse(b"error /a[b/").unwrap_err();
    /// assert_eq!(error.to_string(), "column 9: the regex /a[b/ is wrong here: unclosed character class");
    /// ```
    ///
    /// # Errors
    /// [`SyntaxError`], also if a regex is invalid or would take too much memory.
    pub fn parse(input: &[u8]) -> Result<(Expr, Self), SyntaxError> {
        let expr = Expr::parse(input)?;
        let plan = Self::compile(&expr).map_err(|error| error.in_expression(input))?;
        Ok((expr, plan))
    }

    /// The plan for the records of one stream: terms on its labels are resolved, and the rest is simplified.
    #[must_use]
    pub fn bind(&self, labels: &Labels) -> BoundPlan {
        BoundPlan::new(&self.root.bind(labels))
    }

    /// Whether one record matches. For many records of a stream, [`Self::bind`] once and call
    /// [`BoundPlan::matches`].
    #[must_use]
    pub fn matches(&self, labels: &Labels, record: RecordView<'_>) -> bool {
        self.bind(labels).matches(record)
    }
}
