//! Writers of a fault run.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};

use crate::cleanup_guard::CleanupGuard;
use crate::http::call;
use crate::ledger::Ledger;

/// The interval of the portions fed to a forwarder.
const FEED_EVERY: Duration = Duration::from_millis(20);

/// The timeout of a bulk batch.
const BULK_PATIENCE: Duration = Duration::from_secs(20);

/// The maximum time in which a forwarder ships its remaining lines.
const SHIP_MAX: Duration = Duration::from_secs(180);

/// Lines of a bulk batch.
const BATCH: usize = 40;

/// A running `bucksaw forward`, killed on drop.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) ledger: Arc<Ledger>,
    child: Child,
    feeder: Option<JoinHandle<()>>,
    log: std::path::PathBuf,
}

impl Forwarder {
    /// Starts a forwarder and feeds it `rate` lines per second until `stop`.
    pub(crate) fn start(
        bucksaw: &Path,
        home: &Path,
        cleanup: &CleanupGuard,
        ledger: &Arc<Ledger>,
        to: &[SocketAddr],
        rate: usize,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let log = home.join(format!("{}.log", ledger.name()));
        let mut command = Command::new(bucksaw);
        command.args(["forward", "--durability", "durable", "--label", &format!("writer={}", ledger.name())]);
        for at in to {
            command.args(["--to", &at.to_string()]);
        }
        command.env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", bucksaw.display()))?;
        cleanup.register_undo(&format!("kill -9 -{}", child.id()));
        let input = child.stdin.take().context("no pipe")?;
        let (fed, stop) = (Arc::clone(ledger), Arc::clone(stop));
        let feeder = thread::spawn(move || feed(&fed, input, rate, &stop));
        Ok(Self { ledger: Arc::clone(ledger), child, feeder: Some(feeder), log })
    }

    /// Waits until a forwarder without further input has shipped everything, when it exits.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        if let Some(feeder) = self.feeder.take() {
            // The feeder writes into a pipe, which closes when the forwarder ends.
            let _ = feeder.join();
        }
        let until = Instant::now() + SHIP_MAX;
        let read_log = |log: &Path| fs::read_to_string(log).unwrap_or_default();
        let name = self.ledger.name().to_owned();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("forward {name} ended with {status}:\n{}", read_log(&self.log)),
                None if Instant::now() > until => bail!("forward {name} does not exit:\n{}", read_log(&self.log)),
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
        self.ledger.acknowledge_all();
        Ok(())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn feed(ledger: &Ledger, mut input: ChildStdin, rate: usize, stop: &AtomicBool) {
    let (started, mut fed) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * rate as f64) as usize;
        // Does not catch up after a stall by more than one second of lines.
        fed = fed.max(due.saturating_sub(rate));
        if due > fed {
            let numbers = ledger.next(due - fed);
            fed = due;
            if input.write_all(&ledger.text(numbers)).is_err() {
                return;
            }
        }
        thread::sleep(FEED_EVERY);
    }
}

/// Sends `bulk` batches with keys, each repeated to the nodes in turn until it is acknowledged.
pub(crate) fn bulk(ledger: &Ledger, to: &[SocketAddr], pause: Duration, stop: &AtomicBool, abandon: &AtomicBool) {
    let target = format!("/api/v1/ingest?durability=bulk&label=writer={}", ledger.name());
    while !stop.load(Ordering::Relaxed) {
        let numbers = ledger.next(BATCH);
        let body = ledger.text(numbers.clone());
        let key = key(ledger.name(), numbers.start);
        for at in to.iter().cycle() {
            let answer = call(*at, "POST", &target, &[("Idempotency-Key", &key)], &body, BULK_PATIENCE);
            if answer.is_ok_and(|answer| answer.status == 200) {
                ledger.acknowledge(numbers.clone());
                break;
            }
            if abandon.load(Ordering::Relaxed) {
                ledger.abandon(numbers.clone());
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        thread::sleep(pause);
    }
}

/// A UUID of version 7. It carries the time, so a batch gets the same ids on every node.
pub(crate) fn key(writer: &str, number: u64) -> String {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let name = writer.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{:08x}-{:04x}-7000-8{:03x}-{number:012x}", at >> 16, at & 0xffff, name & 0xfff)
}
