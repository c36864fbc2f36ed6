//! The writers during the kills.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::call;
use crate::node::bucksaw;
use crate::wait::wait_for;
use bucksaw_faults::Random;

use bucksaw_faults::Ledger;

/// Pause between batches: some hundred records per second and writer, few enough to compare all.
const PAUSE: Duration = Duration::from_millis(5);

/// Maximum records of a batch.
const BATCH_MAX: usize = 20;

/// Ends the writers.
#[derive(Debug, Default)]
pub(crate) struct StopFlag {
    wanted: AtomicBool,
    /// The test has failed: writers stop waiting.
    failed: AtomicBool,
}

impl StopFlag {
    pub(crate) fn set(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Ends the writers also when the test fails.
    pub(crate) fn when_dropped(&self) -> impl Drop {
        struct StopOnDrop<'a>(&'a StopFlag);
        impl Drop for StopOnDrop<'_> {
            fn drop(&mut self) {
                self.0.set();
                self.0.failed.store(thread::panicking(), Ordering::Relaxed);
            }
        }
        StopOnDrop(self)
    }
}

/// How a writer sends its lines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriterKind {
    /// `forward` with this durability, which reconnects by itself.
    Forward(&'static str),
    /// One batch per HTTP request. With a key it is retried until acknowledged; without, a batch without reply may or may not be
    /// stored.
    Http { durability: &'static str, keyed: bool },
}

impl WriterKind {
    /// The name of its listener.
    pub(crate) fn listener(self) -> &'static str {
        match self {
            Self::Forward(durability) => durability,
            Self::Http { .. } => "http",
        }
    }

    /// Writes until it is stopped.
    pub(crate) fn write(self, ledger: &Ledger, address: &str, seed: u64, stop: &StopFlag) {
        let mut random = Random::new(seed);
        match self {
            Self::Forward(durability) => forward(ledger, address, durability, &mut random, stop),
            Self::Http { durability, keyed } => {
                let target = format!("/api/v1/ingest?durability={durability}&label=writer={}", ledger.name());
                while !stop.is_set() {
                    post(ledger, address, &target, keyed, 1 + random.below(BATCH_MAX), stop);
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// Sends a batch; it is acknowledged only by a 200.
fn post(ledger: &Ledger, address: &str, target: &str, keyed: bool, count: usize, stop: &StopFlag) {
    let numbers = ledger.next(count);
    let body = ledger.text(numbers.clone());
    let key = format!("{} {}", ledger.name(), numbers.start);
    let headers = [("Idempotency-Key", key.as_str())];
    let headers = if keyed { &headers[..] } else { &[] };
    while !stop.has_failed() {
        match call(address, "POST", target, headers, &body) {
            Ok(answer) if answer.status == 200 => {
                assert_eq!(answer.json()["accepted"], count);
                ledger.acknowledge(numbers);
                return;
            }
            // A stopping node refuses.
            Ok(answer) => drop(answer.expect(503)),
            Err(_) => {}
        }
        if !keyed {
            ledger.abandon(numbers);
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Feeds a `forward` until `stop`; it exits with 0 when everything is acknowledged.
fn forward(ledger: &Ledger, address: &str, durability: &str, random: &mut Random, stop: &StopFlag) {
    let label = format!("writer={}", ledger.name());
    let arguments = ["forward", "--to", address, "--durability", durability, "--label", &label];
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut child = bucksaw(arguments).stdin(Stdio::piped()).stderr(log.reopen().unwrap()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    while !stop.is_set() {
        let numbers = ledger.next(1 + random.below(BATCH_MAX));
        input.write_all(&ledger.text(numbers)).unwrap();
        thread::sleep(PAUSE);
    }
    drop(input);
    if stop.has_failed() {
        child.kill().unwrap();
    }
    let status = wait_for("forward ships the rest", || child.try_wait().unwrap());
    let said = || String::from_utf8_lossy(&fs::read(log.path()).unwrap()).into_owned();
    assert!(status.success() || stop.has_failed(), "forward {durability} ended: {status}\n{}", said());
}
