//! `memory`: what a node takes while it is busy, and while it has nothing to do.

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

/// How much of the corpus is held in memory to be sent over and over.
const SAMPLE: u64 = 64_000_000;

/// Connections and bytes of a body, over HTTP.
const CONNECTIONS: usize = 4;
const BODY_BYTES: u64 = 1_000_000;

/// When an idle node is looked at.
const IDLE: Duration = Duration::from_secs(5);

/// How much memory a node takes, busy and idle
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Bytes a second that come in
    #[arg(long, value_name = "SIZE", default_value = "50MB")]
    rate: Size,

    /// For how long, in seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    seconds: u64,
}

pub(crate) fn run(args: &MemoryArgs, setting: &BenchContext) -> anyhow::Result<()> {
    let corpus = setting.corpus_up_to(SAMPLE)?;
    let mut results = setting.results("memory")?.with_corpus(&corpus);
    let mut add = |subject: &str, figures: &dyn Fn() -> anyhow::Result<Vec<Figure>>| {
        let load = machine::load();
        results.runs.push(BenchRun { subject: subject.into(), round: 1, load, figures: figures()? });
        anyhow::Ok(())
    };
    add("idle", &|| idle(setting))?;
    let sample = corpus.sample(SAMPLE)?;
    add("tcp-fast", &|| busy(setting, "tcp-fast", |node| tcp_fast(args, &sample, node)))?;
    drop(sample);
    let batches = corpus.batches(BODY_BYTES)?;
    add("http-durable", &|| busy(setting, "http-durable", |node| http_durable(args, &corpus, &batches, node)))?;
    setting.report(&results)
}

fn idle(setting: &BenchContext) -> anyhow::Result<Vec<Figure>> {
    let node = setting.node("idle", &[])?;
    thread::sleep(IDLE);
    let (resident, peak) = (process::resident_mb(node.pid())?, process::peak_mb(node.pid())?);
    node.stop()?;
    Ok(vec![figure("resident", "MB", resident), figure("peak", "MB", peak)])
}

fn busy(
    setting: &BenchContext,
    name: &str,
    feed: impl Fn(&BenchNode) -> anyhow::Result<FeedTotals>,
) -> anyhow::Result<Vec<Figure>> {
    let node = setting.node(name, &[])?;
    let fed = feed(&node)?;
    node.wait_accepted(fed.bytes)?;
    let (resident, peak) = (process::resident_mb(node.pid())?, process::peak_mb(node.pid())?);
    let (_, cpu) = node.wait_settled(fed.bytes)?;
    let settled = process::peak_mb(node.pid())?;
    node.assert_count(fed.lines)?;
    let dir = node.dir().to_owned();
    node.stop()?;
    setting.clear(&dir)?;
    Ok(vec![
        figure("resident", "MB", resident),
        figure("peak", "MB", peak),
        figure("peak_until_settled", "MB", settled),
        figure("rate", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_behind_at_worst", "s", fed.behind),
        figure("text_per_cpu_all_included", "MB/s", fed.bytes as f64 / 1e6 / cpu),
    ])
}

fn tcp_fast(args: &MemoryArgs, sample: &[u8], node: &BenchNode) -> anyhow::Result<FeedTotals> {
    let most = Duration::from_secs(args.seconds);
    feed::paced(node.address("fast")?, sample, args.rate.0 as f64, |passed| passed < most)
}

/// The batches of the corpus, over and over, each when the rate has come to it.
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
        Ok(Some(HttpPost { target, format: "text/plain", body, due }))
    })
}
