//! The filter expressions of simulated queries, each with an oracle that decides matches without the product's code.

use bucksaw_record::Expr;

use crate::rng::SeededRng;

/// A filter expression of the table below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryFilter(usize);

type Oracle = fn(&str) -> bool;

/// Expressions and their oracles: everything, a literal, a regex over a number, a conjunction with a negation; levels,
/// durations, sizes, and fields that a record has or has not.
const FILTERS: [(&str, Oracle); 8] = [
    ("", |_| true),
    (r#""record 1""#, |line| line.contains("record 1")),
    (r"/record [0-9]*[05] /", |line| record_number(line).is_some_and(|number| number.ends_with(['0', '5']))),
    (r#""client 0" AND NOT xxxxxxxxxxxxxxxx"#, |line| line.contains("client 0") && !line.contains("xxxxxxxxxxxxxxxx")),
    ("@level>=warn", |line| line.contains("level=warn")),
    ("took>9s OR took<=90ms", |line| amount(line, "took=", "ms").is_some_and(|ms| ms > 9_000 || ms <= 90)),
    ("size=* -(size>=0.1MB)", |line| amount(line, "size=", "KB").is_some_and(|kilobytes| kilobytes < 103)),
    ("took!=* @level=none", |line| !line.contains("took=")),
];

/// The number between a key and a unit.
fn amount(line: &str, key: &str, unit: &str) -> Option<u64> {
    let (_, rest) = line.split_once(key)?;
    rest.split_once(unit)?.0.parse().ok()
}

/// The number after the only `record ` of a line of a client; a space follows it.
fn record_number(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("record ")?;
    rest.split_once(' ').map(|(number, _)| number)
}

impl QueryFilter {
    /// The filter that every record matches.
    pub(crate) const ALL: Self = Self(0);
    /// The filter of a literal.
    pub(crate) const LITERAL: Self = Self(1);
    /// The filter of a regex.
    pub(crate) const REGEX: Self = Self(2);
    /// The filter of a level.
    pub(crate) const LEVEL: Self = Self(4);
    /// The filter of a duration.
    pub(crate) const DURATION: Self = Self(5);

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
                "client 2 record 7 took=90ms level=info size=102KB from 10.0.0.102 x",
                "client 2 record 7 took=9001ms level=warn size=103KB from 10.0.0.103 x",
            ];
            let matches: Vec<bool> = lines.iter().map(|line| QueryFilter(filter).matches(line)).collect();
            assert_eq!(matches, want);
        };
        check(0, &[true, true, true, true, true, true]);
        check(1, &[true, false, false, false, false, false]);
        check(2, &[true, true, false, true, false, false]);
        check(3, &[true, false, false, true, false, false]);
        check(4, &[false, false, false, false, false, true]);
        check(5, &[false, false, false, false, true, true]);
        check(6, &[false, false, false, false, true, false]);
        check(7, &[true, true, true, true, false, false]);
    }
}
