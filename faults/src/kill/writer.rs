//! Who writes while nodes are killed.

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
use crate::random::Random;
use crate::standalone::StandaloneNode;

/// Between two batches: a hundred lines a second and writer are load enough, and few enough to compare all of them.
const PAUSE: Duration = Duration::from_millis(30);

/// Lines of a batch, at most.
const BATCH_MAX: usize = 6;

/// How long a batch may wait for its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a forwarder may take to ship the rest.
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

/// How a writer brings its lines to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IngestPath {
    /// `bucksaw forward` with this promise, which comes back by itself when the node does.
    Forward(&'static str),
    /// Lines over TCP. Nothing is acknowledged: what was found once must stay.
    Tcp(&'static str),
    /// Batches over HTTP with this promise. With a key that carries its time a batch is sent to one node after the other until
    /// it is acknowledged; without, one that was not answered may or may not be there.
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
            Self::Forward(promise) => format!("forward{promise}"),
            Self::Tcp(promise) => format!("tcp{promise}"),
            Self::Http { durability: promise, is_keyed } => {
                format!("http{promise}{}", if is_keyed { "keyed" } else { "" })
            }
        }
    }

    pub(super) fn address(self, node: &StandaloneNode) -> SocketAddr {
        match self {
            Self::Forward(promise) | Self::Tcp(promise) => node.lines(promise),
            Self::Http { .. } => node.http(),
        }
    }
}

/// A writer that runs.
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
        minder: &CleanupGuard,
        ledger: Arc<Ledger>,
        to: Vec<SocketAddr>,
        seed: u64,
        stop: &Arc<WriterStop>,
    ) -> anyhow::Result<Self> {
        let (own, stop, mut random) = (Arc::clone(&ledger), Arc::clone(stop), Random::new(seed));
        let mut child = None;
        let thread = match way {
            IngestPath::Forward(promise) => {
                let mut command = Command::new(bucksaw);
                command.args(["forward", "--durability", promise, "--label", &format!("writer={}", ledger.name())]);
                command.args(to.iter().flat_map(|at| ["--to".to_owned(), at.to_string()]));
                let log = File::create(home.join(format!("{}.log", ledger.name())))?;
                command.env_clear().process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
                let mut forward = command.spawn().with_context(|| format!("cannot start {}", bucksaw.display()))?;
                minder.register_undo(&format!("kill -9 -{}", forward.id()));
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
            IngestPath::Http { durability: promise, is_keyed } => {
                let target = format!("/api/v1/ingest?durability={promise}&label=writer={}", ledger.name());
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

    /// Whether it may stand still while a node is up: what is asked for needs more stores than one.
    pub(super) fn waits_for_others(&self) -> bool {
        matches!(self.path, IngestPath::Http { durability: "bulk", .. })
    }

    /// Waits until it has ended; it was told to. A forwarder says by its end that everything is acknowledged.
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
            // One that has ended needs no killing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Writes lines to one node after the other, to the next when a connection ends. What was on its way then may be there.
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
            // Nothing is said to a client of lines, so nothing has to be there until it was found.
            ledger.abandon(numbers);
            if stream.write_all(&text).is_err() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Sends a batch; takes it for acknowledged only after a 200. One with a key is sent until then.
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
            // A node that is about to stop, or has more to do than others, says so.
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
