//! Data directories to be damaged, made by nodes that then were killed.
//!
//! Together they have every kind of file that a node keeps: queue segments of each promise that are open, closed and
//! committed, store segments packed in each way, also in the trash, files of idempotency keys, and the small files.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::answers::{self, AnswerSet};
use crate::cleanup_guard::CleanupGuard;
use crate::http::call;
use crate::standalone::{CLUSTER, StandaloneNode};

/// How long a directory may take to come to be what it should.
const MAKE_MAX: Duration = Duration::from_secs(30);

/// How long a client waits for a promise that this cluster cannot keep: too few stores are there.
const UNACKED_WAIT: Duration = Duration::from_millis(500);

/// Arguments of all nodes.
const COMMON_ARGUMENTS: [&str; 4] = ["--retention-age", "none", "--log-level", "info"];

/// A directory, and what a node says that is started on it.
#[derive(Debug)]
pub(crate) struct DataDirFixture {
    pub(crate) name: &'static str,
    pub(crate) dir: PathBuf,
    /// What the node is started with.
    pub(crate) arguments: Vec<&'static str>,
    /// What is stored.
    pub(crate) lines: BTreeSet<String>,
    /// Every answer is partial, for another node is down.
    pub(crate) is_partial: bool,
}

/// Makes them all.
///
/// # Errors
/// When a node does not start, or does not do what it should.
pub(crate) fn make_all(
    program: &Path,
    home: &Path,
    net: [u8; 2],
    minder: &CleanupGuard,
) -> anyhow::Result<Vec<DataDirFixture>> {
    let maker = FixtureBuilder { program, home, ip: Ipv4Addr::new(127, net[0], net[1], 11), minder };
    Ok(vec![maker.waiting()?, maker.half_merged()?, maker.stored()?, maker.trashed()?, maker.without_peers(net)?])
}

struct FixtureBuilder<'a> {
    program: &'a Path,
    home: &'a Path,
    ip: Ipv4Addr,
    minder: &'a CleanupGuard,
}

impl FixtureBuilder<'_> {
    fn node(&self, name: &str, arguments: &[&'static str]) -> StandaloneNode {
        StandaloneNode::new(
            self.program,
            self.home.join(name),
            self.ip,
            self.minder,
            &[&COMMON_ARGUMENTS[..], arguments].concat(),
        )
    }

    /// Asks the finished directory what it has, on a copy.
    fn finish(&self, name: &'static str, arguments: &[&'static str]) -> anyhow::Result<DataDirFixture> {
        let arguments = [&COMMON_ARGUMENTS[..], arguments].concat();
        let copy = self.home.join("copy");
        copy_directory(&self.home.join(name), &copy)?;
        let mut node = StandaloneNode::new(self.program, copy.clone(), self.ip, self.minder, &arguments);
        node.start_ready()?;
        let asked = AnswerSet::fetch(node.http(), &[0, 1, 2])?;
        node.kill();
        fs::remove_dir_all(&copy)?;
        ensure!(asked.counts.iter().all(|told| told.count == asked.lines.len() as u64), "{name}: {asked:?}");
        let dir = self.home.join(name);
        Ok(DataDirFixture {
            name,
            dir,
            arguments,
            lines: asked.lines.into_iter().collect(),
            is_partial: asked.is_partial,
        })
    }

    /// Queue segments that no store takes, for there are too few.
    fn waiting(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--replication-factor", "2", "--segment-max-age", "1h", "--segment-max-bytes", "24K"];
        let mut node = self.node("waiting", &arguments);
        node.start_ready()?;
        for (at, promise) in (0..).zip(["fast", "durable", "bulk"]) {
            for batch in 0..6 {
                post(&node, promise, "waiting", at * 1_000 + batch * 60, 60, 0)?;
            }
        }
        node.kill();
        let stock = self.finish("waiting", &arguments)?;
        ensure!(stock.lines.len() == 3 * 6 * 60, "{} lines wait", stock.lines.len());
        Ok(stock)
    }

    /// A node that was killed while a store takes from its queue: both have files, some with the same records.
    fn half_merged(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--segment-max-age", "1h", "--segment-max-bytes", "24K", "--store-segment-bytes", "64K"];
        let mut node = self.node("moving", &arguments);
        node.start_ready()?;
        for batch in 0..20 {
            let promise = ["fast", "durable", "bulk"][batch as usize % 3];
            post(&node, promise, "moving", batch * 60, 60, 0)?;
        }
        until("the store takes from the queue", || Ok(count_files(&node.dir.join("store"), "seg")? > 0))?;
        for (at, promise) in (0..).zip(["fast", "durable"]) {
            post(&node, promise, "moving", 5_000 + at * 60, 60, 0)?;
        }
        node.kill();
        self.finish("moving", &arguments)
    }

    /// store segments alone, packed in each way.
    fn stored(&self) -> anyhow::Result<DataDirFixture> {
        let base = ["--segment-max-age", "100ms", "--store-segment-bytes", "64K"];
        let codecs = [["--store-codec", "columns"], ["--store-codec", "zstd"], ["--store-codec", "none"]];
        for (at, codec) in (0..).zip(codecs) {
            let mut node = self.node("stored", &[&base[..], &codec[..]].concat());
            node.start_ready()?;
            for (load, count) in [(0, 1_200), (1, 7), (2, 700)] {
                // Hours apart, so that they are not merged.
                let hour = 1 + at * 10 + load;
                post(&node, "bulk", "stored", hour * 10_000, count, hour)?;
            }
            until("the queue is empty", || has_pending(&node))?;
            node.stop()?;
        }
        self.empty_queue("stored")?;
        self.finish("stored", &base)
    }

    /// Segments that retention has put into the trash.
    fn trashed(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--segment-max-age", "100ms", "--store-segment-bytes", "64K", "--retention-bytes", "60K"];
        let arguments = [&arguments[..], &["--trash-age", "1d"]].concat();
        let mut node = self.node("trashed", &arguments);
        node.start_ready()?;
        for load in 0..4 {
            post(&node, "bulk", "trashed", load * 10_000, 700, 1 + load)?;
        }
        let trash = node.dir.join("store/trash");
        until("retention takes a segment", || Ok(count_files(&trash, "seg").unwrap_or(0) > 0))?;
        until("the queue is empty", || has_pending(&node))?;
        node.stop()?;
        self.empty_queue("trashed")?;
        // Nothing more expires.
        self.finish("trashed", &["--trash-age", "1d"])
    }

    /// What a store has taken is in the queue for a while yet, and would be found there.
    fn empty_queue(&self, name: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.home.join(name).join("queue"))? {
            let path = entry?.path();
            if path.extension().is_some() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// A node that knew another one, which is down with records that it alone has.
    fn without_peers(&self, net: [u8; 2]) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--replication-factor", "3", "--segment-max-age", "100ms"];
        let mut node = self.node("widowed", &arguments);
        let join = format!("{}:{CLUSTER}", self.ip);
        let other = Ipv4Addr::new(127, net[0], net[1], 12);
        let mut other =
            StandaloneNode::new(self.program, self.home.join("other"), other, self.minder, &COMMON_ARGUMENTS);
        other.arguments.extend(["--replication-factor".into(), "3".into(), "--join".into(), join]);
        node.start_ready()?;
        other.start_ready()?;
        post(&node, "durable", "widowed", 0, 50, 0)?;
        post(&other, "durable", "widowed", 100, 50, 0)?;
        let knows = |path: PathBuf| Ok(fs::read_to_string(path).is_ok_and(|text| text.contains("\"facts\"")));
        until("the list of nodes is written", || knows(node.dir.join("members.json")))?;
        other.kill();
        let is_down = || {
            let answer = answers::cluster(node.http())?;
            Ok(answer["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["membership"] == "down")))
        };
        until("the other counts as down", is_down)?;
        let is_kept = |path: PathBuf| Ok(fs::read_to_string(path).is_ok_and(|text| text.contains("\"gone\"")));
        until("the list of nodes says so", || is_kept(node.dir.join("members.json")))?;
        node.kill();
        let stock = self.finish("widowed", &arguments)?;
        ensure!(stock.is_partial && stock.lines.len() == 50, "{} lines, {}", stock.lines.len(), stock.is_partial);
        Ok(stock)
    }
}

/// Copies a directory with everything in it.
pub(super) fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Sends lines that say where they belong, and are all different.
fn post(node: &StandaloneNode, promise: &str, name: &str, first: u64, count: u64, hour: u64) -> anyhow::Result<()> {
    let mut body = String::new();
    for number in first..first + count {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = format!(
            "{name} {promise} {number}: GET /items/{} took {} ms at 10.0.{}.{} with {mixed:016x}",
            number % 97,
            mixed % 1_000,
            mixed % 250,
            number % 250,
        );
        match hour {
            0 => body += &format!("{line}\n"),
            hour => body += &format!("{{\"ts\":{},\"line\":\"{line}\"}}\n", 1_700_000_000 + hour * 3_600),
        }
    }
    let kind = if hour == 0 { "text/plain" } else { "application/x-ndjson" };
    // It carries no time, so what a retry gets rests on what the node remembers of it.
    let key = format!("{name} {promise} {first}");
    let headers: &[_] = &[("Content-Type", kind), ("Idempotency-Key", &key)];
    let in_vain = promise == "bulk" && hour == 0 && name == "waiting";
    let patience = if in_vain { UNACKED_WAIT } else { MAKE_MAX };
    let target = format!("/api/v1/ingest?durability={promise}");
    match call(node.http(), "POST", &target, headers, body.as_bytes(), patience) {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
        Err(_) if in_vain => Ok(()),
        Err(error) => Err(error).context("a node does not accept"),
    }
}

fn has_pending(node: &StandaloneNode) -> anyhow::Result<bool> {
    Ok(answers::cluster(node.http())?["nodes"][0]["queue"]["segments"] == 0)
}

fn count_files(dir: &Path, extension: &str) -> std::io::Result<usize> {
    let entries = fs::read_dir(dir)?.flatten();
    Ok(entries.filter(|entry| entry.path().extension().is_some_and(|end| end == extension)).count())
}

fn until(what: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let until = Instant::now() + MAKE_MAX;
    while !is_so()? {
        ensure!(Instant::now() < until, "waited {MAKE_MAX:?} in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
