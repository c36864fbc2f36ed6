//! Open files and locks of a simulated file system.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::disk::Disk;
use super::names::InodeNumber;
use crate::lock;
use crate::{File, FileLock, FileStat};

/// A disk shared by several handles.
#[derive(Clone)]
pub(super) struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    pub(super) fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    /// Locks the disk. Operations do not panic halfway, so a poisoned lock is ignored.
    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.0)
    }
}

impl fmt::Debug for SharedDisk {
    /// Without the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

/// An open file, whatever its current name.
#[derive(Debug)]
struct SimFile {
    disk: SharedDisk,
    inode: InodeNumber,
    is_writable: bool,
}

/// Opens a file of `disk`, which is locked through `shared`.
pub(super) fn open(
    shared: &SharedDisk,
    disk: &mut Disk,
    node: InodeNumber,
    writable: bool,
) -> io::Result<Arc<dyn File>> {
    disk.inode_mut(node)?.open_handles += 1;
    disk.handles += 1;
    Ok(Arc::new(SimFile { disk: shared.clone(), inode: node, is_writable: writable }))
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.is_writable { Ok(()) } else { Err(Errno::BADF.into()) }
    }
}

impl File for SimFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.check_writable()?;
        self.disk.disk().append(self.inode, &parts.concat())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.disk().read(self.inode, offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.disk().inode(self.inode)?.live().len() as u64)
    }

    fn stat(&self) -> io::Result<FileStat> {
        self.disk.disk().stat_inode(self.inode)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.disk().truncate(self.inode, size)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.disk().sync(self.inode)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = self.disk.disk();
        if let Ok(node) = disk.inode_mut(self.inode) {
            node.open_handles -= 1;
            disk.handles -= 1;
        }
    }
}

/// A held lock file.
#[derive(Debug)]
pub(super) struct SimFileLock {
    pub(super) disk: SharedDisk,
    pub(super) inode: InodeNumber,
}

impl FileLock for SimFileLock {}

impl Drop for SimFileLock {
    fn drop(&mut self) {
        self.disk.disk().unlock(self.inode);
    }
}
