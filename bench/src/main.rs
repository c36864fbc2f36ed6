//! Side-by-side measurements of the real program, against rivals where there are some.
//!
//! Every measurement starts `bucksaw serve` as a process of its own on free ports and an empty directory, does to it what
//! a user would, checks that nothing was lost, and prints its figures with their units. README.md says what each one
//! measures and how far to trust it.
//!
//! MB and GB are powers of ten throughout, of memory too.
#![expect(clippy::disallowed_methods, reason = "a measurement is about real time, real files and real processes")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement prints its figures and its progress")]

mod compaction;
mod context;
mod cores;
mod corpus;
mod encode;
mod feed;
mod freshness;
mod hostile;
mod http_load;
mod idle;
mod ingest;
mod machine;
mod memory;
mod ndjson_stream;
mod node;
mod process;
mod program;
mod results;
mod search;
mod segments;
mod spread;
mod startup;
mod trace;
mod under_ingest;
mod wait;

use clap::{Parser, Subcommand};

use context::{BenchContext, BenchOptions};

/// Measure Bucksaw
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    options: BenchOptions,

    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// How fast lines are taken in, and what that costs
    Ingest(ingest::IngestArgs),
    /// What it costs to merge what came in small pieces
    Compaction(compaction::CompactionArgs),
    /// How fast questions of all kinds are answered
    Search(search::SearchArgs),
    /// How fast blocks are packed, beside zstd
    Encode(encode::EncodeArgs),
    /// How much slower questions are while lines come in
    UnderIngest(under_ingest::UnderIngestArgs),
    /// How long after it was sent a line can be found
    Freshness(freshness::FreshnessArgs),
    /// How soon the first row is there with very many segments
    Segments(segments::SegmentsArgs),
    /// How much memory a node takes, busy and idle
    Memory(memory::MemoryArgs),
    /// How long a node with much on its store takes to be ready
    Startup(startup::StartupArgs),
    /// What thousands of connections that say nothing or little cost
    IdleConnections(idle::IdleArgs),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let setting = BenchContext::new(cli.options)?;
    match cli.command {
        BenchCommand::Ingest(args) => ingest::run(&args, &setting),
        BenchCommand::Compaction(args) => compaction::run(&args, &setting),
        BenchCommand::Search(args) => search::run(&args, &setting),
        BenchCommand::Encode(args) => encode::run(&args, &setting),
        BenchCommand::UnderIngest(args) => under_ingest::run(&args, &setting),
        BenchCommand::Freshness(args) => freshness::run(&args, &setting),
        BenchCommand::Segments(args) => segments::run(&args, &setting),
        BenchCommand::Memory(args) => memory::run(&args, &setting),
        BenchCommand::Startup(args) => startup::run(&args, &setting),
        BenchCommand::IdleConnections(args) => idle::run(&args, &setting),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
