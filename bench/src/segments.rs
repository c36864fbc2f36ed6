//! `segments`: the time to the first row of a narrow query with very many segments.
//!
//! The maximum sizes of queue segments and stored segments are set to the size of a body, so that each body becomes
//! one of each, too large to merge.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bucksaw_faults::wait;
use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::feed::FeedTotals;
use crate::http_load::{HttpLoad, HttpPost};
use crate::machine;
use crate::ndjson_stream::NdjsonStream;
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::spread::percentile_ms;

/// Bytes of the corpus that are sent repeatedly.
const SAMPLE: u64 = 64_000_000;

/// The interval of bodies, so that their times differ.
const FILE_TIME_STEP: Duration = Duration::from_millis(2);

/// Connections that send bodies.
const SENDERS: usize = 4;

/// The maximum time to create the segments.
const MADE_MAX: Duration = Duration::from_secs(600);

/// Measure the time to the first row with very many segments
#[derive(Debug, Args)]
pub(crate) struct SegmentsArgs {
    /// Minimum number of segments
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    segments: u32,

    /// Bytes of text of a segment
    #[arg(long, value_name = "SIZE", default_value = "16KB")]
    each: Size,

    /// Narrow queries of each kind
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    questions: u32,
}

/// Its multiples modulo 1 keep the largest distance from each other.
const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;

/// Queries a time range and returns the duration.
type TimedCall = fn(&BenchNode, &str) -> anyhow::Result<Duration>;

pub(crate) fn run(args: &SegmentsArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus_up_to(SAMPLE)?;
    let mut results = context.results("segments")?.with_corpus(&corpus);
    let each = args.each.0.to_string();
    let flags = ["--segment-max-bytes", &each, "--store-segment-bytes", &each, "--retention-age", "none"];
    let node = context.node("node", &flags)?;
    let from = Timestamp::now();
    let fed = send(args, &corpus, &node)?;
    let to = Timestamp::now();
    let segments = wait::until("the segments being made", Duration::from_millis(500), MADE_MAX, || {
        let queued = node.metric("bucksaw_store_backlog_bytes")?;
        let made = node.metric("bucksaw_store_segments")?;
        Ok((queued == 0.0 && node.metric("bucksaw_store_text_bytes")? as u64 == fed.bytes).then_some(made))
    })?;
    ensure!(segments >= f64::from(args.segments) * 0.9, "only {segments} segments exist");
    node.stop()?;
    let load = machine::load();
    let kinds: [(&str, &str, TimedCall); 3] = [
        ("first row", "&limit=100", first_row),
        ("newest row", "&limit=1&order=desc", first_row),
        ("count", "", counted),
    ];
    for (kind, more, ask) in kinds {
        for (span, parts) in [("narrow", 1_000), ("wide", 2)] {
            // A node that has just started has read no segment for the kind before.
            let node = context.node("node", &flags)?;
            let times = time_queries(args, (from, to), parts, |range| ask(&node, &format!("{range}{more}")))?;
            let mut figures = percentiles(&times);
            figures.push(figure("segments", "segments", segments));
            results.runs.push(BenchRun { subject: format!("{span}: {kind}"), round: 1, load, figures });
            node.assert_count(fed.lines)?;
            node.stop()?;
        }
    }
    context.report_in_rows(&results)
}

/// Sends a body for each segment.
fn send(args: &SegmentsArgs, corpus: &Corpus, node: &BenchNode) -> anyhow::Result<FeedTotals> {
    let (file, batches) = (File::open(&corpus.path)?, corpus.batches(args.each.0)?);
    let posting = HttpLoad { address: node.address("http")?, senders: SENDERS, connect_anew: false };
    posting.send(|number| {
        let batch = batches.get(number % batches.len()).filter(|_| number < args.segments as usize);
        let Some((start, end)) = batch else { return Ok(None) };
        let mut body = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut body, *start)?;
        let (due, target) = (FILE_TIME_STEP.mul_f64(number as f64), "/api/v1/ingest?durability=fast".into());
        Ok(Some(HttpPost { key: None, target, format: "text/plain", body, due }))
    })
}

/// Queries time ranges of a fraction of the whole range, distributed over it.
fn time_queries(
    args: &SegmentsArgs,
    (from, to): (Timestamp, Timestamp),
    parts: i64,
    ask: impl Fn(&str) -> anyhow::Result<Duration>,
) -> anyhow::Result<Vec<Duration>> {
    let span_ms = to.as_millisecond() - from.as_millisecond();
    let part_ms = (span_ms / parts).max(1);
    let ask = |number: u32| {
        // Multiples of the golden ratio, modulo 1, are spread evenly whatever the whole range is, so that as many ranges are read for
        // the first time in every run.
        let start_ms = (f64::from(number) * GOLDEN_RATIO).fract() * (span_ms - part_ms) as f64;
        let start = from + SignedDuration::from_millis(start_ms as i64);
        ask(&format!("from={start}&to={}", start + SignedDuration::from_millis(part_ms)))
    };
    (0..args.questions).map(ask).collect()
}

/// The time to the first row over a new connection, or to the end of an answer without rows.
fn first_row(node: &BenchNode, range: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut follow = NdjsonStream::open(node.http()?, &format!("/api/v1/query?{range}"))?;
    let mut first = None;
    while first.is_none()
        && follow.read_lines(|line| {
            if line.starts_with(b"{\"id\":") {
                first.get_or_insert_with(|| started.elapsed());
            }
        })?
    {}
    Ok(first.unwrap_or_else(|| started.elapsed()))
}

/// The time to the count over a new connection.
fn counted(node: &BenchNode, range: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let answer = node.http()?.get(&format!("/api/v1/count?{range}"))?;
    ensure!(answer.status == 200, "count: status {}", answer.status);
    Ok(started.elapsed())
}

fn percentiles(times: &[Duration]) -> Vec<Figure> {
    vec![
        figure("answered_p50", "ms", percentile_ms(times, 50.0)),
        figure("answered_p99", "ms", percentile_ms(times, 99.0)),
        figure("answered_max", "ms", percentile_ms(times, 100.0)),
    ]
}
