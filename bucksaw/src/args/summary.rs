//! Arguments of the commands that summarise matching records: `fields`, `labels` and `histogram`.

use clap::Args;

use super::{DisplayArgs, DocumentFormat, NodeArgs, PatternArgs, WindowArgs};

/// Which records to summarise, and how the summary is printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    pub(crate) pattern: PatternArgs,

    #[command(flatten)]
    pub(crate) window: WindowArgs,

    /// Exit with 0 or 1 even if records may be missing from the answer
    #[arg(long)]
    pub(crate) allow_partial: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: DocumentFormat,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}
