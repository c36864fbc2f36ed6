//! What goes wrong, how it is brought about and how it ends.

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
use crate::random::Random;

/// How far a clock jumps.
const CLOCK_JUMP: &str = "+40s";

/// How much later packets arrive when there is delay.
const CLIENT_DELAY: Duration = Duration::from_millis(200);

/// How long a sync takes on a slow disk, in microseconds.
const SLOW_SYNC_US: u32 = 400_000;

/// Of a hundred packets so many are lost when some are.
const LOSS_PERCENT: u32 = 20;

/// Where a library that shifts a program's clock may lie.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// `kill -9`; it is started again at the end.
    Kill,
    /// `SIGSTOP`; it goes on at the end.
    Pause,
    /// Nobody reaches it, and it reaches nobody.
    CutOff,
    /// It and the nodes with higher places do not reach the others, nor they them. Clients reach all.
    Split,
    /// What it sends to other nodes is lost; what they send to it arrives.
    OneWay,
    /// Of all that nodes send to each other a part is lost.
    Loss,
    /// What clients send to, and hear from, all nodes comes later.
    Delay,
    /// The connections of forwarders are reset, again and again.
    Resets,
    /// There is no room on its disk.
    FullDisk,
    /// Its disk takes long to sync.
    SlowSync,
    /// Its disk fails to sync.
    FailedSync,
    /// Its clock jumps ahead, and at the end back.
    Clock,
    /// Every node is stopped and started again, one after the other.
    Rolling,
    /// Killed, and started again with an empty disk in place of that where it kept its records; it is the same node.
    EmptyDisk,
    /// Killed, and all that it kept is gone; an empty one takes its place at once.
    Destroy,
}

impl FaultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Pause => "paused",
            Self::CutOff => "cut off",
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

    /// Whether records are on fewer nodes after it than before.
    pub(crate) fn loses_copies(self) -> bool {
        matches!(self, Self::EmptyDisk | Self::Destroy)
    }

    /// Whether it befalls one node.
    pub(crate) fn has_target(self) -> bool {
        !matches!(self, Self::Split | Self::Loss | Self::Delay | Self::Resets | Self::Rolling)
    }
}

/// What this machine and this user can do.
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
            let told = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            told.is_ok_and(|status| status.success())
        };
        let faketime = FAKETIME.iter().map(PathBuf::from).find(|path| path.exists());
        Self { root, nft: root && has("nft"), strace: has("strace"), faketime }
    }

    /// Why something cannot be tried here.
    pub(crate) fn missing_for(&self, kind: FaultKind) -> Option<&'static str> {
        match kind {
            FaultKind::CutOff | FaultKind::Split | FaultKind::OneWay | FaultKind::Loss if !self.nft => {
                Some("needs root and nft")
            }
            FaultKind::FullDisk if !self.root => Some("needs root, to mount a small disk"),
            FaultKind::SlowSync | FaultKind::FailedSync if !self.strace => Some("needs strace"),
            FaultKind::Clock if self.faketime.is_none() => Some("needs libfaketime: apt-get install faketime"),
            _ => None,
        }
    }
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The place of the node that it befalls.
    pub(crate) target: usize,
}

/// Where things go wrong.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    pub(crate) nodes: Vec<FleetNode>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) firewall: Option<Firewall>,
    pub(crate) capabilities: Capabilities,
    /// What holds a process and makes its syncs slow or fail.
    tracers: Vec<Child>,
}

impl FaultInjector {
    pub(crate) fn new(nodes: Vec<FleetNode>, proxies: Vec<Proxy>, wall: Option<Firewall>, means: Capabilities) -> Self {
        Self { nodes, proxies, firewall: wall, capabilities: means, tracers: Vec::new() }
    }

    /// Lets it happen.
    pub(crate) fn begin(&mut self, blow: Fault) -> anyhow::Result<()> {
        let node = &mut self.nodes[blow.target];
        match blow.kind {
            FaultKind::Kill => node.kill(),
            FaultKind::Pause => node.signal(Signal::STOP)?,
            FaultKind::CutOff => {
                let (user, at) = (node.user, node.ip);
                self.drop_packets(|from, to| from == blow.target || to == blow.target, 100)?;
                let firewall = self.firewall.as_ref().context("no rules here")?;
                firewall.drop_packets(PacketSender::Anybody, at, 100)?;
                firewall.isolate(user)?;
            }
            FaultKind::Split => {
                // A node of each role on the smaller side.
                let is_there = |place: usize| place % 3 == blow.target % 3;
                self.drop_packets(|from, to| is_there(from) != is_there(to), 100)?;
            }
            FaultKind::OneWay => self.drop_packets(|from, _| from == blow.target, 100)?,
            FaultKind::Loss => self.drop_packets(|_, _| true, LOSS_PERCENT)?,
            FaultKind::Delay => self.proxies.iter().for_each(|proxy| proxy.delay(CLIENT_DELAY)),
            FaultKind::Resets => self.proxies.iter().for_each(Proxy::reset),
            FaultKind::FullDisk => fill_disk(&node.dir.join("ballast"))?,
            FaultKind::SlowSync | FaultKind::FailedSync => {
                let pid = node.pid().context("it does not run")?;
                self.tracers.push(trace(pid, blow.kind)?);
            }
            FaultKind::Clock => {
                let (library, file) = (self.capabilities.faketime.clone().context("no library")?, clock_file(node));
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

    /// While it lasts; called some times a second.
    pub(crate) fn repeat(&mut self, blow: Fault, random: &mut Random) {
        if blow.kind == FaultKind::Resets && random.below(3) == 0 {
            self.proxies.iter().for_each(Proxy::reset);
        }
    }

    /// Ends it.
    pub(crate) fn end(&mut self, blow: Fault) -> anyhow::Result<()> {
        let node = &mut self.nodes[blow.target];
        match blow.kind {
            FaultKind::Kill => {
                node.spawn()?;
                node.wait_ready()?;
            }
            FaultKind::Pause => node.signal(Signal::CONT)?,
            FaultKind::CutOff | FaultKind::Split | FaultKind::OneWay | FaultKind::Loss => {
                self.firewall.as_ref().context("no rules here")?.clear()?;
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

    /// Loses packets between nodes, given by their places.
    fn drop_packets(&self, is_lost: impl Fn(usize, usize) -> bool, percent: u32) -> anyhow::Result<()> {
        let firewall = self.firewall.as_ref().context("no rules here")?;
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

/// Writes until there is no room.
fn fill_disk(path: &Path) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 64 << 10];
    while file.write_all(&zeros).is_ok() {}
    Ok(())
}

/// Makes the syncs of a process slow, or fail.
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
    // It takes a moment to hold all of its threads.
    thread::sleep(Duration::from_millis(300));
    Ok(child)
}

/// Lets the process go on as before: killed, it would leave it stopped.
fn detach(mut tracer: Child) {
    // One that has ended by itself holds nothing.
    let _ = kill_process(Pid::from_child(&tracer), Signal::TERM);
    let _ = tracer.wait();
}
