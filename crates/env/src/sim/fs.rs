//! The simulated file system, and the faults that a test can set.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::handle::{self, SharedDisk, SimFileLock};
use super::sync_duration::{DiskSyncDelay, SyncDuration};
use super::{Clock, Entropy, PowerCutLoss};
use crate::{DirEntry, File, FileLock, FileStat, Space};

/// A file system in memory. Clones share one disk. The directories `/` and the empty path, where relative paths start, always
/// exist. [`crate::sim`] describes power cuts.
#[derive(Clone, Debug)]
pub struct Fs(SharedDisk);

impl Fs {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self(SharedDisk::new(Disk::new()))
    }

    /// The disk after a power cut, without open handles and locks. The capacity is kept; all other faults and the count of syncs
    /// are reset. This disk is unaffected, so that one moment can be cut in many ways.
    #[must_use]
    pub fn cut_power(&self, how: PowerCutLoss, seed: u64) -> Self {
        Self(SharedDisk::new(self.0.disk().after_power_cut(how, seed)))
    }

    /// The disk for the next process after a kill: unsynced changes and faults are kept, handles and locks are not. This disk
    /// cannot be changed any more, in case a part of the killed process still runs.
    #[must_use]
    pub fn kill(&self) -> Self {
        let after = self.0.disk().after_kill();
        self.halt();
        Self(SharedDisk::new(after))
    }

    /// Cuts the power now; see [`Self::halt_at_sync`].
    pub fn halt(&self) {
        self.0.disk().faults.halted = true;
    }

    /// The number of syncs of files and directories, failed ones included, until the power is cut.
    pub fn sync_count(&self) -> u64 {
        self.0.disk().faults.syncs
    }

    /// Cuts the power at sync number `n`, counted from 0 like [`Self::sync_count`], or at the next one if that is past. This
    /// sync and all later changes fail with `Other` and have no effect. Reads still work, so that a test can run to its end
    /// before [`Self::cut_power`].
    pub fn halt_at_sync(&self, n: u64) {
        self.0.disk().faults.halt_at = Some(n);
    }

    /// Whether the power is cut.
    pub fn is_halted(&self) -> bool {
        self.0.disk().faults.halted
    }

    /// Makes the next `n` syncs of files (not of directories) fail with `EIO` and drop the unsynced bytes: they can still be
    /// read, but no later sync makes them durable. Linux behaves like this.
    pub fn fail_next_syncs(&self, n: u64) {
        self.0.disk().faults.failing_syncs = n;
    }

    /// Makes a share of all syncs fail, `0.0..=1.0`: those of files as by [`Self::fail_next_syncs`]; those of directories leave
    /// the names unsynced.
    pub fn fail_some_syncs(&self, share: f64, seed: u64) {
        self.0.disk().faults.failing_share = Some((share, Entropy::seeded(seed)));
    }

    /// Makes syncs of files and directories take time, drawn by `seed`; `None`, the default, is no time. A kill and a power cut
    /// keep it.
    ///
    /// Work of [`crate::Tasks::spawn_blocking`] on a host of a [`World`](super::World) takes longer by the sum of its syncs. It
    /// happens at one moment nevertheless: its caller, and whatever it wakes, go on when that time has passed. Syncs outside of
    /// such work take no time.
    pub fn set_sync_duration(&self, time: Option<SyncDuration>, seed: u64) {
        self.0.disk().sync_delay = time.map(|time| DiskSyncDelay::new(time, seed));
    }

    /// What syncs have taken since the last call.
    pub(super) fn take_sync_delay(&self) -> Duration {
        self.0.disk().sync_delay.as_mut().map_or(Duration::ZERO, DiskSyncDelay::take)
    }

    /// Sets the capacity so that `free_bytes` are free.
    pub fn fill(&self, free_bytes: u64) {
        let mut disk = self.0.disk();
        let used_bytes = disk.used_bytes();
        disk.faults.capacity = Some(used_bytes + free_bytes);
    }

    /// The paths of all files, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.disk().paths()
    }

    /// Limits the live bytes of all files; `None`, the default, is unlimited. An append beyond the limit writes what fits and
    /// fails with `StorageFull`. A removed file counts until its last handle is dropped.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.disk().faults.capacity = bytes;
    }

    /// Makes new files, new directories and renames into another directory fail with `StorageFull`, as if no block for the
    /// directory or no inode were free.
    pub fn fill_directories(&self, full: bool) {
        self.0.disk().faults.are_directories_full = full;
    }

    /// Makes the file system read-only, as a kernel does after a disk error, or writable: changes fail with `EROFS`.
    pub fn make_read_only(&self, on: bool) {
        self.0.disk().faults.read_only = on;
    }

    /// Sets a quota of bytes that may still be appended; `None`, the default, is unlimited. An append beyond it writes nothing
    /// and fails with `EDQUOT`. [`crate::Fs::space`] does not show the quota.
    pub fn limit_writes(&self, bytes: Option<u64>) {
        self.0.disk().faults.quota = bytes;
    }

    /// Makes reads of files whose current path contains this text fail with `EIO`, or succeed again.
    pub fn fail_reads_of(&self, path_contains: &str, on: bool) {
        set_membership(&mut self.0.disk().faults.unreadable, path_contains, on);
    }

    /// Makes appends to files whose current path contains this text fail with `EIO`, or succeed again.
    pub fn fail_writes_of(&self, path_contains: &str, on: bool) {
        set_membership(&mut self.0.disk().faults.unwritable, path_contains, on);
    }

    /// Makes opening of files, and listing of directories, whose path contains this text fail with `EACCES`, or succeed again.
    pub fn forbid(&self, path_contains: &str, on: bool) {
        set_membership(&mut self.0.disk().faults.forbidden, path_contains, on);
    }

    /// Takes modification times from this clock. Without a clock they are 0.
    pub fn use_clock(&self, clock: Arc<Clock>) {
        self.0.disk().clock = Some(clock);
    }

    /// Gives each new file the lowest inode number that no file with a name or an open handle has, as some file systems do.
    /// By default no number is given twice.
    pub fn reuse_inode_numbers(&self) {
        self.0.disk().are_numbers_reused = true;
    }

    /// Creates a symbolic link to a file or directory, or changes its target.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) {
        self.0.disk().symlink(target.as_ref(), link.as_ref());
    }

    /// Appends to a file that another process has open; creates it if it is missing.
    pub fn append_to(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.0.disk().write(path.as_ref(), None, bytes)
    }

    /// Truncates a file to `size` bytes and then appends, in place: open handles see the change. Creates it if it is missing.
    pub fn write_from(&self, path: impl AsRef<Path>, size: usize, bytes: &[u8]) -> io::Result<()> {
        self.0.disk().write(path.as_ref(), Some(size), bytes)
    }

    /// Removes a directory and everything in it. Open handles can still read their files.
    pub fn remove_dir_all(&self, dir: impl AsRef<Path>) {
        self.0.disk().remove_dir_all(dir.as_ref());
    }

    /// Flips a bit in the live and durable bytes of a file, like a damaged medium. Bit 0 is the lowest of the first byte.
    /// Returns false if the file does not exist or is shorter.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit_offset: u64) -> bool {
        let mut disk = self.0.disk();
        let Ok(byte) = usize::try_from(bit_offset / 8) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.flip_bit(byte, 1 << (bit_offset % 8)))
    }

    /// Flips a bit in each of these bytes. Returns false if the file is shorter.
    pub fn corrupt(&self, path: impl AsRef<Path>, bytes: std::ops::Range<u64>) -> bool {
        bytes.into_iter().all(|byte| self.flip_bit(&path, byte * 8))
    }

    /// Truncates the live and durable bytes of a file. Returns false if it does not exist or is not longer than `size`.
    pub fn truncate_file(&self, path: impl AsRef<Path>, size: u64) -> bool {
        let mut disk = self.0.disk();
        let Ok(size) = usize::try_from(size) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.truncate_all(size))
    }

    /// Zeroes a range of the live and durable bytes of a file, like a lost page. Returns false if the file does not exist or the
    /// range was zero.
    pub fn zero_range(&self, path: impl AsRef<Path>, range: Range<u64>) -> bool {
        let mut disk = self.0.disk();
        let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end)) else { return false };
        let node = disk.find(path.as_ref()).and_then(|id| disk.inode_mut(id));
        node.is_ok_and(|node| node.zero_range(start..end))
    }

    /// Whether a file whose path contains this text has durable bytes and unsynced changes, so that a power cut can tear it.
    pub fn is_half_synced(&self, path_contains: &str) -> bool {
        self.0.disk().is_half_synced(path_contains)
    }

    /// Limits the open handles; `None`, the default, is unlimited. Opening or creating a file beyond the limit fails with
    /// `EMFILE`.
    pub fn limit_handles(&self, handles_max: Option<usize>) {
        self.0.disk().faults.handles_max = handles_max;
    }

    /// The number of open handles.
    pub fn handles(&self) -> usize {
        self.0.disk().handles
    }

    /// The live bytes of a file, if it exists.
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
        disk.check_allowed(path)?;
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

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.disk().entries(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.0.disk().stat(path)
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
