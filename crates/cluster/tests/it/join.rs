//! Nodes come, go, and come back.

use std::path::Path;
use std::time::Duration;

use bucksaw_cluster::{ForgetError, Place, State};
use bucksaw_doors::Fs as _;
use bucksaw_doors::sim::Loss;
use tokio::sync::oneshot;

use crate::town::{Town, id, seconds};

#[test]
fn nodes_find_each_other_in_whatever_order_they_start() {
    for seed in 0..6 {
        let mut town = Town::new(seed, 5);
        // The one that all others are told to join starts first, in the middle, or last.
        let order: Vec<usize> = (0..5).map(|at| (at + seed as usize) % 5).collect();
        for number in order {
            town.start(number);
            town.world.run_for(seconds(seed));
        }
        assert!(town.until(5, Town::all_alive), "seed {seed}: {}", town.picture());
    }
}

#[test]
fn nodes_that_start_again_find_each_other_without_being_told_whom_to_join() {
    let mut town = Town::settled(1, 4);
    let before = town.member(1, 3).unwrap().facts.incarnation;
    for number in 0..4 {
        town.kill(number);
        town.nodes[number].join.clear();
    }
    // One stays away, and those that come back know of it.
    for number in 1..4 {
        town.start(number);
    }
    assert!(town.until(3, Town::all_alive), "{}", town.picture());
    assert!(town.member(1, 3).unwrap().facts.incarnation > before);
    assert!(town.until(5, |town| town.all_say(0, Some(State::Down))), "{}", town.picture());
}

#[test]
fn a_node_that_starts_again_takes_the_place_of_its_old_self_at_once() {
    for seed in 0..4 {
        let mut town = Town::settled(seed, 4);
        town.kill(2);
        // Nobody has noticed.
        town.start(2);
        let incarnation = town.cluster(2).facts().incarnation;
        let is_back = |town: &Town| {
            [0, 1, 3].iter().all(|number| {
                let member = town.member(*number, 2).unwrap();
                assert_ne!(member.state, State::Down, "seed {seed}");
                member.state == State::Alive && member.facts.incarnation == incarnation
            })
        };
        assert!(town.until(2, is_back), "seed {seed}: {}", town.picture());
    }
}

#[test]
fn a_node_whose_clock_was_set_back_still_takes_the_place_of_its_old_self() {
    for memory in [true, false] {
        let mut town = Town::settled(5, 4);
        town.kill(2);
        town.nodes[2].node.jump_clock(-3_600_000);
        if !memory {
            town.nodes[2].node.fs().remove(Path::new("/data/members.json")).unwrap();
        }
        town.start(2);
        let is_back = |town: &Town| {
            let incarnation = town.cluster(2).facts().incarnation;
            let knows = |number| town.member(number, 2).is_some_and(|member| member.facts.incarnation == incarnation);
            town.all_alive() && [0, 1, 3].into_iter().all(knows)
        };
        assert!(town.until(5, is_back), "memory {memory}: {}", town.picture());
        town.world.run_for(seconds(30));
        assert!(town.all_alive(), "{}", town.picture());
    }
}

#[test]
fn another_node_may_take_over_the_address_of_a_dead_one_also_when_its_clock_is_behind() {
    for seed in 0..3 {
        let mut town = Town::settled(seed, 4);
        town.kill(3);
        assert!(town.until(10, |town| town.all_say(3, Some(State::Down))), "seed {seed}: {}", town.picture());
        let dead = std::mem::replace(&mut town.nodes[3].id, id(9));
        let node = &town.nodes[3].node;
        node.jump_clock(-3_600_000);
        node.fs().remove(Path::new("/data/members.json")).unwrap();
        town.start(3);
        assert!(town.until(5, Town::all_alive), "seed {seed}: {}", town.picture());
        town.world.run_for(seconds(30));
        assert!(town.all_alive(), "seed {seed}: {}", town.picture());
        let remembers = |number| {
            let members = town.cluster(number).members();
            members.iter().any(|member| member.facts.node == dead && member.state == State::Down)
        };
        assert!((0..4).all(remembers), "seed {seed}");
    }
}

#[test]
fn a_node_may_move() {
    let mut town = Town::settled(2, 4);
    town.kill(3);
    town.add(id(3));
    town.start(4);
    let address = town.nodes[4].node.address();
    let moved = |town: &Town| {
        (0..3).all(|number| {
            let member = town.member(number, 4).unwrap();
            member.facts.address == address && member.state == State::Alive
        })
    };
    assert!(town.until(3, moved), "{}", town.picture());
    for _ in 0..60 {
        town.world.run_for(seconds(1));
        assert!(moved(&town), "{}", town.picture());
        assert!((0..3).all(|number| town.member(number, 4).unwrap().twin.is_none()));
    }
}

#[test]
fn a_copied_data_directory_is_told_of_by_all() {
    let mut town = Town::settled(3, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let told = |town: &Town| {
        town.living()
            .all(|number| town.metric(number, "cluster_twins") == 1 && town.member(number, 2).unwrap().twin.is_some())
    };
    // The others know from the first moment.
    assert!((0..2).all(|number| town.member(number, 2).unwrap().also_at.is_some()), "{}", town.picture());
    assert!(town.until(20, told), "{}", town.picture());
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
        let is_one = |town: &Town| {
            [0, 1].iter().all(|number| {
                let member = town.member(*number, left).unwrap();
                (member.state, member.facts.address, member.twin) == (State::Alive, address, None)
            })
        };
        assert!(town.until(30, is_one), "{stopped} stopped: {}", town.picture());
        start_twin(&mut town, stopped);
        assert!(town.until(30, told), "{}", town.picture());
    }
}

/// Starts one of the nodes 2 and 3, which cannot reach each other until it has its place.
fn start_twin(town: &mut Town, number: usize) {
    town.world.network().part(&town.nodes(&[2]), &town.nodes(&[3]));
    town.start(number);
    let placed = |town: &Town| town.cluster(number).place() == Place::Taken;
    assert!(town.until(8, placed), "{}", town.picture());
    town.world.network().heal_all();
}

#[test]
fn a_copied_data_directory_is_refused_and_leaves_no_trace() {
    for seed in 0..4 {
        let mut town = Town::settled(seed, 3);
        town.add(id(2));
        // Also one that knows no other node but its twin.
        town.nodes[3].join = vec![format!("n{}:7659", seed % 3)];
        town.start(3);
        let address = town.nodes[2].node.address();
        let refused = |town: &Town| town.cluster(3).place() == Place::Refused(address);
        for _ in 0..100 {
            town.world.run_for(Duration::from_millis(50));
            for number in 0..3 {
                let member = town.member(number, 2).unwrap();
                assert_eq!((member.state, member.facts.address, member.also_at), (State::Alive, address, None));
            }
        }
        assert!(refused(&town), "seed {seed}: {:?}", town.cluster(3).place());
        // When the other is gone it is the node, whether or not the others know that yet.
        town.kill(2);
        town.kill(3);
        town.nodes[3].join = vec!["n0:7659".to_owned()];
        town.start(3);
        assert!(town.until(5, |town| town.cluster(3).place() == Place::Taken), "seed {seed}");
        assert!(town.until(10, Town::all_alive), "seed {seed}: {}", town.picture());
    }
}

#[test]
fn a_node_takes_its_place_in_bounded_time_with_or_without_others() {
    let mut town = Town::settled(11, 3);
    // The others do not answer: one is down, one stands still.
    town.kill(0);
    town.kill(1);
    town.nodes[2].node.kill();
    town.start(2);
    assert!(town.until(1, |town| town.cluster(2).place() == Place::Taken), "no process listens there");
    town.start(1);
    assert!(town.until(2, |town| town.cluster(1).place() == Place::Taken), "one is enough");
    town.kill(2);
    town.world.network().part(&town.nodes(&[2]), &town.nodes(&[0, 1]));
    town.start(2);
    assert_eq!(town.cluster(2).place(), Place::Looking);
    assert!(town.until(8, |town| town.cluster(2).place() == Place::Taken), "no node can be reached");
}

#[test]
fn an_earlier_process_is_known_when_the_later_one_says_goodbye() {
    let mut town = Town::settled(12, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let is_told = |town: &Town, number: usize| town.member(number, 2).unwrap().also_at.is_some();
    assert!((0..2).all(|number| is_told(&town, number)), "{}", town.picture());
    let leaving = town.cluster(3).clone();
    town.world.block_on_node(&town.nodes[3].node, async move { leaving.leave().await }).unwrap();
    town.kill(3);
    for _ in 0..400 {
        town.world.run_for(Duration::from_millis(50));
        for number in 0..2 {
            let member = town.member(number, 2).unwrap();
            let is_whole = member.is_live() && member.facts.address == town.nodes[2].node.address();
            assert!(is_whole || is_told(&town, number), "{member:?}");
        }
    }
    assert!(town.until(1, |town| (0..2).all(|number| !is_told(town, number))), "{}", town.picture());
}

#[test]
fn both_of_two_with_one_id_know_it_of_themselves() {
    let mut town = Town::settled(13, 3);
    town.add(id(2));
    start_twin(&mut town, 3);
    let other = |number: usize| town.nodes[5 - number].node.address();
    let is_told =
        |town: &Town| [2, 3].iter().all(|number| town.member(*number, 2).unwrap().also_at == Some(other(*number)));
    assert!(town.until(5, is_told), "{:?}", [2, 3].map(|number| town.member(number, 2)));
}

#[test]
fn a_node_that_moved_counts_as_two_for_no_longer_than_a_probe_takes() {
    for seed in 0..4 {
        let mut town = Town::settled(seed, 4);
        town.kill(3);
        town.add(id(3));
        town.start(4);
        assert!(town.until(5, |town| town.cluster(4).place() == Place::Taken), "seed {seed}");
        let is_one = |town: &Town| {
            town.living().all(|number| {
                let member = town.member(number, 4).unwrap();
                member.facts.address == town.nodes[4].node.address() && member.also_at.is_none()
            })
        };
        assert!(town.until(1, is_one), "seed {seed}: {:?}", town.member(0, 4));
    }
}

#[test]
fn who_says_goodbye_has_left_and_is_never_down() {
    for seed in 0..4 {
        let mut town = Town::settled(seed, 5);
        let leaving = town.cluster(2).clone();
        town.world.block_on_node(&town.nodes[2].node, async move { leaving.leave().await }).unwrap();
        town.kill(2);
        assert!(town.until(1, |town| town.all_say(2, Some(State::Left))), "seed {seed}: {}", town.picture());
        town.world.run_for(seconds(60));
        assert!(town.all_say(2, Some(State::Left)), "seed {seed}: {}", town.picture());
        town.start(2);
        assert!(town.until(5, Town::all_alive), "seed {seed}: {}", town.picture());
    }
}

#[test]
fn a_goodbye_is_said_until_one_has_heard_it() {
    let mut town = Town::settled(5, 2);
    let (one, other) = (town.nodes[0].node.clone(), town.nodes[1].node.clone());
    let (leaving, (tell, told)) = (town.cluster(1).clone(), oneshot::channel());
    town.world.network().part(&[&one], &[&other]);
    other.spawn(async move { tell.send(leaving.leave().await).unwrap() });
    town.world.run_for(seconds(3));
    town.world.network().heal_all();
    assert!(town.world.block_on(told).unwrap());
    town.kill(1);
    town.world.run_for(seconds(60));
    assert_eq!(town.state(0, 1), Some(State::Left));
}

#[test]
fn a_goodbye_that_was_heard_outlives_the_one_who_heard_it() {
    for seed in 0..4 {
        let mut town = Town::settled(seed, 2);
        // The list was written a moment ago, and is not again for a while.
        town.cluster(0).update(|facts| facts.queue.bytes = 5);
        town.world.run_for(seconds(1));
        let leaving = town.cluster(1).clone();
        assert_eq!(town.world.block_on_node(&town.nodes[1].node, async move { leaving.leave().await }), Some(true));
        town.nodes[0].node.cut_power(Loss::All);
        town.kill(1);
        town.start(0);
        town.world.run_for(seconds(10));
        assert_eq!(town.state(0, 1), Some(State::Left), "seed {seed}");
    }
}

#[test]
fn who_says_goodbye_to_nobody_knows_it() {
    // Also when the other has seemed to be gone for long.
    for cut_off in [0, 30] {
        let town = Town::settled(5, 2);
        let (one, other) = (&town.nodes[0].node, &town.nodes[1].node);
        town.world.network().part(&[one], &[other]);
        town.world.run_for(seconds(cut_off));
        let (leaving, begun) = (town.cluster(1).clone(), town.world.now());
        assert_eq!(town.world.block_on_node(other, async move { leaving.leave().await }), Some(false));
        assert!(town.world.now() - begun < seconds(7));
    }
    let town = Town::settled(5, 1);
    let leaving = town.cluster(0).clone();
    assert_eq!(town.world.block_on_node(&town.nodes[0].node, async move { leaving.leave().await }), Some(true));
}

#[test]
fn those_who_go_at_the_same_time_hear_each_other() {
    for seed in 0..4 {
        let town = Town::settled(seed, 3);
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
    let mut town = Town::settled(4, 5);
    let forget = |town: &Town, other: usize| {
        let (cluster, id) = (town.cluster(0).clone(), town.nodes[other].id);
        town.world.block_on_node(&town.nodes[0].node, async move { cluster.forget(id).await }).unwrap()
    };
    assert_eq!(forget(&town, 2), Err(ForgetError::Live));
    town.kill(2);
    assert!(town.until(10, |town| town.all_say(2, Some(State::Down))), "{}", town.picture());
    town.kill(4);
    assert!(town.until(10, |town| town.all_say(4, Some(State::Down))), "{}", town.picture());
    assert_eq!(forget(&town, 2), Ok(()));
    assert!(town.until(1, |town| town.all_say(2, None)), "{}", town.picture());
    // This one remembers it as down.
    town.start(4);
    assert!(town.until(5, Town::all_alive), "{}", town.picture());
    assert!(town.until(5, |town| town.all_say(2, None)), "{}", town.picture());
    town.world.run_for(seconds(60));
    assert!(town.all_say(2, None), "{}", town.picture());
    town.start(2);
    assert!(town.until(5, Town::all_alive), "{}", town.picture());
}

#[test]
fn who_is_down_is_remembered_for_a_while_and_then_no_more_by_anyone() {
    let mut town = Town::new(6, 4);
    for number in 0..4 {
        town.start_with(number, |config| config.remember = seconds(100));
    }
    assert!(town.until(10, Town::all_alive));
    town.world.run_for(seconds(5));
    town.kill(1);
    town.world.run_for(seconds(90));
    assert!(town.all_say(1, Some(State::Down)), "{}", town.picture());
    town.world.run_for(seconds(20));
    assert!(town.all_say(1, None), "{}", town.picture());
    town.world.run_for(seconds(60));
    assert!(town.all_say(1, None), "{}", town.picture());
}

#[test]
fn clocks_that_jump_change_nothing() {
    let mut town = Town::settled(7, 5);
    town.kill(4);
    assert!(town.until(5, |town| town.all_say(4, Some(State::Down))), "{}", town.picture());
    town.nodes[1].node.jump_clock(30 * 24 * 3_600_000);
    town.nodes[2].node.jump_clock(-30 * 24 * 3_600_000);
    for step in 0..220 {
        town.world.run_for(std::time::Duration::from_millis(if step < 200 { 5 } else { 1_000 }));
        assert!(town.all_alive() && town.all_say(4, Some(State::Down)), "{}", town.picture());
    }
    town.start(4);
    assert!(town.until(3, Town::all_alive), "{}", town.picture());
}

#[test]
fn a_name_that_stands_for_several_is_tried_through() {
    let mut town = Town::new(8, 4);
    town.world.network().name("all", &town.nodes(&[0, 1, 2, 3]));
    for number in [2, 3] {
        town.nodes[number].join = vec!["nowhere:7659".to_owned(), "all:7659".to_owned()];
        town.start(number);
    }
    assert!(town.until(20, Town::all_alive), "{}", town.picture());
}

#[test]
fn a_damaged_list_does_not_keep_a_node_from_starting() {
    let mut town = Town::settled(9, 3);
    town.kill(1);
    let fs = town.nodes[1].node.fs();
    fs.remove(Path::new("/data/members.json")).unwrap();
    fs.remove(Path::new("/data/members.backup")).unwrap();
    fs.create(Path::new("/data/members.json")).unwrap().append(&[b"{\"format\": 1, \"memb"]).unwrap();
    town.start(1);
    assert!(town.until(5, Town::all_alive), "{}", town.picture());
    assert!(town.nodes[1].node.fs().live_bytes("/data/members.json.damaged").is_some());
}

#[test]
fn thirty_nodes_that_start_together_know_each_other_within_five_seconds() {
    let mut town = Town::new(10, 30);
    (0..30).for_each(|number| town.start(number));
    assert!(town.until(5, Town::all_alive), "{}", town.picture());
    // No storm: when all is known, little is said.
    town.world.run_for(seconds(20));
    let sent = |town: &Town| town.living().map(|number| town.metric(number, "cluster_packets_sent_total")).sum::<u64>();
    let before = sent(&town);
    town.world.run_for(seconds(10));
    assert!(sent(&town) - before < 30 * 10 * 20, "{} datagrams", sent(&town) - before);
    let failed: u64 = town.living().map(|number| town.metric(number, "cluster_exchanges_failed_total")).sum();
    assert!(failed < 60, "{failed} comparisons failed");
}

/// Nodes of which each is to join all.
fn all_join_all(seed: u64, count: usize) -> Town {
    let mut town = Town::new(seed, count);
    let names: Vec<String> = (0..count).map(|number| format!("n{number}:7659")).collect();
    town.nodes.iter_mut().for_each(|node| node.join.clone_from(&names));
    town
}

#[test]
fn new_nodes_await_those_that_they_have_not_reached() {
    for seed in 0..4 {
        let mut town = all_join_all(seed, 3);
        [1, 2].into_iter().for_each(|number| town.start(number));
        assert!(town.until(10, Town::all_alive), "seed {seed}: {}", town.picture());
        town.world.run_for(seconds(60));
        assert!([1, 2].into_iter().all(|number| town.cluster(number).is_awaiting()), "seed {seed}");
        // It is so after a restart, too, when their lists have each other.
        for number in [1, 2] {
            town.kill(number);
            town.start(number);
            town.world.run_for(seconds(10));
            assert!(town.cluster(number).is_awaiting(), "seed {seed}");
        }
        town.start(0);
        let is_over = |town: &Town| town.living().all(|number| !town.cluster(number).is_awaiting());
        assert!(town.until(10, is_over), "seed {seed}");
        assert!(town.all_alive(), "seed {seed}: {}", town.picture());
        town.world.run_for(seconds(1));
        town.kill(0);
        town.kill(1);
        town.start(1);
        assert!(!town.cluster(1).is_awaiting(), "seed {seed}: it is kept");
    }
}

#[test]
fn a_name_that_leads_nowhere_for_ever_keeps_no_node_of_a_cluster_waiting() {
    let mut town = all_join_all(5, 3);
    (0..3).for_each(|number| town.start(number));
    let is_over = |town: &Town| town.living().all(|number| !town.cluster(number).is_awaiting());
    assert!(town.until(10, |town| town.all_alive() && is_over(town)), "{}", town.picture());
    town.kill(0);
    // The disk of another one is replaced.
    town.kill(1);
    town.nodes[1].id = id(9);
    town.nodes[1].node.set_disk(bucksaw_doors::sim::Fs::new());
    town.start(1);
    assert!(town.cluster(1).is_awaiting());
    assert!(town.until(10, is_over));
    let dead = id(0);
    assert!(
        town.cluster(1).members().iter().any(|member| member.facts.node == dead),
        "it has heard of all others by then"
    );
}
