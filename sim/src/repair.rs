//! Stores and disks are lost in a world where all else is well: each record is kept as often as promised again within a
//! stated time, and nothing is copied that need not be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Fs as _;
use bucksaw_node::Node;
use bucksaw_query::Request;
use bucksaw_record::{Expr, Id, Millis};
use bucksaw_segment::RecordSummary;
use bucksaw_store::StoredSegment;
use bucksaw_store::repair::{self, RepairBlocker};

use crate::machine::Machine;
use crate::test_bed::{LOST_AFTER, PERIOD, REPAIR_TIME_MAX, TestBed};

/// Bound for these few records: at most 5 s until all nodes know of the replacement, 10 s until the newest records can be
/// copied, and the steps of one second in between.
const REPLACE_TIME_MAX: Duration = Duration::from_secs(20);

#[test]
fn replicas_of_a_lost_store_are_restored() {
    for (seed, stores, copies) in [(1, 3, 2), (2, 4, 2), (3, 5, 3)] {
        let mut bench = TestBed::new(seed, stores, copies);
        bench.send(40);
        bench.run_until_stored();
        let lost = Millis(bench.client.env().clock.unix_ms());
        bench.destroy(1);
        assert!(bench.replica_counts().keys().any(|count| *count < copies), "it had some");
        // Known to be down, and not yet lost.
        let is_awaited = |status: &repair::RepairStatus| {
            status.lost_bytes_max > 0 && (status.awaited_stores.len(), status.unrepaired_stores.len()) == (1, 0)
        };
        let all = || bench.statuses().iter().all(is_awaited);
        assert!(bench.world.run_until(all, LOST_AFTER), "{:#?}", bench.statuses());
        bench.assert_repaired();
        bench.run_for(REPAIR_TIME_MAX);
        for status in bench.statuses() {
            assert!(
                status.last_pass_started_at.is_some_and(|walked| walked >= lost),
                "all others know that it was made good: {status:?}"
            );
            assert_eq!((status.under_replicated_records, status.lost_stores.len()), (0, 1));
            assert_eq!((status.lost_bytes_max, status.unrepaired_stores.len(), status.awaited_stores.len()), (0, 0, 0));
            assert!((status.began, status.remaining_bytes, status.blocked_by) == (None, 0, None), "{status:?}");
        }
        let node = bench.fleet.machines[0].node().unwrap();
        let members = node.cluster.members();
        let told = members.iter().filter(|member| member.is_live() && member.facts.roles.store);
        assert!(
            told.clone().count() == stores - 1
                && told.clone().all(|member| member.facts.repair_pass_started >= Some(lost))
        );
        let bytes = bench.restored_bytes();
        assert!(bytes > 0);
        bench.run_for(3 * PERIOD);
        assert_eq!(bench.restored_bytes(), bytes, "and that was all");
        bench.assert_replica_counts();
    }
}

#[test]
fn a_hindrance_is_reported() {
    let mut bench = TestBed::new(12, 3, 3);
    bench.send(30);
    bench.run_until_stored();
    // Fewer stores than copies.
    bench.destroy(1);
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    let statuses = bench.statuses();
    let missing: u64 = statuses.iter().map(|status| status.under_replicated_records).sum();
    assert!(missing >= u64::from(bench.sent), "of each record somebody says so: {statuses:#?}");
    for status in &statuses {
        assert_eq!(status.blocked_by, Some(RepairBlocker::TooFewStores), "{status:?}");
        assert!(status.under_replicated_bytes > 0 && status.restored_bytes == 0, "{status:?}");
    }
}

#[test]
fn losses_up_to_the_replication_factor_stay_open() {
    let mut bench = TestBed::new(13, 4, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.destroy(1);
    bench.destroy(2);
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    for status in bench.statuses() {
        assert!(status.unrepaired_stores.len() == 2 && status.lost_bytes_max > 0, "{status:?}");
    }
    // When one is forgotten the other can be made good.
    let node = bench.fleet.machines[0].node().unwrap();
    let (cluster, gone) = (node.cluster.clone(), bench.statuses()[0].unrepaired_stores[0]);
    bench.world.block_on(async move { cluster.forget(gone).await }).unwrap();
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    for status in bench.statuses() {
        assert!(
            status.unrepaired_stores.is_empty() && status.lost_bytes_max == 0 && status.blocked_by.is_none(),
            "{status:?}"
        );
    }
}

#[test]
fn two_consecutive_losses_lose_nothing() {
    let mut bench = TestBed::new(4, 4, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.destroy(2);
    bench.assert_repaired();
    bench.run_for(Duration::from_secs(10));
    bench.destroy(4);
    bench.assert_repaired();
}

#[test]
fn a_healthy_cluster_copies_nothing() {
    let mut bench = TestBed::new(5, 3, 2);
    // Records come and go to the shelves all the while, are merged, and the passes find some on their way.
    for _ in 0..400 {
        bench.send(1);
        bench.hint_everything();
    }
    bench.run_until_stored();
    let first: Vec<_> = bench.statuses().iter().map(|status| status.last_pass_started_at).collect();
    bench.run_for(2 * PERIOD);
    for (status, first) in bench.statuses().iter().zip(first) {
        assert!(first.is_some() && status.last_pass_started_at > first, "passes come to their end: {status:?}");
        assert_eq!((status.restored_bytes, status.under_replicated_records), (0, 0));
    }
    bench.assert_replica_counts();
}

#[test]
fn a_restarted_store_causes_no_repair() {
    let mut bench = TestBed::new(6, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    for at in 1..=3 {
        bench.fleet.machines[at].kill();
        // Long enough to be known to be down.
        bench.run_for(LOST_AFTER * 9 / 10);
        bench.hint_everything();
        bench.run_for(LOST_AFTER / 5);
        bench.fleet.start_all();
        bench.run_for(Duration::from_secs(60));
    }
    assert_eq!(bench.restored_bytes(), 0);
    bench.assert_replica_counts();
}

/// Spoils the text of the first block on a machine, and what it could be rebuilt from: the segment, and what the block holds.
fn damage_first_block(bench: &mut TestBed, at: usize) -> (Arc<StoredSegment>, RecordSummary) {
    let segment = Arc::clone(&bench.fleet.machines[at].node().unwrap().store.segments()[0]);
    let block = segment.footer().blocks[0].clone();
    bench.damage(
        at,
        segment.reader().path(),
        block.offset + block.rows_bytes() + 9..block.offset + block.packed_bytes() + 1,
    );
    (segment, block.summary)
}

#[test]
fn a_damaged_block_is_restored_from_another_store() {
    let mut bench = TestBed::new(7, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD);
    let (_, reach) = damage_first_block(&mut bench, 1);
    assert_eq!(bench.restored_bytes(), 0);
    // The next pass that holds blocks against their checksums.
    bench.run_for(2 * PERIOD);
    assert!(bench.is_replicated_within(Duration::ZERO), "{:?}", bench.replica_counts());
    bench.assert_replica_counts();
    let restored: u64 = bench.statuses().iter().map(|status| status.restored_records).sum();
    assert!(restored >= reach.records && restored < u64::from(bench.sent) / 2, "{restored}");
}

/// Spoils all files of a machine's store while it is down, so that they are set aside; or one of them.
fn damage_segments(bench: &mut TestBed, at: usize, files_max: usize) -> usize {
    bench.fleet.machines[at].kill();
    let fs = bench.fleet.machines[at].host.fs();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let files: Vec<PathBuf> = fs.paths().into_iter().filter(is_segment).take(files_max).collect();
    for path in &files {
        let bytes = fs.live_bytes(path).unwrap().len() as u64;
        bench.damage(at, path, 0..bytes);
    }
    bench.fleet.machines[at].start();
    assert_eq!(bench.fleet.machines[at].node().unwrap().store.quarantined_files().len(), files.len());
    files.len()
}

/// How many files are set aside on a machine that were not made good, and how many that were.
fn quarantined_files(bench: &TestBed, at: usize) -> [usize; 2] {
    let files = bench.fleet.machines[at].node().unwrap().store.quarantined_files();
    let good = files.iter().filter(|file| file.is_re_replicated()).count();
    [files.len() - good, good]
}

/// Whether the answer of a machine calls itself complete. Such a one has all records.
fn is_complete(bench: &TestBed, at: usize) -> bool {
    let answers = bench.fleet.machines[at].answers().unwrap();
    let all = Request::new(Expr::All, Millis(0), Millis::MAX);
    let counted =
        bench.world.block_on_host(&bench.fleet.machines[at].host, async move { answers.count(all, ()).await });
    let (count, stats) = counted.unwrap().unwrap();
    assert!(stats.is_partial() || count == u64::from(bench.sent), "{count} of {}", bench.sent);
    !stats.is_partial()
}

#[test]
fn a_damaged_file_is_re_replicated_when_all_its_records_have_replicas() {
    for seed in 30..34 {
        let mut bench = TestBed::new(seed, 3, 2);
        bench.send(30);
        bench.run_until_stored();
        bench.run_for(PERIOD);
        let files = damage_segments(&mut bench, 1, if seed % 2 == 0 { 1 } else { usize::MAX });
        bench.run_for(Duration::from_secs(8));
        assert_eq!((quarantined_files(&bench, 1), is_complete(&bench, 2)), ([files, 0], false), "seed {seed}");
        bench.run_for(LOST_AFTER + REPAIR_TIME_MAX);
        assert_eq!(quarantined_files(&bench, 1), [0, files], "seed {seed}: {:#?}", bench.statuses());
        assert!(bench.is_replicated_within(Duration::ZERO), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bench, at)), "seed {seed}");
        // It is remembered, and nothing is walked over again for it.
        bench.fleet.machines[1].kill();
        bench.fleet.machines[1].start();
        assert_eq!(quarantined_files(&bench, 1), [0, files], "seed {seed}");
        // Another file of that name is another file.
        bench.fleet.machines[1].kill();
        let fs = bench.fleet.machines[1].host.fs();
        let path = fs.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "damaged")).unwrap();
        bench.fleet.machines[1].host.restart();
        let bytes = fs.live_bytes(&path).unwrap();
        fs.remove(&path).unwrap();
        fs.create(&path).unwrap().append(&[&bytes, b"x"]).unwrap();
        bench.fleet.machines[1].start();
        assert_eq!(quarantined_files(&bench, 1), [1, files - 1], "seed {seed}");
    }
}

/// How many segments of a machine have damaged blocks that were not made good, and how many such that were.
fn damaged_segments(bench: &TestBed, at: usize) -> [usize; 2] {
    let segments = bench.fleet.machines[at].node().unwrap().store.segments();
    let broken: Vec<_> = segments.iter().filter_map(|segment| segment.damage()).collect();
    let good = broken.iter().filter(|broken| broken.is_re_replicated()).count();
    [broken.len() - good, good]
}

/// Spoils another block of the segment of a machine that has a damaged one, and has it read.
fn damage_second_block(bench: &mut TestBed, at: usize) -> Arc<StoredSegment> {
    let segments = bench.fleet.machines[at].node().unwrap().store.segments();
    let segment = segments.iter().find(|segment| segment.damage().is_some()).map(Arc::clone).unwrap();
    let block = segment.footer().blocks[1].clone();
    bench.damage(at, segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    assert!(segment.block(1).is_err());
    segment
}

fn restart(bench: &mut TestBed, at: usize) {
    bench.fleet.machines[at].kill();
    bench.fleet.machines[at].start();
}

#[test]
fn a_damaged_block_is_re_replicated_when_all_its_records_have_replicas() {
    for seed in 40..44 {
        let mut bench = TestBed::new(seed, 3, 2);
        bench.send(30);
        bench.run_until_stored();
        bench.run_for(PERIOD / 4);
        let (segment, _) = damage_first_block(&mut bench, 1);
        assert_eq!(
            (is_complete(&bench, 2), damaged_segments(&bench, 1)),
            (false, [1, 0]),
            "seed {seed}: an answer meets it"
        );
        bench.run_for(REPAIR_TIME_MAX);
        assert_eq!(damaged_segments(&bench, 1), [0, 1], "seed {seed}: {:#?}", bench.statuses());
        assert!(bench.is_replicated_within(Duration::ZERO), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bench, at)), "seed {seed}");
        // It is remembered, and the block is not held again.
        let proof = segment.reader().path().with_extension("blocks.proof");
        drop(segment);
        restart(&mut bench, 1);
        assert_eq!(damaged_segments(&bench, 1), [0, 1], "seed {seed}");
        bench.run_for(Duration::from_secs(5));
        assert!((0..=3).all(|at| is_complete(&bench, at)), "seed {seed}");
        let fs = bench.fleet.machines[1].host.fs();
        assert!(fs.live_bytes(&proof).is_some(), "seed {seed}");
        // Another block of it is proven for itself.
        let segment = damage_second_block(&mut bench, 1);
        assert_eq!(damaged_segments(&bench, 1), [1, 0], "seed {seed}");
        bench.run_for(REPAIR_TIME_MAX);
        assert_eq!((damaged_segments(&bench, 1), segment.damaged_block_count()), ([0, 1], 2), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bench, at)), "seed {seed}");
    }
}

#[test]
fn a_block_that_a_pass_finds_damaged_is_proven_by_a_later_one() {
    let mut bench = TestBed::new(44, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD);
    damage_first_block(&mut bench, 1);
    let is_found = || damaged_segments(&bench, 1) != [0, 0];
    assert!(bench.world.run_until(is_found, 2 * PERIOD), "nobody asks for its time, and it is found all the same");
    assert_eq!((damaged_segments(&bench, 1), is_complete(&bench, 3)), ([1, 0], false));
    bench.run_for(REPAIR_TIME_MAX);
    assert_eq!(damaged_segments(&bench, 1), [0, 1]);
    assert!((0..=3).all(|at| is_complete(&bench, at)));
}

#[test]
fn blocks_damaged_on_every_replica_stay_reported() {
    let mut bench = TestBed::new(45, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    // Both copies of the same records, before any pass reads either.
    let reach = damage_first_block(&mut bench, 1).1;
    let other = [2, 3].into_iter().find_map(|at| {
        let segments = bench.fleet.machines[at].node().unwrap().store.segments();
        let blocks =
            segments.iter().flat_map(|segment| (0..segment.footer().blocks.len()).map(|at| (segment.clone(), at)));
        let meets = |(segment, block): &(Arc<StoredSegment>, usize)| {
            let other = &segment.footer().blocks[*block].summary;
            other.low <= reach.high && reach.low <= other.high && segment.id() == segments[0].id()
        };
        let (segment, block) = blocks.into_iter().find(meets)?;
        Some((at, segment, block))
    });
    let (at, segment, block) = other.unwrap();
    let entry = segment.footer().blocks[block].clone();
    bench.damage(
        at,
        segment.reader().path(),
        entry.offset + entry.rows_bytes() + 9..entry.offset + entry.packed_bytes() + 1,
    );
    assert!(!is_complete(&bench, 0));
    bench.run_for(2 * PERIOD);
    assert!(!is_complete(&bench, 0));
    assert_eq!([damaged_segments(&bench, 1)[1], damaged_segments(&bench, at)[1]], [0, 0]);
    for at in [1, at] {
        restart(&mut bench, at);
    }
    bench.run_for(PERIOD);
    assert!(!is_complete(&bench, 0));
}

#[test]
fn a_down_store_delays_re_replication_of_a_damaged_block() {
    let mut bench = TestBed::new(46, 4, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD / 4);
    let (segment, reach) = damage_first_block(&mut bench, 1);
    // The one with the other copy.
    let other = (2..=4).find(|at| bench.fleet.stored_ids(*at).contains(&reach.low)).unwrap();
    bench.fleet.machines[other].kill();
    assert!(segment.block(0).is_err());
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(damaged_segments(&bench, 1), [1, 0], "what these two had is nowhere else");
    // Also when it is forgotten, this store is started anew, and more of the segment is damaged.
    let node = bench.fleet.machines[other].id();
    let cluster = bench.fleet.machines[0].node().unwrap().cluster.clone();
    bench.world.block_on(async move { cluster.forget(node).await }).unwrap();
    bench.run_for(REPAIR_TIME_MAX);
    drop(segment);
    restart(&mut bench, 1);
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(damaged_segments(&bench, 1), [1, 0]);
    let segment = damage_second_block(&mut bench, 1);
    bench.run_for(REPAIR_TIME_MAX * 2);
    assert_eq!((damaged_segments(&bench, 1), segment.damaged_block_count()), ([1, 0], 2));
    // Also when the whole file is set aside.
    let path = segment.reader().path().to_owned();
    drop(segment);
    bench.fleet.machines[1].kill();
    let bytes = bench.fleet.machines[1].host.fs().live_bytes(&path).unwrap().len() as u64;
    bench.damage(1, &path, 0..bytes);
    bench.fleet.machines[1].start();
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!((damaged_segments(&bench, 1), quarantined_files(&bench, 1)), ([0, 0], [1, 0]));
    bench.fleet.machines[other].start();
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bench, 1), [0, 1], "it is back and has walked");
    assert!(is_complete(&bench, 0));
}

#[test]
fn a_store_past_its_retention_does_not_re_replicate_a_damaged_block() {
    let mut bench = TestBed::new(47, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD / 4);
    // The other copy of the oldest records goes for want of room, and is not missed.
    let oldest = |bench: &TestBed| bench.fleet.stored_ids(1).into_iter().next().unwrap();
    let other = (2..=3).find(|at| bench.fleet.stored_ids(*at).contains(&oldest(&bench))).unwrap();
    bench.fleet.machines[other].kill();
    let bytes = bench.fleet.machines[other].host.fs();
    let bytes: usize = bytes.paths().iter().filter_map(|path| bytes.live_bytes(path)).map(|bytes| bytes.len()).sum();
    bench.fleet.machines[other].settings.store.retention_bytes = Some(bytes as u64 / 2);
    bench.fleet.machines[other].start();
    let is_gone = || !bench.fleet.stored_ids(other).contains(&oldest(&bench));
    assert!(bench.world.run_until(is_gone, PERIOD));
    bench.run_for(REPAIR_TIME_MAX);
    assert!(is_complete(&bench, 0));
    let (segment, reach) = damage_first_block(&mut bench, 1);
    assert!(segment.block(0).is_err() && (2..=3).all(|at| !bench.fleet.stored_ids(at).contains(&reach.low)));
    bench.run_for(2 * PERIOD);
    assert_eq!(damaged_segments(&bench, 1), [1, 0]);
    // Blocks that were opened before the damage are forgotten.
    restart(&mut bench, 1);
    bench.run_for(PERIOD);
    assert_eq!((damaged_segments(&bench, 1), is_complete(&bench, 0)), ([1, 0], false));
}

#[test]
fn files_damaged_on_every_replica_stay_reported() {
    let mut bench = TestBed::new(35, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    let files = [1, 2].map(|at| damage_segments(&mut bench, at, usize::MAX));
    bench.run_for(2 * PERIOD);
    for (at, files) in [1, 2].into_iter().zip(files) {
        assert_eq!((quarantined_files(&bench, at), is_complete(&bench, 3)), ([files, 0], false));
    }
}

#[test]
fn a_down_store_delays_re_replication_of_a_damaged_file() {
    let mut bench = TestBed::new(36, 4, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD);
    bench.fleet.machines[2].kill();
    let files = damage_segments(&mut bench, 1, usize::MAX);
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bench, 1), [files, 0], "what these two had is nowhere else");
    // Also when it is forgotten, and this store is started anew.
    let node = bench.fleet.machines[2].id();
    let cluster = bench.fleet.machines[0].node().unwrap().cluster.clone();
    bench.world.block_on(async move { cluster.forget(node).await }).unwrap();
    bench.run_for(REPAIR_TIME_MAX);
    bench.fleet.machines[1].kill();
    bench.fleet.machines[1].start();
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bench, 1), [files, 0]);
    bench.fleet.machines[2].start();
    bench.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bench, 1), [0, files], "it is back and has walked");
}

#[test]
fn a_disk_that_comes_back_empty_is_a_loss() {
    let mut bench = TestBed::new(8, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.fleet.machines[3].kill();
    let machine = &mut bench.fleet.machines[3];
    machine.host.restart();
    let fs = machine.host.fs();
    let files: Vec<_> = fs.paths().into_iter().filter(|path| path.starts_with("/data/store")).collect();
    assert!(!files.is_empty());
    files.iter().for_each(|path| fs.remove(path).unwrap());
    fs.sync_dir(Path::new("/data/store")).unwrap();
    machine.start();
    assert!(bench.replica_counts().contains_key(&1));
    bench.assert_repaired();
}

/// With the settings of the real program, and records of which the last came a moment ago.
fn with_default_repair(seed: u64) -> TestBed {
    let mut bench = TestBed::with_repair(seed, 3, 2, repair::Config::default());
    bench.send(30);
    assert!(bench.world.run_until(|| bench.fleet.pending_segments() == 0, Duration::from_secs(60)));
    bench
}

/// Whether all nodes know within a time that a store that is gone has no record that others lack.
fn is_re_replicated_within(bench: &TestBed, gone: Id, time: Duration) -> bool {
    let knows = |node: &Node| bucksaw_query::re_replicated_stores(&node.cluster.members(), 2).contains(&gone);
    bench.world.run_until(|| bench.fleet.nodes().all(|(_, node)| knows(node)), time)
}

#[test]
fn a_replaced_disk_is_restored_within_seconds() {
    for seed in 20..25 {
        let mut bench = with_default_repair(seed);
        let gone = bench.fleet.machines[2].id();
        bench.fleet.machines[2].lose_disk();
        bench.fleet.machines[2].start();
        let began = bench.world.now();
        assert!(is_re_replicated_within(&bench, gone, REPLACE_TIME_MAX), "seed {seed}: {:#?}", bench.statuses());
        let left = REPLACE_TIME_MAX.saturating_sub(bench.world.now() - began);
        assert!(bench.is_replicated_within(left), "seed {seed}: {:?} {:#?}", bench.replica_counts(), bench.statuses());
    }
}

#[test]
fn an_emptied_store_is_restored_within_seconds() {
    for seed in 20..25 {
        let mut bench = with_default_repair(seed);
        bench.fleet.machines[2].kill();
        let fs = bench.fleet.machines[2].host.fs();
        let files: Vec<_> = fs.paths().into_iter().filter(|path| path.starts_with("/data/store")).collect();
        bench.fleet.machines[2].host.restart();
        files.iter().for_each(|path| fs.remove(path).unwrap());
        fs.sync_dir(Path::new("/data/store")).unwrap();
        bench.fleet.machines[2].start();
        assert!(bench.replica_counts().contains_key(&1));
        assert!(
            bench.is_replicated_within(REPLACE_TIME_MAX),
            "seed {seed}: {:?} {:#?}",
            bench.replica_counts(),
            bench.statuses()
        );
    }
}

#[test]
fn a_store_that_never_returns_is_restored_after_the_grace_period() {
    let mut bench = with_default_repair(26);
    let gone = bench.fleet.machines[2].id();
    bench.destroy(2);
    let grace = repair::Config::default().lost_after;
    bench.run_for(grace);
    assert_eq!(bench.restored_bytes(), 0, "it may only be started anew");
    assert!(bench.is_replicated_within(REPLACE_TIME_MAX), "{:?} {:#?}", bench.replica_counts(), bench.statuses());
    assert!(is_re_replicated_within(&bench, gone, REPLACE_TIME_MAX), "{:#?}", bench.statuses());
}

#[test]
fn a_hint_is_followed_at_once() {
    let mut bench = TestBed::new(9, 3, 2);
    bench.send(30);
    bench.run_until_stored();
    bench.run_for(PERIOD);
    let (segment, reach) = damage_first_block(&mut bench, 1);
    // A search finds the damage, and tells.
    assert!(segment.block(0).is_err());
    let (low, high) = (reach.low.time(), reach.high.time());
    bench.fleet.machines.iter().filter_map(Machine::repair).for_each(|repair| repair.hint(low, high));
    assert!(bench.is_replicated_within(Duration::from_secs(5)), "{:?}", bench.replica_counts());
    bench.assert_replica_counts();
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut bench = TestBed::new(seed, 3, 2);
        bench.send(10);
        bench.destroy(2);
        bench.run_for(REPAIR_TIME_MAX * 2);
        (bench.world.fingerprint(), bench.restored_bytes())
    };
    let one = run(10);
    assert!(one.1 > 0);
    assert_eq!(one, run(10));
    assert_ne!(one.0, run(11).0);
}
