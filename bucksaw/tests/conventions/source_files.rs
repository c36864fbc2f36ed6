//! Finds the source files of the repository.

use std::path::{Path, PathBuf};

/// Directories that hold build results, packages or data of a node, and no sources.
const SKIPPED_DIRECTORIES: [&str; 6] = [".git", "target", "node_modules", "dist", "test-results", "bucksaw-data"];

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The directories of all crates in the workspace, sorted.
pub(crate) fn crate_directories() -> Vec<PathBuf> {
    let mut directories: Vec<_> =
        std::fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.extend(["bench", "bucksaw", "faults", "sim"].map(|name| repository().join(name)));
    directories.sort();
    directories
}

/// All files below `directory` whose extension, or whole name, is one of `extensions`, sorted. Without lists of packages.
pub(crate) fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
                    pending.push(path);
                }
            } else if name != "package-lock.json"
                && extensions.iter().any(|want| name == *want || path.extension().is_some_and(|have| have == *want))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `path` as seen from the root of the repository, with forward slashes.
pub(crate) fn short(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
