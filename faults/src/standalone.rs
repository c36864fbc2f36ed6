//! A single node as a process, with addresses that survive restarts.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cleanup_guard::CleanupGuard;
use crate::http::get;
use crate::log::last_lines;
use bucksaw_fixtures::Random;

/// The maximum time until a node is ready or has ended.
const READY_MAX: Duration = Duration::from_secs(60);

/// The interval of checks while a node starts.
const POLL_PERIOD: Duration = Duration::from_millis(3);

const HTTP: u16 = 7650;

/// Ports of the listeners, by durability.
const LINES: [(&str, u16); 3] = [("fast", 7651), ("durable", 7652), ("bulk", 7653)];

/// The cluster port.
pub(crate) const CLUSTER: u16 = 7659;

/// A loopback network that no other process uses.
///
/// # Errors
/// There is none, for example on systems where only 127.0.0.1 is local.
pub(crate) fn free_net(seed: u64) -> anyhow::Result<[u8; 2]> {
    let mut random = Random::new(u64::from(std::process::id()) << 20 ^ seed);
    let is_free = |net: &[u8; 2]| TcpListener::bind((Ipv4Addr::new(127, net[0], net[1], 11), HTTP)).is_ok();
    let mut draw = || [1 + random.below(250) as u8, 1 + random.below(250) as u8];
    let net = (0..50).map(|_| draw()).find(is_free);
    net.context("no loopback addresses: this needs Linux, where all of 127.0.0.0/8 is local")
}

/// A node. It is killed on drop.
#[derive(Debug)]
pub(crate) struct StandaloneNode {
    program: PathBuf,
    pub(crate) dir: PathBuf,
    ip: Ipv4Addr,
    cleanup: CleanupGuard,
    /// Arguments other than the directory and the addresses.
    pub(crate) arguments: Vec<String>,
    child: Option<Child>,
}

impl StandaloneNode {
    /// A node that is not started. Its log is the directory name with `.log`.
    pub(crate) fn new(program: &Path, dir: PathBuf, ip: Ipv4Addr, cleanup: &CleanupGuard, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { program: program.to_owned(), dir, ip, cleanup: cleanup.clone(), arguments, child: None }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        (self.ip, HTTP).into()
    }

    /// The address of a line listener.
    pub(crate) fn lines(&self, durability: &str) -> SocketAddr {
        let port = LINES.iter().find(|(name, _)| *name == durability).map_or(LINES[0].1, |(_, port)| *port);
        (self.ip, port).into()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.with_extension("log")
    }

    /// The log.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    /// Starts the node without waiting, and kills it first if it runs.
    pub(crate) fn spawn(&mut self) -> anyhow::Result<()> {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--data-dir").arg(&self.dir);
        command.args(["--listen", &self.http().to_string()]);
        for (promise, port) in LINES {
            command.args([&format!("--listen-{promise}"), &format!("{}:{port}", self.ip)]);
        }
        command.args(["--listen-cluster", &format!("{}:{CLUSTER}", self.ip)]);
        command.args(&self.arguments).env_clear().process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        self.cleanup.register_undo(&format!("kill -9 -{0}", child.id()));
        self.child = Some(child);
        Ok(())
    }

    /// Starts the node if it does not run.
    pub(crate) fn spawn_if_down(&mut self) -> anyhow::Result<()> {
        if self.child.is_none() { self.spawn() } else { Ok(()) }
    }

    /// Starts the node and waits until it is ready, or returns its exit status.
    pub(crate) fn start(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.spawn()?;
        self.wait()
    }

    fn wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let until = Instant::now() + READY_MAX;
        loop {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                self.child = None;
                return Ok(Some(status));
            }
            if get(self.http(), "/-/ready", Duration::from_secs(1)).is_ok_and(|answer| answer.status == 200) {
                return Ok(None);
            }
            if Instant::now() > until {
                bail!("a node is not ready after {READY_MAX:?}; its log is {}", self.log().display());
            }
            thread::sleep(POLL_PERIOD);
        }
    }

    /// Starts the node and waits until it is ready.
    pub(crate) fn start_ready(&mut self) -> anyhow::Result<()> {
        self.spawn()?;
        self.wait_ready()
    }

    /// Waits until the node is ready.
    pub(crate) fn wait_ready(&mut self) -> anyhow::Result<()> {
        match self.wait()? {
            None => Ok(()),
            Some(status) => bail!("a node ended: {status}; the end of its log:\n{}", last_lines(&self.log())),
        }
    }

    /// Requests a graceful stop without waiting.
    pub(crate) fn send_sigterm(&self) -> anyhow::Result<()> {
        let child = self.child.as_ref().context("the node is not running")?;
        Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
    }

    /// Stops the node and waits for its exit.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.send_sigterm()?;
        let until = Instant::now() + READY_MAX;
        while self.child.as_mut().is_some_and(|child| child.try_wait().ok().flatten().is_none()) {
            if Instant::now() > until {
                bail!("a node does not stop; its log is {}", self.log().display());
            }
            thread::sleep(POLL_PERIOD);
        }
        self.child = None;
        Ok(())
    }

    /// Kills the node: nothing is flushed.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails if the node has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for StandaloneNode {
    fn drop(&mut self) {
        self.kill();
    }
}
