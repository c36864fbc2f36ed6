//! Measures the real program, beside rivals where there are any.
//!
//! Every measurement starts `bucksaw serve` as a process with free ports and an empty directory, uses it as a user
//! would, checks that no record is lost, and prints figures with units. README.md describes the measurements and their
//! limits.
//!
//! MB and GB are powers of ten, also for memory.
#![expect(clippy::disallowed_methods, reason = "a measurement uses real time, files and processes")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a measurement prints its figures and its progress")]

mod attributes;
mod compaction;
mod compare;
mod context;
mod copies;
mod cores;
mod corpus;
mod decode;
mod edge;
mod encode;
mod encryption;
mod feed;
mod freshness;
mod hostile;
mod http_load;
mod idle;
mod ingest;
mod line_plot;
mod line_times;
mod machine;
mod memory;
mod model;
mod ndjson_stream;
mod node;
mod pipeline;
mod process;
mod program;
mod random;
mod rate_plot;
mod results;
mod search;
mod segments;
mod senders;
mod spread;
mod startup;
mod tls;
mod trace;
mod under_ingest;

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
    /// Speed and cost of ingest
    Ingest(ingest::IngestArgs),
    /// Cost of ingest in the protocols of other log systems
    Senders(senders::SendersArgs),
    /// Bytes and searches of records with attributes
    Attributes(attributes::AttributesArgs),
    /// Cost of merging many small segments
    Compaction(compaction::CompactionArgs),
    /// CPU of ingest and of queries, compared with another build of the program
    Compare(compare::CompareArgs),
    /// Speed of queries of all kinds
    Search(search::SearchArgs),
    /// CPU of queries over one copy of each record and over several
    Copies(copies::CopiesArgs),
    /// Questions drawn at random from many logs, compared with rg
    Random(random::RandomArgs),
    /// Both ways to search blocks, columns and text, by random questions
    Ways(random::ways::WaysArgs),
    /// Speed of block encoding, compared with zstd
    Encode(encode::EncodeArgs),
    /// Speed of decoding OTLP, compared with prost
    Decode(decode::DecodeArgs),
    /// Cost of encryption at rest
    Encryption(encryption::EncryptionCostArgs),
    /// Cost of reading times from lines, by form
    LineTimes(line_times::LineTimesArgs),
    /// Latency of queries during ingest
    UnderIngest(under_ingest::UnderIngestArgs),
    /// Cost of shipping the lines of files
    Edge(edge::EdgeArgs),
    /// From Kafka, HTTP, gRPC and the framed protocol to segments and ClickHouse
    Pipeline(pipeline::PipelineArgs),
    /// Time from sending a line to its visibility
    Freshness(freshness::FreshnessArgs),
    /// Time to the first row with very many segments
    Segments(segments::SegmentsArgs),
    /// Memory of a busy and of an idle node
    Memory(memory::MemoryArgs),
    /// Predictions of `bucksaw plan`, compared with measurements
    Model(model::ModelArgs),
    /// Startup time of a node with a large store
    Startup(startup::StartupArgs),
    /// Cost of thousands of idle connections
    IdleConnections(idle::IdleArgs),
    /// Cost of TLS
    Tls(tls::TlsArgs),
    /// Draw a rate log of `bucksaw generate`
    Plot(rate_plot::PlotArgs),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if let BenchCommand::Plot(args) = &cli.command {
        return rate_plot::run(args);
    }
    let context = BenchContext::new(cli.options)?;
    match cli.command {
        BenchCommand::Ingest(args) => ingest::run(&args, &context),
        BenchCommand::Senders(args) => senders::run(&args, &context),
        BenchCommand::Attributes(args) => attributes::run(&args, &context),
        BenchCommand::Compaction(args) => compaction::run(&args, &context),
        BenchCommand::Compare(args) => compare::run(&args, &context),
        BenchCommand::Search(args) => search::run(&args, &context),
        BenchCommand::Random(args) => random::run(&args, &context),
        BenchCommand::Ways(args) => random::ways::run(&args, &context),
        BenchCommand::Encode(args) => encode::run(&args, &context),
        BenchCommand::Decode(args) => decode::run(&args, &context),
        BenchCommand::Encryption(args) => encryption::run(&args, &context),
        BenchCommand::LineTimes(args) => line_times::run(&args, &context),
        BenchCommand::UnderIngest(args) => under_ingest::run(&args, &context),
        BenchCommand::Edge(args) => edge::run(&args, &context),
        BenchCommand::Pipeline(args) => pipeline::run(&args, &context),
        BenchCommand::Freshness(args) => freshness::run(&args, &context),
        BenchCommand::Segments(args) => segments::run(&args, &context),
        BenchCommand::Memory(args) => memory::run(&args, &context),
        BenchCommand::Copies(args) => copies::run(&args, &context),
        BenchCommand::Model(args) => model::run(&args, &context),
        BenchCommand::Startup(args) => startup::run(&args, &context),
        BenchCommand::IdleConnections(args) => idle::run(&args, &context),
        BenchCommand::Tls(args) => tls::run(&args, &context),
        BenchCommand::Plot(args) => rate_plot::run(&args),
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
