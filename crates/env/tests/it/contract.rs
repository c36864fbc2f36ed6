//! The contract of the file system, tested on the real and the simulated one.

use std::io::{self, ErrorKind};
use std::path::Path;

use bucksaw_env::{EntryKind, File, Fs, real, sim};

/// Runs `check` on an empty directory of either file system.
fn on_both(check: impl Fn(&dyn Fs, &Path) -> io::Result<()>) -> io::Result<()> {
    let real_dir = tempfile::tempdir()?;
    check(&real::Fs, real_dir.path())?;

    let (sim_fs, sim_dir) = (sim::Fs::new(), Path::new("/var/lib/node"));
    sim_fs.create_dir_all(sim_dir)?;
    check(&sim_fs, sim_dir)
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

fn contents(file: &dyn File) -> io::Result<String> {
    let mut bytes = vec![0; 64];
    let filled = file.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    assert_eq!(file.size()?, bytes.len() as u64);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write(fs: &dyn Fs, path: &Path, text: &str) -> io::Result<()> {
    fs.create(path)?.append(&[text.as_bytes()])
}

fn read(fs: &dyn Fs, path: &Path) -> io::Result<String> {
    contents(fs.open(path)?.as_ref())
}

fn listed(fs: &dyn Fs, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = fs.list(dir)?;
    names.sort();
    Ok(names)
}

#[test]
fn create() -> io::Result<()> {
    on_both(|fs, dir| {
        let path = dir.join("a");
        write(fs, &path, "one")?;
        assert_eq!(kind(fs.create(&path)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind(fs.create(dir)), Some(ErrorKind::AlreadyExists));
        assert_eq!(kind(fs.create(&dir.join("none/a"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.create(&path.join("a"))), Some(ErrorKind::NotADirectory));
        assert_eq!(read(fs, &path)?, "one");
        Ok(())
    })
}

#[test]
fn append_and_read_at() -> io::Result<()> {
    on_both(|fs, dir| {
        let file = fs.create(&dir.join("a"))?;
        file.append(&[])?;
        file.append(&[b""])?;
        file.append(&[b"he", b"", b"llo"])?;
        file.append(&[b" world"])?;
        file.sync()?;
        assert_eq!(contents(file.as_ref())?, "hello world");

        let check = |offset: u64, want: &str| {
            let mut buffer = [0; 5];
            let filled = file.read_at(offset, &mut buffer)?;
            assert_eq!(&buffer[..filled], want.as_bytes(), "at {offset}");
            io::Result::Ok(())
        };
        check(0, "hello")?;
        check(6, "world")?;
        check(9, "ld")?;
        check(11, "")?;
        check(1 << 40, "")?;

        let mut buffer = [0; 5];
        file.read_exact_at(6, &mut buffer)?;
        assert_eq!(&buffer, b"world");
        assert_eq!(kind(file.read_exact_at(7, &mut buffer)), Some(ErrorKind::UnexpectedEof));
        Ok(())
    })
}

#[test]
fn open_is_for_reading() -> io::Result<()> {
    on_both(|fs, dir| {
        let path = dir.join("a");
        assert_eq!(kind(fs.open(&path)), Some(ErrorKind::NotFound));
        let writer = fs.create(&path)?;
        let reader = fs.open(&path)?;
        writer.append(&[b"seen"])?;
        assert_eq!(contents(reader.as_ref())?, "seen");
        assert!(reader.append(&[b"x"]).is_err());
        assert!(reader.truncate(0).is_err());
        assert_eq!(contents(writer.as_ref())?, "seen");
        Ok(())
    })
}

#[test]
fn truncate() -> io::Result<()> {
    on_both(|fs, dir| {
        let file = fs.create(&dir.join("a"))?;
        file.append(&[b"one two"])?;
        file.truncate(3)?;
        assert_eq!(contents(file.as_ref())?, "one");
        file.append(&[b"!"])?;
        assert_eq!(contents(file.as_ref())?, "one!");
        file.truncate(5)?;
        assert_eq!(contents(file.as_ref())?, "one!\0");
        Ok(())
    })
}

#[test]
fn rename() -> io::Result<()> {
    on_both(|fs, dir| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        write(fs, &a, "new")?;
        write(fs, &b, "old")?;
        let (new, old) = (fs.open(&a)?, fs.open(&b)?);
        fs.rename(&a, &b)?;
        assert_eq!(listed(fs, dir)?, ["b"]);
        assert_eq!(read(fs, &b)?, "new");
        assert_eq!((contents(new.as_ref())?, contents(old.as_ref())?), ("new".into(), "old".into()));
        fs.rename(&b, &b)?;
        assert_eq!(read(fs, &b)?, "new");
        assert_eq!(kind(fs.rename(&a, &b)), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.rename(&b, &dir.join("none/b"))), Some(ErrorKind::NotFound));
        Ok(())
    })
}

#[test]
fn remove() -> io::Result<()> {
    on_both(|fs, dir| {
        let path = dir.join("a");
        write(fs, &path, "read on")?;
        let file = fs.open(&path)?;
        fs.remove(&path)?;
        fs.sync_dir(dir)?;
        assert_eq!(contents(file.as_ref())?, "read on");
        assert!(listed(fs, dir)?.is_empty());
        assert_eq!(kind(fs.remove(&path)), Some(ErrorKind::NotFound));
        write(fs, &path, "another")?;
        assert_eq!((read(fs, &path)?, contents(file.as_ref())?), ("another".into(), "read on".into()));
        Ok(())
    })
}

#[test]
fn directories_and_list() -> io::Result<()> {
    on_both(|fs, dir| {
        let (inner, missing) = (dir.join("x/y"), dir.join("z"));
        fs.create_dir_all(&inner)?;
        fs.create_dir_all(&inner)?;
        write(fs, &dir.join("a"), "")?;
        write(fs, &inner.join("b"), "")?;
        write(fs, &inner.join("c"), "")?;
        assert_eq!(listed(fs, dir)?, ["a"]);
        assert_eq!(listed(fs, &dir.join("x"))?, [""; 0]);
        assert_eq!(listed(fs, &inner)?, ["b", "c"]);
        assert_eq!(kind(fs.list(&missing)), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.list(&dir.join("a"))), Some(ErrorKind::NotADirectory));
        assert_eq!(kind(fs.create_dir_all(&dir.join("a/b"))), Some(ErrorKind::NotADirectory));
        fs.sync_dir(&inner)?;
        assert_eq!(kind(fs.sync_dir(&missing)), Some(ErrorKind::NotFound));
        Ok(())
    })
}

#[test]
fn lock() -> io::Result<()> {
    on_both(|fs, dir| {
        let path = dir.join("lock");
        let held = fs.lock(&path)?;
        assert_eq!(kind(fs.lock(&path)), Some(ErrorKind::WouldBlock));
        let other = fs.lock(&dir.join("other"))?;
        drop(held);
        let again = fs.lock(&path)?;
        assert_eq!(kind(fs.lock(&path)), Some(ErrorKind::WouldBlock));
        drop((again, other));
        assert_eq!(listed(fs, dir)?, ["lock", "other"]);
        Ok(())
    })
}

#[test]
fn space() -> io::Result<()> {
    on_both(|fs, dir| {
        let space = fs.space(dir)?;
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
        assert_eq!(kind(fs.space(&dir.join("none"))), Some(ErrorKind::NotFound));
        Ok(())
    })
}

#[test]
fn stat_and_entries() -> io::Result<()> {
    on_both(|fs, dir| {
        fs.create_dir_all(&dir.join("inner"))?;
        let (a, b) = (dir.join("a"), dir.join("b"));
        let file = fs.create(&a)?;
        file.append(&[b"one"])?;
        let stat = fs.stat(&a)?;
        assert_eq!((stat.kind, stat.size, stat.links), (EntryKind::File, 3, 1));
        assert_eq!((file.stat()?, fs.stat(dir)?.kind), (stat, EntryKind::Directory));
        assert_eq!(kind(fs.stat(&b)), Some(ErrorKind::NotFound));
        fs.rename(&a, &b)?;
        assert_eq!(fs.stat(&b)?.identity, stat.identity);
        write(fs, &a, "")?;
        assert_ne!(fs.stat(&a)?.identity, stat.identity);
        let mut entries = fs.entries(dir)?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let found: Vec<_> = entries.iter().map(|entry| (entry.name.to_str().unwrap_or_default(), entry.kind)).collect();
        assert_eq!(found, [("a", EntryKind::File), ("b", EntryKind::File), ("inner", EntryKind::Directory)]);
        assert_eq!(entries.get(1).map(|entry| entry.inode), Some(stat.identity.inode));
        fs.remove(&b)?;
        assert_eq!((file.stat()?.links, file.stat()?.identity), (0, stat.identity));
        assert_eq!(kind(fs.entries(&b)), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.entries(&a)), Some(ErrorKind::NotADirectory));
        Ok(())
    })
}
