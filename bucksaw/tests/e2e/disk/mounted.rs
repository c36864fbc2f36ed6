//! Small mounted disks, if mounting is permitted.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system, unmounted when dropped. Processes that use it must end before.
pub(crate) struct MountedDisk {
    home: TempDir,
}

impl MountedDisk {
    /// A tmpfs; `None`, with a message, if mounting is not permitted.
    pub(crate) fn mount(megabytes: usize) -> Option<Self> {
        let options = format!("size={megabytes}m");
        Self::by(|mount| mount.args(["-t", "tmpfs", "-o", &options, "bucksaw-test"]))
    }

    /// An ext4 file system in a file: it reports a full disk late, and its directories use space.
    pub(crate) fn mount_ext4(megabytes: u64) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(megabytes << 20).unwrap();
        // No blocks reserved for root, which runs the tests.
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(image.path()).status();
        if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("not tried, for want of a disk: mkfs.ext4: {made:?}");
            return None;
        }
        // The mount keeps the removed image.
        Self::by(|mount| mount.args(["-o", "loop"]).arg(image.path()))
    }

    fn by(what: impl FnOnce(&mut Command) -> &mut Command) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        match what(&mut mount).arg(home.path()).output() {
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

    /// Remounts it read-only.
    pub(crate) fn make_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(status.success(), "cannot remount: {status}");
    }

    /// Fills the disk with a file.
    pub(crate) fn fill_up(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1 << 20, 4_096, 512, 1] {
            while file.write_all(&vec![0; size]).is_ok() && file.sync_data().is_ok() {}
        }
        path
    }

    /// Uses space by a file of this size.
    pub(crate) fn ballast(&self, megabytes: usize) -> PathBuf {
        let path = self.path().join("ballast");
        fs::write(&path, vec![0; megabytes << 20]).unwrap();
        path
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        // Lazily, because a file may still be open.
        let status = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("cannot unmount {}: {status:?}", self.path().display());
        }
    }
}
