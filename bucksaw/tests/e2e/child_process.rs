//! A running command, killed when dropped. All waits have a limit.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::wait::{WAIT_MAX, wait_for};

/// A running command with pipes for input and output.
pub(crate) struct ChildProcess {
    child: Child,
    /// Its standard input, until it is taken.
    pub(crate) input: Option<ChildStdin>,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
}

impl ChildProcess {
    /// Starts a command.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (input, out, err) = (child.stdin.take(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, input, out: lines(out), err: lines(err) }
    }

    /// The next line of standard output, without LF.
    pub(crate) fn line(&mut self) -> String {
        text(self.out.recv_timeout(WAIT_MAX).unwrap())
    }

    /// The next line of standard error, without LF.
    pub(crate) fn stderr_line(&mut self) -> String {
        text(self.err.recv_timeout(WAIT_MAX).unwrap())
    }

    /// Prints what it has written to standard error.
    pub(crate) fn print_stderr(&mut self) {
        self.err.try_iter().map(text).for_each(|line| eprintln!("{line}"));
    }

    /// Sends SIGTERM.
    pub(crate) fn send_sigterm(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for its end; returns the status and the rest of standard output and standard error.
    pub(crate) fn wait_with_output(mut self) -> (ExitStatus, String, String) {
        drop(self.input.take());
        let status = wait_for("the command ends", || self.child.try_wait().unwrap());
        let rest = |lines: &Receiver<Vec<u8>>| lines.iter().map(text).map(|line| line + "\n").collect();
        (status, rest(&self.out), rest(&self.err))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // Ends with the pipe or its receiver.
        BufReader::new(from).split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

fn text(line: Vec<u8>) -> String {
    String::from_utf8(line).unwrap()
}
