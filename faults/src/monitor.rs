//! Observes a run from outside: samples the metrics of every node four times per second, counts the records found, and
//! times probe lines from sending to visibility.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::http::{call, get};
use crate::ledger::Ledger;

/// The interval of samples.
pub(crate) const POLL_PERIOD: Duration = Duration::from_millis(250);

/// A node that does not return its metrics within this time is silent.
const METRICS_MAX: Duration = Duration::from_millis(900);

/// The interval of counts of each writer.
const COUNT_PERIOD: Duration = Duration::from_secs(1);

/// The interval of probe lines, the maximum time to look for one, and the pause between two queries.
const PROBE_PERIOD: Duration = Duration::from_secs(1);
const PROBE_MAX: Duration = Duration::from_secs(90);
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// The timeout of a query.
const COUNT_TIMEOUT: Duration = Duration::from_secs(15);

/// The last metrics of a node, accumulated over restarts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeCounters {
    /// Bytes of text accepted, fetched by stores, and pending.
    pub(crate) accepted: f64,
    pub(crate) consumed: f64,
    pub(crate) pending: f64,
    /// Bytes of segment files written or received: the share of a store.
    pub(crate) stored: f64,
    /// Age of the oldest pending segment in seconds.
    pub(crate) oldest_seconds: f64,
    /// Whether the last sample succeeded.
    pub(crate) is_responding: bool,
    /// The counters of the last sample, which restart at zero with the process.
    raw: (f64, f64, f64),
}

/// A sample of the whole cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSample {
    pub(crate) at: Duration,
    pub(crate) nodes: Vec<NodeCounters>,
    pub(crate) found: u64,
    /// Lines sent by each writer.
    pub(crate) sent: Vec<u64>,
    /// Lines found of each writer.
    pub(crate) seen: Vec<u64>,
}

/// A probe line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatencyProbe {
    pub(crate) sent: Duration,
    /// From sending to visibility; `None` if it was given up.
    pub(crate) took: Option<Duration>,
}

/// The cluster monitor.
#[derive(Debug)]
pub(crate) struct ClusterMonitor {
    pub(crate) started: Instant,
    nodes: Vec<SocketAddr>,
    ingest: Vec<SocketAddr>,
    ledgers: Vec<Arc<Ledger>>,
    counters: Mutex<Vec<NodeCounters>>,
    found: AtomicU64,
    seen: Mutex<Vec<u64>>,
    samples: Mutex<Vec<ClusterSample>>,
    probes: Mutex<Vec<LatencyProbe>>,
    stop: AtomicBool,
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterMonitor {
    pub(crate) fn new(nodes: Vec<SocketAddr>, ingest: Vec<SocketAddr>, ledgers: Vec<Arc<Ledger>>) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            counters: Mutex::new(vec![NodeCounters::default(); nodes.len()]),
            seen: Mutex::new(vec![0; ledgers.len()]),
            nodes,
            ingest,
            ledgers,
            found: AtomicU64::new(0),
            samples: Mutex::default(),
            probes: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    /// Samples every node, in threads that end with [`Self::stop`], as those below do.
    pub(crate) fn start_polling(self: &Arc<Self>) {
        for place in 0..self.nodes.len() {
            let watch = Arc::clone(self);
            thread::spawn(move || watch.run_periodically(POLL_PERIOD, |_| watch.poll_node(place)));
        }
        let watch = Arc::clone(self);
        thread::spawn(move || watch.run_periodically(POLL_PERIOD, |_| watch.sample()));
    }

    /// Counts the records found, in total and by writer.
    pub(crate) fn start_counting(self: &Arc<Self>) {
        let watch = Arc::clone(self);
        thread::spawn(move || watch.run_periodically(POLL_PERIOD, |turn| watch.count(turn)));
        let watch = Arc::clone(self);
        thread::spawn(move || watch.run_periodically(COUNT_PERIOD, |turn| watch.count_by_writer(turn)));
    }

    /// Sends probe lines and looks for them.
    pub(crate) fn start_probing(self: &Arc<Self>) {
        let watch = Arc::clone(self);
        thread::spawn(move || {
            watch.run_periodically(PROBE_PERIOD, |turn| {
                let watch = Arc::clone(&watch);
                thread::spawn(move || watch.probe(turn));
            });
        });
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Repeats `work` with its iteration number.
    fn run_periodically(&self, pause: Duration, mut what: impl FnMut(usize)) {
        for turn in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let next = Instant::now() + pause;
            what(turn);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn latest_counters(&self) -> Vec<NodeCounters> {
        lock_ignoring_poison(&self.counters).clone()
    }

    pub(crate) fn samples(&self) -> Vec<ClusterSample> {
        lock_ignoring_poison(&self.samples).clone()
    }

    pub(crate) fn probes(&self) -> Vec<LatencyProbe> {
        lock_ignoring_poison(&self.probes).clone()
    }

    fn poll_node(&self, place: usize) {
        let answer = get(self.nodes[place], "/metrics", METRICS_MAX).ok().filter(|answer| answer.status == 200);
        let mut counters = lock_ignoring_poison(&self.counters);
        let node = &mut counters[place];
        node.is_responding = answer.is_some();
        let Some(answer) = answer else { return };
        let metrics = Metrics::read(&String::from_utf8_lossy(&answer.body));
        let raw = (
            metrics.sum("bucksaw_ingest_bytes_total"),
            metrics.sum("bucksaw_ingest_consumed_bytes_total"),
            metrics.sum("bucksaw_store_written_bytes_total") + metrics.sum("bucksaw_store_received_bytes_total"),
        );
        // A counter that decreased was reset by a restart.
        let grown = |now: f64, before: f64| if now >= before { now - before } else { now };
        node.accepted += grown(raw.0, node.raw.0);
        node.consumed += grown(raw.1, node.raw.1);
        node.stored += grown(raw.2, node.raw.2);
        node.raw = raw;
        node.pending = metrics.sum("bucksaw_ingest_pending_bytes");
        node.oldest_seconds = metrics.sum("bucksaw_ingest_oldest_pending_seconds");
    }

    fn sample(&self) {
        let sample = ClusterSample {
            at: self.now(),
            nodes: self.latest_counters(),
            found: self.found.load(Ordering::Relaxed),
            sent: self.ledgers.iter().map(|ledger| ledger.sent()).collect(),
            seen: lock_ignoring_poison(&self.seen).clone(),
        };
        lock_ignoring_poison(&self.samples).push(sample);
    }

    /// The number of records; partial counts are ignored.
    fn count(&self, turn: usize) {
        if let Some(count) = count(self.nodes[turn % self.nodes.len()], "", 0) {
            self.found.fetch_max(count, Ordering::Relaxed);
        }
    }

    fn count_by_writer(&self, turn: usize) {
        for (place, ledger) in self.ledgers.iter().enumerate() {
            let at = self.nodes[(turn + place) % self.nodes.len()];
            if let Some(count) = count(at, &format!("writer%3D{}", ledger.name()), 0) {
                let mut seen = lock_ignoring_poison(&self.seen);
                seen[place] = seen[place].max(count);
            }
        }
    }

    fn probe(&self, turn: usize) {
        let (sent, since) = (self.now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let (line, until) = (format!("probe {turn} of this run\n"), Instant::now() + PROBE_MAX);
        // A node that does not accept the probe is skipped, as a client would.
        let mut tries = (turn..).map(|turn| self.ingest[turn % self.ingest.len()]);
        let post = |at| {
            let target = "/api/v1/ingest?label=writer=probe";
            call(at, "POST", target, &[], line.as_bytes(), Duration::from_secs(2))
        };
        let is_over = || Instant::now() > until || self.stop.load(Ordering::Relaxed);
        while !is_over() && !tries.next().is_some_and(|at| post(at).is_ok_and(|answer| answer.status == 200)) {
            thread::sleep(PROBE_PAUSE);
        }
        let filter = format!("writer%3Dprobe%20%22probe%20{turn}%20of%22");
        let mut asked = (turn + 1..).map(|turn| self.nodes[turn % self.nodes.len()]);
        let mut took = None;
        while took.is_none() && !is_over() {
            let at = asked.next().unwrap_or(self.nodes[0]);
            let found = count_with_partial(COUNT_TIMEOUT, at, &filter, since.as_secs().saturating_sub(60));
            took = found.filter(|(count, _)| *count > 0).map(|_| self.now() - sent);
            thread::sleep(PROBE_PAUSE);
        }
        if took.is_some() || Instant::now() > until {
            lock_ignoring_poison(&self.probes).push(LatencyProbe { sent, took });
        }
    }
}

/// The number of records in a complete answer.
pub(crate) fn count(at: SocketAddr, filter: &str, from: u64) -> Option<u64> {
    count_within(COUNT_TIMEOUT, at, filter, from)
}

/// As [`count`], with another timeout.
pub(crate) fn count_within(time: Duration, at: SocketAddr, filter: &str, from: u64) -> Option<u64> {
    count_with_partial(time, at, filter, from).filter(|(_, partial)| !partial).map(|(count, _)| count)
}

fn count_with_partial(time: Duration, at: SocketAddr, filter: &str, from: u64) -> Option<(u64, bool)> {
    let answer = get(at, &format!("/api/v1/count?from={from}&q={filter}"), time).ok()?.ok_json().ok()?;
    Some((answer["count"].as_u64()?, answer["stats"]["partial"].as_bool()?))
}

/// The metrics of a node, summed over their labels.
#[derive(Debug)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub(crate) fn read(text: &str) -> Self {
        let mut sums = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let name = name.split('{').next().unwrap_or_default();
            *sums.entry(name.to_owned()).or_default() += value.parse().unwrap_or(0.0);
        }
        Self(sums)
    }

    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_labels() {
        let metrics =
            Metrics::read("# TYPE a counter\na_total{s=\"x\"} 3\na_total{s=\"y z\"} 4\na_total_more 9\n# EOF\n");
        assert_eq!((metrics.sum("a_total"), metrics.sum("a_total_more"), metrics.sum("b")), (7.0, 9.0, 0.0));
    }
}
