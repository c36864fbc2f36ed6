//! Nodes come, go, and come back.

use std::path::Path;
use std::time::Duration;

use bucksaw_cluster::{ForgetError, JoinState, MemberState};
use bucksaw_env::Fs as _;
use bucksaw_env::sim::PowerCutLoss;
use tokio::sync::oneshot;

use crate::test_cluster::{TestCluster, id, seconds};

#[test]
fn nodes_find_each_other_in_whatever_order_they_start() {
    for seed in 0..6 {
        let mut town = TestCluster::new(seed, 5);
        // The one that all others are told to join starts first, in the middle, or last.
        let order: Vec<usize> = (0..5).map(|at| (at + seed as usize) % 5).collect();
        for number in order {
            town.start(number);
            town.world.run_for(seconds(seed));
        }
        assert!(town.run_until(5, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
    }
}

#[test]
fn nodes_that_start_again_find_each_other_without_being_told_whom_to_join() {
    let mut town = TestCluster::settled(1, 4);
    let before = town.member(1, 3).unwrap().facts.incarnation;
    for number in 0..4 {
        town.kill(number);
        town.nodes[number].join.clear();
    }
    // One stays away, and those that come back know of it.
    for number in 1..4 {
        town.start(number);
    }
    assert!(town.run_until(3, TestCluster::all_alive), "{}", town.describe_views());
    assert!(town.member(1, 3).unwrap().facts.incarnation > before);
    assert!(town.run_until(5, |town| town.all_see(0, Some(MemberState::Down))), "{}", town.describe_views());
}

#[test]
fn a_node_that_starts_again_takes_the_place_of_its_old_self_at_once() {
    for seed in 0..4 {
        let mut town = TestCluster::settled(seed, 4);
        town.kill(2);
        // No node has noticed.
        town.start(2);
        let incarnation = town.cluster(2).facts().incarnation;
        let is_back = |town: &TestCluster| {
            [0, 1, 3].iter().all(|number| {
                let member = town.member(*number, 2).unwrap();
                assert_ne!(member.state, MemberState::Down, "seed {seed}");
                member.state == MemberState::Alive && member.facts.incarnation == incarnation
            })
        };
        assert!(town.run_until(2, is_back), "seed {seed}: {}", town.describe_views());
    }
}

#[test]
fn a_node_whose_clock_was_set_back_still_takes_the_place_of_its_old_self() {
    for memory in [true, false] {
        let mut town = TestCluster::settled(5, 4);
        town.kill(2);
        town.nodes[2].node.jump_clock(-3_600_000);
        if !memory {
            town.nodes[2].node.fs().remove(Path::new("/data/members.json")).unwrap();
        }
        town.start(2);
        let is_back = |town: &TestCluster| {
            let incarnation = town.cluster(2).facts().incarnation;
            let knows = |number| town.member(number, 2).is_some_and(|member| member.facts.incarnation == incarnation);
            town.all_alive() && [0, 1, 3].into_iter().all(knows)
        };
        assert!(town.run_until(5, is_back), "memory {memory}: {}", town.describe_views());
        town.world.run_for(seconds(30));
        assert!(town.all_alive(), "{}", town.describe_views());
    }
}

#[test]
fn another_node_may_take_over_the_address_of_a_dead_one_also_when_its_clock_is_behind() {
    for seed in 0..3 {
        let mut town = TestCluster::settled(seed, 4);
        town.kill(3);
        assert!(
            town.run_until(10, |town| town.all_see(3, Some(MemberState::Down))),
            "seed {seed}: {}",
            town.describe_views()
        );
        let dead = std::mem::replace(&mut town.nodes[3].id, id(9));
        let node = &town.nodes[3].node;
        node.jump_clock(-3_600_000);
        node.fs().remove(Path::new("/data/members.json")).unwrap();
        town.start(3);
        assert!(town.run_until(5, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(30));
        assert!(town.all_alive(), "seed {seed}: {}", town.describe_views());
        let remembers = |number| {
            let members = town.cluster(number).members();
            members.iter().any(|member| member.facts.node == dead && member.state == MemberState::Down)
        };
        assert!((0..4).all(remembers), "seed {seed}");
    }
}

#[test]
fn a_node_may_move() {
    let mut town = TestCluster::settled(2, 4);
    town.kill(3);
    town.add(id(3));
    town.start(4);
    let address = town.nodes[4].node.address();
    let moved = |town: &TestCluster| {
        (0..3).all(|number| {
            let member = town.member(number, 4).unwrap();
            member.facts.address == address && member.state == MemberState::Alive
        })
    };
    assert!(town.run_until(3, moved), "{}", town.describe_views());
    for _ in 0..60 {
        town.world.run_for(seconds(1));
        assert!(moved(&town), "{}", town.describe_views());
        assert!((0..3).all(|number| town.member(number, 4).unwrap().duplicate_at.is_none()));
    }
}

#[test]
fn a_copied_data_directory_is_reported_by_all() {
    let mut town = TestCluster::settled(3, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let told = |town: &TestCluster| {
        town.live_nodes().all(|number| {
            town.metric(number, "cluster_duplicate_ids") == 1 && town.member(number, 2).unwrap().duplicate_at.is_some()
        })
    };
    // The others know from the first moment.
    assert!(
        (0..2).all(|number| town.member(number, 2).unwrap().duplicate_suspected_at.is_some()),
        "{}",
        town.describe_views()
    );
    assert!(town.run_until(20, told), "{}", town.describe_views());
    // They do not fight: neither of them begins again and again.
    let incarnations = [2, 3].map(|number| town.cluster(number).facts().incarnation);
    let sent = town.metric(0, "cluster_packets_sent_total");
    town.world.run_for(seconds(60));
    assert_eq!([2, 3].map(|number| town.cluster(number).facts().incarnation), incarnations);
    assert!(town.metric(0, "cluster_packets_sent_total") - sent < 60 * 30);
    assert!(told(&town));
    // Whichever is stopped, the other is the node.
    for (stopped, left) in [(3, 2), (2, 3)] {
        town.kill(stopped);
        let address = town.nodes[left].node.address();
        let is_one = |town: &TestCluster| {
            [0, 1].iter().all(|number| {
                let member = town.member(*number, left).unwrap();
                (member.state, member.facts.address, member.duplicate_at) == (MemberState::Alive, address, None)
            })
        };
        assert!(town.run_until(30, is_one), "{stopped} stopped: {}", town.describe_views());
        start_twin(&mut town, stopped);
        assert!(town.run_until(30, told), "{}", town.describe_views());
    }
}

/// Starts one of the nodes 2 and 3, which cannot reach each other until it has its place.
fn start_twin(town: &mut TestCluster, number: usize) {
    town.world.network().partition(&town.nodes(&[2]), &town.nodes(&[3]));
    town.start(number);
    let placed = |town: &TestCluster| town.cluster(number).join_state() == JoinState::Joined;
    assert!(town.run_until(8, placed), "{}", town.describe_views());
    town.world.network().heal_all();
}

#[test]
fn a_copied_data_directory_is_refused_and_leaves_no_trace() {
    for seed in 0..4 {
        let mut town = TestCluster::settled(seed, 3);
        town.add(id(2));
        // Also one that knows no other node but its twin.
        town.nodes[3].join = vec![format!("n{}:7659", seed % 3)];
        town.start(3);
        let address = town.nodes[2].node.address();
        let refused = |town: &TestCluster| town.cluster(3).join_state() == JoinState::Refused(address);
        for _ in 0..100 {
            town.world.run_for(Duration::from_millis(50));
            for number in 0..3 {
                let member = town.member(number, 2).unwrap();
                assert_eq!(
                    (member.state, member.facts.address, member.duplicate_suspected_at),
                    (MemberState::Alive, address, None)
                );
            }
        }
        assert!(refused(&town), "seed {seed}: {:?}", town.cluster(3).join_state());
        // When the other is gone it is the node, whether or not the others know that yet.
        town.kill(2);
        town.kill(3);
        town.nodes[3].join = vec!["n0:7659".to_owned()];
        town.start(3);
        assert!(town.run_until(5, |town| town.cluster(3).join_state() == JoinState::Joined), "seed {seed}");
        assert!(town.run_until(10, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
    }
}

#[test]
fn a_node_joins_in_bounded_time() {
    let mut town = TestCluster::settled(11, 3);
    // The others do not answer: one is down, one stands still.
    town.kill(0);
    town.kill(1);
    town.nodes[2].node.kill();
    town.start(2);
    assert!(town.run_until(1, |town| town.cluster(2).join_state() == JoinState::Joined), "no process listens there");
    town.start(1);
    assert!(town.run_until(2, |town| town.cluster(1).join_state() == JoinState::Joined), "one is enough");
    town.kill(2);
    town.world.network().partition(&town.nodes(&[2]), &town.nodes(&[0, 1]));
    town.start(2);
    assert_eq!(town.cluster(2).join_state(), JoinState::Probing);
    assert!(town.run_until(8, |town| town.cluster(2).join_state() == JoinState::Joined), "no node can be reached");
}

#[test]
fn an_earlier_process_is_known_when_the_later_one_says_leave() {
    let mut town = TestCluster::settled(12, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let is_told = |town: &TestCluster, number: usize| town.member(number, 2).unwrap().duplicate_suspected_at.is_some();
    assert!((0..2).all(|number| is_told(&town, number)), "{}", town.describe_views());
    let leaving = town.cluster(3).clone();
    town.world.block_on_host(&town.nodes[3].node, async move { leaving.leave().await }).unwrap();
    town.kill(3);
    for _ in 0..400 {
        town.world.run_for(Duration::from_millis(50));
        for number in 0..2 {
            let member = town.member(number, 2).unwrap();
            let is_whole = member.is_live() && member.facts.address == town.nodes[2].node.address();
            assert!(is_whole || is_told(&town, number), "{member:?}");
        }
    }
    assert!(town.run_until(1, |town| (0..2).all(|number| !is_told(town, number))), "{}", town.describe_views());
}

#[test]
fn both_of_two_with_one_id_know_it_of_themselves() {
    let mut town = TestCluster::settled(13, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let other = |number: usize| town.nodes[5 - number].node.address();
    let is_told = |town: &TestCluster| {
        [2, 3].iter().all(|number| town.member(*number, 2).unwrap().duplicate_suspected_at == Some(other(*number)))
    };
    assert!(town.run_until(5, is_told), "{:?}", [2, 3].map(|number| town.member(number, 2)));
}

#[test]
fn a_node_that_moved_counts_as_two_for_no_longer_than_a_probe_takes() {
    for seed in 0..4 {
        let mut town = TestCluster::settled(seed, 4);
        town.kill(3);
        town.add(id(3));
        town.start(4);
        assert!(town.run_until(5, |town| town.cluster(4).join_state() == JoinState::Joined), "seed {seed}");
        let is_one = |town: &TestCluster| {
            town.live_nodes().all(|number| {
                let member = town.member(number, 4).unwrap();
                member.facts.address == town.nodes[4].node.address() && member.duplicate_suspected_at.is_none()
            })
        };
        assert!(town.run_until(1, is_one), "seed {seed}: {:?}", town.member(0, 4));
    }
}

#[test]
fn a_node_that_leaves_is_never_down() {
    for seed in 0..4 {
        let mut town = TestCluster::settled(seed, 5);
        let leaving = town.cluster(2).clone();
        town.world.block_on_host(&town.nodes[2].node, async move { leaving.leave().await }).unwrap();
        town.kill(2);
        assert!(
            town.run_until(1, |town| town.all_see(2, Some(MemberState::Left))),
            "seed {seed}: {}",
            town.describe_views()
        );
        town.world.run_for(seconds(60));
        assert!(town.all_see(2, Some(MemberState::Left)), "seed {seed}: {}", town.describe_views());
        town.start(2);
        assert!(town.run_until(5, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
    }
}

#[test]
fn a_leave_is_retried_until_delivered() {
    let mut town = TestCluster::settled(5, 2);
    let (one, other) = (town.nodes[0].node.clone(), town.nodes[1].node.clone());
    let (leaving, (tell, told)) = (town.cluster(1).clone(), oneshot::channel());
    town.world.network().partition(&[&one], &[&other]);
    other.spawn(async move { tell.send(leaving.leave().await).unwrap() });
    town.world.run_for(seconds(3));
    town.world.network().heal_all();
    assert!(town.world.block_on(told).unwrap());
    town.kill(1);
    town.world.run_for(seconds(60));
    assert_eq!(town.state(0, 1), Some(MemberState::Left));
}

#[test]
fn a_delivered_leave_survives_its_receiver() {
    for seed in 0..4 {
        let mut town = TestCluster::settled(seed, 2);
        // The list was written a moment ago, and is not again for a while.
        town.cluster(0).update_facts(|facts| facts.queue.bytes = 5);
        town.world.run_for(seconds(1));
        let leaving = town.cluster(1).clone();
        assert_eq!(town.world.block_on_host(&town.nodes[1].node, async move { leaving.leave().await }), Some(true));
        town.nodes[0].node.cut_power(PowerCutLoss::All);
        town.kill(1);
        town.start(0);
        town.world.run_for(seconds(10));
        assert_eq!(town.state(0, 1), Some(MemberState::Left), "seed {seed}");
    }
}

#[test]
fn an_undelivered_leave_is_reported() {
    // Also when the other has seemed to be gone for long.
    for cut_off in [0, 30] {
        let town = TestCluster::settled(5, 2);
        let (one, other) = (&town.nodes[0].node, &town.nodes[1].node);
        town.world.network().partition(&[one], &[other]);
        town.world.run_for(seconds(cut_off));
        let (leaving, begun) = (town.cluster(1).clone(), town.world.now());
        assert_eq!(town.world.block_on_host(other, async move { leaving.leave().await }), Some(false));
        assert!(town.world.now() - begun < seconds(7));
    }
    let town = TestCluster::settled(5, 1);
    let leaving = town.cluster(0).clone();
    assert_eq!(town.world.block_on_host(&town.nodes[0].node, async move { leaving.leave().await }), Some(true));
}

#[test]
fn simultaneous_leaves_are_delivered() {
    for seed in 0..4 {
        let town = TestCluster::settled(seed, 3);
        let told: Vec<_> = town
            .nodes
            .iter()
            .map(|inhabitant| {
                let (leaving, (tell, told)) = (inhabitant.cluster.clone().unwrap(), oneshot::channel());
                inhabitant.node.spawn(async move { tell.send(leaving.leave().await).unwrap() });
                told
            })
            .collect();
        let begun = town.world.now();
        for told in told {
            assert!(town.world.block_on(told).unwrap(), "seed {seed}");
        }
        assert!(town.world.now() - begun < seconds(1));
    }
}

#[test]
fn the_forgotten_are_forgotten_everywhere_also_by_who_was_away() {
    let mut town = TestCluster::settled(4, 5);
    let forget = |town: &TestCluster, other: usize| {
        let (cluster, id) = (town.cluster(0).clone(), town.nodes[other].id);
        town.world.block_on_host(&town.nodes[0].node, async move { cluster.forget(id).await }).unwrap()
    };
    assert_eq!(forget(&town, 2), Err(ForgetError::Live));
    town.kill(2);
    assert!(town.run_until(10, |town| town.all_see(2, Some(MemberState::Down))), "{}", town.describe_views());
    town.kill(4);
    assert!(town.run_until(10, |town| town.all_see(4, Some(MemberState::Down))), "{}", town.describe_views());
    assert_eq!(forget(&town, 2), Ok(()));
    assert!(town.run_until(1, |town| town.all_see(2, None)), "{}", town.describe_views());
    // This one remembers it as down.
    town.start(4);
    assert!(town.run_until(5, TestCluster::all_alive), "{}", town.describe_views());
    assert!(town.run_until(5, |town| town.all_see(2, None)), "{}", town.describe_views());
    town.world.run_for(seconds(60));
    assert!(town.all_see(2, None), "{}", town.describe_views());
    town.start(2);
    assert!(town.run_until(5, TestCluster::all_alive), "{}", town.describe_views());
}

#[test]
fn who_is_down_is_remembered_for_a_while_and_then_no_more_by_anyone() {
    let mut town = TestCluster::new(6, 4);
    for number in 0..4 {
        town.start_with(number, |config| config.remember_for = seconds(100));
    }
    assert!(town.run_until(10, TestCluster::all_alive));
    town.world.run_for(seconds(5));
    town.kill(1);
    town.world.run_for(seconds(90));
    assert!(town.all_see(1, Some(MemberState::Down)), "{}", town.describe_views());
    town.world.run_for(seconds(20));
    assert!(town.all_see(1, None), "{}", town.describe_views());
    town.world.run_for(seconds(60));
    assert!(town.all_see(1, None), "{}", town.describe_views());
}

#[test]
fn clocks_that_jump_change_nothing() {
    let mut town = TestCluster::settled(7, 5);
    town.kill(4);
    assert!(town.run_until(5, |town| town.all_see(4, Some(MemberState::Down))), "{}", town.describe_views());
    town.nodes[1].node.jump_clock(30 * 24 * 3_600_000);
    town.nodes[2].node.jump_clock(-30 * 24 * 3_600_000);
    for step in 0..220 {
        town.world.run_for(std::time::Duration::from_millis(if step < 200 { 5 } else { 1_000 }));
        assert!(town.all_alive() && town.all_see(4, Some(MemberState::Down)), "{}", town.describe_views());
    }
    town.start(4);
    assert!(town.run_until(3, TestCluster::all_alive), "{}", town.describe_views());
}

#[test]
fn a_name_that_stands_for_several_is_tried_through() {
    let mut town = TestCluster::new(8, 4);
    town.world.network().register_host_name("all", &town.nodes(&[0, 1, 2, 3]));
    for number in [2, 3] {
        town.nodes[number].join = vec!["nowhere:7659".to_owned(), "all:7659".to_owned()];
        town.start(number);
    }
    assert!(town.run_until(20, TestCluster::all_alive), "{}", town.describe_views());
}

#[test]
fn a_damaged_list_does_not_keep_a_node_from_starting() {
    let mut town = TestCluster::settled(9, 3);
    town.kill(1);
    let fs = town.nodes[1].node.fs();
    fs.remove(Path::new("/data/members.json")).unwrap();
    fs.remove(Path::new("/data/members.backup")).unwrap();
    fs.create(Path::new("/data/members.json")).unwrap().append(&[b"{\"format\": 1, \"memb"]).unwrap();
    town.start(1);
    assert!(town.run_until(5, TestCluster::all_alive), "{}", town.describe_views());
    assert!(town.nodes[1].node.fs().live_bytes("/data/members.json.damaged").is_some());
}

#[test]
fn thirty_nodes_that_start_together_know_each_other_within_five_seconds() {
    let mut town = TestCluster::new(10, 30);
    (0..30).for_each(|number| town.start(number));
    assert!(town.run_until(5, TestCluster::all_alive), "{}", town.describe_views());
    // No storm: when all is known, little is said.
    town.world.run_for(seconds(20));
    let sent = |town: &TestCluster| {
        town.live_nodes().map(|number| town.metric(number, "cluster_packets_sent_total")).sum::<u64>()
    };
    let before = sent(&town);
    town.world.run_for(seconds(10));
    assert!(sent(&town) - before < 30 * 10 * 20, "{} datagrams", sent(&town) - before);
    let failed: u64 = town.live_nodes().map(|number| town.metric(number, "cluster_exchanges_failed_total")).sum();
    assert!(failed < 60, "{failed} comparisons failed");
}

/// Nodes of which each is to join all.
fn all_join_all(seed: u64, count: usize) -> TestCluster {
    let mut town = TestCluster::new(seed, count);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}:7659")).collect();
    town.nodes.iter_mut().for_each(|node| node.join.clone_from(&names));
    town
}

#[test]
fn new_nodes_bootstrap_until_seeds_are_reached() {
    for seed in 0..4 {
        let mut town = all_join_all(seed, 3);
        [1, 2].into_iter().for_each(|number| town.start(number));
        assert!(town.run_until(10, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(60));
        assert!([1, 2].into_iter().all(|number| town.cluster(number).is_bootstrapping()), "seed {seed}");
        // It is so after a restart, too, when their lists have each other.
        for number in [1, 2] {
            town.kill(number);
            town.start(number);
            town.world.run_for(seconds(10));
            assert!(town.cluster(number).is_bootstrapping(), "seed {seed}");
        }
        town.start(0);
        let is_over = |town: &TestCluster| town.live_nodes().all(|number| !town.cluster(number).is_bootstrapping());
        assert!(town.run_until(10, is_over), "seed {seed}");
        assert!(town.all_alive(), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(1));
        town.kill(0);
        town.kill(1);
        town.start(1);
        assert!(!town.cluster(1).is_bootstrapping(), "seed {seed}: it is kept");
    }
}

#[test]
fn a_name_that_leads_nowhere_for_ever_keeps_no_node_of_a_cluster_waiting() {
    let mut town = all_join_all(5, 3);
    (0..3).for_each(|number| town.start(number));
    let is_over = |town: &TestCluster| town.live_nodes().all(|number| !town.cluster(number).is_bootstrapping());
    assert!(town.run_until(10, |town| town.all_alive() && is_over(town)), "{}", town.describe_views());
    town.kill(0);
    // The disk of another one is replaced.
    town.kill(1);
    town.nodes[1].id = id(9);
    town.nodes[1].node.set_disk(bucksaw_env::sim::Fs::new());
    town.start(1);
    assert!(town.cluster(1).is_bootstrapping());
    assert!(town.run_until(10, is_over));
    let dead = id(0);
    assert!(
        town.cluster(1).members().iter().any(|member| member.facts.node == dead),
        "it has heard of all others by then"
    );
}
