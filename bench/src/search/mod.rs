//! `search`: queries of all kinds on several logs, compared with `rg` on the raw file and with `zstd -dc | rg`.
//!
//! Measures twice: with node and rivals on one core, for the ratios, and with the node on all cores, for the speedup.

mod other_tools;
mod queries;
mod query_timing;

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::Args;

use crate::context::BenchContext;
use crate::cores::OneCore;
use crate::corpus::Corpus;
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::{feed, machine, process};
use queries::QueryOutput;
use query_timing::{QueryTiming, time_query};

pub(crate) use queries::{ABSENT_KIND, ABSENT_WORDS, Query, frequent, of as standard_queries, rare};
pub(crate) use query_timing::{QueryResult, run_query};

/// Measure the speed of queries of all kinds
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Log files; generated lines if omitted. The first word of the name selects the queries: web, json, java, db
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &SearchArgs, context: &BenchContext) -> anyhow::Result<()> {
    ensure!(other_tools::are_installed(), "rg and zstd are missing: apt-get install ripgrep zstd");
    let mut results = context.results("search")?;
    for corpus in context.corpora(&args.files)? {
        results.runs.extend(measure_corpus(args, context, &corpus)?);
    }
    context.report_in_rows(&results)
}

fn measure_corpus(args: &SearchArgs, context: &BenchContext, corpus: &Corpus) -> anyhow::Result<Vec<BenchRun>> {
    let packed = context.path("packed.zst");
    let size = store(context, corpus, other_tools::pack(&corpus.path, &packed)?)?;
    let name = corpus.name();
    let mut runs = vec![BenchRun { subject: format!("{name}: size"), round: 1, load: machine::load(), figures: size }];
    let queries = queries::of(&corpus.path);
    for round in 1..=args.rounds as usize {
        eprintln!("{name}, round {round}");
        let first = runs.len();
        let core = OneCore::take()?;
        let node = start_node(context)?;
        for query in &queries {
            let load = machine::load();
            let figures = on_one_core(&node, corpus, &packed, query)?;
            runs.push(BenchRun { subject: format!("{name}: {}", query.kind), round, load, figures });
        }
        node.stop()?;
        drop(core);
        let node = start_node(context)?;
        for (query, run) in queries.iter().zip(runs.iter_mut().skip(first)) {
            let wall = time_query(&node, query)?.wall_seconds;
            let one = run.value(WALL_ONE).unwrap_or(f64::NAN);
            run.figures.push(figure("wall_of_all_cores", "ms", wall * 1e3));
            run.figures.push(figure("cores_against_one", "times", one / (wall * 1e3)));
        }
        node.stop()?;
    }
    context.clear(&context.path(NODE))?;
    Ok(runs)
}

/// The name of the data directory.
const NODE: &str = "node";

const WALL_ONE: &str = "wall_of_one_core";

/// Starts the node on its data directory.
fn start_node(context: &BenchContext) -> anyhow::Result<BenchNode> {
    context.node(NODE, &["--retention-age", "none"])
}

/// Ingests the corpus on all cores and returns the cost.
fn store(context: &BenchContext, corpus: &Corpus, zstd_bytes: u64) -> anyhow::Result<Vec<Figure>> {
    let node = start_node(context)?;
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    let (_, cpu) = node.wait_settled(corpus.bytes)?;
    node.wait_removed()?;
    let stored = process::disk_bytes(node.dir())?;
    node.stop()?;
    Ok(vec![
        figure("text", "MB", corpus.bytes as f64 / 1e6),
        figure("stored", "MB", stored as f64 / 1e6),
        figure("smaller_than_zstd", "times", zstd_bytes as f64 / stored as f64),
        figure("ingest_and_encoding", "MB per CPU second", corpus.bytes as f64 / 1e6 / cpu),
    ])
}

fn on_one_core(node: &BenchNode, corpus: &Corpus, packed: &Path, query: &Query) -> anyhow::Result<Vec<Figure>> {
    let asked = time_query(node, query)?;
    let rg = match query.output {
        QueryOutput::Count => other_tools::rg(query.regex, &corpus.path)?,
        QueryOutput::Lines => other_tools::rg_printing(query.regex, &corpus.path)?,
    };
    let QueryTiming { lines, bytes, cpu_seconds: cpu, wall_seconds: wall, .. } = asked;
    ensure!(rg.lines == lines, "{}: rg finds {} lines, the node {lines}", query.expr, rg.lines);
    let speed = |seconds: f64| corpus.bytes as f64 / 1e9 / seconds;
    let mut figures = vec![
        figure("matches", "lines", lines as f64),
        figure("first", "CPU ms", asked.first_cpu_seconds * 1e3),
        figure("cpu", "ms", cpu * 1e3),
        figure(WALL_ONE, "ms", wall * 1e3),
        figure("speed", "GB of text per CPU second", speed(cpu)),
        figure("first_speed", "GB of text per CPU second", speed(asked.first_cpu_seconds)),
        figure("rg_speed", "GB per CPU second", speed(rg.cpu_seconds)),
        figure("against_rg", "times", rg.cpu_seconds / cpu),
        figure("wall_against_rg", "times", rg.wall_seconds / wall),
    ];
    match query.output {
        QueryOutput::Count => {
            let zstd_rg = other_tools::zstd_rg(query.regex, packed)?;
            figures.push(figure("zstd_rg_speed", "GB per CPU second", speed(zstd_rg.cpu_seconds)));
            figures.push(figure("against_zstd_rg", "times", zstd_rg.cpu_seconds / cpu));
        }
        QueryOutput::Lines => {
            ensure!(rg.bytes == bytes, "{}: rg prints {} bytes, the node {bytes}", query.expr, rg.bytes);
            let printed = bytes as f64 / 1e9;
            figures.push(figure("printed", "MB", printed * 1e3));
            figures.push(figure("printed_speed", "GB of matches per CPU second", printed / cpu));
            figures.push(figure("printed_wall_speed", "GB of matches per second", printed / wall));
        }
    }
    Ok(figures)
}
