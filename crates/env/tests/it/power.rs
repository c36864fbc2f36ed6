//! Power cuts: scenarios and properties.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::sim::PowerCutLoss;
use bucksaw_env::{File, Fs as _, sim};
use proptest::prelude::*;

/// One step of a script. All files are in `/d` or `/e`.
#[derive(Clone, Copy)]
enum DiskStep {
    Create(&'static str),
    Append(&'static str, &'static str),
    Truncate(&'static str, u64),
    Sync(&'static str),
    SyncFails(&'static str),
    SyncDir(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}
use DiskStep::{Append, Create, Remove, Rename, Sync, SyncDir, SyncFails, Truncate};

fn new_disk() -> io::Result<sim::Fs> {
    let fs = sim::Fs::new();
    fs.create_dir_all(Path::new("/d"))?;
    fs.create_dir_all(Path::new("/e"))?;
    Ok(fs)
}

/// Runs the steps. A handle is found by the name with which its file was created.
fn run(fs: &sim::Fs, steps: &[DiskStep]) -> io::Result<()> {
    let mut handles: BTreeMap<&str, Arc<dyn File>> = BTreeMap::new();
    for step in steps {
        match *step {
            Create(path) => {
                handles.insert(path, fs.create(Path::new(path))?);
            }
            Append(path, text) => handles[path].append(&[text.as_bytes()])?,
            Truncate(path, size) => handles[path].truncate(size)?,
            Sync(path) => handles[path].sync()?,
            SyncFails(path) => {
                fs.fail_next_syncs(1);
                let error = handles[path].sync();
                assert_eq!(error.err().and_then(|error| error.raw_os_error()), Some(5), "EIO");
            }
            SyncDir(path) => fs.sync_dir(Path::new(path))?,
            Rename(from, to) => fs.rename(Path::new(from), Path::new(to))?,
            Remove(path) => fs.remove(Path::new(path))?,
        }
    }
    Ok(())
}

/// All files in `/d` and `/e`, in order.
fn contents(fs: &sim::Fs) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for dir in ["/d", "/e"] {
        for name in fs.list(Path::new(dir))? {
            let path = format!("{dir}/{name}");
            let bytes = fs.live_bytes(&path).unwrap_or_default();
            found.insert(path, bytes.escape_ascii().to_string());
        }
    }
    Ok(found)
}

/// Creates a file with synced bytes and name.
const OLD: [DiskStep; 4] = [Create("/d/a"), Append("/d/a", "old"), Sync("/d/a"), SyncDir("/d")];

fn check(how: PowerCutLoss, after_old: &[DiskStep], want: &[(&str, &str)]) -> io::Result<()> {
    let fs = new_disk()?;
    run(&fs, &[&OLD, after_old].concat())?;
    let want = want.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    assert_eq!(contents(&fs.cut_power(how, 0))?, want);
    Ok(())
}

#[test]
fn unsynced_changes_are_lost() -> io::Result<()> {
    let lost = |steps: &[DiskStep], want: &[(&str, &str)]| {
        // Everything after a cut is durable: a second cut loses nothing.
        let fs = new_disk()?;
        run(&fs, &[&OLD, steps].concat())?;
        let once = fs.cut_power(PowerCutLoss::All, 0);
        assert_eq!(contents(&once.cut_power(PowerCutLoss::All, 0))?, contents(&once)?);
        check(PowerCutLoss::All, steps, want)
    };
    // Bytes.
    lost(&[], &[("/d/a", "old")])?;
    lost(&[Create("/d/b"), Append("/d/b", "x"), Sync("/d/b"), SyncDir("/d")], &[("/d/a", "old"), ("/d/b", "x")])?;
    lost(&[Create("/d/b"), Append("/d/b", "x"), SyncDir("/d")], &[("/d/a", "old"), ("/d/b", "")])?;
    lost(
        &[Create("/d/b"), SyncDir("/d"), Append("/d/b", "x"), Sync("/d/b"), Append("/d/b", "y")],
        &[("/d/a", "old"), ("/d/b", "x")],
    )?;
    lost(
        &[Create("/d/b"), SyncDir("/d"), Append("/d/b", "xyz"), Sync("/d/b"), Truncate("/d/b", 1)],
        &[("/d/a", "old"), ("/d/b", "xyz")],
    )?;
    lost(
        &[Create("/d/b"), SyncDir("/d"), Append("/d/b", "xyz"), Truncate("/d/b", 1), Sync("/d/b")],
        &[("/d/a", "old"), ("/d/b", "x")],
    )?;
    // Names.
    lost(&[Create("/d/b"), Append("/d/b", "x"), Sync("/d/b")], &[("/d/a", "old")])?;
    lost(&[Create("/e/b"), Append("/e/b", "x"), Sync("/e/b"), SyncDir("/d")], &[("/d/a", "old")])?;
    lost(&[Rename("/d/a", "/d/b")], &[("/d/a", "old")])?;
    lost(&[Rename("/d/a", "/d/b"), SyncDir("/d")], &[("/d/b", "old")])?;
    lost(&[Rename("/d/a", "/e/a")], &[("/d/a", "old")])?;
    lost(&[Rename("/d/a", "/e/a"), SyncDir("/e")], &[("/e/a", "old")])?;
    lost(&[Remove("/d/a")], &[("/d/a", "old")])?;
    lost(&[Remove("/d/a"), SyncDir("/d")], &[])?;
    lost(&[Create("/d/b"), Append("/d/b", "x"), Sync("/d/b"), Rename("/d/b", "/d/a")], &[("/d/a", "old")])?;
    lost(
        &[Create("/d/b"), Append("/d/b", "x"), Sync("/d/b"), Rename("/d/b", "/d/a"), SyncDir("/d")],
        &[("/d/a", "x")],
    )?;
    lost(&[Create("/d/b"), Append("/d/b", "x"), Rename("/d/b", "/d/a"), SyncDir("/d")], &[("/d/a", "")])?;
    Ok(())
}

#[test]
fn loss_none_keeps_unsynced_changes() -> io::Result<()> {
    let unchanged = |steps: &[DiskStep], want: &[(&str, &str)]| check(PowerCutLoss::None, steps, want);
    unchanged(&[Append("/d/a", " new")], &[("/d/a", "old new")])?;
    unchanged(&[Truncate("/d/a", 1), Append("/d/a", "x")], &[("/d/a", "ox")])?;
    unchanged(&[Create("/d/b"), Append("/d/b", "x")], &[("/d/a", "old"), ("/d/b", "x")])?;
    unchanged(&[Rename("/d/a", "/d/b"), Create("/d/c"), Remove("/d/c")], &[("/d/b", "old")])?;
    Ok(())
}

#[test]
fn bytes_dropped_by_a_failed_sync_are_never_durable() -> io::Result<()> {
    for how in [PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn] {
        let dropped = |steps: &[DiskStep], want: &str| check(how, steps, &[("/d/a", want)]);
        dropped(&[Append("/d/a", "x"), SyncFails("/d/a")], "old")?;
        dropped(&[Append("/d/a", "x"), SyncFails("/d/a"), Sync("/d/a")], "old")?;
        dropped(&[Append("/d/a", "x"), SyncFails("/d/a"), Append("/d/a", "y"), Sync("/d/a")], "old\\x00y")?;
    }
    Ok(())
}

/// `sim::inode` tests the outcomes of one file.
#[test]
fn torn_disks_differ_by_seed_only() -> io::Result<()> {
    let fs = new_disk()?;
    run(
        &fs,
        &[&OLD[..], &[Append("/d/a", "x"), Create("/d/b"), Append("/d/b", "y"), Rename("/d/a", "/e/a")]].concat(),
    )?;
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let found = contents(&fs.cut_power(PowerCutLoss::Torn, seed))?;
        assert_eq!(found, contents(&fs.cut_power(PowerCutLoss::Torn, seed))?);
        let old = [found.get("/d/a"), found.get("/e/a")].into_iter().flatten().collect::<Vec<_>>();
        assert!(old.len() == 1 && old[0].starts_with("old"), "one name and the synced bytes: {found:?}");
        seen.insert(found);
    }
    let has = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        assert!(seen.contains(&files), "no seed gives {files:?}");
    };
    has(&[("/d/a", "old")]);
    has(&[("/d/a", "oldx")]);
    has(&[("/e/a", "old")]);
    has(&[("/d/a", "old"), ("/d/b", "")]);
    has(&[("/e/a", "oldx"), ("/d/b", "y")]);
    Ok(())
}

#[test]
fn the_disk_after_a_power_cut_is_a_copy() -> io::Result<()> {
    let fs = new_disk()?;
    let held = fs.lock(Path::new("/d/lock"))?;
    let file = fs.create(Path::new("/d/a"))?;
    file.append(&[b"x"])?;
    file.sync()?;
    fs.sync_dir(Path::new("/d"))?;
    fs.set_capacity(Some(10));
    fs.fail_next_syncs(9);
    fs.fail_reads_of("a", true);
    let found = fs.cut_power(PowerCutLoss::All, 0);
    let again = found.lock(Path::new("/d/lock"))?;

    file.append(&[b"y"])?;
    file.sync().unwrap_err();
    found.remove(Path::new("/d/a"))?;
    assert_eq!(fs.live_bytes("/d/a"), Some(b"xy".to_vec()));
    assert_eq!(found.live_bytes("/d/a"), None);
    assert_eq!((found.sync_count(), found.space(Path::new("/d"))?.total_bytes), (0, 10));
    let new = found.create(Path::new("/d/a"))?;
    new.append(&[b"z"])?;
    new.sync()?;
    new.read_exact_at(0, &mut [0])?;
    drop((held, again));
    Ok(())
}

#[derive(Clone, Debug)]
enum SyncedWrite {
    Append(Vec<u8>),
    Sync,
    /// Truncates the file to its synced length, as a writer does after a failed append.
    CutBack,
}

fn writes() -> impl Strategy<Value = Vec<SyncedWrite>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let write = prop_oneof![6 => bytes.prop_map(SyncedWrite::Append), 2 => Just(SyncedWrite::Sync), 1 => Just(SyncedWrite::CutBack)];
    prop::collection::vec(write, 0..30)
}

proptest! {
    #[test]
    fn synced_bytes_survive(writes in writes(), seed: u64) {
        let fs = new_disk()?;
        let file = fs.create(Path::new("/d/a"))?;
        fs.sync_dir(Path::new("/d"))?;
        let (mut live, mut synced) = (Vec::new(), Vec::new());
        for write in writes {
            match write {
                SyncedWrite::Append(bytes) => {
                    let (head, tail) = bytes.split_at(bytes.len() / 2);
                    file.append(&[head, tail])?;
                    live.extend(bytes);
                }
                SyncedWrite::Sync => {
                    file.sync()?;
                    synced.clone_from(&live);
                }
                SyncedWrite::CutBack => {
                    file.truncate(synced.len() as u64)?;
                    live.clone_from(&synced);
                }
            }
            let found = |how| fs.cut_power(how, seed).live_bytes("/d/a").unwrap_or_default();
            prop_assert_eq!(&found(PowerCutLoss::All), &synced);
            prop_assert_eq!(&found(PowerCutLoss::None), &live);
            prop_assert!(found(PowerCutLoss::Torn).starts_with(&synced));
            prop_assert_eq!(fs.live_bytes("/d/a").unwrap_or_default(), &live[..]);
        }
    }

    /// A file with a durable name has exactly one of its names after a cut, unless it was replaced or removed.
    #[test]
    fn renamed_files_are_found_once(renames in prop::collection::vec((0_usize..3, any::<bool>()), 0..20), seed: u64) {
        let fs = new_disk()?;
        let mut at: Vec<String> = (0..3).map(|file| format!("/d/{file}")).collect();
        for (file, path) in at.iter().enumerate() {
            let handle = fs.create(Path::new(path))?;
            handle.append(&[file.to_string().as_bytes()])?;
            handle.sync()?;
        }
        fs.sync_dir(Path::new("/d"))?;
        for (step, (file, sync)) in renames.into_iter().enumerate() {
            let to = format!("/{}/{}", if step % 2 == 0 { "d" } else { "e" }, step % 5 + 3);
            if at.contains(&to) {
                continue;
            }
            fs.rename(Path::new(&at[file]), Path::new(&to))?;
            at[file] = to;
            if sync {
                fs.sync_dir(Path::new(if step % 3 == 0 { "/d" } else { "/e" }))?;
            }
            for how in [PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn] {
                let mut found: Vec<String> = contents(&fs.cut_power(how, seed))?.into_values().collect();
                found.sort();
                prop_assert_eq!(found, ["0", "1", "2"], "{:?}", how);
            }
        }
    }
}
