use std::sync::Arc;

use bucksaw_cluster::Roles;
use bucksaw_record::{Millis, Producer};

use super::*;

fn node(number: u64) -> Id {
    Id::new(Millis(1), Producer::new(number), 0)
}

/// Stores, each with whether it is lost and which stores it has re-replicated.
fn members(stores: &[(bool, &[u64])]) -> Vec<Member> {
    let bare = |number: u64| Facts { roles: Roles { ingest: false, store: true }, ..Facts::new(node(number)) };
    let member = |(number, (is_lost, stores)): (u64, &(bool, &[u64]))| {
        let re_replicated = stores.iter().map(|other| bare(*other).fingerprint()).collect();
        let state = if *is_lost { MemberState::Down } else { MemberState::Alive };
        Member {
            facts: Arc::new(Facts { re_replicated, ..bare(number) }),
            state,
            since: Millis(0),
            duplicate_at: None,
            duplicate_suspected_at: None,
            version_skew: None,
        }
    };
    (0..).zip(stores).map(member).collect()
}

fn check(replication_factor: usize, stores: &[(bool, &[u64])], want: &[u64]) {
    let found = re_replicated_stores(&members(stores), replication_factor);
    assert_eq!(
        found,
        want.iter().map(|number| node(*number)).collect(),
        "replication factor {replication_factor}, {stores:?}"
    );
}

const LOST: bool = true;
const LIVE: bool = false;

#[test]
fn a_store_is_re_replicated_after_a_pass_of_all_others() {
    check(2, &[(LIVE, &[]), (LIVE, &[]), (LIVE, &[])], &[]);
    check(2, &[(LOST, &[]), (LIVE, &[]), (LIVE, &[0])], &[]);
    check(2, &[(LOST, &[]), (LIVE, &[0]), (LIVE, &[0])], &[0]);
    check(2, &[(LIVE, &[]), (LIVE, &[0]), (LIVE, &[0])], &[]);
}

#[test]
fn stores_are_re_replicated_in_turn() {
    // The second is lost after its pass and before another pass of the others; then they pass again.
    check(2, &[(LOST, &[]), (LOST, &[0]), (LIVE, &[0]), (LIVE, &[0])], &[0]);
    check(2, &[(LOST, &[]), (LOST, &[0]), (LIVE, &[0, 1]), (LIVE, &[0])], &[0]);
    check(2, &[(LOST, &[]), (LOST, &[0]), (LIVE, &[0, 1]), (LIVE, &[0, 1])], &[0, 1]);
    // The second is lost before its pass: no pass covers records of these two alone.
    check(2, &[(LOST, &[]), (LOST, &[]), (LIVE, &[0, 1]), (LIVE, &[0, 1])], &[]);
    check(3, &[(LOST, &[]), (LOST, &[]), (LIVE, &[0, 1]), (LIVE, &[0, 1]), (LIVE, &[0, 1])], &[0, 1]);
}

#[test]
fn as_many_as_the_replication_factor_are_not_re_replicated_at_once() {
    check(2, &[(LOST, &[]), (LOST, &[]), (LIVE, &[0, 1]), (LIVE, &[0, 1])], &[]);
    check(1, &[(LOST, &[]), (LIVE, &[0]), (LIVE, &[0])], &[]);
    // One is back and has completed a pass.
    check(2, &[(LOST, &[]), (LIVE, &[0]), (LIVE, &[0, 1]), (LIVE, &[0, 1])], &[0]);
}

#[test]
fn as_many_stores_as_the_replication_factor_must_remain() {
    // An empty store needs no other.
    check(2, &[(LOST, &[]), (LIVE, &[0])], &[]);
    check(2, &[(LOST, &[1]), (LOST, &[0])], &[]);
    check(2, &[(LOST, &[])], &[]);
}

#[test]
fn a_store_with_newer_facts_is_not_re_replicated() {
    let mut members = members(&[(LOST, &[]), (LIVE, &[0]), (LIVE, &[0])]);
    assert_eq!(re_replicated_stores(&members, 2).len(), 1);
    Arc::make_mut(&mut members[0].facts).version += 1;
    assert!(re_replicated_stores(&members, 2).is_empty());
}
