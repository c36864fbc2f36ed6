//! Who writes while things go wrong.

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

/// Between two portions that a forwarder is fed with.
const FEED_EVERY: Duration = Duration::from_millis(20);

/// How long a bulk batch may wait for its answer.
const BULK_PATIENCE: Duration = Duration::from_secs(20);

/// How long a forwarder may take to ship the rest.
const SHIP_MAX: Duration = Duration::from_secs(180);

/// Lines of a bulk batch.
const BATCH: usize = 40;

/// A running `bucksaw forward`. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) ledger: Arc<Ledger>,
    child: Child,
    feeder: Option<JoinHandle<()>>,
    log: std::path::PathBuf,
}

impl Forwarder {
    /// Starts it, and feeds it with so many lines a second until `stop`.
    pub(crate) fn start(
        bucksaw: &Path,
        home: &Path,
        minder: &CleanupGuard,
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
        minder.register_undo(&format!("kill -9 -{}", child.id()));
        let input = child.stdin.take().context("no pipe")?;
        let (fed, stop) = (Arc::clone(ledger), Arc::clone(stop));
        let feeder = thread::spawn(move || feed(&fed, input, rate, &stop));
        Ok(Self { ledger: Arc::clone(ledger), child, feeder: Some(feeder), log })
    }

    /// Waits until it has shipped everything, which it says by its end. Its feeding has been stopped.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        if let Some(feeder) = self.feeder.take() {
            // It only writes into a pipe; a forwarder that is gone ends it.
            let _ = feeder.join();
        }
        let until = Instant::now() + SHIP_MAX;
        let said = |log: &Path| fs::read_to_string(log).unwrap_or_default();
        let name = self.ledger.name().to_owned();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("forward {name} ended with {status}:\n{}", said(&self.log)),
                None if Instant::now() > until => bail!("forward {name} does not end:\n{}", said(&self.log)),
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
        self.ledger.acknowledge_all();
        Ok(())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // One that has ended needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn feed(ledger: &Ledger, mut input: ChildStdin, rate: usize, stop: &AtomicBool) {
    let (started, mut fed) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * rate as f64) as usize;
        // After a wait it does not catch up at once: at most a second's lines are late.
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

/// Sends batches that count only when they are replicated, each with a key and again until it is acknowledged: first to one
/// node, and then to one after the other.
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

/// A UUID of version 7: its time is known to all nodes, so a batch is the same records wherever it is sent.
pub(crate) fn key(writer: &str, number: u64) -> String {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let name = writer.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{:08x}-{:04x}-7000-8{:03x}-{number:012x}", at >> 16, at & 0xffff, name & 0xfff)
}
