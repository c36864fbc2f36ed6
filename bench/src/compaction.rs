//! `compaction`: what it costs when records come in small pieces, which the store has to merge.
//!
//! Every body is a client's, comes over a connection of its own, and waits for the store (`bulk`), which therefore takes
//! small bites: many small segments, as a node has after a long time with little to do, in as short a time as it can
//! make them. When the lines are late as well, each client by as much as it likes, these segments overlap.

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

/// Bodies on their way at the same time.
const SENDERS: usize = 4;

const CPU: &str = "cpu_when_settled";

/// What it costs to merge what came in small pieces
#[derive(Debug, Args)]
pub(crate) struct CompactionArgs {
    /// How often each is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "250KB")]
    body: Size,

    /// Clients, each with a label of its own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,

    /// How late the latest client's lines are, in seconds; the others' are less
    #[arg(long, value_name = "S", default_value_t = 600)]
    late: u64,
}

pub(crate) fn run(args: &CompactionArgs, setting: &BenchContext) -> anyhow::Result<()> {
    let corpus = setting.corpus()?;
    let mut results = setting.results("compaction")?.with_corpus(&corpus);
    for round in 1..=args.rounds as usize {
        for (subject, is_late) in [("in-time", false), ("late", true)] {
            let load = machine::load();
            let figures = measure(args, setting, &corpus, is_late)?;
            let run = BenchRun { subject: subject.into(), round, load, figures };
            let cpu = run.value(CPU).unwrap_or(f64::NAN);
            eprintln!("round {round} of {}: {subject} {cpu:.1} s of CPU a GB (load {load:.1})", args.rounds);
            results.runs.push(run);
        }
    }
    setting.report(&results)
}

fn measure(
    args: &CompactionArgs,
    setting: &BenchContext,
    corpus: &Corpus,
    is_late: bool,
) -> anyhow::Result<Vec<Figure>> {
    let node = setting.node("node", &[])?;
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
    setting.clear(&dir)?;

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
        figure("segments_at_the_end", "files", segments),
        figure("records_missing_or_doubled", "records", 0.0),
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
        Ok(Some(HttpPost { target, format, body, due: Duration::ZERO }))
    })
}

/// Each line in an object that states its time: one a millisecond, the last at `until`.
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
    fn lines_state_their_times() {
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
