//! Repair after lost stores, disks, files and blocks in an otherwise healthy cluster: records are re-replicated within a stated
//! time, and nothing else is copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Fs as _;
use bucksaw_node::Node;
use bucksaw_query::Request;
use bucksaw_record::{Expr, Id, Millis};
use bucksaw_segment::RecordSummary;
use bucksaw_store::repair::{self, RepairBlocker};
use bucksaw_store::{SegmentList, StoredSegment};

use crate::machine::Machine;
use crate::test_bed::{LOST_AFTER, PERIOD, REPAIR_TIME_MAX, TestBed};

/// Bound for these few records: 5 s until all nodes have the replacement as a member, 10 s until the newest records can be
/// replicated, and steps of one second between.
const REPLACE_TIME_MAX: Duration = Duration::from_secs(20);

fn stored_segments(bed: &TestBed, at: usize) -> Arc<SegmentList> {
    bed.cluster.machines[at].node().unwrap().replication.as_ref().unwrap().store.segments()
}

#[test]
fn replicas_of_a_lost_store_are_restored() {
    for (seed, stores, copies) in [(1, 3, 2), (2, 4, 2), (3, 5, 3)] {
        let mut bed = TestBed::new(seed, stores, copies);
        bed.send(40);
        bed.run_until_stored();
        let lost = Millis(bed.client.env().clock.unix_ms());
        bed.destroy(1);
        assert!(bed.replica_counts().keys().any(|count| *count < copies), "the destroyed store held records");
        // The store is down and not lost yet.
        let is_awaited = |status: &repair::RepairStatus| {
            status.lost_bytes_max > 0 && (status.awaited_stores.len(), status.unrepaired_stores.len()) == (1, 0)
        };
        let all = || bed.statuses().iter().all(is_awaited);
        assert!(bed.world.run_until(all, LOST_AFTER), "{:#?}", bed.statuses());
        bed.assert_repaired();
        bed.run_for(REPAIR_TIME_MAX);
        for status in bed.statuses() {
            assert!(
                status.last_pass_started_at.is_some_and(|started| started >= lost),
                "no pass since the loss: {status:?}"
            );
            assert_eq!((status.under_replicated_records, status.lost_stores.len()), (0, 1));
            assert_eq!((status.lost_bytes_max, status.unrepaired_stores.len(), status.awaited_stores.len()), (0, 0, 0));
            assert!((status.began, status.remaining_bytes, status.blocked_by) == (None, 0, None), "{status:?}");
        }
        let node = bed.cluster.machines[0].node().unwrap();
        let members = node.cluster.members();
        let stores_left = members.iter().filter(|member| member.is_live() && member.facts.roles.store);
        assert!(
            stores_left.clone().count() == stores - 1
                && stores_left.clone().all(|member| member.facts.repair_pass_started >= Some(lost))
        );
        let bytes = bed.restored_bytes();
        assert!(bytes > 0);
        bed.run_for(3 * PERIOD);
        assert_eq!(bed.restored_bytes(), bytes, "more was restored");
        bed.assert_replica_counts();
    }
}

#[test]
fn too_few_stores_are_reported_as_repair_blocker() {
    let mut bed = TestBed::new(12, 3, 3);
    bed.send(30);
    bed.run_until_stored();
    // Fewer stores than replicas.
    bed.destroy(1);
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    let statuses = bed.statuses();
    let missing: u64 = statuses.iter().map(|status| status.under_replicated_records).sum();
    assert!(missing >= u64::from(bed.sent), "not every record is reported: {statuses:#?}");
    for status in &statuses {
        assert_eq!(status.blocked_by, Some(RepairBlocker::TooFewStores), "{status:?}");
        assert!(status.under_replicated_bytes > 0 && status.restored_bytes == 0, "{status:?}");
    }
}

#[test]
fn losses_up_to_the_replication_factor_stay_open() {
    let mut bed = TestBed::new(13, 4, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.destroy(1);
    bed.destroy(2);
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    for status in bed.statuses() {
        assert!(status.unrepaired_stores.len() == 2 && status.lost_bytes_max > 0, "{status:?}");
    }
    // After one is forgotten, the other is re-replicated.
    let node = bed.cluster.machines[0].node().unwrap();
    let (cluster, gone) = (node.cluster.clone(), bed.statuses()[0].unrepaired_stores[0]);
    bed.world.block_on(async move { cluster.forget(gone).await }).unwrap();
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX);
    for status in bed.statuses() {
        assert!(
            status.unrepaired_stores.is_empty() && status.lost_bytes_max == 0 && status.blocked_by.is_none(),
            "{status:?}"
        );
    }
}

#[test]
fn two_consecutive_losses_lose_nothing() {
    let mut bed = TestBed::new(4, 4, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.destroy(2);
    bed.assert_repaired();
    bed.run_for(Duration::from_secs(10));
    bed.destroy(4);
    bed.assert_repaired();
}

#[test]
fn a_healthy_cluster_copies_nothing() {
    let mut bed = TestBed::new(5, 3, 2);
    // Passes run while records are stored and merged.
    for _ in 0..400 {
        bed.send(1);
        bed.hint_everything();
    }
    bed.run_until_stored();
    let first: Vec<_> = bed.statuses().iter().map(|status| status.last_pass_started_at).collect();
    bed.run_for(2 * PERIOD);
    for (status, first) in bed.statuses().iter().zip(first) {
        assert!(first.is_some() && status.last_pass_started_at > first, "no further pass: {status:?}");
        assert_eq!((status.restored_bytes, status.under_replicated_records), (0, 0));
    }
    bed.assert_replica_counts();
}

#[test]
fn a_restarted_store_causes_no_repair() {
    let mut bed = TestBed::new(6, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    for at in 1..=3 {
        bed.cluster.machines[at].kill();
        // Long enough to be down.
        bed.run_for(LOST_AFTER * 9 / 10);
        bed.hint_everything();
        bed.run_for(LOST_AFTER / 5);
        bed.cluster.start_all();
        bed.run_for(Duration::from_secs(60));
    }
    assert_eq!(bed.restored_bytes(), 0);
    bed.assert_replica_counts();
}

/// Damages the text and the parity of the first block on a machine. Returns its segment and summary.
fn damage_first_block(bed: &mut TestBed, at: usize) -> (Arc<StoredSegment>, RecordSummary) {
    let segment = Arc::clone(&stored_segments(bed, at)[0]);
    let block = segment.footer().blocks[0].clone();
    bed.damage(
        at,
        segment.reader().path(),
        block.offset + block.rows_bytes() + 9..block.offset + block.packed_bytes() + 1,
    );
    (segment, block.summary)
}

#[test]
fn a_damaged_block_is_restored_from_another_store() {
    let mut bed = TestBed::new(7, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.run_for(PERIOD);
    let (_, summary) = damage_first_block(&mut bed, 1);
    assert_eq!(bed.restored_bytes(), 0);
    // Until the next pass that verifies checksums.
    bed.run_for(2 * PERIOD);
    assert!(bed.is_replicated_within(Duration::ZERO), "{:?}", bed.replica_counts());
    bed.assert_replica_counts();
    let restored: u64 = bed.statuses().iter().map(|status| status.restored_records).sum();
    assert!(restored >= summary.records && restored < u64::from(bed.sent) / 2, "{restored}");
}

/// Damages up to `files_max` files of a store while it is down, so that its start quarantines them.
fn damage_segments(bed: &mut TestBed, at: usize, files_max: usize) -> usize {
    bed.cluster.machines[at].kill();
    let fs = bed.cluster.machines[at].host.fs();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let files: Vec<PathBuf> = fs.paths().into_iter().filter(is_segment).take(files_max).collect();
    for path in &files {
        let bytes = fs.live_bytes(path).unwrap().len() as u64;
        bed.damage(at, path, 0..bytes);
    }
    bed.cluster.machines[at].start();
    assert_eq!(bed.cluster.machines[at].node().unwrap().store.status().quarantined_files.len(), files.len());
    files.len()
}

/// The numbers of quarantined files of a machine that are not re-replicated, and that are.
fn quarantined_files(bed: &TestBed, at: usize) -> [usize; 2] {
    let files = bed.cluster.machines[at].node().unwrap().store.status().quarantined_files;
    let re_replicated = files.iter().filter(|file| file.is_re_replicated()).count();
    [files.len() - re_replicated, re_replicated]
}

/// Whether an answer of a machine is complete; then it must have all records.
fn is_complete(bed: &TestBed, at: usize) -> bool {
    let answers = bed.cluster.machines[at].answers().unwrap();
    let all = Request::new(Expr::All, Millis(0), Millis::MAX);
    let counted = bed.world.block_on_host(&bed.cluster.machines[at].host, async move { answers.count(all, ()).await });
    let (count, stats) = counted.unwrap().unwrap();
    assert!(stats.is_partial() || count == u64::from(bed.sent), "{count} of {}", bed.sent);
    !stats.is_partial()
}

#[test]
fn a_damaged_file_is_re_replicated_when_all_its_records_have_replicas() {
    for seed in 30..34 {
        let mut bed = TestBed::new(seed, 3, 2);
        bed.send(30);
        bed.run_until_stored();
        bed.run_for(PERIOD);
        let files = damage_segments(&mut bed, 1, if seed % 2 == 0 { 1 } else { usize::MAX });
        bed.run_for(Duration::from_secs(8));
        assert_eq!((quarantined_files(&bed, 1), is_complete(&bed, 2)), ([files, 0], false), "seed {seed}");
        bed.run_for(LOST_AFTER + REPAIR_TIME_MAX);
        assert_eq!(quarantined_files(&bed, 1), [0, files], "seed {seed}: {:#?}", bed.statuses());
        assert!(bed.is_replicated_within(Duration::ZERO), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bed, at)), "seed {seed}");
        // The proof is persisted.
        bed.cluster.machines[1].kill();
        bed.cluster.machines[1].start();
        assert_eq!(quarantined_files(&bed, 1), [0, files], "seed {seed}");
        // A changed file needs a new proof.
        bed.cluster.machines[1].kill();
        let fs = bed.cluster.machines[1].host.fs();
        let path = fs.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "damaged")).unwrap();
        bed.cluster.machines[1].host.restart();
        let bytes = fs.live_bytes(&path).unwrap();
        fs.remove(&path).unwrap();
        fs.create(&path).unwrap().append(&[&bytes, b"x"]).unwrap();
        bed.cluster.machines[1].start();
        assert_eq!(quarantined_files(&bed, 1), [1, files - 1], "seed {seed}");
    }
}

/// The numbers of segments of a machine with damaged blocks that are not re-replicated, and that are.
fn damaged_segments(bed: &TestBed, at: usize) -> [usize; 2] {
    let segments = stored_segments(bed, at);
    let damaged: Vec<_> = segments.iter().filter_map(|segment| segment.damage()).collect();
    let re_replicated = damaged.iter().filter(|damage| damage.is_re_replicated()).count();
    [damaged.len() - re_replicated, re_replicated]
}

/// Damages and reads another block of the segment with a damaged block.
fn damage_second_block(bed: &mut TestBed, at: usize) -> Arc<StoredSegment> {
    let segments = stored_segments(bed, at);
    let segment = segments.iter().find(|segment| segment.damage().is_some()).map(Arc::clone).unwrap();
    let block = segment.footer().blocks[1].clone();
    bed.damage(at, segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    assert!(segment.block(1).is_err());
    segment
}

fn restart(bed: &mut TestBed, at: usize) {
    bed.cluster.machines[at].kill();
    bed.cluster.machines[at].start();
}

#[test]
fn a_damaged_block_is_re_replicated_when_all_its_records_have_replicas() {
    for seed in 40..44 {
        let mut bed = TestBed::new(seed, 3, 2);
        bed.send(100);
        bed.run_until_stored();
        bed.run_for(PERIOD / 4);
        let (segment, _) = damage_first_block(&mut bed, 1);
        assert_eq!(
            (is_complete(&bed, 2), damaged_segments(&bed, 1)),
            (false, [1, 0]),
            "seed {seed}: a query does not find the damage"
        );
        bed.run_for(REPAIR_TIME_MAX);
        assert_eq!(damaged_segments(&bed, 1), [0, 1], "seed {seed}: {:#?}", bed.statuses());
        assert!(bed.is_replicated_within(Duration::ZERO), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bed, at)), "seed {seed}");
        // The proof is persisted.
        let proof = segment.reader().path().with_extension("blocks.proof");
        drop(segment);
        restart(&mut bed, 1);
        assert_eq!(damaged_segments(&bed, 1), [0, 1], "seed {seed}");
        bed.run_for(Duration::from_secs(5));
        assert!((0..=3).all(|at| is_complete(&bed, at)), "seed {seed}");
        let fs = bed.cluster.machines[1].host.fs();
        assert!(fs.live_bytes(&proof).is_some(), "seed {seed}");
        // Another block needs its own proof.
        let segment = damage_second_block(&mut bed, 1);
        assert_eq!(damaged_segments(&bed, 1), [1, 0], "seed {seed}");
        bed.run_for(REPAIR_TIME_MAX);
        assert_eq!((damaged_segments(&bed, 1), segment.damaged_block_count()), ([0, 1], 2), "seed {seed}");
        assert!((0..=3).all(|at| is_complete(&bed, at)), "seed {seed}");
    }
}

#[test]
fn a_block_that_a_pass_finds_damaged_is_proven_by_a_later_one() {
    let mut bed = TestBed::new(44, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.run_for(PERIOD);
    damage_first_block(&mut bed, 1);
    let is_found = || damaged_segments(&bed, 1) != [0, 0];
    assert!(bed.world.run_until(is_found, 2 * PERIOD), "no pass finds the damage");
    assert_eq!((damaged_segments(&bed, 1), is_complete(&bed, 3)), ([1, 0], false));
    bed.run_for(REPAIR_TIME_MAX);
    assert_eq!(damaged_segments(&bed, 1), [0, 1]);
    assert!((0..=3).all(|at| is_complete(&bed, at)));
}

#[test]
fn blocks_damaged_on_every_replica_stay_reported() {
    let mut bed = TestBed::new(45, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    // Both replicas of the same records, before a pass reads either.
    let (first, summary) = damage_first_block(&mut bed, 1);
    let group = |segment: &StoredSegment| segment.reader().replica_digests().map(|digests| digests.group);
    let other = [2, 3].into_iter().find_map(|at| {
        let segments = stored_segments(&bed, at);
        let blocks =
            segments.iter().flat_map(|segment| (0..segment.footer().blocks.len()).map(|at| (segment.clone(), at)));
        let overlaps = |(segment, block): &(Arc<StoredSegment>, usize)| {
            let other = &segment.footer().blocks[*block].summary;
            other.low <= summary.high && summary.low <= other.high && group(segment) == group(&first)
        };
        let (segment, block) = blocks.into_iter().find(overlaps)?;
        Some((at, segment, block))
    });
    let (at, segment, block) = other.unwrap();
    let entry = segment.footer().blocks[block].clone();
    bed.damage(
        at,
        segment.reader().path(),
        entry.offset + entry.rows_bytes() + 9..entry.offset + entry.packed_bytes() + 1,
    );
    assert!(!is_complete(&bed, 0));
    bed.run_for(2 * PERIOD);
    assert!(!is_complete(&bed, 0));
    assert_eq!([damaged_segments(&bed, 1)[1], damaged_segments(&bed, at)[1]], [0, 0]);
    for at in [1, at] {
        restart(&mut bed, at);
    }
    bed.run_for(PERIOD);
    assert!(!is_complete(&bed, 0));
}

#[test]
fn a_down_store_delays_re_replication_of_a_damaged_block() {
    let mut bed = TestBed::new(46, 4, 2);
    bed.send(100);
    bed.run_until_stored();
    bed.run_for(PERIOD / 4);
    let (segment, summary) = damage_first_block(&mut bed, 1);
    // The store with the other replica.
    let other = (2..=4).find(|at| bed.cluster.stored_ids(*at).contains(&summary.low)).unwrap();
    bed.cluster.machines[other].kill();
    assert!(segment.block(0).is_err());
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(damaged_segments(&bed, 1), [1, 0], "these two stores had the only replicas");
    // Neither forgetting it, nor a restart, nor further damage changes that.
    let node = bed.cluster.machines[other].id();
    let cluster = bed.cluster.machines[0].node().unwrap().cluster.clone();
    bed.world.block_on(async move { cluster.forget(node).await }).unwrap();
    bed.run_for(REPAIR_TIME_MAX);
    drop(segment);
    restart(&mut bed, 1);
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(damaged_segments(&bed, 1), [1, 0]);
    let segment = damage_second_block(&mut bed, 1);
    bed.run_for(REPAIR_TIME_MAX * 2);
    assert_eq!((damaged_segments(&bed, 1), segment.damaged_block_count()), ([1, 0], 2));
    // Nor the quarantine of the whole file.
    let path = segment.reader().path().to_owned();
    drop(segment);
    bed.cluster.machines[1].kill();
    let bytes = bed.cluster.machines[1].host.fs().live_bytes(&path).unwrap().len() as u64;
    bed.damage(1, &path, 0..bytes);
    bed.cluster.machines[1].start();
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!((damaged_segments(&bed, 1), quarantined_files(&bed, 1)), ([0, 0], [1, 0]));
    bed.cluster.machines[other].start();
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bed, 1), [0, 1], "re-replicated after the return of the store");
    assert!(is_complete(&bed, 0));
}

#[test]
fn a_store_past_its_retention_does_not_re_replicate_a_damaged_block() {
    let mut bed = TestBed::new(47, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.run_for(PERIOD / 4);
    // Retention by disk use removes the other replica of the oldest records, which is not repaired.
    let oldest = |bed: &TestBed| bed.cluster.stored_ids(1).into_iter().next().unwrap();
    let other = (2..=3).find(|at| bed.cluster.stored_ids(*at).contains(&oldest(&bed))).unwrap();
    bed.cluster.machines[other].kill();
    let bytes = bed.cluster.machines[other].host.fs();
    let bytes: usize = bytes.paths().iter().filter_map(|path| bytes.live_bytes(path)).map(|bytes| bytes.len()).sum();
    bed.cluster.machines[other].settings.store.retention_bytes = Some(bytes as u64 / 2);
    bed.cluster.machines[other].start();
    let is_gone = || !bed.cluster.stored_ids(other).contains(&oldest(&bed));
    assert!(bed.world.run_until(is_gone, PERIOD));
    bed.run_for(REPAIR_TIME_MAX);
    assert!(is_complete(&bed, 0));
    let (segment, summary) = damage_first_block(&mut bed, 1);
    assert!(segment.block(0).is_err() && (2..=3).all(|at| !bed.cluster.stored_ids(at).contains(&summary.low)));
    bed.run_for(2 * PERIOD);
    assert_eq!(damaged_segments(&bed, 1), [1, 0]);
    // The restart drops blocks that were cached before the damage.
    restart(&mut bed, 1);
    bed.run_for(PERIOD);
    assert_eq!((damaged_segments(&bed, 1), is_complete(&bed, 0)), ([1, 0], false));
}

#[test]
fn files_damaged_on_every_replica_stay_reported() {
    let mut bed = TestBed::new(35, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    let files = [1, 2].map(|at| damage_segments(&mut bed, at, usize::MAX));
    bed.run_for(2 * PERIOD);
    for (at, files) in [1, 2].into_iter().zip(files) {
        assert_eq!((quarantined_files(&bed, at), is_complete(&bed, 3)), ([files, 0], false));
    }
}

#[test]
fn a_down_store_delays_re_replication_of_a_damaged_file() {
    let mut bed = TestBed::new(36, 4, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.run_for(PERIOD);
    bed.cluster.machines[2].kill();
    let files = damage_segments(&mut bed, 1, usize::MAX);
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bed, 1), [files, 0], "these two stores had the only replicas");
    // Neither forgetting it nor a restart changes that.
    let node = bed.cluster.machines[2].id();
    let cluster = bed.cluster.machines[0].node().unwrap().cluster.clone();
    bed.world.block_on(async move { cluster.forget(node).await }).unwrap();
    bed.run_for(REPAIR_TIME_MAX);
    bed.cluster.machines[1].kill();
    bed.cluster.machines[1].start();
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bed, 1), [files, 0]);
    bed.cluster.machines[2].start();
    bed.run_for(LOST_AFTER + REPAIR_TIME_MAX * 2);
    assert_eq!(quarantined_files(&bed, 1), [0, files], "re-replicated after the return of the store");
}

#[test]
fn a_disk_that_comes_back_empty_is_a_loss() {
    let mut bed = TestBed::new(8, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.cluster.machines[3].kill();
    let machine = &mut bed.cluster.machines[3];
    machine.host.restart();
    let fs = machine.host.fs();
    let files: Vec<_> = fs.paths().into_iter().filter(|path| path.starts_with("/data/store")).collect();
    assert!(!files.is_empty());
    files.iter().for_each(|path| fs.remove(path).unwrap());
    fs.sync_dir(Path::new("/data/store")).unwrap();
    machine.start();
    assert!(bed.replica_counts().contains_key(&1));
    bed.assert_repaired();
}

/// With the default settings of repair, and records that were just sent.
fn with_default_repair(seed: u64) -> TestBed {
    let mut bed = TestBed::with_repair(seed, 3, 2, repair::Config::default());
    bed.send(30);
    assert!(bed.world.run_until(|| bed.cluster.pending_segments() == 0, Duration::from_secs(60)));
    bed
}

/// Whether within `time` all nodes count the lost store `gone` as re-replicated.
fn is_re_replicated_within(bed: &TestBed, gone: Id, time: Duration) -> bool {
    let is_known = |node: &Node| bucksaw_query::re_replicated_stores(&node.cluster.members(), 2).contains(&gone);
    bed.world.run_until(|| bed.cluster.nodes().all(|(_, node)| is_known(node)), time)
}

#[test]
fn a_replaced_disk_is_restored_within_seconds() {
    for seed in 20..25 {
        let mut bed = with_default_repair(seed);
        let gone = bed.cluster.machines[2].id();
        bed.cluster.machines[2].lose_disk();
        bed.cluster.machines[2].start();
        let began = bed.world.now();
        assert!(is_re_replicated_within(&bed, gone, REPLACE_TIME_MAX), "seed {seed}: {:#?}", bed.statuses());
        let left = REPLACE_TIME_MAX.saturating_sub(bed.world.now() - began);
        assert!(bed.is_replicated_within(left), "seed {seed}: {:?} {:#?}", bed.replica_counts(), bed.statuses());
    }
}

#[test]
fn an_emptied_store_is_restored_within_seconds() {
    for seed in 20..25 {
        let mut bed = with_default_repair(seed);
        bed.cluster.machines[2].kill();
        let fs = bed.cluster.machines[2].host.fs();
        let files: Vec<_> = fs.paths().into_iter().filter(|path| path.starts_with("/data/store")).collect();
        bed.cluster.machines[2].host.restart();
        files.iter().for_each(|path| fs.remove(path).unwrap());
        fs.sync_dir(Path::new("/data/store")).unwrap();
        bed.cluster.machines[2].start();
        assert!(bed.replica_counts().contains_key(&1));
        assert!(
            bed.is_replicated_within(REPLACE_TIME_MAX),
            "seed {seed}: {:?} {:#?}",
            bed.replica_counts(),
            bed.statuses()
        );
    }
}

#[test]
fn a_store_that_never_returns_is_restored_after_the_grace_period() {
    let mut bed = with_default_repair(26);
    let gone = bed.cluster.machines[2].id();
    bed.destroy(2);
    let grace = repair::Config::default().lost_after;
    bed.run_for(grace);
    assert_eq!(bed.restored_bytes(), 0, "repair began before the grace period ended");
    assert!(bed.is_replicated_within(REPLACE_TIME_MAX), "{:?} {:#?}", bed.replica_counts(), bed.statuses());
    assert!(is_re_replicated_within(&bed, gone, REPLACE_TIME_MAX), "{:#?}", bed.statuses());
}

#[test]
fn a_hint_is_followed_at_once() {
    let mut bed = TestBed::new(9, 3, 2);
    bed.send(30);
    bed.run_until_stored();
    bed.run_for(PERIOD);
    let (segment, summary) = damage_first_block(&mut bed, 1);
    // A read finds the damage.
    assert!(segment.block(0).is_err());
    let (low, high) = (summary.low.time(), summary.high.time());
    bed.cluster.machines.iter().filter_map(Machine::repair).for_each(|repair| repair.hint(low, high));
    assert!(bed.is_replicated_within(Duration::from_secs(5)), "{:?}", bed.replica_counts());
    bed.assert_replica_counts();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut bed = TestBed::new(seed, 3, 2);
        bed.send(10);
        bed.destroy(2);
        bed.run_for(REPAIR_TIME_MAX * 2);
        (bed.world.fingerprint(), bed.restored_bytes())
    };
    let one = run(10);
    assert!(one.1 > 0);
    assert_eq!(one, run(10));
    assert_ne!(one.0, run(11).0);
}
