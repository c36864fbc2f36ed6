//! `under-ingest`: the latency of queries during ingest, compared with an idle node.
//!
//! The queries cover lines that were stored before, all of them or a small part, so the work for an answer is the same
//! in both cases. New lines arrive in small bodies, by default with `bulk` as in `compaction`, so that gathering,
//! encoding and merging run all the time.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use bucksaw_faults::http::encode;
use clap::Args;
use jiff::Timestamp;

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::feed::{self, FeedTotals};
use crate::http_load::{HttpLoad, HttpPost};
use crate::machine;
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::search::{frequent, rare};
use crate::spread::percentile_ms;

/// Concurrent bodies at full speed. At a rate there are more, so that one that waits does not delay the others.
const SENDERS: usize = 4;
const SENDERS_PACED: usize = 16;

/// A narrow query covers this fraction of the time range of the stored lines.
const NARROW_DIVISOR: u32 = 20;

/// The time of ingest before the first query.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measure the latency of queries during ingest
#[derive(Debug, Args)]
pub(crate) struct UnderIngestArgs {
    /// File of the lines to query; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<std::path::PathBuf>,

    /// Rounds of both measurements
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Queries of each measurement
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    questions: u32,

    /// Milliseconds between queries
    #[arg(long, value_name = "MS", default_value_t = 100)]
    every: u64,

    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "250KB")]
    body: Size,

    /// Bytes to send to determine the sustained rate
    #[arg(long, value_name = "SIZE", default_value = "400MB")]
    sustained: Size,

    /// Durability of a body; only `bulk` creates many small segments to merge
    #[arg(long, value_name = "D", default_value = "bulk", value_parser = ["fast", "durable", "bulk"])]
    durability: String,

    /// Percentage of the sustained rate that arrives during queries
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    percent: f64,
}

/// A query: its kind, and the path and query of its URL.
struct TimedQuery {
    kind: &'static str,
    path: String,
}

pub(crate) fn run(args: &UnderIngestArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("under-ingest")?;
    for corpus in context.corpora(&args.files)? {
        results.runs.extend(measure_corpus(args, context, &corpus)?);
    }
    context.report_in_rows(&results)
}

fn measure_corpus(args: &UnderIngestArgs, context: &BenchContext, corpus: &Corpus) -> anyhow::Result<Vec<BenchRun>> {
    let sustained = sustained(args, context, corpus)?;
    let rate = sustained * args.percent / 100.0;
    eprintln!("{:.1} MB/s can be sustained; {:.1} MB/s are sent", sustained / 1e6, rate / 1e6);

    let node = context.node("node", &["--retention-age", "none"])?;
    let from = Timestamp::now();
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    let to = Timestamp::now();
    node.wait_settled(corpus.bytes)?;
    let questions = questions(corpus, from, to)?;

    let load = machine::load();
    let (mut idle, mut busy) = (vec![Vec::new(); questions.len()], vec![Vec::new(); questions.len()]);
    let (mut fed, mut during_queries) = (FeedTotals::default(), StoreCounters::default());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        node.wait_settled(corpus.bytes + fed.bytes)?;
        time_queries(args, &questions, &node, &mut idle)?;
        let before = StoreCounters::of(&node)?;
        let sent =
            measure_under_ingest(args, corpus, &node, rate, || time_queries(args, &questions, &node, &mut busy))?;
        during_queries.add(&StoreCounters::of(&node)?, &before);
        fed = FeedTotals {
            bytes: fed.bytes + sent.bytes,
            lines: fed.lines + sent.lines,
            seconds: fed.seconds + sent.seconds,
            delay: fed.delay.max(sent.delay),
        };
    }
    ensure!(
        during_queries.merges > 0.0 || args.durability != "bulk",
        "nothing was merged during_queries: let more come in, or for longer"
    );
    node.assert_count(corpus.lines + fed.lines)?;
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;

    let name = corpus.name();
    let run = |subject: String, load, figures| BenchRun { subject, round: 1, load, figures };
    let mut runs = vec![run(format!("{name}: idle"), load, percentiles(&all(&idle)))];
    let mut figures = percentiles(&all(&busy));
    figures.push(against(&all(&busy), &all(&idle)));
    figures.extend([
        figure("sustained_rate", "MB/s", sustained / 1e6),
        figure("ingest_rate", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_delay_max", "s", fed.delay),
        figure("merged_during_queries", "MB", during_queries.merged / 1e6),
        figure("merges_during_queries", "merges", during_queries.merges),
        figure("throttled", "s", during_queries.throttled_seconds),
        figure("throttle_overrides", "times", during_queries.throttle_overrides),
        figure("refused", "bodies and questions", during_queries.refused),
    ]);
    runs.push(run(format!("{name}: under ingest"), load, figures));
    for (question, (idle, busy)) in questions.iter().zip(idle.iter().zip(&busy)) {
        runs.push(run(format!("{name}: {}, idle", question.kind), load, percentiles(idle)));
        let mut figures = percentiles(busy);
        figures.push(against(busy, idle));
        runs.push(run(format!("{name}: {}, under ingest", question.kind), load, figures));
    }
    Ok(runs)
}

fn measure_under_ingest(
    args: &UnderIngestArgs,
    corpus: &Corpus,
    node: &BenchNode,
    rate: f64,
    ask: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<FeedTotals> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let fed = scope.spawn(|| send(args, corpus, node, SENDERS_PACED, rate, &|_| !done.load(Ordering::Relaxed)));
        thread::sleep(WARM_UP);
        let asked = ask();
        done.store(true, Ordering::Relaxed);
        let fed = fed.join().map_err(|_| anyhow!("the sender panicked"))?;
        asked.and(fed)
    })
}

/// The rate in bytes per second at which a node accepts, encodes and merges without queries.
fn sustained(args: &UnderIngestArgs, context: &BenchContext, corpus: &Corpus) -> anyhow::Result<f64> {
    let node = context.node("sustained", &[])?;
    let started = Instant::now();
    let bodies = usize::try_from(args.sustained.0 / args.body.0)?;
    let fed = send(args, corpus, &node, SENDERS, f64::INFINITY, &|number| number < bodies)?;
    let (settled, cpu) = node.wait_settled(fed.bytes)?;
    let seconds = (settled - started).as_secs_f64();
    eprintln!("{:.0} MB in {seconds:.1} s with {cpu:.1} s of CPU", fed.bytes as f64 / 1e6);
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;
    Ok(fed.bytes as f64 / seconds)
}

/// Sends numbered bodies at a rate in bytes per second while `go_on` returns true.
fn send(
    args: &UnderIngestArgs,
    corpus: &Corpus,
    node: &BenchNode,
    senders: usize,
    rate: f64,
    go_on: &(dyn Fn(usize) -> bool + Sync),
) -> anyhow::Result<FeedTotals> {
    let (file, batches) = (File::open(&corpus.path)?, corpus.batches(args.body.0)?);
    let posting = HttpLoad { address: node.address("http")?, senders, connect_anew: false };
    posting.send(|number| {
        let Some((start, end)) = batches.get(number % batches.len()).filter(|_| go_on(number)) else { return Ok(None) };
        let mut body = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut body, *start)?;
        let due = Duration::from_secs_f64(number as f64 * args.body.0 as f64 / rate);
        let target = format!("/api/v1/ingest?durability={}&label=client={}", args.durability, number % 100);
        Ok(Some(HttpPost { key: None, target, format: "text/plain", body, due }))
    })
}

fn questions(corpus: &Corpus, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<TimedQuery>> {
    let part = to.duration_since(from) / i32::try_from(NARROW_DIVISOR)?;
    let middle = from + to.duration_since(from) / 2;
    let over = |from: Timestamp, to: Timestamp| format!("from={from}&to={to}");
    let (wide, narrow) = (over(from, to), over(middle, middle + part));
    let (rare, frequent) = (encode(rare(&corpus.path)), encode(frequent(&corpus.path)));
    let question = |kind, path| TimedQuery { kind, path };
    Ok(vec![
        question("wide count, rare", format!("/api/v1/count?{wide}&q={rare}")),
        question("wide count, frequent", format!("/api/v1/count?{wide}&q={frequent}")),
        question("wide newest 100", format!("/api/v1/query?{wide}&q={frequent}&order=desc&limit=100")),
        question("wide histogram", format!("/api/v1/histogram?{wide}&q={frequent}&buckets=60")),
        question("narrow count, frequent", format!("/api/v1/count?{narrow}&q={frequent}")),
        question("narrow first 100", format!("/api/v1/query?{narrow}&q={frequent}&limit=100")),
    ])
}

/// Runs the queries in turn, and appends their durations.
fn time_queries(
    args: &UnderIngestArgs,
    questions: &[TimedQuery],
    node: &BenchNode,
    times: &mut [Vec<Duration>],
) -> anyhow::Result<()> {
    let mut http = node.http()?;
    // Runs each query once first, to fill the caches.
    for question in questions {
        http.get(&question.path)?;
    }
    let started = Instant::now();
    for number in 0..args.questions as usize {
        let due = Duration::from_millis(args.every * number as u64);
        thread::sleep(due.saturating_sub(started.elapsed()));
        let at = number % questions.len();
        let (Some(question), Some(times)) = (questions.get(at), times.get_mut(at)) else { continue };
        let started = Instant::now();
        let answer = http.get(&question.path)?;
        times.push(started.elapsed());
        ensure!(answer.status == 200, "{}: status {}", question.path, answer.status);
    }
    Ok(())
}

fn all(times: &[Vec<Duration>]) -> Vec<Duration> {
    times.concat()
}

fn percentiles(times: &[Duration]) -> Vec<Figure> {
    vec![
        figure("answered_p50", "ms", percentile_ms(times, 50.0)),
        figure("answered_p90", "ms", percentile_ms(times, 90.0)),
        figure("answered_p99", "ms", percentile_ms(times, 99.0)),
        figure("answered_max", "ms", percentile_ms(times, 100.0)),
        figure("queries", "questions", times.len() as f64),
    ]
}

fn against(busy: &[Duration], idle: &[Duration]) -> Figure {
    figure("p99_against_idle", "times", percentile_ms(busy, 99.0) / percentile_ms(idle, 99.0))
}

/// Activity counters of the node.
#[derive(Clone, Copy, Debug, Default)]
struct StoreCounters {
    merges: f64,
    merged: f64,
    throttled_seconds: f64,
    throttle_overrides: f64,
    refused: f64,
}

impl StoreCounters {
    fn of(node: &BenchNode) -> anyhow::Result<Self> {
        let of = |name: &str| node.metric(&format!("bucksaw_{name}"));
        Ok(Self {
            merges: of("store_compactions_total")?,
            merged: of("store_compacted_bytes_total")?,
            throttled_seconds: of("store_throttled_seconds_total")?,
            throttle_overrides: of("store_throttle_overrides_total")?,
            refused: of("ingest_refused_appends_total")?,
        })
    }

    /// Adds the difference of two readings.
    fn add(&mut self, after: &Self, before: &Self) {
        self.merges += after.merges - before.merges;
        self.merged += after.merged - before.merged;
        self.throttled_seconds += after.throttled_seconds - before.throttled_seconds;
        self.throttle_overrides += after.throttle_overrides - before.throttle_overrides;
        self.refused += after.refused - before.refused;
    }
}
