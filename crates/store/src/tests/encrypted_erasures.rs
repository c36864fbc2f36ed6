//! Erasures on encrypted disks: their own files, and the segments that they rewrite.

use bucksaw_env::{KeyId, backed_up_file};
use bucksaw_segment::OpenError;

use super::encryption::{compact, id, list, open, shows};
use super::erasures::about;
use super::*;
use crate::erasure::Erasure;
use crate::offline_repair::check_erasures;

const DIR: &str = "/d/store/erasures";

fn file_of(erasure: &Erasure) -> std::path::PathBuf {
    Path::new(DIR).join(format!("{}.json", erasure.id))
}

/// The keys of the files of erasures, how many are under each, and what is to be rewritten.
fn usage(machine: &StoreTestMachine) -> (Vec<(Option<KeyId>, u64)>, i64) {
    let keys = machine.store.encryption_status().keys;
    machine.store.update_metrics();
    let counted = keys.iter().filter(|usage| usage.erasures > 0).map(|usage| (usage.key, usage.erasures));
    (counted.collect(), machine.store.metrics.rewrite_for_key_bytes.get())
}

#[test]
fn no_file_shows_an_expression_and_the_key_changes_in_the_background() {
    let plain = StoreTestMachine::start(sim::Fs::new(), config());
    let first = plain.erase("alice");
    assert!(shows(&plain.fs, "alice"), "without keys");
    let (machine, ring) = open(&plain.fs, &[1]).unwrap();
    assert_eq!(usage(&machine).0, [(None, 1)]);
    assert!(usage(&machine).1 > 0);
    // Later than the first.
    machine.advance(Duration::from_secs(1));
    let second = machine.erase("carol");
    assert!(!shows(&machine.fs, "carol"));
    compact(&machine);
    assert_eq!(usage(&machine), (vec![(Some(id(1)), 2)], 0));
    assert!(!shows(&machine.fs, "alice"), "neither the file nor its backup");
    // Rotation, without a restart.
    ring.replace(list(&[2, 1]));
    assert_eq!(usage(&machine).0, [(Some(id(1)), 2)]);
    assert!(usage(&machine).1 > 0);
    machine.fs.fail_next_syncs(1);
    compact(&machine);
    compact(&machine);
    assert_eq!(usage(&machine), (vec![(Some(id(2)), 2)], 0), "a failed write is repeated");
    let writes = machine.fs.sync_count();
    compact(&machine);
    assert_eq!(machine.fs.sync_count(), writes, "once");
    let (machine, _) = open(&machine.fs, &[2]).unwrap();
    assert_eq!(machine.store.erasure_book().erasures(), [first, second]);
}

#[test]
fn progress_is_written_under_the_key_of_new_files() {
    let (mut machine, ring) = open(&sim::Fs::new(), &[1]).unwrap();
    let erasure = machine.erase("alice");
    ring.replace(list(&[2, 1]));
    machine.put(Durability::Fast, "alice", 0);
    machine.gather_all();
    assert_eq!(usage(&machine).0, [(Some(id(2)), 1)]);
    let (machine, _) = open(&machine.fs, &[2, 1]).unwrap();
    assert_eq!(machine.status_of(&erasure).progress.records, 1);
}

#[test]
fn a_node_without_the_key_of_an_erasure_does_not_start_and_changes_nothing() {
    let (machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    let erasure = machine.erase("alice");
    let (path, fs) = (file_of(&erasure), machine.fs.clone());
    drop(machine);
    let bytes = |path: &Path| fs.live_bytes(path).unwrap();
    let before = (bytes(&path), bytes(&backed_up_file::backup_path(&path)));
    let refusal = |keys: &[u8]| match open(&fs, keys).err() {
        Some(error @ OpenError::MissingKey { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let message = refusal(&[2]);
    assert!(message.contains(&path.display().to_string()) && message.contains(&id(1).to_string()), "{message}");
    assert!(matches!(
        StoreTestMachine::open(fs.clone(), &|fs, _| fs, config()).err(),
        Some(OpenError::MissingKey { .. })
    ));
    assert_eq!((bytes(&path), bytes(&backed_up_file::backup_path(&path))), before);
    assert!(matches!(
        &check_erasures(&fs, Path::new(DIR)).unwrap()[0].outcome,
        Err(bucksaw_segment::ReadError::MissingKey { .. })
    ));
    // Both copies are named, one after the other, for an operator who has lost the key.
    fs.remove(&path).unwrap();
    assert!(refusal(&[2]).contains(".backup"));
    // The backup alone is the erasure, and both copies are there again.
    let (machine, _) = open(&fs, &[2, 1]).unwrap();
    assert_eq!(machine.store.erasure_book().erasures(), std::slice::from_ref(&erasure));
    compact(&machine);
    assert!(fs.live_bytes(&path).is_some());
    assert_eq!(usage(&machine).0, [(Some(id(2)), 1)]);
    fs.remove(&path).unwrap();
    fs.remove(&backed_up_file::backup_path(&path)).unwrap();
    assert!(open(&fs, &[3]).unwrap().0.store.erasure_book().erasures().is_empty());
}

#[test]
fn damage_of_an_encrypted_erasure_is_found_and_restored_from_the_other_copy() {
    let (machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    let erasure = machine.erase("alice");
    let (path, fs) = (file_of(&erasure), machine.fs.clone());
    let backup = backed_up_file::backup_path(&path);
    drop(machine);
    let length = fs.live_bytes(&path).unwrap().len() as u64;
    for copy in [&path, &backup] {
        for at in (0..length).step_by(7) {
            fs.corrupt(copy, at..at + 1);
            let (machine, _) = open(&fs, &[1]).unwrap();
            assert_eq!(machine.store.erasure_book().erasures(), std::slice::from_ref(&erasure), "byte {at}");
            compact(&machine);
            let report = check_erasures(&*machine.store.env.fs, Path::new(DIR)).unwrap();
            assert!(matches!(report[..], [crate::offline_repair::ErasureFileReport { outcome: Ok(None), .. }]));
        }
    }
}

#[test]
fn a_damaged_backup_alone_is_reported() {
    let (machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    let path = file_of(&machine.erase("alice"));
    let (fs, keyed) = (machine.fs.clone(), Arc::clone(&machine.store.env.fs));
    drop(machine);
    fs.remove(&path).unwrap();
    fs.corrupt(backed_up_file::backup_path(&path), 40..41);
    let reports = check_erasures(&*keyed, Path::new(DIR)).unwrap();
    assert!(matches!(&reports[..], [report] if report.outcome.is_err()), "{reports:?}");
    let (machine, _) = open(&fs, &[1]).unwrap();
    assert_eq!(machine.store.erasure_book().damaged_files(), [reports[0].name.clone()]);
}

/// Lines of alice and bob, enough for segments that stay.
fn fill(machine: &mut StoreTestMachine, round: usize) {
    for at in 0..8 {
        let who = if at == 5 { "alice" } else { "bob" };
        machine.put(Durability::Fast, &format!("round {round} line {at} of {who} {}", "x".repeat(120)), 0);
    }
    machine.gather_all();
}

#[test]
fn encrypted_segments_are_rewritten_encrypted_and_without_the_records() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    (0..6).for_each(|round| fill(&mut machine, round));
    let before: Vec<String> = machine.store.segments().iter().map(|segment| segment.file_name()).collect();
    let erasure = machine.erase("alice");
    machine.sweep_all();
    let status = machine.status_of(&erasure);
    assert!(status.is_done && status.damaged.is_empty(), "{status:?}");
    assert_eq!((status.progress.records, status.progress.segments), (6, before.len() as u64), "{status:?}");
    let after = machine.store_file_names();
    assert!(before.iter().all(|name| !after.contains(name)), "{after:?}");
    assert!(machine.store.segments().iter().all(|segment| segment.reader().key_id() == Some(id(1))));
    assert!(!shows(&machine.fs, "alice") && !shows(&machine.fs, "bob"));
    for keys in [&[1][..], &[2, 1]] {
        let (again, _) = open(&machine.fs, keys).unwrap();
        let lines = again.lines();
        assert_eq!((about(&lines, "alice").len(), about(&lines, "bob").len()), (0, 6 * 7));
        again.sweep_all();
        assert!(again.status_of(&erasure).is_done, "a scan of each file finds none");
    }
}

#[test]
fn an_erasure_is_done_once_the_missing_key_of_a_segment_is_named() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    fill(&mut machine, 0);
    let (mut machine, _) = open(&machine.fs, &[2, 1]).unwrap();
    machine.sequence = 100;
    machine.advance(Duration::from_secs(600));
    fill(&mut machine, 1);
    let (machine, ring) = open(&machine.fs, &[2]).unwrap();
    // The clock of a new machine starts anew.
    machine.advance(Duration::from_secs(900));
    let keyless = machine.store.encryption_status().keyless[0].name.clone();
    let erasure = machine.erase("alice");
    machine.sweep_all();
    let status = machine.status_of(&erasure);
    assert_eq!((status.is_done, status.segments_left, status.progress.records), (false, 0, 1), "{status:?}");
    assert_eq!(status.damaged.iter().collect::<Vec<_>>(), [&keyless]);
    assert!(machine.store_file_names().contains(&keyless));
    ring.replace(list(&[2, 1]));
    compact(&machine);
    machine.sweep_all();
    compact(&machine);
    let status = machine.status_of(&erasure);
    assert!(status.is_done && status.damaged.is_empty() && status.progress.records == 2, "{status:?}");
    let lines = machine.lines();
    assert_eq!((about(&lines, "alice").len(), about(&lines, "bob").len()), (0, 2 * 7));
    assert!(!machine.store_file_names().contains(&keyless));
}
