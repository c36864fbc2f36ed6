//! What undoes everything when the harness is gone, however it went.
//!
//! A shell is told, over a pipe, the commands that undo what was done to the machine: processes, rules of the firewall,
//! mounts. When the pipe ends because the harness was killed, it runs them. In a group of its own it is not reached by
//! what ends the harness from a terminal.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

/// Knows how to undo what was done. It does so when the harness dies before this was dismissed.
#[derive(Clone, Debug)]
pub(crate) struct CleanupGuard(Arc<Mutex<CleanupShell>>);

#[derive(Debug)]
struct CleanupShell {
    child: Child,
    input: Option<ChildStdin>,
}

impl CleanupGuard {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "undo=$(cat); eval \"$undo\""]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start sh")?;
        let input = child.stdin.take();
        Ok(Self(Arc::new(Mutex::new(CleanupShell { child, input }))))
    }

    /// Takes note of a command that is harmless when it is run for nothing.
    pub(crate) fn register_undo(&self, undo: &str) {
        let mut shell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = &mut shell.input {
            // A shell that is gone cannot be told; nothing else depends on it.
            let _ = writeln!(input, "{undo}");
        }
    }
}

impl Drop for CleanupShell {
    /// All was undone in the usual way: it ends without a word.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
