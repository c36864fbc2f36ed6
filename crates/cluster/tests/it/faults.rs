//! Crashes, pauses, partitions and loss.

use std::time::Duration;

use bucksaw_cluster::MemberState;
use bucksaw_env::sim::{NetworkConditions, PowerCutLoss};

use crate::test_cluster::{TestCluster, seconds};

#[test]
fn a_crash_is_seen_by_all_within_five_seconds_and_a_restart_within_two() {
    for seed in 0..12 {
        let count = 3 + seed as usize % 5;
        let mut town = TestCluster::settled(seed, count);
        for round in 0..3 {
            let victim = 1 + (seed as usize + round) % (count - 1);
            if round == 0 {
                town.nodes[victim].node.cut_power(PowerCutLoss::Torn);
            } else {
                town.kill(victim);
            }
            town.nodes[victim].cluster = None;
            assert!(
                town.run_until(5, |town| town.all_see(victim, Some(MemberState::Down))),
                "seed {seed}: {}",
                town.describe_views()
            );
            town.world.run_for(seconds(seed));
            town.start(victim);
            assert!(town.run_until(2, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
        }
    }
}

#[test]
fn a_down_node_stays_down() {
    let mut town = TestCluster::settled(1, 6);
    town.kill(4);
    assert!(town.run_until(5, |town| town.all_see(4, Some(MemberState::Down))), "{}", town.describe_views());
    for _ in 0..1_200 {
        town.world.run_for(seconds(1));
        assert!(town.all_see(4, Some(MemberState::Down)), "at {:?}: {}", town.world.now(), town.describe_views());
    }
}

#[test]
fn halves_that_take_each_other_for_dead_find_each_other_within_seconds() {
    for seed in 0..6 {
        let town = TestCluster::settled(seed, 7);
        let (some, others): (Vec<usize>, Vec<usize>) = (0..7).partition(|number| *number < 1 + seed as usize % 3);
        town.world.network().partition(&town.nodes(&some), &town.nodes(&others));
        let is_parted = |town: &TestCluster| {
            let see = |mine: &[usize], theirs: &[usize]| {
                mine.iter().all(|one| theirs.iter().all(|other| town.state(*one, *other) == Some(MemberState::Down)))
            };
            see(&some, &others) && see(&others, &some)
        };
        assert!(town.run_until(15, is_parted), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(60 * seed));
        assert!(is_parted(&town), "seed {seed}: {}", town.describe_views());
        town.world.network().heal_all();
        assert!(town.run_until(8, TestCluster::all_alive), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(10));
        for _ in 0..20 {
            town.world.run_for(seconds(1));
            assert!(town.all_alive(), "seed {seed}: {}", town.describe_views());
        }
    }
}

/// Two suspect each other. The one that is the first to take the other for dead tells it, so that it goes on in another
/// incarnation, and forgets what it was about to do about its own suspicion. Of that the first one must hear.
#[test]
fn no_suspicion_outlives_the_fault() {
    for seed in 0..4 {
        for count in [2, 3] {
            let town = TestCluster::settled(seed, count);
            for tenths in 5..40 {
                let step = Duration::from_millis(100);
                let (one, others) = (town.nodes(&[0]), town.nodes(if count == 2 { &[1] } else { &[1, 2] }));
                town.world.network().partition(&one, &others);
                town.world.run_for(step * tenths);
                town.world.network().heal_all();
                let round = format!("seed {seed}, {count} nodes, {tenths} tenths of a second");
                assert!(town.run_until(8, TestCluster::all_alive), "{round}: {}", town.describe_views());
                town.world.run_for(step * ((seed as u32 + tenths) % 7));
            }
        }
    }
}

#[test]
fn a_way_that_is_cut_in_one_direction_only_makes_no_node_dead() {
    let town = TestCluster::settled(2, 5);
    town.world.network().cut(&town.nodes(&[1]), &town.nodes(&[2]));
    for _ in 0..60 {
        town.world.run_for(seconds(1));
        let says = |one: usize| (0..5).all(|other| town.state(one, other) != Some(MemberState::Down));
        assert!((0..5).all(says), "{}", town.describe_views());
    }
}

#[test]
fn a_paused_node_is_down_and_comes_back_without_calling_others_dead() {
    for seed in 0..4 {
        let town = TestCluster::settled(seed, 5);
        town.nodes[3].node.pause();
        let others =
            |town: &TestCluster, state| [0, 1, 2, 4].iter().all(|number| town.state(*number, 3) == Some(state));
        assert!(town.run_until(5, |town| others(town, MemberState::Down)), "seed {seed}: {}", town.describe_views());
        town.world.run_for(seconds(60));
        town.nodes[3].node.resume();
        let back = |town: &TestCluster| {
            for other in [0, 1, 2, 4] {
                assert!(
                    [0, 1, 2, 4]
                        .iter()
                        .all(|number| *number == other || town.state(*number, other) != Some(MemberState::Down))
                );
            }
            town.all_alive()
        };
        assert!(town.run_until(6, back), "seed {seed}: {}", town.describe_views());
    }
}

/// A fifth of the datagrams is lost: the living are suspected now and then, and rarely down, and never for long.
#[test]
fn loss_makes_no_living_node_down_for_long() {
    for seed in 0..3 {
        let town = TestCluster::settled(seed, 10);
        town.world.network().set_conditions(NetworkConditions {
            loss: 0.2,
            duplication: 0.02,
            ..NetworkConditions::HEALTHY
        });
        let (mut down, mut longest) = (0, [0; 100]);
        let step = Duration::from_millis(100);
        for _ in 0..1_200 {
            town.world.run_for(step);
            for (pair, longest) in longest.iter_mut().enumerate() {
                let (one, other) = (pair / 10, pair % 10);
                if town.state(one, other) == Some(MemberState::Down) {
                    down += 1;
                    *longest += 1;
                } else {
                    *longest = 0;
                }
                assert!(*longest < 20, "seed {seed}: n{one} took n{other} for down for two seconds");
            }
        }
        // Of 120,000 looks.
        assert!(down < 120, "seed {seed}: down {down} times");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut town = TestCluster::settled(seed, 5);
        town.world.network().set_conditions(NetworkConditions { loss: 0.1, ..NetworkConditions::HEALTHY });
        town.kill(2);
        town.world.run_for(seconds(8));
        town.start(2);
        town.world.run_for(seconds(8));
        town.world.fingerprint()
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}
