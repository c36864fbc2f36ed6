//! The agents, by what they deliver to.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::ValueEnum;

use super::agent_process::AgentProcess;
use super::agent_start::AgentStart;
use super::{bucksaw, collector, fluent_bit, promtail, rsyslog};
use crate::context::BenchContext;

/// An agent, and what it delivers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::edge) enum EdgeAgent {
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
pub(in crate::edge) enum PushProtocol {
    Fluent,
    Syslog,
}

impl EdgeAgent {
    pub(in crate::edge) fn name(self) -> String {
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
    pub(in crate::edge) fn program(self, named: &[ProgramPath], context: &BenchContext) -> Option<PathBuf> {
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
    pub(in crate::edge) fn delivers_to_node(self) -> bool {
        !matches!(self, Self::FluentBitNull | Self::FluentBitRawNull | Self::RsyslogRawNull)
    }

    /// The protocol in which writers push to it; `None` if it is measured with files only.
    pub(in crate::edge) fn push_protocol(self) -> Option<PushProtocol> {
        match self {
            Self::Bucksaw | Self::FluentBit | Self::FluentBitNull => Some(PushProtocol::Fluent),
            Self::RsyslogRaw | Self::RsyslogRawNull => Some(PushProtocol::Syslog),
            Self::FluentBitRawNull | Self::Promtail | Self::Collector => None,
        }
    }

    fn command(self, start: &AgentStart<'_>) -> anyhow::Result<Command> {
        match self {
            Self::Bucksaw => bucksaw::command(start),
            Self::FluentBit | Self::FluentBitNull | Self::FluentBitRawNull => {
                fluent_bit::command(start, self != Self::FluentBitRawNull, self.delivers_to_node())
            }
            Self::RsyslogRaw | Self::RsyslogRawNull => rsyslog::command(start, self.delivers_to_node()),
            Self::Promtail => promtail::command(start),
            Self::Collector => collector::command(start),
        }
    }

    /// Starts the agent.
    pub(in crate::edge) fn start(self, start: &AgentStart<'_>) -> anyhow::Result<AgentProcess> {
        let log = start.home.join("agent.stderr");
        let mut command = self.command(start)?;
        command.stdin(Stdio::null()).stdout(File::create(start.home.join("agent.stdout"))?).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", start.program.display()))?;
        Ok(AgentProcess::new(child, log))
    }
}

/// A program of an agent: `NAME=FILE`.
#[derive(Clone, Debug)]
pub(in crate::edge) struct ProgramPath {
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
