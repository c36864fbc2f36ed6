//! Whole answers, and what is said of those that are not.

use bucksaw_cluster::Member;
use bucksaw_env::sim::NetworkConditions;
use bucksaw_query::{BatchSlice, TailEvent};
use bucksaw_record::{Expr, Id};

use crate::test_cluster::{TestCluster, id, request_all, seconds};

fn ids(numbers: std::ops::Range<u64>) -> Vec<Id> {
    numbers.map(id).collect()
}

#[test]
fn whichever_node_is_asked_the_answer_is_whole_and_comes_again_with_the_seed() {
    let run = |seed| {
        let town = TestCluster::joined(seed, 3);
        town.fill(0..300, 100);
        for node in 0..3 {
            let (found, stats) = town.search_all(node, &request_all());
            assert!(found == ids(0..300) && !stats.is_partial(), "{stats:?}");
            assert_eq!((stats.nodes.asked, stats.nodes.answered), (3, 3));
            let (count, stats) = town.count(node, &request_all());
            assert_eq!((count, stats.is_partial()), (300, false));
        }
        town.world.fingerprint()
    };
    assert_eq!((run(1), run(2)), (run(1), run(2)));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_node_that_has_heard_of_nobody_yet_says_that_records_may_be_missing() {
    let mut town = TestCluster::joined(4, 2);
    town.fill(0..10, 100);
    town.start();
    let (found, stats) = town.search_all(2, &request_all());
    assert!(found.is_empty() && stats.is_partial(), "{stats:?}");
    assert_eq!(stats.partial_reasons(), ["the queried node does not know all nodes of the cluster yet"]);
    assert!(!town.nodes[2].scatter.is_single_node());
    assert!(!town.search_all(0, &request_all()).1.is_partial(), "the first has nobody to join");
    town.world.run_for(seconds(5));
    let (found, stats) = town.search_all(2, &request_all());
    assert!(found == ids(0..10) && !stats.is_partial(), "{stats:?}");
}

#[test]
fn a_node_that_dies_in_the_middle_is_told_of_and_what_it_gave_stays() {
    let town = TestCluster::joined(3, 3);
    town.fill(0..1_000, 3_000);
    // Only this one has them.
    (1_000..1_100).for_each(|number| town.put(&[2], number, "the last"));
    let mut answer = town.nodes[0].scatter.search(&request_all()).unwrap();
    let mut found: Vec<Id> = Vec::new();
    let mut collect =
        |records: &[BatchSlice]| found.extend(records.iter().flat_map(BatchSlice::records).map(|record| record.id));
    let first = town.world.block_on(answer.next());
    assert!(!first.is_empty());
    collect(&first);
    town.nodes[2].node.kill();
    let stats = town.world.block_on(async {
        loop {
            let records = answer.next().await;
            if records.is_empty() {
                return answer.stats();
            }
            collect(&records);
        }
    });
    assert_eq!(found, ids(0..1_000), "the others have copies of these");
    assert!(stats.is_partial() && stats.nodes.missing.len() == 1, "{stats:?}");
    assert!(town.world.run_until(|| !town.nodes[0].cluster.members().iter().all(Member::is_live), seconds(20)));
    let (found, stats) = town.search_all(0, &request_all());
    assert_eq!((found, stats.nodes.missing[0].reason.label()), (ids(0..1_000), "down"));
}

#[test]
fn nodes_that_cannot_be_reached_or_are_paused_hold_up_an_answer_for_a_bounded_time() {
    let town = TestCluster::joined(4, 4);
    town.fill(0..100, 50);
    town.nodes[3].node.pause();
    let begun = town.world.now();
    let (found, stats) = town.search_all(0, &request_all());
    assert_eq!(found, ids(0..100));
    assert!(stats.is_partial() && stats.nodes.answered == 3, "{stats:?}");
    assert!(town.world.now() - begun <= seconds(11));
    town.nodes[3].node.resume();
    town.world.run_for(seconds(20));
    let both = [&town.nodes[0].node, &town.nodes[1].node].map(Clone::clone);
    let others = [&town.nodes[2].node, &town.nodes[3].node].map(Clone::clone);
    town.world.network().partition(&both.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>());
    let begun = town.world.now();
    let (found, stats) = town.search_all(0, &request_all());
    assert!(!found.is_empty() && stats.is_partial() && stats.nodes.answered == 2, "{stats:?}");
    assert!(town.world.now() - begun <= seconds(11));
    town.world.network().heal_all();
    town.world.run_for(seconds(30));
    let (found, stats) = town.search_all(0, &request_all());
    assert!(found == ids(0..100) && !stats.is_partial(), "{stats:?}");
}

#[test]
fn message_loss_delays_answers_without_errors() {
    for seed in 10..16 {
        let town = TestCluster::joined(seed, 3);
        town.fill(0..300, 1_000);
        town.world.network().set_conditions(NetworkConditions {
            loss: 0.05,
            break_share: 0.1,
            stall_share: 0.1,
            ..NetworkConditions::HEALTHY
        });
        let (found, stats) = town.search_all(1, &request_all());
        let (count, counted) = town.count(2, &request_all());
        // Whatever is missing is told of.
        assert!(found == ids(0..300) || stats.is_partial(), "seed {seed}: {stats:?}");
        assert!(count == 300 || counted.is_partial(), "seed {seed}: {counted:?}");
    }
}

#[test]
fn followers_see_all_nodes() {
    let town = TestCluster::joined(5, 3);
    let mut tail = town.nodes[0].answers.tail(&Expr::All).unwrap();
    let mut next = |town: &TestCluster| {
        let tasks = town.world.tasks();
        town.world.block_on(async { bucksaw_env::with_timeout(&tasks, seconds(8), tail.next()).await.flatten() })
    };
    assert!(next(&town).is_none());
    town.put(&[1, 2], 1, "seen once");
    let Some(TailEvent::Records(mut records)) = next(&town) else { panic!("no records") };
    assert_eq!(records.visit_next(|record| record.id), Some(id(1)));
    assert_eq!(records.visit_next(|record| record.id), None);
    assert!(next(&town).is_none());
    town.nodes[2].node.kill();
    let Some(TailEvent::Lost { .. }) = next(&town) else { panic!("the loss was not reported") };
    assert!(next(&town).is_none());
}
