//! What the forwarder can be told.

use std::path::PathBuf;

use bucksaw_record::Labels;
use clap::{Args, ValueEnum};

use crate::values::HostPort;

/// Ship lines to a node
///
/// With no path, ships standard input and ends with it. With paths, follows the files as they grow and are rotated, and
/// remembers how far it came.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Files to follow, or patterns of their names in quotes, such as '/var/log/*.log'
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Nodes to ship to; tried in an order of chance
    ///
    /// A node with much to do names others, which are tried first then: these addresses need not be all there are.
    /// Left out, it is the node of this machine: 127.0.0.1:7651, or with --durability durable 127.0.0.1:7652.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) to: Vec<HostPort>,

    /// Label of the shipped lines, such as app=web; repeatable, or several with commas
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    pub(crate) labels: Vec<Labels>,

    /// When a line counts as shipped
    #[arg(long, value_name = "WHEN", value_enum, default_value = "fast")]
    pub(crate) durability: ForwardDurability,

    /// Directory where the positions in the followed files are kept; made when missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-forward")]
    pub(crate) state_dir: PathBuf,
}

/// When a line counts as shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForwardDurability {
    /// When the node has written it
    Fast,
    /// When the node has synced it to disk
    Durable,
}
