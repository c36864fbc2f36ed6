//! Arguments of `tail`.

use clap::Args;

use super::{DisplayArgs, NodeArgs, OutputFormat, PatternArgs};
use crate::values::{checked_time, count, line_count};

/// Show matching records as they are accepted
///
/// Takes the filter expressions of `bucksaw query`. Runs until interrupted, or until -m records were shown. If the
/// connection breaks, it reconnects and first shows the records accepted meanwhile.
#[derive(Clone, Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) pattern: PatternArgs,

    /// First show the last N matching records, of the last hour unless --since is given
    #[arg(short = 'n', long, value_name = "N", value_parser = line_count)]
    pub(crate) lines: Option<u64>,

    /// First show the matching records since this long ago or this time, such as 15m, 10:30 or today
    #[arg(long, value_name = "AGE", value_parser = checked_time)]
    pub(crate) since: Option<String>,

    /// Stop after N records
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(crate) max_count: Option<u64>,

    /// Output format: raw (the bytes as received), text (time, labels, line), json, or a template; see query
    #[arg(short, long, value_name = "FORMAT", default_value = "raw")]
    pub(crate) output: OutputFormat,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
