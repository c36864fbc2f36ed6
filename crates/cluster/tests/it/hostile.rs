//! Datagrams and calls from outside the cluster.

use bucksaw_env::{Body, Entropy as _, sim};
use proptest::prelude::*;

use crate::test_cluster::{GossipCluster, seconds};

/// Sends these datagrams from outside to a settled cluster; nothing changes.
fn send_datagrams(cluster: &GossipCluster, datagrams: &[Vec<u8>]) {
    let before: Vec<_> = cluster.live_nodes().map(|number| cluster.cluster(number).members()).collect();
    let outsider = cluster.world.add_host("outsider");
    let net = outsider.net();
    for datagram in datagrams {
        for number in cluster.live_nodes() {
            net.send(cluster.nodes[number].node.address(), datagram.clone());
        }
    }
    cluster.world.run_for(seconds(8));
    let after: Vec<_> = cluster.live_nodes().map(|number| cluster.cluster(number).members()).collect();
    assert_eq!(before, after);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_datagrams_change_nothing(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..50), kind in 0_u8..4, seed in 0_u64..3,
    ) {
        let cluster = GossipCluster::settled(seed, 3);
        let count = datagrams.len() as u64;
        let like_ours: Vec<Vec<u8>> = datagrams.iter().map(|rest| [&[1, kind], rest.as_slice()].concat()).collect();
        send_datagrams(&cluster, &datagrams);
        send_datagrams(&cluster, &like_ours);
        for number in 0..3 {
            let counted = cluster.metric(number, "cluster_packets_malformed_total")
                + cluster.metric(number, "cluster_packets_unknown_kind_total")
                + cluster.metric(number, "cluster_packets_incompatible_total");
            prop_assert_eq!(counted, 2 * count);
        }
    }
}

#[test]
fn malformed_calls_are_refused() {
    let cluster = GossipCluster::settled(4, 2);
    let outsider = cluster.world.add_host("outsider");
    let entropy = sim::Entropy::seeded(9);
    for length in 0..200_u64 {
        let bytes: Vec<u8> = (0..length).map(|_| entropy.next_u64() as u8).collect();
        let asked = outsider.net().call(cluster.nodes[0].node.address(), "cluster/exchange", Body::whole(bytes));
        assert!(cluster.world.block_on(asked).is_err());
    }
    for (question, ok) in [
        (r#"{"protocol": 1, "members": []}"#, true),
        (r#"{"protocol": 1, "members": [7, {}, {"facts": {"node": "x"}}]}"#, true),
        (r#"{"protocol": 2, "members": []}"#, false),
        (r#"{"members": []}"#, false),
    ] {
        let asked = outsider.net().call(cluster.nodes[0].node.address(), "cluster/exchange", Body::whole(question));
        assert_eq!(cluster.world.block_on(asked).is_ok(), ok, "{question}");
    }
    cluster.world.run_for(seconds(5));
    assert!(cluster.all_alive(), "{}", cluster.describe_views());
    assert_eq!(cluster.cluster(0).members().len(), 2);
}

/// Packets of nodes that have the secret cannot use up a node's memory.
#[test]
fn invented_nodes_are_limited() {
    let cluster = GossipCluster::settled(5, 3);
    let outsider = cluster.world.add_host("outsider");
    let id = |number: u64| bucksaw_record::Id::from_bits(u128::from(number) << 40);
    for batch in 0..10 {
        let members: Vec<String> = (0..500)
            .map(|number| {
                let (node, port) = (id(1 + batch * 500 + number), 1_000 + number + batch * 500);
                format!(
                    r#"{{"facts": {{"node": "{node}", "incarnation": "{}", "address": "10.9.9.9:{port}"}}}}"#,
                    id(0)
                )
            })
            .collect();
        let question = format!(r#"{{"protocol": 1, "members": [{}]}}"#, members.join(","));
        let asked = outsider.net().call(cluster.nodes[0].node.address(), "cluster/exchange", Body::whole(question));
        assert!(cluster.world.block_on(asked).is_ok());
    }
    cluster.world.run_for(seconds(5));
    assert!(cluster.cluster(0).members().len() <= 1_001);
    assert!(cluster.metric(0, "cluster_members_rejected_total") >= 4_000);
    assert!(cluster.all_alive());
}
