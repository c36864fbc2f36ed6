//! Flags of `bucksaw forward`.

use std::ffi::OsString;
use std::path::PathBuf;

use bucksaw_forward::{Config, JournalConfig};
use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use clap::{Args, ValueEnum};

use super::journal_args::JournalArgs;
use super::kubernetes_args::KubernetesArgs;
use super::line_args::LineArgs;
use super::listen_args::ListenArgs;
use super::status_listener::agent_info;
use crate::args::{ClientTlsArgs, ListenerTlsArgs, PresentedTokenArgs};
use crate::failure::UsageError;
use crate::layers::Layer;
use crate::values::{ByteSize, DisplayZone, HostPort, ListenAddress, TimeFrom, all_labels, durability};

/// Ship lines to a node
///
/// Without a path, ships standard input until it ends. With paths, follows files as they grow and rotate until it is
/// stopped, and remembers its position in each. With `-- CMD`, runs a command and ships what it prints. See
/// docs/forward.md.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Files to follow, or quoted patterns such as '/var/log/*.log' or '/var/log/**/*.log'
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<String>,

    /// Command to run, with its arguments: its standard output and standard error are shipped
    ///
    /// Ends with the exit code of the command, when every line of it is acknowledged.
    #[arg(last = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,

    /// Files that are not followed, although they match: a pattern of the path, or of the name if it has no slash; repeatable
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(super) exclude: Vec<String>,

    /// Where files and the journal begin that are there at the very first start: at the start, or at the end
    ///
    /// Files that appear later are read from the start.
    #[arg(long, value_name = "WHERE", value_enum, default_value = "start")]
    pub(super) read_from: FileStart,

    /// Nodes to ship to, tried in random order
    ///
    /// A loaded node names less loaded ones, which are tried first, so the list need not be complete. Defaults to the
    /// node on this machine: 127.0.0.1:7651, or 127.0.0.1:7652 with --durability durable.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(super) to: Vec<HostPort>,

    #[command(flatten)]
    pub(super) token: PresentedTokenArgs,

    /// Encrypt the connections to nodes by TLS; --ca and --cert imply it
    #[arg(long = "tls")]
    is_encrypted: bool,

    #[command(flatten)]
    tls: ClientTlsArgs,

    /// Label of the shipped lines, such as app=web; repeatable, or several with commas
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    pub(super) labels: Vec<Labels>,

    /// When a line counts as shipped
    ///
    /// `fast`: when the node has written it, `durable`: when the node has synced it to disk.
    #[arg(long, value_name = "WHEN", default_value = "fast")]
    #[arg(value_parser = durability(&["fast", "durable"]))]
    pub(super) durability: Durability,

    /// Time of the lines: that of their arrival here, or the one near the start of the line
    ///
    /// A line without a time has that of the line before it, or of its arrival if there is none. See docs/times.md for the
    /// forms.
    #[arg(long, value_name = "FROM", value_enum, default_value = "arrival")]
    pub(super) time_from: TimeFrom,

    /// Zone of times in lines that name none: an IANA name, UTC, an offset, or local
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(super) time_zone: DisplayZone,

    #[command(flatten)]
    pub(super) lines: LineArgs,

    /// Directory for the positions in files and the journal and for records that no node has acknowledged; created if missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-forward")]
    pub(super) state_dir: PathBuf,

    /// The most disk space for records that no node has acknowledged; at least 4M
    ///
    /// Files and the journal share it. Listeners have as much again.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(super) buffer_bytes: ByteSize,

    /// Address for the metrics of this agent, /metrics, and its state, /status; empty for none
    ///
    /// For Prometheus, and for a person who asks what the agent does. It tells the paths of files, so it belongs on
    /// loopback or a private network.
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen: ListenAddress,

    /// Start although other machines can reach a listener that does not authenticate clients
    ///
    /// No listener of an agent authenticates. So without this flag an agent with one beyond loopback does not start.
    #[arg(long)]
    pub(super) insecure_listen: bool,

    /// What happens when that space is used up: `block` stops reading, `drop-oldest` drops and counts the oldest records
    #[arg(long, value_name = "POLICY", value_enum, default_value = "block")]
    pub(super) when_full: FullPolicy,

    #[command(flatten)]
    pub(super) listeners: ListenArgs,

    #[command(flatten)]
    pub(super) listener_tls: ListenerTlsArgs,

    #[command(flatten)]
    pub(super) journal: JournalArgs,

    #[command(flatten)]
    pub(super) kubernetes: KubernetesArgs,
}

/// Where a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileStart {
    Start,
    End,
}

/// What a full buffer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FullPolicy {
    Block,
    DropOldest,
}

/// Flags that have no effect on a command, and what they are for. Not those of other inputs, which are refused beside one.
const NOT_FOR_COMMANDS: [(&str, &str, &str); 7] = [
    ("exclude", "--exclude", "files"),
    ("format", "--format", "files"),
    ("multiline", "--multiline", "files"),
    ("read_from", "--read-from", "files and the journal"),
    ("state_dir", "--state-dir", "files, listeners and the journal"),
    ("buffer_bytes", "--buffer-bytes", "files, listeners and the journal"),
    ("when_full", "--when-full", "files, listeners and the journal"),
];

impl ForwardArgs {
    /// Refuses typed flags that have no effect. Those of a file or of the environment may be meant for other agents.
    pub(crate) fn apply_layers(&self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        let typed = NOT_FOR_COMMANDS.iter().find(|(id, ..)| layer(id) == Layer::Flag);
        match typed.filter(|_| !self.command.is_empty()) {
            Some((_, flag, of)) => {
                Err(UsageError(format!("{flag} is for {of} and has no effect on a command: leave it out")))
            }
            None => Ok(()),
        }
    }

    /// The journal, if it is an input.
    pub(super) fn journal(&self) -> Option<JournalConfig> {
        self.journal.config(self.read_from == FileStart::End)
    }

    /// The settings of the agent.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        let port = if self.durability == Durability::Durable { 7652 } else { 7651 };
        let mut to: Vec<String> = self.to.iter().map(ToString::to_string).collect();
        if to.is_empty() {
            to.push(format!("127.0.0.1:{port}"));
        }
        let labels = all_labels(&self.labels)?;
        // Shuffled, so that agents with the same list spread over its nodes.
        let line_zone = self.time_from.line_zone(&self.time_zone);
        let (lines, info, token) = (self.lines.config()?, agent_info(), self.token.token()?);
        let is_encrypted = self.is_encrypted || self.tls.is_any();
        let tls = is_encrypted.then(|| self.tls.load(&[])).transpose()?;
        Ok(Config { tls, token, addresses: to, labels, shuffle: true, line_zone, lines, info, ..Config::default() })
    }
}
