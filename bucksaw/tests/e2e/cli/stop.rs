//! SIGTERM under load: acknowledged records, and those written to a socket before, are stored.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::child_process::ChildProcess;
use crate::client::call;
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

/// Minimum records before the stop.
const BEFORE: u64 = 30_000;

/// Lines per write.
const LINES: u64 = 100;

/// A thread that sends numbered lines as its own stream.
struct LoadSender {
    name: String,
    /// Counted lines: written to the socket, or acknowledged.
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl LoadSender {
    fn start(name: &str, mut send: impl FnMut(&[u8]) -> bool + Send + 'static) -> Self {
        let safe = Arc::new(AtomicU64::new(0));
        let (name, counted) = (name.to_owned(), Arc::clone(&safe));
        let stream = name.clone();
        let thread = thread::spawn(move || {
            for first in (0..).step_by(LINES as usize) {
                let line = |number: u64| format!("{stream} {number} of a stream of lines, as long as they often are\n");
                let text: String = (first..first + LINES).map(line).collect();
                if !send(text.as_bytes()) {
                    return;
                }
                counted.store(first + LINES, Ordering::Release);
                // The rate of a busy source.
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self { name, acknowledged: safe, thread }
    }

    /// Waits for its end; returns the number of counted lines.
    fn end(self) -> u64 {
        self.thread.join().unwrap();
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Lines to a port.
    fn tcp(node: &TestServer, listener: &str, number: u64) -> Self {
        let name = format!("{listener}-{number}");
        let mut stream = node.connect(listener);
        stream.write_all(format!("#labels from={name}\n").as_bytes()).unwrap();
        Self::start(&name, move |text| stream.write_all(text).is_ok())
    }

    /// Acknowledged bodies over HTTP.
    fn http(node: &TestServer, durability: &str, number: u64) -> Self {
        let name = format!("http-{durability}-{number}");
        let address = node.address("http").to_owned();
        let target = format!("/api/v1/ingest?durability={durability}&label=from={name}");
        Self::start(&name, move |text| {
            call(&address, "POST", &target, &[], text).is_ok_and(|answer| answer.status == 200)
        })
    }
}

#[test]
fn a_stop_under_load_loses_nothing() {
    let mut node = TestServer::start(&["--segment-max-age", "300ms"]);
    let mut senders = Vec::new();
    for number in 0..2 {
        senders.extend(["fast", "durable", "bulk"].map(|listener| LoadSender::tcp(&node, listener, number)));
        senders.extend(["fast", "durable"].map(|durability| LoadSender::http(&node, durability, number)));
    }
    let to = ["forward", "--to", node.address("durable"), "--label", "from=forward"];
    let mut forward = ChildProcess::start(&mut bucksaw(to));
    let mut pipe = forward.input.take().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let piped =
        LoadSender::start("forward", move |text| !ended.load(Ordering::Acquire) && pipe.write_all(text).is_ok());
    let all_sent = || senders.iter().all(|sender| sender.acknowledged.load(Ordering::Acquire) > 0);
    wait_until("the node is under load", || all_sent() && node.count("") >= BEFORE);
    // The counts before SIGTERM.
    let before: Vec<u64> = senders.iter().map(|sender| sender.acknowledged.load(Ordering::Acquire)).collect();
    let durable = node.address("durable").to_owned();
    assert!(node.terminate().success(), "the node did not end well");
    // After the restart the forwarder continues.
    node.restart_with(&["--segment-max-age", "300ms", "--listen-durable", &durable]);
    done.store(true, Ordering::Release);
    let shipped = piped.end();
    assert!(forward.wait_with_output().0.success());
    assert_eq!(node.count("from=forward"), shipped, "forward");
    let (streams, mut sum) = (senders.len(), 0);
    for (sender, before) in senders.into_iter().zip(before) {
        let name = sender.name.clone();
        let acknowledged = name.starts_with("http");
        let at_end = sender.end();
        // Lines acknowledged during the stop count, too.
        let safe = if acknowledged { at_end } else { before };
        let text = String::from_utf8(node.cli(&["query", &format!("from={name}")]).stdout).unwrap();
        let whole = text.lines().filter(|line| line.ends_with("as they often are"));
        let mut numbers: Vec<u64> = whole.map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
        if acknowledged {
            // Each body is its own stream.
            numbers.sort_unstable();
        }
        let count = numbers.len() as u64;
        assert!(numbers.into_iter().eq(0..count), "{name}: lines are missing, doubled or out of order");
        assert!(count >= safe, "{name}: {count} lines of {safe} are there");
        sum += count;
    }
    eprintln!("{sum} lines of {streams} senders, {shipped} lines forwarded: none lost, none doubled");
}
