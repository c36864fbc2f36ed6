//! Makes an expression case-insensitive.

use super::tree::{Expr, Field, LineTest, Literal, Pattern, Test};

/// See [`Expr::into_case_insensitive`].
pub(super) fn case_insensitive(expr: Expr) -> Expr {
    match expr {
        Expr::All => Expr::All,
        Expr::Literal(text) => Expr::Literal(Literal { case_insensitive: true, ..text }),
        Expr::Regex(pattern) => Expr::Regex(Pattern { case_insensitive: true, ..pattern }),
        Expr::Field(Field { name, test }) => Expr::Field(Field { name, test: case_insensitive_test(test) }),
        Expr::Level(test) => Expr::Level(test),
        Expr::Line(test) => Expr::Line(case_insensitive_line_test(test)),
        Expr::And(members) => Expr::And(members.into_iter().map(case_insensitive).collect()),
        Expr::Or(members) => Expr::Or(members.into_iter().map(case_insensitive).collect()),
        Expr::Not(inner) => Expr::Not(Box::new(case_insensitive(*inner))),
    }
}

fn case_insensitive_line_test(test: LineTest) -> LineTest {
    let literal = |text| Literal { case_insensitive: true, ..text };
    let pattern = |pattern| Pattern { case_insensitive: true, ..pattern };
    match test {
        LineTest::Contains(text) => LineTest::Contains(literal(text)),
        LineTest::NotContains(text) => LineTest::NotContains(literal(text)),
        LineTest::Match(regex) => LineTest::Match(pattern(regex)),
        LineTest::NotMatch(regex) => LineTest::NotMatch(pattern(regex)),
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
