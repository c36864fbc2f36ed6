//! Fields that are read by the layouts of columns, against the reader of lines.

use bucksaw_search::{CancelPoll, LayoutOffset, LayoutPart, Needle, SearchBlock as _, TestedText};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::candidate_rows::evaluate;
use crate::fields::layout::{find, roles};
use crate::fields::{FieldRole, lookup};
use crate::plan_node::PlanNode;

/// Values that are plain, or that end what they are part of.
const VALUES: &[&str] = &[
    "",
    "x",
    "1",
    "-2.5",
    "true",
    "\"",
    "\\",
    "a\\",
    "\\\"",
    "y z",
    ",\"a\":1",
    "\"a\":",
    " a=2",
    "=",
    "{",
    "}",
    "[",
    "a",
    "\"}",
    "\\u0037",
    "\\/",
    "\\u00e4",
    "\\u00e4\\u0078",
];

fn literal() -> impl Strategy<Value = &'static str> {
    select(
        &[
            "{\"a\":",
            "{\"b\":\"",
            "{",
            "}",
            "\"",
            "\"a\":",
            ",\"a\":\"",
            "\",\"a\":",
            "\",\"b\":{\"a\":\"",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\\",
            "x",
            "1",
            "a=",
            " a=\"",
            "b=",
            "\" a=",
            "=",
            "a",
            "{\"a.b\":",
            "\"}",
            "},\"a\":",
        ][..],
    )
}

fn substitute(parts: &[Option<&str>], values: &[String]) -> String {
    let mut values = values.iter();
    parts.iter().map(|part| part.unwrap_or_else(|| values.next().map_or("", |value| value))).collect()
}

/// The text of a range of the layout.
fn text_in(parts: &[Option<&str>], values: &[String], [start, end]: [LayoutOffset; 2]) -> String {
    let (mut values, mut text) = (values.iter(), String::new());
    for (number, part) in parts.iter().enumerate() {
        let inside = number >= start.part && number <= end.part;
        match part {
            Some(part) if inside => {
                let from = if number == start.part { start.offset } else { 0 };
                let to = if number == end.part { end.offset } else { part.len() };
                text += &part[from..to];
            }
            Some(_) => {}
            None => {
                let value = values.next().unwrap();
                if inside && start != end {
                    text += value;
                }
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_reading_holds_for_all_lines_whose_values_fit(
        parts in prop::collection::vec(prop_oneof![3 => literal().prop_map(Some), 2 => Just(None)], 1..9),
        rows in prop::collection::vec(prop::collection::vec(select(VALUES).prop_map(str::to_owned), 9), 1..6),
        name in select(&["a", "b", "a.b", "b.a", "a.0"][..]),
    ) {
        let layout: Vec<LayoutPart<'_>> =
            parts.iter().map(|part| part.map_or(LayoutPart::Value, |text| LayoutPart::Literal(text.as_bytes()))).collect();
        let needles: Vec<Needle> = name.split('.').filter(|part| *part != "0").map(|part| Needle::new(part.as_bytes(), false)).collect();
        let found = match find(&layout, name, &needles) {
            TestedText::Unknown => return Ok(()),
            TestedText::Absent => None,
            TestedText::At(range, role) => Some((range, role)),
        };
        let Some(roles) = roles(&layout) else { return Ok(()) };
        for values in rows {
            let values = &values[..roles.len()];
            if !roles.iter().zip(values).all(|(role, value)| role.fits(value.as_bytes())) {
                continue;
            }
            let line = substitute(&parts, values);
            let want = lookup(line.as_bytes(), name).map(std::borrow::Cow::into_owned);
            let got = found.clone().map(|(range, role)| {
                role.value(text_in(&parts, values, [range.start, range.end]).as_bytes()).into_owned()
            });
            prop_assert_eq!(got, want, "{} in {}", name, line);
        }
    }

    #[test]
    fn texts_that_fit_a_role_also_fit_it_when_joined(first in select(VALUES), second in select(VALUES)) {
        let roles = [
            FieldRole::JsonString, FieldRole::JsonWord, FieldRole::FirstToken, FieldRole::Token, FieldRole::TokenRest, FieldRole::QuotedToken,
        ];
        for role in roles {
            let joined = [first, second].concat();
            let both_fit = role.fits(first.as_bytes()) && role.fits(second.as_bytes());
            prop_assert!(!both_fit || role.fits(joined.as_bytes()), "{:?}: {}, {}", role, first, second);
            let all_fit = role.all_parts_fit(joined.as_bytes());
            let is_empty = |text: &str| text.is_empty();
            prop_assert!(!all_fit || is_empty(first) || role.fits(first.as_bytes()), "{:?}: {}", role, first);
            prop_assert!(!all_fit || is_empty(second) || role.fits(second.as_bytes()), "{:?}: {}", role, second);
        }
    }
}

/// Lines of few layouts, whose values are mostly plain.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let format = select(
        &[
            "{\"t\":\"?\",\"a\":\"?\",\"n\":?,\"b\":{\"a\":\"?\"}}",
            "{\"a\":?,\"m\":\"? said ?\",\"a\":\"?\"}",
            "{\"b\":[\"?\",{\"a\":?}],\"a\":\"\"}",
            "? a=? b=\"?\" n=?",
            "t=? a=\"?\" took ? ms, b=?/?",
            "{\"a\":\"?-?\",\"n\":1?",
        ][..],
    );
    let value = prop_oneof![
        6 => (0_u32..5_000).prop_map(|number| number.to_string()),
        3 => "[a-e]{1,6}",
        2 => (0_u32..9).prop_map(|number| format!("2026-11-0{number}T10:00:0{number}")),
        1 => select(VALUES).prop_map(str::to_owned),
    ];
    let line = (format, prop::collection::vec(value, 5)).prop_map(|(format, values)| {
        let parts: Vec<Option<&str>> = format.split('?').flat_map(|text| [Some(text), None]).collect();
        substitute(&parts[..parts.len() - 1], &values).replace('\n', "")
    });
    prop::collection::vec(line, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn columns_agree_with_lines(lines in lines(), exprs in prop::collection::vec(select(&[
        "a=x", "a=7", "a!=7", "n>=2000", "n<1000", "b.a=~/^[a-c]/", "a=*", "a!=*", "b=*", "a=\"\"", "t>10", "b.0=~/./", "b.1.a<3000", "a=\"\\\"\"", "a=\"/\"", "a=ä", "a=äx",
    ][..]), 5)) {
        let text: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        let encoded = Encoder::new().encode_always(&text, &[], 1);
        let TextEncoding::Columns(columns) = encoded.text else { return Ok(()) };
        let filter = Filter::new(&encoded.filter);
        let block = ColumnBlock::open(columns, lines.len(), text.len()).unwrap();
        let map = RecordMap::identity(lines.len());
        let labels = Labels::default();
        for expr in exprs {
            let plan = compile(expr);
            let has_match = |line: &String| plan.matches(&labels, RecordView::line_only(line.as_bytes()));
            prop_assert!(plan.bind(&labels).may_match(filter, false) || !lines.iter().any(has_match), "{} is filtered", expr);
            let among = RowSet::from_fn(lines.len(), |row| row % 3 > 0);
            for wanted in [among.clone(), RowSet::All, among] {
                let records = RecordBlock::new(&block, &map).unwrap().with_escaped_bytes(filter.escaped_bytes());
                let rows = plan.bind(&labels).match_rows(records, wanted.clone(), &|| false).unwrap();
                for (row, line) in lines.iter().enumerate() {
                    let want = wanted.contains(row) && plan.matches(&labels, RecordView::line_only(line.as_bytes()));
                    prop_assert_eq!(rows.contains(row), want, "{} in {}", expr, line);
                }
            }
        }
    }
}

#[test]
fn plain_lines_are_decided_without_building_them() {
    let line = |row: usize| {
        format!(
            "{{\"at\":{row},\"user\":{{\"name\":\"u{}\",\"size\":{}}},\"note\":\"n {}\"}}\n",
            row % 9,
            row % 50,
            row % 7
        )
    };
    let text: Vec<u8> = (0..2_000).flat_map(|row| line(row).into_bytes()).collect();
    let TextEncoding::Columns(columns) = Encoder::new().encode_always(&text, &[], 1).text else { panic!("no columns") };
    let block = ColumnBlock::open(columns, 2_000, text.len()).unwrap();
    let map = RecordMap::identity(2_000);
    for (expr, count) in
        [("user.size>=40", 400), ("user.name=u8", 222), ("user.name=~/[12]/", 445), ("user.name=*", 2_000)]
    {
        let node = PlanNode::compile(&Expr::parse(expr.as_bytes()).unwrap()).unwrap();
        let rows = RecordBlock::new(&block, &map).unwrap();
        let found = evaluate(&node, rows, RowSet::All, &CancelPoll::never()).unwrap();
        assert_eq!((found.must_match.count(2_000), found.may_match == found.must_match), (count, true), "{expr}");
    }
    assert!(block.work() > 0);
}

/// Reading them costs more than a search for the value, which is enough for it.
#[test]
fn a_rare_value_reads_no_layouts() {
    let text: Vec<u8> = (0..2_000)
        .flat_map(|row| format!("{{\"user\":\"u{}\",\"size\":{}}}\n", row % 40, row % 50).into_bytes())
        .collect();
    let TextEncoding::Columns(columns) = Encoder::new().encode_always(&text, &[], 1).text else { panic!("no columns") };
    let block = ColumnBlock::open(columns, 2_000, text.len()).unwrap();
    let map = RecordMap::identity(2_000);
    for (expr, count, has_read) in [("user=u8", 50, false), ("size>=40", 400, true), ("user=u8", 50, true)] {
        let plan = compile(expr);
        let rows = RecordBlock::new(&block, &map).unwrap();
        let found = plan.bind(&Labels::default()).match_rows(rows, RowSet::All, &|| false).unwrap();
        assert_eq!((found.count(2_000), block.prefers_layouts()), (count, has_read), "{expr}");
    }
}
