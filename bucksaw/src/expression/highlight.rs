//! Finds the matches of a filter expression in a line, to colour them.

use std::ops::Range;

use bucksaw_record::Expr;
use bucksaw_record::expr::{LineTest, Pattern};
use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

/// The largest automaton, in bytes. A larger expression is not coloured.
const NFA_BYTES_MAX: usize = 4 << 20;

/// The longest line that is coloured, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The texts and regexes of an expression that a matching line may contain: all but those below `NOT`.
#[derive(Clone, Debug)]
pub(crate) struct Highlighter(Regex);

impl Highlighter {
    pub(super) fn new(expr: &Expr) -> Option<Self> {
        let mut sources = Vec::new();
        collect(expr, &mut sources);
        if sources.is_empty() {
            return None;
        }
        let syntax = syntax::Config::new().utf8(false).unicode(false);
        let config =
            Config::new().match_kind(MatchKind::LeftmostFirst).utf8_empty(false).nfa_size_limit(Some(NFA_BYTES_MAX));
        // A regex that the node refuses cannot be built here either; the node reports it.
        Regex::builder().syntax(syntax).configure(config).build_many(&sources).ok().map(Self)
    }

    /// The parts of a line to colour, in order, on character boundaries where the line is UTF-8.
    pub(crate) fn spans(&self, line: &[u8]) -> Vec<Range<usize>> {
        if line.len() > LINE_BYTES_MAX {
            return Vec::new();
        }
        let text = str::from_utf8(line).ok();
        let floor = |at: usize| (0..=at).rev().find(|at| text.is_none_or(|text| text.is_char_boundary(*at)));
        let ceil = |at: usize| (at..=line.len()).find(|at| text.is_none_or(|text| text.is_char_boundary(*at)));
        let mut spans: Vec<Range<usize>> = Vec::new();
        for found in self.0.find_iter(Input::new(line)).filter(|found| !found.is_empty()) {
            let (start, end) = (floor(found.start()).unwrap_or(0), ceil(found.end()).unwrap_or(line.len()));
            match spans.last_mut() {
                Some(last) if start <= last.end => last.end = end.max(last.end),
                _ => spans.push(start..end),
            }
        }
        spans
    }
}

fn collect(expr: &Expr, sources: &mut Vec<String>) {
    let mut push = |source: &str, case_insensitive| {
        sources.push(if case_insensitive { format!("(?i:{source})") } else { format!("(?:{source})") });
    };
    match expr {
        Expr::Literal(literal) | Expr::Line(LineTest::Contains(literal)) if !literal.bytes.is_empty() => {
            push(&Pattern::escape(&literal.bytes), literal.case_insensitive);
        }
        Expr::Regex(pattern) | Expr::Line(LineTest::Match(pattern)) => {
            push(&pattern.source, pattern.case_insensitive);
        }
        Expr::And(members) | Expr::Or(members) => members.iter().for_each(|member| collect(member, sources)),
        // A line matches because a text below `NOT` is absent, and tests of fields need not be about the line.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(expr: &[u8], line: &str) -> Option<String> {
        let highlighter = Highlighter::new(&Expr::parse(expr).unwrap())?;
        let (mut shown, mut rest) = (String::new(), 0);
        for span in highlighter.spans(line.as_bytes()) {
            shown += &format!("{}[{}]", &line[rest..span.start], &line[span.clone()]);
            rest = span.end;
        }
        Some(shown + &line[rest..])
    }

    #[test]
    fn matches_are_found() {
        let check = |expr: &str, line: &str, want: &str| {
            assert_eq!(marked(expr.as_bytes(), line).as_deref(), Some(want), "{expr}");
        };
        check("error", "an error, two errors", "an [error], two [error]s");
        check("\"error\"i", "Error", "[Error]");
        check("a.b", "a.b axb", "[a.b] axb");
        check("/a.b/ OR \"x y\"", "axb x y", "[axb] [x y]");
        check("_line=error _line=~/two?/ _line!=x", "an error, two", "an [error], [two]");
        check("/^a|b$/", "a a b b", "[a] a b [b]");
        check("one (two OR -three) level=x", "one two three x", "[one] [two] three x");
        check("/x*/", "ab", "ab");
        // A part of a character is extended to the whole.
        check("/(?-u:\\xC3)/", "ä", "[ä]");
        check("/\\b{start-half}(?:(a))\\b{end-half}/", "(a) b", "([a]) b");
    }

    #[test]
    fn nothing_is_coloured_without_a_text() {
        for expr in ["", "level=error", "_line!=error", "-error", "NOT (a OR b)"] {
            assert_eq!(marked(expr.as_bytes(), "error"), None, "{expr}");
        }
    }
}
