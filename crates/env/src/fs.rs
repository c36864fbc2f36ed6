//! Files and directories, as far as a log store needs them: append, read at an offset, sync, rename.
//!
//! Only what was synced survives a power cut: the bytes of a file by [`File::sync`], its name (created, renamed or removed) by
//! [`Fs::sync_dir`] of its directory.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::FileKeys;

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free for this process.
    pub free_bytes: u64,
    /// The size of the file system.
    pub total_bytes: u64,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// Identifies a file on one machine while a name or a handle of it exists. Afterwards the number may be given to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device of the file system. It may change when the machine starts again.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

/// The state of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is; never a symbolic link.
    pub kind: EntryKind,
    /// Which file it is.
    pub identity: FileIdentity,
    /// The length in bytes.
    pub size: u64,
    /// The number of names.
    pub links: u64,
    /// The time of the last change of the contents, in milliseconds since 1970. File systems may count it in steps of several
    /// milliseconds.
    pub modified_ms: u64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name; it need not be UTF-8.
    pub name: OsString,
    /// What it leads to.
    pub kind: EntryKind,
    /// The number of its inode; that of the link itself for a symbolic link.
    pub inode: u64,
}

/// An exclusive lock on a directory. Dropping it releases the lock.
pub trait FileLock: Send + Sync + Debug {}

/// A file system. Every method may fail with the error of the operating system.
pub trait Fs: Send + Sync + Debug {
    /// Creates a file for appending and reading; `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading only; `NotFound` if it does not exist. Does not wait for the writer of a pipe.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Renames a file atomically and replaces the file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles can still read it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a directory, without directories, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// All names in a directory, in any order.
    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// The state of a file or directory; symbolic links are followed.
    fn stat(&self, path: &Path) -> io::Result<FileStat>;

    /// The path without symbolic links. A file system without links returns the path as it is.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

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

    /// The keys with which the content of its files is encrypted; `None` without any.
    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        None
    }
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

    /// The state of the file, also if it has no name any more.
    fn stat(&self) -> io::Result<FileStat>;

    /// Cuts the file to `size` bytes.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Makes the bytes durable. After an error, bytes appended since the last success are not durable even if a later call
    /// succeeds: the kernel may have dropped the pages and marked them clean.
    fn sync(&self) -> io::Result<()>;

    /// The keys of its file system: [`Fs::keys`].
    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        None
    }

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
