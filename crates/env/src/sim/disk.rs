//! The state of a simulated disk: files, names and faults. One lock guards all of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::inode::Inode;
use super::names::{InodeNumber, Names};
use super::sync_duration::DiskSyncDelay;
use super::{Clock, Entropy, PowerCutLoss};
use crate::{Clock as _, DirEntry, EntryKind, FileIdentity, FileStat, Space};

/// The reported size of a disk without capacity limit.
const TOTAL_BYTES: u64 = 1 << 40;

/// The device of every simulated file.
const DEVICE: u64 = 1;

/// The inode number that is shown of every directory; no file has it.
const DIRECTORY_NUMBER: u64 = u64::MAX;

/// The inode number that is shown of every symbolic link; no file has it.
const LINK_NUMBER: u64 = u64::MAX - 1;

#[derive(Debug, Default)]
pub(super) struct Disk {
    names: Names,
    dirs: BTreeSet<PathBuf>,
    /// Symbolic links and their targets. Like directories they are durable at once.
    symlinks: BTreeMap<PathBuf, PathBuf>,
    /// The clock of modification times.
    pub(super) clock: Option<Arc<Clock>>,
    /// Whether a new file gets the lowest unused number.
    pub(super) are_numbers_reused: bool,
    inodes: BTreeMap<InodeNumber, Inode>,
    next_inode: InodeNumber,
    locked_inodes: BTreeSet<InodeNumber>,
    /// [`Self::used_bytes`] until the next change; they are read far more often than they change.
    used_bytes_cache: Cell<Option<u64>>,
    pub(super) faults: DiskFaults,
    /// What syncs take; `None` if they take no time.
    pub(super) sync_delay: Option<DiskSyncDelay>,
    /// Open handles.
    pub(super) handles: usize,
    /// Number of power cuts.
    pub(super) boots: u128,
}

/// The faults that a test has set, and the count of syncs by which power cuts are placed.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskFaults {
    pub(super) syncs: u64,
    pub(super) halt_at: Option<u64>,
    pub(super) halted: bool,
    pub(super) failing_syncs: u64,
    pub(super) failing_share: Option<(f64, Entropy)>,
    pub(super) capacity: Option<u64>,
    pub(super) unreadable: BTreeSet<String>,
    pub(super) unwritable: BTreeSet<String>,
    /// Files and directories that cannot be opened.
    pub(super) forbidden: BTreeSet<String>,
    pub(super) handles_max: Option<usize>,
    /// Whether directories refuse further names.
    pub(super) are_directories_full: bool,
    /// Whether the file system is read-only.
    pub(super) read_only: bool,
    /// Bytes that may still be written, whatever the free space.
    pub(super) quota: Option<u64>,
}

impl DiskFaults {
    /// Called before every change.
    fn check_power(&self) -> io::Result<()> {
        if self.halted { Err(io::Error::other("power is cut")) } else { Ok(()) }
    }

    /// Called before changes that a read-only file system refuses.
    fn check_writable(&self) -> io::Result<()> {
        self.check_power()?;
        if self.read_only { Err(Errno::ROFS.into()) } else { Ok(()) }
    }

    /// Counts a sync; a power cut may happen here.
    fn count_sync(&mut self) -> io::Result<()> {
        self.check_power()?;
        self.halted = self.halt_at.is_some_and(|at| self.syncs >= at);
        self.syncs += 1;
        self.check_power()
    }

    fn fails_at_random(&self) -> bool {
        self.failing_share.as_ref().is_some_and(|(share, rng)| rng.with_probability(*share))
    }
}

impl Disk {
    pub(super) fn new() -> Self {
        Self { dirs: ["", "/"].map(PathBuf::from).into(), ..Self::default() }
    }

    /// The disk after a power cut: the same capacity and times, without faults and open handles.
    pub(super) fn after_power_cut(&self, how: PowerCutLoss, seed: u64) -> Self {
        let rng = Entropy::seeded(seed);
        let names = self.names.after_power_cut(how, &rng);
        let mut nodes = BTreeMap::new();
        for id in names.reachable() {
            if let Some(node) = self.inodes.get(&id) {
                let (number, modified_ms) = (node.number, node.modified_ms);
                let bytes = node.after_power_cut(how, &rng);
                nodes.insert(id, Inode::durable(bytes).with_state(number, modified_ms));
            }
        }
        let faults = DiskFaults { capacity: self.faults.capacity, ..DiskFaults::default() };
        Self {
            names,
            dirs: self.dirs.clone(),
            symlinks: self.symlinks.clone(),
            clock: self.clock.clone(),
            are_numbers_reused: self.are_numbers_reused,
            inodes: nodes,
            next_inode: self.next_inode,
            faults,
            sync_delay: self.sync_delay.clone(),
            boots: self.boots + 1,
            ..Self::default()
        }
    }

    /// The disk for the next process after a kill.
    pub(super) fn after_kill(&self) -> Self {
        let reachable = self.names.reachable();
        let inodes = self.inodes.iter().filter(|(id, _)| reachable.contains(id));
        Self {
            names: self.names.clone(),
            dirs: self.dirs.clone(),
            symlinks: self.symlinks.clone(),
            clock: self.clock.clone(),
            are_numbers_reused: self.are_numbers_reused,
            inodes: inodes.map(|(id, node)| (*id, node.without_handles())).collect(),
            next_inode: self.next_inode,
            faults: self.faults.clone(),
            sync_delay: self.sync_delay.clone(),
            boots: self.boots,
            ..Self::default()
        }
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.names.iter().map(|(path, _)| path.to_owned()).collect()
    }

    /// The path without symbolic links.
    fn resolve<'a>(&self, path: &'a Path) -> io::Result<Cow<'a, Path>> {
        let mut resolved = Cow::Borrowed(path);
        if self.symlinks.is_empty() {
            return Ok(resolved);
        }
        // As many as Linux follows.
        for _ in 0..40 {
            let link = resolved.ancestors().find_map(|link| Some((link, self.symlinks.get(link)?)));
            let Some((link, target)) = link else { return Ok(resolved) };
            let rest = resolved.strip_prefix(link).unwrap_or(Path::new(""));
            let target = link.parent().unwrap_or(Path::new("")).join(target);
            let joined = if rest.as_os_str().is_empty() { target } else { target.join(rest) };
            resolved = Cow::Owned(joined);
        }
        Err(Errno::LOOP.into())
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<InodeNumber> {
        let path = &*self.resolve(path)?;
        match self.names.get(path) {
            Some(node) => Ok(node),
            None if self.dirs.contains(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn inode(&self, id: InodeNumber) -> io::Result<&Inode> {
        self.inodes.get(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn inode_mut(&mut self, id: InodeNumber) -> io::Result<&mut Inode> {
        self.used_bytes_cache.set(None);
        self.inodes.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<InodeNumber> {
        self.faults.check_writable()?;
        if self.names.get(path).is_some() || self.dirs.contains(path) || self.symlinks.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.check_dir(path.parent())?;
        self.check_directory_space()?;
        let id = self.next_inode;
        self.next_inode = InodeNumber(id.0 + 1);
        let number = if self.are_numbers_reused { self.unused_number() } else { id.0 };
        self.inodes.insert(id, Inode::default().with_state(number, self.now_ms()));
        self.names.create(path, id);
        Ok(id)
    }

    pub(super) fn is_half_synced(&self, path_contains: &str) -> bool {
        let mut named = self.names.iter().filter(|(path, _)| path.to_string_lossy().contains(path_contains));
        named.any(|(_, id)| self.inodes.get(&id).is_some_and(Inode::is_half_synced))
    }

    /// Fails at the limit of open handles.
    pub(super) fn check_handles(&self) -> io::Result<()> {
        if self.faults.handles_max.is_some_and(|handles_max| self.handles >= handles_max) {
            Err(Errno::MFILE.into())
        } else {
            Ok(())
        }
    }

    /// Fails if directories are full.
    fn check_directory_space(&self) -> io::Result<()> {
        if self.faults.are_directories_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.check_writable()?;
        self.used_bytes_cache.set(None);
        let node = self.find(from)?;
        self.check_dir(to.parent())?;
        // Within a directory the new name reuses the space of the old one.
        if from.parent() != to.parent() {
            self.check_directory_space()?;
        }
        if self.dirs.contains(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.names.rename(from, to, node);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.faults.check_writable()?;
        self.used_bytes_cache.set(None);
        if self.symlinks.remove(path).is_some() {
            return Ok(());
        }
        let node = self.find(path)?;
        self.names.remove(path, node);
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check_dir(Some(dir))?;
        let inside = self.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        Ok(inside.filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    pub(super) fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        // The root of relative paths has the empty path on this disk.
        let dir = if dir == Path::new(".") { Path::new("") } else { dir };
        let dir = &*self.resolve(dir)?;
        self.check_dir(Some(dir))?;
        self.check_allowed(dir)?;
        let in_dir = |path: &&Path| path.parent() == Some(dir) && path.file_name().is_some();
        let entry =
            |path: &Path, kind, inode| DirEntry { name: path.file_name().unwrap_or_default().to_owned(), kind, inode };
        let files = self.names.iter().filter(|(path, _)| in_dir(path));
        let files = files.map(|(path, id)| {
            let number = self.inodes.get(&id).map_or(0, |node| node.number);
            entry(path, EntryKind::File, number)
        });
        let dirs = self.dirs.iter().map(PathBuf::as_path).filter(in_dir);
        let dirs = dirs.map(|path| entry(path, EntryKind::Directory, DIRECTORY_NUMBER));
        let links = self.symlinks.keys().map(PathBuf::as_path).filter(in_dir);
        let links = links.map(|path| entry(path, EntryKind::Symlink, LINK_NUMBER));
        Ok(files.chain(dirs).chain(links).collect())
    }

    pub(super) fn stat(&self, path: &Path) -> io::Result<FileStat> {
        let resolved = &*self.resolve(path)?;
        if self.dirs.contains(resolved) {
            let identity = FileIdentity { device: DEVICE, inode: DIRECTORY_NUMBER };
            return Ok(FileStat { kind: EntryKind::Directory, identity, size: 0, links: 2, modified_ms: 0 });
        }
        self.stat_inode(self.find(resolved)?)
    }

    pub(super) fn stat_inode(&self, id: InodeNumber) -> io::Result<FileStat> {
        let node = self.inode(id)?;
        Ok(FileStat {
            kind: EntryKind::File,
            identity: FileIdentity { device: DEVICE, inode: node.number },
            size: node.live().len() as u64,
            links: self.names.iter().filter(|(_, other)| *other == id).count() as u64,
            modified_ms: node.modified_ms,
        })
    }

    /// Creates a symbolic link, or replaces one.
    pub(super) fn symlink(&mut self, target: &Path, link: &Path) {
        self.symlinks.insert(link.to_owned(), target.to_owned());
    }

    /// Replaces the bytes from `at` on, as a writer does that opened the file for writing. Creates the file if it is missing.
    pub(super) fn write(&mut self, path: &Path, at: Option<usize>, bytes: &[u8]) -> io::Result<()> {
        let id = match self.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            found => found?,
        };
        if let Some(at) = at {
            self.truncate(id, at as u64)?;
        }
        self.append(id, bytes)
    }

    /// Removes a directory and everything in it.
    pub(super) fn remove_dir_all(&mut self, dir: &Path) {
        self.used_bytes_cache.set(None);
        let below = |path: &Path| path != dir && path.starts_with(dir);
        let names: Vec<_> = self.names.iter().filter(|(path, _)| below(path)).collect();
        let names: Vec<_> = names.into_iter().map(|(path, id)| (path.to_owned(), id)).collect();
        names.iter().for_each(|(path, id)| self.names.remove(path, *id));
        self.symlinks.retain(|path, _| !below(path));
        self.dirs.retain(|path| path != dir && !below(path));
    }

    fn now_ms(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock.unix_ms())
    }

    /// The lowest number that no file with a name or a handle has.
    fn unused_number(&self) -> u64 {
        let named: BTreeSet<InodeNumber> = self.names.iter().map(|(_, id)| id).collect();
        let present = self.inodes.iter().filter(|(id, node)| node.open_handles > 0 || named.contains(id));
        let used: BTreeSet<u64> = present.map(|(_, node)| node.number).collect();
        (0..).find(|number| !used.contains(number)).unwrap_or(u64::MAX)
    }

    /// Fails if a test has revoked the permission.
    pub(super) fn check_allowed(&self, path: &Path) -> io::Result<()> {
        let path = path.to_string_lossy();
        if self.faults.forbidden.iter().any(|part| path.contains(part)) { Err(Errno::ACCESS.into()) } else { Ok(()) }
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        self.faults.check_writable()?;
        if dir.ancestors().any(|dir| self.names.get(dir).is_some()) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !self.dirs.contains(dir) {
            self.check_directory_space()?;
        }
        self.dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.faults.count_sync()?;
        self.check_dir(Some(dir))?;
        self.delay_by_sync(0);
        if self.faults.fails_at_random() {
            return Err(Errno::IO.into());
        }
        // Only here can a file become unreachable for every power cut.
        if self.names.sync_dir(dir) {
            let reachable = self.names.reachable();
            self.inodes.retain(|id, node| node.open_handles > 0 || reachable.contains(id));
        }
        Ok(())
    }

    pub(super) fn append(&mut self, id: InodeNumber, bytes: &[u8]) -> io::Result<()> {
        self.faults.check_writable()?;
        if self.is_among(id, &self.faults.unwritable) {
            return Err(Errno::IO.into());
        }
        let free = if self.faults.capacity.is_some() { self.space().free_bytes } else { u64::MAX };
        if let Some(left) = &mut self.faults.quota {
            *left = left.checked_sub(bytes.len() as u64).ok_or(Errno::DQUOT)?;
        }
        let fits = usize::try_from(free).ok().and_then(|free| bytes.get(..free));
        let modified_ms = self.now_ms();
        let node = self.inode_mut(id)?;
        node.append(fits.unwrap_or(bytes));
        node.modified_ms = modified_ms;
        if fits.is_some_and(|fits| fits.len() < bytes.len()) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    pub(super) fn read(&self, id: InodeNumber, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_among(id, &self.faults.unreadable) {
            return Err(Errno::IO.into());
        }
        let live = self.inode(id)?.live();
        let mut rest = usize::try_from(offset).ok().and_then(|offset| live.get(offset..)).unwrap_or_default();
        rest.read(buffer)
    }

    pub(super) fn truncate(&mut self, id: InodeNumber, size: u64) -> io::Result<()> {
        self.faults.check_writable()?;
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let modified_ms = self.now_ms();
        let node = self.inode_mut(id)?;
        node.resize(size);
        node.modified_ms = modified_ms;
        Ok(())
    }

    pub(super) fn sync(&mut self, id: InodeNumber) -> io::Result<()> {
        self.faults.count_sync()?;
        let counted = self.faults.failing_syncs > 0;
        let fails = counted || self.faults.fails_at_random();
        let bytes = self.inode(id)?.unsynced_bytes();
        self.delay_by_sync(bytes);
        let node = self.inode_mut(id)?;
        if !fails {
            node.sync();
            return Ok(());
        }
        node.fail_sync();
        self.faults.failing_syncs -= u64::from(counted);
        Err(Errno::IO.into())
    }

    /// Adds the time of a sync, also of one that fails.
    fn delay_by_sync(&mut self, bytes: u64) {
        if let Some(delay) = &mut self.sync_delay {
            delay.add(bytes);
        }
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<InodeNumber> {
        self.faults.check_power()?;
        let node = match self.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            found => found?,
        };
        if self.locked_inodes.insert(node) { Ok(node) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    pub(super) fn unlock(&mut self, node: InodeNumber) {
        self.locked_inodes.remove(&node);
    }

    pub(super) fn space(&self) -> Space {
        let total_bytes = self.faults.capacity.unwrap_or(TOTAL_BYTES);
        Space { free_bytes: total_bytes.saturating_sub(self.used_bytes()), total_bytes }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        if let Some(used) = self.used_bytes_cache.get() {
            return used;
        }
        let named: BTreeSet<InodeNumber> = self.names.iter().map(|(_, node)| node).collect();
        let present = self.inodes.iter().filter(|(id, node)| node.open_handles > 0 || named.contains(id));
        let used = present.map(|(_, node)| node.live().len() as u64).sum();
        self.used_bytes_cache.set(Some(used));
        used
    }

    pub(super) fn check_dir(&self, dir: Option<&Path>) -> io::Result<()> {
        match dir {
            Some(dir) if self.dirs.contains(dir) => Ok(()),
            Some(dir) if self.names.get(dir).is_some() => Err(io::ErrorKind::NotADirectory.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether the path of a file contains one of `parts`.
    fn is_among(&self, id: InodeNumber, parts: &BTreeSet<String>) -> bool {
        let matches = |path: &str| parts.iter().any(|part| path.contains(part));
        !parts.is_empty() && self.names.iter().any(|(path, node)| node == id && matches(&path.to_string_lossy()))
    }
}
