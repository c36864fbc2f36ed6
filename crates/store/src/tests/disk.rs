//! On a nearly full disk the queue still drains and retention frees space; nothing else is removed.

use super::*;

/// Takes `lines` lines of `bytes` bytes that cannot be packed.
fn put_noise(machine: &mut StoreTestMachine, lines: usize, bytes: usize) {
    let dice = sim::Entropy::seeded(11);
    for _ in 0..lines {
        let line: String =
            (0..bytes).map(|_| char::from(b'0' + (bucksaw_env::Entropy::next_u64(&dice) % 75) as u8)).collect();
        machine.put(Durability::Durable, &line, 0);
    }
    machine.queue.commit_group();
    machine.advance(Duration::from_secs(3));
    machine.queue.commit_group();
}

fn trash(machine: &StoreTestMachine) -> Vec<String> {
    let mut names = machine.fs.list(Path::new("/d/store/trash")).unwrap();
    names.sort();
    names
}

fn has_drafts(machine: &StoreTestMachine) -> bool {
    machine.store_file_names().iter().any(|name| name.ends_with(".tmp"))
}

#[test]
fn a_gathering_that_does_not_fit_is_made_smaller_until_it_does() {
    let large = Config { segment_bytes: 1 << 20, block_bytes: 1 << 20, ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), large);
    put_noise(&mut machine, 60, 300);
    let waiting = machine.queue.uncommitted_segments().len();
    assert!(waiting > 20, "{waiting}");
    // A quota: the figures of the disk say that there is room.
    machine.fs.limit_writes(Some(9_000));
    let mut attempts = 0;
    while !machine.queue.uncommitted_segments().is_empty() {
        machine.gather_any();
        assert!(!has_drafts(&machine));
        assert_eq!(machine.lines(), machine.sent);
        // Files of the queue go after their grace, which is what makes room.
        machine.advance(Duration::from_secs(11));
        attempts += 1;
        assert!(attempts < 100, "the queue is not emptied");
        machine.fs.limit_writes(Some(9_000));
    }
    let failed = machine.store.metrics.gather_failed.get();
    assert!(failed >= 2, "{failed}");
    assert!(machine.store.segments().len() > 3);
    machine.fs.limit_writes(None);
    put_noise(&mut machine, 60, 300);
    (0..12).for_each(|_| _ = machine.gather_any());
    assert_eq!(machine.queue.uncommitted_segments().len(), 0, "with room it takes large batches again");
}

#[test]
fn merges_are_made_only_where_there_is_room_for_them() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for round in 0..8 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    machine.advance(Duration::from_secs(11));
    let before = machine.store_file_names();
    machine.fs.fill(machine.store.segments()[0].file_bytes());
    assert_eq!(machine.store.compact(&|| false).unwrap(), 0);
    assert_eq!((machine.store_file_names(), machine.store.metrics.compact_failed.get()), (before.clone(), 0));
    // The figures promise room, and the operating system gives none.
    machine.fs.set_capacity(None);
    machine.fs.limit_writes(Some(100));
    assert!(machine.store.compact(&|| false).unwrap_err().is_disk_full());
    assert_eq!(machine.store_file_names(), before);
    machine.fs.limit_writes(None);
    assert!(machine.store.compact(&|| false).unwrap() > 0);
    assert_eq!(machine.lines(), machine.sent);
}

#[test]
fn a_merge_is_given_up_for_retention_when_the_disk_fills_up() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    for round in 0..8 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    machine.advance(Duration::from_secs(11));
    let before = machine.store_file_names();
    let asked = std::cell::Cell::new(0);
    // While the first merge runs.
    let fills_up = || {
        asked.set(asked.get() + 1);
        if asked.get() == 3 {
            machine.fs.fill_directories(true);
            let mut batch = ingest::IdempotentBatch::new(b"key", b"");
            assert_eq!(machine.queue.assign_ids(&mut batch, &[b"refused"], true), Err(ingest::IngestError::DiskFull));
        }
        false
    };
    let merge = || machine.store.maintain(&machine.queue, &fills_up);
    machine.store.expire_to_trash(&machine.store.segments()[0]).unwrap();
    let thrown = machine.store.segments()[0].id();
    machine.store.replace_segments(&[], &[thrown]);
    assert!(matches!(merge(), Err(StoreError::Stopped)));
    assert_eq!((asked.get(), machine.store_file_names().len()), (3, before.len() - 1), "nothing of it is left");
    // The trash is emptied first, then expired segments are removed, then merges continue.
    assert!(matches!(merge(), Err(StoreError::Stopped)));
    machine.store.retain(&machine.queue);
    assert!(!matches!(merge(), Err(StoreError::Stopped)));
    machine.clock.advance(Duration::from_secs(100));
    assert!(matches!(merge(), Err(StoreError::Stopped) | Ok(0)) && machine.store.is_retention_urgent(&machine.queue));
    machine.store.retain(&machine.queue);
    machine.store.retain(&machine.queue);
    assert!(!machine.store.is_retention_urgent(&machine.queue));
}

#[test]
fn on_a_full_disk_retention_removes_what_it_cannot_move_and_nothing_else() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age.clone());
    for line in ["old", "damaged", "new"] {
        machine.put(Durability::Fast, line, 0);
        machine.gather_all();
        machine.advance(Duration::from_secs(if line == "damaged" { 80 } else { 1 }));
    }
    let damaged = Arc::clone(&machine.store.segments()[1]);
    let block = &damaged.footer().blocks[0];
    machine.fs.corrupt(damaged.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    assert!(damaged.block(0).is_err());
    machine.fs.fill_directories(true);
    machine.store.retain(&machine.queue);
    assert_eq!(machine.store.segments().len(), 3, "nothing is past its retention");
    machine.advance(Duration::from_secs(20));
    machine.store.retain(&machine.queue);
    assert_eq!(machine.lines().into_values().collect::<Vec<_>>(), ["new"]);
    assert_eq!((trash(&machine).len(), machine.store.metrics.expired_segments.get()), (0, 2));
    let names = machine.store_file_names();
    assert!(names.iter().any(|name| name.ends_with(".damaged")), "{names:?}");
    // Nor does it need the trash's directory.
    let machine = StoreTestMachine::start(machine.fs.kill(), age);
    assert_eq!(machine.lines().into_values().collect::<Vec<_>>(), ["new"]);
}

#[test]
fn a_disk_that_fills_up_costs_the_trash_its_oldest_and_no_more_than_it_must() {
    let config = Config { free_bytes_min: 5_000, ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config);
    for round in 0..6 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
        machine.clock.advance(Duration::from_secs(1));
    }
    machine.advance(Duration::from_secs(11));
    for segment in machine.store.segments().iter().take(5) {
        machine.store.expire_to_trash(segment).unwrap();
        machine.store.replace_segments(&[], &[segment.id()]);
        machine.clock.advance(Duration::from_secs(1));
    }
    let before = trash(&machine);
    let file_bytes = machine.store.trashed()[0].bytes;
    // Retention notes the time in a file of its own.
    machine.store.retain(&machine.queue);
    machine.fs.fill(10_000);
    machine.store.retain(&machine.queue);
    assert_eq!(trash(&machine), before, "there is twice the reserve");
    machine.fs.fill(10_000 - 2 * file_bytes);
    machine.store.retain(&machine.queue);
    assert_eq!(trash(&machine), before[2..], "the oldest went");
    assert_eq!(machine.store.trashed().iter().map(|file| file.name.clone()).collect::<Vec<_>>(), before[2..]);
    assert_eq!(machine.lines().len(), 1, "what is on the store stays");
}

/// A store with one segment and others in its trash. Its directories accept no new names, so the queue accepts nothing.
fn full_though_the_figures_say_no(trashed: usize) -> StoreTestMachine {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for round in 0..=trashed {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
        machine.clock.advance(Duration::from_secs(1));
    }
    machine.advance(Duration::from_secs(11));
    for segment in machine.store.segments().iter().take(trashed) {
        machine.store.expire_to_trash(segment).unwrap();
        machine.store.replace_segments(&[], &[segment.id()]);
        machine.clock.advance(Duration::from_secs(1));
    }
    machine.store.retain(&machine.queue);
    machine.fs.fill_directories(true);
    machine.put(Durability::Fast, "refused", 0);
    assert!(machine.queue.is_full());
    machine
}

#[test]
fn a_disk_that_is_full_whatever_its_figures_say_costs_the_trash_one_file_at_a_time() {
    let machine = full_though_the_figures_say_no(3);
    let before = trash(&machine);
    for gone in 1..=3 {
        machine.store.retain(&machine.queue);
        assert_eq!(trash(&machine), before[gone..]);
    }
    machine.store.retain(&machine.queue);
    assert_eq!(machine.lines().len(), 1, "what is on the store stays");
}

#[test]
fn a_segment_that_cannot_go_to_the_trash_for_another_reason_stays() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    machine.put(Durability::Fast, "old", 0);
    machine.gather_all();
    let segment = Arc::clone(&machine.store.segments()[0]);
    machine.advance(Duration::from_secs(200));
    // The file is moved away, so it cannot be renamed, and then back.
    let (path, elsewhere) = (segment.reader().path().to_owned(), Path::new("/d/elsewhere"));
    machine.fs.rename(&path, elsewhere).unwrap();
    assert!(machine.store.expire_to_trash(&segment).is_err());
    machine.store.retain(&machine.queue);
    assert_eq!((machine.store.segments().len(), machine.store.metrics.expired_segments.get()), (1, 0));
    machine.fs.rename(elsewhere, &path).unwrap();
    machine.store.retain(&machine.queue);
    assert_eq!((machine.store.segments().len(), trash(&machine).len()), (0, 1));
}

#[test]
fn a_segment_that_is_larger_than_the_limit_of_bytes_leaves_nothing_in_the_trash() {
    let bytes = Config { retention_bytes: Some(100), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), bytes);
    for round in 0..2 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    machine.store.retain(&machine.queue);
    assert_eq!((machine.store.segments().len(), trash(&machine)), (1, Vec::new()));
}

#[test]
fn a_store_starts_where_there_is_no_room_for_the_trash() {
    let fs = sim::Fs::new();
    ["/d/queue", "/d/store"].iter().for_each(|dir| fs.create_dir_all(Path::new(dir)).unwrap());
    fs.fill_directories(true);
    let machine = StoreTestMachine::try_start(fs.clone(), config());
    assert!(machine.is_some_and(|machine| machine.lines().is_empty()));
    assert!(fs.list(Path::new("/d/store/trash")).is_err(), "else nothing was tried");
}

#[test]
fn a_gathering_takes_half_of_the_room_and_is_packed_well_where_that_is_short() {
    let large = Config { segment_bytes: 1 << 20, block_bytes: 1 << 20, free_bytes_min: 10_000, ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), large);
    let packed = |machine: &mut StoreTestMachine, free_bytes: Option<u64>| {
        (0..8).for_each(|at| machine.put(Durability::Fast, &format!("{at} {}", "z".repeat(60)), 0));
        machine.fs.set_capacity(None);
        free_bytes.into_iter().for_each(|free_bytes| machine.fs.fill(free_bytes));
        machine.advance(Duration::from_secs(3));
        // Too little to stay as it is, so it is packed quickly where there is room.
        while machine.gather_any() > 0 {}
        machine.store.segments().last().unwrap().footer().blocks[0].text_codec()
    };
    let quick = Some(machine.store.config.codec_quick);
    assert_eq!(packed(&mut machine, None), quick);
    assert_eq!(machine.store.room_for_gathering(), machine.store.config.gather_bytes_max());
    assert_eq!(packed(&mut machine, Some(40_000)), quick);
    assert_ne!(packed(&mut machine, Some(19_000)), quick);
    machine.fs.fill(3_000);
    assert_eq!(machine.store.room_for_gathering(), 1_500);
    machine.fs.fill(0);
    assert_eq!(machine.store.room_for_gathering(), 1, "one segment is tried, however little room there is");
}

#[test]
fn merges_take_what_is_beyond_the_reserve_or_a_quarter_of_the_room() {
    let reserve = Config { free_bytes_min: 10_000, ..config() };
    let machine = StoreTestMachine::start(sim::Fs::new(), reserve);
    for (free, want) in [(100_000, 45_000), (30_000, 10_000), (16_000, 4_000), (8_000, 2_000), (0, 0)] {
        machine.fs.fill(free);
        assert_eq!(machine.store.room_for_merging(), want, "{free}");
    }
}

#[test]
fn what_was_trashed_by_mistake_is_taken_back_by_moving_it() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    for round in 0..3 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    machine.store.retain(&machine.queue);
    machine.advance(Duration::from_secs(200));
    machine.store.retain(&machine.queue);
    assert_eq!((machine.lines().len(), trash(&machine).len()), (0, 3));
    let trashed = machine.store.trashed();
    assert_eq!(trashed.iter().map(|file| file.records.unwrap()).sum::<u64>(), 3);
    assert!(trashed.iter().all(|file| file.low <= file.high && file.bytes > 0 && file.since > file.high));
    // As they are, and by the names that they had.
    for (at, name) in trash(&machine).iter().enumerate() {
        let to = if at == 0 { name.as_str() } else { name.split_once('-').unwrap().1 };
        machine.fs.rename(&Path::new("/d/store/trash").join(name), &Path::new("/d/store").join(to)).unwrap();
    }
    let sent = machine.sent.clone();
    let machine = StoreTestMachine::start(machine.fs.kill(), config());
    assert_eq!((machine.lines(), machine.store.trashed().len()), (sent, 0));
    machine.store.retain(&machine.queue);
    assert_eq!(machine.lines().len(), 3, "they stay where they are within the retention");
}

#[test]
fn what_is_in_the_trash_is_known_after_a_restart() {
    let bytes = Config { retention_bytes: Some(1), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), bytes.clone());
    for round in 0..3 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    // Retention keeps the newest segment; the rest exceeds the limit, so the trash is emptied.
    for segment in machine.store.segments().iter().take(2) {
        machine.store.expire_to_trash(segment).unwrap();
        machine.store.replace_segments(&[], &[segment.id()]);
    }
    let before = machine.store.trashed();
    assert_eq!((before.len(), machine.store.metrics.trash_segments.get()), (2, 2));
    let machine = StoreTestMachine::start(machine.fs.kill(), bytes);
    assert_eq!(machine.store.trashed(), before);
}

#[test]
fn late_records_stay_as_long_as_those_that_arrived_with_them() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    machine.store.retain(&machine.queue);
    machine.put(Durability::Fast, "of yesterday", 90_000_000);
    machine.gather_all();
    machine.advance(Duration::from_secs(90));
    machine.store.retain(&machine.queue);
    assert_eq!((machine.lines().len(), trash(&machine).len()), (1, 0));
    machine.advance(Duration::from_secs(20));
    machine.store.retain(&machine.queue);
    assert_eq!((machine.lines().len(), trash(&machine).len()), (0, 1));
}

#[test]
fn what_is_past_its_retention_is_in_no_answer() {
    let age = Config { retention_age: Some(Duration::from_secs(5)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    machine.store.retain(&machine.queue);
    machine.put(Durability::Fast, "old", 0);
    machine.gather_all();
    machine.advance(Duration::from_secs(4));
    let is_answered = |machine: &StoreTestMachine| {
        let since = machine.store.answers_since().unwrap();
        machine
            .queue
            .readable_segments()
            .iter()
            .any(|segment| segment.with_summary(|_, reach| reach.newest() >= since).unwrap())
    };
    assert!(machine.queue.readable_segments().len() == 1, "the queue's file is there for a while");
    machine.advance(Duration::from_secs(2));
    assert!(!is_answered(&machine));
    machine.store.retain(&machine.queue);
    assert_eq!(machine.queue.readable_segments().len(), 0, "what expired is not found in the queue");
    // A clock that jumps hides nothing.
    machine.clock.jump(8 * 24 * 3_600_000);
    assert_eq!(machine.store.answers_since(), None);
    machine.store.retain(&machine.queue);
    assert_eq!(machine.store.answers_since(), None);
    let suspended = machine.store.suspension().unwrap();
    assert_eq!(suspended.left, Duration::from_secs(24 * 3_600));
    assert!(suspended.ahead > Duration::from_secs(7 * 24 * 3_600));
    machine.clock.jump(-8 * 24 * 3_600_000);
    machine.store.retain(&machine.queue);
    assert!(machine.store.answers_since().is_some() && machine.store.suspension().is_none());
}
