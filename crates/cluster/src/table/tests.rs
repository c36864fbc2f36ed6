use bucksaw_record::Producer;
use proptest::prelude::*;

use super::*;
use crate::ForgetError;

const REMEMBER: Duration = Duration::from_secs(1_000);
const GRACE: Duration = Duration::from_secs(3);
const DUPLICATE_AFTER: Duration = Duration::from_secs(10);

fn id(number: u64) -> Id {
    Id::new(Millis(number), Producer::new(1), 0)
}

fn at(second: u64) -> ClockReading {
    ClockReading { uptime: Duration::from_secs(second), wall: Millis(1_000_000 + second * 1_000) }
}

fn address(node: u64) -> SocketAddr {
    ([10, 0, 0, node as u8], 7_659).into()
}

fn entry(node: u64, incarnation: u64, version: u64) -> Entry {
    let facts = Facts { incarnation: id(incarnation), version, address: address(node), ..Facts::new(id(node)) };
    Entry { facts, departure: None, live: None, bootstrapping: false }
}

fn departed(entry: Entry, reason: DepartureReason, seconds: u64) -> Entry {
    Entry { departure: Some(Departure::new(reason, Duration::from_secs(seconds))), ..entry }
}

fn seen(node: u64, incarnation: u64) -> LiveMember {
    let identity = Identity { node: id(node), incarnation: id(incarnation), address: address(node) };
    LiveMember { identity, suspect: false }
}

fn table() -> MemberTable {
    MemberTable::new(id(0), TableTimeouts { remember: REMEMBER, grace: GRACE, duplicate_after: DUPLICATE_AFTER })
}

/// The states of all nodes, by number.
fn states(table: &MemberTable, now: ClockReading) -> Vec<(u64, MemberState)> {
    table.members(now).into_iter().map(|member| (member.facts.node.time().0, member.state)).collect()
}

#[test]
fn the_newest_facts_win_in_any_order() {
    let mut table = table();
    let check = |table: &mut MemberTable, incarnation, version, want, facts| {
        assert_eq!(table.merge(entry(1, incarnation, version), at(0)), want);
        assert_eq!(table.members(at(0))[0].facts.incarnation_and_version(), facts);
    };
    check(&mut table, 5, 2, MergeOutcome::Presence, (id(5), 2));
    check(&mut table, 5, 1, MergeOutcome::Unchanged, (id(5), 2));
    check(&mut table, 5, 3, MergeOutcome::Facts, (id(5), 3));
    check(&mut table, 4, 9, MergeOutcome::Unchanged, (id(5), 3));
    check(&mut table, 6, 1, MergeOutcome::Presence, (id(6), 1));
    check(&mut table, 5, 4, MergeOutcome::Unchanged, (id(6), 1));
}

#[test]
fn fields_dropped_by_an_older_node_are_restored_from_others() {
    let mut table = table();
    let forwarded = |minor| {
        let mut entry = entry(1, 5, 2);
        entry.facts.protocol_minor = minor;
        entry
    };
    let check = |table: &mut MemberTable, minor, want, known| {
        assert_eq!(table.merge(forwarded(minor), at(0)), want);
        assert_eq!(table.members(at(0))[0].facts.protocol_minor, known);
    };
    check(&mut table, 0, MergeOutcome::Presence, 0);
    check(&mut table, 2, MergeOutcome::Facts, 2);
    check(&mut table, 0, MergeOutcome::Unchanged, 2);
    check(&mut table, 2, MergeOutcome::Unchanged, 2);
}

#[test]
fn a_member_reported_by_others_only_is_live_for_the_grace_period() {
    let mut table = table();
    table.merge(entry(1, 1, 1), at(0));
    table.update_liveness(&[], at(2));
    assert_eq!(states(&table, at(2)), [(1, MemberState::Suspect)]);
    table.update_liveness(&[], at(3));
    assert_eq!(states(&table, at(3)), [(1, MemberState::Down)]);
    assert_eq!(table.unreachable(), [(id(1), address(1))]);
}

#[test]
fn a_member_is_down_while_foca_does_not_have_it() {
    let mut table = table();
    table.merge(entry(1, 1, 1), at(0));
    let change = |state| [PresenceChange { node: id(1), address: address(1), state: Some(state) }];
    assert_eq!(table.update_liveness(&[seen(1, 1)], at(1)), change(MemberState::Alive));
    assert_eq!(table.update_liveness(&[seen(1, 1)], at(2)), []);
    assert_eq!(
        table.update_liveness(&[LiveMember { suspect: true, ..seen(1, 1) }], at(3)),
        change(MemberState::Suspect)
    );
    assert_eq!(table.update_liveness(&[], at(4)), change(MemberState::Down));
    assert_eq!(table.members(at(9))[0].since, at(4).wall);
    // A reported departure is ignored while foca has it.
    table.update_liveness(&[seen(1, 1)], at(5));
    for reason in [DepartureReason::Down, DepartureReason::Forgotten] {
        assert_eq!(table.merge(departed(entry(1, 1, 1), reason, 1), at(5)), MergeOutcome::Unchanged);
    }
    assert_eq!(states(&table, at(5)), [(1, MemberState::Alive)]);
}

#[test]
fn a_restarted_member_is_alive_before_its_facts_arrive() {
    let mut table = table();
    let mut left = entry(1, 1, 7);
    left.facts.left = true;
    table.merge(left, at(0));
    assert_eq!(states(&table, at(0)), [(1, MemberState::Left)]);
    let moved = LiveMember { identity: Identity { address: address(9), ..seen(1, 2).identity }, suspect: false };
    table.update_liveness(&[moved], at(1));
    let member = &table.members(at(1))[0];
    assert_eq!((member.state, member.facts.address, member.facts.left), (MemberState::Alive, address(9), false));
    assert_eq!(table.missing_facts(&[moved]).collect::<Vec<_>>(), [moved.identity]);
    assert_eq!(table.merge(entry(1, 2, 1), at(1)), MergeOutcome::Facts);
    assert_eq!(table.missing_facts(&[moved]).count(), 0);
}

#[test]
fn a_member_that_leaves_has_left_at_once_and_is_not_down_later() {
    let mut table = table();
    table.merge(entry(1, 1, 1), at(0));
    table.update_liveness(&[seen(1, 1)], at(0));
    let mut leave = entry(1, 1, 2);
    leave.facts.left = true;
    assert_eq!(table.merge(leave, at(1)), MergeOutcome::Presence);
    table.update_liveness(&[seen(1, 1)], at(1));
    assert_eq!(states(&table, at(1)), [(1, MemberState::Left)]);
    table.update_liveness(&[], at(2));
    assert_eq!(states(&table, at(2)), [(1, MemberState::Left)]);
    assert_eq!(table.unreachable(), []);
    // A node that has not received the leave reports it as down.
    table.merge(departed(entry(1, 1, 1), DepartureReason::Down, 1), at(3));
    assert_eq!(states(&table, at(3)), [(1, MemberState::Left)]);
}

#[test]
fn a_forgotten_member_returns_only_by_itself() {
    let mut table = table();
    assert_eq!(table.forget(id(1), at(0)), Err(ForgetError::Unknown));
    assert_eq!(table.forget(id(0), at(0)), Err(ForgetError::Live));
    table.merge(entry(1, 1, 1), at(0));
    table.update_liveness(&[seen(1, 1)], at(0));
    assert_eq!(table.forget(id(1), at(0)), Err(ForgetError::Live));
    table.update_liveness(&[], at(1));
    assert_eq!(table.forget(id(1), at(1)), Ok(()));
    assert_eq!(states(&table, at(1)), []);
    assert_eq!(table.forget(id(1), at(1)), Err(ForgetError::Unknown));
    // Nodes that have not received it do not reintroduce the member, also not with newer facts.
    table.merge(departed(entry(1, 1, 5), DepartureReason::Down, 900), at(2));
    table.update_liveness(&[], at(2));
    assert_eq!(states(&table, at(2)), []);
    // The tombstone spreads.
    let tombstone = table.entry(id(1), at(2)).unwrap();
    let mut other = self::table();
    other.merge(departed(entry(1, 1, 1), DepartureReason::Down, 0), at(2));
    assert_eq!(other.merge(tombstone, at(2)), MergeOutcome::Presence);
    assert_eq!(states(&other, at(2)), []);
    table.update_liveness(&[seen(1, 1)], at(3));
    assert_eq!(states(&table, at(3)), [(1, MemberState::Alive)]);
}

#[test]
fn departed_members_expire_and_are_not_reintroduced() {
    let mut table = table();
    table.merge(departed(entry(1, 1, 1), DepartureReason::Down, 100), at(0));
    // The highest reported age is used.
    table.merge(departed(entry(1, 1, 1), DepartureReason::Down, 200), at(0));
    table.merge(departed(entry(1, 1, 1), DepartureReason::Down, 50), at(0));
    table.update_liveness(&[], at(799));
    assert_eq!(states(&table, at(799)), [(1, MemberState::Down)]);
    let change = PresenceChange { node: id(1), address: address(1), state: None };
    assert_eq!(table.update_liveness(&[], at(800)), [change]);
    assert_eq!(table.merge(departed(entry(1, 1, 1), DepartureReason::Down, 1_000), at(801)), MergeOutcome::Unchanged);
    assert_eq!(states(&table, at(801)), []);
}

#[test]
fn a_copied_data_directory_is_distinguished_from_a_move() {
    let mut table = table();
    table.merge(entry(1, 1, 1), at(0));
    let copy = LiveMember { identity: Identity { address: address(9), ..seen(1, 2).identity }, suspect: false };
    let both = [seen(1, 1), copy];
    table.update_liveness(&both, at(0));
    table.update_liveness(&both, at(9));
    assert_eq!(table.members(at(9))[0].duplicate_at, None);
    let member = table.members(at(10)).remove(0);
    assert_eq!((member.duplicate_at, member.facts.address), (Some(address(1)), address(9)));
    table.update_liveness(&[copy], at(11));
    assert_eq!(table.members(at(11))[0].duplicate_at, None);
    // The id of this node, used by another process.
    table.update_liveness(
        &[seen(0, 1), LiveMember { identity: Identity { address: address(9), ..seen(0, 2).identity }, suspect: false }],
        at(20),
    );
    assert!(table.is_own_id_duplicated());
    table.merge(entry(0, 2, 1), at(20));
    assert_eq!(table.highest_own_incarnation, id(2));
    assert_eq!(table.duplicates(at(30)).get(&id(0)), Some(&DuplicateId { older: address(0), newer: address(9) }));
}

#[test]
fn the_number_of_members_is_limited() {
    let mut table = table();
    table.merge(departed(entry(1, 1, 1), DepartureReason::Left, 5), at(0));
    table.merge(departed(entry(2, 1, 1), DepartureReason::Forgotten, 9), at(0));
    for node in 3..=MEMBERS_MAX as u64 {
        assert_eq!(table.merge(entry(node, 1, 1), at(0)), MergeOutcome::Presence);
    }
    // No entry is removed for a departed member; the oldest tombstone is removed for one that may be live.
    assert_eq!(table.merge(departed(entry(5_000, 1, 1), DepartureReason::Down, 0), at(0)), MergeOutcome::Full);
    assert_eq!(table.merge(entry(5_001, 1, 1), at(0)), MergeOutcome::Presence);
    assert!(table.entry(id(2), at(0)).is_none() && table.entry(id(1), at(0)).is_some());
    assert_eq!(table.merge(entry(5_002, 1, 1), at(0)), MergeOutcome::Presence);
    assert_eq!(table.merge(entry(5_003, 1, 1), at(0)), MergeOutcome::Full);
    assert_eq!(table.entries(at(0)).len(), MEMBERS_MAX);
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let reason =
        prop_oneof![Just(DepartureReason::Down), Just(DepartureReason::Left), Just(DepartureReason::Forgotten)];
    let departure = proptest::option::of(
        (reason, 0_u64..2_000).prop_map(|(reason, s)| Departure::new(reason, Duration::from_secs(s))),
    );
    (1_u64..4, 1_u64..3, 0_u64..4, departure, any::<bool>()).prop_map(
        |(node, incarnation, version, departure, left)| {
            let mut entry = Entry { departure, ..entry(node, incarnation, version) };
            // A leave has the last version of a node.
            entry.facts.left = left && version == 3;
            entry
        },
    )
}

proptest! {
    /// Two nodes that merge the same entries in different orders, and then exchange digests, have the same members.
    #[test]
    fn lists_converge(mut entries in proptest::collection::vec(any_entry(), 0..12), seed: u64) {
        // Equal versions have equal facts.
        let facts: BTreeMap<_, _> = entries.iter().map(|entry| ((entry.facts.node, entry.facts.incarnation_and_version()), entry.facts.clone())).collect();
        for entry in &mut entries {
            entry.facts = facts[&(entry.facts.node, entry.facts.incarnation_and_version())].clone();
        }
        let (mut one, mut other) = (table(), table());
        for entry in &entries {
            one.merge(entry.clone(), at(0));
        }
        let entropy = bucksaw_env::sim::Entropy::seeded(seed);
        let count = entries.len();
        for entry in crate::sampling::sample(&entropy, entries, count) {
            other.merge(entry, at(0));
        }
        for _ in 0..2 {
            let (sent, received) = (one.entries(at(1)), other.entries(at(1)));
            sent.into_iter().for_each(|entry| { other.merge(entry, at(1)); });
            received.into_iter().for_each(|entry| { one.merge(entry, at(1)); });
        }
        one.update_liveness(&[], at(10));
        other.update_liveness(&[], at(10));
        let known = |table: &MemberTable| -> Vec<_> {
            let entries = table.entries(at(10)).into_iter();
            entries.map(|entry| (entry.facts, entry.departure.map(|departure| departure.reason))).collect()
        };
        prop_assert_eq!(known(&one), known(&other));
    }
}
