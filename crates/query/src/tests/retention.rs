//! Retention by label: streams of one segment that are kept for different ages.

use bucksaw_record::LabelScope;
use bucksaw_store::LabelRetention;

use super::*;

const HOUR_MS: u64 = 3_600_000;

fn rule(labels: &str, hours: Option<u64>) -> LabelRetention {
    LabelRetention {
        streams: LabelScope::new(Labels::parse(labels).unwrap()),
        age: hours.map(|hours| Duration::from_millis(hours * HOUR_MS)),
    }
}

/// Streams are kept for a day; those of tenant `a` for two hours, those of tenant `b` for four days, the audit trail for ever.
fn node_with_rules(codec: Codec) -> TestEngine {
    let store = store::Config {
        retention_age: Some(Duration::from_millis(24 * HOUR_MS)),
        retention_labels: vec![rule("tenant=a", Some(2)), rule("tenant=b", Some(96)), rule("_bucksaw=audit", None)],
        ..small_store(10, codec)
    };
    let queue = ingest::Config { segment_bytes_max: 6_000, ..ingest::Config::default() };
    let node = TestEngine::with_configs(sim::Fs::new(), Config::default(), queue, store, ScanPool::inline());
    node.store.retain(node.engine.queue());
    node
}

const STREAMS: [&str; 4] = ["tenant=a", "tenant=b", "app=x", "_bucksaw=audit"];

/// Puts `count` records of each stream.
fn fill(node: &mut TestEngine, streams: &[&str], count: u32) {
    for number in 0..count {
        for labels in streams {
            node.next += 1;
            let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(1), node.next);
            node.put_as(id, labels, format!("line {number} {}", "x".repeat(40)).as_bytes());
        }
    }
}

fn wait_hours(node: &TestEngine, hours: u64) {
    // Shorter than what counts as a jump of the clock.
    (0..hours * 12).for_each(|_| {
        node.advance_clock(HOUR_MS / 12);
        node.store.retain(node.engine.queue());
    });
}

/// The streams of all answers, with their numbers of records.
fn shown(node: &TestEngine) -> Vec<(String, u64)> {
    let (streams, stats) = node.streams(request_all_time(""));
    assert!(!stats.is_partial());
    let listed: BTreeMap<String, u64> =
        streams.streams.iter().map(|stream| (stream.labels.to_string(), stream.records)).collect();
    let mut found = BTreeMap::<String, u64>::new();
    node.search_all(request_all_time("")).0.iter().for_each(|record| {
        *found.entry(record.labels.to_string()).or_default() += 1;
    });
    assert_eq!(found, listed);
    assert_eq!(node.count(&request_all_time("")), found.values().sum::<u64>());
    let by_stream = Grouping::Streams(STREAMS.map(|labels| Labels::parse(labels).unwrap()).to_vec());
    let (histogram, _) = node.histogram(&request_all_time("line"), Bucketing { buckets: 3, grouping: by_stream });
    let counted = STREAMS.iter().enumerate().map(|(group, labels)| {
        ((*labels).to_owned(), histogram.buckets.iter().map(|bucket| bucket.groups[group]).sum::<u64>())
    });
    assert_eq!(counted.filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(), found);
    for labels in listed.keys() {
        let id = node.accepted.iter().rev().find(|(_, (of, _))| of.to_string() == *labels).map(|(id, _)| *id).unwrap();
        assert!(node.context(id, 1, 1).is_ok());
    }
    found.into_iter().collect()
}

/// The streams that files have records of.
fn stored(node: &TestEngine) -> Vec<String> {
    let mut streams: Vec<String> = node
        .store
        .segments()
        .iter()
        .flat_map(|segment| segment.footer().streams.iter().map(ToString::to_string).collect::<Vec<_>>())
        .collect();
    streams.sort();
    streams.dedup();
    streams
}

fn compact(node: &TestEngine) {
    while node.store.compact(&|| false).unwrap() > 0 {}
}

#[test]
fn streams_leave_answers_and_files_at_their_own_age() {
    for codec in [Codec::ColumnsAlways(3), Codec::Lz4] {
        let mut node = node_with_rules(codec);
        fill(&mut node, &STREAMS, 20);
        node.move_to_store();
        let of = |streams: &[&str]| {
            let mut all: Vec<_> = streams.iter().map(|labels| ((*labels).to_owned(), 20)).collect();
            all.sort();
            all
        };
        assert_eq!(shown(&node), of(&STREAMS));
        compact(&node);
        assert_eq!(stored(&node).len(), 4);
        wait_hours(&node, 3);
        assert_eq!(shown(&node), of(&STREAMS[1..]), "answers follow at once");
        assert_eq!(stored(&node).len(), 4, "no segment is past its retention");
        compact(&node);
        assert_eq!(stored(&node), ["_bucksaw=audit", "app=x", "tenant=b"]);
        assert_eq!(shown(&node), of(&STREAMS[1..]));
        let before: Vec<Id> = node.store.segments().iter().map(|segment| segment.id()).collect();
        compact(&node);
        assert_eq!(before, node.store.segments().iter().map(|segment| segment.id()).collect::<Vec<_>>(), "once");
        wait_hours(&node, 24);
        assert_eq!(shown(&node), of(&[STREAMS[1], STREAMS[3]]));
        compact(&node);
        wait_hours(&node, 96);
        compact(&node);
        assert_eq!((shown(&node), stored(&node)), (of(&STREAMS[3..]), vec!["_bucksaw=audit".to_owned()]));
    }
}

#[test]
fn a_segment_whose_streams_are_all_past_their_retention_goes_to_the_trash() {
    let mut node = node_with_rules(Codec::Lz4);
    fill(&mut node, &STREAMS[..1], 20);
    node.move_to_store();
    wait_hours(&node, 3);
    assert_eq!((shown(&node), node.store.segments().len()), (vec![], 0));
}

#[test]
fn records_in_the_queue_follow_the_same_rule() {
    let mut node = node_with_rules(Codec::Lz4);
    fill(&mut node, &STREAMS, 5);
    wait_hours(&node, 3);
    assert_eq!(
        shown(&node).iter().map(|(labels, _)| labels.as_str()).collect::<Vec<_>>(),
        ["_bucksaw=audit", "app=x", "tenant=b"]
    );
}

#[test]
fn a_clock_that_jumps_expires_no_stream() {
    let mut node = node_with_rules(Codec::Lz4);
    fill(&mut node, &STREAMS, 20);
    node.move_to_store();
    compact(&node);
    node.clock.jump(30 * 24 * HOUR_MS as i64);
    compact(&node);
    assert_eq!((shown(&node).len(), stored(&node).len()), (4, 4));
}

/// A merge that copies blocks as they are decodes those with records past their retention.
#[test]
fn records_past_their_retention_do_not_survive_a_merge() {
    let mut node = node_with_rules(Codec::ColumnsAlways(3));
    for _ in 0..3 {
        fill(&mut node, &STREAMS, 30);
        node.move_to_store();
        wait_hours(&node, 1);
    }
    wait_hours(&node, 1);
    for _ in 0..6 {
        fill(&mut node, &STREAMS[2..3], 8);
        node.move_to_store();
    }
    compact(&node);
    let shown: BTreeMap<String, u64> = shown(&node).into_iter().collect();
    assert!(shown["tenant=b"] == 90 && shown.get("tenant=a").is_none_or(|count| *count <= 30), "{shown:?}");
}
