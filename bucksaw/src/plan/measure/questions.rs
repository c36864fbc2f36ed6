//! What questions cost: without text in their range, over the queue, with an empty block cache, and with a full one.
//!
//! A needle is in one block, whatever the range. So the block is a part of the fixed cost, and the cost per byte is that of a word
//! that no block has.

use anyhow::Context as _;
use bucksaw_capacity::{QuestionCost, QuestionKind};
use bytes::Bytes;

use super::measured_node::{MeasuredNode, random_word};
use super::sample::Sample;

/// The words of each kind, and how often each is asked for once its blocks are in the block cache.
const WORDS: usize = 3;
const CACHED_ROUNDS: usize = 5;

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

/// CPU seconds per byte of questions of each kind over text in a queue, in the order of [`QuestionKind::ALL`], on a node that
/// has `bytes` bytes of it and no store.
pub(super) async fn measure_queued(node: &MeasuredNode, sample: &Sample, bytes: f64) -> anyhow::Result<Vec<f64>> {
    let absent = Needles::new()?.absent;
    let mut costs = Vec::new();
    for kind in QuestionKind::ALL {
        let (mut fixed, mut queued) = (Vec::new(), Vec::new());
        for expression in expressions(kind, sample, &absent) {
            for _ in 0..CACHED_ROUNDS {
                fixed.push(ask(node, kind, &expression, false).await?);
                queued.push(ask(node, kind, &expression, true).await?);
            }
        }
        let fixed = median(&mut fixed).context("no question was asked")?;
        costs.push((mean(&queued) - fixed).max(0.0) / bytes);
    }
    Ok(costs)
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
    (bytes, queued_costs): (f64, &[f64]),
) -> anyhow::Result<Vec<QuestionCost>> {
    let mut costs = Vec::new();
    for (kind, queued_seconds_per_byte) in QuestionKind::ALL.into_iter().zip(queued_costs) {
        let expressions = expressions(kind, sample, &needles.absent);
        let mut cost = measure_kind(node, kind, &expressions, bytes).await?;
        cost.queued_seconds_per_byte = *queued_seconds_per_byte;
        if kind == QuestionKind::Needle {
            let present = measure_kind(node, kind, &needles.present, bytes).await?;
            cost.fixed_seconds += (present.cold_seconds_per_byte - cost.cold_seconds_per_byte).max(0.0) * bytes;
            cost.variation = present.variation;
        }
        costs.push(cost);
    }
    Ok(costs)
}

async fn measure_kind(
    node: &mut MeasuredNode,
    kind: QuestionKind,
    expressions: &[String],
    bytes: f64,
) -> anyhow::Result<QuestionCost> {
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
    let fixed = median(&mut fixed).context("no question was asked")?;
    let per_byte = |seconds: f64| (seconds - fixed).max(0.0) / bytes;
    let variation = variation(&cached);
    Ok(QuestionCost {
        kind,
        fixed_seconds: fixed,
        queued_seconds_per_byte: 0.0,
        cold_seconds_per_byte: per_byte(mean(&cold)),
        cached_seconds_per_byte: per_byte(mean(&cached)),
        cache_per_byte: mean(&cache).max(0.0) / bytes,
        variation,
    })
}

/// The CPU seconds of one question.
async fn ask(node: &MeasuredNode, kind: QuestionKind, expression: &str, has_text: bool) -> anyhow::Result<f64> {
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
    let before = node.cpu_seconds().await?;
    node.ask(call, &parameters).await?;
    // The two readings of the metric around it cost less than a tenth of a millisecond, which is part of the result.
    Ok(node.cpu_seconds().await? - before)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Standard deviation over mean.
fn variation(values: &[f64]) -> f64 {
    let mean_value = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - mean_value).powi(2)).collect();
    if mean_value > 0.0 { mean(&squares).sqrt() / mean_value } else { 0.0 }
}
