//! Builds the filter expression to send, from the flags and the typed text.

use std::os::unix::ffi::OsStrExt;

use bucksaw_record::Expr;
use bucksaw_record::expr::SyntaxError;

use crate::args::FilterArgs;
use crate::failure::UsageError;

/// Characters of the expression that are shown on each side of an error.
const SHOWN_CHARS: usize = 50;

/// The expression in its canonical spelling, which is UTF-8.
pub(crate) fn build(args: &FilterArgs) -> Result<String, UsageError> {
    let typed = args.expr.as_deref().map(OsStrExt::as_bytes);
    let mut expr = match typed {
        None => Expr::All,
        Some(text) if args.fixed_strings => Expr::literal(text),
        Some(text) if args.extended_regexp => {
            let source = str::from_utf8(text)
                .map_err(|_| UsageError("a regex must be UTF-8: write other bytes as (?-u:\\xff)".to_owned()))?;
            Expr::regex(source)
        }
        Some(text) => Expr::parse(text).map_err(|error| UsageError(with_caret(text, &error)))?,
    };
    if args.ignore_case {
        expr = expr.into_case_insensitive();
    }
    if args.invert_match {
        expr = expr.negate();
    }
    let spelling = expr.to_string();
    // Quoting may have made it longer than the node accepts.
    match Expr::parse(spelling.as_bytes()) {
        Ok(_) => Ok(spelling),
        Err(error) => Err(UsageError(format!("the expression cannot be sent: {}", error.message))),
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
    use crate::args::OutputFormat;

    fn args(letters: &str, expr: &[u8]) -> FilterArgs {
        FilterArgs {
            expr: Some(OsStr::from_bytes(expr).to_owned()),
            addr: "http://a".parse().unwrap(),
            fixed_strings: letters.contains('F'),
            extended_regexp: letters.contains('E'),
            ignore_case: letters.contains('i'),
            invert_match: letters.contains('v'),
            max_count: None,
            output: OutputFormat::Raw,
        }
    }

    #[test]
    fn flags_are_applied() {
        let check = |letters: &str, expr: &[u8], want: &str| {
            assert_eq!(build(&args(letters, expr)).unwrap(), want, "{letters}");
        };
        check("", b"", "");
        check("", b"a AND b OR -c", "a b OR NOT c");
        check("F", b"a AND b", "\"a AND b\"");
        check("F", b"", "\"\"");
        check("F", b"\xff\n", "\"\\xFF\\n\"");
        check("E", b"^/api", "/^\\/api/");
        check("i", b"a", "\"a\"i");
        check("Fi", b"a b", "\"a b\"i");
        check("Ei", b"a b", "/a b/i");
        check("v", b"a", "NOT a");
        check("v", b"", "NOT \"\"");
        check("iv", b"a", "NOT \"a\"i");
        check("", b"caf\xe9", "\"caf\\xE9\"");
    }

    #[test]
    fn a_caret_marks_the_error() {
        let check = |expr: &[u8], want: &str| {
            let error = build(&args("", expr)).unwrap_err().to_string();
            let (_, shown) = error.split_once('\n').unwrap();
            assert_eq!(shown, want);
        };
        check(b"level=", "  level=\n        ^");
        check(b"(a", "  (a\n    ^");
        check(b"a)", "  a)\n   ^");
        check(b"\x1b\xff )", "  \u{fffd}\u{fffd} )\n     ^");
        let long = [&[b'a'; 500][..], b")", &[b'b'; 500]].concat();
        let shown = format!("  {}){}\n  {}^", "a".repeat(50), "b".repeat(49), " ".repeat(50));
        check(&long, &shown);
    }

    #[test]
    fn an_expression_that_cannot_be_sent_is_refused() {
        assert!(build(&args("E", b"\xff")).unwrap_err().to_string().contains("UTF-8"));
        assert!(build(&args("F", &[0xff; 30_000])).unwrap_err().to_string().contains("cannot be sent"));
    }
}
