//! Undoes all changes to the machine when the harness ends, even if it is killed.
//!
//! A shell receives over a pipe the commands that undo each change: processes, firewall rules, mounts. It runs them
//! when the pipe closes. It has its own process group, so that signals from the terminal do not reach it.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

/// Runs the registered commands if the harness ends before the guard is dismissed.
#[derive(Clone, Debug)]
pub struct CleanupGuard(Arc<Mutex<CleanupShell>>);

#[derive(Debug)]
struct CleanupShell {
    child: Child,
    input: Option<ChildStdin>,
}

impl CleanupGuard {
    /// Starts the shell that undoes the changes.
    ///
    /// # Errors
    /// There is no `sh`.
    pub fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "undo=$(cat); eval \"$undo\""]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start sh")?;
        let input = child.stdin.take();
        Ok(Self(Arc::new(Mutex::new(CleanupShell { child, input }))))
    }

    /// Registers a command, which must be harmless if there is nothing to undo.
    pub(crate) fn register_undo(&self, undo: &str) {
        let mut shell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(input) = &mut shell.input {
            // Fails if the shell was killed. Nothing else depends on it.
            let _ = writeln!(input, "{undo}");
        }
    }
}

impl Drop for CleanupShell {
    /// Dismisses the guard: the shell ends without running the commands.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
