use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_columns::{ColumnBlock, Encoder, Filter, TextEncoding};
use bucksaw_record::{Expr, Id, Labels, RecordView};
use bucksaw_search::RowSet;
use bucksaw_segment::{Chunk, RecordBlock, RecordMap, Rows};

use super::*;

mod attributes;
mod blocks;
mod corpus;
mod errors;
mod fields_by_layout;
mod lines;
mod oracle;

/// Rows and text of records, with their numbers of lines if `stated`.
fn pack(records: &[&[u8]], stated: bool) -> (Arc<Rows>, Vec<u8>) {
    let mut rows = Rows::default();
    rows.push_run(Id::MIN, records.len() as u32);
    let lines = |record: &&[u8]| record.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    rows.lines = stated.then(|| records.iter().map(lines).collect());
    (rows.into(), records.iter().flat_map(|record| [record, &b"\n"[..]].concat()).collect())
}

/// The rows that `find` returns. Checks their ranges, and that `count` and `matches` agree.
fn rows(plan: &Plan, labels: &Labels, records: &[&[u8]], stated: bool) -> Vec<usize> {
    let (rows, text) = pack(records, stated);
    let chunk = Chunk { labels, rows, text: &text };
    let mut bound = plan.bind(labels);
    let mut found = Vec::new();
    bound.find(&chunk, &|| false, &mut |at| {
        assert_eq!(&text[at.start..at.end], records[at.row as usize], "row {}", at.row);
        found.push(at.row as usize);
        ControlFlow::Continue(())
    });
    assert!(found.is_sorted_by(|a, b| a < b));
    assert_eq!(bound.count(&chunk, &|| false), found.len() as u32, "count");
    for (row, record) in records.iter().enumerate() {
        assert_eq!(
            plan.matches(labels, RecordView::line_only(record)),
            found.contains(&row),
            "matches {:?}",
            record.escape_ascii().to_string()
        );
    }
    if !stated && records.iter().all(|record| !record.contains(&b'\n')) {
        check_columns(bound, records, &found);
    }
    found
}

/// Checks that a search of columns finds the same lines. They are repeated until the encoder chooses columns.
fn check_columns(mut bound: BoundPlan, records: &[&[u8]], found: &[usize]) {
    let once: Vec<u8> = records.iter().flat_map(|record| [record, &b"\n"[..]].concat()).collect();
    let times = 20_000_usize.div_ceil(once.len().max(1)).max(17);
    let text = once.repeat(if once.len() > 20_000 { 1 } else { times });
    let count = text.iter().filter(|byte| **byte == b'\n').count();
    let packed = Encoder::new().encode(&text, &[], 1);
    assert!(found.is_empty() || bound.may_match(Filter::new(&packed.filter), false), "filtered");
    let TextEncoding::Columns(columns) = packed.text else { return };
    let block = ColumnBlock::open(columns, count, text.len()).unwrap();
    let map = RecordMap::identity(count);
    let records_of_block =
        RecordBlock::new(&block, &map).unwrap().with_escaped_bytes(Filter::new(&packed.filter).escaped_bytes());
    let lines = bound.match_rows(records_of_block, RowSet::All, &|| false).unwrap();
    for row in 0..count {
        let is_found = lines.contains(row);
        let record = records[row % records.len()];
        assert_eq!(is_found, found.contains(&(row % records.len())), "columns {:?}", record.escape_ascii().to_string());
    }
}

fn compile(expr: &str) -> Plan {
    Plan::compile(&Expr::parse(expr.as_bytes()).unwrap()).unwrap()
}

#[test]
fn labels_resolve_terms_when_bound() {
    let labels = Labels::parse("app=web,code=500").unwrap();
    let check = |expr: &str, want: &str| {
        let got = match compile(expr).bind(&labels) {
            BoundPlan::Nothing => "nothing",
            BoundPlan::All => "all",
            BoundPlan::PerRecord(_) => "lines",
        };
        assert_eq!(got, want, "{expr}");
    };
    check("", "all");
    check("\"\"", "all");
    check("NOT \"\"", "nothing");
    check("app=web", "all");
    check("app!=web", "nothing");
    check("app=db", "nothing");
    check("app=~/^w.b$/", "all");
    check("app=~/^w.$/", "nothing");
    check("code>=500", "all");
    check("code<500", "nothing");
    check("app<5", "nothing");
    check("app=web OR x", "all");
    check("app=db OR x", "lines");
    check("app=web x", "lines");
    check("app=db x", "nothing");
    check("NOT (app=db x)", "all");
    check("level=error", "lines");
    check("app=*", "all");
    check("app!=*", "nothing");
    check("@level=error", "lines");
    check("app=db @level=error", "nothing");
}

#[test]
fn a_label_comes_before_a_field() {
    let labels = Labels::parse("level=info").unwrap();
    assert!(rows(&compile("level=error"), &labels, &[b"level=error"], false).is_empty());
    assert_eq!(rows(&compile("level=error"), &Labels::default(), &[b"level=error"], false), [0]);
}

/// Undecided lines are built and tested in several windows.
#[test]
fn fields_are_found_in_columns_of_many_windows() {
    let line = |row: usize| format!("at={row} took={} by=worker-{} path=/api/v1/items", row * 7_919 % 1_009, row % 13);
    let lines: Vec<String> = (0..20_000).map(line).collect();
    assert!(lines.iter().map(String::len).sum::<usize>() > 3 * 256 * 1024);
    let records: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    let want: Vec<usize> = (0..20_000).filter(|row| row * 7_919 % 1_009 >= 1_000).collect();
    assert_eq!(rows(&compile("took>=1000"), &Labels::default(), &records, false), want);
}

#[test]
fn a_search_stops_when_cancelled() {
    let labels = Labels::default();
    let line = [b'x'; 99];
    let records = vec![&line[..]; 100_000];
    let (rows, text) = pack(&records, false);
    let chunk = Chunk { labels: &labels, rows, text: &text };
    for expr in ["", "x", "y", "/x$/", "NOT y", "a=b", "a!=b", "x y OR x"] {
        let mut bound = compile(expr).bind(&labels);
        let asked = Cell::new(0_usize);
        let cancel = || {
            asked.set(asked.get() + 1);
            asked.get() == 4
        };
        let mut last = 0;
        bound.find(&chunk, &cancel, &mut |found| {
            last = found.end;
            ControlFlow::Continue(())
        });
        assert_eq!(asked.get(), 4, "{expr}");
        assert!(last <= 3 * (256 * 1024 + 100), "{expr}: {last}");
        asked.set(0);
        bound.count(&chunk, &cancel);
        assert!(asked.get() == 4 || expr.is_empty(), "{expr}");

        let mut seen = 0;
        bound.find(&chunk, &|| false, &mut |_| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(seen == 2 || seen == 0, "{expr}: {seen}");
    }
}

#[test]
fn matches_at_window_ends_are_found_once() {
    // Long and short records, so that windows end before, in and behind them; one record is longer than a window.
    let long = vec![b'a'; 300_000];
    let mut records: Vec<&[u8]> = Vec::new();
    for at in 0..4_000_usize {
        records.push(match at % 7 {
            0 => b"needle in a haystack",
            3 if at % 1_001 == 3 => &long,
            _ => &long[..at % 150],
        });
    }
    let want: Vec<usize> = (0..4_000).step_by(7).collect();
    let labels = Labels::default();
    for stated in [false, true] {
        for expr in
            ["needle", "\"NEEDLE\"i", "/n[e]+dle/", "NOT /^a*$/", "needle hay", "needle NOT x=y", "needle OR zz"]
        {
            assert_eq!(rows(&compile(expr), &labels, &records, stated), want, "{expr}");
        }
    }
}

#[test]
fn damaged_row_counts_are_tolerated() {
    let labels = Labels::default();
    let check = |count: u32, lines: Option<Vec<u32>>, text: &[u8], want: usize| {
        let mut rows = Rows::default();
        rows.push_run(Id::MIN, count);
        rows.lines = lines;
        let chunk = Chunk { labels: &labels, rows: rows.into(), text };
        for expr in ["", "a", "/a/"] {
            let mut found = 0;
            compile(expr).bind(&labels).find(&chunk, &|| false, &mut |_| {
                found += 1;
                ControlFlow::Continue(())
            });
            assert_eq!(found, want, "{expr}");
            assert!(compile(expr).bind(&labels).count(&chunk, &|| false) <= count);
        }
    };
    check(2, None, b"a\na\n", 2);
    check(1, None, b"a\na\n", 1);
    check(3, None, b"a\na\na", 2);
    check(1, None, b"a", 0);
    check(1, None, b"", 0);
    check(0, None, b"a\n", 0);
    check(2, Some(vec![1, 1]), b"a\na\n", 2);
    check(2, Some(vec![1, 9]), b"a\na\n", 1);
    check(2, Some(vec![0, 1]), b"a\na\n", 0);
    check(2, Some(vec![u32::MAX, 1]), b"a\na\n", 0);
    check(2, Some(vec![1]), b"a\na\n", 1);
    check(2, Some(vec![1, 1, 1]), b"a\na\n", 2);
}

#[test]
fn plans_and_matchers_go_to_threads() {
    fn check<T: Send>() {}
    fn shared<T: Send + Sync + Clone>() {}
    check::<BoundPlan>();
    shared::<Plan>();
}

#[test]
fn labels_settle_the_level() {
    let check = |labels: &str, expr: &str, want: &str| {
        let got = match compile(expr).bind(&Labels::parse(labels).unwrap()) {
            BoundPlan::Nothing => "nothing",
            BoundPlan::All => "all",
            BoundPlan::PerRecord(_) => "lines",
        };
        assert_eq!(got, want, "{expr} {labels}");
    };
    check("severity=Warning", "@level=warn", "all");
    check("severity=Warning", "@level>warn", "nothing");
    check("severity=Warning", "@level!=error", "all");
    check("severity=Warning", "@level=none", "nothing");
    check("severity=7", "@level=warn", "lines");
    check("app=web", "@level<trace", "nothing");
}
