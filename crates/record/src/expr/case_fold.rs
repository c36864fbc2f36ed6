//! Makes an expression case-insensitive.

use super::tree::{Expr, LineTest, Pattern, Test};

/// See [`Expr::into_case_insensitive`].
pub(super) fn make_case_insensitive(expr: &mut Expr) {
    match expr {
        Expr::All | Expr::Level(_) => {}
        Expr::Literal(text) | Expr::Line(LineTest::Contains(text) | LineTest::NotContains(text)) => {
            text.case_insensitive = true;
        }
        Expr::Regex(pattern) | Expr::Line(LineTest::Match(pattern) | LineTest::NotMatch(pattern)) => {
            pattern.case_insensitive = true;
        }
        Expr::Field(field) => field.test = case_insensitive_test(field.test.clone()),
        Expr::And(members) | Expr::Or(members) => members.iter_mut().for_each(make_case_insensitive),
        Expr::Not(inner) => make_case_insensitive(inner),
    }
}

/// The test with letters that match in either case.
pub(super) fn case_insensitive_test(test: Test) -> Test {
    match test {
        Test::Equal(value) => Test::Match(anchored_pattern(&value)),
        Test::NotEqual(value) => Test::NotMatch(anchored_pattern(&value)),
        Test::Match(pattern) => Test::Match(Pattern { case_insensitive: true, ..pattern }),
        Test::NotMatch(pattern) => Test::NotMatch(Pattern { case_insensitive: true, ..pattern }),
        Test::Less(_) | Test::LessEqual(_) | Test::Greater(_) | Test::GreaterEqual(_) => test,
        Test::Exists | Test::NotExists => test,
    }
}

/// A case-insensitive regex that matches exactly `value`.
fn anchored_pattern(value: &[u8]) -> Pattern {
    Pattern { source: format!("^{}$", Pattern::escape(value)), case_insensitive: true }
}
