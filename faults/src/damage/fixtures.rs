//! Data directories to damage, made by nodes that were then killed.
//!
//! Together they contain every kind of file of a node: active, pending and committed queue segments of each
//! durability, stored segments with each encoding, with and without attributes, and in the trash, files of idempotency keys, and the small files.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::answers::{self, ATTRIBUTE, AnswerSet, QUESTIONS};
use crate::cleanup_guard::CleanupGuard;
use crate::http::call;
use crate::standalone::{CLUSTER, StandaloneNode};
use crate::wait;

/// The maximum time until a directory has the intended state.
const MAKE_MAX: Duration = Duration::from_secs(30);

/// Client timeout for a durability that the cluster cannot reach for lack of stores.
const UNACKED_WAIT: Duration = Duration::from_millis(500);

/// Arguments of all nodes.
const COMMON_ARGUMENTS: [&str; 4] = ["--retention-age", "none", "--log-level", "info"];

/// A fixture, and the answers of a node started on it.
#[derive(Debug)]
pub(crate) struct DataDirFixture {
    pub(crate) name: &'static str,
    pub(crate) dir: PathBuf,
    /// Arguments of the node.
    pub(crate) arguments: Vec<&'static str>,
    /// The stored records, each as its whole JSON object.
    pub(crate) records: BTreeSet<String>,
    /// Every answer is partial, because another node is down.
    pub(crate) is_partial: bool,
}

/// Makes all fixtures.
///
/// # Errors
/// A node does not start or does not reach the intended state.
pub(crate) fn make_all(
    program: &Path,
    home: &Path,
    net: [u8; 2],
    cleanup: &CleanupGuard,
) -> anyhow::Result<Vec<DataDirFixture>> {
    let maker = FixtureBuilder { program, home, ip: Ipv4Addr::new(127, net[0], net[1], 11), cleanup };
    Ok(vec![maker.waiting()?, maker.half_merged()?, maker.stored()?, maker.trashed()?, maker.without_peers(net)?])
}

impl DataDirFixture {
    /// The number of records that a count refers to: all, or those with [`ATTRIBUTE`].
    pub(crate) fn expected(&self, is_filtered: bool) -> u64 {
        let attribute = format!("\"{}\":\"{}\"", ATTRIBUTE.0, ATTRIBUTE.1);
        self.records.iter().filter(|record| !is_filtered || record.contains(&attribute)).count() as u64
    }
}

struct FixtureBuilder<'a> {
    program: &'a Path,
    home: &'a Path,
    ip: Ipv4Addr,
    cleanup: &'a CleanupGuard,
}

impl FixtureBuilder<'_> {
    fn node(&self, name: &str, arguments: &[&'static str]) -> StandaloneNode {
        StandaloneNode::new(
            self.program,
            self.home.join(name),
            self.ip,
            self.cleanup,
            &[&COMMON_ARGUMENTS[..], arguments].concat(),
        )
    }

    /// Records the answers of a node on a copy of the directory.
    fn finish(&self, name: &'static str, arguments: &[&'static str]) -> anyhow::Result<DataDirFixture> {
        let arguments = [&COMMON_ARGUMENTS[..], arguments].concat();
        let copy = self.home.join("copy");
        copy_directory(&self.home.join(name), &copy)?;
        let mut node = StandaloneNode::new(self.program, copy.clone(), self.ip, self.cleanup, &arguments);
        node.start_ready()?;
        let order: Vec<usize> = (0..QUESTIONS).collect();
        let answers = AnswerSet::fetch(node.http(), &order)?;
        node.kill();
        fs::remove_dir_all(&copy)?;
        let fixture = DataDirFixture {
            name,
            dir: self.home.join(name),
            arguments,
            records: answers.records.into_iter().collect(),
            is_partial: answers.is_partial,
        };
        for answer in &answers.counts {
            let expected = fixture.expected(answer.is_filtered);
            ensure!(answer.count == expected && expected > 0, "{name}: {answer:?} instead of {expected}");
        }
        Ok(fixture)
    }

    /// Queue segments that no store fetches, for lack of stores.
    fn waiting(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--replication-factor", "2", "--segment-max-age", "1h", "--segment-max-bytes", "24K"];
        let mut node = self.node("waiting", &arguments);
        node.start_ready()?;
        for (at, durability) in (0..).zip(["fast", "durable", "bulk"]) {
            for batch in 0..6 {
                let batch = FixtureBatch {
                    durability,
                    ..FixtureBatch::new("waiting", at * 1_000 + batch * 60, 60, batch % 2 == 0)
                };
                post(&node, &batch)?;
            }
        }
        node.kill();
        let fixture = self.finish("waiting", &arguments)?;
        ensure!(fixture.records.len() == 3 * 6 * 60, "{} lines are pending", fixture.records.len());
        Ok(fixture)
    }

    /// A node killed while its store fetches from its queue: both tiers have files, some with the same records.
    fn half_merged(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--segment-max-age", "1h", "--segment-max-bytes", "24K", "--store-segment-bytes", "64K"];
        let mut node = self.node("moving", &arguments);
        node.start_ready()?;
        for batch in 0..20 {
            let durability = ["fast", "durable", "bulk"][batch as usize % 3];
            post(&node, &FixtureBatch { durability, ..FixtureBatch::new("moving", batch * 60, 60, batch % 2 == 0) })?;
        }
        until("the store takes from the queue", || Ok(count_files(&node.dir.join("store"), "seg")? > 0))?;
        for (at, durability) in (0..).zip(["fast", "durable"]) {
            post(&node, &FixtureBatch { durability, ..FixtureBatch::new("moving", 5_000 + at * 60, 60, at == 0) })?;
        }
        node.kill();
        self.finish("moving", &arguments)
    }

    /// Stored segments only, with each encoding.
    fn stored(&self) -> anyhow::Result<DataDirFixture> {
        let base = ["--segment-max-age", "100ms", "--store-segment-bytes", "64K"];
        let codecs = [["--store-codec", "columns"], ["--store-codec", "zstd"], ["--store-codec", "none"]];
        for (at, codec) in (0..).zip(codecs) {
            let mut node = self.node("stored", &[&base[..], &codec[..]].concat());
            node.start_ready()?;
            for (load, count, has_attributes) in [(0, 1_200, true), (1, 7, false), (2, 700, false), (3, 9, true)] {
                // Hours apart, so that they are not merged.
                let hour = 1 + at * 10 + load;
                let batch = FixtureBatch::new("stored", hour * 10_000, count, has_attributes);
                post(&node, &FixtureBatch { durability: "bulk", hour, ..batch })?;
            }
            until("the queue is empty", || has_pending(&node))?;
            node.stop()?;
        }
        self.empty_queue("stored")?;
        self.finish("stored", &base)
    }

    /// Segments that retention moved to the trash.
    fn trashed(&self) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--segment-max-age", "100ms", "--store-segment-bytes", "64K", "--retention-bytes", "60K"];
        let arguments = [&arguments[..], &["--trash-age", "1d"]].concat();
        let mut node = self.node("trashed", &arguments);
        node.start_ready()?;
        for load in 0..4 {
            let batch = FixtureBatch::new("trashed", load * 10_000, 700, load % 2 == 1);
            post(&node, &FixtureBatch { durability: "bulk", hour: 1 + load, ..batch })?;
        }
        let trash = node.dir.join("store/trash");
        until("retention takes a segment", || Ok(count_files(&trash, "seg").unwrap_or(0) > 0))?;
        until("the queue is empty", || has_pending(&node))?;
        node.stop()?;
        self.empty_queue("trashed")?;
        // Nothing more expires.
        self.finish("trashed", &["--trash-age", "1d"])
    }

    /// Segments that a store fetched stay in the queue for a while.
    fn empty_queue(&self, name: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.home.join(name).join("queue"))? {
            let path = entry?.path();
            if path.extension().is_some() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// A node that knows another, which is down and alone holds some records.
    fn without_peers(&self, net: [u8; 2]) -> anyhow::Result<DataDirFixture> {
        let arguments = ["--replication-factor", "3", "--segment-max-age", "100ms"];
        let mut node = self.node("widowed", &arguments);
        let join = format!("{}:{CLUSTER}", self.ip);
        let other = Ipv4Addr::new(127, net[0], net[1], 12);
        let mut other =
            StandaloneNode::new(self.program, self.home.join("other"), other, self.cleanup, &COMMON_ARGUMENTS);
        other.arguments.extend(["--replication-factor".into(), "3".into(), "--join".into(), join]);
        node.start_ready()?;
        other.start_ready()?;
        for (node, first) in [(&node, 0), (&other, 100)] {
            post(node, &FixtureBatch { durability: "durable", ..FixtureBatch::new("widowed", first, 50, true) })?;
        }
        let knows = |path: PathBuf| Ok(fs::read_to_string(path).is_ok_and(|text| text.contains("\"facts\"")));
        until("the list of nodes is written", || knows(node.dir.join("members.json")))?;
        other.kill();
        let is_down = || {
            let answer = answers::cluster(node.http())?;
            Ok(answer["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["membership"] == "down")))
        };
        until("the other counts as down", is_down)?;
        let is_kept = |path: PathBuf| Ok(fs::read_to_string(path).is_ok_and(|text| text.contains("\"departure\"")));
        until("the list of nodes says so", || is_kept(node.dir.join("members.json")))?;
        node.kill();
        let fixture = self.finish("widowed", &arguments)?;
        ensure!(
            fixture.is_partial && fixture.records.len() == 50,
            "{} lines, {}",
            fixture.records.len(),
            fixture.is_partial
        );
        Ok(fixture)
    }
}

/// Copies a directory recursively.
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

/// Distinct records that name their fixture.
struct FixtureBatch {
    name: &'static str,
    durability: &'static str,
    /// The number of the first record.
    first: u64,
    count: u64,
    /// The hour of all records; 0: the time of arrival.
    hour: u64,
    has_attributes: bool,
}

impl FixtureBatch {
    /// A batch of `fast` records with the time of their arrival.
    fn new(name: &'static str, first: u64, count: u64, has_attributes: bool) -> Self {
        Self { name, durability: "fast", first, count, hour: 0, has_attributes }
    }

    fn body(&self) -> String {
        let mut body = String::new();
        for number in self.first..self.first + self.count {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let line = format!(
                "{} {} {number}: GET /items/{} took {} ms at 10.0.{}.{} with {mixed:016x}",
                self.name,
                self.durability,
                number % 97,
                mixed % 1_000,
                mixed % 250,
                number % 250,
            );
            let time = match self.hour {
                0 => String::new(),
                hour => format!("\"ts\":{},", 1_700_000_000 + hour * 3_600),
            };
            if self.has_attributes {
                let pod = format!("checkout-{}", number % 7);
                body += &format!("{{{time}\"line\":\"{line}\",\"trace_id\":\"{mixed:032x}\",\"pod\":\"{pod}\"}}\n");
            } else if self.hour > 0 {
                body += &format!("{{{time}\"line\":\"{line}\"}}\n");
            } else {
                body += &format!("{line}\n");
            }
        }
        body
    }
}

/// Sends a batch.
fn post(node: &StandaloneNode, batch: &FixtureBatch) -> anyhow::Result<()> {
    let FixtureBatch { name, durability, first, hour, has_attributes, .. } = *batch;
    let kind = if hour == 0 && !has_attributes { "text/plain" } else { "application/x-ndjson" };
    // The key carries no time, so a retry gets the same ids only while the node remembers it.
    let key = format!("{name} {durability} {first}");
    let headers: &[_] = &[("Content-Type", kind), ("Idempotency-Key", &key)];
    let in_vain = durability == "bulk" && hour == 0 && name == "waiting";
    let patience = if in_vain { UNACKED_WAIT } else { MAKE_MAX };
    // Members other than time and message become attributes.
    let mapping = if has_attributes { "&message_field=line" } else { "" };
    let target = format!("/api/v1/ingest?durability={durability}{mapping}");
    match call(node.http(), "POST", &target, headers, batch.body().as_bytes(), patience) {
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

fn until(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    wait::until(what, Duration::from_millis(20), MAKE_MAX, || Ok(holds()?.then_some(())))
}
