//! What an erasure selects.

use bucksaw_record::{Expr, Id, LabelScope, Labels, Millis};
use bucksaw_scan::{CompileError, Plan};
use serde::{Deserialize, Serialize};

/// Longest expression of an erasure, in bytes. Others are kept for the retention, sent to all nodes, and compiled at need.
pub const EXPR_BYTES_MAX: usize = 4 << 10;

/// Erasures that a node keeps. Their files, and the message that has all of them, are a few megabytes.
pub const ERASURES_MAX: usize = 1_000;

/// The records to erase: those of a time range and of some streams that meet an expression. Streams that Bucksaw writes itself,
/// such as the audit trail, are never selected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Its id. The time in it is that of the request.
    pub id: Id,
    /// The filter expression.
    pub expr: String,
    /// The time of the first record, inclusive.
    #[serde(rename = "from_ms")]
    pub from: Millis,
    /// The time of the last record, exclusive.
    #[serde(rename = "to_ms")]
    pub to: Millis,
    /// The labels that the streams have, as text; empty for all streams.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
}

/// Why an erasure is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidErasure {
    /// The expression is too long.
    #[error("the expression of an erasure has at most {EXPR_BYTES_MAX} bytes when written out, this one has {0}")]
    TooLong(usize),
    /// The expression selects every record.
    #[error("an erasure needs an expression: an empty one selects every record")]
    Everything,
    /// The expression cannot be parsed.
    #[error("the expression of the erasure is invalid: {0}")]
    Expression(String),
    /// A regex cannot be compiled.
    #[error(transparent)]
    Regex(#[from] CompileError),
    /// The time range is empty.
    #[error("the time range of the erasure is empty")]
    Empty,
    /// The labels cannot be parsed.
    #[error("the labels of the erasure are invalid")]
    Labels,
}

/// The parts of an erasure, checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedErasure {
    pub(crate) expr: Expr,
    pub(crate) scope: LabelScope,
}

impl Erasure {
    /// The erasure of what an expression selects.
    ///
    /// # Errors
    /// [`InvalidErasure`].
    pub fn new(
        id: Id,
        expr: &Expr,
        (from, to): (Millis, Millis),
        scope: Option<&LabelScope>,
    ) -> Result<Self, InvalidErasure> {
        let scope = scope.map(|scope| scope.labels().to_string()).unwrap_or_default();
        let erasure = Self { id, expr: expr.to_string(), from, to, scope };
        let checked = erasure.check()?;
        // What other nodes parse must be what was meant.
        if checked.expr == *expr { Ok(erasure) } else { Err(InvalidErasure::Expression(erasure.expr)) }
    }

    /// Checks all that other nodes or a file may have wrong.
    pub(crate) fn check(&self) -> Result<CheckedErasure, InvalidErasure> {
        if self.expr.len() > EXPR_BYTES_MAX {
            return Err(InvalidErasure::TooLong(self.expr.len()));
        }
        if self.from >= self.to {
            return Err(InvalidErasure::Empty);
        }
        let expr = Expr::parse(self.expr.as_bytes()).map_err(|error| InvalidErasure::Expression(error.to_string()))?;
        if expr == Expr::All {
            return Err(InvalidErasure::Everything);
        }
        Plan::compile(&expr)?;
        let scope = Labels::parse(&self.scope).map_err(|_| InvalidErasure::Labels)?;
        Ok(CheckedErasure { expr, scope: LabelScope::new(scope) })
    }

    /// Whether records of these ids, both inclusive, may be selected.
    pub(crate) fn overlaps(&self, low: Id, high: Id) -> bool {
        self.from <= high.time() && low.time() < self.to
    }

    /// Whether the time of a record is in the range.
    pub(crate) fn has_time(&self, id: Id) -> bool {
        self.from <= id.time() && id.time() < self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erasure(expr: &str, from: u64, to: u64, scope: &str) -> Erasure {
        let (id, expr, scope) = (Id::from_bits(7), expr.to_owned(), scope.to_owned());
        Erasure { id, expr, from: Millis(from), to: Millis(to), scope }
    }

    #[test]
    fn invalid_erasures_are_refused_with_the_reason() {
        let check = |erasure: Erasure, want: &str| {
            let got = erasure.check().map_or_else(|error| error.to_string(), |_| "valid".to_owned());
            assert!(got.starts_with(want), "{erasure:?}: {got}");
        };
        check(erasure("alice", 0, 1, ""), "valid");
        check(erasure("user=alice", 0, 1, "tenant=a"), "valid");
        check(erasure("", 0, 1, ""), "an erasure needs an expression");
        check(erasure("  ", 0, 1, ""), "an erasure needs an expression");
        check(erasure("alice", 1, 1, ""), "the time range of the erasure is empty");
        check(erasure("(alice", 0, 1, ""), "the expression of the erasure is invalid");
        check(erasure("/(a{999}){999}/", 0, 1, ""), "");
        check(
            erasure(&"a".repeat(EXPR_BYTES_MAX + 1), 0, 1, ""),
            "the expression of an erasure has at most 4096 bytes",
        );
        check(erasure("alice", 0, 1, "=,="), "the labels of the erasure are invalid");
        assert!(erasure("/(a{999}){999}/", 0, 1, "").check().is_err());
    }

    #[test]
    fn the_end_of_the_range_is_exclusive() {
        let erasure = erasure("alice", 5, 9, "");
        let at = |ms: u64| Id::first_at(Millis(ms));
        assert_eq!([4, 5, 8, 9].map(|ms| erasure.has_time(at(ms))), [false, true, true, false]);
        assert!(erasure.overlaps(at(8), at(20)) && !erasure.overlaps(at(9), at(20)));
        assert!(erasure.overlaps(at(0), at(5)) && !erasure.overlaps(at(0), at(4)));
    }
}
