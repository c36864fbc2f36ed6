//! Joining, leaving and returning.

use std::path::Path;
use std::time::Duration;

use bucksaw_cluster::{ForgetError, JoinState, MemberState};
use bucksaw_env::Fs as _;
use bucksaw_env::sim::PowerCutLoss;
use tokio::sync::oneshot;

use crate::test_cluster::{GossipCluster, id, seconds};

#[test]
fn nodes_find_each_other_in_any_order_of_starts() {
    for seed in 0..6 {
        let mut cluster = GossipCluster::new(seed, 5);
        // The seed of all nodes starts first, in the middle, or last.
        let order: Vec<usize> = (0..5).map(|at| (at + seed as usize) % 5).collect();
        for number in order {
            cluster.start(number);
            cluster.world.run_for(seconds(seed));
        }
        assert!(cluster.run_until(5, GossipCluster::all_alive), "seed {seed}: {}", cluster.describe_views());
    }
}

#[test]
fn restarted_nodes_find_each_other_without_seeds() {
    let mut cluster = GossipCluster::settled(1, 4);
    let before = cluster.member(1, 3).unwrap().facts.incarnation;
    for number in 0..4 {
        cluster.kill(number);
        cluster.nodes[number].join.clear();
    }
    // One stays down, and the restarted ones know it.
    for number in 1..4 {
        cluster.start(number);
    }
    assert!(cluster.run_until(3, GossipCluster::all_alive), "{}", cluster.describe_views());
    assert!(cluster.member(1, 3).unwrap().facts.incarnation > before);
    assert!(
        cluster.run_until(5, |cluster| cluster.all_see(0, Some(MemberState::Down))),
        "{}",
        cluster.describe_views()
    );
}

#[test]
fn a_restarted_node_replaces_its_former_process_at_once() {
    for seed in 0..4 {
        let mut cluster = GossipCluster::settled(seed, 4);
        cluster.kill(2);
        // No node has detected it.
        cluster.start(2);
        let incarnation = cluster.cluster(2).facts().incarnation;
        let is_back = |cluster: &GossipCluster| {
            [0, 1, 3].iter().all(|number| {
                let member = cluster.member(*number, 2).unwrap();
                assert_ne!(member.state, MemberState::Down, "seed {seed}");
                member.state == MemberState::Alive && member.facts.incarnation == incarnation
            })
        };
        assert!(cluster.run_until(2, is_back), "seed {seed}: {}", cluster.describe_views());
    }
}

#[test]
fn a_node_with_a_clock_set_back_replaces_its_former_process() {
    for memory in [true, false] {
        let mut cluster = GossipCluster::settled(5, 4);
        cluster.kill(2);
        cluster.nodes[2].node.jump_clock(-3_600_000);
        if !memory {
            cluster.nodes[2].node.fs().remove(Path::new("/data/members.json")).unwrap();
        }
        cluster.start(2);
        let is_back = |cluster: &GossipCluster| {
            let incarnation = cluster.cluster(2).facts().incarnation;
            let knows =
                |number| cluster.member(number, 2).is_some_and(|member| member.facts.incarnation == incarnation);
            cluster.all_alive() && [0, 1, 3].into_iter().all(knows)
        };
        assert!(cluster.run_until(5, is_back), "memory {memory}: {}", cluster.describe_views());
        cluster.world.run_for(seconds(30));
        assert!(cluster.all_alive(), "{}", cluster.describe_views());
    }
}

#[test]
fn a_node_with_a_slow_clock_can_use_the_address_of_a_dead_one() {
    for seed in 0..3 {
        let mut cluster = GossipCluster::settled(seed, 4);
        cluster.kill(3);
        assert!(
            cluster.run_until(10, |cluster| cluster.all_see(3, Some(MemberState::Down))),
            "seed {seed}: {}",
            cluster.describe_views()
        );
        let dead = std::mem::replace(&mut cluster.nodes[3].id, id(9));
        let node = &cluster.nodes[3].node;
        node.jump_clock(-3_600_000);
        node.fs().remove(Path::new("/data/members.json")).unwrap();
        cluster.start(3);
        assert!(cluster.run_until(5, GossipCluster::all_alive), "seed {seed}: {}", cluster.describe_views());
        cluster.world.run_for(seconds(30));
        assert!(cluster.all_alive(), "seed {seed}: {}", cluster.describe_views());
        let remembers = |number| {
            let members = cluster.cluster(number).members();
            members.iter().any(|member| member.facts.node == dead && member.state == MemberState::Down)
        };
        assert!((0..4).all(remembers), "seed {seed}");
    }
}

#[test]
fn a_node_can_move_to_another_address() {
    let mut cluster = GossipCluster::settled(2, 4);
    cluster.kill(3);
    cluster.add(id(3));
    cluster.start(4);
    let address = cluster.nodes[4].node.address();
    let moved = |cluster: &GossipCluster| {
        (0..3).all(|number| {
            let member = cluster.member(number, 4).unwrap();
            member.facts.address == address && member.state == MemberState::Alive
        })
    };
    assert!(cluster.run_until(3, moved), "{}", cluster.describe_views());
    for _ in 0..60 {
        cluster.world.run_for(seconds(1));
        assert!(moved(&cluster), "{}", cluster.describe_views());
        assert!((0..3).all(|number| cluster.member(number, 4).unwrap().duplicate_at.is_none()));
    }
}

#[test]
fn a_copied_data_directory_is_reported_by_all() {
    let mut cluster = GossipCluster::settled(3, 3);
    cluster.add(id(2));
    start_copy(&mut cluster, 3);
    let is_reported = |cluster: &GossipCluster| {
        cluster.live_nodes().all(|number| {
            cluster.metric(number, "cluster_duplicate_ids") == 1
                && cluster.member(number, 2).unwrap().duplicate_at.is_some()
        })
    };
    // The others detect it at once.
    assert!(
        (0..2).all(|number| cluster.member(number, 2).unwrap().duplicate_suspected_at.is_some()),
        "{}",
        cluster.describe_views()
    );
    assert!(cluster.run_until(20, is_reported), "{}", cluster.describe_views());
    // Neither process raises its incarnation repeatedly.
    let incarnations = [2, 3].map(|number| cluster.cluster(number).facts().incarnation);
    let sent = cluster.metric(0, "cluster_packets_sent_total");
    cluster.world.run_for(seconds(60));
    assert_eq!([2, 3].map(|number| cluster.cluster(number).facts().incarnation), incarnations);
    assert!(cluster.metric(0, "cluster_packets_sent_total") - sent < 60 * 30);
    assert!(is_reported(&cluster));
    // When one is stopped, the other is the node.
    for (stopped, left) in [(3, 2), (2, 3)] {
        cluster.kill(stopped);
        let address = cluster.nodes[left].node.address();
        let is_one = |cluster: &GossipCluster| {
            [0, 1].iter().all(|number| {
                let member = cluster.member(*number, left).unwrap();
                (member.state, member.facts.address, member.duplicate_at) == (MemberState::Alive, address, None)
            })
        };
        assert!(cluster.run_until(30, is_one), "{stopped} stopped: {}", cluster.describe_views());
        start_copy(&mut cluster, stopped);
        assert!(cluster.run_until(30, is_reported), "{}", cluster.describe_views());
    }
}

/// Starts node 2 or 3; the two cannot reach each other until it has joined.
fn start_copy(cluster: &mut GossipCluster, number: usize) {
    cluster.world.network().partition(&cluster.nodes(&[2]), &cluster.nodes(&[3]));
    cluster.start(number);
    let placed = |cluster: &GossipCluster| cluster.cluster(number).join_state() == JoinState::Joined;
    assert!(cluster.run_until(8, placed), "{}", cluster.describe_views());
    cluster.world.network().heal_all();
}

#[test]
fn a_copied_data_directory_is_refused_and_leaves_no_trace() {
    for seed in 0..4 {
        let mut cluster = GossipCluster::settled(seed, 3);
        cluster.add(id(2));
        // Also a copy that knows only the other process.
        cluster.nodes[3].join = vec![format!("n{}:7659", seed % 3)];
        cluster.start(3);
        let address = cluster.nodes[2].node.address();
        let refused = |cluster: &GossipCluster| cluster.cluster(3).join_state() == JoinState::Refused(address);
        for _ in 0..100 {
            cluster.world.run_for(Duration::from_millis(50));
            for number in 0..3 {
                let member = cluster.member(number, 2).unwrap();
                assert_eq!(
                    (member.state, member.facts.address, member.duplicate_suspected_at),
                    (MemberState::Alive, address, None)
                );
            }
        }
        assert!(refused(&cluster), "seed {seed}: {:?}", cluster.cluster(3).join_state());
        // After the other process has stopped it joins, whether or not the other nodes have detected that.
        cluster.kill(2);
        cluster.kill(3);
        cluster.nodes[3].join = vec!["n0:7659".to_owned()];
        cluster.start(3);
        assert!(cluster.run_until(5, |cluster| cluster.cluster(3).join_state() == JoinState::Joined), "seed {seed}");
        assert!(cluster.run_until(10, GossipCluster::all_alive), "seed {seed}: {}", cluster.describe_views());
    }
}

#[test]
fn a_node_joins_in_bounded_time() {
    let mut cluster = GossipCluster::settled(11, 3);
    // The others do not answer: one is down, one is paused.
    cluster.kill(0);
    cluster.kill(1);
    cluster.nodes[2].node.kill();
    cluster.start(2);
    assert!(
        cluster.run_until(1, |cluster| cluster.cluster(2).join_state() == JoinState::Joined),
        "no process listens there"
    );
    cluster.start(1);
    assert!(cluster.run_until(2, |cluster| cluster.cluster(1).join_state() == JoinState::Joined), "one is enough");
    cluster.kill(2);
    cluster.world.network().partition(&cluster.nodes(&[2]), &cluster.nodes(&[0, 1]));
    cluster.start(2);
    assert_eq!(cluster.cluster(2).join_state(), JoinState::Probing);
    assert!(
        cluster.run_until(8, |cluster| cluster.cluster(2).join_state() == JoinState::Joined),
        "no node can be reached"
    );
}

#[test]
fn an_earlier_process_stays_known_when_the_later_one_leaves() {
    let mut cluster = GossipCluster::settled(12, 3);
    cluster.add(id(2));
    start_copy(&mut cluster, 3);
    let is_reported =
        |cluster: &GossipCluster, number: usize| cluster.member(number, 2).unwrap().duplicate_suspected_at.is_some();
    assert!((0..2).all(|number| is_reported(&cluster, number)), "{}", cluster.describe_views());
    let leaving = cluster.cluster(3).clone();
    cluster.world.block_on_host(&cluster.nodes[3].node, async move { leaving.leave().await }).unwrap();
    cluster.kill(3);
    for _ in 0..400 {
        cluster.world.run_for(Duration::from_millis(50));
        for number in 0..2 {
            let member = cluster.member(number, 2).unwrap();
            let is_whole = member.is_live() && member.facts.address == cluster.nodes[2].node.address();
            assert!(is_whole || is_reported(&cluster, number), "{member:?}");
        }
    }
    assert!(
        cluster.run_until(1, |cluster| (0..2).all(|number| !is_reported(cluster, number))),
        "{}",
        cluster.describe_views()
    );
}

#[test]
fn both_processes_with_one_id_detect_the_duplicate() {
    let mut cluster = GossipCluster::settled(13, 3);
    cluster.add(id(2));
    start_copy(&mut cluster, 3);
    let other = |number: usize| cluster.nodes[5 - number].node.address();
    let is_reported = |cluster: &GossipCluster| {
        [2, 3].iter().all(|number| cluster.member(*number, 2).unwrap().duplicate_suspected_at == Some(other(*number)))
    };
    assert!(cluster.run_until(5, is_reported), "{:?}", [2, 3].map(|number| cluster.member(number, 2)));
}

#[test]
fn a_moved_node_is_a_suspected_duplicate_only_until_the_probe() {
    for seed in 0..4 {
        let mut cluster = GossipCluster::settled(seed, 4);
        cluster.kill(3);
        cluster.add(id(3));
        cluster.start(4);
        assert!(cluster.run_until(5, |cluster| cluster.cluster(4).join_state() == JoinState::Joined), "seed {seed}");
        let is_one = |cluster: &GossipCluster| {
            cluster.live_nodes().all(|number| {
                let member = cluster.member(number, 4).unwrap();
                member.facts.address == cluster.nodes[4].node.address() && member.duplicate_suspected_at.is_none()
            })
        };
        assert!(cluster.run_until(1, is_one), "seed {seed}: {:?}", cluster.member(0, 4));
    }
}

#[test]
fn a_node_that_leaves_is_never_down() {
    for seed in 0..4 {
        let mut cluster = GossipCluster::settled(seed, 5);
        let leaving = cluster.cluster(2).clone();
        cluster.world.block_on_host(&cluster.nodes[2].node, async move { leaving.leave().await }).unwrap();
        cluster.kill(2);
        assert!(
            cluster.run_until(1, |cluster| cluster.all_see(2, Some(MemberState::Left))),
            "seed {seed}: {}",
            cluster.describe_views()
        );
        cluster.world.run_for(seconds(60));
        assert!(cluster.all_see(2, Some(MemberState::Left)), "seed {seed}: {}", cluster.describe_views());
        cluster.start(2);
        assert!(cluster.run_until(5, GossipCluster::all_alive), "seed {seed}: {}", cluster.describe_views());
    }
}

#[test]
fn a_leave_is_retried_until_delivered() {
    let mut cluster = GossipCluster::settled(5, 2);
    let (one, other) = (cluster.nodes[0].node.clone(), cluster.nodes[1].node.clone());
    let (leaving, (sender, left)) = (cluster.cluster(1).clone(), oneshot::channel());
    cluster.world.network().partition(&[&one], &[&other]);
    other.spawn(async move { sender.send(leaving.leave().await).unwrap() });
    cluster.world.run_for(seconds(3));
    cluster.world.network().heal_all();
    assert!(cluster.world.block_on(left).unwrap());
    cluster.kill(1);
    cluster.world.run_for(seconds(60));
    assert_eq!(cluster.state(0, 1), Some(MemberState::Left));
}

#[test]
fn a_delivered_leave_survives_its_receiver() {
    for seed in 0..4 {
        let mut cluster = GossipCluster::settled(seed, 2);
        // The member file was just written, so no write is due.
        cluster.cluster(0).update_facts(|facts| facts.queue.bytes = 5);
        cluster.world.run_for(seconds(1));
        let leaving = cluster.cluster(1).clone();
        assert_eq!(
            cluster.world.block_on_host(&cluster.nodes[1].node, async move { leaving.leave().await }),
            Some(true)
        );
        cluster.nodes[0].node.cut_power(PowerCutLoss::All);
        cluster.kill(1);
        cluster.start(0);
        cluster.world.run_for(seconds(10));
        assert_eq!(cluster.state(0, 1), Some(MemberState::Left), "seed {seed}");
    }
}

#[test]
fn an_undelivered_leave_is_reported() {
    // Also if the other node has been down for long.
    for cut_off in [0, 30] {
        let cluster = GossipCluster::settled(5, 2);
        let (one, other) = (&cluster.nodes[0].node, &cluster.nodes[1].node);
        cluster.world.network().partition(&[one], &[other]);
        cluster.world.run_for(seconds(cut_off));
        let (leaving, begun) = (cluster.cluster(1).clone(), cluster.world.now());
        assert_eq!(cluster.world.block_on_host(other, async move { leaving.leave().await }), Some(false));
        assert!(cluster.world.now() - begun < seconds(7));
    }
    let cluster = GossipCluster::settled(5, 1);
    let leaving = cluster.cluster(0).clone();
    assert_eq!(cluster.world.block_on_host(&cluster.nodes[0].node, async move { leaving.leave().await }), Some(true));
}

#[test]
fn simultaneous_leaves_are_delivered() {
    for seed in 0..4 {
        let cluster = GossipCluster::settled(seed, 3);
        let left: Vec<_> = cluster
            .nodes
            .iter()
            .map(|node| {
                let (leaving, (sender, left)) = (node.cluster.clone().unwrap(), oneshot::channel());
                node.node.spawn(async move { sender.send(leaving.leave().await).unwrap() });
                left
            })
            .collect();
        let begun = cluster.world.now();
        for left in left {
            assert!(cluster.world.block_on(left).unwrap(), "seed {seed}");
        }
        assert!(cluster.world.now() - begun < seconds(1));
    }
}

#[test]
fn a_forgotten_node_is_forgotten_by_all_nodes_including_absent_ones() {
    let mut cluster = GossipCluster::settled(4, 5);
    let forget = |cluster: &GossipCluster, other: usize| {
        let (caller, id) = (cluster.cluster(0).clone(), cluster.nodes[other].id);
        cluster.world.block_on_host(&cluster.nodes[0].node, async move { caller.forget(id).await }).unwrap()
    };
    assert_eq!(forget(&cluster, 2), Err(ForgetError::Live));
    cluster.kill(2);
    assert!(
        cluster.run_until(10, |cluster| cluster.all_see(2, Some(MemberState::Down))),
        "{}",
        cluster.describe_views()
    );
    cluster.kill(4);
    assert!(
        cluster.run_until(10, |cluster| cluster.all_see(4, Some(MemberState::Down))),
        "{}",
        cluster.describe_views()
    );
    assert_eq!(forget(&cluster, 2), Ok(()));
    assert!(cluster.run_until(1, |cluster| cluster.all_see(2, None)), "{}", cluster.describe_views());
    // This node has it as down.
    cluster.start(4);
    assert!(cluster.run_until(5, GossipCluster::all_alive), "{}", cluster.describe_views());
    assert!(cluster.run_until(5, |cluster| cluster.all_see(2, None)), "{}", cluster.describe_views());
    cluster.world.run_for(seconds(60));
    assert!(cluster.all_see(2, None), "{}", cluster.describe_views());
    cluster.start(2);
    assert!(cluster.run_until(5, GossipCluster::all_alive), "{}", cluster.describe_views());
}

#[test]
fn a_down_node_is_remembered_for_a_limited_time() {
    let mut cluster = GossipCluster::new(6, 4);
    for number in 0..4 {
        cluster.start_with(number, |config| config.remember_for = seconds(100));
    }
    assert!(cluster.run_until(10, GossipCluster::all_alive));
    cluster.world.run_for(seconds(5));
    cluster.kill(1);
    cluster.world.run_for(seconds(90));
    assert!(cluster.all_see(1, Some(MemberState::Down)), "{}", cluster.describe_views());
    cluster.world.run_for(seconds(20));
    assert!(cluster.all_see(1, None), "{}", cluster.describe_views());
    cluster.world.run_for(seconds(60));
    assert!(cluster.all_see(1, None), "{}", cluster.describe_views());
}

#[test]
fn clocks_that_jump_change_nothing() {
    let mut cluster = GossipCluster::settled(7, 5);
    cluster.kill(4);
    assert!(
        cluster.run_until(5, |cluster| cluster.all_see(4, Some(MemberState::Down))),
        "{}",
        cluster.describe_views()
    );
    cluster.nodes[1].node.jump_clock(30 * 24 * 3_600_000);
    cluster.nodes[2].node.jump_clock(-30 * 24 * 3_600_000);
    for step in 0..220 {
        cluster.world.run_for(std::time::Duration::from_millis(if step < 200 { 5 } else { 1_000 }));
        assert!(cluster.all_alive() && cluster.all_see(4, Some(MemberState::Down)), "{}", cluster.describe_views());
    }
    cluster.start(4);
    assert!(cluster.run_until(3, GossipCluster::all_alive), "{}", cluster.describe_views());
}

#[test]
fn all_addresses_of_a_seed_are_tried() {
    let mut cluster = GossipCluster::new(8, 4);
    cluster.world.network().register_host_name("all", &cluster.nodes(&[0, 1, 2, 3]));
    for number in [2, 3] {
        cluster.nodes[number].join = vec!["nowhere:7659".to_owned(), "all:7659".to_owned()];
        cluster.start(number);
    }
    assert!(cluster.run_until(20, GossipCluster::all_alive), "{}", cluster.describe_views());
}

#[test]
fn a_node_starts_with_a_damaged_member_file() {
    let mut cluster = GossipCluster::settled(9, 3);
    cluster.kill(1);
    let fs = cluster.nodes[1].node.fs();
    fs.remove(Path::new("/data/members.json")).unwrap();
    fs.remove(Path::new("/data/members.backup")).unwrap();
    fs.create(Path::new("/data/members.json")).unwrap().append(&[b"{\"format\": 1, \"memb"]).unwrap();
    cluster.start(1);
    assert!(cluster.run_until(5, GossipCluster::all_alive), "{}", cluster.describe_views());
    assert!(cluster.nodes[1].node.fs().live_bytes("/data/members.json.damaged").is_some());
}

#[test]
fn thirty_nodes_that_start_together_know_each_other_within_five_seconds() {
    let mut cluster = GossipCluster::new(10, 30);
    (0..30).for_each(|number| cluster.start(number));
    assert!(cluster.run_until(5, GossipCluster::all_alive), "{}", cluster.describe_views());
    // Little traffic remains when all is known.
    cluster.world.run_for(seconds(20));
    let sent = |cluster: &GossipCluster| {
        cluster.live_nodes().map(|number| cluster.metric(number, "cluster_packets_sent_total")).sum::<u64>()
    };
    let before = sent(&cluster);
    cluster.world.run_for(seconds(10));
    assert!(sent(&cluster) - before < 30 * 10 * 20, "{} datagrams", sent(&cluster) - before);
    let failed: u64 = cluster.live_nodes().map(|number| cluster.metric(number, "cluster_exchanges_failed_total")).sum();
    assert!(failed < 60, "{failed} comparisons failed");
}

/// Nodes of which each has all nodes as seeds.
fn nodes_with_all_seeds(seed: u64, count: usize) -> GossipCluster {
    let mut cluster = GossipCluster::new(seed, count);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}:7659")).collect();
    cluster.nodes.iter_mut().for_each(|node| node.join.clone_from(&names));
    cluster
}

#[test]
fn new_nodes_bootstrap_until_seeds_are_reached() {
    for seed in 0..4 {
        let mut cluster = nodes_with_all_seeds(seed, 3);
        [1, 2].into_iter().for_each(|number| cluster.start(number));
        assert!(cluster.run_until(10, GossipCluster::all_alive), "seed {seed}: {}", cluster.describe_views());
        cluster.world.run_for(seconds(60));
        assert!([1, 2].into_iter().all(|number| cluster.cluster(number).is_bootstrapping()), "seed {seed}");
        // The same after a restart, when their member files have each other.
        for number in [1, 2] {
            cluster.kill(number);
            cluster.start(number);
            cluster.world.run_for(seconds(10));
            assert!(cluster.cluster(number).is_bootstrapping(), "seed {seed}");
        }
        cluster.start(0);
        let is_over =
            |cluster: &GossipCluster| cluster.live_nodes().all(|number| !cluster.cluster(number).is_bootstrapping());
        assert!(cluster.run_until(10, is_over), "seed {seed}");
        assert!(cluster.all_alive(), "seed {seed}: {}", cluster.describe_views());
        cluster.world.run_for(seconds(1));
        cluster.kill(0);
        cluster.kill(1);
        cluster.start(1);
        assert!(!cluster.cluster(1).is_bootstrapping(), "seed {seed}: persisted");
    }
}

#[test]
fn an_unreachable_seed_does_not_delay_nodes_of_an_established_cluster() {
    let mut cluster = nodes_with_all_seeds(5, 3);
    (0..3).for_each(|number| cluster.start(number));
    let is_over =
        |cluster: &GossipCluster| cluster.live_nodes().all(|number| !cluster.cluster(number).is_bootstrapping());
    assert!(cluster.run_until(10, |cluster| cluster.all_alive() && is_over(cluster)), "{}", cluster.describe_views());
    cluster.kill(0);
    // The disk of another node is replaced.
    cluster.kill(1);
    cluster.nodes[1].id = id(9);
    cluster.nodes[1].node.set_disk(bucksaw_env::sim::Fs::new());
    cluster.start(1);
    assert!(cluster.cluster(1).is_bootstrapping());
    assert!(cluster.run_until(10, is_over));
    let dead = id(0);
    assert!(
        cluster.cluster(1).members().iter().any(|member| member.facts.node == dead),
        "it knows all other nodes by then"
    );
}
