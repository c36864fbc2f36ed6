//! The agents that are measured, and how each is started.
//!
//! All read lines in the form of Docker's `json-file` and decode them, unless they are named `-raw`. What they deliver to is
//! part of their name: a node of Bucksaw, or nothing (`null`).

mod bucksaw;
mod collector;
mod fluent_bit;
mod promtail;
mod rsyslog;

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use clap::ValueEnum;

use super::load::LineDelivery;
use crate::context::BenchContext;
use crate::node::BenchNode;
use crate::process;

/// An agent, and what it delivers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EdgeAgent {
    /// `bucksaw forward`, to a node.
    Bucksaw,
    /// Fluent Bit, to nothing.
    FluentBitNull,
    /// Fluent Bit, to nothing, without decoding lines of files.
    FluentBitRawNull,
    /// Fluent Bit, to a node by the forward protocol with acknowledgements.
    FluentBit,
    /// rsyslog, to nothing, without decoding lines of files.
    RsyslogRawNull,
    /// rsyslog, to a node by syslog over TCP, without decoding lines of files.
    RsyslogRaw,
    /// promtail, to a node by Loki's push.
    Promtail,
    /// The OpenTelemetry Collector, to a node by OTLP over gRPC.
    Collector,
}

/// The protocol of writers that push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushProtocol {
    Fluent,
    Syslog,
}

/// What the command of an agent needs.
pub(super) struct AgentStart<'a> {
    pub(super) program: &'a Path,
    /// A directory of its own. Files are below it as `*.log`.
    pub(super) home: &'a Path,
    pub(super) node: &'a BenchNode,
    pub(super) delivery: LineDelivery,
    /// The port for writers that push.
    pub(super) port: u16,
}

impl AgentStart<'_> {
    /// The pattern of all log files.
    fn pattern(&self) -> String {
        self.home.join("*.log").display().to_string()
    }

    /// Writes a file into the directory of the agent, and returns its path.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.home.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// The port of an address.
fn port_of(address: &str) -> &str {
    address.rsplit_once(':').map_or("", |(_, port)| port)
}

impl EdgeAgent {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The name of the program, as for `--program`.
    fn program_name(self) -> &'static str {
        match self {
            Self::Bucksaw => "bucksaw",
            Self::FluentBit | Self::FluentBitNull | Self::FluentBitRawNull => "fluent-bit",
            Self::RsyslogRaw | Self::RsyslogRawNull => "rsyslogd",
            Self::Promtail => "promtail",
            Self::Collector => "collector",
        }
    }

    /// The program: as named, or beside the other senders that were built, or of the system.
    pub(super) fn program(self, named: &[ProgramPath], context: &BenchContext) -> Option<PathBuf> {
        if self == Self::Bucksaw {
            return Some(context.bucksaw.clone());
        }
        let name = self.program_name();
        let named = named.iter().find(|program| program.name == name).map(|program| program.path.clone());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = [PathBuf::from("target/clients/go")].into_iter().chain(std::env::split_paths(&path));
        let places = places.chain([PathBuf::from("/usr/sbin")]).map(|dir| dir.join(name));
        named.or_else(|| places.into_iter().find(|path| path.is_file()))
    }

    /// Whether all lines arrive at a node, so that they can be counted.
    pub(super) fn delivers_to_node(self) -> bool {
        !matches!(self, Self::FluentBitNull | Self::FluentBitRawNull | Self::RsyslogRawNull)
    }

    /// The protocol in which writers push to it; `None` if it is measured with files only.
    pub(super) fn push_protocol(self) -> Option<PushProtocol> {
        match self {
            Self::Bucksaw | Self::FluentBit | Self::FluentBitNull => Some(PushProtocol::Fluent),
            Self::RsyslogRaw | Self::RsyslogRawNull => Some(PushProtocol::Syslog),
            Self::FluentBitRawNull | Self::Promtail | Self::Collector => None,
        }
    }

    fn command(self, start: &AgentStart<'_>) -> anyhow::Result<Command> {
        match self {
            Self::Bucksaw => bucksaw::command(start),
            Self::FluentBit | Self::FluentBitNull | Self::FluentBitRawNull => fluent_bit::command(self, start),
            Self::RsyslogRaw | Self::RsyslogRawNull => rsyslog::command(self, start),
            Self::Promtail => promtail::command(start),
            Self::Collector => collector::command(start),
        }
    }

    /// Starts the agent.
    pub(super) fn start(self, start: &AgentStart<'_>) -> anyhow::Result<AgentProcess> {
        let log = start.home.join("agent.stderr");
        let mut command = self.command(start)?;
        command.stdin(Stdio::null()).stdout(File::create(start.home.join("agent.stdout"))?).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", start.program.display()))?;
        Ok(AgentProcess { child, log })
    }
}

/// A program of an agent: `NAME=FILE`.
#[derive(Clone, Debug)]
pub(super) struct ProgramPath {
    name: String,
    path: PathBuf,
}

impl std::str::FromStr for ProgramPath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text.split_once('=').ok_or("expected NAME=FILE, such as fluent-bit=/opt/fluent-bit")?;
        Ok(Self { name: name.to_owned(), path: path.into() })
    }
}

/// A running agent, killed on drop.
pub(super) struct AgentProcess {
    child: Child,
    log: PathBuf,
}

impl AgentProcess {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn cpu_nanos(&self) -> anyhow::Result<u64> {
        process::cpu_nanos(self.pid()).with_context(|| format!("the agent has ended: {}", self.log()))
    }

    pub(super) fn peak_mb(&self) -> anyhow::Result<f64> {
        process::peak_mb(self.pid())
    }

    /// Its standard error.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of the loopback that was free a moment ago.
pub(super) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
