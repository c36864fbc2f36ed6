//! The process that reads the journal.
#![expect(clippy::disallowed_methods, reason = "an agent runs journalctl; it is not simulated")]

use std::io::{self, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::JournalConfig;

const PROGRAM: &str = "journalctl";

/// A field of an entry in the export format.
const CURSOR_FIELD: &[u8] = b"__CURSOR=";

/// A running `journalctl`, killed when dropped.
pub(super) struct Journalctl {
    child: Child,
    output: ChildStdout,
}

/// What arrived.
pub(super) enum JournalOutput {
    Bytes(usize),
    /// Nothing within the time.
    None,
    /// The process has closed its output.
    End,
}

impl Journalctl {
    /// Follows the journal behind an entry, or from its start if the cursor is empty.
    pub(super) fn follow(config: &JournalConfig, cursor: &[u8]) -> io::Result<Self> {
        let mut command = command(config);
        command.args(["--follow", "--no-tail"]);
        command.args(config.units.iter().map(|unit| format!("--unit={unit}")));
        if !cursor.is_empty() {
            command.arg(format!("--after-cursor={}", String::from_utf8_lossy(cursor)));
        }
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, output })
    }

    /// The cursor of the last entry of the journal; empty if it has none.
    pub(super) fn last_cursor(config: &JournalConfig) -> io::Result<Vec<u8>> {
        let output = command(config).arg("--lines=1").output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{PROGRAM}: {}", output.status)));
        }
        let line = output.stdout.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(CURSOR_FIELD));
        Ok(line.unwrap_or_default().to_vec())
    }

    /// Reads what has arrived, or waits for at most this time.
    pub(super) fn read(&mut self, buffer: &mut [u8], wait: Duration) -> io::Result<JournalOutput> {
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        // A signal ends the wait early.
        if !matches!(poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&timeout)), Ok(1..)) {
            return Ok(JournalOutput::None);
        }
        match self.output.read(buffer)? {
            0 => Ok(JournalOutput::End),
            count => Ok(JournalOutput::Bytes(count)),
        }
    }
}

impl Drop for Journalctl {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(config: &JournalConfig) -> Command {
    let mut command = Command::new(PROGRAM);
    // What it reports, such as missing permissions, is in the log of the agent.
    command.args(["--output=export", "--no-pager"]).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(directory) = &config.directory {
        command.arg("--directory").arg(directory);
    }
    command
}
