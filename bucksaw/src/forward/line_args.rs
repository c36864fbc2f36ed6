//! Flags of `bucksaw forward`: what a line becomes.

use bucksaw_forward::{LineConfig, LineConfigError, LogFormat, Multiline};
use clap::{Args, ValueEnum};

use crate::failure::UsageError;

#[derive(Clone, Debug, Args)]
pub(crate) struct LineArgs {
    /// Format of the files: logs of containers below /var/log/pods, /var/log/containers and /var/lib/docker/containers, and lines
    /// elsewhere; or the same for all
    ///
    /// A log of a container is decoded: the text is the line, its time the event time, its stream the attribute log.iostream.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto")]
    format: FileFormat,

    /// Lines that are one event: `auto` for stack traces of Java, Python, Go, Node.js, Rust and .NET; or a regex, then a line that
    /// matches begins an event
    #[arg(long, value_name = "REGEX", default_value = "off")]
    multiline: String,

    /// Attribute of every record, such as team=shop; repeatable
    #[arg(long = "attribute", value_name = "K=V")]
    attributes: Vec<String>,

    /// Drop the records that match a filter expression; repeatable
    #[arg(long, value_name = "EXPR")]
    drop: Vec<String>,

    /// Ship only records that match a filter expression, or one of several; repeatable
    #[arg(long, value_name = "EXPR")]
    keep: Vec<String>,

    /// Ship a share of the records, such as 0.1 or 10%, or of those that match: 10%:@level<=debug; repeatable, the first that
    /// applies decides
    #[arg(long, value_name = "SHARE[:EXPR]", allow_negative_numbers = true)]
    sample: Vec<String>,

    /// Replace what a regex matches in lines by `[redacted]`, or, as s/REGEX/TEXT/, by a text; repeatable
    #[arg(long, value_name = "REGEX")]
    redact: Vec<String>,
}

/// The format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    Auto,
    Lines,
    Cri,
    Docker,
}

impl LineArgs {
    /// What a line becomes.
    pub(super) fn config(&self) -> anyhow::Result<LineConfig> {
        self.parse().map_err(|(flag, error)| UsageError(format!("{flag}: {error}")).into())
    }

    /// Whether a flag is set that has no effect without files.
    pub(super) fn is_for_files(&self) -> bool {
        self.multiline != "off" || matches!(self.format, FileFormat::Cri | FileFormat::Docker)
    }

    fn parse(&self) -> Result<LineConfig, (&'static str, LineConfigError)> {
        let named = |flag| move |error| (flag, error);
        let format = match self.format {
            FileFormat::Auto => LogFormat::Auto,
            FileFormat::Lines => LogFormat::Lines,
            FileFormat::Cri => LogFormat::Cri,
            FileFormat::Docker => LogFormat::Docker,
        };
        let multiline = Multiline::parse(&self.multiline).map_err(named("--multiline"))?;
        let mut config = LineConfig { format, multiline, ..LineConfig::default() };
        for text in &self.attributes {
            config.add_attribute(text).map_err(named("--attribute"))?;
        }
        for text in &self.drop {
            config.filter.add_drop(text).map_err(named("--drop"))?;
        }
        for text in &self.keep {
            config.filter.add_keep(text).map_err(named("--keep"))?;
        }
        for text in &self.sample {
            config.filter.add_sample(text).map_err(named("--sample"))?;
        }
        for text in &self.redact {
            config.filter.add_redaction(text).map_err(named("--redact"))?;
        }
        Ok(config)
    }
}
