//! Two tenants on one node: the answers to one of them equal those of a store that never had the records of the other.

use bucksaw_record::LabelScope;

use super::*;

/// Expressions on labels, text, fields and levels that one tenant, both or none have.
pub(crate) const EXPRESSIONS: [&str; 19] = [
    "",
    "a",
    "a b",
    "a OR x",
    "-a",
    "/a.?b/",
    "a=x",
    "app=s1",
    "app!=s0 a",
    "@level>=warn",
    "@level=none a",
    "secret",
    "-secret",
    "tenant=b",
    "tenant=a x",
    "tenant=* OR b",
    "colour=red",
    "d=*",
    "zone=z1",
];

/// The labels of the streams of tenant `a`, then those of everybody else. Streams of both share blocks, queue segments and apps.
pub(crate) const OWN_STREAMS: [&str; 3] = ["app=s0,tenant=a", "app=s1,tenant=a", "tenant=a"];
pub(crate) const OTHER_STREAMS: [&str; 5] =
    ["app=s0,tenant=b", "app=s1,tenant=b,zone=z1", "app=s1", "tenant=ab", "_bucksaw=audit,tenant=a"];

pub(crate) fn own_scope() -> LabelScope {
    LabelScope::new(Labels::parse("tenant=a").unwrap())
}

/// Lines of both tenants, and some that only the other one has.
pub(crate) fn drawn_line_of(is_own: bool) -> impl Strategy<Value = String> {
    let words: &'static [&'static str] = match is_own {
        true => &["level=info d=2ms a=x", "ERROR d=1500us", "colours=red", "{\"level\":\"error\"}"],
        false => &["secret a=y level=error", "colour=red b", "level=fatal d=9m secret", "a b x"],
    };
    prop_oneof![2 => "[ab =x]{0,12}", 1 => prop::sample::select(words).prop_map(str::to_owned)]
}

/// Contexts of which the answers are compared.
const CONTEXTS_MAX: usize = 8;

/// Everything that a client can ask of records, as text. `ids` are those of all records, for the contexts of some.
pub(crate) async fn transcript(
    answers: &Answers,
    request: &Request,
    ids: &[Id],
    with_stats: bool,
) -> Vec<(String, String)> {
    let mut answered: Vec<(String, String)> = Vec::new();
    let mut add = |what: &str, answer: String, stats: Option<QueryStats>| {
        answered.push((what.to_owned(), answer));
        if let (true, Some(stats)) = (with_stats, stats) {
            answered.push((format!("statistics of {what}"), format!("{stats:?}")));
        }
    };
    let rows = |records: Vec<OwnedRecord>| {
        let row = |record: OwnedRecord| (record.id, record.labels.to_string(), record.text, record.flags, record.nanos);
        format!("{:?}", records.into_iter().map(row).collect::<Vec<_>>())
    };
    for (order, limit) in [(Order::Ascending, None), (Order::Ascending, Some(3)), (Order::Descending, Some(5))] {
        let records = answers.search(Request { order, limit, ..request.clone() }).unwrap();
        let (records, stats) = records.write_to(Vec::new()).await.unwrap();
        add(&format!("records {order:?} {limit:?}"), rows(records), Some(stats));
    }
    let (count, stats) = answers.count(request.clone(), ()).await.unwrap();
    add("count", count.to_string(), Some(stats));
    let mut groupings = groupings();
    groupings.push(Grouping::Streams(vec![Labels::parse(OTHER_STREAMS[0]).unwrap()]));
    groupings.push(Grouping::Field { name: "tenant".to_owned(), values: vec!["a".to_owned(), "b".to_owned()] });
    for by in [GroupBy::Field("a".to_owned()), GroupBy::Field("tenant".to_owned()), GroupBy::Stream] {
        let chosen = answers.choose_groups(request.clone(), by.clone(), ()).await.unwrap();
        add(&format!("groups by {by:?}"), format!("{chosen:?}"), None);
        groupings.push(chosen);
    }
    for grouping in groupings {
        let what = format!("histogram by {grouping:?}");
        let bucketing = Bucketing { buckets: 7, grouping };
        let (histogram, stats) = answers.histogram(request.clone(), bucketing, (), |_, _| {}).await.unwrap();
        add(&what, format!("{histogram:?}"), Some(stats));
    }
    let (fields, stats) = answers.fields(request.clone(), ()).await.unwrap();
    add("fields", format!("{fields:?}"), Some(stats));
    add("hints", format!("{:?}", answers.unknown_fields(request, ()).await.unwrap()), None);
    for expr in ["", "app=s1", "tenant=b", "zone=*"] {
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        let all = Request::new(expr.clone(), Millis(0), Millis::MAX).within(request.scope.clone());
        for request in [all, Request { expr: expr.clone(), ..request.clone() }] {
            let (streams, stats) = answers.streams(request, ()).await.unwrap();
            // Their bytes are an estimate where records occur twice, or are requested in part.
            let Streams { streams, is_approximate, is_cut } = streams;
            let counts: Vec<_> = streams.iter().map(|stream| (stream.labels.to_string(), stream.records)).collect();
            add(&format!("streams {expr:?}"), format!("{counts:?} {is_approximate} {is_cut}"), Some(stats));
        }
    }
    for id in ids.iter().step_by(ids.len().div_ceil(CONTEXTS_MAX).max(1)) {
        match answers.context(*id, 3, 4, request.scope.clone()).await {
            Err(error) => add(&format!("context of {id}"), error.to_string(), None),
            Ok(records) => {
                let (records, stats) = records.write_to(Vec::new()).await.unwrap();
                add(&format!("context of {id}"), rows(records), Some(stats));
            }
        }
    }
    answered
}

/// What happens, how long, the line of a record and whether it is of the tenant, how late it is, and which stream it has.
pub(crate) type DrawnStep = (u8, u64, (bool, String), u64, usize);

pub(crate) fn drawn_steps() -> impl Strategy<Value = Vec<DrawnStep>> {
    let line = any::<bool>().prop_flat_map(|is_own| (Just(is_own), drawn_line_of(is_own)));
    prop::collection::vec((0_u8..12, 0_u64..3_000, line, 0_u64..9_000, 0_usize..15), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_tenant_gets_the_answers_of_a_store_without_the_others(
        steps in drawn_steps(),
        expr in prop::sample::select(EXPRESSIONS.to_vec()),
        (from, to) in (0_u64..60_000, 0_u64..60_000),
        size in prop::sample::select(vec![1, 100]),
        codec in prop::sample::select(vec![Codec::ColumnsAlways(3), Codec::Lz4]),
    ) {
        let open = || {
            let queue = ingest::Config { segment_bytes_max: 600 * size, ..ingest::Config::default() };
            TestEngine::with_configs(sim::Fs::new(), Config::default(), queue, small_store(size, codec), ScanPool::inline())
        };
        let (mut both, mut alone) = (open(), open());
        let start = both.clock.unix_ms();
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        let scope = Some(own_scope());
        let tail = |node: &TestEngine, scope: Option<LabelScope>| {
            node.engine.tail(crate::tail::tail_request(expr.clone(), scope)).unwrap().with_recent_ids()
        };
        let (mut tail_of_both, mut tail_of_one) = (tail(&both, scope.clone()), tail(&alone, None));
        for (number, (what, wait, (is_own, line), late, stream)) in (1_u32..).zip(steps) {
            match what {
                0 => [&both, &alone].into_iter().for_each(TestEngine::move_to_store),
                1 => [&both, &alone].into_iter().for_each(|node| drop(node.store.compact(&|| false))),
                2 => [&both, &alone].into_iter().for_each(|node| node.advance_clock(wait)),
                kind => {
                    let late = if kind == 3 { late } else { 0 };
                    let producer = Producer::new(u64::from(kind) * 2 + u64::from(is_own));
                    let id = Id::new(Millis(both.clock.unix_ms() - late), producer, number);
                    let times = if kind == 4 { 2 } else { 1 };
                    for _ in 0..times {
                        if is_own {
                            both.put_as(id, OWN_STREAMS[stream % 3], line.as_bytes());
                            alone.put_as(id, OWN_STREAMS[stream % 3], line.as_bytes());
                        } else {
                            both.put_as(id, OTHER_STREAMS[stream % 5], line.as_bytes());
                        }
                    }
                }
            }
            prop_assert_eq!(drain_tail(&mut tail_of_both), drain_tail(&mut tail_of_one));
        }
        let request = Request::new(expr.clone(), Millis(start - 5_000 + from), Millis(start - 5_000 + from + to));
        let scoped = request.clone().within(scope);
        let ids: Vec<Id> = both.accepted.keys().copied().collect();
        let answered = both.tasks.run(transcript(&both.answers(), &scoped, &ids, false));
        prop_assert_eq!(answered, alone.tasks.run(transcript(&alone.answers(), &request, &ids, false)));
        // Statistics depend on how records share files, so a client with a scope sees few of them.
        let answered = both.tasks.run(transcript(&both.answers(), &scoped, &ids, true));
        prop_assert_eq!(answered, alone.tasks.run(transcript(&alone.answers(), &scoped, &ids, true)));
    }
}

#[test]
fn damage_of_other_streams_alone_is_not_reported_and_that_of_shared_files_has_no_name() {
    let mut node = TestEngine::new();
    let put = |node: &mut TestEngine, number: u32, labels: &str| {
        let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(1), number);
        node.put_as(id, labels, "x".repeat(150).as_bytes());
    };
    put(&mut node, 1, OTHER_STREAMS[0]);
    node.move_to_store();
    node.advance_clock(60_000);
    put(&mut node, 2, OWN_STREAMS[0]);
    let segment = Arc::clone(&node.store.segments()[0]);
    let block = &segment.footer().blocks[0];
    // The block and its recovery record.
    node.fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    let reported = |scope: Option<LabelScope>| {
        let (count, stats) = node.count_with_stats(&request_all_time("x").within(scope));
        (
            count,
            stats.is_partial(),
            stats.damaged.len(),
            stats.bytes_skipped + stats.bytes_scanned + stats.segments_read,
        )
    };
    assert_eq!(reported(Some(own_scope())), (1, false, 0, 0));
    let (_, is_partial, ..) = reported(None);
    assert!(is_partial, "the damage was hit");
    let other = LabelScope::new(Labels::parse("tenant=b").unwrap());
    let (_, stats) = node.count_with_stats(&request_all_time("x").within(Some(other)));
    assert_eq!(stats.partial_reasons(), ["a part of the records of this time is damaged and was left out"]);
}

#[test]
fn the_bytes_of_a_stream_do_not_depend_on_others_in_its_block() {
    let mut node = TestEngine::with(sim::Fs::new(), Config::default(), 100);
    for number in 0..20 {
        let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(1), number);
        node.put_as(id, OWN_STREAMS[0], b"short");
        let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(2), number);
        node.put_as(id, OTHER_STREAMS[0], "long ".repeat(100).as_bytes());
    }
    node.move_to_store();
    let blocks = || node.store.segments().iter().map(|segment| segment.footer().blocks.len()).sum::<usize>();
    assert_eq!(blocks(), 1, "both are in one block");
    let (streams, _) = node.streams(request_all_time("").within(Some(own_scope())));
    let sizes: Vec<(u64, u64)> = streams.streams.iter().map(|stream| (stream.records, stream.bytes)).collect();
    assert_eq!(sizes, [(20, 20 * 6)]);
}

#[test]
fn the_blocks_of_other_tenants_are_not_scanned() {
    let mut node = TestEngine::new();
    for number in 0..200 {
        let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(1), number);
        let own = number == 100;
        node.put_as(id, if own { OWN_STREAMS[0] } else { OTHER_STREAMS[0] }, "x".repeat(100).as_bytes());
        if number % 20 == 0 {
            node.move_to_store();
        }
    }
    node.move_to_store();
    let scanned = |scope| {
        let (_, stats) = node.search_all(request_all_time("x").within(scope));
        stats.bytes_scanned
    };
    assert!(scanned(None) > 20_000 && scanned(Some(own_scope())) < 200);
}
