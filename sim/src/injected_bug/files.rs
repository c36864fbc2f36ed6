//! Bugs in the file system and in recovery.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{DirEntry, File, FileLock, FileStat, Fs, Space};
use bucksaw_record::Id;
use bucksaw_segment::queue::scan_segment;

use super::InjectedBug;

/// The file system with the bug.
pub(crate) fn inject(bug: Option<InjectedBug>, fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
    let faulty = [
        InjectedBug::FileSyncSkipped,
        InjectedBug::DirSyncSkipped,
        InjectedBug::SyncFailureHidden,
        InjectedBug::StoreSyncSkipped,
        InjectedBug::DamageForgotten,
        InjectedBug::DamagedRemoved,
    ];
    match bug.filter(|bug| faulty.contains(bug)) {
        Some(bug) => Arc::new(FaultyFs { bug, fs }),
        None => fs,
    }
}

/// Removes queue files with a torn last frame, as a recovery that takes them for empty.
pub(crate) fn remove_torn(fs: &dyn Fs, queue: &Path) {
    for name in fs.list(queue).unwrap_or_default() {
        let (path, id) = (queue.join(&name), name.split_once('.').and_then(|(id, _)| id.parse::<Id>().ok()));
        let is_torn = |file, id| scan_segment(&file, &path, id).is_ok_and(|found| found.tail_bytes > 0);
        if let (Some(id), Ok(file)) = (id, fs.open(&path))
            && is_torn(file, id)
        {
            let _ = fs.remove(&path);
        }
    }
}

/// Removes the idempotency keys of a queue.
pub(crate) fn forget_keys(fs: &dyn Fs, queue: &Path) {
    let names = fs.list(queue).unwrap_or_default();
    for name in names.iter().filter(|name| name.ends_with(".keys")) {
        let _ = fs.remove(&queue.join(name));
    }
}

/// Renames closed queue files without an intact seal to active ones, which may be torn.
pub(crate) fn forget_seals(fs: &dyn Fs, queue: &Path) {
    for name in fs.list(queue).unwrap_or_default() {
        let Some(id) = name.strip_suffix(".pending").and_then(|id| id.parse::<Id>().ok()) else { continue };
        let path = queue.join(&name);
        let is_sealed = |file| scan_segment(&file, &path, id).is_ok_and(|found| found.seal.is_some());
        if let Ok(file) = fs.open(&path)
            && !is_sealed(file)
        {
            let _ = fs.rename(&path, &path.with_extension("active"));
        }
    }
}

#[derive(Debug)]
struct FaultyFs {
    bug: InjectedBug,
    fs: Arc<dyn Fs>,
}

#[derive(Debug)]
struct FaultyFile {
    bug: InjectedBug,
    file: Arc<dyn File>,
}

impl FaultyFs {
    fn file(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        let is_outside_store = !path.to_string_lossy().contains("/store/");
        if self.bug == InjectedBug::StoreSyncSkipped && is_outside_store {
            return file;
        }
        Arc::new(FaultyFile { bug: self.bug, file })
    }
}

impl Fs for FaultyFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(path, self.fs.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.file(path, self.fs.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let is_queue = to.to_string_lossy().contains("/queue/");
        if self.bug == InjectedBug::DamagedRemoved && is_queue && to.extension().is_some_and(|end| end == "damaged") {
            return self.fs.remove(from);
        }
        self.fs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = self.fs.list(dir)?;
        if self.bug == InjectedBug::DamageForgotten {
            names.retain(|name| !name.ends_with(".damaged"));
        }
        Ok(names)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.entries(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.fs.stat(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.fs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self.bug {
            InjectedBug::DirSyncSkipped => Ok(()),
            InjectedBug::SyncFailureHidden => {
                drop(self.fs.sync_dir(dir));
                Ok(())
            }
            _ => self.fs.sync_dir(dir),
        }
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.fs.space(dir)
    }

    fn boot_id(&self) -> Option<u128> {
        self.fs.boot_id()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.fs.lock(path)
    }
}

impl File for FaultyFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.file.append(parts)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn stat(&self) -> io::Result<FileStat> {
        self.file.stat()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        match self.bug {
            InjectedBug::FileSyncSkipped | InjectedBug::StoreSyncSkipped => Ok(()),
            InjectedBug::SyncFailureHidden => {
                drop(self.file.sync());
                Ok(())
            }
            _ => self.file.sync(),
        }
    }
}
