//! What repair reads of a store, and the segments that it makes.

use super::*;
use crate::repair::proof::Proof;
use crate::repair::{IdSet, LocalIds, LocalScan, RetentionBounds, TimeRange};

/// A store with late records, merged and unmerged segments, and records that are there twice.
fn filled() -> (StoreTestMachine, Arc<SegmentStore>) {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), Config { block_bytes: 400, ..config() });
    for round in 0..10_u64 {
        for at in 0..8 {
            let late = if at == 4 { 9_000 * (round % 3) } else { 0 };
            machine.put(Durability::Fast, &format!("round {round} line {at} {}", "x".repeat(at * 9)), late);
        }
        machine.gather_all();
        if round == 6 {
            while machine.store.compact(&|| false).unwrap() > 0 {}
        }
    }
    let mut registry = Registry::default();
    let env = machine.store.env.clone();
    let store = SegmentStore::open(env, Path::new("/d/store"), config(), Metrics::new(&mut registry)).unwrap();
    (machine, Arc::new(store))
}

fn scan_local(store: &SegmentStore, window: TimeRange, now: Millis, verify: bool) -> LocalIds {
    let throttle = store.repair_throttle.begin(None);
    let bounds =
        LocalScan { range: window, now, fresh_age_max: Duration::from_secs(10), retention: RetentionBounds::default() };
    store.scan_local_ids(&bounds, verify, &throttle)
}

fn all(machine: &StoreTestMachine) -> IdSet {
    let mut ids = IdSet::default();
    machine.sent.keys().for_each(|id| ids.add(*id, 1));
    ids
}

/// A time at which no record is fresh.
fn later(machine: &StoreTestMachine) -> Millis {
    Millis(machine.clock.unix_ms() + 60_000)
}

#[test]
fn all_ids_are_found_by_row_metadata_alone() {
    let (machine, store) = filled();
    let found = scan_local(&store, TimeRange::ALL, later(&machine), false);
    assert_eq!((&found.ids, &found.fresh), (&all(&machine), &IdSet::default()));
    let bytes: u64 = store.segments().iter().map(|segment| segment.file_bytes()).sum();
    assert!(found.bytes > 0 && found.bytes < bytes / 2, "{} of {bytes}", found.bytes);
    assert_eq!(store.held_ids(TimeRange::ALL, &all(&machine)), all(&machine));
    let middle = TimeRange { from: Millis(1_700_000_006_000), to: Millis(1_700_000_012_000) };
    let of_it: Vec<Id> = machine.sent.keys().filter(|id| middle.contains(**id)).copied().collect();
    assert!(of_it.len() > 5 && of_it.len() < machine.sent.len() / 2);
    let found = scan_local(&store, middle, later(&machine), false);
    assert!(found.ids.len() == of_it.len() as u64 && of_it.iter().all(|id| found.ids.contains(*id)));
    assert_eq!(store.held_ids(middle, &all(&machine)), found.ids);
}

#[test]
fn records_that_a_disk_fails_to_read_once_are_not_missing() {
    for verify in [false, true] {
        let (machine, store) = filled();
        machine.fs.fail_reads_of("/store/", true);
        assert!(scan_local(&store, TimeRange::ALL, later(&machine), verify).is_incomplete);
        machine.fs.fail_reads_of("/store/", false);
        let found = scan_local(&store, TimeRange::ALL, later(&machine), verify);
        assert_eq!((found.is_incomplete, found.ids), (false, all(&machine)));
    }
}

#[test]
fn what_came_a_moment_ago_is_fresh() {
    let (machine, store) = filled();
    let found = scan_local(&store, TimeRange::ALL, Millis(machine.clock.unix_ms()), false);
    let (old, fresh) = (found.ids.len(), found.fresh.len());
    // Gathered every three seconds, eight at a time; the margin is ten seconds.
    assert_eq!((old + fresh, fresh), (machine.sent.len() as u64, 32));
    assert!(store.segments().iter().any(|segment| segment.footer().merge.is_some()), "merging makes nothing fresh");
}

/// Otherwise a store that still has them would copy them to one that has removed them.
#[test]
fn records_past_the_retention_of_their_stream_are_not_repaired() {
    let (machine, _) = filled();
    let ids_with = |age: Option<u64>| {
        let age = age.map(Duration::from_secs);
        let streams = LabelScope::new(Labels::parse("app=a").unwrap());
        let config = Config { retention_labels: vec![LabelRetention { streams, age }], ..config() };
        let metrics = Metrics::new(&mut Registry::default());
        let store = SegmentStore::open(machine.store.env.clone(), Path::new("/d/store"), config, metrics).unwrap();
        let throttle = store.repair_throttle.begin(None);
        // The other streams are about to expire too.
        let retention = RetentionBounds { age_ms: Some(120_000), since_ms: 0 };
        let (range, fresh_age_max) = (TimeRange::ALL, Duration::from_secs(10));
        let bounds = LocalScan { range, now: later(&machine), fresh_age_max, retention };
        store.scan_local_ids(&bounds, false, &throttle).ids
    };
    let all = machine.sent.len() as u64;
    assert_eq!(ids_with(Some(3_600)).len(), all);
    assert_eq!(ids_with(Some(30)).len(), all - all / 3, "every third record has the label");
    assert_eq!(ids_with(None).len(), all);
}

#[test]
fn some_records_become_a_segment_of_their_own() {
    let (machine, store) = filled();
    let names = machine.store_file_names();
    let ranges = [TimeRange::ALL, TimeRange { from: Millis(1_700_000_005_000), to: Millis(1_700_000_020_000) }];
    for (window, every) in ranges.into_iter().flat_map(|window| [(window, 1), (window, 2), (window, 7)]) {
        let chosen: BTreeMap<Id, String> = machine.sent.clone().into_iter().step_by(every).collect();
        let mut ids = IdSet::default();
        chosen.keys().for_each(|id| ids.add(*id, 1));
        let extract = store.extract(window, &Arc::new(ids)).unwrap().unwrap();
        let mut found = BTreeMap::new();
        for block in 0..extract.stored.footer().blocks.len() {
            for chunk in extract.stored.block(block).unwrap().chunks() {
                for (row, record) in (0..).zip(chunk.records()) {
                    let text = String::from_utf8_lossy(record).into_owned();
                    assert!(found.insert(chunk.rows.id(row).unwrap(), text).is_none(), "each is there once");
                }
            }
        }
        let want: BTreeMap<Id, String> = chosen.into_iter().filter(|(id, _)| window.contains(*id)).collect();
        assert_eq!(found, want);
        assert!(extract.stored.footer().sources.is_empty(), "it does not have all that they had");
        assert!(!store.has(extract.stored.id()), "it is not shown");
        assert_eq!(machine.store_file_names().len(), names.len() + 1);
        drop(extract);
        assert_eq!(machine.store_file_names(), names);
    }
    let mut others = IdSet::default();
    others.add(Id::new(Millis(1_700_000_000_000), Producer::new(7), 0), 9);
    assert!(store.extract(TimeRange::ALL, &Arc::new(others)).unwrap().is_none());
    assert_eq!(machine.store_file_names(), names);
}

#[test]
fn damaged_blocks_are_not_held() {
    let (machine, store) = filled();
    let segment = Arc::clone(&store.segments()[2]);
    let entry = segment.footer().blocks[0].clone();
    let path = segment.reader().path().to_owned();
    // In its text.
    machine.fs.corrupt(&path, entry.offset + entry.rows_bytes() + 3..entry.offset + entry.packed_bytes() + 1);
    let now = later(&machine);
    assert_eq!(scan_local(&store, TimeRange::ALL, now, false).ids, all(&machine), "the rows are sound");
    let found = scan_local(&store, TimeRange::ALL, now, true);
    assert_eq!(found.ids.len(), all(&machine).len() - entry.summary.records);
    assert_eq!(store.held_ids(TimeRange::ALL, &all(&machine)), found.ids, "and replies to other stores omit them");
    assert!(store.extract(TimeRange::ALL, &Arc::new(all(&machine))).unwrap().is_some());
    // In its rows.
    let other = Arc::clone(&store.segments()[3]);
    let entry = other.footer().blocks[0].clone();
    machine.fs.corrupt(other.reader().path(), entry.offset..entry.offset + entry.packed_bytes() + 1);
    let left = scan_local(&store, TimeRange::ALL, now, false).ids;
    assert_eq!(left.len(), found.ids.len() - entry.summary.records);
    assert_eq!((segment.damaged_block_count(), other.damaged_block_count()), (1, 1));
}

/// A store that keeps two copies, over the files of another.
fn reopen(machine: &StoreTestMachine, config: Config) -> SegmentStore {
    let env = machine.store.env.clone();
    let config = Config { replication_factor: 2, ..config };
    SegmentStore::open(env, Path::new("/d/store"), config, Metrics::new(&mut Registry::default())).unwrap()
}

/// Damages the text of a block and reads it.
fn corrupt_block(machine: &StoreTestMachine, segment: &StoredSegment, block: usize) {
    let entry = &segment.footer().blocks[block];
    let text = entry.offset + entry.rows_bytes() + 3..entry.offset + entry.packed_bytes() + 1;
    machine.fs.corrupt(segment.reader().path(), text);
    assert!(segment.block(block).is_err());
}

/// Lets the peers prove that they hold the damaged records.
fn mark_re_replicated(store: &SegmentStore) {
    for broken in store.damaged_segments() {
        store.persist_damage(&DamagedSegment { proof: Proof::proven(), ..broken });
    }
    assert!(store.damaged_segments().iter().all(DamagedSegment::is_re_replicated));
}

fn files_with_suffix(machine: &StoreTestMachine, end: &str) -> Vec<String> {
    machine.store_file_names().into_iter().filter(|name| name.ends_with(end)).collect()
}

#[test]
fn a_re_replicated_block_is_remembered_as_damaged() {
    let (machine, _) = filled();
    let store = reopen(&machine, config());
    let at = store.segments().iter().position(|segment| segment.footer().blocks.len() > 2).unwrap();
    let segment = Arc::clone(&store.segments()[at]);
    let sound = machine.fs.live_bytes(segment.reader().path()).unwrap();
    corrupt_block(&machine, &segment, 0);
    let block = &segment.footer().blocks[0].summary;
    let damage = segment.damage().unwrap();
    assert_eq!((damage.low, damage.high), (block.low.time(), block.high.time()), "the time of the block alone");
    assert!(!damage.is_re_replicated() && segment.re_replicated_blocks().is_empty());
    store.update_metrics();
    let damaged_blocks =
        |store: &SegmentStore| (store.metrics.damaged.get(), store.metrics.damaged_re_replicated.get());
    assert_eq!(damaged_blocks(&store), (1, 0));
    mark_re_replicated(&store);
    assert_eq!((damaged_blocks(&store), segment.re_replicated_blocks()), ((0, 1), [0].into()));

    let store = reopen(&machine, config());
    let left = all(&machine).len() - block.records;
    assert_eq!(
        scan_local(&store, TimeRange::ALL, later(&machine), false).ids.len(),
        left,
        "others read that it is not held"
    );
    assert_eq!((damaged_blocks(&store), store.segments()[at].re_replicated_blocks()), ((0, 1), [0].into()));
    corrupt_block(&machine, &store.segments()[at], 1);
    assert_eq!(store.segments()[at].re_replicated_blocks(), [0].into());
    store.update_metrics();
    assert_eq!(damaged_blocks(&store), (1, 0), "another block is another matter");
    let damage = store.segments()[at].damage().unwrap();
    corrupt_block(&machine, &store.segments()[at], 2);
    store.persist_damage(&DamagedSegment { proof: Proof::proven(), ..damage });
    assert!(
        store.segments()[at]
            .damage()
            .is_some_and(|damage| !damage.is_re_replicated() && damage.blocks == [1, 2].into())
    );

    // The number of copies is another.
    let env = machine.store.env.clone();
    let config = Config { replication_factor: 3, ..config() };
    let three =
        SegmentStore::open(env, Path::new("/d/store"), config.clone(), Metrics::new(&mut Registry::default())).unwrap();
    assert_eq!(three.segments()[at].damaged_block_count(), 0);
    // The file is replaced by a sound one.
    let path = segment.reader().path();
    machine.fs.remove(path).unwrap();
    machine.fs.create(path).unwrap().append(&[&sound]).unwrap();
    let store = reopen(&machine, config);
    assert_eq!((damaged_blocks(&store), store.segments()[at].damage()), ((0, 0), None));
    assert_eq!(scan_local(&store, TimeRange::ALL, later(&machine), false).ids.len(), all(&machine).len());
}

#[test]
fn a_segment_with_re_replicated_blocks_expires_as_others() {
    for is_good in [true, false] {
        let (machine, _) = filled();
        let count = |end| files_with_suffix(&machine, end).len();
        let store = reopen(&machine, config());
        // The oldest segment expires first.
        let segment = store.segments().iter().min_by_key(|segment| segment.reach().high).map(Arc::clone).unwrap();
        corrupt_block(&machine, &segment, 0);
        match is_good {
            true => mark_re_replicated(&store),
            false => store.damaged_segments().iter().for_each(|broken| store.persist_damage(broken)),
        }
        while store.compact(&|| false).unwrap() > 0 {}
        assert!(store.has(segment.id()) && count(".blocks.proof") == 1, "it is not merged");
        let limit = Some(store.file_bytes() - 1);
        let tight = || reopen(&machine, Config { retention_bytes: limit, retention_age: None, ..config() });
        let store = tight();
        store.retain(&machine.queue);
        assert!(!store.has(segment.id()));
        let name = segment.damage().unwrap().name;
        let is_trashed = store.trashed().iter().any(|file| file.name.ends_with(&name));
        let left = usize::from(!is_good);
        assert_eq!((is_trashed, count(".damaged"), count(".blocks.proof")), (is_good, left, left));
        // The damage file is removed with the segment. A draft left by a crash is removed at the next start.
        let quarantined = segment.reader().path().with_extension("damaged");
        machine.fs.create(&quarantined.with_extension("blocks.tmp")).unwrap();
        assert_eq!((tight().damaged_segments().len(), count(".blocks.proof"), count(".tmp")), (left, left, 0));
        if !is_good {
            machine.fs.remove(&quarantined).unwrap();
            assert_eq!((tight().damaged_segments().len(), count(".blocks.proof")), (0, 0));
        }
    }
}

#[test]
fn a_full_store_reports_its_retention_bounds() {
    let (machine, store) = filled();
    assert_eq!(store.retention_bounds().since_ms, 0);
    let bytes = store.file_bytes();
    let reopen = |limit| {
        let config = Config { retention_bytes: Some(limit), retention_age: None, ..config() };
        let mut registry = Registry::default();
        let env = machine.store.env.clone();
        SegmentStore::open(env, Path::new("/d/store"), config, Metrics::new(&mut registry)).unwrap()
    };
    assert_eq!(reopen(bytes * 2).retention_bounds(), RetentionBounds { age_ms: None, since_ms: 0 });
    let oldest = store.segments()[0].reach().low.time();
    assert_eq!(reopen(bytes).retention_bounds(), RetentionBounds { age_ms: None, since_ms: oldest.0 });
    let tight = reopen(bytes / 2);
    tight.retain(&machine.queue);
    let since = tight.retention_bounds().since_ms;
    assert!(since > oldest.0 && tight.file_bytes() <= bytes / 2, "{since}");
    // Also when there is room again.
    tight.replace_segments(&[], &tight.segments().iter().map(|segment| segment.id()).collect::<Vec<_>>());
    assert!(tight.retention_bounds().since_ms > oldest.0);
}
