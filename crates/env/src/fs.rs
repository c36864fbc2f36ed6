//! Files and directories, as little of them as a log store needs: append, read at an offset, sync, rename.
//!
//! Invariant: nothing is promised to survive a power cut until it was synced: a file's bytes by [`File::sync`], a
//! file's name (created, renamed or removed) by [`Fs::sync_dir`] on its directory.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Room on the file system that holds a directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What this process may still write.
    pub free_bytes: u64,
    /// The file system's size.
    pub total_bytes: u64,
}

/// Held for as long as a directory is in use; dropping it gives the directory free again.
pub trait FileLock: Send + Sync + Debug {}

/// A file system.
pub trait Fs: Send + Sync + Debug {
    /// Makes a new file for appending and reading.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one of that name.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading only.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name in one step, replacing what had it.
    ///
    /// # Errors
    /// What the file system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Handles that are open go on reading it.
    ///
    /// # Errors
    /// What the file system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files (not the directories) in a directory, in no order.
    ///
    /// # Errors
    /// What the file system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Makes a directory and those above it, where they are missing.
    ///
    /// # Errors
    /// What the file system says.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Takes all rights to a directory, and to all files and directories in it, from everybody but the owner. Where a file
    /// system has no rights this does nothing.
    ///
    /// # Errors
    /// What the file system says.
    fn make_private(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    /// The permission bits of a file or directory, as Unix has them. A file system without rights gives 0600.
    ///
    /// # Errors
    /// What the file system says.
    fn mode(&self, _path: &Path) -> io::Result<u32> {
        Ok(0o600)
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the file system says; the names may then be lost at a power cut.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// How much room there is.
    ///
    /// # Errors
    /// What the file system says.
    fn space(&self, dir: &Path) -> io::Result<Space>;

    /// Identifies this run of the operating system: as long as it is the same, what was written is still there, synced or
    /// not. `None` when the system does not tell.
    fn boot_id(&self) -> Option<u128>;

    /// Takes the lock file `path` for this process alone, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when another process has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
}

/// An open file: appended to by one writer, read at any offset by many.
pub trait File: Send + Sync + Debug {
    /// Appends all the parts, one after the other.
    ///
    /// # Errors
    /// What the file system says; some of the bytes may then have been written, and the caller truncates them away.
    fn append(&self, parts: &[&[u8]]) -> io::Result<()>;

    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// What the file system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The length in bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file to `size` bytes.
    ///
    /// # Errors
    /// What the file system says.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Makes the bytes durable. After an error nothing that was appended since the last success may be trusted, also
    /// when a later call succeeds: the kernel may have dropped the pages and called them clean.
    ///
    /// # Errors
    /// What the file system says.
    fn sync(&self) -> io::Result<()>;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let got = self.read_at(offset, buffer)?;
        if got == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
