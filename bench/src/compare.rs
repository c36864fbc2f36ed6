//! `compare`: two builds of the program on the same input, with every query run by both in turn.
//!
//! Other load of the machine slows both runs of a pair, so the ratio of a pair is more precise than two measurements one
//! after the other. The other build may be older: only its lines port and the calls `count` and `query` are used, and the
//! metric of the backlog if it has that.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bucksaw_faults::wait;
use clap::Args;

use crate::context::BenchContext;
use crate::cores::OneCore;
use crate::corpus::Corpus;
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::search::{Query, QueryResult, run_query, standard_queries};
use crate::{feed, machine, process};

/// A node counts as settled when it has used hardly any CPU for this time and has no backlog: segments that were stored with
/// the quick codec wait for their turn. A build without the metric of the backlog has this time only.
const IDLE_TIME: Duration = Duration::from_secs(25);

/// CPU seconds in that time that a node with work exceeds.
const IDLE_CPU_SECONDS: f64 = 0.25;

/// The maximum time until a node has settled.
const SETTLE_MAX: Duration = Duration::from_secs(900);

/// Compare two builds of the program by the CPU of ingest and of queries
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The other build of the program, usually of an earlier commit
    #[arg(long, value_name = "FILE")]
    other: PathBuf,

    /// Log files; generated lines if omitted. The first word of the name selects the queries: web, json, java, db
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Pairs of runs of each query after each start
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Starts of both builds: the speed of one process differs from that of the next
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
}

pub(crate) fn run(args: &CompareArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("compare")?;
    for corpus in context.corpora(&args.files)? {
        let load = machine::load();
        let name = corpus.name();
        eprintln!("{name}: ingest");
        let (this, other) =
            (ingest(context, &context.bucksaw, "this", &corpus)?, ingest(context, &args.other, "other", &corpus)?);
        let cpu =
            pair(["ingest_cpu_of_this", "ingest_cpu_of_other", "cpu_relative"], "CPU seconds", this.cpu, other.cpu);
        let stored = pair(["stored_by_this", "stored_by_other", "stored_relative"], "MB", this.stored, other.stored);
        let figures = cpu.into_iter().chain(stored).collect();
        results.runs.push(BenchRun { subject: format!("{name}: ingest"), round: 1, load, figures });
        for number in 1..=args.starts as usize {
            results.runs.extend(compare_queries(args, context, &corpus, number)?);
        }
        for dir in ["this", "other"] {
            context.clear(&context.path(dir))?;
        }
    }
    context.report_in_rows(&results)
}

/// The cost of storing a corpus.
struct IngestCost {
    cpu: f64,
    stored: f64,
}

fn start(context: &BenchContext, program: &Path, dir: &str) -> anyhow::Result<BenchNode> {
    BenchNode::start(program, &context.path(dir), &["--retention-age", "none"])
}

fn ingest(context: &BenchContext, program: &Path, dir: &str, corpus: &Corpus) -> anyhow::Result<IngestCost> {
    let node = start(context, program, dir)?;
    feed::file(node.address("fast")?, corpus)?;
    let mut idle: Option<(Instant, f64)> = None;
    let cpu = wait::until("the store to become idle", Duration::from_millis(500), SETTLE_MAX, || {
        let cpu = node.cpu()?;
        let is_idle = node.metric("bucksaw_store_backlog_bytes")? == 0.0;
        idle = idle.filter(|(_, started)| is_idle && cpu - started < IDLE_CPU_SECONDS);
        let (since, started) = *idle.get_or_insert((Instant::now(), cpu));
        Ok((since.elapsed() >= IDLE_TIME).then_some(started))
    })?;
    node.assert_count(corpus.lines)?;
    let stored = process::disk_bytes(node.dir())? as f64 / 1e6;
    node.stop()?;
    Ok(IngestCost { cpu, stored })
}

/// All queries after one start of both builds.
fn compare_queries(
    args: &CompareArgs,
    context: &BenchContext,
    corpus: &Corpus,
    number: usize,
) -> anyhow::Result<Vec<BenchRun>> {
    let _core = OneCore::take()?;
    let (this, other) = (start(context, &context.bucksaw, "this")?, start(context, &args.other, "other")?);
    // The order alternates, because the second run may find warmer caches.
    let both = |round: usize, query: &Query| {
        if round.is_multiple_of(2) {
            let mine = cpu_of(&this, query)?;
            anyhow::Ok((mine, cpu_of(&other, query)?))
        } else {
            let theirs = cpu_of(&other, query)?;
            Ok((cpu_of(&this, query)?, theirs))
        }
    };
    let rounds = args.rounds as usize;
    let mut runs = Vec::new();
    for query in standard_queries(&corpus.path) {
        eprintln!("{}, start {number}: {}", corpus.name(), query.kind);
        let subject = format!("{}: {}", corpus.name(), query.kind);
        let load = machine::load();
        let ((found, mine), (expected, theirs)) = both(number, &query)?;
        ensure!(
            found.lines == expected.lines,
            "{}: the builds find {} and {}",
            query.expr,
            found.lines,
            expected.lines
        );
        let mut figures = query_pair(mine, theirs);
        // Each build divides the text into other blocks, and the filter of one block more or less lets a text pass.
        figures.push(figure("scanned_by_this", "MB", found.scanned as f64 / 1e6));
        figures.push(figure("scanned_by_other", "MB", expected.scanned as f64 / 1e6));
        runs.push(BenchRun { subject: format!("{subject}, first"), round: number, load, figures });
        for round in 1..=rounds {
            let load = machine::load();
            let ((_, mine), (_, theirs)) = both(round, &query)?;
            let figures = query_pair(mine, theirs);
            runs.push(BenchRun { subject: subject.clone(), round: (number - 1) * rounds + round, load, figures });
        }
    }
    this.stop()?;
    other.stop()?;
    Ok(runs)
}

/// The result and the CPU seconds of one run of a query.
fn cpu_of(node: &BenchNode, query: &Query) -> anyhow::Result<(QueryResult, f64)> {
    let mut http = node.http()?;
    let before = process::cpu_nanos(node.pid())?;
    let result = run_query(&mut http, query)?;
    Ok((result, (process::cpu_nanos(node.pid())? - before) as f64 / 1e9))
}

/// The CPU seconds of a query by both builds.
fn query_pair(this: f64, other: f64) -> Vec<Figure> {
    pair(["cpu_of_this", "cpu_of_other", "cpu_relative"], "CPU ms", this * 1e3, other * 1e3)
}

/// A value of both builds, and that of this one relative to the other.
fn pair([mine, theirs, ratio]: [&'static str; 3], unit: &'static str, this: f64, other: f64) -> Vec<Figure> {
    vec![figure(mine, unit, this), figure(theirs, unit, other), figure(ratio, "times", this / other)]
}
