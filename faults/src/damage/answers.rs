//! Everything that a user can ask a node about what it holds, and whether that is all.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::fleet::url;
use crate::http::{call, get};

/// How long an answer may take to go on.
const ASK_MAX: Duration = Duration::from_secs(20);

/// The end of time of a histogram, in Unix seconds, and its width: one bucket has all.
const HISTOGRAM: &str = "/api/v1/histogram?from=1600000000&to=2600000000&buckets=10";

/// A number that was told, and whether it was told to be partial.
#[derive(Clone, Debug)]
pub(crate) struct CountAnswer {
    pub(crate) what: &'static str,
    pub(crate) count: u64,
    pub(crate) is_partial: bool,
}

/// What was told.
#[derive(Debug, Default)]
pub(crate) struct AnswerSet {
    /// The lines of a search for all.
    pub(crate) lines: Vec<String>,
    pub(crate) is_partial: bool,
    pub(crate) counts: Vec<CountAnswer>,
}

impl AnswerSet {
    /// Asks for all records, their number and their histogram, in this order of the three.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub(crate) fn fetch(at: SocketAddr, order: &[usize]) -> anyhow::Result<Self> {
        let mut asked = Self::default();
        for question in order {
            match question {
                0 => {
                    let text = [("Accept", "text/plain")];
                    let answer = call(at, "GET", "/api/v1/query?from=0&q=", &text, b"", ASK_MAX).context("a search")?;
                    let stats = answer.header("bucksaw-stats").context("a search does not tell how whole it is")?;
                    asked.is_partial = serde_json::from_str::<Value>(stats)?["partial"] == true;
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    // What was sent with a time is told as it was sent.
                    asked.lines = text.lines().map(str::to_owned).collect();
                }
                1 => {
                    let told = get(at, "/api/v1/count?from=0&q=", ASK_MAX)?.ok_json().context("a count")?;
                    asked.push("a count", told["count"].as_u64(), &told["stats"]);
                }
                _ => {
                    let told = get(at, HISTOGRAM, ASK_MAX)?.ok_json().context("a histogram")?;
                    let buckets = told["buckets"].as_array().into_iter().flatten();
                    asked.push("a histogram", buckets.map(|bucket| bucket["count"].as_u64()).sum(), &told["stats"]);
                }
            }
        }
        Ok(asked)
    }

    fn push(&mut self, what: &'static str, count: Option<u64>, stats: &Value) {
        let is_partial = stats["partial"] == true;
        self.counts.push(CountAnswer { what, count: count.unwrap_or_default(), is_partial });
    }
}

/// What a node says of the cluster.
pub(crate) fn cluster(at: SocketAddr) -> io::Result<Value> {
    get(at, "/api/v1/cluster", ASK_MAX)?.ok_json()
}

/// Whether metrics tell of damage.
pub(crate) fn metrics_report_damage(at: SocketAddr) -> io::Result<bool> {
    let answer = get(at, "/metrics", ASK_MAX)?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let told = ["bucksaw_store_damaged ", "bucksaw_ingest_segments{state=\"damaged\"} "];
    let is_some = |line: &str| told.iter().any(|name| line.strip_prefix(name).is_some_and(|value| value != "0"));
    Ok(text.lines().any(is_some))
}

/// Whether metrics report notes of idempotency keys that cannot be read.
pub(crate) fn metrics_report_key_damage(at: SocketAddr) -> io::Result<bool> {
    let answer = get(at, "/metrics", ASK_MAX)?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mut lines = text.lines();
    Ok(lines.any(|line| line.strip_prefix("bucksaw_ingest_damaged_keys ").is_some_and(|value| value != "0")))
}

/// What `bucksaw status` prints.
pub(crate) fn status(program: &Path, at: SocketAddr) -> anyhow::Result<String> {
    let (_, said) = run(program, &["status", "--addr", &url(at)])?;
    Ok(said)
}

/// What `bucksaw verify` prints, and whether it calls the directory sound.
pub(crate) fn verify(program: &Path, dir: &Path) -> anyhow::Result<(bool, String)> {
    let dir = dir.to_str().context("an odd directory")?;
    let (code, said) = run(program, &["verify", dir])?;
    Ok((code == Some(0), said))
}

fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = Command::new(program).args(arguments).env_clear().stdin(Stdio::null()).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}
