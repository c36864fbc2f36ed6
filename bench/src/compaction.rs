//! `compaction`: the cost of merging many small segments.
//!
//! Each body belongs to one client, uses its own connection and waits for the store (`bulk`), so the store fetches
//! little at a time and writes many small segments, as a mostly idle node does over hours. If the lines are also late,
//! by a different time per client, these segments overlap.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::feed::FeedTotals;
use crate::http_load::{HttpLoad, HttpPost};
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// Concurrent bodies.
const SENDERS: usize = 4;

const CPU: &str = "cpu_when_settled";

/// Measure the cost of merging many small segments
#[derive(Debug, Args)]
pub(crate) struct CompactionArgs {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "250KB")]
    body: Size,

    /// Clients, each with its own label
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,

    /// Maximum seconds by which the lines of a client are late
    #[arg(long, value_name = "S", default_value_t = 600)]
    late: u64,
}

pub(crate) fn run(args: &CompactionArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus()?;
    let mut results = context.results("compaction")?.with_corpus(&corpus);
    for round in 1..=args.rounds as usize {
        for (subject, is_late) in [("in-time", false), ("late", true)] {
            let load = machine::load();
            let figures = measure(args, context, &corpus, is_late)?;
            let run = BenchRun { subject: subject.into(), round, load, figures };
            let cpu = run.value(CPU).unwrap_or(f64::NAN);
            eprintln!("round {round} of {}: {subject} {cpu:.1} s of CPU per GB (load {load:.1})", args.rounds);
            results.runs.push(run);
        }
    }
    context.report(&results)
}

fn measure(
    args: &CompactionArgs,
    context: &BenchContext,
    corpus: &Corpus,
    is_late: bool,
) -> anyhow::Result<Vec<Figure>> {
    let node = context.node("node", &[])?;
    let started = Instant::now();
    let fed = send(args, corpus, &node, is_late)?;
    let accepted = started.elapsed().as_secs_f64();
    let (settled, cpu) = node.wait_settled(fed.bytes)?;
    node.assert_count(fed.lines)?;
    let peak = process::peak_mb(node.pid())?;
    let of = |name: &str| node.metric(&format!("bucksaw_store_{name}"));
    let (merges, merged, written) =
        (of("compactions_total")?, of("compacted_bytes_total")?, of("written_bytes_total")?);
    let segments = of("segments")?;
    node.wait_removed()?;
    let disk = process::disk_bytes(node.dir())?;
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;

    let raw = fed.bytes as f64;
    Ok(vec![
        figure("sent", "MB", raw / 1e6),
        figure("accepted_after", "s", accepted),
        figure("settled_after", "s", (settled - started).as_secs_f64()),
        figure(CPU, "s/GB", cpu / (raw / 1e9)),
        figure("text_per_cpu_all_included", "MB/s", raw / 1e6 / cpu),
        figure("peak_memory", "MB", peak),
        figure("disk_per_raw_byte", "ratio", disk as f64 / raw),
        figure("written_per_raw_byte", "ratio", written / raw),
        figure("merged_per_raw_byte", "ratio", merged / raw),
        figure("merges", "merges", merges),
        figure("segments_end", "files", segments),
        figure("records_missing_or_duplicated", "records", 0.0),
    ])
}

fn send(args: &CompactionArgs, corpus: &Corpus, node: &BenchNode, is_late: bool) -> anyhow::Result<FeedTotals> {
    let (file, batches) = (File::open(&corpus.path)?, corpus.batches(args.body.0)?);
    let posting = HttpLoad { address: node.address("http")?, senders: SENDERS, connect_anew: true };
    posting.send(|number| {
        let Some((start, end)) = batches.get(number) else { return Ok(None) };
        let mut body = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut body, *start)?;
        let client = number as u64 % args.clients;
        let mut format = "text/plain";
        if is_late {
            let late = SignedDuration::from_millis(i64::try_from(1_000 * args.late * client / args.clients)?);
            (body, format) = (with_times(&body, Timestamp::now() - late)?, "application/x-ndjson");
        }
        let target = format!("/api/v1/ingest?durability=bulk&label=client={client}");
        Ok(Some(HttpPost { key: None, target, format, body, due: Duration::ZERO }))
    })
}

/// Converts each line to a JSON object with an event time, one per millisecond, the last at `until`.
fn with_times(lines: &[u8], until: Timestamp) -> anyhow::Result<Vec<u8>> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let first = until.as_millisecond() - i64::try_from(memchr::memchr_iter(b'\n', lines).count())?;
    let mut objects = Vec::with_capacity(lines.len() * 5 / 4);
    for (line, time) in lines.split(|byte| *byte == b'\n').zip(first..) {
        let text = serde_json::to_string(&String::from_utf8_lossy(line))?;
        writeln!(objects, "{{\"time\":{time},\"line\":{text}}}")?;
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_lines_have_event_times() {
        let check = |lines: &[u8], want: &str| {
            let until = Timestamp::from_millisecond(1_000).unwrap();
            assert_eq!(String::from_utf8(with_times(lines, until).unwrap()).unwrap(), want);
        };
        check(b"a \"b\"\n", "{\"time\":1000,\"line\":\"a \\\"b\\\"\"}\n");
        check(
            b"a\n\nb",
            "{\"time\":998,\"line\":\"a\"}\n{\"time\":999,\"line\":\"\"}\n{\"time\":1000,\"line\":\"b\"}\n",
        );
    }
}
