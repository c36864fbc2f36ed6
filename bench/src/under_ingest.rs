//! `under-ingest`: what questions take while lines come in, are packed and merged, against what they take when nothing
//! does.
//!
//! The questions are over lines that were there before, all of them or a small part, so that the work for an answer is the
//! same in both cases and only what goes on beside it differs. The lines come in small bodies. Left to itself they wait for
//! the store (`bulk`), as in `compaction`, so that all is going on all the time: gathering, packing, merging.

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

/// Bodies on their way at the same time, unpaced. Paced there are more, or one that waits would hold up the others.
const SENDERS: usize = 4;
const SENDERS_PACED: usize = 16;

/// A narrow question is over so much of the span of the lines that were there before.
const NARROW_DIVISOR: u32 = 20;

/// How long lines come in before the first question.
const WARM_UP: Duration = Duration::from_secs(5);

/// How much slower questions are while lines come in
#[derive(Debug, Args)]
pub(crate) struct UnderIngestArgs {
    /// The lines that are asked about; left out, they are generated
    #[arg(value_name = "FILE")]
    files: Vec<std::path::PathBuf>,

    /// How often both are measured, in turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many questions are asked, each time
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    questions: u32,

    /// Milliseconds from one question to the next
    #[arg(long, value_name = "MS", default_value_t = 100)]
    every: u64,

    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "250KB")]
    body: Size,

    /// How much is sent to find out what rate can be sustained
    #[arg(long, value_name = "SIZE", default_value = "400MB")]
    sustained: Size,

    /// What the answer to a body waits for; only with `bulk` are there many small segments to merge
    #[arg(long, value_name = "D", default_value = "bulk", value_parser = ["fast", "durable", "bulk"])]
    durability: String,

    /// Of a hundred parts of that rate, so many come in while questions are asked
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    percent: f64,
}

/// What is asked: a kind, and the path and query of its URL.
struct TimedQuery {
    kind: &'static str,
    path: String,
}

pub(crate) fn run(args: &UnderIngestArgs, setting: &BenchContext) -> anyhow::Result<()> {
    let mut results = setting.results("under-ingest")?;
    for corpus in setting.corpora(&args.files)? {
        results.runs.extend(measure_corpus(args, setting, &corpus)?);
    }
    setting.report_in_rows(&results)
}

fn measure_corpus(args: &UnderIngestArgs, setting: &BenchContext, corpus: &Corpus) -> anyhow::Result<Vec<BenchRun>> {
    let sustained = sustained(args, setting, corpus)?;
    let rate = sustained * args.percent / 100.0;
    eprintln!("{:.1} MB/s can be sustained; {:.1} MB/s come in", sustained / 1e6, rate / 1e6);

    let node = setting.node("node", &["--retention-age", "none"])?;
    let from = Timestamp::now();
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    let to = Timestamp::now();
    node.wait_settled(corpus.bytes)?;
    let questions = questions(corpus, from, to)?;

    let load = machine::load();
    let (mut idle, mut busy) = (vec![Vec::new(); questions.len()], vec![Vec::new(); questions.len()]);
    let (mut fed, mut meanwhile) = (FeedTotals::default(), StoreCounters::default());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        node.wait_settled(corpus.bytes + fed.bytes)?;
        time_queries(args, &questions, &node, &mut idle)?;
        let before = StoreCounters::of(&node)?;
        let sent =
            measure_under_ingest(args, corpus, &node, rate, || time_queries(args, &questions, &node, &mut busy))?;
        meanwhile.add(&StoreCounters::of(&node)?, &before);
        fed = FeedTotals {
            bytes: fed.bytes + sent.bytes,
            lines: fed.lines + sent.lines,
            seconds: fed.seconds + sent.seconds,
            behind: fed.behind.max(sent.behind),
        };
    }
    ensure!(
        meanwhile.merges > 0.0 || args.durability != "bulk",
        "nothing was merged meanwhile: let more come in, or for longer"
    );
    node.assert_count(corpus.lines + fed.lines)?;
    let dir = node.dir().to_owned();
    node.stop()?;
    setting.clear(&dir)?;

    let name = corpus.name();
    let run = |subject: String, load, figures| BenchRun { subject, round: 1, load, figures };
    let mut runs = vec![run(format!("{name}: idle"), load, percentiles(&all(&idle)))];
    let mut figures = percentiles(&all(&busy));
    figures.push(against(&all(&busy), &all(&idle)));
    figures.extend([
        figure("sustained_rate", "MB/s", sustained / 1e6),
        figure("rate_meanwhile", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_behind_at_worst", "s", fed.behind),
        figure("merged_meanwhile", "MB", meanwhile.merged / 1e6),
        figure("merges_meanwhile", "merges", meanwhile.merges),
        figure("stepped_aside", "s", meanwhile.throttled_seconds),
        figure("debt_overrides", "times", meanwhile.throttle_overrides),
        figure("refused", "bodies and questions", meanwhile.refused),
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

/// Bytes a second that a node takes, packs and merges when it has nothing else to do.
fn sustained(args: &UnderIngestArgs, setting: &BenchContext, corpus: &Corpus) -> anyhow::Result<f64> {
    let node = setting.node("sustained", &[])?;
    let started = Instant::now();
    let bodies = usize::try_from(args.sustained.0 / args.body.0)?;
    let fed = send(args, corpus, &node, SENDERS, f64::INFINITY, &|number| number < bodies)?;
    let (settled, cpu) = node.wait_settled(fed.bytes)?;
    let seconds = (settled - started).as_secs_f64();
    eprintln!("{:.0} MB in {seconds:.1} s with {cpu:.1} s of CPU", fed.bytes as f64 / 1e6);
    let dir = node.dir().to_owned();
    node.stop()?;
    setting.clear(&dir)?;
    Ok(fed.bytes as f64 / seconds)
}

/// Sends bodies while `go_on` says so of their numbers, at so many bytes a second.
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
        Ok(Some(HttpPost { target, format: "text/plain", body, due }))
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

/// Asks the questions in turn, and adds for each how long its answers took.
fn time_queries(
    args: &UnderIngestArgs,
    questions: &[TimedQuery],
    node: &BenchNode,
    times: &mut [Vec<Duration>],
) -> anyhow::Result<()> {
    let mut http = node.http()?;
    // Once over everything, so that what is read first by anyone is not counted.
    for question in questions {
        http.get(&question.path)?;
    }
    let started = Instant::now();
    for number in 0..args.questions as usize {
        let due = Duration::from_millis(args.every * number as u64);
        thread::sleep(due.saturating_sub(started.elapsed()));
        let at = number % questions.len();
        let (Some(question), Some(times)) = (questions.get(at), times.get_mut(at)) else { continue };
        let began = Instant::now();
        let answer = http.get(&question.path)?;
        times.push(began.elapsed());
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
        figure("questions", "questions", times.len() as f64),
    ]
}

fn against(busy: &[Duration], idle: &[Duration]) -> Figure {
    figure("p99_against_idle", "times", percentile_ms(busy, 99.0) / percentile_ms(idle, 99.0))
}

/// What the node says of what it did.
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

    /// Adds what was done from one to the other.
    fn add(&mut self, after: &Self, before: &Self) {
        self.merges += after.merges - before.merges;
        self.merged += after.merged - before.merged;
        self.throttled_seconds += after.throttled_seconds - before.throttled_seconds;
        self.throttle_overrides += after.throttle_overrides - before.throttle_overrides;
        self.refused += after.refused - before.refused;
    }
}
