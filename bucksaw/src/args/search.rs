//! Arguments of `query` and `tail`. Short flags mean what they mean to grep.

use std::ffi::OsString;

use bucksaw_record::{Millis, time};
use clap::{Args, ValueEnum};

use crate::failure::UsageError;
use crate::layers::Layer;
use crate::values::NodeUrl;

/// Search the records of a time range
///
/// EXPR is a filter expression: words and "quoted text" that a record contains, /regexes/, fields as in level=error,
/// status>=500 or path=~/^.api/, joined by AND, OR, NOT and parentheses. An empty expression matches every record.
/// Exits with 0 if a record matched, 1 if none did, 2 on trouble.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    #[command(flatten)]
    pub(crate) window: WindowArgs,

    /// Print only the number of matching records
    #[arg(short, long)]
    pub(crate) count: bool,

    /// Start with the newest record
    #[arg(long)]
    pub(crate) newest_first: bool,

    /// Print statistics of the search to standard error
    #[arg(long)]
    pub(crate) stats: bool,
}

/// Show matching records as they are accepted
///
/// Takes the filter expressions of `bucksaw query`. Runs until interrupted, or until -m records were shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Which records, from which node, in which format.
#[derive(Clone, Debug, Args)]
pub(crate) struct FilterArgs {
    /// Filter expression; every record matches without one
    #[arg(value_name = "EXPR")]
    pub(crate) expr: Option<OsString>,

    /// Node to query
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    pub(crate) addr: NodeUrl,

    /// Search for EXPR as it is, without special characters
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,

    /// Search for EXPR as one regex
    #[arg(short = 'E', long)]
    pub(crate) extended_regexp: bool,

    /// Ignore case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,

    /// Show the records that do not match
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,

    /// Stop after N records
    #[arg(short, long, value_name = "N")]
    pub(crate) max_count: Option<u64>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "raw")]
    pub(crate) output: OutputFormat,
}

impl FilterArgs {
    /// Resolves `-F` and `-E` by the layer they come from; both from one layer are an error.
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        if self.fixed_strings && self.extended_regexp {
            let (fixed, regex) = (layer("fixed_strings"), layer("extended_regexp"));
            if fixed == regex {
                return Err(UsageError("both -F and -E are given: omit one of them".to_owned()));
            }
            self.fixed_strings = fixed > regex;
            self.extended_regexp = regex > fixed;
        }
        Ok(())
    }
}

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The bytes as received
    Raw,
    /// Time, labels and line
    Text,
    /// One JSON object per line
    Json,
}

/// The time range of a search. The texts go to the node as typed, so `15m` is relative to the clock of the node.
#[derive(Clone, Debug, Args)]
pub(crate) struct WindowArgs {
    /// Search from this long ago, such as 15m, 2h30m or 7d
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = checked_age)]
    pub(crate) since: String,

    /// Search from this time on, instead of --since: RFC 3339, Unix seconds, or 15m for that long ago
    #[arg(long, value_name = "TIME", value_parser = checked_moment)]
    pub(crate) from: Option<String>,

    /// Search up to this time, exclusive; defaults to now
    #[arg(long, value_name = "TIME", value_parser = checked_moment)]
    pub(crate) to: Option<String>,
}

impl WindowArgs {
    /// Resolves `--since` and `--from` by the layer they come from; both from one layer are an error.
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        let (since, from) = (layer("since"), layer("from"));
        if self.from.is_some() && since > from {
            self.from = None;
        } else if self.from.is_some() && since == from {
            return Err(UsageError("both --since and --from are given: omit one of them".to_owned()));
        }
        Ok(())
    }

    /// The begin of the range, as typed.
    pub(crate) fn begin(&self) -> &str {
        self.from.as_deref().unwrap_or(&self.since)
    }

    /// Refuses a range that ends before it begins.
    pub(crate) fn check(&self, now: Millis) -> anyhow::Result<()> {
        let begin = time::parse_timestamp(self.begin(), now, &time::TimeZone::UTC)?;
        let end = self.to.as_deref().map_or(Ok(now), |to| time::parse_timestamp(to, now, &time::TimeZone::UTC))?;
        if begin > end && self.to.is_some() {
            let (begin, end) = (time::format_rfc3339(begin, 0), time::format_rfc3339(end, 0));
            let message = format!("the range ends ({end}) before it begins ({begin}): change --from, --since or --to");
            return Err(UsageError(message).into());
        }
        Ok(())
    }
}

fn checked_age(text: &str) -> Result<String, time::InvalidTime> {
    time::parse_duration(text).map(|_| text.to_owned())
}

fn checked_moment(text: &str) -> Result<String, time::InvalidTime> {
    // Whether a text is a time does not depend on the current time, unless `yesterday` is before 1970.
    let now = Millis(1_800_000_000_000);
    time::parse_timestamp(text, now, &time::TimeZone::UTC).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_layer_wins() {
        let check = |since_layer: Layer, from_layer: Layer, from: Option<&str>, want: &str| {
            let mut window = WindowArgs { since: "1h".to_owned(), from: from.map(str::to_owned), to: None };
            let settled = window.apply_layers(|id| if id == "since" { since_layer } else { from_layer });
            let got = settled.map_or_else(|error| error.to_string(), |()| window.begin().to_owned());
            assert!(got.starts_with(want), "{since_layer:?} {from_layer:?}: {got}");
        };
        check(Layer::Default, Layer::Default, None, "1h");
        check(Layer::Flag, Layer::Default, None, "1h");
        check(Layer::Default, Layer::File, Some("2h"), "2h");
        check(Layer::File, Layer::Environment, Some("2h"), "2h");
        check(Layer::Environment, Layer::File, Some("2h"), "1h");
        check(Layer::Flag, Layer::Environment, Some("2h"), "1h");
        check(Layer::Environment, Layer::Flag, Some("2h"), "2h");
        check(Layer::Flag, Layer::Flag, Some("2h"), "both --since and --from");
        check(Layer::File, Layer::File, Some("2h"), "both --since and --from");
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let check = |begin: &str, end: Option<&str>, good: bool| {
            let window = WindowArgs { since: begin.to_owned(), from: None, to: end.map(str::to_owned) };
            assert_eq!(window.check(Millis(1_795_216_200_000)).is_ok(), good, "{begin} {end:?}");
        };
        check("1h", None, true);
        check("1h", Some("now"), true);
        check("1h", Some("1h"), true);
        check("1h", Some("2h"), false);
        check("1h", Some("2000-01-01"), false);
    }
}
