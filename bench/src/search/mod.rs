//! `search`: questions of all kinds to logs of several kinds, beside `rg` on the raw file and `zstd -dc | rg`.
//!
//! Asked twice: with the node and the rivals held to one core, which is what all ratios are made of, and then with all
//! cores for the node, which says what the others of them are good for.

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
use queries::{Query, QueryOutput};
use query_timing::{QueryTiming, time_query};

pub(crate) use queries::{frequent, rare};

/// How fast questions of all kinds are answered
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Files of lines, each a log of its own; left out, lines are generated. Questions are chosen by the first word of the
    /// name: web, json, java, db
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How often all is asked
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &SearchArgs, setting: &BenchContext) -> anyhow::Result<()> {
    ensure!(other_tools::are_installed(), "rg and zstd are missing: apt-get install ripgrep zstd");
    let mut results = setting.results("search")?;
    for corpus in setting.corpora(&args.files)? {
        results.runs.extend(measure_corpus(args, setting, &corpus)?);
    }
    setting.report_in_rows(&results)
}

fn measure_corpus(args: &SearchArgs, setting: &BenchContext, corpus: &Corpus) -> anyhow::Result<Vec<BenchRun>> {
    let packed = setting.path("packed.zst");
    let size = store(setting, corpus, other_tools::pack(&corpus.path, &packed)?)?;
    let name = corpus.name();
    let mut runs = vec![BenchRun { subject: format!("{name}: size"), round: 1, load: machine::load(), figures: size }];
    let queries = queries::of(&corpus.path);
    for round in 1..=args.rounds as usize {
        eprintln!("{name}, round {round}");
        let first = runs.len();
        let core = OneCore::take()?;
        let node = start_node(setting)?;
        for query in &queries {
            let load = machine::load();
            let figures = on_one_core(&node, corpus, &packed, query)?;
            runs.push(BenchRun { subject: format!("{name}: {}", query.kind), round, load, figures });
        }
        node.stop()?;
        drop(core);
        let node = start_node(setting)?;
        for (query, run) in queries.iter().zip(runs.iter_mut().skip(first)) {
            let wall = time_query(&node, query)?.wall_seconds;
            let one = run.value(WALL_ONE).unwrap_or(f64::NAN);
            run.figures.push(figure("wall_of_all_cores", "ms", wall * 1e3));
            run.figures.push(figure("cores_against_one", "times", one / (wall * 1e3)));
        }
        node.stop()?;
    }
    setting.clear(&setting.path(NODE))?;
    Ok(runs)
}

/// The name of the node's directory.
const NODE: &str = "node";

const WALL_ONE: &str = "wall_of_one_core";

/// The node, on what there is.
fn start_node(setting: &BenchContext) -> anyhow::Result<BenchNode> {
    setting.node(NODE, &["--retention-age", "none"])
}

/// Has the node take the corpus, with all cores, and tells what that took.
fn store(setting: &BenchContext, corpus: &Corpus, zstd_bytes: u64) -> anyhow::Result<Vec<Figure>> {
    let node = start_node(setting)?;
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
        figure("ingest_and_packing", "MB per CPU second", corpus.bytes as f64 / 1e6 / cpu),
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
