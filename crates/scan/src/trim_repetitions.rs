//! Shortens repetitions at both ends of a regex.
//!
//! A record matches if the regex does anywhere in it. So a repetition at an end of the regex need not repeat more often than it must:
//! `.*error: [a-z]+` matches in the same records as `error: [a-z]`. Literals at the ends come to light, and automata have fewer
//! states. Ends of matches, which the rewrite moves, are used only to find their record.

use regex_syntax::hir::{Hir, HirKind, Repetition};

/// An end of a regex.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    First,
    Last,
}

/// A regex that matches in the same texts, with the least repetitions at its ends. Capture groups are dropped there.
/// The recursion is as deep as the regex nests, which the parser bounds.
pub(crate) fn trim_repetitions(hir: Hir) -> Hir {
    trim(trim(hir, Edge::First), Edge::Last)
}

fn trim(hir: Hir, edge: Edge) -> Hir {
    if !matches!(
        hir.kind(),
        HirKind::Repetition(_) | HirKind::Capture(_) | HirKind::Concat(_) | HirKind::Alternation(_)
    ) {
        return hir;
    }
    match hir.into_kind() {
        HirKind::Repetition(Repetition { min: 0, .. }) => Hir::empty(),
        HirKind::Repetition(Repetition { min: 1, sub, .. }) => trim(*sub, edge),
        HirKind::Repetition(Repetition { min, greedy, sub, .. }) => {
            Hir::repetition(Repetition { min, max: Some(min), greedy, sub })
        }
        HirKind::Capture(capture) => trim(*capture.sub, edge),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(|part| trim(part, edge)).collect()),
        HirKind::Concat(mut parts) => {
            // A part that may be empty leaves the end to its neighbour.
            while let Some(part) = if edge == Edge::First { Some(parts.remove(0)) } else { parts.pop() } {
                let part = trim(part, edge);
                if !matches!(part.kind(), HirKind::Empty) || parts.is_empty() {
                    let at = if edge == Edge::First { 0 } else { parts.len() };
                    parts.insert(at, part);
                    break;
                }
            }
            Hir::concat(parts)
        }
        // Returned above.
        _ => Hir::empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_automata::meta;
    use regex_syntax::ParserBuilder;

    use super::*;

    fn parse(source: &str) -> Hir {
        ParserBuilder::new().utf8(false).unicode(false).multi_line(true).build().parse(source).unwrap()
    }

    #[test]
    fn ends_repeat_as_rarely_as_they_must() {
        let check = |source: &str, trimmed: &str| {
            assert_eq!(trim_repetitions(parse(source)), parse(trimmed), "{source}");
        };
        check(".*error: [a-z]+", "error: [a-z]");
        check("[0-9]{3,}x[0-9]{2,5}", "[0-9]{3}x[0-9]{2}");
        check("(a+b|c*d)e", "(?:ab|d)e");
        check("(ab+)+", "ab");
        check("a*b?", "");
        check(".*a+b[0-9]+c*", "ab[0-9]");
        check("^[a-z]+ x.*$", "^[a-z]+ x.*$");
        check("a.*b", "a.*b");
    }

    fn regex() -> impl Strategy<Value = String> {
        let leaf =
            prop::sample::select(vec!["a", "b", "ab", "[ab]", ".", "^", "$", "\\b", "\\n"]).prop_map(str::to_owned);
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                2 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                1 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join("|"))),
                2 => (inner, prop::sample::select(vec!["*", "+", "?", "{2,}", "{1,3}?", "{2}"])).prop_map(|(inner, repeats)| format!("(?:{inner}){repeats}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn the_same_texts_match(source in regex(), texts in prop::collection::vec("[abc\n]{0,7}", 1..20)) {
            let hir = parse(&source);
            let trimmed = trim_repetitions(hir.clone());
            let engine = |hir: &Hir| meta::Regex::builder().build_from_hir(hir).unwrap();
            let (before, after) = (engine(&hir), engine(&trimmed));
            for text in texts {
                prop_assert_eq!(before.is_match(&text), after.is_match(&text), "{} {} {:?}", source, trimmed, text);
            }
        }
    }
}
