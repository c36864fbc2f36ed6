//! Encryption at rest: what is on the disk, rotation of keys, and segments without their keys.

use std::cell::RefCell;

use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::KeyId;
use bucksaw_segment::OpenError;

use super::*;

pub(super) const NEEDLE: &str = "the-needle-that-no-file-may-show";

pub(super) fn list(keys: &[u8]) -> KeyList {
    let text: String = keys.iter().map(|key| format!("{}\n", format!("{key:02x}").repeat(32))).collect();
    KeyList::parse(text.as_bytes()).unwrap()
}

pub(super) fn id(key: u8) -> KeyId {
    list(&[key]).ids()[0]
}

pub(super) fn open(fs: &sim::Fs, keys: &[u8]) -> Result<(StoreTestMachine, Arc<KeyRing>), OpenError> {
    let ring = RefCell::default();
    let with_keys = |fs, entropy| {
        let keys = Arc::new(KeyRing::new(list(keys), entropy));
        ring.replace(Some(Arc::clone(&keys)));
        Arc::new(EncryptedFs::new(fs, keys)) as Arc<dyn bucksaw_env::Fs>
    };
    let machine = StoreTestMachine::open(fs.clone(), &with_keys, config())?;
    Ok((machine, ring.take().unwrap()))
}

/// Enough lines for a segment that stays.
pub(super) fn put_batch(machine: &mut StoreTestMachine, name: &str) {
    for number in 0..8 {
        let durability = [Durability::Fast, Durability::Durable, Durability::Bulk][number % 3];
        machine.put(durability, &format!("{NEEDLE} {name} {number} {}", "z".repeat(120)), 0);
    }
}

pub(super) fn has_needle(fs: &sim::Fs) -> bool {
    shows(fs, NEEDLE)
}

/// Whether a file has a text.
pub(super) fn shows(fs: &sim::Fs, text: &str) -> bool {
    fs.paths().iter().any(|path| {
        let bytes = fs.live_bytes(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    })
}

/// Merges and rewrites until nothing is due.
pub(super) fn compact(machine: &StoreTestMachine) {
    while machine.store.maintain(&machine.queue, &|| false).unwrap() > 0 {}
}

/// The keys of the segments, and how many are under each.
pub(super) fn usage(machine: &StoreTestMachine) -> Vec<(Option<KeyId>, u64)> {
    machine.store.encryption_status().keys.iter().map(|usage| (usage.key, usage.segments)).collect()
}

#[test]
fn no_file_shows_a_line_at_any_time() {
    for is_remote in [false, true] {
        let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
        if is_remote {
            machine = machine.with_remote_queue();
        }
        for round in 0..6 {
            put_batch(&mut machine, &format!("round {round}"));
            assert!(!has_needle(&machine.fs), "in the queue");
            machine.gather_all();
            assert!(!has_needle(&machine.fs), "gathered");
        }
        compact(&machine);
        assert!(!has_needle(&machine.fs), "merged");
        assert_eq!(machine.lines(), machine.sent);
        let (again, _) = open(&machine.fs, &[1]).unwrap();
        assert_eq!(again.lines(), machine.sent);
        assert!(open(&sim::Fs::new(), &[1]).unwrap().0.lines().is_empty());
    }
    let mut plain = StoreTestMachine::start(sim::Fs::new(), config());
    put_batch(&mut plain, "plain");
    assert!(has_needle(&plain.fs), "a line that is not encrypted is found");
}

#[test]
fn segments_come_under_the_first_key_in_the_background() {
    let mut plain = StoreTestMachine::start(sim::Fs::new(), config());
    for batch in ["one", "two"] {
        put_batch(&mut plain, batch);
        plain.gather_all();
    }
    assert_eq!(plain.store.encryption_status().keys, []);
    let (sent, backlog) = (plain.sent.clone(), plain.store.plan_merge().1);
    // Encryption is turned on for an existing directory.
    let (machine, ring) = open(&plain.fs, &[1]).unwrap();
    let before = machine.store.encryption_status().keys;
    let bytes = machine.store.file_bytes();
    let segments = machine.store.segments().len() as u64;
    assert_eq!(
        before,
        [
            KeyUsage { key: Some(id(1)), segments: 0, erasures: 0, bytes: 0, is_writing: true, is_named: true },
            KeyUsage { key: None, segments, erasures: 0, bytes, is_writing: false, is_named: true },
        ]
    );
    assert_eq!(machine.store.plan_merge().1, backlog, "rewriting for a key is no backlog");
    assert!(has_needle(&machine.fs));
    compact(&machine);
    assert_eq!(usage(&machine), [(Some(id(1)), machine.store.segments().len() as u64)]);
    // The queue removes the files that stores have.
    machine.advance(Duration::from_secs(3_600));
    assert!(!has_needle(&machine.fs));
    assert_eq!(machine.lines(), sent);
    // Rotation, without a restart.
    assert_eq!(ring.replace(list(&[2, 1])), []);
    assert_eq!(usage(&machine)[1].0, Some(id(1)));
    compact(&machine);
    assert_eq!(usage(&machine), [(Some(id(2)), machine.store.segments().len() as u64)]);
    assert_eq!(machine.store.maintain(&machine.queue, &|| false).unwrap(), 0, "once");
    let (machine, _) = open(&machine.fs, &[2]).unwrap();
    assert_eq!(machine.lines(), sent);
    assert_eq!(machine.store.metrics.rewrite_for_key_bytes.get(), 0);
    assert!(machine.store.metrics.encrypted_bytes.get() > 0);
}

#[test]
fn a_segment_without_its_key_stays_and_is_missing_from_answers_of_its_time() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    put_batch(&mut machine, "one");
    machine.gather_all();
    let sent = machine.sent.clone();
    let (mut machine, _) = open(&machine.fs, &[2, 1]).unwrap();
    machine.sequence = 100;
    machine.advance(Duration::from_secs(600));
    put_batch(&mut machine, "two");
    machine.gather_all();
    let later = machine.sent.clone();
    let all: BTreeMap<Id, String> = sent.iter().chain(&later).map(|(id, line)| (*id, line.clone())).collect();
    assert_eq!(machine.lines(), all);
    let names = machine.store_file_names();

    let (machine, ring) = open(&machine.fs, &[2]).unwrap();
    let status = machine.store.encryption_status();
    let keyless = status.keyless[0].clone();
    assert_eq!((status.keyless.len(), keyless.key), (1, id(1)));
    assert_eq!(
        status.keys[1],
        KeyUsage {
            key: Some(id(1)),
            segments: 1,
            erasures: 0,
            bytes: keyless.bytes,
            is_writing: false,
            is_named: false
        }
    );
    assert_eq!(machine.store.metrics.keyless_segments.get(), 1);
    assert_eq!(machine.lines(), later);
    let missing = |first: Millis, last: Millis| machine.missing_from(first, last).keyless.len();
    assert_eq!((missing(Millis(0), keyless.low), missing(keyless.high, Millis::MAX)), (1, 1));
    assert_eq!(
        (missing(Millis(0), Millis(keyless.low.0 - 1)), missing(Millis(keyless.high.0 + 1), Millis::MAX)),
        (0, 0)
    );
    machine.store.retain(&machine.queue);
    assert!(machine.store.quarantined_files().is_empty());
    let after = machine.store_file_names();
    assert!(names.iter().all(|name| after.contains(name)), "no file is moved or removed: {after:?}");
    // Its key is named again.
    ring.replace(list(&[2, 1]));
    compact(&machine);
    assert_eq!(machine.lines(), all);
    assert_eq!((machine.store.encryption_status().keyless.len(), missing(Millis(0), Millis::MAX)), (0, 0));
    assert_eq!(usage(&machine), [(Some(id(2)), machine.store.segments().len() as u64)]);
}

#[test]
fn a_store_without_any_of_its_keys_is_refused_and_unchanged() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    put_batch(&mut machine, "one");
    machine.gather_all();
    let names = machine.store_file_names();
    let refusal = open(&machine.fs, &[2]).err().unwrap().to_string();
    assert!(refusal.contains(&id(1).to_string()) && refusal.contains("--encryption-key-file"), "{refusal}");
    let plain = StoreTestMachine::open(machine.fs.clone(), &|fs, _| fs, config());
    assert!(matches!(plain.err(), Some(OpenError::MissingKey { .. })));
    assert_eq!(machine.store_file_names(), names);
    assert_eq!(open(&machine.fs, &[2, 1]).unwrap().0.lines(), machine.sent);
}

#[test]
fn a_queue_without_its_key_is_refused_and_unchanged() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    put_batch(&mut machine, "one");
    let names = || {
        let mut names = machine.fs.list(Path::new("/d/queue")).unwrap();
        names.sort();
        names
    };
    let before = names();
    assert!(matches!(open(&machine.fs, &[2]).err(), Some(OpenError::MissingKey { .. })));
    assert_eq!(names(), before);
    assert_eq!(open(&machine.fs, &[2, 1]).unwrap().0.lines(), machine.sent);
}

#[test]
fn damage_of_an_encrypted_segment_is_found_and_rebuilt_as_of_others() {
    let (mut machine, _) = open(&sim::Fs::new(), &[1]).unwrap();
    put_batch(&mut machine, "one");
    machine.gather_all();
    let segment = Arc::clone(&machine.store.segments()[0]);
    let at = segment.footer().blocks[0].offset;
    machine.fs.corrupt(segment.reader().path(), at + 5..at + 6);
    let (machine, _) = {
        let sent = machine.sent.clone();
        let (again, ring) = open(&machine.fs, &[1]).unwrap();
        assert_eq!(again.lines(), sent);
        (again, ring)
    };
    assert!(machine.store.segments().iter().any(|segment| segment.has_rebuilt_damage()));
}
