//! The tree of commands, from the typed arguments to the command that runs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::args::{QueryArgs, ServeArgs, SummaryArgs, TailArgs};
use crate::certs::CertsArgs;
use crate::completions::CompletionsArgs;
use crate::config::ConfigArgs;
use crate::context::ContextArgs;
use crate::erase::EraseArgs;
use crate::exit::Exit;
use crate::export::ExportArgs;
use crate::failure::{ArgumentError, UsageError, report_error};
use crate::forget::ForgetArgs;
use crate::forward::ForwardArgs;
use crate::generate::GenerateArgs;
use crate::histogram::HistogramArgs;
use crate::import::ImportArgs;
use crate::layers::{Layer, Layers};
use crate::man::ManArgs;
use crate::plan::PlanArgs;
use crate::status::StatusArgs;
use crate::token::TokenArgs;
use crate::verify::VerifyArgs;
use crate::{
    certs, completions, config, context, erase, export, fields, forget, forward, generate, histogram, import, labels,
    man, plan, query, serve, status, tail, token, verify,
};

/// Widest help, in columns.
const HELP_COLUMNS_MAX: usize = 100;

/// Prometheus for logs: collect, keep and grep the logs of a fleet
///
/// One binary runs the nodes, ships lines to them and searches them. To begin: `bucksaw serve` in one terminal,
/// `bucksaw generate | nc 127.0.0.1 7651` in a second, `bucksaw query` in a third.
#[derive(Debug, Parser)]
#[command(name = "bucksaw", version, propagate_version = false, max_term_width = HELP_COLUMNS_MAX)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Every flag is also an environment variable (--data-dir is BUCKSAW_DATA_DIR) and a key of the \
                        configuration file (data-dir). Flags take precedence over variables, variables over the file.")]
struct Cli {
    /// TOML file with settings for all commands
    ///
    /// A key at the top applies to every command with that flag, a key in a table named after a command to that
    /// command.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServeArgs>),
    Forward(Box<ForwardArgs>),
    Import(ImportArgs),
    Export(Box<ExportArgs>),
    Query(Box<QueryArgs>),
    Tail(TailArgs),
    Context(ContextArgs),
    /// Show the fields of matching records with their most frequent values
    ///
    /// Counts the newest 10,000 matching records. Exits as query does.
    Fields(SummaryArgs),
    /// Show the labels of streams that have records in a time range
    ///
    /// Each value has the number of streams with it. EXPR may test labels only, since no line is read. Exits as query does.
    Labels(SummaryArgs),
    Histogram(HistogramArgs),
    Generate(Box<GenerateArgs>),
    Status(StatusArgs),
    Plan(Box<PlanArgs>),
    Forget(ForgetArgs),
    Erase(EraseArgs),
    Verify(VerifyArgs),
    Token(TokenArgs),
    Certs(CertsArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// The exit code of errors without one of their own.
    const fn failed(&self) -> Exit {
        match self {
            Self::Query(_)
            | Self::Tail(_)
            | Self::Context(_)
            | Self::Fields(_)
            | Self::Labels(_)
            | Self::Histogram(_) => Exit::Trouble,
            _ => Exit::Failed,
        }
    }

    /// Resolves flags that exclude each other by the layer they come from.
    fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        let summary = |args: &mut SummaryArgs| {
            args.pattern.apply_layers(&layer)?;
            args.window.apply_layers(&layer)?;
            args.display.apply_layers(&layer)
        };
        match self {
            Self::Query(args) => {
                args.pattern.apply_layers(&layer)?;
                args.window.apply_layers(&layer)?;
                args.display.apply_layers(&layer)
            }
            Self::Tail(args) => {
                args.pattern.apply_layers(&layer)?;
                args.display.apply_layers(&layer)
            }
            Self::Context(args) => args.display.apply_layers(&layer),
            Self::Forward(args) => args.apply_layers(&layer),
            Self::Fields(args) | Self::Labels(args) => summary(args),
            Self::Histogram(args) => summary(&mut args.summary),
            Self::Export(args) => args.apply_layers(layer),
            Self::Generate(args) => args.apply_layers(layer),
            _ => Ok(()),
        }
    }

    fn run(self, layers: Layers) -> anyhow::Result<Exit> {
        match self {
            Self::Serve(args) => serve::run(*args),
            Self::Forward(args) => forward::run(&args),
            Self::Import(args) => import::run(&args),
            Self::Export(args) => export::run(&args),
            Self::Query(args) => query::run(&args),
            Self::Tail(args) => tail::run(&args),
            Self::Context(args) => context::run(&args),
            Self::Fields(args) => fields::run(&args),
            Self::Labels(args) => labels::run(&args),
            Self::Histogram(args) => histogram::run(&args),
            Self::Generate(args) => generate::run(&args),
            Self::Status(args) => status::run(args),
            Self::Plan(args) => plan::run(&args),
            Self::Forget(args) => forget::run(&args),
            Self::Erase(args) => erase::run(&args),
            Self::Verify(args) => verify::run(args),
            Self::Token(args) => token::run(args),
            Self::Certs(args) => certs::run(&args),
            Self::Config(args) => config::run(args, &layers),
            Self::Completions(args) => completions::run(args, layers.tree),
            Self::Man(args) => man::run(args, layers.tree),
        }
    }
}

/// The commands and their flags, without a configuration file.
pub(crate) fn tree() -> Layers {
    Layers::new(Cli::command())
}

/// Parses the arguments, after the name of the program, runs the command, and reports its error.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match parse(arguments.into_iter().collect()) {
        Ok((command, layers)) => {
            let failed = command.failed();
            command.run(layers).unwrap_or_else(|error| report_error(&error, failed))
        }
        Err(error) => report_error(&error, Exit::Trouble),
    }
}

fn parse(arguments: Vec<OsString>) -> anyhow::Result<(Command, Layers)> {
    let mut layers = tree();
    // A first pass finds the name of the configuration file, whose values the second pass needs.
    let first_pass = layers.tree.clone().ignore_errors(true).try_get_matches_from(&arguments);
    let first_pass = first_pass.map_err(|error| ArgumentError { error, command: "bucksaw".to_owned() })?;
    if let Ok(Some(path)) = first_pass.try_get_one::<PathBuf>("config") {
        layers = layers.with_file(path)?;
    }
    let command = first_pass.subcommand_name().map_or("bucksaw".to_owned(), |name| format!("bucksaw {name}"));
    let matches = layers.tree.clone().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?.command, matches)));
    let (mut command, matches) = parsed.map_err(|error| ArgumentError { error, command })?;
    if let Some((name, matches)) = matches.subcommand() {
        command.apply_layers(|id: &str| layers.layer(name, matches, id))?;
    }
    Ok((command, layers))
}

#[cfg(test)]
mod tests;
