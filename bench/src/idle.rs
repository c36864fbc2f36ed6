//! `idle-connections`: thousands of idle connections, and some that send little.
//!
//! If each connection wrote its own file, a store could not keep up with thousands of tiny files. So the files are
//! counted, and every line is timed to its visibility.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::context::BenchContext;
use crate::results::{BenchRun, figure};
use crate::spread::percentile_ms;
use crate::trace::VisibilityTrace;
use crate::{machine, process};

/// The interval of counts of files.
const LOOK: Duration = Duration::from_millis(250);

/// File descriptors other than connections.
const OTHER_FILES: u64 = 64;

/// Measure the cost of thousands of idle connections
#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    /// Idle connections
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    idle: u64,

    /// Connections that send lines
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,

    /// Lines per second of each
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,

    /// Seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

pub(crate) fn run(args: &IdleArgs, context: &BenchContext) -> anyhow::Result<()> {
    allow_files(args.idle + args.clients + OTHER_FILES)?;
    let load = machine::load();
    let node = context.node("node", &[])?;
    let address = node.address("fast")?;
    let connect = |count: u64| (0..count).map(|_| TcpStream::connect(address)).collect::<Result<Vec<_>, _>>();
    let idle = connect(args.idle).context("cannot open the idle connections")?;
    let mut clients = connect(args.clients).context("cannot open the clients' connections")?;
    let trace = VisibilityTrace::start(node.http()?, "client")?;

    let queue = node.dir().join("queue");
    let count = args.clients * args.rate * args.seconds;
    let started = Instant::now();
    let apart = Duration::from_secs(args.seconds).div_f64(count as f64);
    let (mut files_max, mut looked, mut late, mut bytes) = (0, started, Duration::ZERO, 0);
    for (number, client) in (0..count).zip((0..clients.len()).cycle()) {
        let due = started + apart.mul_f64(number as f64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        late = late.max(due.elapsed());
        let (_, line) = trace.send();
        bytes += line.len() as u64;
        let client = clients.get_mut(client).context("a client is missing")?;
        client.write_all(line.as_bytes()).context("the node broke a connection off")?;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            files_max = files_max.max(files_in(&queue)?);
        }
    }
    let (cpu, seconds) = (node.cpu()?, started.elapsed().as_secs_f64());
    let (peak, resident) = (process::peak_mb(node.pid())?, process::resident_mb(node.pid())?);
    let lags = trace.end()?;
    drop((idle, clients));
    node.wait_accepted(bytes)?;
    node.assert_count(count)?;
    node.wait_settled(bytes)?;
    node.wait_removed()?;

    let mut results = context.results("idle-connections")?;
    let figures = vec![
        figure("idle_connections", "connections", args.idle as f64),
        figure("clients", "connections", args.clients as f64),
        figure("lines", "lines/s", count as f64 / seconds),
        figure("queue_files_max", "files", files_max as f64),
        figure("queue_files_end", "files", files_in(&queue)? as f64),
        figure("visible_p50", "ms", percentile_ms(&lags, 50.0)),
        figure("visible_p99", "ms", percentile_ms(&lags, 99.0)),
        figure("visible_max", "ms", percentile_ms(&lags, 100.0)),
        figure("sender_delay_max", "ms", late.as_secs_f64() * 1e3),
        figure("cpu_of_node", "s/s", cpu / seconds),
        figure("resident", "MB", resident),
        figure("peak", "MB", peak),
    ];
    node.stop()?;
    results.runs.push(BenchRun { subject: "node".into(), round: 1, load, figures });
    context.report(&results)
}

fn files_in(dir: &Path) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?.count())
}

/// Raises the limit of open files of this process and of the node.
fn allow_files(wanted: u64) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    ensure!(most >= wanted, "only {most} files may be open: raise it with 'ulimit -n {wanted}', or lower --idle");
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
        .context("cannot raise the limit of open files")
}
