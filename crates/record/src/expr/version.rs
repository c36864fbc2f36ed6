//! The version of the grammar: a node receives only expressions that it can parse.
//!
//! An earlier version reads some of the later forms as others, `@level=error` as a field of that name, and would give a
//! wrong answer instead of an error.

use super::number::Number;
use super::quantity::Limit;
use super::tree::{Expr, Field, Test};

/// The latest version of the grammar.
pub const GRAMMAR_VERSION: u32 = 3;

/// Significant digits, and decimal places before or after the point, up to which a 64-bit float compares as the decimal
/// number does.
const FLOAT_DIGITS: usize = 15;
const FLOAT_PLACES: i64 = 300;

impl Expr {
    /// The earliest version of the grammar that has every form of this expression.
    ///
    /// Version 2 adds `@level`, existence, limits with a unit, and exact comparisons beyond the precision of floats.
    /// Version 3 adds `_line`.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// let version = |text: &[u8]| Expr::parse(text).unwrap().grammar_version();
    /// assert_eq!((version(b"error status>=500"), version(b"@level=error")), (1, 2));
    /// ```
    #[must_use]
    pub fn grammar_version(&self) -> u32 {
        match self {
            Self::All | Self::Literal(_) | Self::Regex(_) => 1,
            Self::Level(_) => 2,
            Self::Line(_) => 3,
            Self::Field(Field { test, .. }) => match test {
                Test::Equal(_) | Test::NotEqual(_) | Test::Match(_) | Test::NotMatch(_) => 1,
                Test::Exists | Test::NotExists => 2,
                Test::Less(limit) | Test::LessEqual(limit) | Test::Greater(limit) | Test::GreaterEqual(limit) => {
                    if matches!(limit, Limit::Number(number) if compares_as_float(number)) { 1 } else { 2 }
                }
            },
            Self::And(members) | Self::Or(members) => members.iter().map(Self::grammar_version).max().unwrap_or(1),
            Self::Not(inner) => inner.grammar_version(),
        }
    }
}

fn compares_as_float(number: &Number) -> bool {
    number.digit_count() <= FLOAT_DIGITS && number.places().abs() <= FLOAT_PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_forms_have_a_later_version() {
        let check = |text: &str, want: u32| {
            assert_eq!(Expr::parse(text.as_bytes()).unwrap().grammar_version(), want, "{text}");
        };
        for text in
            ["", "a /b/ c=d", "\"*\" a=\"*\" b!=x", "n>=1.5 OR n<123456789012345", "n<1e299", "NOT \"@level\"=x", "é=1"]
        {
            check(text, 1);
        }
        for text in
            ["@level=error", "a=*", "a!=*", "n>1234567890123456", "n<1e300", "n>1e400", "n<1e-400", "d>1ms", "s>1KB"]
        {
            check(text, 2);
            check(&format!("a OR (b NOT {text})"), 2);
        }
        for text in ["_line=a", "_line!=a", "_line=~/a/", "_line!~/a/"] {
            check(text, 3);
            check(&format!("a OR (@level=error NOT {text})"), 3);
        }
        check("\"_line\"=a", 1);
    }
}
