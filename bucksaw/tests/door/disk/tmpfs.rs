//! A small disk of one's own, where that is permitted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A file system in memory; gone when this is dropped. Whoever uses it has to end before.
pub(crate) struct Tmpfs {
    home: TempDir,
}

impl Tmpfs {
    /// A file system of so many megabytes; `None` where it is not permitted to mount one, which is said.
    pub(crate) fn mount(megabytes: usize) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let options = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "bucksaw-test"]).arg(home.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self { home }),
            Ok(output) => {
                eprintln!("not tried, for want of a disk: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("not tried, for want of a disk: mount: {error}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// From now on nothing can be written to it.
    pub(crate) fn make_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(status.success(), "cannot remount: {status}");
    }

    /// Takes up so much room until the file is removed.
    pub(crate) fn ballast(&self, megabytes: usize) -> PathBuf {
        let path = self.path().join("ballast");
        fs::write(&path, vec![0; megabytes << 20]).unwrap();
        path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Detached, so that it goes also when something still has a file of it open.
        let status = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("cannot unmount {}: {status:?}", self.path().display());
        }
    }
}
