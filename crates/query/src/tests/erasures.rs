//! Erasures on one node: from the request on, the answers equal those of a store that never had the records.

use bucksaw_ingest::SegmentState;
use bucksaw_record::LabelScope;
use bucksaw_store::erasure::{Erasure, ErasureStatus};

use super::tenants::{DrawnStep, EXPRESSIONS, OTHER_STREAMS, OWN_STREAMS, drawn_line_of, own_scope, transcript};
use super::*;

/// Expressions of erasures, by text, field, label, level and regex.
const ERASED: [&str; 9] =
    ["a", "secret", "app=s1", "tenant=b", "@level>=error", "/a.?b/", "-a", "a=x OR d=*", "tenant=a -secret"];

fn erasure(node: &TestEngine, expr: &str, (from, to): (u64, u64), scope: Option<&LabelScope>) -> Erasure {
    let id = Id::new(Millis(node.clock.unix_ms()), Producer::random(node.engine.env.entropy.next_u64()), 0);
    let expr = Expr::parse(expr.as_bytes()).unwrap();
    Erasure::new(id, &expr, (Millis(from), Millis(to)), scope).unwrap()
}

fn erase(node: &TestEngine, erasure: &Erasure) {
    assert!(node.store.erasure_book().add(erasure).unwrap());
}

fn selects(erasure: &Erasure, id: Id, labels: &Labels, line: &[u8]) -> bool {
    let plan = Plan::compile(&Expr::parse(erasure.expr.as_bytes()).unwrap()).unwrap();
    let scope = LabelScope::new(Labels::parse(&erasure.scope).unwrap());
    let is_covered = labels.get("_bucksaw").is_none() && scope.covers(labels);
    let is_inside = erasure.from <= id.time() && id.time() < erasure.to;
    is_covered && is_inside && plan.matches(labels, RecordView::line_only(line))
}

fn sweep(node: &TestEngine) -> u64 {
    node.store.sweep_erasures(node.engine.queue(), &|| false).unwrap()
}

/// Does all that is due, also in the queue.
fn complete(node: &TestEngine) {
    node.move_to_store();
    // The grace period of committed segments.
    node.advance_clock(60_000);
    while sweep(node) > 0 {}
}

fn status(node: &TestEngine, erasure: &Erasure) -> ErasureStatus {
    node.store.status_of_erasure(erasure.id, node.engine.queue()).unwrap()
}

/// The records that files have, read without a filter.
fn records_in_files(node: &TestEngine) -> Vec<(Id, Labels, Vec<u8>)> {
    let mut found = Vec::new();
    for segment in node.store.segments().iter() {
        for block in 0..segment.footer().blocks.len() {
            let block = segment.block(block).unwrap();
            for chunk in block.chunks() {
                for (row, record) in (0..).zip(chunk.records()) {
                    found.push((chunk.rows.id(row).unwrap(), chunk.labels.clone(), record.to_vec()));
                }
            }
        }
    }
    for segment in node.engine.queue().readable_segments() {
        assert_ne!(segment.state(), SegmentState::Pending);
    }
    found
}

type DrawnErasure = (&'static str, (u64, u64), bool);

fn steps() -> impl Strategy<Value = Vec<DrawnStep>> {
    let line = any::<bool>().prop_flat_map(|is_own| (Just(is_own), drawn_line_of(is_own)));
    prop::collection::vec((0_u8..12, 0_u64..3_000, line, 0_u64..9_000, 0_usize..15), 1..40)
}

fn erasures() -> impl Strategy<Value = Vec<DrawnErasure>> {
    let range =
        prop_oneof![Just((0, u64::MAX)), (0_u64..30_000, 1_u64..30_000).prop_map(|(from, time)| (from, from + time))];
    prop::collection::vec((prop::sample::select(ERASED.to_vec()), range, any::<bool>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_answers_equal_those_of_a_store_that_never_had_the_records(
        before in steps(),
        after in steps(),
        drawn in erasures(),
        expr in prop::sample::select(EXPRESSIONS.to_vec()),
        size in prop::sample::select(vec![1, 100]),
        codec in prop::sample::select(vec![Codec::ColumnsAlways(3), Codec::Lz4]),
    ) {
        let queue = || ingest::Config { segment_bytes_max: 600 * size, ..ingest::Config::default() };
        let open = |fs| TestEngine::with_configs(fs, Config::default(), queue(), small_store(size, codec), ScanPool::inline());
        let (mut all, mut without) = (open(sim::Fs::new()), open(sim::Fs::new()));
        let start = all.clock.unix_ms();
        let at = |ms: u64| (start - 5_000).saturating_add(ms).min(start + 3_600_000);
        let erasures: Vec<Erasure> = drawn
            .into_iter()
            .map(|(expr, (from, to), is_scoped)| {
                let scope = own_scope();
                erasure(&all, expr, (if from == 0 { 0 } else { at(from) }, at(to)), is_scoped.then_some(&scope))
            })
            .collect();
        let mut number = 0;
        let mut play = |all: &mut TestEngine, without: &mut TestEngine, steps: Vec<DrawnStep>| {
            for (what, wait, (is_own, line), late, stream) in steps {
                number += 1;
                match what {
                    0 => [&*all, &*without].into_iter().for_each(TestEngine::move_to_store),
                    1 => [&*all, &*without].into_iter().for_each(|node| drop(node.store.compact(&|| false))),
                    2 => [&*all, &*without].into_iter().for_each(|node| node.advance_clock(wait)),
                    3 => drop(sweep(all)),
                    kind => {
                        let late = if kind == 4 { late } else { 0 };
                        let id = Id::new(Millis(all.clock.unix_ms() - late), Producer::new(u64::from(kind)), number);
                        let labels = if is_own { OWN_STREAMS[stream % 3] } else { OTHER_STREAMS[stream % 5] };
                        for _ in 0..if kind == 5 { 2 } else { 1 } {
                            all.put_as(id, labels, line.as_bytes());
                            let labels = Labels::parse(labels).unwrap();
                            if !erasures.iter().any(|erasure| selects(erasure, id, &labels, line.as_bytes())) {
                                without.put_as(id, &labels.to_string(), line.as_bytes());
                            }
                        }
                    }
                }
            }
        };
        play(&mut all, &mut without, before);
        erasures.iter().for_each(|erasure| erase(&all, erasure));
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        let compare = |all: &TestEngine, without: &TestEngine, what: &str| {
            let ids: Vec<Id> = all.accepted.keys().copied().collect();
            let requests = [(0, u64::MAX), (start - 2_000, start + 9_000)];
            for (from, to) in requests {
                let request = Request::new(expr.clone(), Millis(from), Millis(to.min(Millis::MAX.0)));
                let answered = all.tasks.run(transcript(&all.answers(), &request, &ids, false));
                let want = without.tasks.run(transcript(&without.answers(), &request, &ids, false));
                prop_assert_eq!(answered, want, "{}", what);
            }
            Ok(())
        };
        compare(&all, &without, "at once")?;
        play(&mut all, &mut without, after);
        compare(&all, &without, "with later records")?;
        [&all, &without].into_iter().for_each(complete);
        compare(&all, &without, "after the rewrite")?;
        let in_files = records_in_files(&all);
        for (id, labels, line) in &in_files {
            prop_assert!(!erasures.iter().any(|erasure| selects(erasure, *id, labels, line)), "{} {:?}", id, line);
        }
        for erasure in &erasures {
            let status = status(&all, erasure);
            prop_assert!(status.is_done, "{:?}", status);
        }
        // The counts are those of the records that are gone.
        let copies = |node: &TestEngine| node.accepted.len();
        let erased = copies(&all) - copies(&without);
        let counted: u64 = erasures.iter().map(|erasure| status(&all, erasure).progress.records).sum();
        prop_assert!(counted >= erased as u64, "{} of {}", counted, erased);
        let kept: std::collections::BTreeSet<Id> = in_files.iter().map(|(id, ..)| *id).collect();
        let want: std::collections::BTreeSet<Id> = without.accepted.keys().copied().collect();
        prop_assert_eq!(kept, want, "the others are in the files");
        let accepted = std::mem::take(&mut all.accepted);
        let mut restarted = open(all.fs.clone());
        restarted.clock.jump(i64::try_from(all.clock.unix_ms() - restarted.clock.unix_ms()).unwrap());
        restarted.accepted = accepted;
        compare(&restarted, &without, "after a restart")?;
    }
}

#[test]
fn a_tail_leaves_out_late_records_that_are_erased() {
    let mut node = TestEngine::new();
    let now = node.clock.unix_ms();
    erase(&node, &erasure(&node, "secret", (0, now), None));
    let mut tail = node.engine.tail(crate::tail::tail_request(Expr::All, None)).unwrap();
    let late = |sequence| Id::new(Millis(now - 5), Producer::new(9), sequence);
    node.put_as(late(1), "app=web", b"a secret of an agent's buffer");
    node.put_as(late(2), "app=web", b"another line");
    node.put("a secret of today");
    let lines = drain_tail(&mut tail);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(node.lines(request_all_time("secret")), ["a secret of today"]);
}

#[test]
fn a_query_without_an_open_erasure_reads_the_segments_themselves() {
    let mut node = TestEngine::new();
    (0..50).for_each(|at| _ = node.put(&format!("line {at} {}", "x".repeat(40))));
    node.move_to_store();
    let columnar = |node: &TestEngine| {
        let (retention, ids) = (store::StreamRetention::default(), (Id::MIN, Id::MAX));
        let selector = store::BlockSelector {
            may_contain: &|_| true,
            may_match: &|_| true,
            retention: &retention,
            times: (Millis(0), Millis::MAX),
            ids,
            expr: &Expr::All,
            stream: None,
            scope: None,
            share: None,
        };
        let selection = node.store.select(&selector, &mut Default::default());
        let is_columnar =
            |block: &store::BlockRef| matches!(block.source.open(block.index), Ok(SearchableBlock::Columns(_)));
        (selection.blocks.len(), selection.blocks.iter().filter(|block| is_columnar(block)).count())
    };
    let (blocks, columns) = columnar(&node);
    assert!(columns == blocks && blocks > 3);
    erase(&node, &erasure(&node, "line", (0, node.clock.unix_ms() + 1), None));
    assert_eq!(columnar(&node).1, 0, "each block is filtered");
    assert_eq!(node.count(&request_all_time("")), 0);
    complete(&node);
    assert_eq!(columnar(&node), (0, 0));
}
