//! Little's law from the metrics of a real node: over a time that begins and ends with an empty queue, the bytes in the queue
//! times their seconds equal the stored bytes times their mean time in the queue.
//!
//! A scrape has the bytes in the queue at one moment. Between two scrapes they are known within bounds: the bytes accepted
//! meanwhile may be added, or missing. So the sum over all scrapes has a lower and an upper bound, whatever the delays of the
//! machine. Long delays only make the bounds wider; then the load is repeated with records that stay longer in the queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::node::{TestServer, metric_value};

/// Maximum distance of the bounds from their mean, as a share of it.
const UNCERTAINTY_MAX: f64 = 0.05;

/// Rounding, and the time between the reading of the queue and that of the counters in one scrape.
const TOLERANCE: f64 = 0.005;

/// Bytes of a batch.
const BATCH_BYTES: usize = 10_000;

/// Batches that may be in the queue and not in the counters yet: one of each sender.
const UNCOUNTED_BYTES: f64 = 2.0 * BATCH_BYTES as f64;

/// Maximum number of flushes after the load. The queue is empty after one or two.
const FLUSHES_MAX: usize = 20;

/// The metrics of the node at one moment between two times, in seconds.
struct Scrape {
    sent: f64,
    received: f64,
    /// Bytes in the queue.
    queued: f64,
    accepted: f64,
    /// Bytes that the queue has committed, and the sum of their seconds in the queue.
    committed: f64,
    committed_byte_seconds: f64,
    /// Bytes that the store has stored.
    stored: f64,
}

impl Scrape {
    fn new(node: &TestServer, start: Instant) -> Self {
        let sent = start.elapsed().as_secs_f64();
        let text = node.get("/metrics").expect(200).text();
        let received = start.elapsed().as_secs_f64();
        let value = |name: &str| metric_value(&text, &format!("bucksaw_{name}"));
        Self {
            sent,
            received,
            queued: value("ingest_queued_bytes"),
            accepted: value("ingest_bytes_total"),
            committed: value("ingest_consumed_bytes_total"),
            committed_byte_seconds: value("ingest_consumed_byte_seconds_total"),
            stored: value("store_gathered_bytes_total"),
        }
    }
}

/// Metrics from an empty queue over steady load to an empty queue. Records wait about half of `flush_interval`.
fn scrapes_under_load(node: &TestServer, flush_interval: Duration) -> Vec<Scrape> {
    let (start, load_time) = (Instant::now(), flush_interval * 4);
    let (is_done, flushes, batch) =
        (AtomicBool::new(false), AtomicUsize::new(0), "a line of\n".repeat(BATCH_BYTES / 10));
    let mut scrapes = vec![Scrape::new(node, start)];
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            while start.elapsed() < load_time {
                node.post("/api/v1/ingest", &[], batch.as_bytes()).expect(200);
                thread::sleep(Duration::from_millis(5));
            }
        });
        // A record that is acknowledged when it is stored makes the store take what the queue has.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                thread::sleep(flush_interval);
                node.post("/api/v1/ingest?durability=bulk", &[], b"flush\n").expect(200);
                flushes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut flushes_before = None;
        loop {
            thread::sleep(Duration::from_millis(5));
            scrapes.push(Scrape::new(node, start));
            if load.is_finished() {
                let before = *flushes_before.get_or_insert(flushes.load(Ordering::Relaxed));
                let is_empty = scrapes.last().is_some_and(|scrape| scrape.queued == 0.0);
                if is_empty || flushes.load(Ordering::Relaxed) > before + FLUSHES_MAX {
                    break;
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    scrapes
}

/// The time integral of a level for each pair of successive scrapes, with the moments of the scrapes that make it lowest, or
/// highest.
fn integral(scrapes: &[Scrape], level: impl Fn(&Scrape, &Scrape) -> f64, is_highest: bool) -> f64 {
    let mut levels: Vec<f64> = scrapes.windows(2).map(|pair| level(&pair[0], &pair[1])).collect();
    levels.push(0.0);
    let mut before = 0.0;
    let moments = scrapes.iter().zip(levels).map(|(scrape, after)| {
        let fall = before - after;
        before = after;
        fall * if (fall > 0.0) == is_highest { scrape.received } else { scrape.sent }
    });
    moments.sum()
}

#[test]
fn bytes_in_the_queue_are_rate_times_time() {
    let node = TestServer::start(&["--segment-max-age", "300ms"]);
    for round in 0..4 {
        let scrapes = scrapes_under_load(&node, Duration::from_millis(1_500) * 2_u32.pow(round));
        let (first, last) = (&scrapes[0], &scrapes[scrapes.len() - 1]);
        let added = |from: &Scrape, to: &Scrape| to.accepted - from.accepted + UNCOUNTED_BYTES;
        let low = integral(&scrapes, |from, to| (to.queued - added(from, to)).max(0.0), false);
        let high = integral(&scrapes, |from, to| from.queued + added(from, to), true);
        let time = (last.committed_byte_seconds - first.committed_byte_seconds) / (last.committed - first.committed);
        let stored = last.stored - first.stored;
        let figures = format!(
            "{} scrapes: {low:.0} to {high:.0} byte seconds in the queue; {stored} bytes stored x {time:.3} s = {:.0}",
            scrapes.len(),
            stored * time
        );
        // Shown by `cargo test -- --nocapture`.
        eprintln!("{figures}");
        assert!((low * (1.0 - TOLERANCE)..high * (1.0 + TOLERANCE)).contains(&(stored * time)), "{figures}");
        if high - low <= UNCERTAINTY_MAX * (high + low) {
            assert_eq!(last.queued, 0.0, "the queue is not empty");
            return;
        }
    }
    panic!("scrapes take too long for a test");
}
