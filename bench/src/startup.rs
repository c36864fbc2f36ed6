//! `startup`: from the start of the process until it says that it is ready, with much on its shelf.
//!
//! The shelf is filled honestly: the corpus is sent over and over, and each time is a later one to the node.

use clap::Args;

use crate::node::number;
use crate::results::{Run, figure};
use crate::setting::{Setting, Size};
use crate::{feed, machine};

/// How long a node with much on its shelf takes to be ready
#[derive(Debug, Args)]
pub(crate) struct StartupArgs {
    /// Bytes of files that are on the shelf at least
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    stored_bytes: Size,

    /// How often it is started
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
}

pub(crate) fn run(args: &StartupArgs, setting: &Setting) -> anyhow::Result<()> {
    let corpus = setting.corpus()?;
    let keep = ["--retention-age", "none"];
    let node = setting.node("node", &keep)?;
    let mut sent = 0;
    let stored = loop {
        feed::file(node.address("fast")?, &corpus)?;
        sent += 1;
        node.wait_accepted(sent * corpus.bytes)?;
        node.wait_settled(sent * corpus.bytes)?;
        let cluster = node.http()?.get("/api/v1/cluster")?.json()?;
        let stored = number(&cluster, "/nodes/0/store/stored_bytes")?;
        eprintln!("{:.2} of {:.2} GB stored", stored as f64 / 1e9, args.stored_bytes.0 as f64 / 1e9);
        if stored >= args.stored_bytes.0 {
            break stored;
        }
    };
    node.stop()?;

    let mut results = setting.results("startup")?.with_corpus(&corpus);
    for round in 1..=args.starts as usize {
        let load = machine::load();
        let node = setting.node("node", &keep)?;
        let cluster = node.http()?.get("/api/v1/cluster")?.json()?;
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
            node.must_have(sent * corpus.lines)?;
        }
        node.stop()?;
        results.runs.push(Run { subject: "start".into(), round, load, figures });
    }
    setting.report(&results)
}
