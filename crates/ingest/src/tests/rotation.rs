//! Files of `durable` segments are renamed and prepared while acknowledgements go on.

use std::sync::atomic::Ordering;

use super::*;

/// Files of about five of these records.
const SEGMENT_BYTES: u64 = 1_000;

fn config() -> Config {
    Config { segment_bytes_max: SEGMENT_BYTES, ..Config::default() }
}

fn put_synced(machine: &QueueTestMachine, queue: &Queue, number: usize) -> u64 {
    let ack = machine.put(queue, Durability::Durable, &format!("{number:0100}"));
    let before = machine.fs.sync_count();
    assert!(queue.commit_group());
    assert_eq!(ack.try_recv(), Ok(Ok(())));
    machine.fs.sync_count() - before
}

#[test]
fn an_acknowledgement_waits_for_one_sync_also_in_a_new_segment() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    assert_eq!(put_synced(&machine, &queue, 0), 2, "the first file and its name");
    for number in 1..50 {
        queue.rotate_files();
        assert_eq!(put_synced(&machine, &queue, number), 1, "{number}");
    }
    assert!(queue.readable_segments().len() > 5);
    queue.rotate_files();
    let states = states(&machine);
    assert_eq!(states.iter().filter(|state| *state == "pending").count(), queue.readable_segments().len() - 1);
    assert_eq!(lines(&queue).len(), 50);
}

#[test]
fn without_a_prepared_file_the_name_of_a_new_one_is_synced() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    let syncs: Vec<u64> = (0..20).map(|number| put_synced(&machine, &queue, number)).collect();
    assert_eq!(syncs.iter().filter(|count| **count == 2).count(), queue.readable_segments().len());
    assert!(states(&machine).iter().all(|state| state == "active"), "no seal is synced");
    queue.rotate_files();
    assert_eq!(states(&machine).iter().filter(|state| *state == "active").count(), 2, "the open one and the next");
}

#[test]
fn a_segment_whose_records_wait_for_their_sync_is_not_renamed() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = machine.put(&queue, Durability::Durable, "x");
    machine.advance(&queue, Duration::from_secs(3));
    let before = machine.fs.sync_count();
    queue.rotate_files();
    assert_eq!((machine.fs.sync_count(), states(&machine)), (before, vec!["active".to_owned()]));
    assert!(queue.commit_group());
    assert_eq!(ack.try_recv(), Ok(Ok(())));
    queue.rotate_files();
    assert_eq!(states(&machine), ["pending"]);
}

#[test]
fn a_segment_whose_seal_is_not_synced_keeps_its_name_and_its_records() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    put_synced(&machine, &queue, 1);
    machine.advance(&queue, Duration::from_secs(3));
    machine.fs.fail_next_syncs(1);
    queue.rotate_files();
    queue.rotate_files();
    assert_eq!(states(&machine), ["active"]);
    assert_eq!((lines(&queue).len(), queue.reserve(u64::MAX).len()), (1, 1), "stores fetch it");
    for seed in 0..20 {
        let after = QueueTestMachine::with_fs(machine.fs.cut_power(sim::PowerCutLoss::Torn, seed));
        let (queue, recovery) = after.open(Config::default());
        assert_eq!((recovery.damaged, lines(&queue).len()), (0, 1), "seed {seed}");
    }
}

#[test]
fn a_prepared_file_is_no_segment_and_is_removed_at_the_end_and_at_a_start() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    for number in 0..3 {
        put_synced(&machine, &queue, number);
    }
    queue.rotate_files();
    assert_eq!((names(&machine).len(), queue.readable_segments().len()), (2, 1));
    let killed = QueueTestMachine::with_fs(machine.fs.cut_power(sim::PowerCutLoss::All, 1));
    let (recovered, recovery) = killed.open(config());
    assert_eq!((recovery.segments, recovery.damaged, names(&killed).len()), (1, 0, 1));
    assert_eq!(lines(&recovered).len(), 3);
    queue.close();
    assert_eq!(states(&machine), ["pending"]);
}

#[test]
fn a_prepared_file_is_removed_while_nothing_is_appended() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    for number in 0..3 {
        put_synced(&machine, &queue, number);
    }
    queue.rotate_files();
    assert_eq!(names(&machine).len(), 2);
    machine.advance(&queue, Duration::from_secs(3));
    assert_eq!(names(&machine).len(), 1);
    assert_eq!(put_synced(&machine, &queue, 3), 2);
}

#[test]
fn a_prepared_file_of_an_older_version_is_not_used() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    for number in 0..3 {
        put_synced(&machine, &queue, number);
    }
    queue.rotate_files();
    let version = queue.durable_slot.version.load(Ordering::Relaxed);
    queue.durable_slot.version.store(version + 1, Ordering::Relaxed);
    for number in 3..9 {
        put_synced(&machine, &queue, number);
    }
    assert_eq!(names(&machine).len(), queue.readable_segments().len(), "it is removed");
    let versions: Vec<u32> = queue.readable_segments().iter().map(|segment| segment.view().version()).collect();
    assert_eq!(versions.iter().max(), Some(&(version + 1)));
}

#[test]
fn a_directory_without_room_takes_no_prepared_file_and_refuses_nothing() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(config());
    for number in 0..3 {
        put_synced(&machine, &queue, number);
    }
    machine.fs.fill_directories(true);
    queue.rotate_files();
    assert_eq!(names(&machine).len(), 1);
    machine.fs.fill_directories(false);
    for number in 3..9 {
        put_synced(&machine, &queue, number);
    }
    assert_eq!(lines(&queue).len(), 9);
}

/// All acknowledged records are found after a power cut at each sync, with and without rotations between commits.
#[test]
fn a_power_cut_at_any_sync_loses_no_acknowledged_record() {
    let run = |machine: &QueueTestMachine| {
        let (queue, _) = machine.open(config());
        let mut acked = 0;
        for number in 0..30 {
            let Ok(ack) = machine.try_put(&queue, Durability::Durable, &format!("{number:0100}")) else { break };
            queue.commit_group();
            if ack.try_recv() != Ok(Ok(())) {
                break;
            }
            acked += 1;
            if number % 3 != 0 {
                queue.rotate_files();
            }
        }
        acked
    };
    let syncs = {
        let machine = QueueTestMachine::new();
        assert_eq!(run(&machine), 30);
        machine.fs.sync_count()
    };
    for point in 0..syncs {
        let machine = QueueTestMachine::new();
        machine.fs.halt_at_sync(point);
        let acked = run(&machine);
        for (how, seed) in [(sim::PowerCutLoss::All, 1), (sim::PowerCutLoss::Torn, 2), (sim::PowerCutLoss::Torn, 3)] {
            let after = QueueTestMachine::with_fs(machine.fs.cut_power(how, seed));
            let (queue, recovery) = after.open(config());
            assert_eq!((recovery.damaged, queue.damaged_file_names().len()), (0, 0), "sync {point}, seed {seed}");
            let found = lines(&queue).len();
            assert!(found >= acked, "sync {point}, seed {seed}: {found} of {acked}");
        }
    }
}
