//! The environment on the operating system.
//!
//! ```
//! use bucksaw_env::{Clock, real};
//! let clock = real::Clock::default();
//! let earlier = clock.uptime();
//! assert!(clock.uptime() >= earlier);
//! ```
#![expect(clippy::disallowed_methods, reason = "implements the environment on the operating system")]

mod net;
mod offline;
pub mod process;
mod tasks;

use std::collections::hash_map::RandomState;
use std::fs::{self, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

#[doc(hidden)]
pub use net::fuzz_input;
pub use net::{BindError, Config as NetConfig, Counters, InvalidSecret, Net, PEER_TIMEOUT, Secret};
pub use offline::OfflineNet;
pub use tasks::Tasks;

use crate::{DirEntry, EntryKind, File, FileIdentity, FileLock, FileStat, Space, to_millis};

/// Only the owner may read and write files: records may contain secrets.
const FILE_MODE: u32 = 0o600;

/// Only the owner may list and enter directories.
const DIR_MODE: u32 = 0o700;

/// The permission bits of group and others.
const GROUP_AND_OTHER_BITS: u32 = 0o077;

/// The file system of the operating system. Created files and directories are accessible to the owner only, whatever the umask.
#[derive(Debug)]
pub struct Fs;

impl crate::Fs for Fs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).append(true).create_new(true).mode(FILE_MODE).open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        // Without this flag the open of a pipe waits for a writer. It has no effect on regular files.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).custom_flags(flags).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // This program writes no names outside UTF-8.
            if let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type())
                && kind.is_file()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) => {
                    entries.push(DirEntry { name: entry.file_name(), kind: entry_kind(kind), inode: entry.ino() });
                }
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        Ok(file_stat(&fs::metadata(path)?))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
    }

    fn make_private(&self, dir: &Path) -> io::Result<()> {
        restrict_permissions(dir, DIR_MODE)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.make_private(&entry.path())?;
            } else if kind.is_file() {
                restrict_permissions(&entry.path(), FILE_MODE)?;
            }
        }
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(Space { free_bytes: stat.f_bavail * stat.f_frsize, total_bytes: stat.f_blocks * stat.f_frsize })
    }

    fn boot_id(&self) -> Option<u128> {
        // Random at each boot of Linux; see random(4).
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(OsFileLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn entry_kind(kind: fs::FileType) -> EntryKind {
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Directory
    } else if kind.is_symlink() {
        EntryKind::Symlink
    } else {
        EntryKind::Other
    }
}

fn file_stat(found: &fs::Metadata) -> FileStat {
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileStat {
        kind: entry_kind(found.file_type()),
        identity: FileIdentity { device: found.dev(), inode: found.ino() },
        size: found.len(),
        links: found.nlink(),
        modified_ms: modified.map_or(0, to_millis),
    }
}

/// Revokes all permissions of group and others.
fn restrict_permissions(path: &Path, mode: u32) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.permissions().mode() & GROUP_AND_OTHER_BITS != 0 => {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        }
        Ok(_) => Ok(()),
        // Removed meanwhile by another part of this process.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The operating system unlocks it when the descriptor is closed, also if the process is killed.
#[derive(Debug)]
struct OsFileLock {
    _file: fs::File,
}

impl FileLock for OsFileLock {}

#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match (&self.0).write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stat(&self) -> io::Result<FileStat> {
        Ok(file_stat(&self.0.metadata()?))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The clocks of the operating system. The uptime starts when the clock is created.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl crate::Clock for Clock {
    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        to_millis(since)
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Hashes of a counter, keyed by the operating system through the standard library.
#[derive(Debug, Default)]
pub struct Entropy {
    keys: RandomState,
    count: AtomicU64,
}

impl crate::Entropy for Entropy {
    fn next_u64(&self) -> u64 {
        // SipHash under random keys needs no further dependency, and its input never repeats.
        let mut hasher = self.keys.build_hasher();
        hasher.write_u64(self.count.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Clock as _, Entropy as _, Fs as _};

    #[test]
    fn more_parts_than_one_call_takes_are_appended() {
        // The kernel takes 1,024 parts per call. Some parts are empty.
        let dir = tempfile::tempdir().unwrap();
        let file = Fs.create(&dir.path().join("a")).unwrap();
        let numbers: Vec<String> = (0..3_000).map(|n| if n % 7 == 0 { String::new() } else { n.to_string() }).collect();
        let parts: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
        file.append(&parts).unwrap();
        let mut found = vec![0; numbers.concat().len()];
        file.read_exact_at(0, &mut found).unwrap();
        assert_eq!(found, numbers.concat().as_bytes());
        assert_eq!(file.size().unwrap(), found.len() as u64);
    }

    #[test]
    fn directories_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        Fs.create_dir_all(&dir.path().join("inner")).unwrap();
        Fs.create(&dir.path().join("file")).unwrap();
        assert_eq!(Fs.list(dir.path()).unwrap(), ["file"]);
    }

    #[test]
    fn only_the_owner_has_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, file) = (dir.path().join("a/b"), dir.path().join("a/b/file"));
        Fs.create_dir_all(&inner).unwrap();
        Fs.create(&file).unwrap();
        let lock = inner.join("LOCK");
        drop(Fs.lock(&lock).unwrap());
        let modes =
            || [dir.path().join("a"), inner.clone(), file.clone(), lock.clone()].map(|at| Fs.mode(&at).unwrap());
        assert_eq!(modes(), [0o700, 0o700, 0o600, 0o600]);
        // Created by an older version.
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        Fs.make_private(&dir.path().join("a")).unwrap();
        assert_eq!(modes(), [0o700, 0o700, 0o600, 0o600]);
    }

    #[test]
    fn the_uptime_increases() {
        let clock = Clock::default();
        let before = clock.uptime();
        while clock.uptime() == before {}
        assert!(clock.uptime() > before);
        assert!(clock.unix_ms() > 1_600_000_000_000, "before 2020");
    }

    #[test]
    fn random_numbers_do_not_repeat() {
        let (one, other) = (Entropy::default(), Entropy::default());
        let drawn: BTreeSet<u64> = (0..1_000).flat_map(|_| [one.next_u64(), other.next_u64()]).collect();
        assert_eq!(drawn.len(), 2_000);
    }
}
