//! Two stores that hold the same records and divide a search.

use std::collections::{BTreeSet, HashSet};

use bucksaw_segment::stored::{IdSum, Interval};
use proptest::prelude::*;

use super::replication::context;
use super::*;
use crate::{ReplicaRun, ReplicaState, SearchShare, ShareStatus};

const ALL: (Id, Id) = (Id::MIN, Id::MAX);

/// A machine whose store sends its records to another one.
struct Pair {
    machine: StoreTestMachine,
    stores: [Arc<SegmentStore>; 2],
    puller: Puller,
}

impl Pair {
    fn start() -> Self {
        let machine = StoreTestMachine::start(sim::Fs::new(), config());
        let (env, metrics) = (machine.store.env.clone(), Metrics::new(&mut Registry::default()));
        let config = Config { replication_factor: 2, retention_age: None, ..config() };
        let store = Arc::new(SegmentStore::open(env, Path::new("/d/replicated"), config, metrics).unwrap());
        let (context, mut others) = context(&machine, &store, &[2], &[2]);
        let puller = Puller::new(context, Some(Arc::clone(&machine.queue)));
        Self { machine, stores: [store, others.remove(0)], puller }
    }

    fn put(&mut self, late_ms: u64) {
        self.machine.put(Durability::Fast, "a line of some length", late_ms);
    }

    fn gather_all(&self) {
        self.machine.advance(Duration::from_secs(3));
        while self.machine.tasks.run(self.puller.drain()) > 0 {}
    }

    fn states(&self) -> [ReplicaState; 2] {
        [0, 1].map(|store| self.stores[store].replica_state(ALL).unwrap())
    }
}

/// A share in which another store searches all of a state.
fn all_skipped(state: &ReplicaState) -> SearchShare {
    let run = |((group, interval), sum): (&(_, Interval), &IdSum)| ReplicaRun {
        group: *group,
        first: *interval,
        last: *interval,
        sum: *sum,
    };
    let mut skipped: Vec<ReplicaRun> = state.sums.iter().map(run).collect();
    // Without gaps, as a division has them: a block may cover intervals without records.
    let next: Vec<Interval> = skipped.iter().skip(1).map(|run| run.first).collect();
    skipped.iter_mut().zip(next).for_each(|(run, next)| run.last = Interval(next.0 - 1));
    SearchShare { token: state.token.clone(), skipped, only: None }
}

/// The ids in the blocks of a share, and its status.
fn selected(store: &SegmentStore, share: &SearchShare) -> (BTreeSet<Id>, ShareStatus) {
    let filter = BlockSelector {
        may_contain: &|_| true,
        may_match: &|_| true,
        retention: &StreamRetention::default(),
        times: (Millis(0), Millis::MAX),
        ids: ALL,
        expr: &bucksaw_record::Expr::All,
        stream: None,
        scope: None,
        share: Some(share),
    };
    let selection = store.select(&filter, &mut HashSet::new());
    let slices = selection.blocks.iter().flat_map(|block| block.source.slices(block.index).unwrap());
    let ids = slices.flat_map(|slice| (0..slice.rows.count).filter_map(move |row| slice.rows.id(row)));
    (ids.collect(), selection.share)
}

fn all_ids(store: &SegmentStore) -> BTreeSet<Id> {
    let segments = store.segments();
    let blocks = segments.iter().flat_map(|segment| (0..segment.footer().blocks.len()).map(move |at| (segment, at)));
    let rows = blocks.flat_map(|(segment, at)| segment.rows(at).unwrap());
    rows.flat_map(|rows| (0..rows.count).filter_map(move |row| rows.id(row))).collect()
}

#[test]
fn a_store_skips_what_another_one_holds_and_nothing_else() {
    let mut pair = Pair::start();
    (0..30).for_each(|number| pair.put(number * 600_000));
    pair.gather_all();
    let [one, other] = pair.states();
    assert!(one.sums == other.sums && one.sums.len() > 10 && one.text_bytes == other.text_bytes);
    assert_ne!(one.token, other.token, "stores are never mistaken for each other");
    assert_eq!(pair.machine.store.replica_state(ALL), None, "a store whose records have no replicas");
    for store in 0..2 {
        let share = all_skipped(&pair.states()[store]);
        assert_eq!(selected(&pair.stores[store], &share), (BTreeSet::new(), ShareStatus::Current));
        // Half of the intervals.
        let (left, right) = share.skipped.split_at(share.skipped.len() / 2);
        let half = SearchShare { skipped: left.to_vec(), ..share.clone() };
        let (ids, _) = selected(&pair.stores[store], &half);
        assert!(ids.iter().all(|id| Interval::of(*id) >= left[0].first) && ids.len() < 30);
        assert!(right.iter().all(|run| ids.iter().any(|id| Interval::of(*id) == run.first)));
        let only = SearchShare { skipped: Vec::new(), only: Some(right.to_vec()), ..share.clone() };
        assert!(
            right
                .iter()
                .all(|run| selected(&pair.stores[store], &only).0.iter().any(|id| Interval::of(*id) == run.first))
        );
        let none = SearchShare { only: Some(Vec::new()), ..share };
        assert_eq!(selected(&pair.stores[store], &none), (BTreeSet::new(), ShareStatus::Current));
    }
}

#[test]
fn what_came_or_went_since_the_division_is_searched() {
    let mut pair = Pair::start();
    (0..20).for_each(|number| pair.put(number * 600_000));
    pair.gather_all();
    let shares = pair.states().map(|state| all_skipped(&state));
    // A record that the other store may not have had comes to one interval.
    pair.put(600_000);
    pair.gather_all();
    for (store, share) in pair.stores.iter().zip(&shares) {
        let (ids, status) = selected(store, share);
        assert_eq!(status, ShareStatus::Outdated);
        assert!(!ids.is_empty() && ids.len() < 21, "{} ids", ids.len());
        let changed = ids.iter().map(|id| Interval::of(*id)).max().unwrap();
        let all = all_ids(store);
        assert!(all.iter().filter(|id| Interval::of(**id) == changed).all(|id| ids.contains(id)));
    }
    // A lost segment: others must not rely on the store, and it relies on no other for what it still has there.
    let shares = pair.states().map(|state| all_skipped(&state));
    let lost = Arc::clone(&pair.stores[0].segments()[0]);
    pair.stores[0].withdraw(&lost);
    let (ids, status) = selected(&pair.stores[0], &shares[0]);
    let touched: BTreeSet<_> = lost.reader().replica_digests().unwrap().iter().map(|digest| digest.interval).collect();
    let left = all_ids(&pair.stores[0]);
    assert!(
        status == ShareStatus::Refused
            && left.iter().filter(|id| touched.contains(&Interval::of(**id))).all(|id| ids.contains(id))
    );
    assert_eq!(selected(&pair.stores[1], &shares[1]), (BTreeSet::new(), ShareStatus::Current));
    assert_ne!(pair.states()[0].sums, pair.states()[1].sums);
    // Damage is a loss, too, and what is readable of the segment is searched.
    let shares = pair.states().map(|state| all_skipped(&state));
    let damaged = Arc::clone(&pair.stores[1].segments()[0]);
    let _ = damaged.mark_damaged(0, "a test");
    let (ids, status) = selected(&pair.stores[1], &shares[1]);
    assert!(status == ShareStatus::Refused && ids.contains(&damaged.reach().low));
    assert_ne!(pair.states()[1].token, shares[1].token);
}

#[test]
fn other_rules_of_retention_are_other_sums() {
    let mut pair = Pair::start();
    pair.put(0);
    pair.gather_all();
    let [one, _] = pair.states();
    let env = pair.stores[0].env.clone();
    let config = Config { retention_age: Some(Duration::from_secs(9)), ..pair.stores[0].config.clone() };
    let metrics = Metrics::new(&mut Registry::default());
    let reopened = SegmentStore::open(env, Path::new("/d/replicated"), config, metrics).unwrap();
    let other = reopened.replica_state(ALL).unwrap();
    assert!(one.sums.keys().eq(other.sums.keys()) && one.sums != other.sums && one.token != other.token);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However each store merges, the sums are those of the ids.
    #[test]
    fn sums_are_equal_whatever_is_merged(steps in proptest::collection::vec((0..4_u8, 0..90_u64), 1..120)) {
        let mut pair = Pair::start();
        for (step, number) in steps {
            match step {
                0 | 1 => pair.put(number * 60_000),
                2 => pair.gather_all(),
                _ => drop(pair.stores[number as usize % 2].compact(&|| false)),
            }
        }
        pair.gather_all();
        let [one, other] = pair.states();
        prop_assert_eq!(&one.sums, &other.sums);
        let mut naive: BTreeMap<Interval, IdSum> = BTreeMap::new();
        for id in all_ids(&pair.stores[0]) {
            naive.entry(Interval::of(id)).or_insert(pair.stores[0].retention_sum()).add(IdSum::of([id]));
        }
        let sums: BTreeMap<Interval, IdSum> = one.sums.iter().map(|((_, at), sum)| (*at, *sum)).collect();
        prop_assert_eq!(sums, naive);
    }
}
