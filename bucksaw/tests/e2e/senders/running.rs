//! A sender as a process, killed when dropped.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::wait::wait_for;

/// A sender that runs. If a test fails, its log is printed.
pub(super) struct RunningSender {
    child: Child,
    log: PathBuf,
}

impl RunningSender {
    /// Starts a sender, whose log is written to a directory.
    pub(super) fn start(command: &mut Command, dir: &Path) -> Self {
        let log = dir.join("sender.log");
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::piped()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Appends a line to a file that the sender reads.
    pub(super) fn append(&mut self, file: &Path, line: &str) {
        assert!(self.child.try_wait().unwrap().is_none(), "the sender has ended");
        File::options().append(true).open(file).unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Writes a line to its standard input.
    pub(super) fn write(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// Closes its standard input, and waits until it has succeeded.
    pub(super) fn end_of_input(&mut self) {
        drop(self.child.stdin.take());
        let status = wait_for("the sender ends", || self.child.try_wait().unwrap());
        assert!(status.success(), "the sender: {status}");
    }
}

impl Drop for RunningSender {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("the end of the sender's log:\n{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}
