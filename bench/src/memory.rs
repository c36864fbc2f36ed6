//! `memory`: what a node takes while it is busy, and while it has nothing to do.

use std::thread;
use std::time::Duration;

use clap::Args;

use crate::results::{Run, figure};
use crate::setting::{Setting, Size};
use crate::{feed, machine, process};

/// How much of the corpus is held in memory to be sent over and over.
const SAMPLE: u64 = 64_000_000;

/// When an idle node is looked at.
const IDLE: Duration = Duration::from_secs(5);

/// How much memory a node takes, busy and idle
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Bytes a second that come in over TCP
    #[arg(long, value_name = "SIZE", default_value = "50MB")]
    rate: Size,

    /// For how long, in seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    seconds: u64,
}

pub(crate) fn run(args: &MemoryArgs, setting: &Setting) -> anyhow::Result<()> {
    let corpus = setting.corpus_up_to(SAMPLE)?;
    let sample = corpus.sample(SAMPLE)?;
    let mut results = setting.results("memory")?.with_corpus(&corpus);

    let load = machine::load();
    let node = setting.node("idle", &[])?;
    thread::sleep(IDLE);
    let figures = vec![
        figure("resident", "MB", process::resident_mb(node.pid())?),
        figure("peak", "MB", process::peak_mb(node.pid())?),
    ];
    node.stop()?;
    results.runs.push(Run { subject: "idle".into(), round: 1, load, figures });

    let load = machine::load();
    let node = setting.node("busy", &[])?;
    let most = Duration::from_secs(args.seconds);
    let fed = feed::paced(node.address("fast")?, &sample, args.rate.0 as f64, |passed| passed < most)?;
    node.wait_accepted(fed.bytes)?;
    let (resident, peak) = (process::resident_mb(node.pid())?, process::peak_mb(node.pid())?);
    let (_, cpu) = node.wait_settled(fed.bytes)?;
    let settled = process::peak_mb(node.pid())?;
    node.must_have(fed.lines)?;
    node.stop()?;
    let figures = vec![
        figure("resident", "MB", resident),
        figure("peak", "MB", peak),
        figure("peak_until_settled", "MB", settled),
        figure("rate", "MB/s", fed.bytes as f64 / 1e6 / fed.seconds),
        figure("sender_behind_at_worst", "s", fed.behind),
        figure("text_per_cpu_all_included", "MB/s", fed.bytes as f64 / 1e6 / cpu),
    ];
    results.runs.push(Run { subject: "busy".into(), round: 1, load, figures });
    setting.report(&results)
}
