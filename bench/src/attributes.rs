//! `attributes`: bytes of records with a trace id and a pod name, and searches for a trace id.
//!
//! The same lines are stored with and without the attributes, so the difference is what these cost. A trace id is searched for
//! beside a rare word of a line: both are in as many records.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, ensure};
use bucksaw_faults::http::encode;
use clap::Args;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use crate::context::BenchContext;
use crate::cores::OneCore;
use crate::corpus::Corpus;
use crate::node::{BenchNode, number};
use crate::results::{BenchRun, Figure, figure};
use crate::spread::median;
use crate::{machine, process};

/// Text of a request, and concurrent senders.
const REQUEST_BYTES: u64 = 1_000_000;
const CONNECTIONS: usize = 2;

/// Consecutive records of one trace, and pods.
const RECORDS_PER_TRACE: u64 = 4;
const PODS: u64 = 40;

/// The record of whose trace the lines get [`RARE`], and that word.
const RARE_AT: u64 = 2_000_000;
const RARE: &str = "needle-attr-7c15f39e";

/// Runs of a query. The first fills caches for the others.
const RUNS: usize = 6;

/// Measure records with attributes
#[derive(Debug, Args)]
pub(crate) struct AttributesArgs {
    /// Records
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,

    /// Rounds of the searches
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &AttributesArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus()?;
    let mut results = context.results("attributes")?.with_corpus(&corpus);
    for with_attributes in [false, true] {
        let name = if with_attributes { "with attributes" } else { "lines alone" };
        let load = machine::load();
        let figures = store(args, context, &corpus, with_attributes)?;
        results.runs.push(BenchRun { subject: name.into(), round: 1, load, figures });
        for round in 1..=args.rounds as usize {
            let core = OneCore::take()?;
            // A node of its own for each query, so that none profits from the caches of another.
            for (kind, expr) in queries(args, with_attributes) {
                let node = context.node(NODE, &["--retention-age", "none"])?;
                let load = machine::load();
                let figures = time(&node, &expr, args)?;
                results.runs.push(BenchRun { subject: format!("{name}: {kind}"), round, load, figures });
                node.stop()?;
            }
            drop(core);
        }
        context.clear(&context.path(NODE))?;
    }
    context.report_in_rows(&results)
}

/// The name of the data directory.
const NODE: &str = "node";

fn rare_record(args: &AttributesArgs) -> u64 {
    RARE_AT.min(args.records / 2)
}

fn queries(args: &AttributesArgs, with_attributes: bool) -> Vec<(&'static str, String)> {
    let mut queries = vec![("rare literal", RARE.to_owned())];
    if with_attributes {
        let trace = trace_id(rare_record(args));
        queries.push(("trace_id=", format!("trace_id={trace}")));
        queries.push(("trace id as text", trace));
        queries.push(("absent trace_id=", format!("trace_id={}", trace_id(u64::MAX / 2))));
        queries.push(("pod=", format!("pod={}", pod(7))));
    }
    queries
}

/// The trace id of a record: 32 hexadecimal digits without a pattern.
fn trace_id(record: u64) -> String {
    let mix = |number: u64| {
        let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    };
    let trace = record / RECORDS_PER_TRACE;
    format!("{:016x}{:016x}", mix(trace.wrapping_add(1)), mix(!trace))
}

fn pod(record: u64) -> String {
    let number = record.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    format!("shop-{:07x}-{:02}", (number % PODS).wrapping_mul(0x1f3_59a7) & 0x0fff_ffff, number % PODS)
}

/// Stores the lines of the corpus, again and again, and returns what it cost.
fn store(
    args: &AttributesArgs,
    context: &BenchContext,
    corpus: &Corpus,
    with_attributes: bool,
) -> anyhow::Result<Vec<Figure>> {
    let node = context.node(NODE, &["--retention-age", "none"])?;
    let line_bytes = send(args, corpus, &node, with_attributes)?;
    let (_, cpu) = node.wait_settled(node.metric("bucksaw_ingest_bytes_total")? as u64)?;
    node.wait_removed()?;
    // A query fills caches.
    let (stored, peak) = (process::disk_bytes(node.dir())?, process::peak_mb(node.pid())?);
    node.assert_count(args.records)?;
    node.stop()?;
    Ok(vec![
        figure("records", "records", args.records as f64),
        figure("line_bytes_per_record", "bytes", line_bytes as f64 / args.records as f64),
        figure("stored_bytes_per_record", "bytes", stored as f64 / args.records as f64),
        figure("cpu_per_record", "ns", cpu * 1e9 / args.records as f64),
        figure("peak_memory", "MB", peak),
    ])
}

/// Sends the records as OTLP over HTTP. Returns the bytes of their lines.
fn send(args: &AttributesArgs, corpus: &Corpus, node: &BenchNode, with_attributes: bool) -> anyhow::Result<u64> {
    let (file, batches, next) = (File::open(&corpus.path)?, corpus.batches(REQUEST_BYTES)?, AtomicUsize::new(0));
    let (records, line_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let one = || -> anyhow::Result<()> {
        let mut http = node.http()?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((start, end)) = batches.get(number % batches.len()) else { return Ok(()) };
            let mut text = vec![0; usize::try_from(end - start)?];
            file.read_exact_at(&mut text, *start)?;
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.split_terminator('\n').collect();
            let first = records.fetch_add(lines.len() as u64, Ordering::Relaxed);
            let count = args.records.saturating_sub(first).min(lines.len() as u64) as usize;
            if count == 0 {
                return Ok(());
            }
            let request = request(lines.get(..count).unwrap_or_default(), first, args, with_attributes);
            let bytes: usize = lines.iter().take(count).map(|line| line.len()).sum();
            line_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            let format = [("Content-Type", "application/x-protobuf")];
            let answer = http.call("POST", "/v1/logs", &format, &request.encode_to_vec())?;
            ensure!(answer.status == 200, "status {}: {}", answer.status, answer.text());
        }
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_| anyhow!("a sender panicked"))?)
    })?;
    Ok(line_bytes.into_inner())
}

fn request(lines: &[&str], first: u64, args: &AttributesArgs, with_attributes: bool) -> ExportLogsServiceRequest {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let rare_trace = rare_record(args) / RECORDS_PER_TRACE;
    let record = |(number, line): (u64, &&str)| {
        let line = match number / RECORDS_PER_TRACE == rare_trace {
            true => format!("{line} {RARE}"),
            false => (*line).to_owned(),
        };
        let mut attributes = Vec::new();
        if with_attributes {
            attributes = vec![pair("trace_id", trace_id(number)), pair("pod", pod(number / 7))];
        }
        LogRecord {
            time_unix_nano: now + (number - first) * 1_000,
            body: Some(text(line)),
            attributes,
            ..LogRecord::default()
        }
    };
    let log_records = (first..).zip(lines).map(record).collect();
    let resource = Resource { attributes: vec![pair("service.name", "shop".to_owned())], ..Resource::default() };
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let logs = ResourceLogs { resource: Some(resource), scope_logs, ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

fn text(text: String) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text)) }
}

fn pair(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(text(value)), ..KeyValue::default() }
}

/// Counts the records that match an expression, several times.
fn time(node: &BenchNode, expr: &str, args: &AttributesArgs) -> anyhow::Result<Vec<Figure>> {
    let mut http = node.http()?;
    let (mut found, mut cpu, mut wall) = (0, Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (before, started) = (process::cpu_nanos(node.pid())?, Instant::now());
        let answer = http.get(&format!("/api/v1/count?from=30d&q={}", encode(expr)))?.ok_json()?;
        found = number(&answer, "/count")?;
        wall.push(started.elapsed().as_secs_f64() * 1e3);
        cpu.push((process::cpu_nanos(node.pid())? - before) as f64 / 1e6);
    }
    let again = |times: &[f64]| median(times.get(1..).unwrap_or_default());
    let first = |times: &[f64]| times.first().copied().unwrap_or(f64::NAN);
    Ok(vec![
        figure("records", "records", args.records as f64),
        figure("matches", "records", found as f64),
        figure("first_cpu", "ms", first(&cpu)),
        figure("first_wall", "ms", first(&wall)),
        figure("cpu", "ms", again(&cpu)),
        figure("wall", "ms", again(&wall)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_records_share_a_trace() {
        assert_eq!(trace_id(4), trace_id(7));
        assert_ne!(trace_id(4), trace_id(8));
        let all: std::collections::HashSet<String> = (0..1_000).map(|trace| trace_id(trace * 4)).collect();
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().all(|id| id.len() == 32));
        let pods: std::collections::HashSet<String> = (0..10_000).map(pod).collect();
        assert_eq!(pods.len() as u64, PODS);
    }
}
