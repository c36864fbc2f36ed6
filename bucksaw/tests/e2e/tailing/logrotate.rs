//! Logs that the real `logrotate` rotates while the agent runs, is killed, or is down. Each line is stored once.

use std::fs;
use std::process::Command;

use super::TailedDir;
use super::log_writer::LogFileWriter;
use crate::senders::debian_program;

/// The rotations of a test.
const ROUNDS: usize = 6;

/// Lines before each rotation.
const LINES: usize = 40;

/// Rotates `app.log` in a directory of logs with these directives.
struct Logrotate {
    command: Command,
}

impl Logrotate {
    fn new(tailed: &TailedDir, directives: &str) -> Self {
        let (logs, home) = (tailed.logs(), tailed.home.path());
        let (config, state) = (home.join("logrotate.conf"), home.join("logrotate.state"));
        fs::write(&config, format!("{} {{\nrotate 20\n{directives}\n}}\n", logs.join("app.log").display())).unwrap();
        let mut command = debian_program("usr/sbin/logrotate");
        command.arg("--force").arg("--state").args([state, config]);
        Self { command }
    }

    fn rotate(&mut self) {
        let output = self.command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("error"), "{}: {said}", output.status);
    }
}

/// The agent in a round.
#[derive(Clone, Copy, PartialEq)]
enum AgentState {
    Running,
    /// It is killed after the lines and starts after the rotation.
    DownAtRotation,
    /// It is down for this round and the next rotation.
    DownForTwo,
}

/// Writes, rotates and writes again, in rounds. With `is_read_before_rotation` the lines before each rotation are stored first.
fn every_line_is_stored_once(directives: &str, is_read_before_rotation: bool) {
    let mut tailed = TailedDir::new(&[]);
    let mut log = tailed.writer("app.log");
    let mut logrotate = Logrotate::new(&tailed, directives);
    log.write_lines(1);
    tailed.start_agent("app.log");
    tailed.wait_count(1);
    for round in 0..ROUNDS {
        log.write_lines(LINES);
        if is_read_before_rotation {
            tailed.wait_count(log.lines().len());
        }
        let state = match round % 3 {
            0 => AgentState::Running,
            1 => AgentState::DownAtRotation,
            _ => AgentState::DownForTwo,
        };
        if state != AgentState::Running {
            tailed.kill_agent();
        }
        rotate(&mut logrotate, &mut log);
        if state == AgentState::DownForTwo && !is_read_before_rotation {
            log.write_lines(LINES);
            rotate(&mut logrotate, &mut log);
        }
        if state != AgentState::Running {
            tailed.start_agent("app.log");
        }
    }
    tailed.expect(&[&log]);
    let files = fs::read_dir(tailed.logs()).unwrap().count();
    assert!(files > ROUNDS, "{files} files: logrotate rotated too little");
    let said = tailed.stop_agent();
    assert!(!said.contains("may be missing"), "{said}");
}

/// Rotates the log, whose program then opens it again. The new file stays empty.
fn rotate(logrotate: &mut Logrotate, log: &mut LogFileWriter) {
    logrotate.rotate();
    log.reopen();
}

#[test]
fn logs_with_a_new_file_are_read_once() {
    every_line_is_stored_once("create", false);
}

#[test]
fn logs_that_are_compressed_at_once_are_read_once() {
    every_line_is_stored_once("create\ncompress", false);
}

#[test]
fn logs_that_are_compressed_later_are_read_once() {
    every_line_is_stored_once("create\ncompress\ndelaycompress", false);
}

#[test]
fn logs_with_a_date_are_read_once() {
    every_line_is_stored_once(
        "create\ncompress\ndateext\ndateformat -%Y%m%d-%s\nlastaction\nsleep 1.1\nendscript",
        false,
    );
}

#[test]
fn logs_that_are_copied_and_truncated_are_read_once() {
    every_line_is_stored_once("copytruncate\ncompress", true);
}
