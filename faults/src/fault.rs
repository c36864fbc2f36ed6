//! Faults: their kinds, how each is applied, and how it ends.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::firewall::{Firewall, PacketSender};
use crate::fleet::{FleetNode, FleetRole};
use crate::proxy::Proxy;
use bucksaw_fixtures::Random;

/// The size of a clock jump.
const CLOCK_JUMP: &str = "+40s";

/// The delay of packets.
const CLIENT_DELAY: Duration = Duration::from_millis(200);

/// The duration of a sync on a slow disk, in microseconds.
const SLOW_SYNC_US: u32 = 400_000;

/// The percentage of packets lost.
const LOSS_PERCENT: u32 = 20;

/// Paths of a library that shifts the clock of a program.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// `kill -9`; restarted at the end.
    Kill,
    /// `SIGSTOP`; continued at the end.
    Pause,
    /// All packets to and from other nodes and clients are dropped.
    Isolate,
    /// Packets between this and higher-numbered nodes and all others are dropped. Clients reach all nodes.
    Split,
    /// Packets to other nodes are dropped; packets from them arrive.
    OneWay,
    /// A part of all packets between nodes is dropped.
    Loss,
    /// Traffic between clients and all nodes is delayed.
    Delay,
    /// Connections of forwarders are reset repeatedly.
    Resets,
    /// The disk is full.
    FullDisk,
    /// Syncs are slow.
    SlowSync,
    /// Syncs fail.
    FailedSync,
    /// The clock jumps ahead, and back at the end.
    Clock,
    /// Every node is stopped and restarted, one at a time.
    Rolling,
    /// Killed, and restarted with an empty disk for its records. The node keeps its id.
    EmptyDisk,
    /// Killed, and all its data is lost; an empty node replaces it at once.
    Destroy,
}

impl FaultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Pause => "paused",
            Self::Isolate => "isolated",
            Self::Split => "split in halves",
            Self::OneWay => "one-way partition",
            Self::Loss => "packets lost",
            Self::Delay => "clients delayed",
            Self::Resets => "clients reset",
            Self::FullDisk => "disk full",
            Self::SlowSync => "slow sync",
            Self::FailedSync => "failing sync",
            Self::Clock => "clock ahead",
            Self::Rolling => "rolling restart",
            Self::EmptyDisk => "disk replaced by an empty one",
            Self::Destroy => "destroyed",
        }
    }

    /// Whether records have fewer replicas after it.
    pub(crate) fn loses_copies(self) -> bool {
        matches!(self, Self::EmptyDisk | Self::Destroy)
    }

    /// Whether it affects a single node.
    pub(crate) fn has_target(self) -> bool {
        !matches!(self, Self::Split | Self::Loss | Self::Delay | Self::Resets | Self::Rolling)
    }
}

/// What this machine and user allow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capabilities {
    pub(crate) root: bool,
    pub(crate) nft: bool,
    pub(crate) strace: bool,
    pub(crate) faketime: Option<PathBuf>,
}

impl Capabilities {
    pub(crate) fn detect() -> Self {
        let root = rustix::process::geteuid().is_root();
        let has = |program: &str| {
            let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        let faketime = FAKETIME.iter().map(PathBuf::from).find(|path| path.exists());
        Self { root, nft: root && has("nft"), strace: has("strace"), faketime }
    }

    /// The reason why a fault cannot be applied here.
    pub(crate) fn missing_for(&self, kind: FaultKind) -> Option<&'static str> {
        match kind {
            FaultKind::Isolate | FaultKind::Split | FaultKind::OneWay | FaultKind::Loss if !self.nft => {
                Some("needs root and nft")
            }
            FaultKind::FullDisk if !self.root => Some("needs root, to mount a small disk"),
            FaultKind::SlowSync | FaultKind::FailedSync if !self.strace => Some("needs strace"),
            FaultKind::Clock if self.faketime.is_none() => Some("needs libfaketime: apt-get install faketime"),
            _ => None,
        }
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The index of the affected node.
    pub(crate) target: usize,
}

/// Applies and ends faults on a cluster.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    pub(crate) nodes: Vec<FleetNode>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) firewall: Option<Firewall>,
    pub(crate) capabilities: Capabilities,
    /// The process that traces a node to make its syncs slow or fail.
    tracers: Vec<Child>,
}

impl FaultInjector {
    pub(crate) fn new(
        nodes: Vec<FleetNode>,
        proxies: Vec<Proxy>,
        firewall: Option<Firewall>,
        capabilities: Capabilities,
    ) -> Self {
        Self { nodes, proxies, firewall, capabilities, tracers: Vec::new() }
    }

    /// Applies a fault.
    pub(crate) fn begin(&mut self, fault: Fault) -> anyhow::Result<()> {
        let node = &mut self.nodes[fault.target];
        match fault.kind {
            FaultKind::Kill => node.kill(),
            FaultKind::Pause => node.signal(Signal::STOP)?,
            FaultKind::Isolate => {
                let (user, at) = (node.user, node.ip);
                self.drop_packets(|from, to| from == fault.target || to == fault.target, 100)?;
                let firewall = self.firewall.as_ref().context("the firewall is unavailable")?;
                firewall.drop_packets(PacketSender::Anybody, at, 100)?;
                firewall.isolate(user)?;
            }
            FaultKind::Split => {
                // One node of each role is on the smaller side.
                let is_there = |place: usize| place % 3 == fault.target % 3;
                self.drop_packets(|from, to| is_there(from) != is_there(to), 100)?;
            }
            FaultKind::OneWay => self.drop_packets(|from, _| from == fault.target, 100)?,
            FaultKind::Loss => self.drop_packets(|_, _| true, LOSS_PERCENT)?,
            FaultKind::Delay => self.proxies.iter().for_each(|proxy| proxy.delay(CLIENT_DELAY)),
            FaultKind::Resets => self.proxies.iter().for_each(Proxy::reset),
            FaultKind::FullDisk => fill_disk(&node.dir.join("ballast"))?,
            FaultKind::SlowSync | FaultKind::FailedSync => {
                let pid = node.pid().context("the node is not running")?;
                self.tracers.push(trace(pid, fault.kind)?);
            }
            FaultKind::Clock => {
                let (library, file) =
                    (self.capabilities.faketime.clone().context("the clock library is missing")?, clock_file(node));
                fs::write(&file, "+0")?;
                node.environment = vec![
                    ("LD_PRELOAD".into(), library.display().to_string()),
                    ("FAKETIME_TIMESTAMP_FILE".into(), file.display().to_string()),
                    ("FAKETIME_CACHE_DURATION".into(), "1".into()),
                    ("FAKETIME_DONT_FAKE_MONOTONIC".into(), "1".into()),
                ];
                node.stop()?;
                node.spawn()?;
                node.wait_ready()?;
                fs::write(&file, CLOCK_JUMP)?;
            }
            FaultKind::Rolling => {
                for node in &mut self.nodes {
                    node.stop()?;
                    node.spawn()?;
                    node.wait_ready()?;
                }
            }
            FaultKind::EmptyDisk => {
                node.empty()?;
                node.spawn()?;
                node.wait_ready()?;
            }
            FaultKind::Destroy => {
                node.destroy()?;
                node.spawn()?;
                node.wait_ready()?;
            }
        }
        Ok(())
    }

    /// Called several times per second during a fault.
    pub(crate) fn repeat(&mut self, fault: Fault, random: &mut Random) {
        if fault.kind == FaultKind::Resets && random.below(3) == 0 {
            self.proxies.iter().for_each(Proxy::reset);
        }
    }

    /// Ends a fault.
    pub(crate) fn end(&mut self, fault: Fault) -> anyhow::Result<()> {
        let node = &mut self.nodes[fault.target];
        match fault.kind {
            FaultKind::Kill => {
                node.spawn()?;
                node.wait_ready()?;
            }
            FaultKind::Pause => node.signal(Signal::CONT)?,
            FaultKind::Isolate | FaultKind::Split | FaultKind::OneWay | FaultKind::Loss => {
                self.firewall.as_ref().context("the firewall is unavailable")?.clear()?;
            }
            FaultKind::Delay => self.proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO)),
            FaultKind::FullDisk => fs::remove_file(node.dir.join("ballast"))?,
            FaultKind::SlowSync | FaultKind::FailedSync => self.tracers.drain(..).for_each(detach),
            FaultKind::Clock => {
                fs::write(clock_file(node), "+0")?;
                node.environment.clear();
            }
            FaultKind::Resets | FaultKind::Rolling | FaultKind::EmptyDisk | FaultKind::Destroy => {}
        }
        Ok(())
    }

    /// Drops packets between nodes, given by index.
    fn drop_packets(&self, is_lost: impl Fn(usize, usize) -> bool, percent: u32) -> anyhow::Result<()> {
        let firewall = self.firewall.as_ref().context("the firewall is unavailable")?;
        for (from, sender) in self.nodes.iter().enumerate() {
            for (to, receiver) in self.nodes.iter().enumerate().filter(|(to, _)| *to != from) {
                if is_lost(from, to) {
                    firewall.drop_packets(PacketSender::User(sender.user), receiver.ip, percent)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn with_role(&self, role: FleetRole) -> impl Iterator<Item = &FleetNode> {
        self.nodes.iter().filter(move |node| node.role == role)
    }
}

impl Drop for FaultInjector {
    fn drop(&mut self) {
        self.tracers.drain(..).for_each(detach);
        self.nodes.iter_mut().for_each(FleetNode::kill);
        if self.capabilities.root {
            self.nodes.iter().for_each(FleetNode::unmount);
        }
    }
}

fn clock_file(node: &FleetNode) -> PathBuf {
    node.dir.with_extension("clock")
}

/// Fills the disk.
fn fill_disk(path: &Path) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 64 << 10];
    while file.write_all(&zeros).is_ok() {}
    Ok(())
}

/// Makes the syncs of a process slow or fail.
fn trace(pid: u32, kind: FaultKind) -> anyhow::Result<Child> {
    let how = match kind {
        FaultKind::SlowSync => format!("delay_enter={SLOW_SYNC_US}"),
        _ => "error=EIO".to_owned(),
    };
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-p", &pid.to_string()]);
    command.args(["-e", "trace=fsync,fdatasync", "-e", &format!("inject=fsync,fdatasync:{how}")]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.context("cannot start strace")?;
    // Attaching to all threads takes a moment.
    thread::sleep(Duration::from_millis(300));
    Ok(child)
}

/// Detaches from the process. If the tracer were killed, the process would stay stopped.
fn detach(mut tracer: Child) {
    // A tracer that ended has detached.
    let _ = kill_process(Pid::from_child(&tracer), Signal::TERM);
    let _ = tracer.wait();
}
