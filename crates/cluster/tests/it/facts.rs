//! What nodes tell of themselves, and their calls.

use std::io;

use bucksaw_cluster::{IncompatiblePeer, JSON_BYTES_MAX, MemberState, Version};
use bucksaw_env::sim::NetworkConditions;
use bucksaw_env::{Body, BoxFuture};

use crate::test_cluster::{TestCluster, seconds};

/// Whether all know the newest that each says.
fn is_known(town: &TestCluster) -> bool {
    town.live_nodes().all(|other| {
        let facts = town.cluster(other).facts();
        town.live_nodes().all(|number| town.member(number, other).is_some_and(|member| *member.facts == facts))
    })
}

#[test]
fn facts_are_known_everywhere_soon_and_told_at_most_once_a_second() {
    let town = TestCluster::settled(1, 5);
    let sent = town.metric(2, "cluster_packets_sent_total");
    for bytes in 1..=100 {
        town.cluster(2).update_facts(|facts| facts.queue.bytes = bytes);
        town.world.run_for(std::time::Duration::from_millis(20));
    }
    assert!(town.run_until(2, is_known));
    assert!((0..5).all(|number| town.member(number, 2).unwrap().facts.queue.bytes == 100));
    let sent = town.metric(2, "cluster_packets_sent_total") - sent;
    assert!(sent < 80, "{sent} datagrams");
}

#[test]
fn facts_whose_datagrams_are_lost_arrive_all_the_same() {
    for seed in 0..3 {
        let town = TestCluster::settled(seed, 8);
        // For long enough to lose all that is told, and too short for anyone to be taken for dead.
        town.world.network().set_conditions(NetworkConditions { loss: 1.0, ..NetworkConditions::HEALTHY });
        for number in 0..8 {
            town.cluster(number).update_facts(|facts| facts.stored.bytes = 7);
        }
        town.world.run_for(seconds(1));
        town.world.network().set_conditions(NetworkConditions::HEALTHY);
        let told = |one: usize, other| town.member(one, other).is_some_and(|member| member.facts.stored.bytes == 7);
        assert!((0..8).all(|one| (0..8).all(|other| one == other || !told(one, other))));
        assert!(town.run_until(30, is_known), "seed {seed}");
    }
}

#[test]
fn facts_beyond_their_bounds_are_not_told() {
    let town = TestCluster::settled(2, 3);
    town.cluster(1).update_facts(|facts| facts.clients.http = Some("x".repeat(10_000)));
    town.world.run_for(seconds(5));
    assert!([0, 1].iter().all(|number| town.member(*number, 1).unwrap().facts.clients.http.is_none()));
    town.cluster(1).update_facts(|facts| facts.clients.http = Some("n1:7650".to_owned()));
    assert!(town.run_until(2, is_known));
}

#[test]
fn what_the_crate_keeps_cannot_be_changed_from_outside() {
    let town = TestCluster::settled(3, 3);
    let before = town.cluster(1).facts();
    town.cluster(1).update_facts(|facts| {
        facts.left = true;
        facts.version = 0;
        facts.incarnation = bucksaw_record::Id::MAX;
        facts.draining = true;
    });
    assert!(town.run_until(2, |town| town.member(0, 1).unwrap().facts.draining));
    let member = town.member(0, 1).unwrap();
    assert_eq!(
        (member.state, member.facts.left, member.facts.incarnation),
        (MemberState::Alive, false, before.incarnation)
    );
    assert!(member.facts.version > before.version);
}

/// One node asks another.
fn ask(town: &TestCluster, name: &'static str, number: u64) -> io::Result<u64> {
    let (cluster, member) = (town.cluster(0).clone(), town.member(0, 1).unwrap());
    let asked = async move { cluster.call_json(&member, name, &number, seconds(2)).await };
    town.world.block_on_host(&town.nodes[0].node, asked).unwrap()
}

#[test]
fn calls_are_answered_by_name_and_within_bounds() {
    let mut town = TestCluster::settled(4, 2);
    let router = town.cluster(1).router();
    router.add("double", |body: Body| async move {
        let number: u64 = serde_json::from_slice(&body.read_all(100).await?)?;
        Ok(Body::whole((2 * number).to_string()))
    });
    router.add("refuse", |_: Body| async { Err(io::Error::other("not today")) });
    router.add("flood", |_: Body| async { Ok(Body::whole(vec![b' '; JSON_BYTES_MAX + 1])) });
    let tasks = town.nodes[1].node.tasks();
    router.add("sleep", move |_: Body| -> BoxFuture<io::Result<Body>> {
        let sleep = tasks.sleep(seconds(60));
        Box::pin(async move {
            sleep.await;
            Ok(Body::empty())
        })
    });
    assert_eq!(ask(&town, "double", 21).unwrap(), 42);
    let refused = ask(&town, "refuse", 0).unwrap_err();
    assert!(refused.to_string().contains("not today"), "{refused}");
    assert_eq!(ask(&town, "flood", 0).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(ask(&town, "sleep", 0).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(ask(&town, "guess", 0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    town.kill(1);
    town.start_with(1, |config| config.calls_max = 2);
    assert!(town.run_until(5, TestCluster::all_alive));
    let tasks = town.nodes[1].node.tasks();
    town.cluster(1).router().add("sleep", move |_: Body| {
        let sleep = tasks.sleep(seconds(20));
        async move {
            sleep.await;
            Ok(Body::empty())
        }
    });
    let member = town.member(0, 1).unwrap();
    for _ in 0..2 {
        let (cluster, member) = (town.cluster(0).clone(), member.clone());
        town.nodes[0].node.spawn(async move {
            // It ends when the test does.
            let _ = cluster.call(&member, "sleep", Body::empty()).await;
        });
    }
    town.world.run_for(seconds(1));
    let refused = ask(&town, "sleep", 0).unwrap_err();
    assert!(refused.to_string().contains("call limit reached"), "{refused}");
    assert_eq!(town.metric(1, "cluster_calls_in_flight"), 2);
    town.world.run_for(seconds(30));
    assert_eq!(town.metric(1, "cluster_calls_in_flight"), 0);
    assert!(town.metric(1, "cluster_calls_refused_total") >= 1);
}

#[test]
fn members_are_picked_by_the_seed() {
    let town = TestCluster::settled(5, 10);
    let members = town.cluster(0).members();
    let picked = town.cluster(0).pick(members.iter(), 4);
    assert_eq!(picked.len(), 4);
    let mut ids: Vec<_> = picked.iter().map(|member| member.facts.node).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(town.cluster(0).pick(members.iter(), 40).len(), 10);
}

#[test]
fn an_incompatible_peer_is_reported_and_no_member() {
    let town = TestCluster::settled(6, 2);
    let outsider = town.world.add_host("outsider");
    let at = town.nodes[0].node.address();
    let list = format!(r#"{{"protocol":2,"members":[{{"facts":{{"address":"{}"}}}}]}}"#, outsider.address());
    let asked = outsider.net().call(at, "cluster/exchange", Body::whole(list));
    let error = town.world.block_on(asked).unwrap_err().to_string();
    assert_eq!(error, "protocol version 1, but the request has version 2");
    outsider.net().send(town.nodes[1].node.address(), vec![2, 1, 9]);
    town.world.run_for(seconds(1));
    let told = |number: usize| town.cluster(number).incompatible_peers();
    let want = vec![IncompatiblePeer { address: Some(outsider.address()), protocol: 2 }];
    assert_eq!((told(0), told(1)), (want.clone(), want));
    assert_eq!(town.metric(0, "cluster_exchanges_incompatible_total"), 1);
    assert_eq!(town.metric(1, "cluster_packets_incompatible_total"), 1);
    assert_eq!(
        (town.metric(0, "cluster_version_skewed_nodes"), town.metric(1, "cluster_version_skewed_nodes")),
        (1, 1)
    );
    assert!((0..2).all(|number| town.cluster(number).members().len() == 2));
    town.world.run_for(seconds(130));
    assert_eq!((told(0), told(1), town.metric(0, "cluster_version_skewed_nodes")), (Vec::new(), Vec::new(), 0));
}

#[test]
fn version_skew_is_reported_while_the_member_is_live() {
    let mut town = TestCluster::new(7, 3);
    let Version { major, minor } = Version::OWN;
    town.start_with(0, |config| config.version = Version { major, minor: minor + 2 });
    town.start_with(1, |config| config.version = Version { major, minor: minor + 1 });
    town.start(2);
    assert!(town.run_until(30, TestCluster::all_alive), "{}", town.describe_views());
    let apart = |town: &TestCluster, one: usize, other: usize| town.member(one, other).unwrap().version_skew.is_some();
    assert!(town.run_until(10, |town| apart(town, 0, 2) && apart(town, 2, 0)));
    for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        assert!(!apart(&town, one, other), "{one} {other}");
    }
    assert_eq!([0, 1, 2].map(|number| town.metric(number, "cluster_version_skewed_nodes")), [1, 0, 1]);
    // It comes back as a neighbour.
    town.kill(0);
    town.start_with(0, |config| config.version = Version { major, minor: minor + 1 });
    assert!(town.run_until(30, |town| town.all_alive()
        && !apart(town, 2, 0)
        && town.metric(2, "cluster_version_skewed_nodes") == 0));
}

#[test]
fn a_leave_carries_the_latest_facts() {
    let town = TestCluster::settled(8, 3);
    town.cluster(1).update_facts(|facts| facts.queue.bytes = 5);
    assert!(town.run_until(5, is_known));
    town.cluster(1).update_facts(|facts| facts.queue.bytes = 6);
    assert!(town.run_until(5, is_known));
    town.cluster(1).update_facts(|facts| facts.queue.bytes = 0);
    let leaving = town.cluster(1).clone();
    town.world.block_on_host(&town.nodes[1].node, async move { leaving.leave().await }).unwrap();
    town.world.run_for(seconds(2));
    for number in [0, 2] {
        let member = town.member(number, 1).unwrap();
        assert_eq!((member.state, member.facts.queue.bytes), (MemberState::Left, 0));
    }
}
