//! `copies`: the CPU of questions over a cluster whose stores have one copy of each record, or several.
//!
//! The same lines are sent to the nodes of a cluster in turn, in bodies whose times cover some hours. When all is stored and
//! merged, each question is asked of one node several times, and the CPU of all nodes is counted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_faults::wait;
use clap::Args;
use jiff::Timestamp;

use crate::context::BenchContext;
use crate::corpus::Corpus;
use crate::http_load::{HttpLoad, HttpPost};
use crate::machine;
use crate::node::BenchNode;
use crate::process;
use crate::results::{BenchRun, Figure, figure};
use crate::search::{ABSENT_KIND, ABSENT_WORDS, Query, run_query, standard_queries};
use crate::spread::median;

/// Bytes of a body.
const BODY_BYTES: u64 = 1_000_000;

/// Time that the records of all bodies cover.
const SPAN: Duration = Duration::from_secs(3 * 3_600);

/// Time in which a cluster forms, and in which it stores and merges everything.
const JOINED_MAX: Duration = Duration::from_secs(60);
const STORED_MAX: Duration = Duration::from_secs(900);

/// Time in which nodes that merge nothing use hardly any CPU, and the CPU seconds that one which merges exceeds by far.
const IDLE_TIME: Duration = Duration::from_secs(4);
const IDLE_CPU_SECONDS: f64 = 0.3;

/// Measure questions over one copy of each record and over several
#[derive(Debug, Args)]
pub(crate) struct CopiesArgs {
    /// Files to search
    files: Vec<PathBuf>,

    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..))]
    nodes: u32,

    /// Copies of each record
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2])]
    copies: Vec<u32>,

    /// Times that each question is asked, after a first time that fills the caches
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Clusters of each kind, in turn: how one ingest divides the lines into segments changes the CPU of a question by a tenth
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &CopiesArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("copies")?;
    for corpus in context.corpora(&args.files)? {
        let mut counts: Vec<(&str, u64)> = Vec::new();
        let clusters = (1..=args.rounds).flat_map(|round| args.copies.iter().map(move |copies| (round, copies)));
        for (round, copies) in clusters {
            eprintln!("{}: {copies} copies, round {round}", corpus.about);
            let nodes = start(args, *copies, context)?;
            send(&corpus, &nodes)?;
            wait_merged(&nodes, corpus.bytes * u64::from(*copies))?;
            // Until then nodes search them in their queues too.
            nodes.iter().try_for_each(BenchNode::wait_removed)?;
            for query in standard_queries(&corpus.path) {
                let (found, figures) = match query.kind {
                    ABSENT_KIND => ask_all(args, &nodes, &ABSENT_WORDS)?,
                    _ => ask(args, &nodes, &query)?,
                };
                // All clusters must give the same answers.
                match counts.iter().find(|(kind, _)| *kind == query.kind) {
                    Some((kind, before)) => ensure!(*before == found, "{kind}: {before} lines, then {found}"),
                    None => counts.push((query.kind, found)),
                }
                let subject = format!("{}, {}, copies {copies}", corpus.about, query.kind);
                results.runs.push(BenchRun { subject, round: round as usize, load: machine::load(), figures });
            }
            for (at, node) in nodes.into_iter().enumerate() {
                node.stop()?;
                context.clear(&context.path(&format!("node-{at}")))?;
            }
        }
    }
    context.report_in_rows(&results)
}

/// Starts the nodes of a cluster, and waits until each knows all.
fn start(args: &CopiesArgs, copies: u32, context: &BenchContext) -> anyhow::Result<Vec<BenchNode>> {
    let copies = copies.to_string();
    let mut nodes: Vec<BenchNode> = Vec::new();
    for at in 0..args.nodes {
        let mut flags = vec!["--listen-cluster", "127.0.0.1:0", "--replication-factor", &copies];
        flags.extend(["--retention-age", "none", "--audit=false"]);
        let first = nodes.first().map(|node| node.address("cluster").map(str::to_owned)).transpose()?;
        flags.extend(first.iter().flat_map(|first| ["--join", first]));
        nodes.push(context.node(&format!("node-{at}"), &flags)?);
    }
    for node in &nodes {
        let mut http = node.http()?;
        wait::until("the cluster being formed", Duration::from_millis(100), JOINED_MAX, || {
            let cluster = http.get("/api/v1/cluster")?.ok_json()?;
            let known = cluster.pointer("/nodes").and_then(|nodes| Some(nodes.as_array()?.len()));
            Ok((known == Some(args.nodes as usize)).then_some(()))
        })?;
    }
    Ok(nodes)
}

/// Sends the lines to the nodes in turn, at even distances of time, oldest first.
fn send(corpus: &Corpus, nodes: &[BenchNode]) -> anyhow::Result<()> {
    let (file, batches) = (File::open(&corpus.path)?, corpus.batches(BODY_BYTES)?);
    let start = Timestamp::now().checked_sub(SPAN)?;
    for (at, node) in nodes.iter().enumerate() {
        let sender = HttpLoad { address: node.address("http")?, senders: 1, connect_anew: false };
        sender.send(|sent| {
            let number = sent * nodes.len() + at;
            let Some((from, to)) = batches.get(number) else { return Ok(None) };
            let mut body = vec![0; usize::try_from(to - from)?];
            file.read_exact_at(&mut body, *from)?;
            let time = start.checked_add(SPAN.mul_f64(number as f64 / batches.len() as f64))?;
            let target = format!("/api/v1/ingest?durability=durable&batch_time={}", time.as_millisecond());
            let key = Some(format!("copies-{number}"));
            Ok(Some(HttpPost { target, format: "text/plain", key, body, due: Duration::ZERO }))
        })?;
    }
    Ok(())
}

/// Waits until the stores have this much text together and merge nothing.
fn wait_merged(nodes: &[BenchNode], bytes: u64) -> anyhow::Result<()> {
    let total = |name: &str| nodes.iter().map(|node| node.metric(name)).sum::<anyhow::Result<f64>>();
    let mut rest: Option<(Instant, f64, f64)> = None;
    wait::until("everything being stored and merged", Duration::from_millis(500), STORED_MAX, || {
        let merges = total("bucksaw_store_compactions_total")?;
        let cpu = nodes.iter().map(BenchNode::cpu).sum::<anyhow::Result<f64>>()?;
        let is_stored =
            total("bucksaw_store_text_bytes")? as u64 == bytes && total("bucksaw_store_backlog_bytes")? == 0.0;
        let is_idle = |(_, merged, used): &(Instant, f64, f64)| *merged == merges && cpu - used < IDLE_CPU_SECONDS;
        rest = rest.filter(|rest| is_stored && is_idle(rest));
        let (since, ..) = *rest.get_or_insert((Instant::now(), merges, cpu));
        Ok((is_stored && since.elapsed() >= IDLE_TIME).then_some(()))
    })
}

/// Asks several questions. Returns the lines found by all together, and the means of their figures.
fn ask_all(args: &CopiesArgs, nodes: &[BenchNode], queries: &[Query]) -> anyhow::Result<(u64, Vec<Figure>)> {
    let (mut found, mut sums): (u64, Vec<Figure>) = (0, Vec::new());
    for query in queries {
        let (lines, figures) = ask(args, nodes, query)?;
        found += lines;
        if sums.is_empty() {
            sums = figures;
        } else {
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| sum.value += figure.value);
        }
    }
    sums.iter_mut().for_each(|sum| sum.value /= queries.len() as f64);
    Ok((found, sums))
}

/// Asks a question of each node in turn. Returns the lines found, and the medians of CPU and time.
fn ask(args: &CopiesArgs, nodes: &[BenchNode], query: &Query) -> anyhow::Result<(u64, Vec<Figure>)> {
    let cpu_nanos = || nodes.iter().map(|node| process::cpu_nanos(node.pid())).sum::<anyhow::Result<u64>>();
    let mut clients = nodes.iter().map(BenchNode::http).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut found, mut cpu, mut wall) = (None, Vec::new(), Vec::new());
    for run in 0..=args.runs as usize {
        let at = run % clients.len();
        let (before, started) = (cpu_nanos()?, Instant::now());
        let lines = run_query(clients.get_mut(at).context("no node")?, query)?.lines;
        let (seconds, nanos) = (started.elapsed().as_secs_f64(), cpu_nanos()? - before);
        ensure!(*found.get_or_insert(lines) == lines, "{}: {found:?} lines, then {lines}", query.expr);
        if run > 0 {
            cpu.push(nanos as f64 / 1e6);
            wall.push(seconds * 1e3);
        }
    }
    let found = found.unwrap_or_default();
    let figures = vec![
        figure("lines", "lines", found as f64),
        figure("cpu", "ms", median(&cpu)),
        figure("time", "ms", median(&wall)),
    ];
    Ok((found, figures))
}
