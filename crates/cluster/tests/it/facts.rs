//! Facts and calls.

use std::io;

use bucksaw_cluster::{ClusterVersion, IncompatiblePeer, MemberState};
use bucksaw_env::sim::NetworkConditions;
use bucksaw_env::{Body, BoxFuture};

use crate::test_cluster::{GossipCluster, seconds};

/// Whether all nodes have the newest facts of each.
fn are_facts_known(cluster: &GossipCluster) -> bool {
    cluster.live_nodes().all(|other| {
        let facts = cluster.cluster(other).facts();
        cluster.live_nodes().all(|number| cluster.member(number, other).is_some_and(|member| *member.facts == facts))
    })
}

#[test]
fn facts_reach_all_nodes_and_are_sent_at_most_once_a_second() {
    let cluster = GossipCluster::settled(1, 5);
    let sent = cluster.metric(2, "cluster_packets_sent_total");
    for bytes in 1..=100 {
        cluster.cluster(2).update_facts(|facts| facts.queue.bytes = bytes);
        cluster.world.run_for(std::time::Duration::from_millis(20));
    }
    assert!(cluster.run_until(2, are_facts_known));
    assert!((0..5).all(|number| cluster.member(number, 2).unwrap().facts.queue.bytes == 100));
    let sent = cluster.metric(2, "cluster_packets_sent_total") - sent;
    assert!(sent < 80, "{sent} datagrams");
}

#[test]
fn facts_of_lost_datagrams_arrive_by_digest_exchanges() {
    for seed in 0..3 {
        let cluster = GossipCluster::settled(seed, 8);
        // Long enough to lose the datagrams, too short for a node to be down.
        cluster.world.network().set_conditions(NetworkConditions { loss: 1.0, ..NetworkConditions::HEALTHY });
        for number in 0..8 {
            cluster.cluster(number).update_facts(|facts| facts.stored.bytes = 7);
        }
        cluster.world.run_for(seconds(1));
        cluster.world.network().set_conditions(NetworkConditions::HEALTHY);
        let reported =
            |one: usize, other| cluster.member(one, other).is_some_and(|member| member.facts.stored.bytes == 7);
        assert!((0..8).all(|one| (0..8).all(|other| one == other || !reported(one, other))));
        assert!(cluster.run_until(30, are_facts_known), "seed {seed}");
    }
}

#[test]
fn facts_beyond_their_bounds_are_not_published() {
    let cluster = GossipCluster::settled(2, 3);
    cluster.cluster(1).update_facts(|facts| facts.clients.http = Some("x".repeat(10_000)));
    cluster.world.run_for(seconds(5));
    assert!([0, 1].iter().all(|number| cluster.member(*number, 1).unwrap().facts.clients.http.is_none()));
    cluster.cluster(1).update_facts(|facts| facts.clients.http = Some("n1:7650".to_owned()));
    assert!(cluster.run_until(2, are_facts_known));
}

#[test]
fn fields_that_the_crate_sets_cannot_be_changed_from_outside() {
    let cluster = GossipCluster::settled(3, 3);
    let before = cluster.cluster(1).facts();
    cluster.cluster(1).update_facts(|facts| {
        facts.left = true;
        facts.version = 0;
        facts.incarnation = bucksaw_record::Id::MAX;
        facts.draining = true;
    });
    assert!(cluster.run_until(2, |cluster| cluster.member(0, 1).unwrap().facts.draining));
    let member = cluster.member(0, 1).unwrap();
    assert_eq!(
        (member.state, member.facts.left, member.facts.incarnation),
        (MemberState::Alive, false, before.incarnation)
    );
    assert!(member.facts.version > before.version);
}

/// One node calls another.
fn ask(cluster: &GossipCluster, name: &'static str, number: u64) -> io::Result<u64> {
    let (caller, member) = (cluster.cluster(0).clone(), cluster.member(0, 1).unwrap());
    let asked = async move { caller.call_json(&member, name, &number, seconds(2)).await };
    cluster.world.block_on_host(&cluster.nodes[0].node, asked).unwrap()
}

#[test]
fn calls_are_answered_by_name_and_within_bounds() {
    let mut cluster = GossipCluster::settled(4, 2);
    let router = cluster.cluster(1).router();
    router.add("double", |body: Body| async move {
        let number: u64 = serde_json::from_slice(&body.read_all(100).await?)?;
        Ok(Body::whole((2 * number).to_string()))
    });
    router.add("refuse", |_: Body| async { Err(io::Error::other("not today")) });
    router.add("flood", |_: Body| async { Ok(Body::whole(vec![b' '; bucksaw_rpc::MESSAGE_BYTES_MAX + 1])) });
    let tasks = cluster.nodes[1].node.tasks();
    router.add("sleep", move |_: Body| -> BoxFuture<io::Result<Body>> {
        let sleep = tasks.sleep(seconds(60));
        Box::pin(async move {
            sleep.await;
            Ok(Body::empty())
        })
    });
    assert_eq!(ask(&cluster, "double", 21).unwrap(), 42);
    let refused = ask(&cluster, "refuse", 0).unwrap_err();
    assert!(refused.to_string().contains("not today"), "{refused}");
    assert_eq!(ask(&cluster, "flood", 0).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(ask(&cluster, "sleep", 0).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(ask(&cluster, "guess", 0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    cluster.kill(1);
    cluster.start_with(1, |config| config.calls_max = 2);
    assert!(cluster.run_until(5, GossipCluster::all_alive));
    let tasks = cluster.nodes[1].node.tasks();
    cluster.cluster(1).router().add("sleep", move |_: Body| {
        let sleep = tasks.sleep(seconds(20));
        async move {
            sleep.await;
            Ok(Body::empty())
        }
    });
    let member = cluster.member(0, 1).unwrap();
    for _ in 0..2 {
        let (caller, member) = (cluster.cluster(0).clone(), member.clone());
        cluster.nodes[0].node.spawn(async move {
            // It ends with the test.
            let _ = caller.call(&member, "sleep", Body::empty()).await;
        });
    }
    cluster.world.run_for(seconds(1));
    let refused = ask(&cluster, "sleep", 0).unwrap_err();
    assert!(refused.to_string().contains("call limit reached"), "{refused}");
    assert_eq!(cluster.metric(1, "cluster_calls_in_flight"), 2);
    cluster.world.run_for(seconds(30));
    assert_eq!(cluster.metric(1, "cluster_calls_in_flight"), 0);
    assert!(cluster.metric(1, "cluster_calls_refused_total") >= 1);
}

#[test]
fn an_incompatible_peer_is_reported_and_is_no_member() {
    let cluster = GossipCluster::settled(6, 2);
    let outsider = cluster.world.add_host("outsider");
    let at = cluster.nodes[0].node.address();
    let list = format!(r#"{{"protocol":2,"members":[{{"facts":{{"address":"{}"}}}}]}}"#, outsider.address());
    let asked = outsider.net().call(at, "cluster/exchange", Body::whole(list));
    let error = cluster.world.block_on(asked).unwrap_err().to_string();
    assert_eq!(error, "protocol version 1, but the request has version 2");
    outsider.net().send(cluster.nodes[1].node.address(), vec![2, 1, 9]);
    cluster.world.run_for(seconds(1));
    let reported = |number: usize| cluster.cluster(number).incompatible_peers();
    let want = vec![IncompatiblePeer { address: Some(outsider.address()), protocol: 2 }];
    assert_eq!((reported(0), reported(1)), (want.clone(), want));
    assert_eq!(cluster.metric(0, "cluster_exchanges_incompatible_total"), 1);
    assert_eq!(cluster.metric(1, "cluster_packets_incompatible_total"), 1);
    assert_eq!(
        (cluster.metric(0, "cluster_version_skewed_nodes"), cluster.metric(1, "cluster_version_skewed_nodes")),
        (1, 1)
    );
    assert!((0..2).all(|number| cluster.cluster(number).members().len() == 2));
    cluster.world.run_for(seconds(130));
    assert_eq!(
        (reported(0), reported(1), cluster.metric(0, "cluster_version_skewed_nodes")),
        (Vec::new(), Vec::new(), 0)
    );
}

#[test]
fn version_skew_is_reported_while_the_member_is_live() {
    let mut cluster = GossipCluster::new(7, 3);
    let ClusterVersion { major, minor } = ClusterVersion::OWN;
    cluster.start_with(0, |config| config.version = ClusterVersion { major, minor: minor + 2 });
    cluster.start_with(1, |config| config.version = ClusterVersion { major, minor: minor + 1 });
    cluster.start(2);
    assert!(cluster.run_until(30, GossipCluster::all_alive), "{}", cluster.describe_views());
    let apart =
        |cluster: &GossipCluster, one: usize, other: usize| cluster.member(one, other).unwrap().version_skew.is_some();
    assert!(cluster.run_until(10, |cluster| apart(cluster, 0, 2) && apart(cluster, 2, 0)));
    for (one, other) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
        assert!(!apart(&cluster, one, other), "{one} {other}");
    }
    assert_eq!([0, 1, 2].map(|number| cluster.metric(number, "cluster_version_skewed_nodes")), [1, 0, 1]);
    // It returns with a compatible version.
    cluster.kill(0);
    cluster.start_with(0, |config| config.version = ClusterVersion { major, minor: minor + 1 });
    assert!(cluster.run_until(30, |cluster| cluster.all_alive()
        && !apart(cluster, 2, 0)
        && cluster.metric(2, "cluster_version_skewed_nodes") == 0));
}

#[test]
fn a_leave_carries_the_latest_facts() {
    let cluster = GossipCluster::settled(8, 3);
    cluster.cluster(1).update_facts(|facts| facts.queue.bytes = 5);
    assert!(cluster.run_until(5, are_facts_known));
    cluster.cluster(1).update_facts(|facts| facts.queue.bytes = 6);
    assert!(cluster.run_until(5, are_facts_known));
    cluster.cluster(1).update_facts(|facts| facts.queue.bytes = 0);
    let leaving = cluster.cluster(1).clone();
    cluster.world.block_on_host(&cluster.nodes[1].node, async move { leaving.leave().await }).unwrap();
    cluster.world.run_for(seconds(2));
    for number in [0, 2] {
        let member = cluster.member(number, 1).unwrap();
        assert_eq!((member.state, member.facts.queue.bytes), (MemberState::Left, 0));
    }
}
