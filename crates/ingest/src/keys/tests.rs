use std::sync::Arc;

use bucksaw_doors::{Clock as _, Fs as _, sim};
use bucksaw_versions::Kept;
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::{Config, Metrics};

const DIR: &str = "/q";
const NOW: u64 = 1_700_000_000_000;

struct Machine {
    fs: sim::Fs,
    clock: Arc<sim::Clock>,
}

/// How a body was taken: the ids of its sections, and what stopped it.
type Taken = (Vec<Id>, Option<Refusal>);

impl Machine {
    fn new() -> Self {
        Self { fs: sim::Fs::new(), clock: Arc::new(sim::Clock::at(NOW)) }
    }

    fn open(&self) -> Queue {
        self.open_with(Config::default())
    }

    fn open_with(&self, config: Config) -> Queue {
        // No two runs draw the same ids.
        self.clock.advance(Duration::from_nanos(1));
        let entropy = sim::Entropy::seeded(self.clock.uptime().as_nanos() as u64);
        let clock = Arc::clone(&self.clock) as _;
        let doors = Doors { fs: Arc::new(self.fs.clone()), clock, entropy: Arc::new(entropy) };
        Queue::open(doors, Path::new(DIR), config, Metrics::new(&mut Registry::default())).unwrap().0
    }

    fn key_files(&self) -> Vec<String> {
        self.fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.ends_with(".keys")).collect()
    }

    /// Breaks a byte of the file of keys.
    fn flip(&self, byte: u64) {
        self.fs.flip_bit(Path::new(DIR).join(&self.key_files()[0]), byte * 8);
    }
}

/// Sends a body of these sections to its end.
fn send(queue: &Queue, key: &str, sections: &[&str]) -> Taken {
    let (ids, batch, failed) = begin(queue, key, sections, true);
    let failed = failed.or_else(|| queue.end_batch(&batch).err());
    (ids, failed)
}

fn begin(queue: &Queue, key: &str, sections: &[&str], ends: bool) -> (Vec<Id>, Batch, Option<Refusal>) {
    let mut batch = Batch::new(key.as_bytes(), b"app=a");
    let mut ids = Vec::new();
    for (number, section) in (1..).zip(sections) {
        match queue.number(&mut batch, &[section.as_bytes()], ends && number == sections.len()) {
            Ok(id) => ids.push(id),
            Err(refusal) => return (ids, batch, Some(refusal)),
        }
    }
    (ids, batch, None)
}

fn taken(queue: &Queue, key: &str, sections: &[&str]) -> Vec<Id> {
    let (ids, refusal) = send(queue, key, sections);
    assert_eq!(refusal, None, "{key} {sections:?}");
    ids
}

/// Sends a body that is refused; gives how many of its sections were taken.
fn reused(queue: &Queue, key: &str, sections: &[&str]) -> usize {
    let (ids, refusal) = send(queue, key, sections);
    assert_eq!(refusal, Some(Refusal::Reused), "{key} {sections:?}");
    ids.len()
}

#[test]
fn a_retry_has_the_ids_of_the_first_try() {
    let machine = Machine::new();
    let queue = machine.open();
    let first = taken(&queue, "a", &["one", "two", "three"]);
    let times: Vec<u64> = first.iter().map(|id| id.at().0 - NOW).collect();
    assert_eq!(times, [0, 1, 2], "in the order of the body");
    assert!(first[0].sequence() == 0 && first.windows(2).all(|pair| pair[0].is_followed_by(pair[1])));
    machine.clock.advance(Duration::from_secs(5));
    assert_eq!(taken(&queue, "a", &["one", "two", "three"]), first);
    let other = taken(&queue, "b", &["one", "two", "three"]);
    assert!(first.iter().zip(&other).all(|(one, other)| one.producer() != other.producer()));
    machine.clock.advance(Duration::from_millis(KEY_AGE_MAX_MS));
    // A batch that is stored twice because its key was forgotten has two producers: counts compare producers and numbers.
    let again = taken(&queue, "a", &["one", "two", "three"]);
    assert!(first.iter().zip(&again).all(|(one, other)| one.producer() != other.producer()));
    assert_eq!(lock(&queue.keys).known.batches.len(), 2, "the other is a day old, and no older");
}

#[test]
fn another_body_is_refused_at_the_first_section_that_differs() {
    let machine = Machine::new();
    let mut queue = machine.open();
    for when in ["at once", "after a restart"] {
        taken(&queue, "a", &["one", "two", "three"]);
        assert_eq!(reused(&queue, "a", &["One", "two", "three"]), 0, "{when}");
        assert_eq!(reused(&queue, "a", &["one", "Two", "three"]), 1, "{when}");
        assert_eq!(reused(&queue, "a", &["one", "two", "three", "four"]), 3, "{when}");
        assert_eq!(reused(&queue, "a", &["one"]), 0, "{when}: a part of it alone");
        assert_eq!(reused(&queue, "a", &["onetwo"]), 0, "{when}");
        // Of other labels.
        let mut batch = Batch::new(b"a", b"app=b");
        assert_eq!(queue.number(&mut batch, &[b"one"], false), Err(Refusal::Reused), "{when}");
        assert_eq!(taken(&queue, "a", &["one", "two", "three"]).len(), 3, "{when}");
        queue = machine.open();
    }
}

#[test]
fn what_was_torn_is_completed_by_whatever_goes_on_as_it_began() {
    let machine = Machine::new();
    let mut queue = machine.open();
    for (key, restarts) in [("a", false), ("b", true)] {
        let (begun, ..) = begin(&queue, key, &["one", "two"], false);
        if restarts {
            queue = machine.open();
        }
        assert_eq!(reused(&queue, key, &["one", "TWO", "three"]), 1);
        let whole = taken(&queue, key, &["one", "two", "three"]);
        assert_eq!(&whole[..2], begun);
        assert_eq!(reused(&queue, key, &["one", "two", "THREE"]), 2);
        assert_eq!(taken(&queue, key, &["one", "two", "three"]), whole);
    }
}

#[test]
fn a_body_whose_end_brings_no_records_ends_all_the_same() {
    let queue = Machine::new().open();
    let (ids, batch, _) = begin(&queue, "a", &["one", "two"], false);
    assert_eq!(queue.end_batch(&batch), Ok(()));
    assert_eq!(reused(&queue, "a", &["one", "two", "three"]), 2);
    let (again, batch, _) = begin(&queue, "a", &["one", "two"], false);
    assert_eq!((again, queue.end_batch(&batch)), (ids, Ok(())));
    let (_, batch, _) = begin(&queue, "a", &["one"], false);
    assert_eq!(queue.end_batch(&batch), Err(Refusal::Reused));
    assert_eq!(queue.end_batch(&Batch::new(b"b", b"")), Ok(()), "of no records nothing is remembered");
}

#[test]
fn a_key_that_carries_its_time_is_numbered_alike_by_all_nodes() {
    let stated = NOW;
    let key = Id::new(Millis(stated), Producer::new(5), 6).to_string();
    let base = |key: &str, now: u64| {
        // Each time at a node that has not met it.
        let machine = Machine { fs: sim::Fs::new(), clock: Arc::new(sim::Clock::at(now)) };
        taken(&machine.open(), key, &["one"])[0]
    };
    let first = base(&key, stated);
    assert_eq!(first.at(), Millis(stated));
    for same in [stated + 5_000, stated + STATED_AGE_MAX_MS, stated - Millis::AHEAD_MAX] {
        assert_eq!(base(&key, same), first, "{same}");
    }
    // A time that cannot be right counts for nothing.
    for far in [stated + STATED_AGE_MAX_MS + 1, stated - Millis::AHEAD_MAX - 1] {
        assert_eq!(base(&key, far).at(), Millis(far));
    }
    for hostile in [Id::MIN, Id::MAX] {
        assert_eq!(base(&hostile.to_string(), stated).at(), Millis(stated));
    }
    // Of another body no record has the id of one of the first.
    let other = taken(&Machine::new().open(), &key, &["other"])[0];
    assert!(other.at() == first.at() && other.producer() != first.producer());
    let needs_memory = |key: &str| {
        let (_, batch, _) = begin(&Machine::new().open(), key, &["one"], true);
        batch.rests_on_memory()
    };
    assert!(!needs_memory(&key) && needs_memory("a") && needs_memory(&Id::MAX.to_string()));
}

#[test]
fn what_was_begun_stays_where_it_is() {
    let key = Id::new(Millis(NOW + Millis::AHEAD_MAX + 10), Producer::new(5), 6).to_string();
    // Too far ahead at the first try, and no more at the second.
    let machine = Machine::new();
    let first = taken(&machine.open(), &key, &["one"]);
    assert_eq!(first[0].at(), Millis(NOW));
    machine.clock.advance(Duration::from_secs(1));
    assert_eq!(taken(&machine.open(), &key, &["one"]), first);
}

#[test]
fn keys_that_are_synced_survive_a_power_cut() {
    let machine = Machine::new();
    let queue = machine.open();
    let first = taken(&queue, "a", &["one"]);
    assert!(queue.keys_written() > queue.keys_synced());
    queue.sync_keys().unwrap();
    assert_eq!(queue.keys_written(), queue.keys_synced());
    let later = taken(&queue, "b", &["one"]);
    let machine = Machine { fs: machine.fs.cut_power(sim::Loss::All, 1), ..machine };
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    assert_eq!(taken(&queue, "a", &["one"]), first);
    assert_ne!(taken(&queue, "b", &["one"]), later);
    assert_eq!(machine.key_files().len(), 1, "the file of the first run is gone");
}

#[test]
fn a_key_that_an_earlier_run_did_not_sync_is_synced_for_a_retry() {
    let machine = Machine::new();
    let first = taken(&machine.open(), "a", &["one"]);
    let queue = machine.open();
    assert_eq!(taken(&queue, "a", &["one"]), first);
    assert!(queue.keys_written() > queue.keys_synced());
    queue.sync_keys().unwrap();
    let machine = Machine { fs: machine.fs.cut_power(sim::Loss::All, 1), ..machine };
    assert_eq!(taken(&machine.open(), "a", &["one"]), first);
}

#[test]
fn the_notes_of_an_earlier_run_go_only_when_they_are_durable_elsewhere() {
    // A torn disk may have kept that the first file is gone, and nothing of the second.
    let torn = (0..40).map(|seed| (sim::Loss::Torn, seed));
    for (how, seed) in torn.chain([(sim::Loss::All, 0), (sim::Loss::None, 0)]) {
        let machine = Machine::new();
        let queue = machine.open();
        let first = taken(&queue, "a", &["one"]);
        queue.sync_keys().unwrap();
        drop(queue);
        // The first note of the next run begins a file of its own, and no client waits for a sync of it.
        taken(&machine.open(), "b", &["two"]);
        let machine = Machine { fs: machine.fs.cut_power(how, seed), ..machine };
        machine.clock.advance(Duration::from_secs(1));
        let queue = machine.open();
        assert_eq!(taken(&queue, "a", &["one"]), first, "{how:?} {seed}");
        assert_eq!(reused(&queue, "a", &["other"]), 0, "{how:?} {seed}");
    }
}

#[test]
fn a_note_that_was_written_in_part_hides_none_of_those_behind_it() {
    let machine = Machine::new();
    let queue = machine.open();
    let first = taken(&queue, "a", &["one"]);
    machine.fs.fill(10);
    let refused = begin(&queue, "b", &["one"], true).2;
    assert!(matches!(refused, Some(Refusal::Full)), "{refused:?}");
    machine.fs.set_capacity(None);
    machine.clock.advance(Duration::from_secs(2));
    queue.tick();
    let second = taken(&queue, "c", &["one"]);
    drop(queue);
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    assert_eq!(["a", "c"].map(|key| taken(&queue, key, &["one"])), [first, second]);
}

#[test]
fn after_a_failed_sync_all_is_written_again() {
    let machine = Machine::new();
    let queue = machine.open();
    let first = taken(&queue, "a", &["one", "two"]);
    machine.fs.fail_next_syncs(1);
    assert!(matches!(queue.sync_keys(), Err(Refusal::Io(_))));
    // The retry has nothing new to write, and must be durable nevertheless.
    assert_eq!(taken(&queue, "a", &["one", "two"]), first);
    queue.sync_keys().unwrap();
    let machine = Machine { fs: machine.fs.cut_power(sim::Loss::All, 1), ..machine };
    let queue = machine.open();
    assert_eq!(taken(&queue, "a", &["one", "two"]), first);
    assert_eq!(reused(&queue, "a", &["one", "three"]), 1);
}

#[test]
fn a_damaged_entry_costs_its_batch_alone() {
    let machine = Machine::new();
    let queue = machine.open();
    let firsts: Vec<_> = ["a", "b", "c"].map(|key| taken(&queue, key, &["one"])).into();
    drop(queue);
    machine.flip(8 + 40 + 9);
    machine.clock.advance(Duration::from_secs(1));
    let queue = machine.open();
    let again = ["a", "b", "c"].map(|key| taken(&queue, key, &["one"]));
    assert_eq!((&again[0], &again[2]), (&firsts[0], &firsts[2]));
    assert_ne!(again[1], firsts[1]);
}

#[test]
fn no_more_keys_are_remembered_than_are_configured() {
    let machine = Machine::new();
    let queue = machine.open_with(Config { keys_max: 2, ..Config::default() });
    let firsts = ["a", "b", "c"].map(|key| {
        machine.clock.advance(Duration::from_secs(1));
        taken(&queue, key, &["one"])
    });
    assert_eq!(reused(&queue, "c", &["two"]), 0);
    assert_eq!([taken(&queue, "b", &["one"]), taken(&queue, "c", &["one"])], firsts[1..]);
    machine.clock.advance(Duration::from_secs(1));
    assert_ne!(taken(&queue, "a", &["one"]), firsts[0], "the oldest is forgotten");
    drop(queue);
    let queue = machine.open_with(Config { keys_max: 2, ..Config::default() });
    assert_eq!(taken(&queue, "c", &["one"]), firsts[2]);
    assert_ne!(taken(&queue, "b", &["one"]), firsts[1]);
}

#[test]
fn a_file_is_what_it_was() {
    let files = Kept::new(env!("CARGO_MANIFEST_DIR"), 1);
    let id = Id::new(Millis(NOW), Producer::new(7), 0);
    let entry = |number, is_last| Entry {
        key: 5,
        number,
        base: Millis(NOW),
        producer: Producer::keyed(&[number as u8]),
        is_last,
        seen: Millis(NOW + 9),
    };
    let entries = [entry(0, false), entry(1, true)];
    let bytes = [&b"BSWKEYS1"[..], &entries.map(|entry| entry.encode(id)).concat()].concat();
    files.check("keys", &bytes);
    for kept in files.all("keys") {
        let fs = sim::Fs::new();
        let file = fs.create(Path::new("/k")).unwrap();
        file.append(&[&kept]).unwrap();
        let mut read = Vec::new();
        let found = scan(&*file, id, false, &mut |entry| read.push(*entry)).unwrap();
        assert_eq!((found, &read[..]), (KeyNotes { sound: 2, ..KeyNotes::default() }, &entries[..]));
    }
    // A queue writes such a file.
    let machine = Machine::new();
    taken(&machine.open(), "a", &["one"]);
    let written = machine.fs.live_bytes(Path::new(DIR).join(&machine.key_files()[0])).unwrap();
    assert!(written.starts_with(b"BSWKEYS1") && written.len() % 40 == 8, "{written:?}");
}

/// What a check of the file of keys finds, and how many notes a queue that is opened then cannot read.
fn checked(machine: &Machine) -> (KeyNotes, u64) {
    let path = Path::new(DIR).join(&machine.key_files()[0]);
    let queue = machine.open();
    let found = crate::mend::check_keys(&queue.doors, &path).unwrap().unwrap();
    assert_eq!(queue.metrics().damaged_keys.get() as u64, queue.damaged_keys());
    let damaged = queue.damaged_keys();
    machine.clock.advance(Duration::from_millis(KEY_AGE_MAX_MS));
    queue.tick();
    assert_eq!((queue.damaged_keys(), queue.metrics().damaged_keys.get()), (0, 0), "by then each key is forgotten");
    (found, damaged)
}

#[test]
fn any_flipped_bit_of_a_file_is_told() {
    let machine = Machine::new();
    let queue = machine.open();
    for key in ["a", "b", "c"] {
        taken(&queue, key, &["one"]);
    }
    drop(queue);
    let path = Path::new(DIR).join(&machine.key_files()[0]);
    let size = machine.fs.live_bytes(&path).unwrap().len() as u64;
    let notes = (size - 8) / 40;
    assert_eq!(checked(&machine), (KeyNotes { sound: notes, ..KeyNotes::default() }, 0));
    for bit in 0..size * 8 {
        machine.fs.flip_bit(&path, bit);
        let entry = (bit / 8).checked_sub(8).map(|byte| byte / 40);
        let (damaged, at) = entry.map_or((0, 0), |entry| (1, 8 + entry * 40));
        let want = KeyNotes { sound: notes - damaged, damaged, damaged_at: Some(at) };
        assert_eq!(checked(&machine), (want, damaged), "bit {bit}");
        machine.fs.flip_bit(&path, bit);
    }
}

#[test]
fn what_a_crash_leaves_of_a_file_is_no_damage() {
    let write = |machine: &Machine| {
        let queue = machine.open();
        for key in ["a", "b", "c"] {
            taken(&queue, key, &["one"]);
        }
        queue.sync_keys().unwrap();
        drop(queue);
        Path::new(DIR).join(&machine.key_files()[0])
    };
    let machine = Machine::new();
    let path = write(&machine);
    let size = machine.fs.live_bytes(&path).unwrap().len() as u64;
    // The end was being written, or the file was being begun.
    for bytes in [1, 39, size - 8, size - 1] {
        machine.fs.cut_file(&path, size - bytes);
        let (found, damaged) = checked(&machine);
        assert_eq!((found.damaged, found.damaged_at, damaged), (0, None, 0), "{bytes}");
    }
    // A power cut may leave anything behind what was synced, and nothing before that.
    for (entry, is_damaged) in [(1, true), (size / 40 - 1, false)] {
        let machine = Machine::new();
        let path = write(&machine);
        machine.fs.zero(&path, 8 + entry * 40..8 + entry * 40 + 40);
        assert_eq!(checked(&machine).1, 1);
        let machine = Machine { fs: machine.fs.cut_power(sim::Loss::None, 1), ..machine };
        let path = Path::new(DIR).join(&machine.key_files()[0]);
        let doors = machine.open().doors.clone();
        // Until a node has started.
        machine.fs.remove(&Path::new(DIR).join("boot")).unwrap();
        let found = crate::mend::check_keys(&doors, &path).unwrap().unwrap();
        assert_eq!(found.damaged == 1, is_damaged, "entry {entry}");
    }
}

#[test]
fn what_is_remembered_is_bounded_and_so_is_its_file() {
    const KEYS_MAX: usize = 900;
    const MORE_SECTIONS_MAX: usize = 300;
    let mut memory = Memory::new(KEYS_MAX, MORE_SECTIONS_MAX);
    let entry = |key, number, seen| Entry {
        key,
        number,
        base: Millis(5),
        producer: Producer::keyed(&number.to_le_bytes()),
        is_last: false,
        seen: Millis(seen),
    };
    for number in 0..=MORE_SECTIONS_MAX as u32 {
        memory.note(&entry(1, number, 7));
    }
    memory.note(&entry(2, 0, 7));
    memory.forget(Millis(7));
    assert_eq!((memory.entries_len(), memory.order.len()), (MORE_SECTIONS_MAX + 2, 2));
    memory.note(&entry(1, MORE_SECTIONS_MAX as u32 + 1, 7));
    memory.forget(Millis(7));
    assert_eq!((memory.entries_len(), memory.order.len()), (1, 1), "the oldest goes, with all its sections");
    assert_eq!(memory.fits(&entry(1, 9, 7)), Fits::Late);
    for key in 3..KEYS_MAX as u64 + 3 {
        memory.note(&entry(key, 0, 8));
    }
    memory.forget(Millis(8));
    assert_eq!(memory.entries_len(), KEYS_MAX);
    // Each day another key, many times: the file is written anew when most of it is forgotten.
    let machine = Machine::new();
    let queue = machine.open();
    let mut longest = 0;
    for round in 0..3 {
        for key in 0..40_000 {
            taken(&queue, &format!("{round} {key}"), &["one"]);
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
    fn entries_come_back(key: u64, number: u32, base: u64, producer: u64, is_last: bool, seen: u64, id: u128) {
        let (base, producer, seen) = (Millis(base), Producer::new(producer), Millis(seen));
        let entry = Entry { key, number, base, producer, is_last, seen };
        let bytes = entry.encode(Id::from_bits(id));
        prop_assert_eq!(Entry::decode(&bytes, Id::from_bits(id)), Some(entry));
        prop_assert_eq!(Entry::decode(&bytes[..39], Id::from_bits(id)), None);
        prop_assert_eq!(Entry::decode(&bytes, Id::from_bits(id ^ 1)), None);
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>) {
        let machine = Machine::new();
        let queue = machine.open();
        let path = Path::new(DIR).join(format!("{}.keys", Id::from_bits(7)));
        machine.fs.create(&path).unwrap().append(&[&bytes]).unwrap();
        drop(queue);
        taken(&machine.open(), "a", &["one"]);
    }
}
