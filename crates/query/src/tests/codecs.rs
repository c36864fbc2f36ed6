//! Searches over stored blocks of every codec, against a naive oracle: rows and their order, byte for byte.

use std::cell::Cell;

use bucksaw_record::{AttributeNames, AttributeShape, Flags, RecordView, RowAttributes};
use bucksaw_store::BlockRef;
use proptest::test_runner::{Config as RunnerConfig, TestRunner};

use super::*;
use crate::block::BlockUnit;
use crate::text_scan::MatchChunk;

/// Text from which a block is encoded as columns is 16 KiB; smaller blocks have many borders.
const COLUMNS_BLOCK_BYTES: u64 = 20 << 10;
const SMALL_BLOCK_BYTES: u64 = 300;

/// Frames of records, and what happens between them.
#[derive(Clone, Debug)]
enum Step {
    Append { template: u64, records: u32, seed: u64, spread_ms: u64, is_retried: bool },
    AdvanceClock(u64),
    MoveToStore,
    Compact,
}

#[derive(Clone, Debug)]
struct Case {
    codec: Codec,
    steps: Vec<Step>,
    expr: &'static str,
    /// Of the time of all records, in thousandths.
    from: u64,
    length: u64,
    limit: u64,
    /// As in [`Config`]: at once, soon, or never.
    text_build_percent: u64,
}

/// A record as an answer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    id: Id,
    nanos: u32,
    flags: u8,
    labels: Labels,
    /// The line, and the values of the attributes.
    text: Vec<u8>,
    names: Option<AttributeNames>,
}

impl From<OwnedRecord> for Row {
    fn from(record: OwnedRecord) -> Self {
        let OwnedRecord { id, nanos, flags, labels, text, attributes, .. } = record;
        Self { id, nanos, flags, labels, text, names: attributes.get(0).map(|shape| shape.names.clone()) }
    }
}

impl Row {
    fn view(&self) -> RecordView<'_> {
        let shape = self.names.as_ref().map(|names| AttributeShape { names, value_lines: &[] });
        RecordView::new(&self.text, shape)
    }
}

/// The template whose records have attributes, most of them two.
const WITH_ATTRIBUTES: u64 = 5;

/// The attributes of a record.
fn attributes(template: u64, seed: &mut u64) -> Vec<(&'static str, String)> {
    if template != WITH_ATTRIBUTES || draw(seed, 20) == 0 {
        return Vec::new();
    }
    let trace = ("trace_id", format!("{:016x}", draw(seed, 60).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    match draw(seed, 10) {
        0 => vec![trace],
        // `status` is a key of the line too.
        1 => vec![trace, ("status", "404".to_owned())],
        _ => vec![trace, ("pod", format!("shop-{}-x", draw(seed, 5)))],
    }
}

/// A pseudorandom number below `bound` for each step of `seed`.
fn draw(seed: &mut u64, bound: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % bound
}

fn line(template: u64, seed: &mut u64) -> String {
    match template {
        0 | WITH_ATTRIBUTES => {
            let (path, status, ms) =
                (draw(seed, 40), [200, 200, 200, 404, 500][draw(seed, 5) as usize], draw(seed, 900));
            format!("GET /api/v1/items/{path} status={status} took {ms}ms host=web-{}", draw(seed, 4))
        }
        1 => {
            let user = ["alice", "bob", "carol"][draw(seed, 3) as usize];
            format!(
                "level=info msg=\"user {user} logged in\" session={:08x} attempt={}",
                draw(seed, 1 << 31),
                draw(seed, 3)
            )
        }
        2 => {
            format!("worker[{}]: job {} done in 0.{:03}s", draw(seed, 9), 100_000 + draw(seed, 900), draw(seed, 1_000))
        }
        3 => {
            let (wait, unit, size) = (draw(seed, 3_000), ["us", "us", "ms"][draw(seed, 3) as usize], draw(seed, 40));
            let level = ["info", "warn", "ERROR"][draw(seed, 3) as usize];
            format!("level={level} msg=\"read a file\" wait={wait}{unit} size={}.{}kB", size / 10, size % 10)
        }
        // Lines without a layout, also empty ones.
        _ => (0..draw(seed, 14)).map(|_| char::from(b"ab =x1/"[draw(seed, 7) as usize])).collect(),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0_u64..8, 1_u32..160, any::<u64>(), 0_u64..4_000, prop::bool::weighted(0.2)).prop_map(
        |(template, records, seed, spread_ms, is_retried)| Step::Append {
            template: template % 6,
            records,
            seed,
            spread_ms,
            is_retried,
        },
    );
    let step = prop_oneof![
        12 => append,
        2 => (0_u64..5_000).prop_map(Step::AdvanceClock),
        1 => Just(Step::MoveToStore),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 4..24)
}

fn cases() -> impl Strategy<Value = Case> {
    let codec = prop::sample::select(vec![Codec::Columns(3), Codec::Columns(3), Codec::ColumnsAlways(3), Codec::Lz4]);
    let expr = prop::sample::select(vec![
        "",
        "GET",
        "status=404",
        "404 GET",
        "\"/items/7\"",
        "took -status=200",
        "alice OR 500",
        "/web-[12]$/",
        "/took \\d\\dms/",
        "session=0",
        "app=s1 done",
        "app!=s0 a",
        "-logged",
        "never written",
        "@level=info",
        "@level!=info took",
        "@level=none -status=*",
        "status=*",
        "session!=* GET",
        "wait>=500us",
        "wait<2ms OR size>1.5kB",
        "-(wait>1ms)",
        "pod=shop-3-x",
        "pod!=shop-3-x GET",
        "pod=* -trace_id=0000000000000000",
        "shop-3 status=404",
        "trace_id=9e3779b97f4a7c15",
        "_line=shop",
        "/[0-9a-f]{16}/",
        "/web-[12]\\nf/",
    ]);
    let text_build_percent = prop::sample::select(vec![0, 0, 2, u64::MAX]);
    (codec, steps(), expr, 0_u64..900, 50_u64..1_100, 1_u64..300, text_build_percent).prop_map(
        |(codec, steps, expr, from, length, limit, text_build_percent)| Case {
            codec,
            steps,
            expr,
            from,
            length,
            limit,
            text_build_percent,
        },
    )
}

fn engine(codec: Codec, text_build_percent: u64) -> TestEngine {
    let block_bytes = if codec == Codec::Columns(3) { COLUMNS_BLOCK_BYTES } else { SMALL_BLOCK_BYTES };
    let store = store::Config {
        segment_bytes: 4 * block_bytes,
        block_bytes,
        codec_quick: codec,
        codec_final: codec,
        ..store::Config::default()
    };
    let queue = ingest::Config { segment_bytes_max: 8 * block_bytes, ..ingest::Config::default() };
    let pool = ScanPool::start(2, |_| ()).unwrap();
    let config = Config { text_build_percent, ..Config::default() };
    TestEngine::with_configs(sim::Fs::new(), config, queue, store, pool)
}

/// Appends one frame, and adds its records to the oracle.
fn append(node: &TestEngine, oracle: &mut BTreeMap<Id, Row>, number: u32, step: &Step) {
    let Step::Append { template, records, mut seed, spread_ms, is_retried } = *step else { return };
    let labels = Labels::parse(&format!("app=s{}", template % 2)).unwrap();
    let now = Millis(node.clock.unix_ms());
    let first = Id::new(now, Producer::new(1 + template), number * 1_000);
    let (mut times, mut flags, mut text) = (Vec::new(), Flags::default(), Vec::new());
    let (mut lines, mut all_attributes) = (Vec::new(), RowAttributes::empty());
    for at in 0..records {
        let (time, nanos) = (Millis(now.0 - draw(&mut seed, spread_ms + 1)), draw(&mut seed, 3) as u32 * 1_000);
        let bits = if draw(&mut seed, 50) == 0 { Flags::CUT } else { 0 };
        let line = line(template, &mut seed);
        times.push((time, nanos));
        if bits != 0 {
            flags.push(at, bits);
        }
        let attributes = attributes(template, &mut seed);
        let names = AttributeNames::new(attributes.iter().map(|(name, _)| name)).ok();
        names.iter().for_each(|names| all_attributes.push(at, 1, names));
        lines.push(1 + attributes.len() as u32);
        let values = attributes.into_iter().map(|(_, value)| value);
        let record = std::iter::once(line).chain(values).collect::<Vec<_>>().join("\n").into_bytes();
        text.extend_from_slice(&record);
        text.push(b'\n');
        let id = Id::new(time, first.producer(), first.sequence() + at);
        oracle.insert(id, Row { id, nanos, flags: bits, labels: labels.clone(), text: record, names });
    }
    let mut row_meta = Vec::new();
    let lines = (!all_attributes.is_empty()).then_some(lines);
    let meta = RowMeta { times: Some(times), flags, lines, attributes: all_attributes };
    let layout_bits = meta.encode(first.time(), &mut row_meta);
    let frame = FrameRecords {
        source: Source::Tcp,
        labels: &labels,
        first_id: first,
        count: records,
        accepted: now,
        layout_bits,
        row_meta: &row_meta,
        text: &[&text],
    };
    for _ in 0..=u32::from(is_retried) {
        node.engine.queue().append(Durability::Fast, &frame, |_| {}).unwrap();
    }
}

fn rows(node: &TestEngine, request: &Request) -> Vec<Row> {
    node.search_all(request.clone()).0.into_iter().map(Row::from).collect()
}

fn columnar_blocks(node: &TestEngine) -> usize {
    let segments = node.store.segments();
    let forms = segments.iter().flat_map(|segment| {
        (0..segment.footer().blocks.len()).filter_map(|block| segment.open(block).ok()).collect::<Vec<_>>()
    });
    forms.filter(|form| matches!(form, SearchableBlock::Columns(_))).count()
}

/// Columnar blocks whose text is in the block cache.
fn cached_texts(node: &TestEngine) -> usize {
    let segments = node.store.segments();
    let keys =
        segments.iter().flat_map(|segment| (0..segment.footer().blocks.len()).map(|block| (segment.id(), block)));
    keys.filter(|key| node.engine.block_cache.text(*key).is_some()).count()
}

/// The columnar blocks, and those whose text is in the block cache too.
fn check(case: &Case) -> Result<(usize, usize), TestCaseError> {
    let node = engine(case.codec, case.text_build_percent);
    let (mut oracle, start) = (BTreeMap::new(), node.clock.unix_ms());
    for (number, step) in (1..).zip(&case.steps) {
        match step {
            Step::Append { .. } => append(&node, &mut oracle, number, step),
            Step::AdvanceClock(ms) => node.advance_clock(*ms),
            Step::MoveToStore => node.move_to_store(),
            Step::Compact => drop(node.store.compact(&|| false)),
        }
    }
    node.move_to_store();
    let span = node.clock.unix_ms() + 4_000 - start;
    let at = |thousandths: u64| Millis(start - 4_000 + (span + 1) * thousandths / 1_000);
    let expr = Expr::parse(case.expr.as_bytes()).unwrap();
    let plan = Plan::compile(&expr).unwrap();
    let request = Request::new(expr, at(case.from), at(case.from + case.length));
    let matches = |row: &&Row| request.contains(row.id) && plan.matches(&row.labels, row.view());
    let want: Vec<Row> = oracle.values().filter(matches).cloned().collect();
    prop_assert_eq!(node.count(&request), want.len() as u64);
    for grouping in groupings() {
        let grouped = node.histogram(&request, Bucketing { buckets: 7, grouping: grouping.clone() }).0.buckets;
        let records = want.iter().map(|row| (row.id, &row.labels, row.view()));
        let groups: Vec<Vec<u64>> = grouped.iter().map(|bucket| bucket.groups.clone()).collect();
        prop_assert_eq!(groups, naive_groups(&grouping, &grouped, records), "{:?}", grouping);
    }
    for order in [Order::Ascending, Order::Descending] {
        let mut ordered = want.clone();
        if order == Order::Descending {
            ordered.reverse();
        }
        for limit in [None, Some(case.limit), Some(1)] {
            let request = Request { order, limit, ..request.clone() };
            ordered.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
            prop_assert_eq!(&rows(&node, &request), &ordered, "{:?} {:?}", order, limit);
            let lines = ordered.iter().flat_map(|row| row.view().line().iter().copied().chain([b'\n']));
            let lines: Vec<u8> = lines.collect();
            let runs = collect_runs(node.engine.search(request.clone(), Cancel::default()).unwrap());
            prop_assert_eq!(runs, (lines, ordered.len()), "{:?} {:?} in runs", order, limit);
            // The next page starts after the last record.
            if let (Some(last), Some(_)) = (ordered.last(), limit) {
                let page = Request { limit: Some(3), ..request.after(last.id) };
                let rest = want.iter().filter(|row| order.key(row.id) > order.key(last.id));
                let mut next: Vec<Row> = rest.cloned().collect();
                if order == Order::Descending {
                    next.reverse();
                }
                next.truncate(3);
                prop_assert_eq!(rows(&node, &page), next, "{:?} {:?}, the next page", order, limit);
            }
        }
    }
    node.assert_memory_is_released();
    Ok((columnar_blocks(&node), cached_texts(&node)))
}

#[test]
fn rows_and_their_order_equal_the_oracle_for_every_codec() {
    let (columnar, texts) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(RunnerConfig { cases: 160, failure_persistence: None, ..RunnerConfig::default() });
    let run = |case: Case| {
        let (blocks, with_text) = check(&case)?;
        columnar.set(columnar.get() + blocks);
        texts.set(texts.get() + with_text);
        Ok(())
    };
    runner.run(&cases(), run).unwrap();
    assert!(columnar.get() > 100, "only {} blocks were encoded as columns", columnar.get());
    assert!((50..columnar.get()).contains(&texts.get()), "{} blocks were searched as text", texts.get());
}

#[test]
fn a_search_that_was_stopped_halfway_leaves_no_work() {
    let mut node = engine(Codec::Columns(3), u64::MAX);
    for at in 0..2_000 {
        node.put(&format!("GET /item/{at} took {} ms", at % 97));
    }
    node.move_to_store();
    assert!(columnar_blocks(&node) > 0);
    let segment = node.store.segments().first().cloned().unwrap();
    let unit = BlockUnit {
        block: BlockRef { source: segment.clone(), index: 0 },
        block_cache: Arc::clone(&node.engine.block_cache),
    };
    let request = request_all_time("item");
    let plan = Plan::compile(&request.expr).unwrap();
    let is_remembered = || {
        let cached = node.engine.block_cache.get((segment.id(), 0)).unwrap();
        cached.prefers_text(plan.costs().question(), 0)
    };
    let cancel = Cancel::default();
    let mut stop = |_: MatchChunk<'_>| {
        cancel.cancel();
        ControlFlow::Continue(())
    };
    unit.scan(&request, &plan, &cancel, usize::MAX, &mut stop).unwrap();
    assert!(cancel.is_cancelled() && !is_remembered());
    unit.scan(&request, &plan, &Cancel::default(), usize::MAX, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(is_remembered());
}
