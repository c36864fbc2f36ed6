//! Nodes as processes.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::launcher;
use crate::cleanup_guard::CleanupGuard;
use crate::http::{self, get};
use crate::log::last_lines;
use crate::run_command;
use bucksaw_fixtures::Random;

/// The maximum time until a node is ready or has stopped.
const READY_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);

const HTTP: u16 = 7650;
const DURABLE: u16 = 7652;
const CLUSTER: u16 = 7659;

/// The user of the first node, if nodes run as separate users.
const FIRST_USER: u32 = 61_000;

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetRole {
    /// Accepts records.
    Ingest,
    /// Stores and searches them.
    Store,
    /// Both.
    Both,
}

impl FleetRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Store => "store",
            Self::Both => "ingest,store",
        }
    }
}

/// Options common to all nodes.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    pub(crate) bucksaw: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) replication_factor: usize,
    /// Whether each node runs as its own user, so that firewall rules can identify it. Needs root.
    pub(crate) users: bool,
    pub(crate) cleanup: CleanupGuard,
    net: [u8; 2],
}

impl FleetConfig {
    /// Finds an unused loopback network. `copies` is the replication factor; `users` gives each node a user of its own.
    ///
    /// # Errors
    /// No loopback network is free.
    pub fn new(bucksaw: &Path, home: &Path, copies: usize, users: bool) -> anyhow::Result<Self> {
        // Runs of one process, as in tests, start at different networks.
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(u64::from(std::process::id()) << 16 | run);
        let is_free = |net: &[u8; 2]| TcpListener::bind((Ipv4Addr::new(127, net[0], net[1], 11), CLUSTER)).is_ok();
        let mut draw = || [1 + random.below(250) as u8, 1 + random.below(250) as u8];
        let net = (0..50).map(|_| draw()).find(is_free);
        let net = net.context("no loopback addresses: this needs Linux, where all of 127.0.0.0/8 is local")?;
        Ok(Self {
            bucksaw: bucksaw.to_owned(),
            home: home.to_owned(),
            replication_factor: copies,
            users,
            cleanup: CleanupGuard::start()?,
            net,
        })
    }

    /// An address in this network.
    pub(crate) fn ip(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.net[0], self.net[1], last)
    }
}

/// A node. It is killed on drop.
#[derive(Debug)]
pub struct FleetNode {
    config: FleetConfig,
    pub(crate) name: String,
    /// The program.
    pub(crate) program: PathBuf,
    /// Its role.
    pub role: FleetRole,
    pub(crate) ip: Ipv4Addr,
    pub(crate) user: u32,
    pub(crate) dir: PathBuf,
    /// The node that it joins; a node that joins itself is isolated.
    pub(crate) join: Ipv4Addr,
    /// Environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// The file of a control group to join.
    pub(crate) cgroup: Option<PathBuf>,
    /// Arguments for segment sizes and ages, instead of the defaults of the harness.
    pub segment_arguments: Vec<String>,
    /// Additional arguments.
    pub extra_arguments: Vec<String>,
    child: Option<Child>,
}

impl FleetNode {
    /// A node that is not started; `place` is its index among all nodes.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn new(common: &FleetConfig, role: FleetRole, number: usize, place: u8) -> anyhow::Result<Self> {
        let name = format!("{} {number}", role.name());
        let home = common.home.join(name.replace([' ', ','], "-"));
        fs::create_dir_all(&home)?;
        Ok(Self {
            config: common.clone(),
            name,
            program: common.bucksaw.clone(),
            role,
            ip: common.ip(11 + place),
            user: FIRST_USER + u32::from(place),
            dir: home.join("data"),
            join: common.ip(if place == 0 { 12 } else { 11 }),
            environment: Vec::new(),
            cgroup: None,
            segment_arguments: Vec::new(),
            extra_arguments: Vec::new(),
            child: None,
        })
    }

    /// The address of its HTTP interface.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        (self.ip, HTTP).into()
    }

    /// The address of its listener that acknowledges what is synced. A node that only stores has none.
    #[must_use]
    pub fn durable(&self) -> SocketAddr {
        (self.ip, DURABLE).into()
    }

    /// The path of its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.with_extension("log")
    }

    /// Writes its copy of the cluster secret. Nodes may run as different users, and a node refuses a secret that
    /// others can read.
    fn secret(&self) -> anyhow::Result<PathBuf> {
        let path = self.dir.with_extension("secret");
        let [one, two] = self.config.net;
        fs::write(&path, format!("a secret of this run, {one}-{two}"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        if self.config.users {
            std::os::unix::fs::chown(&path, Some(self.user), Some(self.user))?;
        }
        Ok(path)
    }

    /// Starts the node without waiting.
    pub(crate) fn spawn(&mut self) -> anyhow::Result<()> {
        self.kill();
        fs::create_dir_all(&self.dir)?;
        let secret = self.secret()?;
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = match self.cgroup.as_deref().map(launcher).as_deref() {
            Some([shell, arguments @ ..]) => {
                let mut command = Command::new(shell);
                command.args(arguments).arg(&self.program);
                command
            }
            _ => Command::new(&self.program),
        };
        command.arg("serve").arg("--data-dir").arg(&self.dir);
        command.args([
            "--roles",
            self.role.name(),
            "--replication-factor",
            &self.config.replication_factor.to_string(),
        ]);
        command.args(["--listen", &self.http().to_string(), "--listen-fast", "", "--listen-bulk", ""]);
        let durable = if self.role == FleetRole::Store { String::new() } else { self.durable().to_string() };
        command.args(["--listen-durable", &durable, "--listen-cluster", &format!("{}:{CLUSTER}", self.ip)]);
        command.args(["--join", &format!("{}:{CLUSTER}", self.join)]);
        command.arg("--cluster-secret-file").arg(secret);
        // Segments are small and short-lived, so that many transitions meet faults.
        let small = ["--segment-max-age", "500ms", "--segment-max-bytes", "256K", "--store-segment-bytes", "4M"];
        match self.segment_arguments.as_slice() {
            [] => command.args(small),
            others => command.args(others),
        };
        command
            .args(&self.extra_arguments)
            .args(["--log-level", "info"])
            .env_clear()
            .envs(self.environment.iter().cloned());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        if self.config.users {
            std::os::unix::fs::chown(&self.dir, Some(self.user), Some(self.user))?;
            command.uid(self.user).gid(self.user);
        }
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        self.config.cleanup.register_undo(&format!("kill -9 -{0}", child.id()));
        self.child = Some(child);
        Ok(())
    }

    /// Waits until the node is ready.
    pub(crate) fn wait_ready(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + READY_MAX;
        while !self.is_ready() {
            if let Some(status) = self.try_wait() {
                bail!("{} ended: {status}; the end of its log:\n{}", self.name, last_lines(&self.log()));
            }
            if Instant::now() > until {
                bail!(
                    "{} is not ready after {READY_MAX:?}; the end of its log:\n{}",
                    self.name,
                    last_lines(&self.log())
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(crate) fn is_ready(&self) -> bool {
        get(self.http(), "/-/ready", Duration::from_secs(1)).is_ok_and(|answer| answer.status == 200)
    }

    /// The exit status, if the node has ended.
    pub(crate) fn try_wait(&mut self) -> Option<std::process::ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// The id of its process, if it was started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills the node: nothing is flushed.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails if the node has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        kill_process(Pid::from_child(child), signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Stops the node and waits for its exit.
    ///
    /// # Errors
    /// It does not run, does not stop, or fails at its end.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let until = Instant::now() + STOP_MAX;
        while let Some(child) = &mut self.child {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                if !status.success() {
                    bail!("{} stopped with {status}; the end of its log:\n{}", self.name, last_lines(&self.log()));
                }
                break;
            }
            if Instant::now() > until {
                bail!("{} does not stop", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the node and removes its data.
    pub(crate) fn destroy(&mut self) -> anyhow::Result<()> {
        self.kill();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    }

    /// Kills the node and removes the records of its store. Its identity and its members remain.
    pub(crate) fn empty(&mut self) -> anyhow::Result<()> {
        self.kill();
        Ok(fs::remove_dir_all(self.dir.join("store"))?)
    }

    /// Mounts a small disk in memory for the node.
    pub(crate) fn mount(&self, bytes: u64) -> anyhow::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let dir = self.dir.display();
        run_command("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs", &dir.to_string()])?;
        self.config.cleanup.register_undo(&format!("umount -l '{dir}'"));
        Ok(())
    }

    pub(crate) fn unmount(&self) {
        // Fails if nothing is mounted.
        let _ = run_command("umount", &["-l", &self.dir.display().to_string()]);
    }

    /// The cluster state that the node reports.
    pub(crate) fn cluster(&self) -> std::io::Result<serde_json::Value> {
        http::get(self.http(), "/api/v1/cluster", Duration::from_secs(4))?.ok_json()
    }
}

impl Drop for FleetNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ingest nodes and then stores, as many of each, not started.
///
/// # Errors
/// Their directories cannot be made.
pub fn pairs(common: &FleetConfig, each: usize) -> anyhow::Result<Vec<FleetNode>> {
    let roles =
        [FleetRole::Ingest, FleetRole::Store].into_iter().flat_map(|role| (0..each).map(move |number| (role, number)));
    roles.enumerate().map(|(place, (role, number))| FleetNode::new(common, role, number + 1, place as u8)).collect()
}

/// Starts nodes and waits until all are ready.
///
/// # Errors
/// A node does not start, or ends.
pub fn start(nodes: &mut [FleetNode]) -> anyhow::Result<()> {
    nodes.iter_mut().try_for_each(FleetNode::spawn)?;
    nodes.iter_mut().try_for_each(FleetNode::wait_ready)
}

/// The URL of an address.
pub(crate) fn url(at: SocketAddr) -> String {
    debug_assert!(matches!(at.ip(), IpAddr::V4(_)));
    format!("http://{at}")
}
