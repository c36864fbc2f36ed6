use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock as _, Env, Fs as _, lock, sim};
use bucksaw_fixtures::GoldenFiles;
use bucksaw_record::{Id, LabelScope, Labels, Millis, Producer};
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::IdempotentBatch;
use super::entry::KeyEntry;
use super::scan::scan_key_file;
use super::table::{KEY_AGE_MAX_MS, KEY_TIME_AGE_MAX_MS, KeyTable, SectionStatus};
use crate::{Config, IngestError, KeyFileReport, Metrics, Queue, ScopedIds};

const DIR: &str = "/q";
const NOW: u64 = 1_700_000_000_000;

struct KeyTestQueue {
    fs: sim::Fs,
    clock: Arc<sim::Clock>,
}

/// The ids of the accepted sections of a body, and the error of the next.
type SendOutcome = (Vec<Id>, Option<IngestError>);

impl KeyTestQueue {
    fn new() -> Self {
        Self { fs: sim::Fs::new(), clock: Arc::new(sim::Clock::at_unix_ms(NOW)) }
    }

    fn open(&self) -> Queue {
        self.open_with(Config::default())
    }

    fn open_with(&self, config: Config) -> Queue {
        // Each run draws other ids.
        self.clock.advance(Duration::from_nanos(1));
        let entropy = sim::Entropy::seeded(self.clock.uptime().as_nanos() as u64);
        let clock = Arc::clone(&self.clock) as _;
        let env = Env { fs: Arc::new(self.fs.clone()), clock, entropy: Arc::new(entropy) };
        Queue::open(env, Path::new(DIR), config, Metrics::new(&mut Registry::default())).unwrap().0
    }

    fn key_files(&self) -> Vec<String> {
        self.fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.ends_with(".keys")).collect()
    }

    /// Damages a byte of the key file.
    fn flip(&self, byte: u64) {
        self.fs.flip_bit(Path::new(DIR).join(&self.key_files()[0]), byte * 8);
    }
}

/// Sends a whole body of these sections.
fn send(queue: &Queue, key: &str, sections: &[&str]) -> SendOutcome {
    let (ids, batch, failed) = begin(queue, key, sections, true);
    let failed = failed.or_else(|| queue.end_batch(&batch).err());
    (ids, failed)
}

fn begin(queue: &Queue, key: &str, sections: &[&str], ends: bool) -> (Vec<Id>, IdempotentBatch, Option<IngestError>) {
    let mut batch = IdempotentBatch::new(key.as_bytes(), b"app=a");
    let mut ids = Vec::new();
    for (number, section) in (1..).zip(sections) {
        match queue.assign_ids(&mut batch, &[section.as_bytes()], ends && number == sections.len()) {
            Ok(id) => ids.push(id),
            Err(refusal) => return (ids, batch, Some(refusal)),
        }
    }
    (ids, batch, None)
}

/// Two tenants that send the same body with the same key have two batches, and neither learns of the other.
#[test]
fn equal_keys_of_two_tenants_are_two_batches() {
    let queue = KeyTestQueue::new().open();
    let scope = |labels: &str| LabelScope::new(Labels::parse(labels).unwrap());
    let send_as = |scope: Option<LabelScope>, key: &str, body: &str| {
        let mut batch = IdempotentBatch::new(key.as_bytes(), b"app=a");
        if let Some(ids) = scope.as_ref().and_then(ScopedIds::new) {
            batch.set_scope(&ids);
        }
        queue.assign_ids(&mut batch, &[body.as_bytes()], true)
    };
    for key in ["key", "01ARYZ6S410000000000000000"] {
        let a = send_as(Some(scope("tenant=a")), key, "body").unwrap();
        let b = send_as(Some(scope("tenant=b")), key, "body").unwrap();
        let unscoped = send_as(None, key, "body").unwrap();
        assert!(a != b && a != unscoped && b != unscoped);
        assert_eq!(send_as(Some(scope("tenant=a")), key, "body").unwrap(), a, "a retry has the same ids");
        assert_eq!(send_as(Some(scope("")), key, "body").unwrap(), unscoped, "a scope without labels is no tenant");
        assert!(matches!(send_as(Some(scope("tenant=a")), key, "other"), Err(IngestError::KeyReused)));
        assert!(send_as(Some(scope("tenant=c")), key, "other").is_ok(), "the key is new to this tenant");
    }
}

fn send_accepted(queue: &Queue, key: &str, sections: &[&str]) -> Vec<Id> {
    let (ids, refusal) = send(queue, key, sections);
    assert_eq!(refusal, None, "{key} {sections:?}");
    ids
}

/// Sends a body that is refused; returns the number of accepted sections.
fn send_refused(queue: &Queue, key: &str, sections: &[&str]) -> usize {
    let (ids, refusal) = send(queue, key, sections);
    assert_eq!(refusal, Some(IngestError::KeyReused), "{key} {sections:?}");
    ids.len()
}

#[test]
fn a_retry_gets_the_ids_of_the_first_attempt() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let first = send_accepted(&queue, "a", &["one", "two", "three"]);
    let times: Vec<u64> = first.iter().map(|id| id.time().0 - NOW).collect();
    assert_eq!(times, [0, 1, 2], "in the order of the body");
    assert!(first[0].sequence() == 0 && first.windows(2).all(|pair| pair[0].is_followed_by(pair[1])));
    machine.clock.advance(Duration::from_secs(5));
    assert_eq!(send_accepted(&queue, "a", &["one", "two", "three"]), first);
    let other = send_accepted(&queue, "b", &["one", "two", "three"]);
    assert!(first.iter().zip(&other).all(|(one, other)| one.producer() != other.producer()));
    machine.clock.advance(Duration::from_millis(KEY_AGE_MAX_MS));
    // A batch that is stored twice because its key was forgotten has two producers: counts compare producers and numbers.
    let again = send_accepted(&queue, "a", &["one", "two", "three"]);
    assert!(first.iter().zip(&again).all(|(one, other)| one.producer() != other.producer()));
    assert_eq!(lock(&queue.idempotency_keys.table).batches.len(), 2, "a key of exactly a day is remembered");
}

#[test]
fn another_body_is_refused_at_the_first_section_that_differs() {
    let machine = KeyTestQueue::new();
    let mut queue = machine.open();
    for when in ["at once", "after a restart"] {
        send_accepted(&queue, "a", &["one", "two", "three"]);
        assert_eq!(send_refused(&queue, "a", &["One", "two", "three"]), 0, "{when}");
        assert_eq!(send_refused(&queue, "a", &["one", "Two", "three"]), 1, "{when}");
        assert_eq!(send_refused(&queue, "a", &["one", "two", "three", "four"]), 3, "{when}");
        assert_eq!(send_refused(&queue, "a", &["one"]), 0, "{when}: a shorter body");
        assert_eq!(send_refused(&queue, "a", &["onetwo"]), 0, "{when}");
        // Other labels.
        let mut batch = IdempotentBatch::new(b"a", b"app=b");
        assert_eq!(queue.assign_ids(&mut batch, &[b"one"], false), Err(IngestError::KeyReused), "{when}");
        assert_eq!(send_accepted(&queue, "a", &["one", "two", "three"]).len(), 3, "{when}");
        queue = machine.open();
    }
}

#[test]
fn a_torn_batch_is_completed_by_a_retry_with_the_same_prefix() {
    let machine = KeyTestQueue::new();
    let mut queue = machine.open();
    for (key, restarts) in [("a", false), ("b", true)] {
        let (first_ids, ..) = begin(&queue, key, &["one", "two"], false);
        if restarts {
            queue = machine.open();
        }
        assert_eq!(send_refused(&queue, key, &["one", "TWO", "three"]), 1);
        let whole = send_accepted(&queue, key, &["one", "two", "three"]);
        assert_eq!(&whole[..2], first_ids);
        assert_eq!(send_refused(&queue, key, &["one", "two", "THREE"]), 2);
        assert_eq!(send_accepted(&queue, key, &["one", "two", "three"]), whole);
    }
}

#[test]
fn a_batch_can_end_without_further_records() {
    let queue = KeyTestQueue::new().open();
    let (ids, batch, _) = begin(&queue, "a", &["one", "two"], false);
    assert_eq!(queue.end_batch(&batch), Ok(()));
    assert_eq!(send_refused(&queue, "a", &["one", "two", "three"]), 2);
    let (again, batch, _) = begin(&queue, "a", &["one", "two"], false);
    assert_eq!((again, queue.end_batch(&batch)), (ids, Ok(())));
    let (_, batch, _) = begin(&queue, "a", &["one"], false);
    assert_eq!(queue.end_batch(&batch), Err(IngestError::KeyReused));
    assert_eq!(queue.end_batch(&IdempotentBatch::new(b"b", b"")), Ok(()), "an empty batch is not remembered");
}

#[test]
fn all_nodes_assign_the_same_ids_to_a_key_with_a_time() {
    let stated = NOW;
    let key = Id::new(Millis(stated), Producer::new(5), 6).to_string();
    let base = |key: &str, now: u64| {
        // Each call uses a new node.
        let machine = KeyTestQueue { fs: sim::Fs::new(), clock: Arc::new(sim::Clock::at_unix_ms(now)) };
        send_accepted(&machine.open(), key, &["one"])[0]
    };
    let first = base(&key, stated);
    assert_eq!(first.time(), Millis(stated));
    for same in [stated + 5_000, stated + KEY_TIME_AGE_MAX_MS, stated - Millis::AHEAD_MS_MAX] {
        assert_eq!(base(&key, same), first, "{same}");
    }
    // An invalid time is ignored.
    for far in [stated + KEY_TIME_AGE_MAX_MS + 1, stated - Millis::AHEAD_MS_MAX - 1] {
        assert_eq!(base(&key, far).time(), Millis(far));
    }
    for hostile in [Id::MIN, Id::MAX] {
        assert_eq!(base(&hostile.to_string(), stated).time(), Millis(stated));
    }
    // Another body gets other ids.
    let other = send_accepted(&KeyTestQueue::new().open(), &key, &["other"])[0];
    assert!(other.time() == first.time() && other.producer() != first.producer());
    let depends_on_node = |key: &str| {
        let (_, batch, _) = begin(&KeyTestQueue::new().open(), key, &["one"], true);
        batch.depends_on_remembered_key()
    };
    assert!(!depends_on_node(&key) && depends_on_node("a") && depends_on_node(&Id::MAX.to_string()));
}

#[test]
fn a_batch_keeps_its_base_time() {
    let key = Id::new(Millis(NOW + Millis::AHEAD_MS_MAX + 10), Producer::new(5), 6).to_string();
    // Its time is too far ahead at the first attempt only.
    let machine = KeyTestQueue::new();
    let first = send_accepted(&machine.open(), &key, &["one"]);
    assert_eq!(first[0].time(), Millis(NOW));
    machine.clock.advance(Duration::from_secs(1));
    assert_eq!(send_accepted(&machine.open(), &key, &["one"]), first);
}

#[test]
fn synced_keys_survive_a_power_cut() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let first = send_accepted(&queue, "a", &["one"]);
    assert!(queue.keys_written() > queue.keys_synced());
    queue.sync_keys().unwrap();
    assert_eq!(queue.keys_written(), queue.keys_synced());
    let later = send_accepted(&queue, "b", &["one"]);
    let machine = KeyTestQueue { fs: machine.fs.cut_power(sim::PowerCutLoss::All, 1), ..machine };
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    assert_eq!(send_accepted(&queue, "a", &["one"]), first);
    assert_ne!(send_accepted(&queue, "b", &["one"]), later);
    assert_eq!(machine.key_files().len(), 1, "the file of the first run was removed");
}

#[test]
fn a_retry_syncs_a_key_that_an_earlier_run_did_not() {
    let machine = KeyTestQueue::new();
    let first = send_accepted(&machine.open(), "a", &["one"]);
    let queue = machine.open();
    assert_eq!(send_accepted(&queue, "a", &["one"]), first);
    assert!(queue.keys_written() > queue.keys_synced());
    queue.sync_keys().unwrap();
    let machine = KeyTestQueue { fs: machine.fs.cut_power(sim::PowerCutLoss::All, 1), ..machine };
    assert_eq!(send_accepted(&machine.open(), "a", &["one"]), first);
}

#[test]
fn key_files_of_earlier_runs_are_removed_only_after_their_entries_are_durable_elsewhere() {
    // A torn disk may keep the removal of the first file and lose the second file.
    let torn = (0..40).map(|seed| (sim::PowerCutLoss::Torn, seed));
    for (how, seed) in torn.chain([(sim::PowerCutLoss::All, 0), (sim::PowerCutLoss::None, 0)]) {
        let machine = KeyTestQueue::new();
        let queue = machine.open();
        let first = send_accepted(&queue, "a", &["one"]);
        queue.sync_keys().unwrap();
        drop(queue);
        // The first entry of the next run opens a new file, which no client waits to be synced.
        send_accepted(&machine.open(), "b", &["two"]);
        let machine = KeyTestQueue { fs: machine.fs.cut_power(how, seed), ..machine };
        machine.clock.advance(Duration::from_secs(1));
        let queue = machine.open();
        assert_eq!(send_accepted(&queue, "a", &["one"]), first, "{how:?} {seed}");
        assert_eq!(send_refused(&queue, "a", &["other"]), 0, "{how:?} {seed}");
    }
}

#[test]
fn a_partly_written_entry_hides_no_later_entry() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let first = send_accepted(&queue, "a", &["one"]);
    machine.fs.fill(10);
    let refused = begin(&queue, "b", &["one"], true).2;
    assert!(matches!(refused, Some(IngestError::DiskFull)), "{refused:?}");
    machine.fs.set_capacity(None);
    machine.clock.advance(Duration::from_secs(2));
    queue.tick();
    let second = send_accepted(&queue, "c", &["one"]);
    drop(queue);
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    assert_eq!(["a", "c"].map(|key| send_accepted(&queue, key, &["one"])), [first, second]);
}

#[test]
fn after_a_failed_sync_all_keys_are_written_to_another_file() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let first = send_accepted(&queue, "a", &["one", "two"]);
    machine.fs.fail_next_syncs(1);
    assert!(matches!(queue.sync_keys(), Err(IngestError::Io(_))));
    // The retry writes nothing, but must be durable.
    assert_eq!(send_accepted(&queue, "a", &["one", "two"]), first);
    queue.sync_keys().unwrap();
    let machine = KeyTestQueue { fs: machine.fs.cut_power(sim::PowerCutLoss::All, 1), ..machine };
    let queue = machine.open();
    assert_eq!(send_accepted(&queue, "a", &["one", "two"]), first);
    assert_eq!(send_refused(&queue, "a", &["one", "three"]), 1);
}

#[test]
fn a_damaged_entry_affects_its_batch_only() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let firsts: Vec<_> = ["a", "b", "c"].map(|key| send_accepted(&queue, key, &["one"])).into();
    drop(queue);
    machine.flip(8 + 40 + 9);
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    let again = ["a", "b", "c"].map(|key| send_accepted(&queue, key, &["one"]));
    assert_eq!((&again[0], &again[2]), (&firsts[0], &firsts[2]));
    assert_ne!(again[1], firsts[1]);
}

#[test]
fn the_number_of_remembered_keys_is_limited() {
    let machine = KeyTestQueue::new();
    let queue = machine.open_with(Config { keys_max: 2, ..Config::default() });
    let firsts = ["a", "b", "c"].map(|key| {
        machine.clock.advance(Duration::from_secs(1));
        send_accepted(&queue, key, &["one"])
    });
    assert_eq!(send_refused(&queue, "c", &["two"]), 0);
    assert_eq!([send_accepted(&queue, "b", &["one"]), send_accepted(&queue, "c", &["one"])], firsts[1..]);
    machine.clock.advance(Duration::from_secs(1));
    assert_ne!(send_accepted(&queue, "a", &["one"]), firsts[0], "the oldest was evicted");
    drop(queue);
    let queue = machine.open_with(Config { keys_max: 2, ..Config::default() });
    assert_eq!(send_accepted(&queue, "c", &["one"]), firsts[2]);
    assert_ne!(send_accepted(&queue, "b", &["one"]), firsts[1]);
}

#[test]
fn key_files_of_all_versions_are_read() {
    let files = GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), 1);
    let id = Id::new(Millis(NOW), Producer::new(7), 0);
    let entry = |number, is_last| KeyEntry {
        key: 5,
        number,
        base_time: Millis(NOW),
        producer: Producer::from_key(&[number as u8]),
        is_last,
        first_seen: Millis(NOW + 9),
    };
    let entries = [entry(0, false), entry(1, true)];
    let bytes = [&b"BSWKEYS1"[..], &entries.map(|entry| entry.encode(id)).concat()].concat();
    files.check("keys", &bytes);
    for fixture in files.read_all("keys") {
        let fs = sim::Fs::new();
        let file = fs.create(Path::new("/k")).unwrap();
        file.append(&[&fixture]).unwrap();
        let mut read = Vec::new();
        let found = scan_key_file(&*file, id, false, &mut |entry| read.push(*entry)).unwrap();
        assert_eq!((found, &read[..]), (KeyFileReport { sound: 2, ..KeyFileReport::default() }, &entries[..]));
    }
    // A queue writes such a file.
    let machine = KeyTestQueue::new();
    send_accepted(&machine.open(), "a", &["one"]);
    let written = machine.fs.live_bytes(Path::new(DIR).join(&machine.key_files()[0])).unwrap();
    assert!(written.starts_with(b"BSWKEYS1") && written.len() % 40 == 8, "{written:?}");
}

/// The report of a check of the key file, and the number of unreadable entries of a queue opened then.
fn checked(machine: &KeyTestQueue) -> (KeyFileReport, u64) {
    let path = Path::new(DIR).join(&machine.key_files()[0]);
    let queue = machine.open();
    let found = crate::offline_repair::check_keys(&queue.env, &path).unwrap().unwrap();
    assert_eq!(queue.metrics().damaged_keys.get() as u64, queue.damaged_keys());
    let damaged = queue.damaged_keys();
    machine.clock.advance(Duration::from_millis(KEY_AGE_MAX_MS));
    queue.tick();
    assert_eq!((queue.damaged_keys(), queue.metrics().damaged_keys.get()), (0, 0), "by then all keys are forgotten");
    (found, damaged)
}

#[test]
fn any_flipped_bit_of_a_key_file_is_reported() {
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    for key in ["a", "b", "c"] {
        send_accepted(&queue, key, &["one"]);
    }
    drop(queue);
    let path = Path::new(DIR).join(&machine.key_files()[0]);
    let size = machine.fs.live_bytes(&path).unwrap().len() as u64;
    let entries = (size - 8) / 40;
    assert_eq!(checked(&machine), (KeyFileReport { sound: entries, ..KeyFileReport::default() }, 0));
    for bit in 0..size * 8 {
        machine.fs.flip_bit(&path, bit);
        let entry = (bit / 8).checked_sub(8).map(|byte| byte / 40);
        let (damaged, at) = entry.map_or((0, 0), |entry| (1, 8 + entry * 40));
        let want = KeyFileReport { sound: entries - damaged, damaged, damaged_at: Some(at) };
        assert_eq!(checked(&machine), (want, damaged), "bit {bit}");
        machine.fs.flip_bit(&path, bit);
    }
}

#[test]
fn an_incomplete_end_after_a_crash_is_no_damage() {
    let write = |machine: &KeyTestQueue| {
        let queue = machine.open();
        for key in ["a", "b", "c"] {
            send_accepted(&queue, key, &["one"]);
        }
        queue.sync_keys().unwrap();
        drop(queue);
        Path::new(DIR).join(&machine.key_files()[0])
    };
    let machine = KeyTestQueue::new();
    let path = write(&machine);
    let size = machine.fs.live_bytes(&path).unwrap().len() as u64;
    // The process ended during a write, or while it created the file.
    for bytes in [1, 39, size - 8, size - 1] {
        machine.fs.truncate_file(&path, size - bytes);
        let (found, damaged) = checked(&machine);
        assert_eq!((found.damaged, found.damaged_at, damaged), (0, None, 0), "{bytes}");
    }
    // A power cut may leave any bytes after the synced ones.
    for (entry, is_damaged) in [(1, true), (size / 40 - 1, false)] {
        let machine = KeyTestQueue::new();
        let path = write(&machine);
        machine.fs.zero_range(&path, 8 + entry * 40..8 + entry * 40 + 40);
        assert_eq!(checked(&machine).1, 1);
        let machine = KeyTestQueue { fs: machine.fs.cut_power(sim::PowerCutLoss::None, 1), ..machine };
        let path = Path::new(DIR).join(&machine.key_files()[0]);
        let env = machine.open().env.clone();
        // As before the next start of the node.
        machine.fs.remove(&Path::new(DIR).join("boot")).unwrap();
        let found = crate::offline_repair::check_keys(&env, &path).unwrap().unwrap();
        assert_eq!(found.damaged == 1, is_damaged, "entry {entry}");
    }
}

#[test]
fn the_table_and_the_key_file_are_bounded() {
    const KEYS_MAX: usize = 900;
    const MORE_SECTIONS_MAX: usize = 300;
    let mut table = KeyTable::new(KEYS_MAX, MORE_SECTIONS_MAX);
    let entry = |key, number, seen| KeyEntry {
        key,
        number,
        base_time: Millis(5),
        producer: Producer::from_key(&number.to_le_bytes()),
        is_last: false,
        first_seen: Millis(seen),
    };
    for number in 0..=MORE_SECTIONS_MAX as u32 {
        table.insert(&entry(1, number, 7));
    }
    table.insert(&entry(2, 0, 7));
    table.evict(Millis(7));
    assert_eq!((table.entries_len(), table.insertion_order.len()), (MORE_SECTIONS_MAX + 2, 2));
    table.insert(&entry(1, MORE_SECTIONS_MAX as u32 + 1, 7));
    table.evict(Millis(7));
    assert_eq!(
        (table.entries_len(), table.insertion_order.len()),
        (1, 1),
        "the oldest is evicted with all its sections"
    );
    assert_eq!(table.classify(&entry(1, 9, 7)), SectionStatus::Forgotten);
    for key in 3..KEYS_MAX as u64 + 3 {
        table.insert(&entry(key, 0, 8));
    }
    table.evict(Millis(8));
    assert_eq!(table.entries_len(), KEYS_MAX);
    // Other keys each day: the file is replaced when most of its entries are outdated.
    let machine = KeyTestQueue::new();
    let queue = machine.open();
    let mut longest = 0;
    for round in 0..3 {
        for key in 0..40_000 {
            send_accepted(&queue, &format!("{round} {key}"), &["one"]);
        }
        machine.clock.advance(Duration::from_millis(KEY_AGE_MAX_MS + 1));
        let name = Path::new(DIR).join(&machine.key_files()[0]);
        longest = longest.max(machine.fs.open(&name).unwrap().size().unwrap());
    }
    assert!(longest < 100_000 * 40, "{longest} bytes");
    assert_eq!(machine.key_files().len(), 1);
}

proptest! {
    #[test]
    fn entries_decode_to_what_was_encoded(key: u64, number: u32, base: u64, producer: u64, is_last: bool, seen: u64, id: u128) {
        let (base_time, producer, first_seen) = (Millis(base), Producer::new(producer), Millis(seen));
        let entry = KeyEntry { key, number, base_time, producer, is_last, first_seen };
        let bytes = entry.encode(Id::from_bits(id));
        prop_assert_eq!(KeyEntry::decode(&bytes, Id::from_bits(id)), Some(entry));
        prop_assert_eq!(KeyEntry::decode(&bytes[..39], Id::from_bits(id)), None);
        prop_assert_eq!(KeyEntry::decode(&bytes, Id::from_bits(id ^ 1)), None);
    }

    #[test]
    fn any_bytes_can_be_read_as_a_key_file(bytes: Vec<u8>) {
        let machine = KeyTestQueue::new();
        let queue = machine.open();
        let path = Path::new(DIR).join(format!("{}.keys", Id::from_bits(7)));
        machine.fs.create(&path).unwrap().append(&[&bytes]).unwrap();
        drop(queue);
        send_accepted(&machine.open(), "a", &["one"]);
    }
}
