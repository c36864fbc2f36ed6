//! Arguments of `query`. Short flags have the meaning that they have in grep.

use clap::Args;

use super::{DisplayArgs, NodeArgs, OutputFormat, PatternArgs, WindowArgs};
use crate::values::{context_count, count};

/// Search the records of a time range
///
/// EXPR is a filter expression: words and "quoted text" that a record contains, /regexes/, fields as in level=error,
/// status>=500 or path=~/^.api/, joined by AND, OR, NOT and parentheses. An empty expression matches every record.
/// Exits with 0 if a record matched, 1 if none did, 2 on trouble. An answer from which records may be missing is
/// trouble, unless --allow-partial is given.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) pattern: PatternArgs,

    #[command(flatten)]
    pub(crate) window: WindowArgs,

    /// Print only the number of matching records
    #[arg(short, long)]
    pub(crate) count: bool,

    /// Print only the labels of streams with matching records, one stream per line
    #[arg(short = 'l', long, alias = "files-with-matches")]
    pub(crate) streams_with_matches: bool,

    /// Print nothing, and stop at the first match
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Stop after N records
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(crate) max_count: Option<u64>,

    /// Print N records of the same stream after each match
    #[arg(short = 'A', long, value_name = "N", value_parser = context_count)]
    pub(crate) after_context: Option<u64>,

    /// Print N records of the same stream before each match
    #[arg(short = 'B', long, value_name = "N", value_parser = context_count)]
    pub(crate) before_context: Option<u64>,

    /// Print N records of the same stream before and after each match
    #[arg(short = 'C', long, alias = "context", value_name = "N", value_parser = context_count)]
    pub(crate) context_records: Option<u64>,

    /// Print the number of each match in the answer before it, as in 7:
    ///
    /// Records of its context have the same number, as in 7-.
    #[arg(short = 'n', long)]
    pub(crate) line_number: bool,

    /// Start with the newest record
    #[arg(long)]
    pub(crate) newest_first: bool,

    /// Exit with 0 or 1 even if records may be missing from the answer
    #[arg(long)]
    pub(crate) allow_partial: bool,

    /// Print statistics of the search to standard error
    #[arg(long)]
    pub(crate) stats: bool,

    /// Output format: raw (the bytes as received), text (time, labels, line), json, or a template
    ///
    /// A template such as '{time} {label:app} {field:status} {line}' has the placeholders {time}, {id}, {labels},
    /// {label:NAME}, {field:NAME} and {line}; a missing value is -. Write {{ and }} for braces, \t for a tab, \n for a
    /// line end, \\ for a backslash.
    #[arg(short, long, value_name = "FORMAT", default_value = "raw")]
    pub(crate) output: OutputFormat,

    #[command(flatten)]
    pub(crate) display: DisplayArgs,

    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

impl QueryArgs {
    /// How many records are shown before and after each match; `None` without the flags of a context. As in grep, a
    /// context of 0 separates the matches.
    pub(crate) fn context_sizes(&self) -> Option<(u64, u64)> {
        let is_given = [self.before_context, self.after_context, self.context_records].iter().any(Option::is_some);
        let side = |own: Option<u64>| own.or(self.context_records).unwrap_or(0);
        is_given.then(|| (side(self.before_context), side(self.after_context)))
    }
}
