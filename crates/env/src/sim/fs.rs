//! The simulated file system: the door itself, and the knobs by which a test makes it fail.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::handle::{self, SharedDisk, SimFileLock};
use super::{Entropy, PowerCutLoss};
use crate::{File, FileLock, Space};

/// A file system in memory. A clone is another handle to the same disk. The directories `/` and the empty path (where
/// relative paths start) are always there. The module says how it loses what was not synced.
#[derive(Clone, Debug)]
pub struct Fs(SharedDisk);

impl Fs {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self(SharedDisk::new(Disk::new()))
    }

    /// The disk as it is found when the power is back, on which nothing is open and no lock is held. Its capacity is
    /// the same; all other knobs and the count of syncs start anew. It shares nothing with this disk, which goes on as
    /// if nothing had happened, so one moment can be cut in many ways.
    #[must_use]
    pub fn cut_power(&self, how: PowerCutLoss, seed: u64) -> Self {
        Self(SharedDisk::new(self.0.disk().after_power_cut(how, seed)))
    }

    /// The disk as the next process finds it after this one was killed: all is as it was, also what is still to be
    /// lost at a power cut and what goes wrong, but nothing is open and no lock is held. This one can no longer be
    /// changed, so that what outlives the process by mistake does no harm.
    #[must_use]
    pub fn kill(&self) -> Self {
        let left = self.0.disk().after_kill();
        self.halt();
        Self(SharedDisk::new(left))
    }

    /// Cuts the power now, as [`Self::halt_at_sync`] does later.
    pub fn halt(&self) {
        self.0.disk().faults.halted = true;
    }

    /// How often a file or a directory was synced, also without success. Once the power is off nothing counts.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.0.disk().faults.syncs
    }

    /// Cuts the power at sync number `n` of this disk, counted from 0 as [`Self::sync_count`] does, or at the next one
    /// when that is past. This sync and all later calls that would change something fail with "power is cut" (kind
    /// `Other`) and change nothing. Reading still works, so that a script can run on to its end; then comes
    /// [`Self::cut_power`].
    pub fn halt_at_sync(&self, n: u64) {
        self.0.disk().faults.halt_at = Some(n);
    }

    /// Whether the sync was reached at which the power goes.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.0.disk().faults.halted
    }

    /// Makes the next `n` syncs of files (not of directories) fail with `EIO`, and drop what they should have written:
    /// it can still be read, but no later sync makes it durable and every power cut loses it. This is how
    /// Linux behaves, as the world of databases learned in 2018.
    pub fn fail_next_syncs(&self, n: u64) {
        self.0.disk().faults.failing_syncs = n;
    }

    /// Makes this share of all syncs fail, `0.0..=1.0`, as the seed decides: those of files as by
    /// [`Self::fail_next_syncs`], those of directories so that the names stay to be lost.
    pub fn fail_some_syncs(&self, share: f64, seed: u64) {
        self.0.disk().faults.failing_share = Some((share, Entropy::seeded(seed)));
    }

    /// Makes the disk full but for so many bytes, by setting its capacity.
    pub fn fill(&self, free_bytes: u64) {
        let mut disk = self.0.disk();
        let used_bytes = disk.used_bytes();
        disk.faults.capacity = Some(used_bytes + free_bytes);
    }

    /// All files that have a name now, in order of their paths.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.disk().paths()
    }

    /// Sets how many live bytes the files may have together; `None`, as at the start, is no limit. An append beyond it
    /// writes what fits and fails with `StorageFull`. A removed file counts until its last handle is dropped.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.disk().faults.capacity = bytes;
    }

    /// Makes directories full, or no longer: a new file, a new directory, and a rename into another directory fail with
    /// `StorageFull`, as where a directory needs another block and there is none, or where all inodes are used.
    pub fn fill_directories(&self, full: bool) {
        self.0.disk().faults.are_directories_full = full;
    }

    /// Makes the file system read-only, as a kernel does after an error of the disk, or writable again: files and names
    /// cannot be changed, and each try fails with `EROFS`.
    pub fn make_read_only(&self, on: bool) {
        self.0.disk().faults.read_only = on;
    }

    /// Sets how many bytes may still be appended, to all files together; `None`, as at the start, is no limit. A larger
    /// append writes nothing and fails with `EDQUOT`: a quota, of which the figures of a file system say nothing.
    pub fn limit_writes(&self, bytes: Option<u64>) {
        self.0.disk().faults.quota = bytes;
    }

    /// Makes reads fail with `EIO`, or no longer, where the file's present path contains this text.
    pub fn fail_reads_of(&self, path_contains: &str, on: bool) {
        set_membership(&mut self.0.disk().faults.unreadable, path_contains, on);
    }

    /// Makes appends fail with `EIO`, or no longer, where the file's present path contains this text.
    pub fn fail_writes_of(&self, path_contains: &str, on: bool) {
        set_membership(&mut self.0.disk().faults.unwritable, path_contains, on);
    }

    /// Flips a bit of a file, as a medium does that goes bad: in what is read now and in what is found after a power
    /// cut. Bit 0 is the lowest of the first byte. False when there is no such file or it ends before.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit_offset: u64) -> bool {
        let mut disk = self.0.disk();
        let Ok(byte) = usize::try_from(bit_offset / 8) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.flip_bit(byte, 1 << (bit_offset % 8)))
    }

    /// Flips a bit in each of these bytes, as a medium does that lost a sector. False when the file ends before.
    pub fn corrupt(&self, path: impl AsRef<Path>, bytes: std::ops::Range<u64>) -> bool {
        bytes.into_iter().all(|byte| self.flip_bit(&path, byte * 8))
    }

    /// Truncates a file to `size` bytes at rest: both what is read now and what is found after a power cut.
    /// False when there is no such file or it is not longer.
    pub fn truncate_file(&self, path: impl AsRef<Path>, size: u64) -> bool {
        let mut disk = self.0.disk();
        let Ok(size) = usize::try_from(size) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.truncate_all(size))
    }

    /// Fills a range of a file with zeros, as a medium does that loses a page. False when there is no such file or nothing but
    /// zeros was there.
    pub fn zero_range(&self, path: impl AsRef<Path>, range: Range<u64>) -> bool {
        let mut disk = self.0.disk();
        let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end)) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.zero_range(start..end))
    }

    /// Whether a power cut now could tear a file whose path contains this text: some of its bytes are durable, and something was
    /// written behind them.
    #[must_use]
    pub fn is_half_synced(&self, path_contains: &str) -> bool {
        self.0.disk().is_half_synced(path_contains)
    }

    /// Sets how many handles may be open at the same time; `None`, as at the start, is no limit. Opening or creating one more
    /// fails with `EMFILE`, and creates nothing.
    pub fn limit_handles(&self, most: Option<usize>) {
        self.0.disk().faults.handles_max = most;
    }

    /// How many handles are open.
    #[must_use]
    pub fn handles(&self) -> usize {
        self.0.disk().handles
    }

    /// What a reader would read of a file; `None` when there is none of that name.
    #[must_use]
    pub fn live_bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let disk = self.0.disk();
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode(id)).ok()?;
        Some(node.live().to_vec())
    }
}

fn set_membership(parts: &mut BTreeSet<String>, part: &str, on: bool) {
    if on {
        parts.insert(part.to_owned());
    } else {
        parts.remove(part);
    }
}

impl Default for Fs {
    fn default() -> Self {
        Self::new()
    }
}

impl crate::Fs for Fs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.disk();
        disk.check_handles()?;
        let node = disk.create(path)?;
        handle::open(&self.0, &mut disk, node, true)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.disk();
        let node = disk.find(path)?;
        disk.check_handles()?;
        handle::open(&self.0, &mut disk, node, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.disk().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.disk().remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.disk().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.disk().create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.disk().sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let disk = self.0.disk();
        disk.check_dir(Some(dir))?;
        Ok(disk.space())
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.0.disk().boots)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let node = self.0.disk().lock(path)?;
        Ok(Box::new(SimFileLock { disk: self.0.clone(), inode: node }))
    }
}
