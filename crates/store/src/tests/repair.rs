//! What repair reads of a shelf, and the segments that it makes.

use super::*;
use crate::aside::Turns;
use crate::repair::proof::Proof;
use crate::repair::{Bounds, Found, Ids, Keeps, Window};

/// A shelf with late records, merged and unmerged segments, and records that are there twice.
fn filled() -> (Machine, Arc<Shelf>) {
    let mut machine = Machine::start(sim::Fs::new(), Config { block_bytes: 400, ..config() });
    for round in 0..10_u64 {
        for at in 0..8 {
            let late = if at == 4 { 9_000 * (round % 3) } else { 0 };
            machine.put(Durability::Fast, &format!("round {round} line {at} {}", "x".repeat(at * 9)), late);
        }
        machine.gather_all();
        if round == 6 {
            while machine.shelf.compact(&|| false).unwrap() > 0 {}
        }
    }
    let mut registry = Registry::default();
    let doors = machine.shelf.doors.clone();
    let shelf = Shelf::open(doors, Path::new("/d/shelf"), config(), Metrics::new(&mut registry)).unwrap();
    (machine, Arc::new(shelf))
}

fn look(shelf: &Shelf, window: Window, now: Millis, verify: bool) -> Found {
    let calm = || false;
    let turns: Turns<'_> = shelf.repair_aside.begin(&calm);
    let bounds = Bounds { window, now, margin: Duration::from_secs(10), keeps: Keeps::default() };
    shelf.look(&bounds, verify, &turns)
}

fn all(machine: &Machine) -> Ids {
    let mut ids = Ids::default();
    machine.sent.keys().for_each(|id| ids.add(*id, 1));
    ids
}

/// Later than anything is fresh.
fn later(machine: &Machine) -> Millis {
    Millis(machine.clock.unix_ms() + 60_000)
}

#[test]
fn all_records_are_seen_by_their_rows_alone() {
    let (machine, shelf) = filled();
    let found = look(&shelf, Window::ALL, later(&machine), false);
    assert_eq!((&found.ids, &found.fresh), (&all(&machine), &Ids::default()));
    let bytes: u64 = shelf.segments().iter().map(|segment| segment.file_bytes()).sum();
    assert!(found.bytes > 0 && found.bytes < bytes / 2, "{} of {bytes}", found.bytes);
    assert_eq!(shelf.held(Window::ALL, &all(&machine)), all(&machine));
    let middle = Window { from: Millis(1_700_000_006_000), to: Millis(1_700_000_012_000) };
    let of_it: Vec<Id> = machine.sent.keys().filter(|id| middle.contains(**id)).copied().collect();
    assert!(of_it.len() > 5 && of_it.len() < machine.sent.len() / 2);
    let found = look(&shelf, middle, later(&machine), false);
    assert!(found.ids.len() == of_it.len() as u64 && of_it.iter().all(|id| found.ids.contains(*id)));
    assert_eq!(shelf.held(middle, &all(&machine)), found.ids);
}

#[test]
fn what_a_disk_does_not_give_back_for_a_moment_is_not_taken_for_missing() {
    for verify in [false, true] {
        let (machine, shelf) = filled();
        machine.fs.fail_reads_of("/shelf/", true);
        assert!(look(&shelf, Window::ALL, later(&machine), verify).is_unread);
        machine.fs.fail_reads_of("/shelf/", false);
        let found = look(&shelf, Window::ALL, later(&machine), verify);
        assert_eq!((found.is_unread, found.ids), (false, all(&machine)));
    }
}

#[test]
fn what_came_a_moment_ago_is_fresh() {
    let (machine, shelf) = filled();
    let found = look(&shelf, Window::ALL, Millis(machine.clock.unix_ms()), false);
    let (old, fresh) = (found.ids.len(), found.fresh.len());
    // Gathered every three seconds, eight at a time; the margin is ten seconds.
    assert_eq!((old + fresh, fresh), (machine.sent.len() as u64, 32));
    assert!(shelf.segments().iter().any(|segment| segment.footer().merge.is_some()), "merging makes nothing fresh");
}

#[test]
fn some_records_become_a_segment_of_their_own() {
    let (machine, shelf) = filled();
    let names = machine.shelf_names();
    let windows = [Window::ALL, Window { from: Millis(1_700_000_005_000), to: Millis(1_700_000_020_000) }];
    for (window, every) in windows.into_iter().flat_map(|window| [(window, 1), (window, 2), (window, 7)]) {
        let chosen: BTreeMap<Id, String> = machine.sent.clone().into_iter().step_by(every).collect();
        let mut ids = Ids::default();
        chosen.keys().for_each(|id| ids.add(*id, 1));
        let extract = shelf.extract(window, &Arc::new(ids)).unwrap().unwrap();
        let mut met = BTreeMap::new();
        for block in 0..extract.stored.footer().blocks.len() {
            for chunk in extract.stored.block(block).unwrap().chunks() {
                for (row, record) in (0..).zip(chunk.records()) {
                    let text = String::from_utf8_lossy(record).into_owned();
                    assert!(met.insert(chunk.rows.id(row).unwrap(), text).is_none(), "each is there once");
                }
            }
        }
        let want: BTreeMap<Id, String> = chosen.into_iter().filter(|(id, _)| window.contains(*id)).collect();
        assert_eq!(met, want);
        assert!(extract.stored.footer().sources.is_empty(), "it does not have all that they had");
        assert!(!shelf.has(extract.stored.id()), "it is not shown");
        assert_eq!(machine.shelf_names().len(), names.len() + 1);
        drop(extract);
        assert_eq!(machine.shelf_names(), names);
    }
    let mut others = Ids::default();
    others.add(Id::new(Millis(1_700_000_000_000), Producer::new(7), 0), 9);
    assert!(shelf.extract(Window::ALL, &Arc::new(others)).unwrap().is_none());
    assert_eq!(machine.shelf_names(), names);
}

#[test]
fn damaged_blocks_are_not_held() {
    let (machine, shelf) = filled();
    let segment = Arc::clone(&shelf.segments()[2]);
    let entry = segment.footer().blocks[0].clone();
    let path = segment.reader().path().to_owned();
    // In its text.
    machine.fs.spoil(&path, entry.at + entry.rows_bytes() + 3..entry.at + entry.packed_bytes() + 1);
    let now = later(&machine);
    assert_eq!(look(&shelf, Window::ALL, now, false).ids, all(&machine), "the rows are sound");
    let found = look(&shelf, Window::ALL, now, true);
    assert_eq!(found.ids.len(), all(&machine).len() - entry.reach.records);
    assert_eq!(shelf.held(Window::ALL, &all(&machine)), found.ids, "nor told of to others");
    assert!(shelf.extract(Window::ALL, &Arc::new(all(&machine))).unwrap().is_some());
    // In its rows.
    let other = Arc::clone(&shelf.segments()[3]);
    let entry = other.footer().blocks[0].clone();
    machine.fs.spoil(other.reader().path(), entry.at..entry.at + entry.packed_bytes() + 1);
    let left = look(&shelf, Window::ALL, now, false).ids;
    assert_eq!(left.len(), found.ids.len() - entry.reach.records);
    assert_eq!((segment.broken_blocks(), other.broken_blocks()), (1, 1));
}

/// A shelf that keeps two copies, over the files of another.
fn opened(machine: &Machine, config: Config) -> Shelf {
    let doors = machine.shelf.doors.clone();
    let config = Config { copies: 2, ..config };
    Shelf::open(doors, Path::new("/d/shelf"), config, Metrics::new(&mut Registry::default())).unwrap()
}

/// Spoils the text of a block, and has it read.
fn spoilt(machine: &Machine, segment: &Stored, block: usize) {
    let entry = &segment.footer().blocks[block];
    let text = entry.at + entry.rows_bytes() + 3..entry.at + entry.packed_bytes() + 1;
    machine.fs.spoil(segment.reader().path(), text);
    assert!(segment.block(block).is_err());
}

/// Has other stores prove that they keep what is damaged.
fn make_good(shelf: &Shelf) {
    for broken in shelf.damage() {
        shelf.keep(&Broken { proof: Proof::good(), ..broken });
    }
    assert!(shelf.damage().iter().all(Broken::is_made_good));
}

fn ended(machine: &Machine, end: &str) -> Vec<String> {
    machine.shelf_names().into_iter().filter(|name| name.ends_with(end)).collect()
}

#[test]
fn a_block_that_was_made_good_is_remembered_as_damaged() {
    let (machine, _) = filled();
    let shelf = opened(&machine, config());
    let at = shelf.segments().iter().position(|segment| segment.footer().blocks.len() > 2).unwrap();
    let segment = Arc::clone(&shelf.segments()[at]);
    let sound = machine.fs.live_bytes(segment.reader().path()).unwrap();
    spoilt(&machine, &segment, 0);
    let block = &segment.footer().blocks[0].reach;
    let damage = segment.damage().unwrap();
    assert_eq!((damage.low, damage.high), (block.low.at(), block.high.at()), "the time of the block alone");
    assert!(!damage.is_made_good() && segment.blocks_made_good().is_empty());
    shelf.report();
    let told = |shelf: &Shelf| (shelf.metrics.damaged.get(), shelf.metrics.damaged_made_good.get());
    assert_eq!(told(&shelf), (1, 0));
    make_good(&shelf);
    assert_eq!((told(&shelf), segment.blocks_made_good()), ((0, 1), [0].into()));

    let shelf = opened(&machine, config());
    let left = all(&machine).len() - block.records;
    assert_eq!(
        look(&shelf, Window::ALL, later(&machine), false).ids.len(),
        left,
        "others were told that it is not held"
    );
    assert_eq!((told(&shelf), shelf.segments()[at].blocks_made_good()), ((0, 1), [0].into()));
    spoilt(&machine, &shelf.segments()[at], 1);
    assert_eq!(shelf.segments()[at].blocks_made_good(), [0].into());
    shelf.report();
    assert_eq!(told(&shelf), (1, 0), "another block is another matter");
    let damage = shelf.segments()[at].damage().unwrap();
    spoilt(&machine, &shelf.segments()[at], 2);
    shelf.keep(&Broken { proof: Proof::good(), ..damage });
    assert!(
        shelf.segments()[at].damage().is_some_and(|damage| !damage.is_made_good() && damage.blocks == [1, 2].into())
    );

    // The number of copies is another.
    let doors = machine.shelf.doors.clone();
    let config = Config { copies: 3, ..config() };
    let three =
        Shelf::open(doors, Path::new("/d/shelf"), config.clone(), Metrics::new(&mut Registry::default())).unwrap();
    assert_eq!(three.segments()[at].broken_blocks(), 0);
    // The file is replaced by a sound one.
    let path = segment.reader().path();
    machine.fs.remove(path).unwrap();
    machine.fs.create(path).unwrap().append(&[&sound]).unwrap();
    let shelf = opened(&machine, config);
    assert_eq!((told(&shelf), shelf.segments()[at].damage()), ((0, 0), None));
    assert_eq!(look(&shelf, Window::ALL, later(&machine), false).ids.len(), all(&machine).len());
}

#[test]
fn a_segment_with_damaged_blocks_leaves_as_others_when_they_were_made_good() {
    for is_good in [true, false] {
        let (machine, _) = filled();
        let count = |end| ended(&machine, end).len();
        let shelf = opened(&machine, config());
        // That which goes first.
        let segment = shelf.segments().iter().min_by_key(|segment| segment.reach().high).map(Arc::clone).unwrap();
        spoilt(&machine, &segment, 0);
        match is_good {
            true => make_good(&shelf),
            false => shelf.damage().iter().for_each(|broken| shelf.keep(broken)),
        }
        while shelf.compact(&|| false).unwrap() > 0 {}
        assert!(shelf.has(segment.id()) && count(".blocks.proof") == 1, "it is not merged");
        let limit = Some(shelf.file_bytes() - 1);
        let tight = || opened(&machine, Config { retention_bytes: limit, retention_age: None, ..config() });
        let shelf = tight();
        shelf.retain(&machine.queue);
        assert!(!shelf.has(segment.id()));
        let name = segment.damage().unwrap().name;
        let is_trashed = shelf.trashed().iter().any(|file| file.name.ends_with(&name));
        let left = usize::from(!is_good);
        assert_eq!((is_trashed, count(".damaged"), count(".blocks.proof")), (is_good, left, left));
        // What is known of it goes with the file, and what a crash left of it goes at the next start.
        let aside = segment.reader().path().with_extension("damaged");
        machine.fs.create(&aside.with_extension("blocks.tmp")).unwrap();
        assert_eq!((tight().damage().len(), count(".blocks.proof"), count(".tmp")), (left, left, 0));
        if !is_good {
            machine.fs.remove(&aside).unwrap();
            assert_eq!((tight().damage().len(), count(".blocks.proof")), (0, 0));
        }
    }
}

#[test]
fn a_shelf_that_is_full_tells_what_it_keeps() {
    let (machine, shelf) = filled();
    assert_eq!(shelf.keeps().since_ms, 0);
    let bytes = shelf.file_bytes();
    let reopen = |limit| {
        let config = Config { retention_bytes: Some(limit), retention_age: None, ..config() };
        let mut registry = Registry::default();
        let doors = machine.shelf.doors.clone();
        Shelf::open(doors, Path::new("/d/shelf"), config, Metrics::new(&mut registry)).unwrap()
    };
    assert_eq!(reopen(bytes * 2).keeps(), Keeps { age_ms: None, since_ms: 0 });
    let oldest = shelf.segments()[0].reach().low.at();
    assert_eq!(reopen(bytes).keeps(), Keeps { age_ms: None, since_ms: oldest.0 });
    let tight = reopen(bytes / 2);
    tight.retain(&machine.queue);
    let since = tight.keeps().since_ms;
    assert!(since > oldest.0 && tight.file_bytes() <= bytes / 2, "{since}");
    // Also when there is room again.
    tight.replace(&[], &tight.segments().iter().map(|segment| segment.id()).collect::<Vec<_>>());
    assert!(tight.keeps().since_ms > oldest.0);
}
