//! Turns an expression into the same in any case of letters.

use std::fmt::Write;

use super::{Expr, Field, Pattern, Test, Text};

/// What a regex would take for more than itself.
const SPECIAL: &str = r"\.+*?()|[]{}^$#&-~";

/// See [`Expr::any_case`].
pub(super) fn any_case(expr: Expr) -> Expr {
    match expr {
        Expr::All => Expr::All,
        Expr::Text(text) => Expr::Text(Text { any_case: true, ..text }),
        Expr::Regex(pattern) => Expr::Regex(Pattern { any_case: true, ..pattern }),
        Expr::Field(Field { name, test }) => Expr::Field(Field { name, test: any_case_test(test) }),
        Expr::And(members) => Expr::And(members.into_iter().map(any_case).collect()),
        Expr::Or(members) => Expr::Or(members.into_iter().map(any_case).collect()),
        Expr::Not(inner) => Expr::Not(Box::new(any_case(*inner))),
    }
}

/// The test that lets letters of either case pass.
pub(super) fn any_case_test(test: Test) -> Test {
    match test {
        Test::Equal(value) => Test::Match(whole(&value)),
        Test::NotEqual(value) => Test::NotMatch(whole(&value)),
        Test::Match(pattern) => Test::Match(Pattern { any_case: true, ..pattern }),
        Test::NotMatch(pattern) => Test::NotMatch(Pattern { any_case: true, ..pattern }),
        Test::Less(_) | Test::LessEqual(_) | Test::Greater(_) | Test::GreaterEqual(_) => test,
    }
}

/// A regex that matches `value` in any case, and only when it is the whole.
fn whole(value: &[u8]) -> Pattern {
    let mut source = String::from("^");
    for chunk in value.utf8_chunks() {
        for char in chunk.valid().chars() {
            if SPECIAL.contains(char) {
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
    Pattern { source, any_case: true }
}
