//! Makes texts and regexes match whole words only, as `grep -w`.
//!
//! A match must start behind, and end before, a byte that is no letter, digit or underscore, or a bound of the line. The
//! half assertions of the `regex` crate say exactly this; `\b` would also demand that the match itself begins with a
//! letter, so that `-w '(a)'` would find nothing.

use bucksaw_record::Expr;
use bucksaw_record::expr::{Literal, Pattern};

/// The expression with its texts and regexes bound to whole words. Tests of fields are unchanged.
pub(super) fn into_whole_words(expr: Expr) -> Expr {
    let all = |members: Vec<Expr>| members.into_iter().map(into_whole_words).collect();
    match expr {
        // The empty text is in every record.
        Expr::Literal(Literal { bytes, case_insensitive }) if !bytes.is_empty() => {
            Expr::Regex(Pattern { source: word(&Pattern::escape(&bytes)), case_insensitive })
        }
        Expr::Regex(Pattern { source, case_insensitive }) => {
            Expr::Regex(Pattern { source: word(&source), case_insensitive })
        }
        Expr::And(members) => Expr::And(all(members)),
        Expr::Or(members) => Expr::Or(all(members)),
        Expr::Not(inner) => Expr::Not(Box::new(into_whole_words(*inner))),
        other => other,
    }
}

fn word(source: &str) -> String {
    format!(r"\b{{start-half}}(?:{source})\b{{end-half}}")
}
