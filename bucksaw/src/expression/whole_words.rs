//! Makes texts and regexes match whole words only, as `grep -w`.
//!
//! A match must start behind, and end before, a byte that is no letter, digit or underscore, or a bound of the line.
//! The half assertions of the `regex` crate express exactly this. `\b` would also require the match to begin with a
//! letter, so `-w '(a)'` would find nothing.

use bucksaw_record::Expr;
use bucksaw_record::expr::{LineTest, Literal, Pattern};

/// The expression with its texts and regexes bound to whole words. Tests of fields are unchanged.
pub(super) fn into_whole_words(expr: Expr) -> Expr {
    let all = |members: Vec<Expr>| members.into_iter().map(into_whole_words).collect();
    match expr {
        // The empty text is in every record.
        Expr::Literal(text) if !text.bytes.is_empty() => Expr::Regex(word_of(&text)),
        Expr::Regex(pattern) => Expr::Regex(word_match(&pattern)),
        Expr::Line(test) => Expr::Line(match test {
            LineTest::Contains(text) if !text.bytes.is_empty() => LineTest::Match(word_of(&text)),
            LineTest::NotContains(text) if !text.bytes.is_empty() => LineTest::NotMatch(word_of(&text)),
            LineTest::Match(pattern) => LineTest::Match(word_match(&pattern)),
            LineTest::NotMatch(pattern) => LineTest::NotMatch(word_match(&pattern)),
            empty => empty,
        }),
        Expr::And(members) => Expr::And(all(members)),
        Expr::Or(members) => Expr::Or(all(members)),
        Expr::Not(inner) => Expr::Not(Box::new(into_whole_words(*inner))),
        other => other,
    }
}

/// A regex that matches a text as a whole word.
fn word_of(text: &Literal) -> Pattern {
    word_match(&Pattern { source: Pattern::escape(&text.bytes), case_insensitive: text.case_insensitive })
}

fn word_match(Pattern { source, case_insensitive }: &Pattern) -> Pattern {
    let source = format!(r"\b{{start-half}}(?:{source})\b{{end-half}}");
    Pattern { source, case_insensitive: *case_insensitive }
}
