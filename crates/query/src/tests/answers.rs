//! Answers of a single node through [`Answers`], each kind once.

use bucksaw_record::LabelScope;

use super::*;

/// Ten records in a stored segment and ten in the queue, one per second; every fifth is an error.
fn node() -> (TestEngine, Vec<Id>) {
    let mut node = TestEngine::new();
    let ids = (0..20)
        .map(|number| {
            if number == 10 {
                node.move_to_store();
            }
            node.advance_clock(1_000);
            node.put(&format!("line {number} level={}", if number % 5 == 0 { "error" } else { "info" }))
        })
        .collect();
    (node, ids)
}

fn ids(records: &[OwnedRecord]) -> Vec<Id> {
    records.iter().map(|record| record.id).collect()
}

#[test]
fn a_search_returns_the_matching_records_in_order() {
    let (node, all) = node();
    let errors = [all[0], all[5], all[10], all[15]];
    let search = |order, limit| {
        let request = Request { order, limit, ..request_all_time("level=error") };
        let records = node.answers().search(request).unwrap();
        let (records, stats) = node.tasks.run(records.write_to(Vec::<OwnedRecord>::new())).unwrap();
        assert_eq!((stats.matched, stats.is_partial()), (records.len() as u64, false));
        assert_eq!((stats.nodes.asked, stats.nodes.answered), (1, 1));
        records
    };
    let found = search(Order::Ascending, None);
    assert_eq!(ids(&found), errors);
    let texts: Vec<_> = found.iter().map(|record| String::from_utf8_lossy(&record.text)).collect();
    assert_eq!(texts, ["line 0 level=error", "line 5 level=error", "line 10 level=error", "line 15 level=error"]);
    assert_eq!(found.iter().map(|record| record.is_stored).collect::<Vec<_>>(), [true, true, false, false]);
    assert!(found.iter().all(|record| record.labels.to_string() == "app=web"));
    assert_eq!(ids(&search(Order::Descending, Some(3))), [errors[3], errors[2], errors[1]]);
    let bad = Request { expr: Expr::regex("("), ..request_all_time("") };
    assert!(matches!(node.answers().check(&bad), Err(RequestError::Expression(_))));
    assert!(matches!(node.answers().search(bad), Err(RequestError::Expression(_))));
}

#[test]
fn a_count_and_a_histogram_agree() {
    let (node, all) = node();
    let (count, stats) = node.count_with_stats(&request_all_time("level=error"));
    assert_eq!((count, stats.matched, stats.segments_read > 1), (4, 4, true));
    let (from, to) = (all[0].time(), Millis(all[0].time().0 + 28_000));
    let request = Request::new(Expr::All, from, to);
    let (histogram, stats) = node.histogram(&request, Bucketing { buckets: 4, grouping: Grouping::Level });
    // The clock advances by three seconds for the move to the store.
    let counts: Vec<_> = histogram.buckets.iter().map(|bucket| bucket.count).collect();
    assert_eq!((counts, stats.matched), (vec![7, 4, 7, 2], 20));
    let levels = |level: Level| histogram.buckets.iter().map(|bucket| bucket.groups[level as usize]).sum();
    let sums: (u64, u64) = (levels(Level::Error), levels(Level::Info));
    assert_eq!(sums, (4, 16));
    let count = |expr: &str| node.count_with_stats(&request_all_time(expr)).0;
    let counts = ["@level=error", "@level>=info", "@level=none", "line @level!=error"].map(count);
    assert_eq!(counts, [4, 20, 0, 16]);
    assert_eq!(histogram.buckets[0].from, from);
    assert_eq!(histogram.buckets[3].to, to);
}

#[test]
fn a_field_counts_once_per_record_and_cut_values_are_marked() {
    let mut node = TestEngine::new();
    node.put(r#"{"a":1,"a":2.5,"b":{"c":"x"},"b.c":"y","n":"7"}"#);
    node.put(r#"{"a":-1,"b":{"c":"y"},"n":"x"}"#);
    let long = |end: &str| format!("long={}{end}", "\u{e4}".repeat(127));
    for end in ["\u{e4}", "x\u{e4}", "x", "x"] {
        node.put(&long(end));
    }
    let (fields, _) = node.fields(request_all_time(""));
    let field = |name: &str| fields.fields.iter().find(|field| field.name == name).unwrap();
    // The last of a name counts, as in a filter.
    assert_eq!((field("a").records, counted(field("a"))), (2, vec![("-1", 1), ("2.5", 1)]));
    assert_eq!(field("a").numbers, Some(NumberRange { min: -1.0, avg: 0.75, max: 2.5 }));
    assert_eq!(counted(field("b.c")), [("y", 2)]);
    assert_eq!(field("n").numbers, None);
    let values: Vec<_> =
        field("long").values.iter().map(|value| (value.value.len(), value.records, value.is_cut)).collect();
    assert_eq!(values, [(255, 2, false), (255, 1, true), (256, 1, false)]);
    assert_eq!((field("long").distinct, field("long").numbers), (Some(3), None));
    assert!(
        fields.fields.iter().all(|field| field.values.iter().map(|value| value.records).sum::<u64>() <= field.records)
    );
}

#[test]
fn fields_have_their_most_frequent_values() {
    let (mut node, _) = node();
    // The label of the same name hides this field.
    node.put("line app=hidden");
    let (fields, stats) = node.fields(request_all_time("line"));
    assert_eq!((fields.records, fields.is_sampled, stats.matched), (21, false, 21));
    let names: Vec<_> = fields.fields.iter().map(|field| (field.name.as_str(), field.kind)).collect();
    assert_eq!(names, [("@level", FieldKind::Derived), ("app", FieldKind::Label), ("level", FieldKind::Key)]);
    for level in [&fields.fields[0], &fields.fields[2]] {
        assert_eq!((level.records, level.distinct, level.numbers), (20, Some(2), None));
        assert_eq!(counted(level), [("info", 16), ("error", 4)]);
    }
}

#[test]
fn streams_are_listed_without_reading_lines() {
    let (mut node, all) = node();
    let first = node.clock.unix_ms();
    (0..30).for_each(|number| {
        let id = Id::new(Millis(first), Producer::new(2), number);
        node.put_as(id, if number < 25 { "app=shop,host=a" } else { "" }, b"0123456789");
    });
    let sizes = |node: &TestEngine, request: Request| {
        let (streams, stats) = node.streams(request);
        let sizes = streams.streams.iter().map(|stream| (stream.labels.to_string(), stream.records, stream.bytes));
        assert!(!streams.is_approximate && !stats.is_partial());
        (sizes.collect::<Vec<_>>(), stats.bytes_scanned)
    };
    let of = |labels: &str, records, bytes| (labels.to_owned(), records, bytes);
    let want = vec![of("app=shop,host=a", 25, 275), of("app=web", 20, 374), of("", 5, 55)];
    assert_eq!(sizes(&node, request_all_time("")), (want, 0));
    node.move_to_store();
    let counts = |request| sizes(&node, request).0.into_iter().map(|(labels, records, _)| (labels, records)).collect();
    let check = |expr: &str, want: &[(&str, u64)]| {
        let counts: Vec<(String, u64)> = counts(request_all_time(expr));
        assert_eq!(counts.iter().map(|(labels, records)| (&**labels, *records)).collect::<Vec<_>>(), want, "{expr}");
    };
    check("", &[("app=shop,host=a", 25), ("app=web", 20), ("", 5)]);
    check("app=web", &[("app=web", 20)]);
    check("-app=web host=~/./", &[("app=shop,host=a", 25)]);
    let half = Request { from: all[5], to: all[8], ..request_all_time("") };
    assert_eq!(sizes(&node, half).0.iter().map(|stream| (&*stream.0, stream.1)).collect::<Vec<_>>(), [("app=web", 3)]);
    for text in ["line", "/l/", "app=web -line"] {
        let refused = node.tasks.run(node.answers().streams(request_all_time(text), ()));
        assert!(matches!(refused, Err(RequestError::NotAboutLabels)), "{text}");
    }
}

#[test]
fn many_streams_are_cut_to_the_memory_of_queries() {
    let mut node = TestEngine::with_memory(64 << 10, 1_000);
    for number in 0..1_000 {
        let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(2), number);
        node.put_as(id, &format!("host=h{number}"), b"x");
    }
    let (streams, _) = node.streams(request_all_time(""));
    assert!(streams.is_cut && (20..200).contains(&streams.streams.len()), "{}", streams.streams.len());
    node.assert_memory_is_released();
}

#[test]
fn a_context_is_around_its_record() {
    let (node, all) = node();
    let (records, stats) = node.context(all[10], 2, 3).unwrap();
    assert_eq!((ids(&records), stats.matched), (all[8..=13].to_vec(), 6));
    let (records, _) = node.context(all[0], 2, 0).unwrap();
    assert_eq!(ids(&records), all[..1]);
    assert!(matches!(node.context(Id::MIN, 1, 1), Err(RequestError::RecordNotFound(Id::MIN))));
}

/// The lines of the tail's next event.
fn next_lines(node: &TestEngine, tail: &mut TailStream) -> Vec<String> {
    let Some(TailEvent::Records(mut records)) = node.tasks.run(tail.next()) else { panic!("no records") };
    let line = |record: RecordRef<'_>| String::from_utf8_lossy(record.view.line()).into_owned();
    std::iter::from_fn(|| records.visit_next(line)).collect()
}

#[test]
fn a_tail_shows_new_matches() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::parse(b"line").unwrap(), None).unwrap();
    node.put("line 20");
    node.put("other");
    node.put("line 21");
    assert_eq!(next_lines(&node, &mut tail), ["line 20", "line 21"]);
    assert!(node.answers().tail(&Expr::regex("("), None).is_err());
}

#[test]
fn a_tail_shows_a_record_that_was_sent_twice_once() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::All, None).unwrap();
    let id = node.put("first");
    // In one poll, and in a later one.
    node.put_as(id, "app=web", b"first");
    assert_eq!(next_lines(&node, &mut tail), ["first"]);
    node.put_as(id, "app=web", b"first");
    node.put("second");
    assert_eq!(next_lines(&node, &mut tail), ["second"]);
}

#[test]
fn skipped_bytes_of_all_streams_are_not_reported_to_a_client_with_a_scope() {
    let (mut node, _) = node();
    let scope = LabelScope::new(Labels::parse("tenant=a").unwrap());
    let mut tail = node.answers().tail(&Expr::All, Some(scope)).unwrap();
    (0..60).for_each(|_| _ = node.put(&"x".repeat(50)));
    let event = node.tasks.run(tail.next());
    assert!(matches!(event, Some(TailEvent::Skipped { address: None, bytes: 0 })), "{event:?}");
}

#[test]
fn a_tail_that_lags_reports_the_bytes_that_it_skips() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::All, None).unwrap();
    (0..60).for_each(|_| _ = node.put(&"x".repeat(50)));
    let event = node.tasks.run(tail.next());
    assert!(matches!(event, Some(TailEvent::Skipped { address: None, bytes: 3_000.. })), "{event:?}");
    node.put("after");
    assert_eq!(next_lines(&node, &mut tail), ["after"]);
}
