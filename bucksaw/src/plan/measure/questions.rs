//! What questions cost: without text in their range, over the queue, with an empty block cache, and with a full one.
//!
//! A needle is in one block, whatever the range. So the block is a part of the fixed cost, and the cost per byte is that of a word
//! that no block has.
//!
//! Before each question is a pause, as between those of users: one after the other would take a tenth to a fifth less CPU, since the
//! threads of the node stay awake and its data in the caches of the processor.
//!
//! How much of the work of a question runs on one core follows from its time and its CPU, both without those of a question over no
//! text.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bucksaw_capacity::{QuestionCost, QuestionKind};
use bytes::Bytes;
use tokio::time::sleep;

use super::measured_node::{MeasuredNode, random_word};
use super::median::median;
use super::sample::Sample;

/// The words of each kind, and how often each is asked for once its blocks are in the block cache.
const WORDS: usize = 3;
const CACHED_ROUNDS: usize = 5;

/// The time without work before each question.
const PAUSE: Duration = Duration::from_millis(100);

/// The share of lines that have a frequent word, and the number of such words: they differ more than others.
const FREQUENT_SHARE: f64 = 0.05;
const FREQUENT_WORDS: usize = 6;

/// Regular expressions without a literal.
const REGEXES: [&str; WORDS] = ["/[0-9][a-z][0-9]/", "/[a-z]{3}[0-9]{2}[^a-z0-9]/", "/[A-Z][a-z]+[0-9]/"];

/// A range in which there are no records: one second in 2001.
const EMPTY_RANGE: [(&str, &str); 2] = [("from", "1000000000"), ("to", "1000000001")];

/// Words that one line each has, and words that no line has.
#[derive(Debug)]
pub(super) struct Needles {
    present: Vec<String>,
    absent: Vec<String>,
}

impl Needles {
    /// Draws them.
    pub(super) fn new() -> anyhow::Result<Self> {
        let words = || (0..WORDS).map(|_| random_word()).collect::<anyhow::Result<_>>();
        Ok(Self { present: words()?, absent: words()? })
    }

    /// A body with lines of the sample that end with the words that are present.
    pub(super) fn appended(&self, body: &[u8], sample: &Sample) -> Bytes {
        let mut text = body.to_vec();
        for word in &self.present {
            text.extend_from_slice(sample.first_lines(1).trim_ascii_end());
            text.extend_from_slice(format!(" {word}\n").as_bytes());
        }
        text.into()
    }
}

/// What a question, or the work of several on their text, took.
#[derive(Clone, Copy, Debug, Default)]
struct QuestionTime {
    seconds: f64,
    cpu_seconds: f64,
}

impl QuestionTime {
    /// The part of questions that depends on their text, from one over none.
    fn on_text(questions: &[Self], fixed: Self) -> Self {
        let sum = |of: fn(&Self) -> f64, fixed: f64| questions.iter().map(|time| (of(time) - fixed).max(0.0)).sum();
        Self {
            seconds: sum(|time| time.seconds, fixed.seconds),
            cpu_seconds: sum(|time| time.cpu_seconds, fixed.cpu_seconds),
        }
    }

    /// The medians of both times of questions.
    fn median(questions: &[Self]) -> anyhow::Result<Self> {
        let of = |time: fn(&Self) -> f64| median(questions.iter().map(time).collect());
        let times = of(|time| time.seconds).zip(of(|time| time.cpu_seconds));
        let (seconds, cpu_seconds) = times.context("no question was asked")?;
        Ok(Self { seconds, cpu_seconds })
    }

    /// The serial share on this machine, from the work on text of several measurements.
    fn serial_share(works: &[Self]) -> f64 {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let sum = |of: fn(&Self) -> f64| works.iter().map(of).sum::<f64>();
        let cpu_seconds = sum(|work| work.cpu_seconds);
        if cpu_seconds > 0.0 {
            QuestionCost::serial_share_of(sum(|work| work.seconds) / cpu_seconds, threads)
        } else {
            0.0
        }
    }
}

/// What questions of one kind took over text in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedTime {
    seconds_per_byte: f64,
    on_text: QuestionTime,
}

/// What questions of each kind take over text in a queue, in the order of [`QuestionKind::ALL`], on a node that has `bytes` bytes
/// of it and no store.
pub(super) async fn measure_queued(
    node: &MeasuredNode,
    sample: &Sample,
    bytes: f64,
) -> anyhow::Result<Vec<QueuedTime>> {
    let absent = Needles::new()?.absent;
    let mut times = Vec::new();
    for kind in QuestionKind::ALL {
        let (mut fixed, mut queued) = (Vec::new(), Vec::new());
        for expression in expressions(kind, sample, &absent) {
            for _ in 0..CACHED_ROUNDS {
                fixed.push(ask(node, kind, &expression, false).await?);
                queued.push(ask(node, kind, &expression, true).await?);
            }
        }
        let fixed = QuestionTime::median(&fixed)?;
        let seconds_per_byte = (mean_cpu(&queued) - fixed.cpu_seconds).max(0.0) / bytes;
        times.push(QueuedTime { seconds_per_byte, on_text: QuestionTime::on_text(&queued, fixed) });
    }
    Ok(times)
}

/// The expressions of a kind.
fn expressions(kind: QuestionKind, sample: &Sample, absent: &[String]) -> Vec<String> {
    match kind {
        QuestionKind::Needle => absent.to_vec(),
        QuestionKind::Regex => REGEXES.map(str::to_owned).to_vec(),
        QuestionKind::Word | QuestionKind::Histogram => sample.words(FREQUENT_SHARE, FREQUENT_WORDS),
    }
}

/// The costs of all kinds on a node that holds `bytes` bytes of text, with hardly anything left to do. Those of the queue were
/// measured before.
pub(super) async fn measure(
    node: &mut MeasuredNode,
    sample: &Sample,
    needles: &Needles,
    (bytes, queued): (f64, &[QueuedTime]),
) -> anyhow::Result<Vec<QuestionCost>> {
    let mut costs = Vec::new();
    for (kind, queued) in QuestionKind::ALL.into_iter().zip(queued) {
        let expressions = expressions(kind, sample, &needles.absent);
        let (mut cost, on_text) = measure_kind(node, kind, &expressions, bytes).await?;
        cost.queued_seconds_per_byte = queued.seconds_per_byte;
        cost.serial_share = QuestionTime::serial_share(&[queued.on_text, on_text]);
        if kind == QuestionKind::Needle {
            let (present, _) = measure_kind(node, kind, &needles.present, bytes).await?;
            cost.fixed_seconds += (present.cold_seconds_per_byte - cost.cold_seconds_per_byte).max(0.0) * bytes;
            cost.variation = present.variation;
        }
        costs.push(cost);
    }
    Ok(costs)
}

/// The costs of a kind over stored text, and what the work on it took.
async fn measure_kind(
    node: &mut MeasuredNode,
    kind: QuestionKind,
    expressions: &[String],
    bytes: f64,
) -> anyhow::Result<(QuestionCost, QuestionTime)> {
    let (mut fixed, mut cold, mut cached, mut cache) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for expression in expressions {
        node.restart().await?;
        // The first request of a node makes what later ones use again.
        for _ in 0..CACHED_ROUNDS {
            fixed.push(ask(node, kind, expression, false).await?);
        }
        let empty = node.metric("bucksaw_query_cache_bytes").await?;
        cold.push(ask(node, kind, expression, true).await?);
        // The second run may decode what the first one did not need.
        ask(node, kind, expression, true).await?;
        for _ in 0..CACHED_ROUNDS {
            cached.push(ask(node, kind, expression, true).await?);
        }
        cache.push(node.metric("bucksaw_query_cache_bytes").await? - empty);
    }
    let fixed = QuestionTime::median(&fixed)?;
    let per_byte = |times: &[QuestionTime]| (mean_cpu(times) - fixed.cpu_seconds).max(0.0) / bytes;
    let cost = QuestionCost {
        kind,
        fixed_seconds: fixed.cpu_seconds,
        queued_seconds_per_byte: 0.0,
        cold_seconds_per_byte: per_byte(&cold),
        cached_seconds_per_byte: per_byte(&cached),
        cache_per_byte: mean(&cache).max(0.0) / bytes,
        serial_share: 0.0,
        variation: variation(&cached),
    };
    Ok((cost, QuestionTime::on_text(&[cold, cached].concat(), fixed)))
}

/// What one question took.
async fn ask(
    node: &MeasuredNode,
    kind: QuestionKind,
    expression: &str,
    has_text: bool,
) -> anyhow::Result<QuestionTime> {
    let (call, mut parameters) = match kind {
        QuestionKind::Histogram => ("/api/v1/histogram", vec![("buckets", "60".to_owned())]),
        _ => ("/api/v1/count", Vec::new()),
    };
    parameters.push(("q", expression.to_owned()));
    if has_text {
        parameters.push(("from", "1d".to_owned()));
    } else {
        parameters.extend(EMPTY_RANGE.map(|(name, value)| (name, value.to_owned())));
    }
    sleep(PAUSE).await;
    let before = node.cpu_seconds().await?;
    let started = Instant::now();
    node.ask(call, &parameters).await?;
    let seconds = started.elapsed().as_secs_f64();
    // The two readings of the metric around it cost less than a tenth of a millisecond, which is part of the result.
    Ok(QuestionTime { seconds, cpu_seconds: node.cpu_seconds().await? - before })
}

fn mean_cpu(times: &[QuestionTime]) -> f64 {
    mean(&times.iter().map(|time| time.cpu_seconds).collect::<Vec<_>>())
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Standard deviation of the CPU over its mean.
fn variation(times: &[QuestionTime]) -> f64 {
    let mean_value = mean_cpu(times);
    let squares: Vec<f64> = times.iter().map(|time| (time.cpu_seconds - mean_value).powi(2)).collect();
    if mean_value > 0.0 { mean(&squares).sqrt() / mean_value } else { 0.0 }
}
