//! Runs the command that prints the encryption keys.
#![expect(clippy::disallowed_methods, reason = "a command of the operator, which the simulator does not run")]

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_crypt::KEY_TEXT_BYTES_MAX;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long the command may run.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The output of a shell command. Its errors go to the log of this process.
pub(super) fn run(command: &str) -> anyhow::Result<Vec<u8>> {
    run_for(command, TIMEOUT)
}

fn run_for(command: &str, timeout: Duration) -> anyhow::Result<Vec<u8>> {
    let mut shell = Command::new("/bin/sh");
    // A group of its own, so that processes that it starts end with it.
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = shell.spawn().context("cannot run /bin/sh")?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let stdout = child.stdout.take();
    let (done, is_done) = mpsc::channel();
    // Ends when the pipe does, at the latest when the group is killed.
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map(|pipe| pipe.take(KEY_TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut text));
        let _ = done.send(read.transpose().map(|_| text));
    });
    let text = is_done.recv_timeout(timeout);
    if text.as_ref().is_ok_and(|text| text.as_ref().is_ok_and(|text| text.len() <= KEY_TEXT_BYTES_MAX)) {
        // It has closed its output, and ends by itself unless it does other things.
        for _ in 0..100 {
            if child.try_wait()?.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    let has_ended = child.try_wait()?.is_some();
    if !has_ended && let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    let Ok(text) = text else { bail!("the command has not ended within {} s: it was killed", timeout.as_secs_f64()) };
    let text = text.context("cannot read the output of the command")?;
    if text.len() > KEY_TEXT_BYTES_MAX {
        bail!("the command printed more than {KEY_TEXT_BYTES_MAX} bytes");
    }
    if !has_ended || !status.success() {
        bail!("the command failed: {status}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_bounded_in_time_and_length() {
        assert_eq!(run("printf 'a\\nb\\n'").unwrap(), b"a\nb\n");
        let failure = |command: &str, timeout| format!("{:#}", run_for(command, timeout).unwrap_err());
        assert!(failure("printf a; exit 3", TIMEOUT).contains("exit status: 3"));
        assert!(failure("sleep 60 & sleep 60", Duration::from_millis(50)).contains("was killed"));
        assert!(failure("yes", TIMEOUT).contains("more than 65536 bytes"));
    }
}
