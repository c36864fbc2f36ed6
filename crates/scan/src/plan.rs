//! A compiled expression, shared by all threads of a query.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use bucksaw_record::expr::SyntaxError;
use bucksaw_record::{Expr, Labels, RecordView};

use crate::bound_plan::BoundPlan;
use crate::error::CompileError;
use crate::plan_node::PlanNode;
use crate::search_costs::SearchCosts;

/// A compiled expression. Needles and automata are compiled once, not per block. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Plan {
    root: PlanNode,
    costs: Arc<SearchCosts>,
}

impl Plan {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`CompileError`] if a regex is invalid, or would take too much memory.
    pub fn compile(expr: &Expr) -> Result<Self, CompileError> {
        let root = PlanNode::compile(expr)?;
        let mut question = DefaultHasher::new();
        expr.to_string().hash(&mut question);
        let costs = SearchCosts::new(question.finish(), root.text_weight());
        Ok(Self { root, costs: costs.into() })
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
        BoundPlan::new(&self.root.bind(labels), &self.costs)
    }

    /// What searches by this plan cost so far.
    #[must_use]
    pub fn costs(&self) -> &SearchCosts {
        &self.costs
    }

    /// Whether one record matches. For many records of a stream, [`Self::bind`] once and call
    /// [`BoundPlan::matches`].
    #[must_use]
    pub fn matches(&self, labels: &Labels, record: RecordView<'_>) -> bool {
        self.bind(labels).matches(record)
    }
}
