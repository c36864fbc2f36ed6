//! Answers of a single node through [`Answers`], each kind once.

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
    let (histogram, stats) = node.histogram(&request, Bucketing { buckets: 4, by_level: true });
    // The clock advances by three seconds for the move to the store.
    let counts: Vec<_> = histogram.buckets.iter().map(|bucket| bucket.count).collect();
    assert_eq!((counts, stats.matched), (vec![7, 4, 7, 2], 20));
    let levels = |level: Level| histogram.buckets.iter().map(|bucket| bucket.levels.unwrap()[level as usize]).sum();
    let sums: (u64, u64) = (levels(Level::Error), levels(Level::Info));
    assert_eq!(sums, (4, 16));
    let count = |expr: &str| node.count_with_stats(&request_all_time(expr)).0;
    let counts = ["@level=error", "@level>=info", "@level=none", "line @level!=error"].map(count);
    assert_eq!(counts, [4, 20, 0, 16]);
    assert_eq!(histogram.buckets[0].from, from);
    assert_eq!(histogram.buckets[3].to, to);
}

#[test]
fn fields_have_their_most_frequent_values() {
    let (mut node, _) = node();
    // The label of the same name hides this field.
    node.put("line app=hidden");
    let (fields, stats) = node.fields(request_all_time("line"));
    assert_eq!((fields.records, fields.is_sampled, stats.matched), (21, false, 21));
    let names: Vec<_> = fields.fields.iter().map(|field| (field.name.as_str(), field.is_label)).collect();
    assert_eq!(names, [("app", true), ("level", false)]);
    let level = &fields.fields[1];
    assert_eq!((level.records, level.distinct), (20, Some(2)));
    assert_eq!(level.values, [(b"info".to_vec(), 16), (b"error".to_vec(), 4)]);
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
    let line = |record: RecordRef<'_>| String::from_utf8_lossy(record.text).into_owned();
    std::iter::from_fn(|| records.visit_next(line)).collect()
}

#[test]
fn a_tail_shows_new_matches() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::parse(b"line").unwrap()).unwrap();
    node.put("line 20");
    node.put("other");
    node.put("line 21");
    assert_eq!(next_lines(&node, &mut tail), ["line 20", "line 21"]);
    assert!(node.answers().tail(&Expr::regex("(")).is_err());
}

#[test]
fn a_tail_shows_a_record_that_was_sent_twice_once() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::All).unwrap();
    let id = node.put("first");
    // In one poll, and in a later one.
    node.put_as(id, "app=web", b"first");
    assert_eq!(next_lines(&node, &mut tail), ["first"]);
    node.put_as(id, "app=web", b"first");
    node.put("second");
    assert_eq!(next_lines(&node, &mut tail), ["second"]);
}

#[test]
fn a_tail_that_lags_reports_the_bytes_that_it_skips() {
    let (mut node, _) = node();
    let mut tail = node.answers().tail(&Expr::All).unwrap();
    (0..60).for_each(|_| _ = node.put(&"x".repeat(50)));
    let event = node.tasks.run(tail.next());
    assert!(matches!(event, Some(TailEvent::Skipped { address: None, bytes: 3_000.. })), "{event:?}");
    node.put("after");
    assert_eq!(next_lines(&node, &mut tail), ["after"]);
}
