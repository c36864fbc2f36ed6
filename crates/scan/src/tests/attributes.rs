//! Records with attributes, as text and as blocks of lines, against the oracle.

use bucksaw_record::{AttributeNames, RowAttributes};
use bucksaw_search::SearchBlock;
use proptest::prelude::*;

use super::oracle::{PlainRecord, any_expr, any_record, matches_record};
use super::*;
use crate::bound_plan::find_records;
use crate::record_boundaries::RecordBoundaries;

/// The records of a batch in their form in memory.
struct PackedRecords {
    text: Vec<u8>,
    lines: Vec<u32>,
    attributes: RowAttributes,
}

impl PackedRecords {
    fn of(records: &[PlainRecord]) -> Self {
        let mut batch = Self { text: Vec::new(), lines: Vec::new(), attributes: RowAttributes::empty() };
        for (row, PlainRecord { line, attributes }) in (0..).zip(records) {
            let mut count = batch.push(line);
            let value_lines: Vec<u32> = attributes.iter().map(|(_, value)| batch.push(value)).collect();
            if let Ok(names) = AttributeNames::new(attributes.iter().map(|(name, _)| name.as_str())) {
                batch.attributes.push(row, 1, &names);
                batch.attributes.push_value_lines(row, &value_lines);
            }
            count += value_lines.iter().sum::<u32>();
            batch.lines.push(count);
        }
        batch
    }

    /// Appends a part of a record, and returns its number of lines.
    fn push(&mut self, part: &[u8]) -> u32 {
        self.text.extend([part, b"\n"].concat());
        1 + part.iter().filter(|byte| **byte == b'\n').count() as u32
    }

    fn map(&self) -> RecordMap {
        RecordMap::new(&self.lines, self.attributes.clone()).unwrap()
    }
}

/// Lines of a text, searched by the provided methods only.
struct TextLines(Vec<Vec<u8>>);

impl TextLines {
    fn of(text: &[u8]) -> Self {
        Self(text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
    }
}

impl SearchBlock for TextLines {
    fn row_count(&self) -> usize {
        self.0.len()
    }

    fn visit_rows(
        &self,
        rows: impl Iterator<Item = usize>,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Option<()> {
        for row in rows {
            if visit(self.0.get(row)?).is_break() {
                break;
            }
        }
        Some(())
    }
}

/// Checks that all searches find the rows that the oracle finds; returns these.
fn check(expr: &Expr, labels: &Labels, records: &[PlainRecord]) -> Vec<usize> {
    let want: Vec<usize> = (0..records.len()).filter(|row| matches_record(expr, labels, &records[*row])).collect();
    let plan = Plan::compile(expr).unwrap();
    let batch = PackedRecords::of(records);
    let boundaries = RecordBoundaries::of_records(&batch.text, Some(&batch.lines), &batch.attributes);
    let mut found = Vec::new();
    let mut bound = plan.bind(labels);
    match &mut bound {
        BoundPlan::Nothing => {}
        BoundPlan::All => found.extend(0..records.len()),
        BoundPlan::PerRecord(matcher) => {
            find_records(matcher, &boundaries, records.len() as u32, &|| false, &mut |at| {
                found.push(at.row as usize);
                ControlFlow::Continue(())
            });
        }
    }
    assert_eq!(found, want, "text: {expr}");
    let mut start = 0;
    for (row, sent) in records.iter().enumerate() {
        let record = boundaries.record(start);
        assert_eq!(record.line(), sent.line, "line of {row}");
        assert_eq!(plan.matches(labels, record), want.contains(&row), "alone: {expr}, row {row}");
        start = boundaries.next_start(start);
    }
    let map = batch.map();
    check_block(&mut bound, &TextLines::of(&batch.text), &map, &want, records.len(), &format!("lines: {expr}"));
    // Repeated until the encoder chooses columns.
    let times = 17_000_usize.div_ceil(batch.text.len().max(1)).max(17);
    let many: Vec<PlainRecord> = (0..times * records.len()).map(|at| records[at % records.len()].clone()).collect();
    let many = PackedRecords::of(&many);
    let packed = Encoder::new().encode(&many.text, &[], 1);
    assert!(want.is_empty() || bound.may_match(Filter::new(&packed.filter), true), "filtered: {expr}");
    if let TextEncoding::Columns(columns) = packed.text {
        let map = many.map();
        let block = ColumnBlock::open(columns, map.line_count(), many.text.len()).unwrap();
        check_block(&mut bound, &block, &map, &want, records.len(), &format!("columns: {expr}"));
    }
    want
}

/// Checks that a block finds the wanted rows of records that repeat after `period`.
fn check_block(
    bound: &mut BoundPlan,
    block: &impl SearchBlock,
    map: &RecordMap,
    want: &[usize],
    period: usize,
    context: &str,
) {
    let block = RecordBlock::new(block, map).unwrap();
    let rows = bound.match_rows(block, RowSet::All, &|| false).unwrap();
    for row in 0..block.record_count() {
        assert_eq!(rows.contains(row), want.contains(&(row % period)), "{context}, row {row}");
    }
    let half = RowSet::from_fn(block.record_count(), |row| row % 2 == 0);
    let rows = bound.match_rows(block, half, &|| false).unwrap();
    for row in 0..block.record_count() {
        assert_eq!(rows.contains(row), row % 2 == 0 && want.contains(&(row % period)), "{context}, half, row {row}");
    }
}

fn sent(line: &str, attributes: &[(&str, &str)]) -> PlainRecord {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
    PlainRecord { line: line.as_bytes().to_vec(), attributes: attributes.iter().map(pair).collect() }
}

#[test]
fn attributes_are_searched() {
    let records = [
        sent("payment declined", &[("trace_id", "4bf9"), ("http.status", "500")]),
        sent("trace_id=4bf9 done", &[]),
        sent("x", &[("trace_id", "4bf"), ("trace_id", "4bf9")]),
        sent("x", &[("trace_id", "4bf9"), ("trace_id", "none")]),
        sent("a\nb", &[("stack", "at f\n  at g"), ("http.status", "200")]),
        sent("{\"stack\":\"at f\",\"level\":\"info\"}", &[("severity_text", "ERROR")]),
        sent("b", &[("stack", ""), ("k8s.level", "warning")]),
        sent("trace_id=4bf9", &[("pod", "trace_id=4bf9 b")]),
    ];
    let check = |expr: &str, want: &[usize]| {
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        assert_eq!(check(&expr, &Labels::default(), &records), want, "{expr}");
    };
    check("trace_id=4bf9", &[0, 1, 2, 7]);
    check("trace_id!=4bf9", &[3, 4, 5, 6]);
    check("trace_id=*", &[0, 1, 2, 3, 7]);
    check("trace_id=~/^.bf/", &[0, 1, 2, 7]);
    check("http.status>=300", &[0]);
    check("stack=\"at f\\n  at g\"", &[4]);
    check("stack=~/f\\n/", &[4]);
    check("stack=~/^at f$/", &[5]);
    check("stack=\"\"", &[6]);
    check("4bf9", &[0, 1, 2, 3, 7]);
    check("_line=4bf9", &[1, 7]);
    check("_line!=4bf9", &[0, 2, 3, 4, 5, 6]);
    check("_line=~/^b$/", &[4, 6]);
    check("/^(b|500)$/", &[0, 4, 6]);
    check("/b\\nat/", &[]);
    check("/a\\nb/", &[4]);
    check("\"g\\n200\"", &[]);
    check("\"f\\n  at\"", &[4]);
    check("_line=\"f\\n  at\"", &[]);
    check("/\\A200\\z/", &[4]);
    check("@level=error", &[5]);
    check("@level>=warn", &[5, 6]);
    check("@level=none", &[0, 1, 2, 3, 4, 7]);
    check("b NOT trace_id=4bf9", &[3, 4, 6]);
}

#[test]
fn a_label_comes_before_an_attribute() {
    let records = [sent("x", &[("app", "db"), ("level", "error")])];
    let labels = Labels::parse("app=web,severity=info").unwrap();
    let check = |expr: &str, want: &[usize]| {
        assert_eq!(check(&Expr::parse(expr.as_bytes()).unwrap(), &labels, &records), want, "{expr}");
    };
    check("app=web", &[0]);
    check("app=db", &[]);
    check("@level=info", &[0]);
    check("level=error", &[0]);
    check("db", &[0]);
}

#[test]
fn a_map_of_other_lines_is_refused() {
    let names = AttributeNames::new(["a", "b"]).unwrap();
    let map = |lines: &[u32], value_lines: &[u32]| {
        let mut attributes = RowAttributes::empty();
        attributes.push(1, 1, &names);
        attributes.push_value_lines(1, value_lines);
        RecordMap::new(lines, attributes)
    };
    assert!(map(&[1, 3], &[1, 1]).is_some());
    assert!(map(&[1, 2], &[1, 1]).is_none());
    assert!(map(&[1, 3], &[1, 2]).is_none());
    assert!(map(&[u32::MAX, 3], &[1, 1]).is_none());
    let map = map(&[1, 3], &[1, 1]).unwrap();
    assert!(RecordBlock::new(&TextLines::of(b"1\n2\n3\n4\n"), &map).is_some());
    assert!(RecordBlock::new(&TextLines::of(b"1\n2\n3\n"), &map).is_none());
}

/// Values, often the same as lines, keys of lines, or names of levels.
fn any_attribute() -> impl Strategy<Value = (String, Vec<u8>)> {
    let name = prop::sample::select(&["a", "b", "a.b", "a.0", "x", "level", "log.severity"][..]);
    let known =
        prop::sample::select(&["a", "b", "1", "b c", "b\"c", "ERROR", "info", "warning", "1ms", "{\"a\":1}"][..]);
    let known = known.prop_map(|value| value.as_bytes().to_vec());
    let several = (any_record(), any_record()).prop_map(|(first, last)| [&first[..], b"\n", &last].concat());
    (name.prop_map(str::to_owned), prop_oneof![3 => known, 2 => any_record(), 1 => several])
}

fn any_sent_record() -> impl Strategy<Value = PlainRecord> {
    let line = prop_oneof![
        4 => any_record(),
        1 => (any_record(), any_record()).prop_map(|(first, last)| [&first[..], b"\n", &last].concat()),
    ];
    let attributes = prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(any_attribute(), 1..5)];
    (line, attributes).prop_map(|(line, attributes)| PlainRecord { line, attributes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn searches_agree_with_the_oracle(
        expr in any_expr(),
        records in prop::collection::vec(any_sent_record(), 1..16),
        labels in prop::sample::select(&["", "", "x=b", "x=1", "level=warn", "severity=7"][..]),
    ) {
        check(&expr, &Labels::parse(labels).unwrap(), &records);
    }
}
