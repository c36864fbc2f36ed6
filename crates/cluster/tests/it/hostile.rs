//! Datagrams and calls from outside of the cluster.

use bucksaw_env::{Body, Entropy as _, sim};
use proptest::prelude::*;

use crate::test_cluster::{TestCluster, seconds};

/// An outsider sends these to a settled cluster; nothing changes.
fn send_datagrams(town: &TestCluster, datagrams: &[Vec<u8>]) {
    let before: Vec<_> = town.live_nodes().map(|number| town.cluster(number).members()).collect();
    let outsider = town.world.add_host("outsider");
    let net = outsider.net();
    for datagram in datagrams {
        for number in town.live_nodes() {
            net.send(town.nodes[number].node.address(), datagram.clone());
        }
    }
    town.world.run_for(seconds(8));
    let after: Vec<_> = town.live_nodes().map(|number| town.cluster(number).members()).collect();
    assert_eq!(before, after);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_changes_nothing(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..50), kind in 0_u8..4, seed in 0_u64..3,
    ) {
        let town = TestCluster::settled(seed, 3);
        let count = datagrams.len() as u64;
        let like_ours: Vec<Vec<u8>> = datagrams.iter().map(|rest| [&[1, kind], rest.as_slice()].concat()).collect();
        send_datagrams(&town, &datagrams);
        send_datagrams(&town, &like_ours);
        for number in 0..3 {
            let counted = town.metric(number, "cluster_packets_malformed_total")
                + town.metric(number, "cluster_packets_unknown_kind_total")
                + town.metric(number, "cluster_packets_incompatible_total");
            prop_assert_eq!(counted, 2 * count);
        }
    }
}

#[test]
fn calls_with_nonsense_are_refused() {
    let town = TestCluster::settled(4, 2);
    let outsider = town.world.add_host("outsider");
    let entropy = sim::Entropy::seeded(9);
    for length in 0..200_u64 {
        let bytes: Vec<u8> = (0..length).map(|_| entropy.next_u64() as u8).collect();
        let asked = outsider.net().call(town.nodes[0].node.address(), "cluster/exchange", Body::whole(bytes));
        assert!(town.world.block_on(asked).is_err());
    }
    for (question, ok) in [
        (r#"{"protocol": 1, "members": []}"#, true),
        (r#"{"protocol": 1, "members": [7, {}, {"facts": {"node": "x"}}]}"#, true),
        (r#"{"protocol": 2, "members": []}"#, false),
        (r#"{"members": []}"#, false),
    ] {
        let asked = outsider.net().call(town.nodes[0].node.address(), "cluster/exchange", Body::whole(question));
        assert_eq!(town.world.block_on(asked).is_ok(), ok, "{question}");
    }
    town.world.run_for(seconds(5));
    assert!(town.all_alive(), "{}", town.describe_views());
    assert_eq!(town.cluster(0).members().len(), 2);
}

/// Who can send packets at all (only nodes that share the secret) can still not fill a node's memory.
#[test]
fn a_flood_of_invented_nodes_has_an_end() {
    let town = TestCluster::settled(5, 3);
    let outsider = town.world.add_host("outsider");
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
        let asked = outsider.net().call(town.nodes[0].node.address(), "cluster/exchange", Body::whole(question));
        assert!(town.world.block_on(asked).is_ok());
    }
    town.world.run_for(seconds(5));
    assert!(town.cluster(0).members().len() <= 1_001);
    assert!(town.metric(0, "cluster_members_rejected_total") >= 4_000);
    assert!(town.all_alive());
}
