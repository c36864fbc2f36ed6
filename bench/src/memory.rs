//! `memory`: the memory of a busy and of an idle node.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::feed::{self, FeedTotals};
use crate::http_load::{HttpLoad, HttpPost};
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// Bytes of the corpus that are sent repeatedly.
const SAMPLE: u64 = 64_000_000;

/// Connections and body bytes over HTTP.
const CONNECTIONS: usize = 4;
const BODY_BYTES: u64 = 1_000_000;

/// When the memory of an idle node is measured.
const IDLE: Duration = Duration::from_secs(5);

/// Measure the memory of a busy and of an idle node
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Bytes per second
    #[arg(long, value_name = "SIZE", default_value = "50MB")]
    rate: Size,

    /// Seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    seconds: u64,
}

pub(crate) fn run(args: &MemoryArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus_up_to(SAMPLE)?;
    let mut results = context.results("memory")?.with_corpus(&corpus);
    let mut add = |subject: &str, figures: &dyn Fn() -> anyhow::Result<Vec<Figure>>| {
        let load = machine::load();
        results.runs.push(BenchRun { subject: subject.into(), round: 1, load, figures: figures()? });
        anyhow::Ok(())
    };
    add("idle", &|| idle(context))?;
    let sample = corpus.sample(SAMPLE)?;
    add("tcp-fast", &|| busy(context, "tcp-fast", |node| tcp_fast(args, &sample, node)))?;
    drop(sample);
    let batches = corpus.batches(BODY_BYTES)?;
    add("http-durable", &|| busy(context, "http-durable", |node| http_durable(args, &corpus, &batches, node)))?;
    context.report(&results)
}

fn idle(context: &BenchContext) -> anyhow::Result<Vec<Figure>> {
    let node = context.node("idle", &[])?;
    thread::sleep(IDLE);
    let (resident, peak) = (process::resident_mb(node.pid())?, process::peak_mb(node.pid())?);
    node.stop()?;
    Ok(vec![figure("resident", "MB", resident), figure("peak", "MB", peak)])
}

fn busy(
    context: &BenchContext,
    name: &str,
    feed: impl Fn(&BenchNode) -> anyhow::Result<FeedTotals>,
) -> anyhow::Result<Vec<Figure>> {
    let node = context.node(name, &[])?;
    let fed = feed(&node)?;
    node.wait_accepted(fed.bytes)?;
    let (resident, peak) = (process::resident_mb(node.pid())?, process::peak_mb(node.pid())?);
    let (_, cpu) = node.wait_settled(fed.bytes)?;
    let settled = process::peak_mb(node.pid())?;
    node.assert_count(fed.lines)?;
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;
    Ok(vec![
        figure("resident", "MB", resident),
        figure("peak", "MB", peak),
        figure("peak_until_settled", "MB", settled),
        figure("rate", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_delay_max", "s", fed.delay),
        figure("text_per_cpu_all_included", "MB/s", fed.bytes as f64 / 1e6 / cpu),
    ])
}

fn tcp_fast(args: &MemoryArgs, sample: &[u8], node: &BenchNode) -> anyhow::Result<FeedTotals> {
    let most = Duration::from_secs(args.seconds);
    feed::paced(node.address("fast")?, sample, args.rate.0 as f64, |passed| passed < most)
}

/// The batches of the corpus, repeated, each at its scheduled time.
fn http_durable(
    args: &MemoryArgs,
    corpus: &Corpus,
    batches: &[(u64, u64)],
    node: &BenchNode,
) -> anyhow::Result<FeedTotals> {
    let file = File::open(&corpus.path)?;
    let apart = Duration::from_secs_f64(corpus.bytes as f64 / batches.len() as f64 / args.rate.0 as f64);
    let posting = HttpLoad { address: node.address("http")?, senders: CONNECTIONS, connect_anew: false };
    posting.send(|number| {
        let due = apart.mul_f64(number as f64);
        let batch = batches.get(number % batches.len()).filter(|_| due < Duration::from_secs(args.seconds));
        let Some((start, end)) = batch else { return Ok(None) };
        let mut body = vec![0; usize::try_from(end - start)?];
        file.read_exact_at(&mut body, *start)?;
        let target = "/api/v1/ingest?durability=durable".into();
        Ok(Some(HttpPost { key: None, target, format: "text/plain", body, due }))
    })
}
