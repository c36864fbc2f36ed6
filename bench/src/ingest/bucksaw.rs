//! Ingest by Bucksaw over each of its interfaces.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_faults::wait;

use crate::context::BenchContext;
use crate::corpus::Corpus;
use crate::http_load::{HttpLoad, HttpPost};
use crate::node::BenchNode;
use crate::results::{Figure, SPEED, figure};
use crate::{feed, process};

/// Connections and body bytes over HTTP.
const CONNECTIONS: usize = 4;
const BODY_BYTES: u64 = 1_000_000;

/// The maximum time until `forward` exits after its input ended.
const FORWARD_MAX: Duration = Duration::from_secs(900);

/// Sends everything to a new node and waits until it is in the store. `push` returns when the node has accepted
/// everything, with the CPU seconds of the sender if known.
pub(super) fn run(
    context: &BenchContext,
    corpus: &Corpus,
    push: impl Fn(&BenchContext, &Corpus, &BenchNode) -> anyhow::Result<Option<f64>>,
) -> anyhow::Result<Vec<Figure>> {
    let node = context.node("node", &[])?;
    let started = Instant::now();
    let sender = push(context, corpus, &node).with_context(|| format!("log of the node: {}", node.log()))?;
    let accepted = started.elapsed().as_secs_f64();
    let cpu_accepted = node.cpu()?;
    node.wait_accepted(corpus.bytes)?;
    let (settled, cpu) = node.wait_settled(corpus.bytes)?;
    let peak = process::peak_mb(node.pid())?;
    let merged = node.metric("bucksaw_store_compacted_bytes_total")?;
    node.assert_count(corpus.lines)?;
    node.wait_removed()?;
    let disk = process::disk_bytes(node.dir())?;
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;

    let (mb, gb) = (corpus.bytes as f64 / 1e6, corpus.bytes as f64 / 1e9);
    let mut figures = vec![
        figure("accepted_after", "s", accepted),
        figure(SPEED, "MB/s", mb / accepted),
        figure("lines", "lines/s", corpus.lines as f64 / accepted),
        figure("settled_after", "s", (settled - started).as_secs_f64()),
        figure("cpu_when_accepted", "s/GB", cpu_accepted / gb),
        figure("cpu_when_settled", "s/GB", cpu / gb),
        figure("text_per_cpu_all_included", "MB/s", mb / cpu),
        figure("peak_memory", "MB", peak),
        figure("disk_per_raw_byte", "ratio", disk as f64 / corpus.bytes as f64),
        figure("merged_per_raw_byte", "ratio", merged / corpus.bytes as f64),
        figure("records_missing_or_duplicated", "records", 0.0),
    ];
    figures.extend(sender.map(|cpu| figure("cpu_of_sender", "s/GB", cpu / gb)));
    Ok(figures)
}

/// One connection to the listener `fast`.
pub(super) fn tcp_fast(_: &BenchContext, corpus: &Corpus, node: &BenchNode) -> anyhow::Result<Option<f64>> {
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    Ok(None)
}

/// Bodies over several connections, each answered once it is synced.
pub(super) fn http_durable(_: &BenchContext, corpus: &Corpus, node: &BenchNode) -> anyhow::Result<Option<f64>> {
    let (file, batches) = (File::open(&corpus.path)?, corpus.batches(BODY_BYTES)?);
    let posting = HttpLoad { address: node.address("http")?, senders: CONNECTIONS, connect_anew: false };
    let sent = posting.send(|number| {
        let Some((start, end)) = batches.get(number) else { return Ok(None) };
        let mut body = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut body, *start)?;
        let target = "/api/v1/ingest?durability=durable".into();
        Ok(Some(HttpPost { key: None, target, format: "text/plain", body, due: Duration::ZERO }))
    })?;
    ensure!(sent.lines == corpus.lines, "{} lines were sent, and {} accepted", corpus.lines, sent.lines);
    Ok(None)
}

/// `bucksaw forward` with the file as standard input, which exits once everything is acknowledged.
pub(super) fn forward(context: &BenchContext, corpus: &Corpus, node: &BenchNode) -> anyhow::Result<Option<f64>> {
    let mut child = Command::new(&context.bucksaw)
        .args(["forward", "--to", node.address("fast")?])
        .stdin(File::open(&corpus.path)?)
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start bucksaw forward")?;
    let pid = child.id();
    let ended = wait::until("the end of bucksaw forward", Duration::from_millis(2), FORWARD_MAX, || {
        Ok(process::has_ended(pid)?.then_some(()))
    });
    let cpu = process::cpu_seconds(pid)?;
    if ended.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    ended?;
    ensure!(status.success(), "bucksaw forward failed: {status}");
    Ok(Some(cpu))
}
