//! Repairs of damaged data directories, and power cuts in the middle of them.

use bucksaw_segment::health::{CheckedFile, RepairOutcome};

use super::*;
use crate::offline_repair::check;

const DIRS: [&str; 2] = ["/d/queue", "/d/store"];

fn env(fs: &sim::Fs) -> Env {
    let (clock, entropy) = (sim::Clock::at_unix_ms(1_700_000_000_000), sim::Entropy::seeded(7));
    Env { fs: Arc::new(fs.clone()), clock: Arc::new(clock), entropy: Arc::new(entropy) }
}

/// What `bucksaw verify --repair` does. Stops at the first error.
fn repair(fs: &sim::Fs) -> Result<Vec<(String, RepairOutcome)>, String> {
    let env = env(fs);
    let mut all = Vec::new();
    for dir in DIRS {
        let mut names = fs.list(Path::new(dir)).unwrap();
        names.sort();
        for name in names {
            let path = Path::new(dir).join(&name);
            let checked = if dir == DIRS[0] {
                let file = ingest::offline_repair::check(&env, &path).map_err(|error| error.to_string())?;
                file.map(|file| Box::new(file) as Box<dyn CheckedFile>)
            } else {
                let file = check(&*env.fs, &path).map_err(|error| error.to_string())?;
                file.map(|file| Box::new(file) as Box<dyn CheckedFile>)
            };
            if let Some(checked) = checked {
                all.push((name, checked.repair(&*env.fs).map_err(|error| error.to_string())?));
            }
        }
    }
    Ok(all)
}

/// A disk with segments in the queue and on the store, as a killed node leaves it, and what was sent.
fn filled_disk() -> (sim::Fs, BTreeMap<Id, String>) {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), Config { segment_bytes: 3_000, ..config() });
    script(&mut machine);
    machine.gather_all();
    for at in 0..24 {
        let durability = [Durability::Fast, Durability::Durable][at % 2];
        machine.put(durability, &format!("line {at} {}", "w".repeat(at * 5)), 0);
        machine.queue.commit_group();
    }
    machine.queue.close();
    (machine.fs.kill(), machine.sent)
}

/// Damages some segments as the seed decides.
fn damage(fs: &sim::Fs, seed: u64) {
    use bucksaw_env::Entropy as _;
    let dice = sim::Entropy::seeded(seed);
    let draw = |below: usize| (dice.next_u64() % below.max(1) as u64) as usize;
    let mut paths = fs.paths();
    paths.retain(|path| path.extension().is_some_and(|end| end == "seg" || end == "pending"));
    for _ in 0..=draw(4) {
        let path = &paths[draw(paths.len())];
        let length = fs.live_bytes(path).unwrap().len();
        let at = draw(length) as u64;
        match draw(8) {
            0 => drop(fs.truncate_file(path, at)),
            1 | 2 => drop(fs.corrupt(path, at..(at + 1_500).min(length as u64))),
            3 => drop(fs.corrupt(path, at..length as u64)),
            _ => drop(fs.flip_bit(path, at * 8 + draw(8) as u64)),
        }
    }
}

/// What a node finds on a disk; the disk stays as it is.
fn open_disk(fs: &sim::Fs) -> (BTreeMap<Id, String>, usize) {
    let machine = StoreTestMachine::start(fs.cut_power(sim::PowerCutLoss::None, 0), config());
    (machine.lines(), machine.store.quarantined_files().len() + machine.queue.damaged_files().len())
}

fn contents(fs: &sim::Fs) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    fs.paths().into_iter().map(|path| (path.clone(), fs.live_bytes(path).unwrap())).collect()
}

fn is_within(part: &BTreeMap<Id, String>, whole: &BTreeMap<Id, String>) -> bool {
    part.iter().all(|(id, line)| whole.get(id) == Some(line))
}

#[test]
fn a_repair_keeps_what_can_be_read_and_tells_what_is_lost() {
    let (mut whole, mut lost) = (0, 0);
    for seed in 0..60 {
        let (fs, sent) = filled_disk();
        assert_eq!(open_disk(&fs), (sent.clone(), 0));
        damage(&fs, seed);
        // A node on the damaged disk keeps this much; it may not find what a repair finds without footers.
        let (before, _) = open_disk(&fs);
        let done = repair(&fs).unwrap();
        let machine = StoreTestMachine::start(fs.kill(), config());
        let after = machine.lines();
        assert!(is_within(&before, &after) && is_within(&after, &sent), "seed {seed}: {done:?}");
        let quarantined = machine.store.quarantined_files().len() + machine.queue.damaged_files().len();
        let all_mended =
            done.iter().all(|(_, done)| matches!(done, RepairOutcome::Unchanged | RepairOutcome::Repaired(_)));
        // Where nothing tells how many records there were, none may be lost.
        assert!(after == sent || !all_mended, "seed {seed}: {done:?}");
        assert_eq!(quarantined == 0, all_mended, "seed {seed}: what is lost is reported: {done:?}");
        assert!(machine.read().values().all(|(_, times)| *times == 1), "seed {seed}: {done:?}");
        assert!(
            machine
                .store
                .segments()
                .iter()
                .all(|segment| segment.damaged_block_count() == 0 && !segment.has_rebuilt_damage())
        );
        (whole, lost) = (whole + usize::from(all_mended), lost + usize::from(!all_mended));
        // What was repaired is gathered and merged like anything else.
        machine.gather_all();
        while machine.store.compact(&|| false).unwrap() > 0 {}
        assert_eq!(machine.lines(), after, "seed {seed}");
    }
    assert!(whole > 5 && lost > 5, "{whole} {lost}");
}

#[test]
fn a_second_repair_changes_nothing() {
    for seed in 0..40 {
        let (fs, _) = filled_disk();
        damage(&fs, seed);
        repair(&fs).unwrap();
        let (after, syncs) = (contents(&fs), fs.sync_count());
        let again = repair(&fs).unwrap();
        assert!(again.iter().all(|(_, done)| *done == RepairOutcome::Unchanged), "seed {seed}: {again:?}");
        assert_eq!((contents(&fs), fs.sync_count()), (after, syncs), "seed {seed}");
    }
}

#[test]
fn a_power_cut_in_a_repair_loses_nothing() {
    for seed in 0..25 {
        let (fs, sent) = filled_disk();
        let disk = fs.cut_power(sim::PowerCutLoss::None, 0);
        damage(&disk, seed);
        let (before, _) = open_disk(&disk);
        let image = || disk.cut_power(sim::PowerCutLoss::None, 0);
        let undisturbed = image();
        repair(&undisturbed).unwrap();
        let (after, _) = open_disk(&undisturbed);
        for (cut, how) in (0..=undisturbed.sync_count()).flat_map(|cut| {
            [sim::PowerCutLoss::All, sim::PowerCutLoss::None, sim::PowerCutLoss::Torn, sim::PowerCutLoss::Torn]
                .map(|how| (cut, how))
        }) {
            let disturbed = image();
            disturbed.halt_at_sync(cut);
            let _ = repair(&disturbed);
            let found = disturbed.cut_power(how, seed * 1_000 + cut);
            let (readable, _) = open_disk(&found);
            assert!(is_within(&before, &readable) && is_within(&readable, &sent), "seed {seed}, cut at {cut}, {how:?}");
            repair(&found).unwrap();
            assert_eq!(open_disk(&found).0, after, "seed {seed}, cut at {cut}, {how:?}");
            let names = |fs: &sim::Fs| -> Vec<_> {
                fs.paths().into_iter().filter(|path| path.extension().is_none_or(|end| end != "tmp")).collect()
            };
            assert_eq!(names(&found), names(&undisturbed), "seed {seed}, cut at {cut}, {how:?}");
        }
    }
}

#[test]
fn an_intact_quarantined_file_is_restored() {
    let (fs, sent) = filled_disk();
    let mut paths = fs.paths();
    paths.retain(|path| path.extension().is_some_and(|end| end == "seg" || end == "pending"));
    for path in &paths {
        fs.rename(path, &path.with_extension("damaged")).unwrap();
        fs.flip_bit(path.with_extension("damaged"), 100);
    }
    assert_eq!(open_disk(&fs), (BTreeMap::new(), paths.len()));
    let done = repair(&fs).unwrap();
    let quarantined = done.iter().filter(|(name, _)| name.ends_with(".damaged"));
    assert!(quarantined.clone().all(|(_, done)| matches!(done, RepairOutcome::Repaired(_))), "{done:?}");
    assert_eq!((quarantined.count(), open_disk(&fs)), (paths.len(), (sent, 0)));
}

#[test]
fn what_is_saved_takes_no_other_files_place() {
    // The records that a segment has lost are still in the queue segment that it was gathered from.
    let mut machine = StoreTestMachine::start(sim::Fs::new(), Config { block_bytes: 200, ..config() });
    (0..10).for_each(|at| machine.put(Durability::Durable, &format!("line {at} {}", "w".repeat(30)), 0));
    machine.queue.commit_group();
    machine.advance(Duration::from_secs(3));
    machine.queue.commit_group();
    let queue: Vec<_> = machine.queue.uncommitted_segments().iter().map(|view| view.path().to_owned()).collect();
    let queue: Vec<_> = queue.into_iter().map(|path| (machine.fs.live_bytes(&path).unwrap(), path)).collect();
    machine.gather_all();
    let segment = Arc::clone(&machine.store.segments()[0]);
    let block = &segment.footer().blocks[0];
    machine.fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    let fs = machine.fs.kill();
    for (bytes, path) in queue {
        let committed = path.with_extension("committed");
        fs.remove(&committed).unwrap();
        fs.create(&path).unwrap().append(&[&bytes]).unwrap();
    }
    let done = repair(&fs).unwrap();
    assert!(done.iter().any(|(_, done)| matches!(done, RepairOutcome::Saved { .. })), "{done:?}");
    assert_eq!(open_disk(&fs).0, machine.sent);
}

#[test]
fn files_in_the_trash_are_mended_where_nothing_is_lost() {
    let (fs, _) = filled_disk();
    let name = fs.list(Path::new("/d/store")).unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    let path = Path::new("/d/store/trash").join(format!("1700000000000-{name}"));
    fs.rename(&Path::new("/d/store").join(name), &path).unwrap();
    let sound = fs.live_bytes(&path).unwrap();
    let mend = || {
        let checked = check(&fs, &path).unwrap().unwrap();
        (checked.health().loss.is_none(), checked.repair(&fs).unwrap())
    };
    assert_eq!(mend(), (true, RepairOutcome::Unchanged));
    fs.flip_bit(&path, 300);
    let own = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(mend(), (true, RepairOutcome::Repaired(own)));
    assert_eq!(fs.live_bytes(&path).unwrap(), sound);
    // What is past its retention is not brought back in part.
    fs.corrupt(&path, 32..sound.len() as u64);
    assert_eq!(mend(), (false, RepairOutcome::Unchanged));
    assert_eq!(fs.list(Path::new("/d/store/trash")).unwrap().len(), 1);
}

#[test]
fn a_repair_without_room_leaves_everything_as_it_is() {
    let (fs, _) = filled_disk();
    let path = fs.paths().into_iter().find(|path| path.extension().is_some_and(|end| end == "seg")).unwrap();
    fs.flip_bit(path, 300);
    fs.fill(50);
    let before = contents(&fs);
    assert!(repair(&fs).is_err());
    assert_eq!(contents(&fs), before);
}

#[test]
fn what_a_power_cut_takes_of_unsynced_records_is_no_damage() {
    let (fs, _) = filled_disk();
    let is_fast = |path: &std::path::PathBuf| path.to_string_lossy().ends_with("1.pending");
    let path = fs.paths().into_iter().find(is_fast).unwrap();
    let check = |fs: &sim::Fs| {
        let checked = ingest::offline_repair::check(&env(fs), &path).unwrap().unwrap();
        (
            checked.health().is_intact(),
            checked.note().is_some(),
            checked.repair(fs).unwrap() == RepairOutcome::Unchanged,
        )
    };
    assert_eq!(check(&fs), (true, false, true));
    fs.truncate_file(&path, 200);
    // After a start of the operating system the power may have been cut, without one it was not.
    assert_eq!(check(&fs.cut_power(sim::PowerCutLoss::None, 0)), (true, true, true));
    assert_eq!(check(&fs), (false, false, false));
}

#[test]
fn a_copy_under_another_name_is_left_as_it_is() {
    let (fs, _) = filled_disk();
    let name = fs.list(Path::new("/d/store")).unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    let path = Path::new("/d/store").join(&name);
    let bytes = fs.live_bytes(&path).unwrap();
    let (low, high, id, _) = crate::name::parse(&name).unwrap();
    let copy = path.with_file_name(crate::name::file_name(low, high, Id::from_bits(id.bits() ^ 1), "seg"));
    fs.create(&copy).unwrap().append(&[&bytes]).unwrap();
    fs.flip_bit(&copy, 300);
    let before = contents(&fs);
    let done = repair(&fs).unwrap();
    assert!(done.iter().all(|(_, done)| *done == RepairOutcome::Unchanged), "{done:?}");
    assert_eq!(contents(&fs), before);
}

#[test]
fn a_repair_overwrites_no_quarantined_file() {
    let (fs, _) = filled_disk();
    for (dir, end) in [("/d/store", "seg"), ("/d/queue", "pending")] {
        let name = fs.list(Path::new(dir)).unwrap().into_iter().find(|name| name.ends_with(end)).unwrap();
        let path = Path::new(dir).join(name);
        let size = fs.live_bytes(&path).unwrap().len() as u64;
        // The file is unreadable; the quarantined one may still be readable in part.
        fs.corrupt(&path, 0..size);
        let quarantined = path.with_extension("damaged");
        fs.create(&quarantined).unwrap().append(&[b"the only copy"]).unwrap();
        let _ = repair(&fs);
        assert_eq!(fs.live_bytes(&quarantined).unwrap(), b"the only copy", "{}", quarantined.display());
        assert_eq!(fs.live_bytes(&path).unwrap().len() as u64, size);
        fs.remove(&path).unwrap();
        fs.remove(&quarantined).unwrap();
    }
}

#[test]
fn only_segments_of_the_trash_are_checked() {
    let (fs, _) = filled_disk();
    let name = fs.list(Path::new("/d/store")).unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    let trash = Path::new("/d/store/trash");
    let is_checked = |extension: &str| {
        let path = trash.join(format!("1700000000000-{name}")).with_extension(extension);
        fs.create(&path).unwrap().append(&[b"x"]).unwrap();
        check(&fs, &path).unwrap().is_some()
    };
    assert!(is_checked("seg") && !is_checked("tmp"));
}
