//! Everything that a node reports about its records and their completeness.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::fleet::url;
use crate::http::{call, get};

/// The read timeout of an answer.
const ASK_MAX: Duration = Duration::from_secs(20);

/// The end of the histogram in Unix seconds, which is also the bucket width: one bucket contains everything.
const HISTOGRAM: &str = "/api/v1/histogram?from=1600000000&to=2600000000&buckets=10";

/// An attribute that some records of the fixtures have.
pub(super) const ATTRIBUTE: (&str, &str) = ("pod", "checkout-3");

/// The number of different questions to a node.
pub(super) const QUESTIONS: usize = 4;

/// A count, and whether it is partial.
#[derive(Clone, Debug)]
pub(crate) struct CountAnswer {
    pub(crate) what: &'static str,
    /// Counts only the records with [`ATTRIBUTE`].
    pub(crate) is_filtered: bool,
    pub(crate) count: u64,
    pub(crate) is_partial: bool,
}

/// The answers of a node.
#[derive(Debug, Default)]
pub(crate) struct AnswerSet {
    /// The records of a search for all, each as its whole JSON object: id, time, labels, line and attributes.
    pub(crate) records: Vec<String>,
    pub(crate) is_partial: bool,
    pub(crate) counts: Vec<CountAnswer>,
}

impl AnswerSet {
    /// Requests all records, their count, their histogram, and the count of those with [`ATTRIBUTE`], in the given
    /// order.
    ///
    /// # Errors
    /// An answer is not whole.
    pub(crate) fn fetch(at: SocketAddr, order: &[usize]) -> anyhow::Result<Self> {
        let mut answers = Self::default();
        for question in order {
            match question {
                0 => {
                    let answer = call(at, "GET", "/api/v1/query?from=0&q=", &[], b"", ASK_MAX).context("a search")?;
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    let mut records: Vec<String> = text.lines().map(str::to_owned).collect();
                    let last = records.pop().context("a search has no answer")?;
                    let stats = serde_json::from_str::<Value>(&last)?["stats"].take();
                    ensure!(stats.is_object(), "a search reports no completeness: {last}");
                    answers.is_partial = stats["partial"] == true;
                    answers.records = records;
                }
                1 => {
                    let reply = get(at, "/api/v1/count?from=0&q=", ASK_MAX)?.ok_json().context("a count")?;
                    answers.push("a count", false, reply["count"].as_u64(), &reply["stats"]);
                }
                2 => {
                    let target = format!("/api/v1/count?from=0&q={}%3D{}", ATTRIBUTE.0, ATTRIBUTE.1);
                    let reply = get(at, &target, ASK_MAX)?.ok_json().context("a count by an attribute")?;
                    answers.push("a count by an attribute", true, reply["count"].as_u64(), &reply["stats"]);
                }
                _ => {
                    let reply = get(at, HISTOGRAM, ASK_MAX)?.ok_json().context("a histogram")?;
                    let buckets = reply["buckets"].as_array().into_iter().flatten();
                    answers.push(
                        "a histogram",
                        false,
                        buckets.map(|bucket| bucket["count"].as_u64()).sum(),
                        &reply["stats"],
                    );
                }
            }
        }
        Ok(answers)
    }

    fn push(&mut self, what: &'static str, is_filtered: bool, count: Option<u64>, stats: &Value) {
        let is_partial = stats["partial"] == true;
        self.counts.push(CountAnswer { what, is_filtered, count: count.unwrap_or_default(), is_partial });
    }
}

/// The cluster state that a node reports.
pub(crate) fn cluster(at: SocketAddr) -> io::Result<Value> {
    get(at, "/api/v1/cluster", ASK_MAX)?.ok_json()
}

/// Whether metrics report damage.
pub(crate) fn metrics_report_damage(at: SocketAddr) -> io::Result<bool> {
    let answer = get(at, "/metrics", ASK_MAX)?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let reply = ["bucksaw_store_damaged ", "bucksaw_ingest_segments{state=\"damaged\"} "];
    let is_some = |line: &str| reply.iter().any(|name| line.strip_prefix(name).is_some_and(|value| value != "0"));
    Ok(text.lines().any(is_some))
}

/// Whether metrics report damaged idempotency keys.
pub(crate) fn metrics_report_key_damage(at: SocketAddr) -> io::Result<bool> {
    let answer = get(at, "/metrics", ASK_MAX)?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mut lines = text.lines();
    Ok(lines.any(|line| line.strip_prefix("bucksaw_ingest_damaged_keys ").is_some_and(|value| value != "0")))
}

/// The output of `bucksaw status`.
pub(crate) fn status(program: &Path, at: SocketAddr) -> anyhow::Result<String> {
    let (_, text) = run(program, &["status", "--addr", &url(at)])?;
    Ok(text)
}

/// The output of `bucksaw verify`, and whether it found no damage.
pub(crate) fn verify(program: &Path, dir: &Path) -> anyhow::Result<(bool, String)> {
    let dir = dir.to_str().context("the directory name is not UTF-8")?;
    let (code, text) = run(program, &["verify", dir])?;
    Ok((code == Some(0), text))
}

fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = Command::new(program).args(arguments).env_clear().stdin(Stdio::null()).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}
