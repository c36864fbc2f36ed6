//! Measures the time until all records are re-replicated after the disk of a store was replaced by an empty one.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::fleet::{self, FleetConfig, FleetNode, FleetRole};
use crate::http::call;
use crate::monitor::count;
use crate::replication::{packed_bytes, stored_records_of};
use crate::wait;

const STORES: usize = 3;
const REPLICATION_FACTOR: u64 = 2;

/// Lines of a request, generated from its own seed.
const LINES_AT_ONCE: usize = 50_000;

/// Concurrent requests.
const SENDERS: usize = 8;

const TARGET: &str = "/api/v1/ingest?durability=bulk&label=app=wiped";

/// The timeout of a request: `bulk` waits for the stores.
const SEND_MAX: Duration = Duration::from_secs(120);

/// Repair defers records of the last 10 s, so the disk is not wiped earlier.
const SETTLE_TIME: Duration = Duration::from_secs(12);

/// The maximum time of consumption and of re-replication.
const MAX: Duration = Duration::from_secs(600);

/// The interval of checks.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct WipeOptions {
    /// The program.
    pub bucksaw: PathBuf,
    /// Bytes of text stored before.
    pub bytes: usize,
    /// The number of measurements, each in a new cluster.
    pub rounds: usize,
}

/// Measures, prints progress, and returns CSV.
///
/// # Errors
/// A node does not start, does not accept the text, or records are not re-replicated within ten minutes.
pub fn wipe(wiped: &WipeOptions) -> anyhow::Result<String> {
    let mut text = "round,text_mb,records,wiped_records,wiped_packed_mb,restored_s,re_replicated_s\n".to_owned();
    for round in 1..=wiped.rounds {
        let row = measure(wiped)?;
        eprintln!("round {round}: {row}");
        let _ = writeln!(text, "{round},{row}");
    }
    Ok(text)
}

fn measure(wiped: &WipeOptions) -> anyhow::Result<String> {
    let home = tempfile::tempdir().context("no temporary directory")?;
    let common = FleetConfig::new(&wiped.bucksaw, home.path(), REPLICATION_FACTOR as usize, false)?;
    let roles = std::iter::once((FleetRole::Ingest, 1)).chain((1..=STORES).map(|number| (FleetRole::Store, number)));
    let nodes = roles.enumerate().map(|(place, (role, number))| FleetNode::new(&common, role, number, place as u8));
    let mut nodes = nodes.collect::<anyhow::Result<Vec<FleetNode>>>()?;
    // The default segment sizes.
    nodes.iter_mut().for_each(|node| node.segment_arguments = vec!["--segment-max-age".into(), "3s".into()]);
    fleet::start(&mut nodes)?;
    let address = nodes[0].http();
    let sent = feed(&wiped.bucksaw, address, wiped.bytes)?;
    wait("all to be on two stores", || {
        let records = count(address, "", 0);
        records.is_some_and(|records| stored_records(&nodes) == Some(records * REPLICATION_FACTOR)).then_some(())
    })?;
    thread::sleep(SETTLE_TIME);
    let records = count(address, "", 0).context("the answer is partial")?;
    let of_it = stored_records_of(&nodes[1]).context("a store does not report its contents")?;
    let packed = packed_bytes(&nodes[1]).context("a store does not report its contents")?;
    nodes[1].destroy()?;
    nodes[1].spawn()?;
    let started = Instant::now();
    let restored = wait("copies to be restored", || {
        (stored_records(&nodes).is_some_and(|held| held >= records * REPLICATION_FACTOR)).then(|| started.elapsed())
    })?;
    let reported = wait("all nodes to report re-replication", || {
        let cluster = nodes[0].cluster().ok()?;
        let is_reported = |node: &serde_json::Value| node["membership"] == "down" && node["re_replicated"] == true;
        cluster["nodes"].as_array()?.iter().any(is_reported).then(|| started.elapsed())
    })?;
    // The proof: with another store stopped, the rest has every record.
    nodes[2].kill();
    let counted = wait("an answer without another store", || count(address, "", 0))?;
    if counted != records {
        bail!("without another store, a complete answer has {counted} of {records} records");
    }
    let (sent, packed) = (sent as f64 / 1e6, packed / 1e6);
    let (restored, reported) = (restored.as_secs_f64(), reported.as_secs_f64());
    Ok(format!("{sent:.0},{records},{of_it},{packed:.1},{restored:.1},{reported:.1}"))
}

/// Sends generated lines over several connections until `bytes` are sent. Each request waits for the stores.
fn feed(bucksaw: &Path, to: SocketAddr, bytes: usize) -> anyhow::Result<usize> {
    let (sent, seeds) = (AtomicUsize::new(0), AtomicUsize::new(1));
    let send = || -> anyhow::Result<()> {
        while sent.load(Ordering::Relaxed) < bytes {
            let (count, seed) = (LINES_AT_ONCE.to_string(), seeds.fetch_add(1, Ordering::Relaxed).to_string());
            let mut command = Command::new(bucksaw);
            command.args(["generate", "--rate", "0", "--count", &count, "--seed", &seed]).stdin(Stdio::null());
            let text = command.output().context("cannot generate lines")?.stdout;
            call(to, "POST", TARGET, &[("Content-Type", "text/plain")], &text, SEND_MAX)?.ok_json()?;
            sent.fetch_add(text.len(), Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(send)).collect();
        // The threads panic only by a bug of the harness.
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))?)
    })?;
    Ok(sent.into_inner())
}

/// The records of all stores, including replicas.
fn stored_records(nodes: &[FleetNode]) -> Option<u64> {
    nodes.iter().filter(|node| node.role == FleetRole::Store).map(stored_records_of).sum()
}

fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    wait::until(what, POLL_PERIOD, MAX, || Ok(ask()))
}
