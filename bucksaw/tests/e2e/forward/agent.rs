//! A node with fixed ports, and an agent that ships to it and may be killed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::child_process::ChildProcess;
use crate::client::encode;
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

pub(super) struct AgentNode {
    pub(super) node: TestServer,
    home: TempDir,
    agent: Option<ChildProcess>,
    arguments: Vec<String>,
}

impl AgentNode {
    /// A node, and an agent with these arguments.
    pub(super) fn start(arguments: &[&str]) -> Self {
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
        let mut agent = Self { node, home: tempfile::tempdir().unwrap(), agent: None, arguments };
        agent.restart();
        agent
    }

    /// Starts the agent. Kills it before with SIGKILL if it runs.
    pub(super) fn restart(&mut self) {
        self.agent = None;
        let mut command = bucksaw(["forward", "--to", self.node.address("fast"), "--state-dir"]);
        // The path of `journalctl`.
        command.arg(self.state_dir()).args(&self.arguments).env("PATH", "/usr/bin:/bin");
        self.agent = Some(ChildProcess::start(&mut command));
    }

    pub(super) fn kill(&mut self) {
        self.agent = None;
    }

    pub(super) fn state_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// The next line of its log.
    pub(super) fn log_line(&mut self) -> String {
        self.agent.as_mut().unwrap().stderr_line()
    }

    /// Stops the agent with SIGTERM; returns the rest of its log.
    pub(super) fn stop(&mut self) -> String {
        let agent = self.agent.take().unwrap();
        agent.send_sigterm();
        let (status, _, said) = agent.wait_with_output();
        assert_eq!(status.code(), Some(130), "{said}");
        said
    }

    /// The stored lines, with the number of each.
    pub(super) fn stored(&self) -> BTreeMap<String, usize> {
        let answer = self.node.get(&format!("/api/v1/query?from=30d&q={}", encode("")));
        let mut lines = BTreeMap::new();
        for record in answer.expect(200).objects() {
            if let Some(line) = record["line"].as_str() {
                *lines.entry(line.to_owned()).or_default() += 1;
            }
        }
        lines
    }

    /// Waits until these lines are stored, and checks that each is stored once and no other.
    pub(super) fn expect(&self, written: &[String]) {
        wait_until("the lines are stored", || self.node.count("") >= written.len() as u64);
        let want: BTreeMap<String, usize> = written.iter().map(|line| (line.clone(), 1)).collect();
        let stored = self.stored();
        let missing: Vec<_> = want.keys().filter(|line| !stored.contains_key(*line)).take(5).collect();
        let wrong: Vec<_> = stored.iter().filter(|(line, count)| want.get(*line) != Some(*count)).take(5).collect();
        assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:?}, doubled or never written {wrong:?}");
    }
}
