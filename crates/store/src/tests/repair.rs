//! What repair reads of a shelf, and the segments that it makes.

use super::*;
use crate::aside::Turns;
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
