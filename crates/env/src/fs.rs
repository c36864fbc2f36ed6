//! Files and directories, as far as a log store needs them: append, read at an offset, sync, rename.
//!
//! Only what was synced survives a power cut: the bytes of a file by [`File::sync`], its name (created, renamed or removed) by
//! [`Fs::sync_dir`] of its directory.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free for this process.
    pub free_bytes: u64,
    /// The size of the file system.
    pub total_bytes: u64,
}

/// An exclusive lock on a directory. Dropping it releases the lock.
pub trait FileLock: Send + Sync + Debug {}

/// A file system. Every method may fail with the error of the operating system.
pub trait Fs: Send + Sync + Debug {
    /// Creates a file for appending and reading; `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading only; `NotFound` if it does not exist.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Renames a file atomically and replaces the file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles can still read it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, without directories, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a directory and its missing parents.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Revokes all permissions of group and others on a directory and everything in it. Does nothing on a file system without
    /// permissions.
    fn make_private(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// The Unix permission bits of a file or directory; 0600 on a file system without permissions.
    fn mode(&self, _path: &Path) -> io::Result<u32> {
        Ok(0o600)
    }

    /// Makes the names in a directory durable. After an error a power cut may lose them.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The space of the file system that holds `dir`.
    fn space(&self, dir: &Path) -> io::Result<Space>;

    /// Identifies this run of the operating system, if it can be identified. While the id is unchanged, unsynced writes are
    /// still present.
    fn boot_id(&self) -> Option<u128>;

    /// Locks the lock file `path` without waiting; `WouldBlock` if another process holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
}

/// An open file: one writer appends, any number of readers read at any offset. Every method may fail with the error of the
/// operating system.
pub trait File: Send + Sync + Debug {
    /// Appends all parts in order. After an error a part of the bytes may be written; the caller truncates them.
    fn append(&self, parts: &[&[u8]]) -> io::Result<()>;

    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Makes the bytes durable. After an error, bytes appended since the last success are not durable even if a later call
    /// succeeds: the kernel may have dropped the pages and marked them clean.
    fn sync(&self) -> io::Result<()>;

    /// Fills `buffer` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read = self.read_at(offset, buffer)?;
        if read == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The `length` bytes from `offset` on; `UnexpectedEof` if the file ends before.
    fn read_bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(offset, &mut bytes)?;
        Ok(bytes)
    }
}
