//! Complete answers, and partial ones under faults.

use std::ops::ControlFlow;
use std::time::Duration;

use bucksaw_cluster::Member;
use bucksaw_env::sim::{Host, NetworkConditions};
use bucksaw_query::{Bucketing, Grouping, Order, RecordRef, RecordSink, Request, SinkClosed, TailEvent};
use bucksaw_record::{Expr, Id};

use crate::test_cluster::{QueryCluster, id, request_all, seconds};

fn ids(numbers: std::ops::Range<u64>) -> Vec<Id> {
    numbers.map(id).collect()
}

#[test]
fn each_node_gives_the_complete_answer_and_equal_seeds_give_equal_runs() {
    let run = |seed| {
        let cluster = QueryCluster::joined(seed, 3);
        cluster.fill(0..200, 100);
        cluster.move_to_store();
        cluster.fill(200..300, 100);
        let newest = Request { order: Order::Descending, limit: Some(150), ..request_all() };
        for node in 0..3 {
            let (found, stats) = cluster.search_all(node, &request_all());
            assert!(found == ids(0..300) && !stats.is_partial(), "{stats:?}");
            assert_eq!((stats.nodes.asked, stats.nodes.answered), (3, 3));
            let (found, _) = cluster.search_all(node, &newest);
            assert_eq!(found, (150..300).rev().map(id).collect::<Vec<_>>());
            let (count, stats) = cluster.count(node, &request_all());
            assert_eq!((count, stats.is_partial()), (300, false));
            let line = Expr::parse(b"\"line 150\"").unwrap();
            assert_eq!(cluster.search_all(node, &Request { expr: line, ..request_all() }).0, [id(150)]);
        }
        cluster.world.fingerprint()
    };
    assert_eq!((run(1), run(2)), (run(1), run(2)));
    assert_ne!(run(1), run(2));
}

#[test]
fn answers_of_a_joining_node_are_partial() {
    let mut cluster = QueryCluster::joined(4, 2);
    cluster.fill(0..10, 100);
    cluster.start();
    let (found, stats) = cluster.search_all(2, &request_all());
    assert!(found.is_empty() && stats.is_partial(), "{stats:?}");
    assert_eq!(stats.partial_reasons(), ["the queried node does not know all nodes of the cluster yet"]);
    assert!(!cluster.nodes[2].scatter.is_single_node());
    // An answer that begins before the first node has heard of it is partial, as the second node may know it already.
    let knows_all = || cluster.nodes[0].cluster.members().len() == 3;
    assert!(cluster.world.run_until(knows_all, seconds(5)));
    let (found, stats) = cluster.search_all(0, &request_all());
    assert!(found == ids(0..10) && !stats.is_partial(), "the first node joins no other: {stats:?}");
    cluster.world.run_for(seconds(5));
    let (found, stats) = cluster.search_all(2, &request_all());
    assert!(found == ids(0..10) && !stats.is_partial(), "{stats:?}");
}

#[test]
fn a_list_of_streams_is_cut_if_a_peer_has_cut_its_own() {
    let mut cluster = QueryCluster::joined(5, 1);
    // With this memory it lists some of its streams.
    cluster.start_with(bucksaw_query::Config { result_bytes_max: 16 << 10, ..bucksaw_query::Config::default() });
    cluster.world.run_for(seconds(10));
    let list = |cluster: &QueryCluster, node: usize| {
        let (streams, stats) = cluster.world.block_on(cluster.nodes[node].answers.streams(request_all(), ())).unwrap();
        assert!(!stats.is_partial() && streams.is_approximate, "{stats:?}");
        (streams.streams.len(), streams.is_cut)
    };
    cluster.put_in("host=h0", &[1], 0, "x");
    assert_eq!(list(&cluster, 0), (1, false));
    (1..500).for_each(|number| cluster.put_in(&format!("host=h{number}"), &[1], number, "x"));
    let (count, is_cut) = list(&cluster, 0);
    assert!((1..500).contains(&count) && is_cut, "{count}");
}

/// Collects ids, and kills a node after the first records.
struct KillingSink {
    ids: Vec<Id>,
    host: Option<Host>,
}

impl RecordSink for KillingSink {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.ids.push(record.id);
        ControlFlow::Continue(())
    }

    async fn flush(&mut self) -> Result<(), SinkClosed> {
        self.host.take().iter().for_each(Host::kill);
        Ok(())
    }
}

#[test]
fn a_node_that_dies_while_it_answers_is_reported_and_its_records_stay() {
    let cluster = QueryCluster::joined(3, 3);
    cluster.fill(0..1_000, 3_000);
    // Only this node has them.
    (1_000..1_100).for_each(|number| cluster.put(&[2], number, "the last"));
    let records = cluster.nodes[0].answers.search(request_all()).unwrap();
    let sink = KillingSink { ids: Vec::new(), host: Some(cluster.nodes[2].node.clone()) };
    let (sink, stats) = cluster.world.block_on(records.write_to(sink)).unwrap();
    let found = sink.ids;
    assert_eq!(found, ids(0..1_000), "the other nodes have replicas of these");
    assert!(stats.is_partial() && stats.nodes.missing.len() == 1, "{stats:?}");
    assert!(cluster.world.run_until(|| !cluster.nodes[0].cluster.members().iter().all(Member::is_live), seconds(20)));
    let (found, stats) = cluster.search_all(0, &request_all());
    assert_eq!((found, stats.nodes.missing[0].reason.label()), (ids(0..1_000), "down"));
}

/// Three nodes that have stored records of ten hours, hour by hour, each on two of them.
fn stored_hours(seed: u64, records_per_hour: u64, bytes: usize) -> (QueryCluster, Vec<Id>) {
    let cluster = QueryCluster::joined(seed, 3);
    let mut all = Vec::new();
    for hour in 0..10 {
        for at in 0..records_per_hour {
            let number = hour * 3_600_000 + at * 3_600_000 / records_per_hour;
            cluster.put(&[at as usize % 3], number, &format!("line {number} {}", "x".repeat(bytes)));
            all.push(id(number));
        }
        cluster.move_to_store();
    }
    // Committed records stay readable in the queues for some time, and answers would have them from there.
    cluster.world.run_for(seconds(60));
    cluster.nodes.iter().for_each(|node| node.engine.queue().tick());
    (cluster, all)
}

/// All records of [`stored_hours`], which no queue can have.
fn request_stored() -> Request {
    Request { to: id(11 * 3_600_000), ..request_all() }
}

#[test]
fn stores_that_hold_the_same_records_search_them_once() {
    let (cluster, all) = stored_hours(6, 240, 300);
    let stored: Vec<u64> = cluster.nodes.iter().map(|node| node.engine.store().status().text_bytes).collect();
    let one_copy = stored.iter().sum::<u64>() / 2;
    for node in 0..3 {
        let (found, stats) = cluster.search_all(node, &request_stored());
        assert!(found == all && !stats.is_partial(), "{stats:?}");
        let (count, counted) = cluster.count(node, &Request { expr: Expr::parse(b"xx").unwrap(), ..request_stored() });
        assert!(count == 2_400 && !counted.is_partial(), "{counted:?}");
        for scanned in [stats.bytes_scanned, counted.bytes_scanned] {
            // Blocks on the border of two periods, and the last interval of each group.
            assert!(scanned < one_copy * 5 / 4, "{scanned} of {one_copy} bytes");
        }
    }
    let newest = Request { order: Order::Descending, limit: Some(7), ..request_stored() };
    let newest_first: Vec<Id> = all.iter().rev().take(7).copied().collect();
    assert_eq!(cluster.search_all(1, &newest).0, newest_first);
}

/// A node asks the stores what they hold once, and again after something has come or gone.
#[test]
fn stores_are_asked_what_they_hold_until_it_changes() {
    for seed in 20..26 {
        let (cluster, mut all) = stored_hours(seed, 60, 300);
        let complete = |all: &[Id]| {
            let (found, stats) = cluster.search_all(0, &request_stored());
            assert!(found == all && !stats.is_partial(), "seed {seed}: {} of {}, {stats:?}", found.len(), all.len());
            let (count, counted) = cluster.count(0, &request_stored());
            assert!(count == all.len() as u64 && !counted.is_partial(), "seed {seed}: {count}, {counted:?}");
            stats.bytes_scanned
        };
        let scanned = complete(&all);
        assert_eq!((complete(&all), cluster.reports()), (scanned, 2), "seed {seed}");
        // Another range of time is another division.
        let earlier = Request { to: id(5 * 3_600_000), ..request_stored() };
        assert_eq!((cluster.search_all(0, &earlier).0.len(), cluster.reports()), (300, 4));
        assert_eq!((complete(&all), cluster.reports()), (scanned, 4), "seed {seed}");
        // Records come to all intervals: to another node and perhaps this one, and then to this one, which sees it before it asks.
        for node in [1, 0] {
            for number in (0..600).map(|at| at * 60_000 + 1 + node) {
                cluster.put(&[node as usize], number, "late");
                all.push(id(number));
            }
            all.sort_unstable();
            cluster.move_to_store();
            cluster.world.run_for(seconds(60));
            cluster.nodes.iter().for_each(|node| node.engine.queue().tick());
            let before = cluster.reports();
            let scanned = [complete(&all), complete(&all), complete(&all)];
            assert!(scanned[0] >= scanned[1] && scanned[1] == scanned[2], "seed {seed}: {scanned:?}");
            assert!(node > 0 || scanned[0] == scanned[1], "seed {seed}: {scanned:?}");
            assert_eq!(cluster.reports() - before, 2, "seed {seed}");
        }
        // What the others rely on is lost.
        cluster.nodes[2].loss_of_all()();
        let before = cluster.reports();
        complete(&all);
        complete(&all);
        assert_eq!(cluster.reports() - before, 2, "seed {seed}");
    }
}

/// A node that is known to be down owns nothing.
#[test]
fn a_division_is_not_used_when_other_nodes_are_live() {
    for seed in 30..34 {
        let (cluster, all) = stored_hours(seed, 60, 300);
        let complete = || {
            let (found, stats) = cluster.search_all(0, &request_stored());
            assert!(found == all && !stats.is_partial(), "seed {seed}: {} of {}, {stats:?}", found.len(), all.len());
        };
        complete();
        let is_known_down = || !cluster.nodes[0].cluster.members().iter().all(Member::is_live);
        cluster.nodes[1 + seed as usize % 2].node.kill();
        assert!(cluster.world.run_until(is_known_down, seconds(20)));
        complete();
        assert_eq!(cluster.reports(), 3, "seed {seed}");
    }
}

/// Counts by bucket while a store dies, whose replacement sends ids of buckets that are counted already.
#[test]
fn a_store_that_dies_in_the_middle_of_a_histogram_is_replaced() {
    let bucketing = Bucketing { buckets: 40, grouping: Grouping::None };
    let mut missing = 0;
    for step in 0..60 {
        let (cluster, all) = stored_hours(10, 60, 300);
        let request = Request { from: all[0], expr: Expr::parse(b"line").unwrap(), ..request_stored() };
        let (tasks, victim) = (cluster.world.tasks(), cluster.nodes[2].node.clone());
        cluster.world.spawn(async move {
            tasks.sleep(Duration::from_micros(200 * step)).await;
            victim.kill();
        });
        let counted = cluster.nodes[0].answers.histogram(request, bucketing.clone(), (), |_, _| {});
        let (histogram, stats) = cluster.world.block_on(counted).unwrap();
        let counts: Vec<u64> = histogram.buckets.iter().map(|bucket| bucket.count).collect();
        assert!(counts.iter().sum::<u64>() == 600 && !stats.is_partial(), "step {step}: {counts:?}, {stats:?}");
        missing += stats.nodes.missing.len();
    }
    assert!(missing > 5, "{missing}");
}

#[test]
fn a_store_that_dies_in_the_middle_is_replaced() {
    let mut replaced = 0;
    for (seed, order) in [(7, Order::Ascending), (8, Order::Descending), (9, Order::Ascending)] {
        let (cluster, mut all) = stored_hours(seed, 150, 3_000);
        let records = cluster.nodes[0].answers.search(Request { order, ..request_stored() }).unwrap();
        let sink = KillingSink { ids: Vec::new(), host: Some(cluster.nodes[2].node.clone()) };
        let (sink, stats) = cluster.world.block_on(records.write_to(sink)).unwrap();
        if order == Order::Descending {
            all.reverse();
        }
        assert!(sink.ids == all && !stats.is_partial(), "{} of {} records, {stats:?}", sink.ids.len(), all.len());
        replaced += stats.nodes.missing.len();
        // A node that is known to be down has no share.
        assert!(
            cluster.world.run_until(|| !cluster.nodes[0].cluster.members().iter().all(Member::is_live), seconds(20))
        );
        all.sort_unstable();
        let (found, stats) = cluster.search_all(1, &request_stored());
        assert!(found == all && !stats.is_partial(), "{stats:?}");
    }
    assert_eq!(replaced, 3, "nodes answered to the end before they died");
}

/// A store loses all that it has at each time after the start of an answer, also between its report of what it holds and its snapshot.
#[test]
fn records_that_a_store_loses_during_an_answer_are_found_on_another_one() {
    for step in 0..160 {
        let (cluster, all) = stored_hours(200, 30, 300);
        if step % 3 == 0 {
            // The division is that of an earlier answer.
            cluster.search_all(0, &request_stored());
        }
        // It searches nearly all for the others.
        let (tasks, lose_all) = (cluster.world.tasks(), cluster.nodes[2].loss_of_all());
        let delay = Duration::from_micros(200 * step);
        cluster.world.spawn(async move {
            tasks.sleep(delay).await;
            lose_all();
        });
        if step % 2 == 0 {
            let (found, stats) = cluster.search_all(0, &request_stored());
            assert!(found == all && !stats.is_partial(), "{delay:?}: {} records, {stats:?}", found.len());
        } else {
            let (count, stats) = cluster.count(0, &request_stored());
            assert!(count == all.len() as u64 && !stats.is_partial(), "{delay:?}: {count} records, {stats:?}");
        }
    }
}

/// The owner of the records finds a damaged block while it searches. Other stores search its share from there on.
#[test]
fn records_of_a_block_that_is_found_damaged_come_from_another_store() {
    for order in [Order::Ascending, Order::Descending] {
        for damaged in 0..10 {
            let (cluster, mut all) = stored_hours(200, 30, 300);
            cluster.nodes[2].damage_block(damaged * 2);
            let (found, stats) = cluster.search_all(0, &Request { order, ..request_stored() });
            if order == Order::Descending {
                all.reverse();
            }
            assert!(found == all && stats.is_partial(), "{damaged}: {} records, {stats:?}", found.len());
            // The damage is known now, and its segment is in no division.
            let (count, stats) = cluster.count(1, &request_stored());
            assert!(count == 300 && stats.is_partial(), "{damaged}: {count}, {stats:?}");
            let (cluster, _) = stored_hours(200, 30, 300);
            cluster.nodes[2].damage_block(damaged * 2);
            let (count, stats) = cluster.count(1, &Request { expr: Expr::parse(b"line").unwrap(), ..request_stored() });
            assert!(count == 300 && stats.is_partial(), "{damaged}: {count}, {stats:?}");
        }
    }
}

/// Nodes are killed, paused and cut off at random times of searches and counts.
#[test]
fn divided_answers_are_complete_or_say_that_they_are_not() {
    let (mut complete, mut partial, mut missing) = (0, 0, 0);
    for seed in 100..160 {
        let (cluster, all) = stored_hours(seed, 40, 300);
        let entropy = bucksaw_env::sim::Entropy::seeded(seed);
        let random = |bound: u64| bucksaw_env::Entropy::next_u64(&entropy) % bound;
        cluster.world.network().set_conditions(NetworkConditions {
            loss: 0.01,
            break_share: 0.05,
            stall_share: 0.05,
            ..NetworkConditions::HEALTHY
        });
        let victim = cluster.nodes[1 + random(2) as usize].node.clone();
        let (delay, fault) = (Duration::from_micros(random(40_000)), random(3));
        let (tasks, sleeper) = (cluster.world.tasks(), cluster.world.tasks());
        tasks.spawn(Box::pin(async move {
            sleeper.sleep(delay).await;
            match fault {
                0 => victim.kill(),
                1 => victim.pause(),
                _ => {}
            }
        }));
        let (found, stats) = cluster.search_all(0, &request_stored());
        let (count, counted) = cluster.count(0, &request_stored());
        assert!(found == all || stats.is_partial(), "seed {seed}: {} records, {stats:?}", found.len());
        assert!(count == 400 || counted.is_partial(), "seed {seed}: {count}, {counted:?}");
        for stats in [stats, counted] {
            *(if stats.is_partial() { &mut partial } else { &mut complete }) += 1;
            missing += usize::from(!stats.nodes.missing.is_empty() && !stats.is_partial());
        }
    }
    assert!(complete > partial && missing > 10, "{complete} complete, {partial} partial, {missing} without a node");
}

#[test]
fn unreachable_and_paused_nodes_delay_an_answer_for_a_bounded_time() {
    let cluster = QueryCluster::joined(4, 4);
    cluster.fill(0..100, 50);
    cluster.nodes[3].node.pause();
    let started = cluster.world.now();
    let (found, stats) = cluster.search_all(0, &request_all());
    assert_eq!(found, ids(0..100));
    assert!(stats.is_partial() && stats.nodes.answered == 3, "{stats:?}");
    assert!(cluster.world.now() - started <= seconds(11));
    cluster.nodes[3].node.resume();
    cluster.world.run_for(seconds(20));
    let both = [&cluster.nodes[0].node, &cluster.nodes[1].node].map(Clone::clone);
    let others = [&cluster.nodes[2].node, &cluster.nodes[3].node].map(Clone::clone);
    cluster.world.network().partition(&both.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>());
    let started = cluster.world.now();
    let (found, stats) = cluster.search_all(0, &request_all());
    assert!(!found.is_empty() && stats.is_partial() && stats.nodes.answered == 2, "{stats:?}");
    assert!(cluster.world.now() - started <= seconds(11));
    cluster.world.network().heal_all();
    cluster.world.run_for(seconds(30));
    let (found, stats) = cluster.search_all(0, &request_all());
    assert!(found == ids(0..100) && !stats.is_partial(), "{stats:?}");
}

#[test]
fn message_loss_delays_answers_without_errors() {
    for seed in 10..16 {
        let cluster = QueryCluster::joined(seed, 3);
        cluster.fill(0..300, 1_000);
        cluster.world.network().set_conditions(NetworkConditions {
            loss: 0.05,
            break_share: 0.1,
            stall_share: 0.1,
            ..NetworkConditions::HEALTHY
        });
        let (found, stats) = cluster.search_all(1, &request_all());
        let (count, counted) = cluster.count(2, &request_all());
        // Missing records are reported.
        assert!(found == ids(0..300) || stats.is_partial(), "seed {seed}: {stats:?}");
        assert!(count == 300 || counted.is_partial(), "seed {seed}: {counted:?}");
    }
}

#[test]
fn a_tail_shows_records_of_all_nodes() {
    let cluster = QueryCluster::joined(5, 3);
    let mut tail = cluster.nodes[0].answers.tail(&Expr::All, None).unwrap();
    let mut next = |cluster: &QueryCluster| {
        let tasks = cluster.world.tasks();
        cluster.world.block_on(async { bucksaw_env::with_timeout(&tasks, seconds(8), tail.next()).await.flatten() })
    };
    assert!(next(&cluster).is_none());
    cluster.put(&[1, 2], 1, "seen once");
    let Some(TailEvent::Records(mut records)) = next(&cluster) else { panic!("no records") };
    assert_eq!(records.visit_next(|record| record.id), Some(id(1)));
    assert_eq!(records.visit_next(|record| record.id), None);
    assert!(next(&cluster).is_none());
    cluster.nodes[2].node.kill();
    let Some(TailEvent::Lost { .. }) = next(&cluster) else { panic!("the loss was not reported") };
    assert!(next(&cluster).is_none());
}
