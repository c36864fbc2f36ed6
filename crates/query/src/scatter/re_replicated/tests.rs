use std::sync::Arc;

use bucksaw_cluster::Roles;
use bucksaw_record::{Millis, Producer};

use super::*;

fn node(number: u64) -> Id {
    Id::new(Millis(1), Producer::new(number), 0)
}

/// Stores: each with whether it is gone, and whom it can do without.
fn members(stores: &[(bool, &[u64])]) -> Vec<Member> {
    let bare = |number: u64| Facts { roles: Roles { ingest: false, store: true }, ..Facts::new(node(number)) };
    let member = |(number, (is_gone, without)): (u64, &(bool, &[u64]))| {
        let made_good = without.iter().map(|other| bare(*other).fingerprint()).collect();
        let state = if *is_gone { MemberState::Down } else { MemberState::Alive };
        Member {
            facts: Arc::new(Facts { re_replicated: made_good, ..bare(number) }),
            state,
            since: Millis(0),
            duplicate_at: None,
            duplicate_suspected_at: None,
            version_skew: None,
        }
    };
    (0..).zip(stores).map(member).collect()
}

fn check(copies: usize, stores: &[(bool, &[u64])], want: &[u64]) {
    let found = re_replicated_stores(&members(stores), copies);
    assert_eq!(found, want.iter().map(|number| node(*number)).collect(), "{copies} copies, {stores:?}");
}

const GONE: bool = true;
const THERE: bool = false;

#[test]
fn a_store_is_re_replicated_after_a_pass_of_all_others() {
    check(2, &[(THERE, &[]), (THERE, &[]), (THERE, &[])], &[]);
    check(2, &[(GONE, &[]), (THERE, &[]), (THERE, &[0])], &[]);
    check(2, &[(GONE, &[]), (THERE, &[0]), (THERE, &[0])], &[0]);
    check(2, &[(THERE, &[]), (THERE, &[0]), (THERE, &[0])], &[]);
}

#[test]
fn stores_are_re_replicated_in_turn() {
    // The second is lost after it had walked, and before the others have walked again; then they have.
    check(2, &[(GONE, &[]), (GONE, &[0]), (THERE, &[0]), (THERE, &[0])], &[0]);
    check(2, &[(GONE, &[]), (GONE, &[0]), (THERE, &[0, 1]), (THERE, &[0])], &[0]);
    check(2, &[(GONE, &[]), (GONE, &[0]), (THERE, &[0, 1]), (THERE, &[0, 1])], &[0, 1]);
    // It had not walked: what these two alone had is seen by no walk.
    check(2, &[(GONE, &[]), (GONE, &[]), (THERE, &[0, 1]), (THERE, &[0, 1])], &[]);
    check(3, &[(GONE, &[]), (GONE, &[]), (THERE, &[0, 1]), (THERE, &[0, 1]), (THERE, &[0, 1])], &[0, 1]);
}

#[test]
fn as_many_as_the_replication_factor_are_not_re_replicated_at_once() {
    check(2, &[(GONE, &[]), (GONE, &[]), (THERE, &[0, 1]), (THERE, &[0, 1])], &[]);
    check(1, &[(GONE, &[]), (THERE, &[0]), (THERE, &[0])], &[]);
    // One is back and has walked.
    check(2, &[(GONE, &[]), (THERE, &[0]), (THERE, &[0, 1]), (THERE, &[0, 1])], &[0]);
}

#[test]
fn so_many_must_be_left_as_there_are_copies() {
    // A store that holds nothing can do without everybody.
    check(2, &[(GONE, &[]), (THERE, &[0])], &[]);
    check(2, &[(GONE, &[1]), (GONE, &[0])], &[]);
    check(2, &[(GONE, &[])], &[]);
}

#[test]
fn a_store_with_newer_facts_is_not_re_replicated() {
    let mut members = members(&[(GONE, &[]), (THERE, &[0]), (THERE, &[0])]);
    assert_eq!(re_replicated_stores(&members, 2).len(), 1);
    Arc::make_mut(&mut members[0].facts).version += 1;
    assert!(re_replicated_stores(&members, 2).is_empty());
}
