//! Complete answers, and partial ones under faults.

use std::ops::ControlFlow;

use bucksaw_cluster::Member;
use bucksaw_env::sim::{Host, NetworkConditions};
use bucksaw_query::{Order, RecordRef, RecordSink, Request, SinkClosed, TailEvent};
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
    assert!(!cluster.search_all(0, &request_all()).1.is_partial(), "the first node joins no other");
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
