//! A node of a measurement, as a child process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::paced::{PacedLoad, SentTotals};
use crate::args::{ClientTlsArgs, NodeArgs, PresentedTokenArgs};
use crate::node_client::{NodeClient, path};
use crate::plan::metrics_text::{MetricHistogram, histogram, value};

/// The maximum time until a node is ready, has stopped, or has merged everything.
const READY_MAX: Duration = Duration::from_secs(60);
const SETTLED_MAX: Duration = Duration::from_secs(600);

/// The time without merges after which a store counts as settled: it looks for merges every second.
const SETTLED_TIME: Duration = Duration::from_secs(2);

/// The time in which the CPU of a node without work is measured.
const BASE_TIME: Duration = Duration::from_secs(5);

/// The time without work after which a restarted node counts as idle.
const STARTED_TIME: Duration = Duration::from_millis(200);

/// The share of a core that a node without work stays below, and one that merges exceeds by far.
const IDLE_CORES: f64 = 0.1;

/// The interval between two looks at a node.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The histogram of the times of group commits.
pub(super) const SYNC_SECONDS: &str = "bucksaw_ingest_sync_seconds";

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasuredRoles {
    Ingest,
    Both,
}

/// A node that is killed when it is dropped.
#[derive(Debug)]
pub(super) struct MeasuredNode {
    directory: PathBuf,
    roles: MeasuredRoles,
    child: Child,
    client: NodeClient,
}

impl MeasuredNode {
    /// Starts a node and waits until it is ready.
    pub(super) async fn start(directory: &Path, roles: MeasuredRoles) -> anyhow::Result<Self> {
        let (child, client) = spawn(directory, roles).await?;
        Ok(Self { directory: directory.to_owned(), roles, child, client })
    }

    /// Stops the node and starts it again, so that its block cache is empty.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("cannot stop the node")?;
        let started = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(started.elapsed() < READY_MAX, "the node does not stop");
            sleep(POLL_INTERVAL).await;
        }
        (self.child, self.client) = spawn(&self.directory, self.roles).await?;
        self.wait_idle(STARTED_TIME).await
    }

    /// Sends lines and waits until they are accepted.
    pub(super) async fn ingest(&self, body: Bytes) -> anyhow::Result<()> {
        self.client
            .renewed()
            .post_lines(&path("/api/v1/ingest", &[("durability", "durable")]), &random_word()?, body)
            .await?;
        Ok(())
    }

    /// Sends requests until the end of the load, and waits until they are accepted.
    pub(super) async fn send(&self, load: PacedLoad<'_>) -> anyhow::Result<SentTotals> {
        load.send(self.client.addr.authority()).await
    }

    /// The whole answer to a call.
    pub(super) async fn ask(&self, call: &str, parameters: &[(&'static str, String)]) -> anyhow::Result<Bytes> {
        self.client.renewed().get(&path(call, parameters)).await
    }

    /// CPU seconds of the process since its start.
    pub(super) async fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.metric("process_cpu_seconds_total").await
    }

    /// The value of a metric without labels.
    pub(super) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let metrics = self.metrics().await?;
        value(&metrics, name).with_context(|| format!("the node has no metric {name}"))
    }

    /// A metric that is a histogram.
    pub(super) async fn histogram(&self, name: &str) -> anyhow::Result<MetricHistogram> {
        let metrics = self.metrics().await?;
        histogram(&metrics, name).with_context(|| format!("the node has no histogram {name}"))
    }

    /// Group commits since its start.
    pub(super) async fn commits(&self) -> anyhow::Result<f64> {
        Ok(self.histogram(SYNC_SECONDS).await?.counts.iter().sum())
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        let body = self.client.renewed().get("/metrics").await?;
        String::from_utf8(body.into()).context("the metrics of the node are no text")
    }

    /// Cores that the node uses without work.
    pub(super) async fn base_cores(&self) -> anyhow::Result<f64> {
        self.wait_idle(SETTLED_TIME).await?;
        let (before, started) = (self.cpu_seconds().await?, Instant::now());
        sleep(BASE_TIME).await;
        Ok((self.cpu_seconds().await? - before) / started.elapsed().as_secs_f64())
    }

    /// Waits until the queue is empty, the store has `bytes` bytes of text, and nothing was merged for two seconds.
    pub(super) async fn wait_settled(&self, bytes: f64) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let metrics = self.metrics().await?;
            let of = |name: &str| value(&metrics, name).unwrap_or(f64::NAN);
            let is_stored = of("bucksaw_store_text_bytes") >= bytes && of("bucksaw_ingest_pending_bytes") == 0.0;
            if is_stored && of("bucksaw_store_backlog_bytes") == 0.0 {
                break;
            }
            ensure!(started.elapsed() < SETTLED_MAX, "the node did not store the sample in {SETTLED_MAX:?}");
            // Answering takes CPU, too.
            sleep(SETTLED_TIME / 2).await;
        }
        self.wait_idle(SETTLED_TIME).await
    }

    /// Waits until the node has used hardly any CPU for this time.
    async fn wait_idle(&self, time: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let before = self.cpu_seconds().await?;
            sleep(time).await;
            if self.cpu_seconds().await? - before < IDLE_CORES * time.as_secs_f64() {
                return Ok(());
            }
            ensure!(started.elapsed() < SETTLED_MAX, "the node does not become idle");
        }
    }
}

impl Drop for MeasuredNode {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// 32 random hexadecimal digits.
pub(super) fn random_word() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("no random numbers")?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Starts a process, waits until it is ready, and connects to it.
async fn spawn(directory: &Path, roles: MeasuredRoles) -> anyhow::Result<(Child, NodeClient)> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let addresses = directory.join("addresses.json");
    if addresses.exists() {
        std::fs::remove_file(&addresses).context("cannot remove the addresses of an earlier start")?;
    }
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let log = directory.with_extension("log");
    let output = std::fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--data-dir").arg(directory).args(["--log-level", "warn", "--audit=false"]);
    for listener in ["", "-fast", "-durable", "-bulk", "-cluster"] {
        command.arg(format!("--listen{listener}")).arg("127.0.0.1:0");
    }
    if roles == MeasuredRoles::Ingest {
        command.args(["--roles", "ingest"]);
    }
    // Settings of the user's own nodes are not those of the measurement.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"BUCKSAW_")) {
        command.env_remove(name);
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn().context("cannot start a node")?;
    let ready = wait_ready(&mut child, &addresses, &log).await;
    if ready.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok((child, ready?))
}

async fn wait_ready(child: &mut Child, addresses: &Path, log: &Path) -> anyhow::Result<NodeClient> {
    let started = Instant::now();
    loop {
        if child.try_wait()?.is_some() {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            bail!("a node for the measurement does not start: {}", text.trim());
        }
        if let Some(client) = std::fs::read(addresses).ok().and_then(|bytes| client(&bytes)) {
            let client = client?;
            if client.renewed().get("/-/ready").await.is_ok() {
                return Ok(client);
            }
        }
        ensure!(started.elapsed() < READY_MAX, "a node for the measurement is not ready after {READY_MAX:?}");
        sleep(POLL_INTERVAL).await;
    }
}

/// A client of the node whose addresses are these; `None` while the file is not complete.
fn client(addresses: &[u8]) -> Option<anyhow::Result<NodeClient>> {
    let addresses: serde_json::Value = serde_json::from_slice(addresses).ok()?;
    let addr = format!("http://{}", addresses.get("http")?.as_str()?).parse().ok()?;
    let args = NodeArgs {
        addr,
        timeout: Some(SETTLED_MAX),
        token: PresentedTokenArgs::default(),
        tls: ClientTlsArgs::default(),
    };
    Some(NodeClient::new(&args))
}
