//! A node as a process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::http::Client;
use bucksaw_faults::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::process;

/// The maximum time until a node is ready, has exited, or has stored everything.
const READY_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(60);
const SETTLE_MAX: Duration = Duration::from_secs(900);

/// The idle time after which the store counts as settled. It looks for merges every second.
const IDLE_TIME: Duration = Duration::from_secs(2);

/// CPU seconds in that time that a merging node exceeds by far.
const IDLE_CPU_SECONDS: f64 = 0.2;

/// A running node, killed on drop.
#[derive(Debug)]
pub(crate) struct BenchNode {
    child: Child,
    dir: PathBuf,
    addresses: BTreeMap<String, String>,
    /// The time from the start of the process until it was ready.
    pub(crate) ready_after: Duration,
    /// CPU seconds until it was ready.
    ready_cpu: f64,
}

impl BenchNode {
    /// Starts a node on free ports and waits until it is ready.
    pub(crate) fn start(bucksaw: &Path, dir: &Path, more: &[&str]) -> anyhow::Result<Self> {
        Self::start_launched_by(&[], bucksaw, dir, more)
    }

    /// The same by a launcher: a command that becomes the program whose name and arguments follow, with the same process id.
    pub(crate) fn start_launched_by(
        launcher: &[String],
        bucksaw: &Path,
        dir: &Path,
        more: &[&str],
    ) -> anyhow::Result<Self> {
        Self::spawn(launcher, bucksaw, dir, more, |addresses| {
            let get = |address: &String| anyhow::Ok(http_client(address)?.get("/-/ready")?.status);
            addresses.get("http").is_some_and(|address| get(address).is_ok_and(|status| status == 200))
        })
    }

    /// The same for a node whose readiness is found out by `is_ready` from its addresses.
    pub(crate) fn start_until(
        bucksaw: &Path,
        dir: &Path,
        more: &[&str],
        is_ready: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> anyhow::Result<Self> {
        Self::spawn(&[], bucksaw, dir, more, is_ready)
    }

    fn spawn(
        launcher: &[String],
        bucksaw: &Path,
        dir: &Path,
        more: &[&str],
        is_ready: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let addresses = dir.join("addresses.json");
        if addresses.exists() {
            fs::remove_file(&addresses)?;
        }
        let log = File::create(dir.with_extension("stderr"))?;
        let mut command = match launcher {
            [] => Command::new(bucksaw),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(bucksaw);
                command
            }
        };
        command.arg("serve").arg("--data-dir").arg(dir).args(["--log-level", "warn"]);
        for listener in ["", "-fast", "-durable", "-bulk"] {
            command.arg(format!("--listen{listener}")).arg("127.0.0.1:0");
        }
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", bucksaw.display()))?;
        let mut node = Self {
            child,
            dir: dir.to_owned(),
            addresses: BTreeMap::new(),
            ready_after: Duration::ZERO,
            ready_cpu: 0.0,
        };
        let every = Duration::from_millis(1);
        node.addresses = wait::until("the node's addresses", every, READY_MAX, || {
            if node.child.try_wait()?.is_some() {
                bail!("the node exited: {}", node.log());
            }
            Ok(fs::read(&addresses).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()))
        })?;
        wait::until("the node being ready", every, READY_MAX, || Ok(is_ready(&node.addresses).then_some(())))?;
        node.ready_after = started.elapsed();
        node.ready_cpu = process::cpu_seconds(node.pid())?;
        Ok(node)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address of a listener: `http`, `fast`, `durable`.
    pub(crate) fn address(&self, listener: &str) -> anyhow::Result<&str> {
        self.addresses
            .get(listener)
            .map(String::as_str)
            .with_context(|| format!("the node has no listener `{listener}`"))
    }

    pub(crate) fn http(&self) -> anyhow::Result<Client> {
        http_client(self.address("http")?)
    }

    /// CPU seconds since it was ready.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        Ok(process::cpu_seconds(self.pid())? - self.ready_cpu)
    }

    /// The number of records.
    pub(crate) fn count(&self) -> anyhow::Result<u64> {
        let answer = self.http()?.get("/api/v1/count?from=30d")?.ok_json()?;
        ensure!(answer.pointer("/stats/partial") == Some(&Value::Bool(false)), "the count is partial: {answer}");
        number(&answer, "/count")
    }

    /// Fails unless there are exactly `records` records.
    pub(crate) fn assert_count(&self, lines: u64) -> anyhow::Result<()> {
        let count = self.count()?;
        ensure!(count == lines, "{lines} lines were sent, and {count} records are there: {}", self.log());
        Ok(())
    }

    /// Waits until `bytes` bytes of text were accepted.
    pub(crate) fn wait_accepted(&self, bytes: u64) -> anyhow::Result<()> {
        let mut http = self.http()?;
        wait::until("everything being accepted", Duration::from_millis(5), SETTLE_MAX, || {
            let accepted = sum(&metrics(&mut http)?, "bucksaw_ingest_bytes_total") as u64;
            ensure!(accepted <= bytes, "{bytes} bytes were sent, and {accepted} accepted");
            Ok((accepted == bytes).then_some(()))
        })
    }

    /// Waits until the queue is empty, the store has `bytes` bytes of text, and for two seconds no merge was done and
    /// hardly any CPU used. Returns the time and the CPU at the start of these two seconds.
    pub(crate) fn wait_settled(&self, bytes: u64) -> anyhow::Result<(Instant, f64)> {
        let mut http = self.http()?;
        let mut rest: Option<(Instant, f64, f64)> = None;
        wait::until("the store to become idle", Duration::from_millis(250), SETTLE_MAX, || {
            let cluster = http.get("/api/v1/cluster")?.ok_json()?;
            let merges = sum(&metrics(&mut http)?, "bucksaw_store_compactions_total");
            let cpu = self.cpu()?;
            let queued = number(&cluster, "/nodes/0/queue/segments")?;
            let stored = number(&cluster, "/nodes/0/store/text_bytes")?;
            let still = |(_, started, done): &(Instant, f64, f64)| merges == *done && cpu - started < IDLE_CPU_SECONDS;
            rest = rest.filter(|rest| queued == 0 && stored == bytes && still(rest));
            let (since, started, _) = *rest.get_or_insert((Instant::now(), cpu, merges));
            Ok((queued == 0 && stored == bytes && since.elapsed() >= IDLE_TIME).then_some((since, started)))
        })
    }

    /// A metric, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        Ok(sum(&self.metrics()?, name))
    }

    /// The metrics, as `/metrics` shows them.
    pub(crate) fn metrics(&self) -> anyhow::Result<String> {
        metrics(&mut self.http()?)
    }

    /// Waits until the files of committed queue segments are removed.
    pub(crate) fn wait_removed(&self) -> anyhow::Result<()> {
        let mut http = self.http()?;
        wait::until("committed files being removed", Duration::from_millis(200), STOP_MAX, || {
            let metrics = metrics(&mut http)?;
            Ok((value(&metrics, "bucksaw_ingest_segments{state=\"committed\"}") == Some(0.0)).then_some(()))
        })
    }

    /// Stops the node and waits for its exit.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("cannot stop the node")?;
        let status =
            wait::until("the node's end", Duration::from_millis(10), STOP_MAX, || Ok(self.child.try_wait()?))?;
        ensure!(status.success(), "the node failed at its end: {}", self.log());
        Ok(())
    }

    /// Its standard error.
    pub(crate) fn log(&self) -> String {
        let text = fs::read_to_string(self.dir.with_extension("stderr")).unwrap_or_default();
        if text.is_empty() { "it said nothing".into() } else { text }
    }
}

impl Drop for BenchNode {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The timeout of an HTTP read or write.
const HTTP_TIMEOUT: Duration = Duration::from_secs(120);

/// Connects to a node.
pub(crate) fn http_client(address: &str) -> anyhow::Result<Client> {
    Client::connect(address, HTTP_TIMEOUT).with_context(|| format!("cannot connect to {address}"))
}

/// A number in an answer.
pub(crate) fn number(answer: &Value, pointer: &str) -> anyhow::Result<u64> {
    answer.pointer(pointer).and_then(Value::as_u64).with_context(|| format!("the answer has no {pointer}: {answer}"))
}

fn metrics(http: &mut Client) -> anyhow::Result<String> {
    let answer = http.get("/metrics")?;
    ensure!(answer.status == 200, "/metrics: status {}", answer.status);
    Ok(String::from_utf8(answer.body)?)
}

fn value(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The sum over all labels.
pub(crate) fn sum(metrics: &str, name: &str) -> f64 {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    };
    metrics.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let text = "# TYPE a counter\na_total{s=\"x\"} 3\na_total{s=\"y\"} 4\na_total_more 9\nb{state=\"c\"} 0\nc 2.5\n# EOF\n";
        assert_eq!(sum(text, "a_total"), 7.0);
        assert_eq!(sum(text, "c"), 2.5);
        assert_eq!(value(text, "b{state=\"c\"}"), Some(0.0));
        assert_eq!(value(text, "b{state=\"d\"}"), None);
    }
}
