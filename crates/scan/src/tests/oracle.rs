//! Random expressions over random records, against a matcher that tests each record alone.

use std::borrow::Cow;
use std::cmp::Ordering;

use bucksaw_record::expr::{Field, LevelTest, Limit, LineTest, Literal, Pattern, Test};
use proptest::prelude::*;
use regex_automata::{meta, util::syntax};

use super::*;

/// A record as it was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct PlainRecord {
    pub(super) line: Vec<u8>,
    /// Names and values.
    pub(super) attributes: Vec<(String, Vec<u8>)>,
}

impl PlainRecord {
    /// Whether the line or a value passes.
    fn any_part(&self, passes: impl Fn(&[u8]) -> bool) -> bool {
        passes(&self.line) || self.attributes.iter().any(|(_, value)| passes(value))
    }

    fn level(&self, labels: &Labels) -> Option<Level> {
        let is_key = |name: &str| level::is_key(name.rsplit('.').next().unwrap().as_bytes());
        let mut named = self.attributes.iter().filter(|(name, _)| is_key(name));
        let of_attributes = || named.find_map(|(_, value)| Level::from_name(value));
        Level::of_labels(labels).or_else(of_attributes).or_else(|| Level::of_text(&self.line))
    }
}

/// Whether a record without attributes matches.
pub(super) fn matches(expr: &Expr, labels: &Labels, line: &[u8]) -> bool {
    matches_record(expr, labels, &PlainRecord { line: line.to_vec(), attributes: Vec::new() })
}

/// Whether `record` matches, in the simplest way.
pub(super) fn matches_record(expr: &Expr, labels: &Labels, record: &PlainRecord) -> bool {
    match expr {
        Expr::All => true,
        Expr::Literal(text) => record.any_part(|part| contains(text, part)),
        Expr::Regex(pattern) => record.any_part(|part| regex(pattern, true).is_match(part)),
        Expr::Line(LineTest::Contains(text)) => contains(text, &record.line),
        Expr::Line(LineTest::NotContains(text)) => !contains(text, &record.line),
        Expr::Line(LineTest::Match(pattern)) => regex(pattern, true).is_match(&record.line),
        Expr::Line(LineTest::NotMatch(pattern)) => !regex(pattern, true).is_match(&record.line),
        Expr::Field(Field { name, test }) => {
            let attribute = record.attributes.iter().rfind(|(other, _)| other == name);
            let value: Option<Cow<'_, [u8]>> = match (labels.get(name), attribute) {
                (Some(value), _) => Some(value.as_bytes().into()),
                (None, Some((_, value))) => Some(value.into()),
                (None, None) => fields::lookup(&record.line, name),
            };
            let compared = |limit: &Limit| limit.compare(value.as_deref()?);
            match test {
                Test::Equal(wanted) => value.as_deref() == Some(wanted),
                Test::NotEqual(wanted) => value.as_deref() != Some(wanted),
                Test::Match(pattern) => value.is_some_and(|value| regex(pattern, false).is_match(&value[..])),
                Test::NotMatch(pattern) => !value.is_some_and(|value| regex(pattern, false).is_match(&value[..])),
                Test::Less(limit) => compared(limit).is_some_and(Ordering::is_lt),
                Test::LessEqual(limit) => compared(limit).is_some_and(Ordering::is_le),
                Test::Greater(limit) => compared(limit).is_some_and(Ordering::is_gt),
                Test::GreaterEqual(limit) => compared(limit).is_some_and(Ordering::is_ge),
                Test::Exists => value.is_some(),
                Test::NotExists => value.is_none(),
            }
        }
        Expr::Level(test) => test.accepts(record.level(labels)),
        Expr::And(members) => members.iter().all(|member| matches_record(member, labels, record)),
        Expr::Or(members) => members.iter().any(|member| matches_record(member, labels, record)),
        Expr::Not(inner) => !matches_record(inner, labels, record),
    }
}

fn contains(Literal { bytes, case_insensitive }: &Literal, text: &[u8]) -> bool {
    let is_equal =
        |window: &[u8]| if *case_insensitive { window.eq_ignore_ascii_case(bytes) } else { window == &bytes[..] };
    bytes.is_empty() || text.windows(bytes.len()).any(is_equal)
}

fn regex(pattern: &Pattern, multi_line: bool) -> meta::Regex {
    let flags = syntax::Config::new().unicode(false).utf8(false).multi_line(multi_line);
    meta::Builder::new()
        .syntax(flags.case_insensitive(pattern.case_insensitive))
        .configure(meta::Config::new().utf8_empty(false))
        .build(&pattern.source)
        .unwrap()
}

fn any_byte() -> impl Strategy<Value = u8> {
    prop::sample::select(&b"aaabbABc =\r\0\xff\xc3\xa9\"\\{"[..])
}

pub(super) fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let logfmt = prop::sample::select(
        &[
            "a=b",
            "a=1",
            "b=2",
            " ",
            "x",
            "a=\"b c\"",
            "a=\"b\\\"c\"",
            "a.b=1",
            "a=-1.5",
            "a=\"",
            "a.0=b",
            "{\"a\":1}",
            "{\"a\":\"b\"}",
            "{\"a\":{\"b\":1},\"b\":\"a\"}",
            "{\"a\":[\"b\",2]}",
            "{\"\\u0061\":\"\\u0062\"}",
            " {\"a.b\":true,\"b\":[{\"a\":null}]}",
            "{\"a\":1e3,\"a\":",
            "{ \"b\" : { \"a\" : 1 } }",
            "a=9007199254740992",
            "a=9007199254740994.0",
            "a=1.5ms",
            "{\"a\":\"1m2s\"}",
            "a=2KiB",
            "a=*",
            "level=error",
            "{\"level\":30}",
            "{\"severity\":\"Warning\"}",
            "WARN",
            "[error]",
            "fatal: ",
            "ERRORS",
            "\x1b[31mERROR\x1b[0m",
            "\x1b[31m INF",
            "LOG:",
            "E1121 x",
            "level:",
            "lvl=dbg",
        ][..],
    );
    let logfmt = prop::collection::vec(logfmt, 1..4).prop_map(|parts| parts.join(" ").into_bytes());
    prop_oneof![prop::collection::vec(any_byte(), 0..10), logfmt]
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let atom = prop::sample::select(
        &[
            "a",
            "b",
            "ab",
            "é",
            ".",
            "[^a]",
            r"\s",
            r"\W",
            r"\n",
            "(?s:.)",
            "^",
            "$",
            r"\b",
            r"\B",
            r"\A",
            r"\z",
            "[a-c]",
            r"\r",
            "(?-u:\\xFF)",
            "(?u:.)",
            "(?u:\\w)",
            "(?u:\\b)",
            "(?R:$)",
            "(?R:^)",
            "(?u:[^a])",
            "a\\nb",
            "=",
            "",
        ][..],
    );
    let repeat = prop::sample::select(&["", "", "", "*", "+", "?", "{2}", "*?"][..]);
    let part = (atom, repeat).prop_map(|(atom, repeat)| format!("(?:{atom}){repeat}"));
    // Branches that all have literals are searched one by one.
    let literal = prop::sample::select(&["", "ab", "aa", "bc"][..]);
    let branch =
        (literal, prop::collection::vec(part, 1..4)).prop_map(|(literal, parts)| literal.to_owned() + &parts.concat());
    let branches = prop::collection::vec(branch, 1..4).prop_map(|branches| branches.join("|"));
    // Half of them have a literal prefix.
    let head = prop::sample::select(&["", "", "", "aa", "ab", "a=", "bc=aa"][..]);
    let source = (head, branches).prop_map(|(head, branches)| match head {
        "" => branches,
        head => format!("{head}(?:{branches})"),
    });
    (source, any::<bool>()).prop_map(|(source, any_case)| Pattern { source, case_insensitive: any_case })
}

fn any_test() -> impl Strategy<Value = Test> {
    let value =
        prop::sample::select(&["", "a", "b", "1", "b c", "b\"c", "true", "null", "[\"b\",2]", "{\"a\":1}", "1e3"][..]);
    let limits = ["-1.5", "0", "1", "2", "1000", "9007199254740993", "1ms", "1s", "1KB"];
    let number = prop::sample::select(limits.map(|limit| Limit::parse(limit.as_bytes()).unwrap()).to_vec());
    let value = value.prop_map(|value| value.as_bytes().to_vec());
    prop_oneof![
        value.clone().prop_map(Test::Equal),
        value.prop_map(Test::NotEqual),
        number.clone().prop_map(Test::Less),
        number.clone().prop_map(Test::LessEqual),
        number.clone().prop_map(Test::Greater),
        number.prop_map(Test::GreaterEqual),
        any_pattern().prop_map(Test::Match),
        any_pattern().prop_map(Test::NotMatch),
        Just(Test::Exists),
        Just(Test::NotExists),
    ]
}

pub(super) fn any_level_test() -> impl Strategy<Value = LevelTest> {
    let level = prop::sample::select(&Level::ALL[..]);
    let level_or_none = prop::option::of(level.clone());
    prop_oneof![
        level_or_none.clone().prop_map(LevelTest::Equal),
        level_or_none.prop_map(LevelTest::NotEqual),
        level.clone().prop_map(LevelTest::Less),
        level.clone().prop_map(LevelTest::LessEqual),
        level.clone().prop_map(LevelTest::Greater),
        level.prop_map(LevelTest::GreaterEqual),
        Just(LevelTest::Exists),
        Just(LevelTest::NotExists),
    ]
}

fn any_literal() -> impl Strategy<Value = Literal> {
    let bytes = prop::collection::vec(prop_oneof![8 => any_byte(), 1 => Just(b'\n')], 0..4);
    (bytes, any::<bool>()).prop_map(|(bytes, case_insensitive)| Literal { bytes, case_insensitive })
}

pub(super) fn any_expr() -> impl Strategy<Value = Expr> {
    let names = prop::sample::select(&["a", "b", "a.b", "a.0", "a.1", "b.0.a", "x", ""][..]);
    let line = prop_oneof![
        any_literal().prop_map(LineTest::Contains),
        any_literal().prop_map(LineTest::NotContains),
        any_pattern().prop_map(LineTest::Match),
        any_pattern().prop_map(LineTest::NotMatch),
    ];
    let term = prop_oneof![
        1 => Just(Expr::All),
        4 => any_literal().prop_map(Expr::Literal),
        2 => line.prop_map(Expr::Line),
        4 => any_pattern().prop_map(Expr::Regex),
        4 => (names, any_test()).prop_map(|(name, test)| Expr::Field(Field { name: name.to_owned(), test })),
        3 => any_level_test().prop_map(Expr::Level),
    ];
    term.prop_recursive(4, 12, 3, |inner| {
        let members = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            2 => members.clone().prop_map(Expr::And),
            1 => members.prop_map(Expr::Or),
            1 => inner.prop_map(|inner| Expr::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn scans_agree_with_the_oracle(
        expr in any_expr(),
        records in prop::collection::vec(any_record(), 0..24),
        joined in prop::collection::vec(any::<bool>(), 24),
        labels in prop::sample::select(&["", "", "x=b", "x=1", "level=warn", "severity=7"][..]),
    ) {
        let plan = Plan::compile(&expr).unwrap();
        let labels = Labels::parse(labels).unwrap();
        let check = |records: &[&[u8]], stated: bool| {
            let want = (0..records.len()).filter(|row| matches(&expr, &labels, records[*row])).collect::<Vec<_>>();
            assert_eq!(rows(&plan, &labels, records, stated), want, "stated: {stated}");
        };
        let lines: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        check(&lines, false);
        check(&lines, true);
        let mut several: Vec<Vec<u8>> = Vec::new();
        for (line, join) in records.iter().zip(joined) {
            match several.last_mut() {
                Some(last) if join => last.extend([b"\n", &line[..]].concat()),
                _ => several.push(line.clone()),
            }
        }
        check(&several.iter().map(Vec::as_slice).collect::<Vec<_>>(), true);
    }
}
