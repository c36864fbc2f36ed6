//! What a simulated file system hands out: open files, and locks.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::disk::Disk;
use super::names::NodeId;
use crate::{File, Lock};

/// A disk that several handles share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Disk>>);

impl Shared {
    pub(super) fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    /// The disk, for as long as the guard lives. A test that panicked with the guard in hand left whole operations
    /// behind, so the disk is as good as before.
    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    /// Says nothing of the contents, which would be all bytes of all files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

/// An open file. It follows the file, not the name.
#[derive(Debug)]
struct Open {
    shared: Shared,
    node: NodeId,
    writable: bool,
}

/// Opens a file of `disk`, which is the disk behind `shared`.
pub(super) fn open(shared: &Shared, disk: &mut Disk, node: NodeId, writable: bool) -> io::Result<Arc<dyn File>> {
    disk.node_mut(node)?.opened += 1;
    disk.handles += 1;
    Ok(Arc::new(Open { shared: shared.clone(), node, writable }))
}

impl Open {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(Errno::BADF.into()) }
    }
}

impl File for Open {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.check_writable()?;
        self.shared.disk().append(self.node, &parts.concat())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.shared.disk().read(self.node, offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.shared.disk().node(self.node)?.live().len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.check_writable()?;
        self.shared.disk().truncate(self.node, size)
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.disk().sync(self.node)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut disk = self.shared.disk();
        if let Ok(node) = disk.node_mut(self.node) {
            node.opened -= 1;
            disk.handles -= 1;
        }
    }
}

/// A lock file that is held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) shared: Shared,
    pub(super) node: NodeId,
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.disk().unlock(self.node);
    }
}
