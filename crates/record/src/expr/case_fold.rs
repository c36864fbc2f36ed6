//! Turns an expression into the same in any case of letters.

use std::fmt::Write;

use super::{Expr, Field, Literal, Pattern, Test};

/// What a regex would take for more than itself.
const REGEX_META: &str = r"\.+*?()|[]{}^$#&-~";

/// See [`Expr::any_case`].
pub(super) fn case_insensitive(expr: Expr) -> Expr {
    match expr {
        Expr::All => Expr::All,
        Expr::Literal(text) => Expr::Literal(Literal { case_insensitive: true, ..text }),
        Expr::Regex(pattern) => Expr::Regex(Pattern { case_insensitive: true, ..pattern }),
        Expr::Field(Field { name, test }) => Expr::Field(Field { name, test: case_insensitive_test(test) }),
        Expr::And(members) => Expr::And(members.into_iter().map(case_insensitive).collect()),
        Expr::Or(members) => Expr::Or(members.into_iter().map(case_insensitive).collect()),
        Expr::Not(inner) => Expr::Not(Box::new(case_insensitive(*inner))),
    }
}

/// The test that lets letters of either case pass.
pub(super) fn case_insensitive_test(test: Test) -> Test {
    match test {
        Test::Equal(value) => Test::Match(anchored_pattern(&value)),
        Test::NotEqual(value) => Test::NotMatch(anchored_pattern(&value)),
        Test::Match(pattern) => Test::Match(Pattern { case_insensitive: true, ..pattern }),
        Test::NotMatch(pattern) => Test::NotMatch(Pattern { case_insensitive: true, ..pattern }),
        Test::Less(_) | Test::LessEqual(_) | Test::Greater(_) | Test::GreaterEqual(_) => test,
    }
}

/// A regex that matches `value` in any case, and only when it is the whole.
fn anchored_pattern(value: &[u8]) -> Pattern {
    let mut source = String::from("^");
    for chunk in value.utf8_chunks() {
        for char in chunk.valid().chars() {
            if REGEX_META.contains(char) {
                source.push('\\');
            }
            source.push(char);
        }
        for byte in chunk.invalid() {
            // Only with Unicode off does `\xHH` mean a byte and not a character. Writing to a string cannot fail.
            let _ = write!(source, r"(?-u:\x{byte:02X})");
        }
    }
    source.push('$');
    Pattern { source, case_insensitive: true }
}
