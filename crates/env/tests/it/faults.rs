//! The faults of the simulated file system.

use std::io::{self, ErrorKind};
use std::path::Path;

use bucksaw_env::sim::PowerCutLoss;
use bucksaw_env::{Fs as _, Space, sim};

const A: &str = "/a";
const B: &str = "/b";

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn the_power_is_cut_at_the_chosen_sync() -> io::Result<()> {
    let script = |fs: &sim::Fs| {
        let file = fs.create(path(A))?;
        file.append(&[b"1"])?;
        file.sync()?;
        fs.sync_dir(path("/"))?;
        file.append(&[b"2"])?;
        file.sync()
    };
    let whole = sim::Fs::new();
    script(&whole)?;
    assert_eq!(whole.sync_count(), 3);
    assert!(!whole.is_halted());

    let check = |n: u64, lost: Option<&[u8]>, live: &[u8]| {
        let fs = sim::Fs::new();
        fs.halt_at_sync(n);
        let stopped = script(&fs);
        assert_eq!(stopped.is_err(), n < 3, "at {n}");
        assert_eq!(fs.is_halted(), n < 3, "at {n}");
        assert_eq!(fs.cut_power(PowerCutLoss::All, 0).live_bytes(A).as_deref(), lost, "at {n}");
        assert_eq!(fs.cut_power(PowerCutLoss::None, 0).live_bytes(A).as_deref(), Some(live), "at {n}");
    };
    check(0, None, b"1");
    check(1, None, b"1");
    check(2, Some(b"1"), b"12");
    check(3, Some(b"12"), b"12");
    Ok(())
}

#[test]
fn without_power_nothing_changes() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    file.append(&[b"1"])?;
    file.sync()?;
    fs.halt_at_sync(0);
    file.append(&[b"2"])?;

    let refused = |result: io::Result<()>| {
        assert_eq!(result.map_err(|error| (error.kind(), error.to_string())), {
            Err((ErrorKind::Other, "power is cut".to_owned()))
        });
    };
    refused(file.sync());
    refused(file.sync());
    refused(file.append(&[b"3"]));
    refused(file.truncate(0));
    refused(fs.create(path(B)).map(drop));
    refused(fs.rename(path(A), path(B)));
    refused(fs.remove(path(A)));
    refused(fs.create_dir_all(path(B)));
    refused(fs.sync_dir(path("/")));
    refused(fs.lock(path(B)).map(drop));

    assert_eq!((fs.sync_count(), fs.list(path("/"))?), (2, vec!["a".to_owned()]));
    file.read_exact_at(0, &mut [0; 2])?;
    assert_eq!(fs.cut_power(PowerCutLoss::None, 0).live_bytes(A), Some(b"12".to_vec()));
    assert_eq!(fs.cut_power(PowerCutLoss::All, 0).live_bytes(A), None);
    Ok(())
}

#[test]
fn the_requested_number_of_syncs_fails() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    fs.fail_next_syncs(2);
    fs.sync_dir(path("/"))?;
    file.append(&[b"12"])?;
    assert_eq!(file.sync().err().and_then(|error| error.raw_os_error()), Some(5), "EIO");
    file.sync().unwrap_err();
    file.sync()?;
    assert_eq!(fs.sync_count(), 4);
    assert_eq!(fs.live_bytes(A), Some(b"12".to_vec()));
    assert_eq!(fs.cut_power(PowerCutLoss::None, 0).live_bytes(A), Some(Vec::new()));
    Ok(())
}

#[test]
fn full_directories_refuse_new_names_only() -> io::Result<()> {
    let fs = sim::Fs::new();
    fs.create_dir_all(Path::new("/d/e"))?;
    fs.create(Path::new("/d/a"))?.append(&[b"1"])?;
    fs.fill_directories(true);
    assert_eq!(kind(fs.create(Path::new("/d/b")).map(drop)), Some(ErrorKind::StorageFull));
    assert_eq!(kind(fs.rename(Path::new("/d/a"), Path::new("/d/e/a"))), Some(ErrorKind::StorageFull));
    assert_eq!(kind(fs.create_dir_all(Path::new("/d/f"))), Some(ErrorKind::StorageFull));
    fs.create_dir_all(Path::new("/d/e"))?;
    fs.rename(Path::new("/d/a"), Path::new("/d/c"))?;
    fs.remove(Path::new("/d/c"))?;
    fs.fill_directories(false);
    fs.create(Path::new("/d/b")).map(drop)
}

#[test]
fn changes_of_a_read_only_file_system_fail() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    file.append(&[b"1"])?;
    fs.make_read_only(true);
    let refused = [
        fs.create(path(B)).map(drop),
        file.append(&[b"2"]),
        file.truncate(0),
        fs.rename(path(A), path(B)),
        fs.remove(path(A)),
        fs.create_dir_all(path("/d")),
    ];
    for refused in refused {
        assert_eq!(kind(refused), Some(ErrorKind::ReadOnlyFilesystem));
    }
    assert_eq!(fs.live_bytes(A), Some(b"1".to_vec()));
    fs.make_read_only(false);
    file.append(&[b"2"])?;
    fs.remove(path(A))
}

#[test]
fn a_full_disk_takes_what_fits() -> io::Result<()> {
    let fs = sim::Fs::new();
    let free = |fs: &sim::Fs| fs.space(path("/")).map(|space| space.free_bytes);
    assert_eq!(fs.space(path("/"))?, Space { free_bytes: 1 << 40, total_bytes: 1 << 40 });
    fs.set_capacity(Some(5));
    let (a, b) = (fs.create(path(A))?, fs.create(path(B))?);
    a.append(&[b"123"])?;
    assert_eq!(fs.space(path("/"))?, Space { free_bytes: 2, total_bytes: 5 });
    assert_eq!(kind(b.append(&[b"4", b"5", b"6"])), Some(ErrorKind::StorageFull));
    assert_eq!(fs.live_bytes(B), Some(b"45".to_vec()));
    assert_eq!(kind(b.append(&[b"6"])), Some(ErrorKind::StorageFull));
    b.append(&[b""])?;
    b.truncate(1)?;
    b.append(&[b"5"])?;
    assert_eq!(free(&fs)?, 0);

    // A removed file uses space until its last handle is dropped.
    fs.remove(path(A))?;
    assert_eq!(free(&fs)?, 0);
    drop(a);
    assert_eq!(free(&fs)?, 3);
    fs.set_capacity(Some(1));
    assert_eq!(free(&fs)?, 0);
    fs.set_capacity(None);
    b.append(&[b"6789"])?;
    assert_eq!(free(&fs)?, (1 << 40) - 6);
    Ok(())
}

#[test]
fn bad_sectors_fail_reads_of_some_files() -> io::Result<()> {
    let fs = sim::Fs::new();
    let (a, b) = (fs.create(path(A))?, fs.create(path(B))?);
    let fails = |file: &dyn bucksaw_env::File| {
        file.read_at(0, &mut [0]).err().and_then(|error| error.raw_os_error()) == Some(5)
    };
    fs.fail_reads_of("a", true);
    assert!(fails(a.as_ref()) && !fails(b.as_ref()));
    fs.rename(path(A), path("/c"))?;
    assert!(!fails(a.as_ref()));
    fs.rename(path(B), path("/dates"))?;
    assert!(fails(b.as_ref()));
    fs.fail_reads_of("a", false);
    assert!(!fails(b.as_ref()));
    Ok(())
}

#[test]
fn a_flipped_bit_survives_a_power_cut() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    fs.sync_dir(path("/"))?;
    file.append(&[b"aa"])?;
    file.sync()?;
    assert!(fs.flip_bit(A, 9));
    assert_eq!(fs.live_bytes(A), Some(b"ac".to_vec()));
    assert_eq!(fs.cut_power(PowerCutLoss::All, 0).live_bytes(A), Some(b"ac".to_vec()));
    assert!(!fs.flip_bit(A, 16) && !fs.flip_bit(B, 0));
    Ok(())
}

#[test]
fn a_share_of_the_syncs_fails() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    let mut failed = (0, 0);
    fs.fail_some_syncs(0.25, 7);
    for _ in 0..1_000 {
        failed.0 += u32::from(file.sync().is_err());
        failed.1 += u32::from(fs.sync_dir(path("/")).is_err());
    }
    assert!((200..300).contains(&failed.0) && (200..300).contains(&failed.1), "{failed:?}");
    // Bytes of a failed sync are never durable; names are after the next successful sync.
    fs.fail_some_syncs(1.0, 7);
    file.append(&[b"lost"])?;
    fs.create(path(B))?;
    assert!(file.sync().is_err() && fs.sync_dir(path("/")).is_err());
    fs.fail_some_syncs(0.0, 7);
    assert_eq!(fs.cut_power(PowerCutLoss::All, 0).live_bytes(B), None);
    file.sync()?;
    fs.sync_dir(path("/"))?;
    let found = fs.cut_power(PowerCutLoss::All, 0);
    assert_eq!((found.live_bytes(A), found.live_bytes(B)), (Some(vec![]), Some(vec![])));
    Ok(())
}

#[test]
fn a_disk_becomes_full_except_for_some_bytes() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    file.append(&[b"1234"])?;
    fs.fill(2);
    assert_eq!(fs.space(path("/"))?, Space { free_bytes: 2, total_bytes: 6 });
    assert_eq!(kind(file.append(&[b"567"])), Some(ErrorKind::StorageFull));
    assert_eq!(fs.live_bytes(A).as_deref(), Some(&b"123456"[..]));
    Ok(())
}

#[test]
fn paths_lists_the_live_names() -> io::Result<()> {
    let fs = sim::Fs::new();
    fs.create_dir_all(path("/d"))?;
    fs.create(path("/d/b"))?;
    fs.create(path(A))?;
    fs.create(path("/d/c"))?;
    fs.remove(path("/d/c"))?;
    assert_eq!(fs.paths(), [path(A), path("/d/b")]);
    Ok(())
}

#[test]
fn a_kill_leaves_everything_except_open_handles() -> io::Result<()> {
    let fs = sim::Fs::new();
    fs.set_capacity(Some(10));
    fs.fail_some_syncs(1.0, 7);
    let file = fs.create(path(A))?;
    file.append(&[b"123456"])?;
    let removed = fs.create(path(B))?;
    removed.append(&[b"1234"])?;
    fs.remove(path(B))?;
    let lock = fs.lock(path("/lock"))?;

    let after = fs.kill();
    assert_eq!(after.live_bytes(A).as_deref(), Some(&b"123456"[..]));
    assert_eq!(after.space(path("/"))?, Space { free_bytes: 4, total_bytes: 10 });
    assert!(after.lock(path("/lock")).is_ok());
    assert!(after.open(path(A))?.sync().is_err(), "the fault is gone");
    assert_eq!(after.cut_power(PowerCutLoss::All, 0).live_bytes(A), None);
    // The handles of the killed process have no effect.
    assert!(file.append(&[b"7"]).is_err() && fs.create(path("/new")).is_err() && file.sync().is_err());
    drop((file, removed, lock));
    assert_eq!(after.live_bytes(A).as_deref(), Some(&b"123456"[..]));
    Ok(())
}

#[test]
fn a_truncated_or_zeroed_file_changes_for_all_readers() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    file.append(&[b"abcdef"])?;
    assert!(fs.zero_range(A, 1..3) && !fs.zero_range(A, 1..3) && !fs.zero_range(B, 0..1));
    assert!(fs.truncate_file(A, 4) && !fs.truncate_file(A, 4) && !fs.truncate_file(B, 0));
    assert_eq!((fs.live_bytes(A).as_deref(), file.size()?), (Some(&b"a\0\0d"[..]), 4));
    Ok(())
}

#[test]
fn open_handles_are_limited() -> io::Result<()> {
    const EMFILE: Option<i32> = Some(24);
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    fs.limit_handles(Some(2));
    let other = fs.open(path(A))?;
    assert_eq!(fs.handles(), 2);
    assert_eq!(fs.open(path(A)).unwrap_err().raw_os_error(), EMFILE);
    assert_eq!(fs.create(path(B)).unwrap_err().raw_os_error(), EMFILE);
    assert_eq!((fs.paths().len(), kind(fs.open(path(B)))), (1, Some(ErrorKind::NotFound)), "nothing was created");
    drop(other);
    drop(fs.create(path(B))?);
    fs.limit_handles(Some(0));
    assert!(fs.open(path(A)).is_err());
    file.append(&[b"open files can be written"])?;
    // A killed process has no open handles.
    assert_eq!(fs.kill().handles(), 0);
    fs.limit_handles(None);
    fs.open(path(A))?;
    Ok(())
}

#[test]
fn a_file_is_half_synced_between_a_sync_and_the_next() -> io::Result<()> {
    let fs = sim::Fs::new();
    let file = fs.create(path(A))?;
    file.append(&[b"a"])?;
    assert!(!fs.is_half_synced(A), "nothing of it is durable");
    file.sync()?;
    assert!(!fs.is_half_synced(A));
    file.append(&[b"b"])?;
    assert!(fs.is_half_synced(A) && !fs.is_half_synced(B));
    Ok(())
}
