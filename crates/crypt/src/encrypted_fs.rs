//! A file system that hands its keys to its files. It changes no bytes: the formats encrypt.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{DirEntry, File, FileKeys, FileLock, FileStat, Fs, Space};

/// A file system with keys.
#[derive(Debug)]
pub struct EncryptedFs {
    inner: Arc<dyn Fs>,
    keys: Arc<dyn FileKeys>,
}

impl EncryptedFs {
    /// The files of `inner` with these keys.
    pub fn new(inner: Arc<dyn Fs>, keys: Arc<dyn FileKeys>) -> Self {
        Self { inner, keys }
    }

    fn with_keys(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FileWithKeys { inner, keys: Arc::clone(&self.keys) })
    }
}

impl Fs for EncryptedFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.create(path).map(|file| self.with_keys(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.open(path).map(|file| self.with_keys(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.entries(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.inner.stat(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.resolve(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn make_private(&self, dir: &Path) -> io::Result<()> {
        self.inner.make_private(dir)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.inner.mode(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.inner.space(dir)
    }

    fn boot_id(&self) -> Option<u128> {
        self.inner.boot_id()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }

    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        Some(Arc::clone(&self.keys))
    }
}

#[derive(Debug)]
struct FileWithKeys {
    inner: Arc<dyn File>,
    keys: Arc<dyn FileKeys>,
}

impl File for FileWithKeys {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.inner.append(parts)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn stat(&self) -> io::Result<FileStat> {
        self.inner.stat()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.inner.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        Some(Arc::clone(&self.keys))
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact_at(offset, buffer)
    }

    fn read_bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.inner.read_bytes(offset, length)
    }
}
