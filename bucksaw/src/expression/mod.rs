//! Builds the filter expression to send, from the flags and the typed texts.

mod highlight;
mod whole_words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use bucksaw_record::Expr;
use bucksaw_record::expr::SyntaxError;
use bucksaw_scan::Plan;

use crate::args::PatternArgs;
use crate::failure::UsageError;
pub(crate) use highlight::Highlighter;

/// Characters of the expression that are shown on each side of an error.
const SHOWN_CHARS: usize = 50;

/// A filter expression, checked.
#[derive(Clone, Debug)]
pub(crate) struct RecordRules {
    expr: Expr,
    /// The text that is sent: as typed if no flag changes it, so that hints of the node refer to it; else the canonical
    /// spelling.
    pub(crate) spelling: String,
}

impl RecordRules {
    /// The expression that the flags and the typed texts select records with.
    pub(crate) fn build(args: &PatternArgs) -> Result<Self, UsageError> {
        let typed: Vec<&OsString> = args.expr.iter().chain(&args.exprs).collect();
        let mut members = typed.iter().map(|text| member(args, text.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let mut expr = match members.len() {
            0 => Expr::All,
            1 => members.remove(0),
            // An expression that matches everything is no member of `OR`.
            _ if members.contains(&Expr::All) => Expr::All,
            _ => Expr::Or(members.into_iter().flat_map(alternatives).collect()),
        };
        if args.word_regexp {
            expr = whole_words::into_whole_words(expr);
        }
        if args.ignore_case {
            expr = expr.into_case_insensitive();
        }
        if args.invert_match {
            expr = expr.negate();
        }
        let is_changed =
            args.fixed_strings || args.extended_regexp || args.word_regexp || args.ignore_case || args.invert_match;
        let spelling = match typed.as_slice() {
            [text] if !is_changed => text.to_str().map_or_else(|| expr.to_string(), str::to_owned),
            // A literal is meant as it is, and gets no hint.
            _ if args.fixed_strings => format!("{expr:#}"),
            _ => expr.to_string(),
        };
        // Quoting may have made it longer than the node accepts.
        match Expr::parse(spelling.as_bytes()) {
            Ok(_) => Ok(Self { expr, spelling }),
            Err(error) => Err(UsageError(format!("the expression cannot be sent: {}", error.message))),
        }
    }

    /// Finds what to colour in matching lines; `None` if the expression has no text or regex to find.
    pub(crate) fn highlighter(&self) -> Option<Highlighter> {
        Highlighter::new(&self.expr)
    }
}

/// One typed text as an expression.
fn member(args: &PatternArgs, text: &[u8]) -> Result<Expr, UsageError> {
    if args.fixed_strings {
        return Ok(Expr::literal(text));
    }
    if args.extended_regexp {
        let source = str::from_utf8(text)
            .map_err(|_| UsageError("a regex must be UTF-8: write other bytes as (?-u:\\xff)".to_owned()))?;
        let expr = Expr::regex(source);
        Plan::compile(&expr).map_err(|error| UsageError(error.to_string()))?;
        return Ok(expr);
    }
    let expr = Expr::parse(text).map_err(|error| UsageError(with_caret(text, &error)))?;
    // The node compiles it too, but here the error can point at the typed text.
    Plan::compile(&expr).map_err(|error| UsageError(with_caret(text, &error.in_expression(text))))?;
    Ok(expr)
}

/// The members of an `OR`, else the expression itself.
fn alternatives(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::Or(members) => members,
        other => vec![other],
    }
}

/// The error, and a caret under its position in the expression.
fn with_caret(text: &[u8], error: &SyntaxError) -> String {
    let at = error.column.saturating_sub(1);
    let skipped = at.saturating_sub(SHOWN_CHARS);
    // Each character takes one column, so that the caret is in the right one.
    let shown = |char: char| if char.is_control() { '\u{fffd}' } else { char };
    let text = String::from_utf8_lossy(text);
    let line: String = text.chars().skip(skipped).take(2 * SHOWN_CHARS).map(shown).collect();
    format!("{error}\n  {line}\n  {:>width$}", '^', width = at - skipped + 1)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn args(letters: &str, exprs: &[&[u8]]) -> PatternArgs {
        PatternArgs {
            expr: None,
            exprs: exprs.iter().map(|expr| OsStr::from_bytes(expr).to_owned()).collect(),
            fixed_strings: letters.contains('F'),
            extended_regexp: letters.contains('E'),
            ignore_case: letters.contains('i'),
            word_regexp: letters.contains('w'),
            invert_match: letters.contains('v'),
        }
    }

    fn build(args: &PatternArgs) -> Result<String, UsageError> {
        RecordRules::build(args).map(|selection| selection.spelling)
    }

    #[test]
    fn flags_are_applied() {
        let check = |letters: &str, expr: &[u8], want: &str| {
            assert_eq!(build(&args(letters, &[expr])).unwrap(), want, "{letters}");
        };
        check("", b"", "");
        check("", b"a AND b OR -c", "a AND b OR -c");
        check("", b"level = error", "level = error");
        check("v", b"a AND b OR -c", "NOT (a b OR NOT c)");
        check("F", b"a AND b", "\"a AND b\"");
        check("F", b"", "\"\"");
        check("F", b"a:b", "\"a:b\"");
        check("F", b"a\\b", "\"a\\\\b\"");
        check("Fv", b"a", "NOT \"a\"");
        check("F", b"\xff\n", "\"\\xFF\\n\"");
        check("E", b"^/api", "/^\\/api/");
        check("i", b"a", "\"a\"i");
        check("Fi", b"a b", "\"a b\"i");
        check("Ei", b"a b", "/a b/i");
        check("v", b"a", "NOT a");
        check("v", b"", "NOT \"\"");
        check("iv", b"a", "NOT \"a\"i");
        check("", b"caf\xe9", "\"caf\\xE9\"");
        check("w", b"a.b level=x", "/\\b{start-half}(?:a\\.b)\\b{end-half}/ level=x");
        check(
            "w",
            b"_line=a _line!~/b/ _line=\"\"",
            "_line=~/\\b{start-half}(?:a)\\b{end-half}/ _line!~/\\b{start-half}(?:b)\\b{end-half}/ _line=\"\"",
        );
        check("i", b"_line=a _line!=b _line=~/c/", "_line=\"a\"i _line!=\"b\"i _line=~/c/i");
        check("wi", b"a", "/\\b{start-half}(?:a)\\b{end-half}/i");
        check("Ew", b"a|b", "/\\b{start-half}(?:a|b)\\b{end-half}/");
    }

    #[test]
    fn several_expressions_are_alternatives() {
        let check = |letters: &str, exprs: &[&[u8]], want: &str| {
            assert_eq!(build(&args(letters, exprs)).unwrap(), want, "{letters}");
        };
        check("", &[b"a b", b"c OR d", b"-e"], "a b OR c OR d OR NOT e");
        check("F", &[b"a OR b", b"c"], "\"a OR b\" OR \"c\"");
        check("Fv", &[b"a", b"b"], "NOT (\"a\" OR \"b\")");
        check("v", &[b"a", b"b"], "NOT (a OR b)");
        check("", &[b"a", b""], "");
    }

    #[test]
    fn a_caret_marks_the_error() {
        let check = |expr: &[u8], want: &str| {
            let error = build(&args("", &[expr])).unwrap_err().to_string();
            let (_, shown) = error.split_once('\n').unwrap();
            assert_eq!(shown, want);
        };
        check(b"level=", "  level=\n        ^");
        check(b"(a", "  (a\n    ^");
        check(b"a)", "  a)\n   ^");
        check(b"app=x /a(b/", "  app=x /a(b/\n          ^");
        check(b"\x1b\xff )", "  \u{fffd}\u{fffd} )\n     ^");
        let long = [&[b'a'; 500][..], b")", &[b'b'; 500]].concat();
        let shown = format!("  {}){}\n  {}^", "a".repeat(50), "b".repeat(49), " ".repeat(50));
        check(&long, &shown);
    }

    #[test]
    fn an_expression_that_cannot_be_sent_is_refused() {
        assert!(build(&args("E", &[b"\xff"])).unwrap_err().to_string().contains("UTF-8"));
        assert!(build(&args("F", &[&[0xff; 30_000]])).unwrap_err().to_string().contains("cannot be sent"));
    }
}
