//! The filter expressions of simulated queries, each with an oracle that decides matches without the product's code.

use bucksaw_record::Expr;

use crate::record_attributes::{record_number, values_of};
use crate::rng::SeededRng;

/// A filter expression of the table below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryFilter(usize);

type Oracle = fn(&str) -> bool;

/// Expressions and their oracles: everything, a literal, a regex over a number, a conjunction with a negation, a field that is an
/// attribute, the value of an attribute without its name, a level, and the lack of one.
const FILTERS: [(&str, Oracle); 8] = [
    ("", |_| true),
    (r#""record 1""#, |line| line.contains("record 1")),
    (r"/record [0-9]*[05] /", |line| record_number(line).is_some_and(|number| number.ends_with(['0', '5']))),
    (r#""client 0" AND NOT xxxxxxxxxxxxxxxx"#, |line| line.contains("client 0") && !line.contains("xxxxxxxxxxxxxxxx")),
    ("trace=t20", |line| has_attribute(line, "t20")),
    (r"/^t[0-9]*7$/", |line| values_of(line).is_some_and(|[trace, _]| trace.ends_with('7'))),
    ("@level>=warn", |line| has_attribute(line, "warn") || has_attribute(line, "error")),
    ("@level=none", |line| values_of(line).is_none()),
];

/// Whether a record has the attribute `trace` with this value, or `level`.
fn has_attribute(line: &str, value: &str) -> bool {
    values_of(line).is_some_and(|values| values.iter().any(|own| own == value))
}

impl QueryFilter {
    /// The filter that every record matches.
    pub(crate) const ALL: Self = Self(0);
    /// The filter of a literal.
    pub(crate) const LITERAL: Self = Self(1);
    /// The filter of a regex.
    pub(crate) const REGEX: Self = Self(2);

    /// Every record in half of the cases, else one of the other filters.
    pub(crate) fn random(rng: &SeededRng) -> Self {
        if rng.percent(50) { Self::ALL } else { Self(rng.between(1, FILTERS.len() - 1)) }
    }

    pub(crate) fn expression(self) -> Expr {
        let text = FILTERS.get(self.0).map_or("", |(text, _)| text);
        // The test below parses all of them.
        Expr::parse(text.as_bytes()).unwrap_or(Expr::All)
    }

    pub(crate) fn matches(self, line: &str) -> bool {
        FILTERS.get(self.0).is_none_or(|(_, matches)| matches(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_parses() {
        for (text, _) in FILTERS {
            assert_eq!(Expr::parse(text.as_bytes()).unwrap() == Expr::All, text.is_empty(), "{text}");
        }
    }

    #[test]
    fn oracles_decide_lines_of_clients() {
        let check = |filter: usize, want: &[bool]| {
            let lines = [
                "client 0 record 15 xx",
                "client 0 record 5 xxxxxxxxxxxxxxxxxx",
                "client 1 record 21 ",
                "client 0 record 0 ",
            ];
            let matches: Vec<bool> = lines.iter().map(|line| QueryFilter(filter).matches(line)).collect();
            assert_eq!(matches, want);
        };
        check(0, &[true, true, true, true]);
        check(1, &[true, false, false, false]);
        check(2, &[true, true, false, true]);
        check(3, &[true, false, false, true]);
    }
}
