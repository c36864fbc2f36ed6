//! `forward` with files: rotation, restarts and kills, with every line written compared with every line stored.

mod log_writer;
mod logrotate;
mod random;
pub(crate) mod status;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::child_process::ChildProcess;
use crate::client::encode;
use crate::node::{TestServer, bucksaw};
use crate::wait::{has_happened, wait_until};
use log_writer::LogFileWriter;

/// A node, a directory of logs, and an agent that may run.
pub(crate) struct TailedDir {
    home: TempDir,
    pub(crate) node: TestServer,
    agent: Option<ChildProcess>,
    arguments: Vec<String>,
}

impl TailedDir {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("logs")).unwrap();
        // Fixed ports, so that the agent finds the node after a restart.
        let mut node = TestServer::start(&[]);
        let fixed: Vec<String> = ["http", "fast", "durable", "bulk"]
            .iter()
            .flat_map(|name| {
                let flag = if *name == "http" { "--listen".to_owned() } else { format!("--listen-{name}") };
                [flag, node.address(name).to_owned()]
            })
            .collect();
        let fixed: Vec<&str> = fixed.iter().map(String::as_str).collect();
        node.restart_with(&fixed);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { home, node, agent: None, arguments }
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.home.path().join("logs")
    }

    fn writer(&self, name: &str) -> LogFileWriter {
        LogFileWriter::new(&self.logs().join(name))
    }

    /// Starts the agent on this pattern in the directory of logs.
    pub(crate) fn start_agent(&mut self, pattern: &str) {
        let mut command = bucksaw(["forward", "--to", self.node.address("fast"), "--state-dir"]);
        command.arg(self.home.path().join("state")).args(&self.arguments).arg(self.logs().join(pattern));
        self.agent = Some(ChildProcess::start(&mut command));
    }

    /// Kills the agent with SIGKILL.
    pub(crate) fn kill_agent(&mut self) {
        self.agent = None;
    }

    /// Stops the agent with SIGTERM; returns its log.
    pub(crate) fn stop_agent(&mut self) -> String {
        let agent = self.agent.take().unwrap();
        agent.send_sigterm();
        let (status, _, said) = agent.wait_with_output();
        // A process that has just started has no handler yet.
        assert!(matches!(status.code(), Some(130) | None), "{status}: {said}");
        said
    }

    /// The stored lines, with the number of each.
    fn stored(&self) -> BTreeMap<String, usize> {
        let answer = self.node.get(&format!("/api/v1/query?from=30d&q={}", encode("")));
        let mut lines = BTreeMap::new();
        for record in answer.expect(200).objects() {
            match record["line"].as_str() {
                Some(line) => *lines.entry(line.to_owned()).or_default() += 1,
                None => assert_eq!(record["stats"]["partial"], false, "{record}"),
            }
        }
        lines
    }

    /// Waits until this number of records is stored.
    pub(crate) fn wait_count(&self, count: usize) {
        wait_until("the lines are stored", || self.node.count("") >= count as u64);
    }

    /// Waits for the lines of these writers, and checks that each is stored once and no other.
    fn expect(&mut self, writers: &[&LogFileWriter]) {
        let written: BTreeMap<String, usize> =
            writers.iter().flat_map(|writer| writer.lines()).map(|line| (line.clone(), 1)).collect();
        let is_complete = has_happened(|| self.node.count("") >= written.len() as u64);
        let stored = self.stored();
        if !is_complete && let Some(agent) = &mut self.agent {
            agent.print_stderr();
        }
        let missing: Vec<_> = written.keys().filter(|line| !stored.contains_key(*line)).take(5).collect();
        let wrong: Vec<_> = stored.iter().filter(|(line, count)| written.get(*line) != Some(*count)).take(5).collect();
        assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:?}, doubled or never written {wrong:?}");
    }
}

/// The values of a label over all records.
fn label_values(node: &TestServer, name: &str) -> Vec<String> {
    let answer = node.get("/api/v1/query?from=30d&q=").expect(200).objects();
    let mut values: Vec<String> =
        answer.iter().filter_map(|record| record["labels"][name].as_str().map(str::to_owned)).collect();
    values.sort();
    values.dedup();
    values
}

#[test]
fn files_are_followed_through_renames_and_new_files_are_found() {
    let mut tailed = TailedDir::new(&["--label", "app=web"]);
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("*.log");
    tailed.wait_count(100);
    one.write_lines(50);
    one.rename_away("one.log.1");
    one.write_lines(10);
    one.reopen();
    one.write_lines(20);
    let mut two = tailed.writer("two.log");
    two.write_lines(30);
    tailed.expect(&[&one, &two]);
    assert_eq!(label_values(&tailed.node, "app"), ["web"]);
    let paths = ["one.log", "two.log"].map(|name| tailed.logs().join(name).display().to_string());
    assert_eq!(label_values(&tailed.node, "log.file.path"), paths);
    assert_eq!(label_values(&tailed.node, "host.name").len(), 1);
    let said = tailed.stop_agent();
    assert!(said.contains("following files=1") && !said.contains("WARN") && !said.contains("ERROR"), "{said}");
}

#[test]
fn a_killed_agent_sends_each_line_once() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    tailed.start_agent("one.log");
    for round in 0..6 {
        one.write_lines(700);
        one.write(b"half a line");
        // Between the first and the last line.
        tailed.wait_count(700 * round + 1);
        tailed.kill_agent();
        one.write(b" and its end");
        one.end_line();
        tailed.start_agent("one.log");
    }
    tailed.expect(&[&one]);
}

#[test]
fn lines_wait_for_a_node_that_is_away() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    one.write_lines(10);
    tailed.start_agent("one.log");
    tailed.wait_count(10);
    tailed.node.kill();
    one.write_lines(2_000);
    one.rename_away("one.log.1");
    one.reopen();
    one.write_lines(3);
    tailed.kill_agent();
    // What the agent had buffered is not lost with the file.
    tailed.start_agent("one.log");
    tailed.node.restart();
    tailed.expect(&[&one]);
}

#[test]
fn rotations_while_the_agent_is_down_lose_nothing() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("one.log");
    tailed.wait_count(100);
    tailed.stop_agent();
    one.write_lines(7);
    one.rename_away("one.log.2");
    one.reopen();
    one.write_lines(8);
    one.rename_away("one.log.1");
    one.compress("one.log.2");
    one.reopen();
    one.write_lines(9);
    tailed.start_agent("one.log");
    tailed.expect(&[&one]);
}

#[test]
fn a_copied_and_truncated_file_is_read_to_its_end() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("one.log*");
    tailed.wait_count(100);
    for round in 0..3 {
        one.write_lines(50 + round);
        one.copy_and_truncate(&format!("one.log.{round}"));
        one.write_lines(200);
    }
    tailed.expect(&[&one]);
}

#[test]
fn a_truncated_file_is_a_reported_gap() {
    let mut tailed = TailedDir::new(&[]);
    let path = tailed.logs().join("one.log");
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("one.log");
    tailed.wait_count(100);
    tailed.node.kill();
    tailed.kill_agent();
    let lost = one.lines().len();
    one.write_lines(60);
    fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    one.forget_lines(lost);
    one.write_lines(40);
    tailed.start_agent("one.log");
    tailed.node.restart();
    tailed.expect(&[&one]);
    let said = tailed.stop_agent();
    assert!(said.contains("lines of a file may be missing") && said.contains("one.log"), "{said}");
}

#[test]
fn a_deleted_file_is_read_while_it_is_open() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("one.log");
    tailed.wait_count(100);
    fs::remove_file(tailed.logs().join("one.log")).unwrap();
    one.write_lines(80);
    tailed.wait_count(180);
    one.reopen();
    one.write_lines(5);
    tailed.expect(&[&one]);
}

#[test]
fn a_full_buffer_stops_reading_or_drops_the_oldest_lines() {
    for (policy, loses) in [("block", false), ("drop-oldest", true)] {
        let mut tailed = TailedDir::new(&["--buffer-bytes", "4M", "--when-full", policy]);
        let mut one = tailed.writer("one.log");
        one.write_lines(10);
        tailed.start_agent("one.log");
        tailed.wait_count(10);
        tailed.node.kill();
        one.write_lines(100_000);
        let buffer = tailed.home.path().join("state/buffer");
        let bytes = || directory_bytes(&buffer);
        wait_until("the buffer is full", || bytes() > 3_500_000);
        assert!(bytes() < 4_600_000, "{}", bytes());
        tailed.node.restart();
        if loses {
            let last = one.lines().last().unwrap().clone();
            wait_until("the newest line is stored", || tailed.stored().contains_key(&last));
            let said = tailed.stop_agent();
            let stored = tailed.stored();
            assert!(stored.len() < one.lines().len() && stored.values().all(|count| *count == 1));
            assert!(said.contains("dropped the oldest records"), "{said}");
        } else {
            tailed.expect(&[&one]);
        }
    }
}

#[test]
fn damaged_positions_are_no_first_start() {
    let mut tailed = TailedDir::new(&["--read-from", "end"]);
    let mut one = tailed.writer("one.log");
    tailed.start_agent("one.log");
    let buffer = tailed.home.path().join("state/buffer/0000000000000000.buffer");
    wait_until("the positions are saved", || buffer.exists());
    tailed.kill_agent();
    one.write_lines(20);
    let mut bytes = fs::read(&buffer).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&buffer, bytes).unwrap();
    tailed.start_agent("one.log");
    tailed.expect(&[&one]);
    assert!(tailed.stop_agent().contains("the positions in the files are damaged"));
}

#[test]
fn mistakes_are_reported() {
    let check = |arguments: &[&str], want: &str| {
        let output = bucksaw(["forward", "--to", "127.0.0.1:1"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
    };
    check(&["/var/[log"], "[log");
    check(&["--read-from", "middle", "a.log"], "--read-from");
    check(&["--buffer-bytes", "1M", "a.log"], "--buffer-bytes must be at least 4M");
    check(&["--state-dir", "/dev/null/x", "a.log"], "/dev/null/x");
    let mut tailed = TailedDir::new(&[]);
    tailed.start_agent("one.log");
    let state = tailed.home.path().join("state");
    wait_until("the agent runs", || state.join("buffer").exists());
    check(&["--state-dir", state.to_str().unwrap(), "a.log"], "another agent uses it");
}

fn directory_bytes(dir: &Path) -> u64 {
    // Files may disappear meanwhile.
    fs::read_dir(dir).unwrap().filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}
