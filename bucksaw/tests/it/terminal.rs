//! What differs on a terminal: colours, progress, and harmless control characters.
#![allow(clippy::disallowed_methods, reason = "opens a real terminal")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::node::{MockNode, MockResponse, ResponseStep, message};
use crate::process::bucksaw;

const STATS: &str = r#"{"stats":{"matched":1,"partial":false}}"#;
const RECORD: &str = concat!(
    r#"{"id":"01M810FZ9S14ZNRYQCQM000000","time":"2026-11-20T23:10:00.000000Z","labels":{"app":"web"},"line":"an error\u001b[2J"}"#,
    "\n"
);

/// Limit of a wait. The machine may be busy.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The capacity of a pipe.
const PIPE_BYTES: usize = 4_096;

/// A terminal of this number of columns.
struct Terminal {
    /// What is written, from the side of the program that shows it.
    screen: Receiver<Vec<u8>>,
    device: File,
    shown: Vec<u8>,
}

impl Terminal {
    fn open(columns: u16) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let device = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let (sender, written) = channel();
        let mut screen = File::from(screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            // Ends when the terminal is closed.
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { screen: written, device, shown: Vec::new() }
    }

    fn stdio(&self) -> Stdio {
        Stdio::from(OwnedFd::from(self.device.try_clone().unwrap()))
    }

    /// Waits until a text is shown.
    fn wait(&mut self, text: &str) -> String {
        loop {
            let shown = String::from_utf8_lossy(&self.shown).into_owned();
            if shown.contains(text) {
                return shown;
            }
            let written = self.screen.recv_timeout(WAIT_MAX);
            assert!(written.is_ok(), "{text:?} is not shown: {shown:?}");
            self.shown.extend(written.unwrap());
        }
    }
}

/// The program without the width of help texts, which would be the width of the terminal.
fn on(words: &[&str], node: &MockNode) -> Command {
    let mut command = bucksaw(words.iter().copied().chain(["--addr", &node.url]));
    command.env_remove("COLUMNS").env("TERM", "xterm");
    command
}

fn end(mut child: Child) -> Option<i32> {
    child.wait().unwrap().code()
}

#[test]
fn matches_are_coloured_and_control_characters_are_harmless() {
    let node = MockNode::new(MockResponse::stream([message(2, RECORD), message(3, STATS)]));
    let check = |words: &[&str], variable: (&str, &str), want: &str| {
        let mut terminal = Terminal::open(80);
        let child = on(words, &node).env(variable.0, variable.1).stdout(terminal.stdio()).spawn().unwrap();
        let shown = terminal.wait("\n");
        assert_eq!((end(child), shown.as_str()), (Some(0), want), "{words:?} {variable:?}");
    };
    let plain = "an error\\x1b[2J\r\n";
    let red = "an \u{1b}[1;31merror\u{1b}[0m\\x1b[2J\r\n";
    check(&["query", "error"], ("TERM", "xterm"), red);
    check(&["query", "error"], ("NO_COLOR", "1"), plain);
    check(&["query", "error"], ("TERM", "dumb"), plain);
    check(&["query", "--color", "never", "error"], ("TERM", "xterm"), plain);
    check(&["query", "--color", "always", "error"], ("NO_COLOR", "1"), red);
    check(&["tail", "-m1", "error"], ("TERM", "xterm"), red);
}

#[test]
fn long_work_shows_progress_on_standard_error_only() {
    let node = MockNode::new(MockResponse::stream([message(2, RECORD), ResponseStep::Wait]));
    for columns in [80, 12] {
        let mut terminal = Terminal::open(columns);
        let mut command = on(&["query", "error"], &node);
        let mut child = command.stdout(Stdio::piped()).stderr(terminal.stdio()).spawn().unwrap();
        let (verb, rest) = if columns == 80 { ("searching for ", ", 1 record found") } else { ("searching f", "") };
        let shown = terminal.wait(&format!("\r\u{1b}[K{verb}"));
        assert!(shown.contains(rest) && !shown.contains('\n'), "{shown:?}");
        let longest = shown.split("\r\u{1b}[K").map(|line| line.chars().count()).max();
        assert!(longest < Some(usize::from(columns)), "{shown:?}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!((end(child), out.as_str()), (Some(130), "an error\u{1b}[2J\n"));
    }
}

#[test]
fn no_progress_is_shown_where_standard_error_is_no_terminal() {
    let node = MockNode::new(MockResponse::stream([message(2, RECORD), ResponseStep::Wait]));
    let mut terminal = Terminal::open(80);
    let mut command = on(&["query", "error"], &node);
    let mut child = command.stdout(terminal.stdio()).stderr(Stdio::piped()).spawn().unwrap();
    terminal.wait("\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((end(child), said.as_str()), (Some(130), ""));
}

#[test]
fn a_forwarder_shows_how_much_it_has_read() {
    // It accepts connections, and never acknowledges a line.
    let node = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = node.local_addr().unwrap().to_string();
    let mut terminal = Terminal::open(80);
    let mut command = bucksaw(["forward", "--to", &to]);
    command.env_remove("COLUMNS").env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(terminal.stdio()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"twelve bytes\n").unwrap();
    terminal.wait("\r\u{1b}[Kshipping for ");
    terminal.wait(", 13 B read");
    input.write_all(b"seven b").unwrap();
    let shown = terminal.wait(", 20 B read");
    assert!(!shown.contains('\n'), "each line replaces the one before it: {shown:?}");
    child.kill().unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!((end(child), out.as_str()), (None, ""));
}

#[test]
fn a_check_shows_the_file_that_it_has_reached() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("store")).unwrap();
    for number in 0..PIPE_BYTES / 16 {
        std::fs::write(dir.path().join(format!("store/{number:04}.seg")), "no segment").unwrap();
    }
    // The findings fill the pipe, so the check is at work until they are read.
    let (mut findings, stdout) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES).unwrap();
    let mut terminal = Terminal::open(200);
    let mut command = bucksaw(["verify", dir.path().to_str().unwrap()]);
    command.env_remove("COLUMNS").env("TERM", "xterm");
    let child = command.stdout(stdout).stderr(terminal.stdio()).spawn().unwrap();
    drop(command);
    // Nothing is shown in the first second of the work.
    std::thread::sleep(Duration::from_secs(2));
    let mut out = String::new();
    findings.read_to_string(&mut out).unwrap();
    let shown = terminal.wait(".seg");
    assert!(shown.contains("\r\u{1b}[Kchecking for ") && shown.contains(" records checked, now store/"), "{shown:?}");
    assert_eq!(out.lines().filter(|line| line.contains(".seg: ")).count(), PIPE_BYTES / 16);
    assert!(!out.contains("checking"), "{out}");
    assert_eq!(end(child), Some(1));
}

#[test]
fn an_agent_shows_its_rate_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("a.log");
    std::fs::write(&log, "one\ntwo\n").unwrap();
    let mut terminal = Terminal::open(120);
    let mut command = bucksaw(["forward", "--to", "127.0.0.1:1", "--state-dir"]);
    command.arg(dir.path().join("state")).arg(&log).env_remove("COLUMNS").env("TERM", "xterm");
    let child = command.stdin(Stdio::null()).stderr(terminal.stdio()).spawn().unwrap();
    let shown = terminal.wait("no node accepts");
    assert!(shown.contains("\r\u{1b}[Kfollowing for ") && shown.contains("lines/s, "), "{shown:?}");
    assert!(shown.contains(", lag 8 B "), "{shown:?}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(end(child), Some(130));
}
