//! `senders`: the cost of ingest in the protocols of other log systems, beside VictoriaLogs and Loki.
//!
//! Every subject gets the same lines in the same requests. Encoding them is not part of the figures: it is done by this process.

mod grpc_client;
mod messages;
mod protocol;
pub(crate) mod rival;
mod server;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;

use crate::context::BenchContext;
use crate::corpus::Corpus;
use crate::machine;
use crate::node::http_client;
use crate::results::{BenchRun, Figure, figure};
pub(crate) use grpc_client::ExportClient;
pub(crate) use protocol::SenderProtocol;
use rival::Rival;
use server::SenderServer;

/// Text of a request, as shippers send it, and concurrent senders.
const REQUEST_BYTES: u64 = 1_000_000;
const CONNECTIONS: usize = 2;

/// Measure ingest in the protocols of other log systems
#[derive(Debug, Args)]
pub(crate) struct SendersArgs {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Protocols, repeatable or separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["loki", "elasticsearch", "otlp", "otlp-grpc", "syslog", "fluent"])]
    protocols: Vec<SenderProtocol>,

    /// Program of VictoriaLogs to compare with
    #[arg(long, value_name = "FILE")]
    victoria: Option<PathBuf>,

    /// Program of Loki to compare with
    #[arg(long, value_name = "FILE")]
    loki: Option<PathBuf>,
}

pub(crate) fn run(args: &SendersArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus()?;
    let mut results = context.results("senders")?.with_corpus(&corpus);
    for round in 1..=args.rounds as usize {
        for protocol in &args.protocols {
            let rivals = [(Rival::VictoriaLogs, &args.victoria), (Rival::Loki, &args.loki)];
            let rivals = rivals.into_iter().filter(|(rival, _)| rival.takes(*protocol));
            let rivals = rivals.filter_map(|(rival, program)| Some((rival, program.as_deref()?)));
            for rival in [None].into_iter().chain(rivals.map(Some)) {
                let (name, load) = (rival.map_or("bucksaw", |(rival, _)| rival.name()), machine::load());
                let server = match rival {
                    Some((rival, program)) => SenderServer::rival(context, rival, program)?,
                    None => SenderServer::bucksaw(context)?,
                };
                let figures = measure(*protocol, &corpus, server, context)
                    .with_context(|| format!("{} to {name}", protocol.name()))?;
                let run = BenchRun { subject: format!("{} {name}", protocol.name()), round, load, figures };
                let speed = run.value("text_per_cpu").unwrap_or(f64::NAN);
                eprintln!(
                    "round {round} of {}: {} {speed:.0} MB per CPU second (load {load:.1})",
                    args.rounds, run.subject
                );
                results.runs.push(run);
            }
        }
    }
    context.report_in_rows(&results)
}

fn measure(
    protocol: SenderProtocol,
    corpus: &Corpus,
    server: SenderServer,
    context: &BenchContext,
) -> anyhow::Result<Vec<Figure>> {
    send(protocol, corpus, &server)?;
    server.wait_accepted(corpus.lines)?;
    let cpu = server.wait_settled()?;
    let (peak, disk) = (server.peak_mb()?, server.disk_bytes()?);
    let found = server.count()?;
    ensure!(found == corpus.lines, "{} lines were sent, and {found} records are there", corpus.lines);
    let dir = server.stop()?;
    context.clear(&dir)?;
    let mb = corpus.bytes as f64 / 1e6;
    Ok(vec![
        figure("text_per_cpu", "MB/s", mb / cpu),
        figure("peak_memory", "MB", peak),
        figure("disk_per_raw_byte", "ratio", disk as f64 / corpus.bytes as f64),
    ])
}

/// Sends all lines over several connections.
fn send(protocol: SenderProtocol, corpus: &Corpus, server: &SenderServer) -> anyhow::Result<()> {
    let (file, batches, next) = (File::open(&corpus.path)?, corpus.batches(REQUEST_BYTES)?, AtomicUsize::new(0));
    let next_message = || -> anyhow::Result<Option<Vec<u8>>> {
        let Some((start, end)) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(None) };
        let mut text = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut text, *start)?;
        let text = String::from_utf8_lossy(&text);
        Ok(Some(protocol.message(&text.split_terminator('\n').collect::<Vec<_>>())?))
    };
    thread::scope(|scope| {
        let one = || {
            if protocol == SenderProtocol::OtlpGrpc {
                let mut grpc = ExportClient::connect(server.otlp_grpc()?)?;
                while let Some(message) = next_message()? {
                    grpc.export(&message)?;
                }
                Ok(())
            } else if protocol.is_stream() {
                stream(protocol, server, next_message)
            } else {
                post(protocol, server, next_message)
            }
        };
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(one)).collect();
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_| anyhow!("a sender panicked"))?)
    })
}

fn post(
    protocol: SenderProtocol,
    server: &SenderServer,
    next: impl Fn() -> anyhow::Result<Option<Vec<u8>>>,
) -> anyhow::Result<()> {
    let mut http = http_client(server.http())?;
    let (target, format) = server.target(protocol);
    while let Some(body) = next()? {
        let answer = http.call("POST", target, &[("Content-Type", format)], &body)?;
        ensure!((200..300).contains(&answer.status), "status {}: {}", answer.status, answer.text());
        ensure!(!answer.text().contains("\"errors\":true"), "{}", answer.text());
    }
    Ok(())
}

fn stream(
    protocol: SenderProtocol,
    server: &SenderServer,
    next: impl Fn() -> anyhow::Result<Option<Vec<u8>>>,
) -> anyhow::Result<()> {
    let mut socket = TcpStream::connect(server.stream(protocol)?)?;
    while let Some(message) = next()? {
        socket.write_all(&message).context("the connection was closed")?;
    }
    socket.shutdown(std::net::Shutdown::Write)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    // The server closes the connection when it has read everything.
    let _ = socket.read(&mut [0; 64]);
    Ok(())
}
