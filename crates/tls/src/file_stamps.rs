//! Notices that files have changed, without reading them.

use std::path::{Path, PathBuf};

use bucksaw_env::{FileIdentity, Fs};

/// The identity, length and time of change of several files at one moment. A missing file differs from every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamps(Vec<(PathBuf, Option<FileStamp>)>);

type FileStamp = (FileIdentity, u64, u64);

impl FileStamps {
    /// Looks at these files. Symbolic links are followed, so a link to another file is a change.
    pub(crate) fn of<'a>(fs: &dyn Fs, paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let stamp = |path: &Path| fs.stat(path).ok().map(|stat| (stat.identity, stat.size, stat.modified_ms));
        Self(paths.into_iter().map(|path| (path.to_owned(), stamp(path))).collect())
    }
}
