use bucksaw_record::Millis;
use proptest::prelude::*;

use super::*;

pub(crate) fn id(producer: u64, sequence: u32) -> Id {
    Id::new(Millis(9), Producer::new(producer), sequence)
}

pub(crate) fn ids(of: &[(u64, u32)]) -> IdSet {
    let mut ids = IdSet::default();
    of.iter().for_each(|(producer, sequence)| ids.add(id(*producer, *sequence), 1));
    ids
}

#[test]
fn consecutive_records_take_few_bytes() {
    let mut many = IdSet::default();
    many.add(id(1, 5), 100_000);
    assert_eq!(many.len(), 100_000);
    assert!(many.contains(id(1, 100_004)) && !many.contains(id(1, 100_005)) && !many.contains(id(2, 5)));
    assert!(many.encode().len() < 60);
    let mut last = IdSet::default();
    last.add(id(1, u32::MAX), 1);
    assert_eq!(last.len(), 1);
    last.add(id(1, 1), 0);
    assert_eq!(last.len(), 1);
}

#[test]
fn other_bytes_are_refused() {
    let good = ids(&[(1, 1), (2, 7)]).encode();
    assert!(IdSet::decode(&good).is_some());
    assert_eq!(IdSet::decode(&[]), Some(IdSet::default()));
    assert_eq!(IdSet::decode(&good[..good.len() - 1]), None);
    assert_eq!(IdSet::decode(&good[4..]), None);
    let (one, two) = (ids(&[(1, 1)]).encode(), ids(&[(2, 7)]).encode());
    assert_eq!(IdSet::decode(&[two.clone(), one.clone()].concat()), None, "producers ascend");
    assert_eq!(IdSet::decode(&[one.clone(), one].concat()), None, "producers are unique");
    let mut beyond = two;
    beyond[7] = 1;
    assert_eq!(IdSet::decode(&beyond), None, "producers have 48 bits");
}

proptest! {
    #[test]
    fn operations_equal_those_of_plain_sets(
        a in prop::collection::btree_set((0_u64..4, 0_u32..50), 0..60),
        b in prop::collection::btree_set((0_u64..4, 0_u32..50), 0..60),
    ) {
        let set = |of: &std::collections::BTreeSet<(u64, u32)>| ids(&of.iter().copied().collect::<Vec<_>>());
        let (one, other) = (set(&a), set(&b));
        prop_assert_eq!(one.intersection(&other), set(&a.intersection(&b).copied().collect()));
        prop_assert_eq!(one.difference(&other), set(&a.difference(&b).copied().collect()));
        let mut joined = one.clone();
        joined.union_with(&other);
        prop_assert_eq!(&joined, &set(&a.union(&b).copied().collect()));
        prop_assert_eq!(joined.len(), a.union(&b).count() as u64);
        prop_assert_eq!(IdSet::decode(&joined.clone().encode()), Some(joined));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(ids) = IdSet::decode(&bytes) {
            prop_assert_eq!(IdSet::decode(&ids.clone().encode()), Some(ids));
        }
    }
}
