//! Waits until an idle file grows or a directory changes, with inotify.
//!
//! A file that grows is read at intervals and not watched, so a busy writer causes no events. An idle file has a watch
//! that is removed by its first event. Without a watch, for example because the limit of the system is reached or the
//! file system does not support it, the next scan finds the growth.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bucksaw_tailer::FileKey;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Bytes of events that are read at once.
const EVENT_BYTES: usize = 8 << 10;

/// What happened while the watcher waited.
#[derive(Debug, Default)]
pub(super) struct WatchEvents {
    /// Files that have grown.
    pub(super) grown: Vec<FileKey>,
    /// Whether a name appeared in or disappeared from a watched directory, or events were lost.
    pub(super) is_scan_due: bool,
}

#[derive(Debug)]
pub(super) struct Watcher {
    /// `None` if the system has no more instances.
    inotify: Option<OwnedFd>,
    files: HashMap<i32, FileKey>,
    directories: HashMap<i32, PathBuf>,
}

impl Watcher {
    pub(super) fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { inotify, files: HashMap::new(), directories: HashMap::new() }
    }

    /// Watches a file until its next change. Returns whether it is watched.
    pub(super) fn watch_file(&mut self, key: FileKey, path: &Path) -> bool {
        let flags = WatchFlags::MODIFY | WatchFlags::ONESHOT;
        let watch = self.inotify.as_ref().and_then(|inotify| inotify::add_watch(inotify, path, flags).ok());
        if let Some(watch) = watch {
            self.files.insert(watch, key);
        }
        watch.is_some()
    }

    /// Watches exactly these directories for new, renamed and removed names.
    pub(super) fn watch_directories(&mut self, wanted: &BTreeSet<PathBuf>) {
        let Some(inotify) = &self.inotify else { return };
        self.directories.retain(|watch, path| {
            let is_kept = wanted.contains(path);
            if !is_kept {
                // Fails if the directory is gone, and the watch with it.
                let _ = inotify::remove_watch(inotify, *watch);
            }
            is_kept
        });
        let watched: BTreeSet<PathBuf> = self.directories.values().cloned().collect();
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        for path in wanted.difference(&watched) {
            let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            if let Ok(watch) = inotify::add_watch(inotify, at, flags) {
                self.directories.insert(watch, path.clone());
            }
        }
    }

    /// Waits for an event, at most this long.
    pub(super) fn wait(&mut self, time: Duration) -> WatchEvents {
        let mut events = WatchEvents::default();
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let Some(inotify) = &self.inotify else {
            // Only waits.
            let _ = poll(&mut [], Some(&timeout));
            return events;
        };
        // A signal ends the wait early.
        if !matches!(poll(&mut [PollFd::new(inotify, PollFlags::IN)], Some(&timeout)), Ok(1..)) {
            return events;
        }
        let mut bytes = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = inotify::Reader::new(inotify, &mut bytes);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if let Some(key) = self.files.get(&event.wd()).filter(|_| flags.contains(ReadFlags::MODIFY)) {
                events.grown.push(*key);
            } else if flags.contains(ReadFlags::IGNORED) {
                // The number may be used again.
                self.files.remove(&event.wd());
                events.is_scan_due |= self.directories.remove(&event.wd()).is_some();
            } else {
                events.is_scan_due |=
                    self.directories.contains_key(&event.wd()) || flags.contains(ReadFlags::QUEUE_OVERFLOW);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "inotify needs real files")]

    use std::fs;
    use std::io::Write as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const NOW: Duration = Duration::ZERO;

    #[test]
    fn a_file_is_reported_once_and_a_directory_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut file = fs::File::create(&path).unwrap();
        let mut watcher = Watcher::new();
        assert!(watcher.watch_file(FileKey(7), &path));
        assert!(watcher.wait(NOW).grown.is_empty());
        file.write_all(b"x").unwrap();
        assert_eq!(watcher.wait(SOON).grown, [FileKey(7)]);
        file.write_all(b"x").unwrap();
        assert!(watcher.wait(NOW).grown.is_empty());
        assert!(watcher.watch_file(FileKey(8), &path));
        file.write_all(b"x").unwrap();
        assert_eq!(watcher.wait(SOON).grown, [FileKey(8)]);

        let wanted = BTreeSet::from([dir.path().to_owned()]);
        watcher.watch_directories(&wanted);
        file.write_all(b"x").unwrap();
        assert!(!watcher.wait(NOW).is_scan_due);
        for step in 0..2 {
            fs::rename(&path, dir.path().join(format!("a.log.{step}"))).unwrap();
            assert!(watcher.wait(SOON).is_scan_due);
            fs::File::create(&path).unwrap();
            assert!(watcher.wait(SOON).is_scan_due);
        }
        watcher.watch_directories(&BTreeSet::new());
        fs::remove_file(&path).unwrap();
        assert!(!watcher.wait(NOW).is_scan_due);
        assert!(!watcher.watch_file(FileKey(9), &path));
    }
}
