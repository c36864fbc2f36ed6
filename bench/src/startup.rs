//! `startup`: the time from the start of the process to readiness with a large store.
//!
//! The store is filled over the normal path: the corpus is sent repeatedly, each time with later ids.

use std::time::Duration;

use clap::Args;

use crate::context::{BenchContext, Size};
use crate::corpus::Corpus;
use crate::node::{BenchNode, number};
use crate::results::{BenchRun, figure};
use crate::{feed, machine};
use bucksaw_faults::wait;

/// The maximum backlog of the store in bytes.
const BACKLOG_BYTES_MAX: u64 = 1_000_000_000;

/// The interval of checks of the backlog, and the maximum time of a backlog above the limit.
const LOOK: Duration = Duration::from_millis(20);
const CONSUME_MAX: Duration = Duration::from_secs(300);

/// Measure the startup time of a node with a large store
#[derive(Debug, Args)]
pub(crate) struct StartupArgs {
    /// Minimum bytes of files in the store
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    stored_bytes: Size,

    /// Starts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
}

pub(crate) fn run(args: &StartupArgs, context: &BenchContext) -> anyhow::Result<()> {
    let corpus = context.corpus()?;
    let keep = ["--retention-age", "none"];
    let node = context.node("node", &keep)?;
    let (sent, stored) = fill(args.stored_bytes.0, &corpus, &node)?;
    node.stop()?;

    let mut results = context.results("startup")?.with_corpus(&corpus);
    for round in 1..=args.starts as usize {
        let load = machine::load();
        let node = context.node("node", &keep)?;
        let cluster = node.http()?.get("/api/v1/cluster")?.ok_json()?;
        let of = |name: &str| number(&cluster, &format!("/nodes/0/store/{name}"));
        let figures = vec![
            figure("ready_after", "ms", node.ready_after.as_secs_f64() * 1e3),
            figure("stored", "GB", stored as f64 / 1e9),
            figure("text", "GB", of("text_bytes")? as f64 / 1e9),
            figure("segments", "files", of("segments")? as f64),
            figure("records", "records", of("records")? as f64),
            figure("peak_memory", "MB", crate::process::peak_mb(node.pid())?),
        ];
        if round == 1 {
            node.assert_count(sent * corpus.lines)?;
        }
        node.stop()?;
        results.runs.push(BenchRun { subject: "start".into(), round, load, figures });
    }
    context.report(&results)
}

/// Sends the corpus until `bytes` are stored. Returns the number of times it was sent and the stored bytes once
/// settled.
///
/// Ingest is faster than storing, so sending continues while the store works, up to a maximum backlog that limits the
/// size of the queue on disk.
fn fill(bytes: u64, corpus: &Corpus, node: &BenchNode) -> anyhow::Result<(u64, u64)> {
    let stored = || {
        let cluster = node.http()?.get("/api/v1/cluster")?.ok_json()?;
        let of = |name: &str| number(&cluster, &format!("/nodes/0/store/{name}"));
        anyhow::Ok((of("text_bytes")?, of("stored_bytes")?))
    };
    let mut sent = 0;
    loop {
        feed::file(node.address("fast")?, corpus)?;
        sent += 1;
        let files = wait::until("the store taking what came before", LOOK, CONSUME_MAX, || {
            let (text, files) = stored()?;
            Ok((text + BACKLOG_BYTES_MAX >= sent * corpus.bytes).then_some(files))
        })?;
        eprintln!("{:.2} of {:.2} GB stored", files as f64 / 1e9, bytes as f64 / 1e9);
        if files < bytes {
            continue;
        }
        node.wait_accepted(sent * corpus.bytes)?;
        node.wait_settled(sent * corpus.bytes)?;
        let (_, files) = stored()?;
        // Merges may have reduced the size; then more is sent.
        if files >= bytes {
            return Ok((sent, files));
        }
    }
}
