//! Writers of the kill test.

use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cleanup_guard::CleanupGuard;
use crate::http::call;
use crate::ledger::Ledger;
use crate::load::key;
use crate::standalone::StandaloneNode;
use bucksaw_fixtures::Random;

/// The pause between batches. About a hundred lines per second and writer are enough load, and can all be compared.
const PAUSE: Duration = Duration::from_millis(30);

/// Maximum lines of a batch.
const BATCH_MAX: usize = 6;

/// The timeout of a batch.
const PATIENCE: Duration = Duration::from_secs(20);

/// The maximum time in which a forwarder ships its remaining lines.
const SHIP_MAX: Duration = Duration::from_secs(180);

/// Ends the writers.
#[derive(Debug, Default)]
pub(super) struct WriterStop(AtomicBool);

impl WriterStop {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a writer sends lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IngestPath {
    /// `bucksaw forward` with this durability, which reconnects by itself.
    Forward(&'static str),
    /// Lines over TCP, never acknowledged. A line that was found must stay.
    Tcp(&'static str),
    /// Batches over HTTP with this durability. A batch with a key that carries its time is sent to the nodes in turn
    /// until it is acknowledged. A batch without a key that was not answered may or may not be stored.
    Http { durability: &'static str, is_keyed: bool },
}

impl IngestPath {
    pub(super) const ALL: [Self; 9] = [
        Self::Forward("fast"),
        Self::Forward("durable"),
        Self::Tcp("fast"),
        Self::Tcp("durable"),
        Self::Http { durability: "fast", is_keyed: false },
        Self::Http { durability: "fast", is_keyed: true },
        Self::Http { durability: "durable", is_keyed: false },
        Self::Http { durability: "durable", is_keyed: true },
        Self::Http { durability: "bulk", is_keyed: true },
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Forward(durability) => format!("forward{durability}"),
            Self::Tcp(durability) => format!("tcp{durability}"),
            Self::Http { durability, is_keyed } => {
                format!("http{durability}{}", if is_keyed { "keyed" } else { "" })
            }
        }
    }

    pub(super) fn address(self, node: &StandaloneNode) -> SocketAddr {
        match self {
            Self::Forward(durability) | Self::Tcp(durability) => node.lines(durability),
            Self::Http { .. } => node.http(),
        }
    }
}

/// A running writer.
#[derive(Debug)]
pub(super) struct KillWriter {
    pub(super) ledger: Arc<Ledger>,
    path: IngestPath,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    child: Option<Child>,
}

impl KillWriter {
    #[expect(clippy::too_many_arguments, reason = "all that a writer needs, once")]
    pub(super) fn start(
        way: IngestPath,
        bucksaw: &Path,
        home: &Path,
        cleanup: &CleanupGuard,
        ledger: Arc<Ledger>,
        to: Vec<SocketAddr>,
        seed: u64,
        stop: &Arc<WriterStop>,
    ) -> anyhow::Result<Self> {
        let (own, stop, mut random) = (Arc::clone(&ledger), Arc::clone(stop), Random::new(seed));
        let mut child = None;
        let thread = match way {
            IngestPath::Forward(durability) => {
                let mut command = Command::new(bucksaw);
                command.args(["forward", "--durability", durability, "--label", &format!("writer={}", ledger.name())]);
                command.args(to.iter().flat_map(|at| ["--to".to_owned(), at.to_string()]));
                let log = File::create(home.join(format!("{}.log", ledger.name())))?;
                command.env_clear().process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
                let mut forward = command.spawn().with_context(|| format!("cannot start {}", bucksaw.display()))?;
                cleanup.register_undo(&format!("kill -9 -{}", forward.id()));
                let mut input = forward.stdin.take().context("no pipe")?;
                child = Some(forward);
                thread::spawn(move || {
                    while !stop.is_set() {
                        let numbers = own.next(1 + random.below(BATCH_MAX));
                        input.write_all(&own.text(numbers)).context("forward ended")?;
                        thread::sleep(PAUSE);
                    }
                    Ok(())
                })
            }
            IngestPath::Tcp(_) => thread::spawn(move || {
                lines(&own, &to, &mut random, &stop);
                Ok(())
            }),
            IngestPath::Http { durability, is_keyed } => {
                let target = format!("/api/v1/ingest?durability={durability}&label=writer={}", ledger.name());
                thread::spawn(move || {
                    while !stop.is_set() {
                        let numbers = own.next(1 + random.below(BATCH_MAX));
                        post(&own, &to, &target, is_keyed, numbers)?;
                        thread::sleep(PAUSE);
                    }
                    Ok(())
                })
            }
        };
        Ok(Self { ledger, path: way, thread: Some(thread), child })
    }

    /// Whether the writer may stall while a node is up, because its durability needs several stores.
    pub(super) fn waits_for_others(&self) -> bool {
        matches!(self.path, IngestPath::Http { durability: "bulk", .. })
    }

    /// Waits for the end of a stopped writer. A forwarder exits once everything is acknowledged.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let name = self.ledger.name().to_owned();
        if let Some(thread) = self.thread.take() {
            match thread.join() {
                Ok(ended) => ended.with_context(|| name.clone())?,
                Err(_) => bail!("{name} panicked"),
            }
        }
        let Some(child) = &mut self.child else { return Ok(()) };
        let until = Instant::now() + SHIP_MAX;
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("{name} ended with {status}"),
                None if Instant::now() > until => bail!("{name} does not end"),
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
        self.child = None;
        self.ledger.acknowledge_all();
        Ok(())
    }
}

impl Drop for KillWriter {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Writes lines to the nodes in turn, changing nodes when a connection ends. Lines in transit may or may not be
/// stored.
fn lines(ledger: &Ledger, to: &[SocketAddr], random: &mut Random, stop: &WriterStop) {
    let connect = |at: &SocketAddr| {
        let stream = TcpStream::connect_timeout(at, Duration::from_secs(1)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(stream)
    };
    for at in to.iter().cycle() {
        if stop.is_set() {
            return;
        }
        let Some(mut stream) = connect(at) else {
            thread::sleep(PAUSE);
            continue;
        };
        while !stop.is_set() {
            let numbers = ledger.next(1 + random.below(BATCH_MAX));
            let text = ledger.text(numbers.clone());
            // TCP lines are not acknowledged, so a line need not be stored before it was found.
            ledger.abandon(numbers);
            if stream.write_all(&text).is_err() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Sends a batch; only status 200 acknowledges it. A batch with a key is repeated until then.
fn post(ledger: &Ledger, to: &[SocketAddr], target: &str, is_keyed: bool, numbers: Range<u64>) -> anyhow::Result<()> {
    let body = ledger.text(numbers.clone());
    let key = key(ledger.name(), numbers.start);
    let headers = [("Idempotency-Key", key.as_str())];
    let headers = if is_keyed { &headers[..] } else { &[] };
    for at in to.iter().cycle() {
        match call(*at, "POST", target, headers, &body, PATIENCE) {
            Ok(answer) if answer.status == 200 => {
                ledger.acknowledge(numbers);
                return Ok(());
            }
            // A node that stops or is overloaded refuses.
            Ok(answer) if answer.status == 503 || answer.status == 429 => {}
            Ok(answer) => bail!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
            Err(_) => {}
        }
        if !is_keyed {
            ledger.abandon(numbers);
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
