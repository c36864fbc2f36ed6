//! What the source shows of itself: connections, the lag of each topic, messages that do not fit, the last failure.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::Millis;

/// Topics of a status at most: those that are furthest behind.
const TOPICS_MAX: usize = 50;

/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 300;

/// Collects what the workers report. Cheap to clone; all clones are of one source.
#[derive(Clone, Debug, Default)]
pub struct KafkaMonitor(Arc<Mutex<MonitorState>>);

#[derive(Debug, Default)]
struct MonitorState {
    workers: BTreeMap<usize, WorkerReport>,
    /// Messages that do not fit their mapping, by topic, since the start.
    undecoded: BTreeMap<String, u64>,
    last_failure: Option<(Millis, String)>,
}

#[derive(Debug, Default)]
struct WorkerReport {
    /// `None` while a broker is connected.
    disconnected_since: Option<Millis>,
    /// Why the queue refuses what was read.
    refusal: Option<String>,
    partitions: Vec<PartitionLag>,
}

/// How far a partition is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionLag {
    pub(crate) topic: Arc<str>,
    /// Messages that are not stored with their durability.
    pub(crate) lag: u64,
    /// The timestamp of the last message that was read.
    pub(crate) read_time: Option<Millis>,
    /// When the lag was last 0 since the assignment.
    pub(crate) caught_up_at: Option<Millis>,
}

impl PartitionLag {
    /// For how long the next message has waited at most, by the times that are known.
    fn behind(&self, now: Millis) -> Option<Duration> {
        if self.lag == 0 {
            return Some(Duration::ZERO);
        }
        // The next message is not older than the last one that was read, and came after the lag was 0.
        let since = self.read_time.into_iter().chain(self.caught_up_at).max()?;
        Some(Duration::from_millis(now.0.saturating_sub(since.0)))
    }
}

/// The state of the source of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaStatus {
    /// Running workers.
    pub workers: usize,
    /// Workers with a connection to a broker.
    pub connected_workers: usize,
    /// Since when a worker has had no connection; `None` if all have one.
    pub disconnected_since: Option<Millis>,
    /// Why the queue refuses what was read; `None` while it accepts it.
    pub refusal: Option<String>,
    /// The last failure since the start, and its time. It may be over.
    pub last_failure: Option<(Millis, String)>,
    /// Assigned partitions of all topics.
    pub partitions: usize,
    /// Messages of all assigned partitions that are not stored with their durability.
    pub lag: u64,
    /// For how long the oldest of these has waited at most; `None` if it is unknown.
    pub behind: Option<Duration>,
    /// Messages that do not fit their mapping, since the start.
    pub undecoded: u64,
    /// The topics, those with the largest lag first, at most 50.
    pub topics: Vec<TopicStatus>,
    /// Topics that are not listed.
    pub topics_left_out: usize,
}

/// The state of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicStatus {
    /// Its name.
    pub topic: String,
    /// Partitions that are assigned to the node.
    pub partitions: usize,
    /// As [`KafkaStatus::lag`].
    pub lag: u64,
    /// As [`KafkaStatus::behind`].
    pub behind: Option<Duration>,
    /// As [`KafkaStatus::undecoded`].
    pub undecoded: u64,
}

impl KafkaMonitor {
    /// Adds a worker, which has no connection yet.
    pub(crate) fn start(&self, worker: usize, now: Millis) {
        let report = WorkerReport { disconnected_since: Some(now), ..WorkerReport::default() };
        lock(&self.0).workers.insert(worker, report);
    }

    pub(crate) fn end(&self, worker: usize) {
        lock(&self.0).workers.remove(&worker);
    }

    pub(crate) fn set_connected(&self, worker: usize, is_connected: bool, now: Millis) {
        self.update(worker, |report| {
            report.disconnected_since = (!is_connected).then(|| report.disconnected_since.unwrap_or(now));
        });
    }

    /// `None` if the queue accepts records again.
    pub(crate) fn set_refusal(&self, worker: usize, refusal: Option<String>) {
        self.update(worker, |report| report.refusal = refusal);
    }

    pub(crate) fn set_partitions(&self, worker: usize, partitions: Vec<PartitionLag>) {
        self.update(worker, |report| report.partitions = partitions);
    }

    fn update(&self, worker: usize, change: impl FnOnce(&mut WorkerReport)) {
        if let Some(report) = lock(&self.0).workers.get_mut(&worker) {
            change(report);
        }
    }

    pub(crate) fn count_undecoded(&self, topic: &str) {
        let mut state = lock(&self.0);
        match state.undecoded.get_mut(topic) {
            Some(count) => *count += 1,
            None => _ = state.undecoded.insert(topic.to_owned(), 1),
        }
    }

    /// Notes a failure, which has no secret in it.
    pub(crate) fn fail(&self, now: Millis, reason: &str) {
        let reason = reason.chars().filter(|char| !char.is_control()).take(REASON_CHARS_MAX).collect();
        lock(&self.0).last_failure = Some((now, reason));
    }

    /// The state as last reported: lags are updated every 2 s.
    pub fn status(&self, now: Millis) -> KafkaStatus {
        let state = lock(&self.0);
        let workers = state.workers.values();
        let mut topics: BTreeMap<&str, TopicStatus> = BTreeMap::new();
        let mut status = KafkaStatus {
            workers: workers.len(),
            connected_workers: workers.clone().filter(|worker| worker.disconnected_since.is_none()).count(),
            disconnected_since: workers.clone().filter_map(|worker| worker.disconnected_since).min(),
            refusal: workers.clone().find_map(|worker| worker.refusal.clone()),
            last_failure: state.last_failure.clone(),
            undecoded: state.undecoded.values().sum(),
            behind: Some(Duration::ZERO),
            ..KafkaStatus::default()
        };
        for partition in workers.flat_map(|worker| &worker.partitions) {
            let behind = partition.behind(now);
            let longest = |so_far: Option<Duration>| Some(so_far?.max(behind?));
            status.partitions += 1;
            status.lag += partition.lag;
            status.behind = longest(status.behind);
            let new = || TopicStatus { behind: Some(Duration::ZERO), ..TopicStatus::default() };
            let topic = topics.entry(&partition.topic).or_insert_with(new);
            topic.partitions += 1;
            topic.lag += partition.lag;
            topic.behind = longest(topic.behind);
        }
        for (name, count) in &state.undecoded {
            topics.entry(name).or_default().undecoded = *count;
        }
        let named = |(name, topic): (&str, TopicStatus)| TopicStatus { topic: name.to_owned(), ..topic };
        status.topics = topics.into_iter().map(named).collect();
        status.topics.sort_by_key(|topic| std::cmp::Reverse((topic.lag, topic.undecoded)));
        status.topics_left_out = status.topics.len().saturating_sub(TOPICS_MAX);
        status.topics.truncate(TOPICS_MAX);
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(100_000);

    fn lag(topic: &str, lag: u64, read_time: Option<u64>, caught_up_at: Option<u64>) -> PartitionLag {
        let (read_time, caught_up_at) = (read_time.map(Millis), caught_up_at.map(Millis));
        PartitionLag { topic: topic.into(), lag, read_time, caught_up_at }
    }

    #[test]
    fn a_message_waits_since_the_lag_was_0_or_the_message_before_it() {
        let behind = |partition: PartitionLag| partition.behind(NOW).map(|time| time.as_secs());
        assert_eq!(behind(lag("a", 0, Some(1_000), None)), Some(0));
        assert_eq!(behind(lag("a", 3, Some(40_000), None)), Some(60));
        assert_eq!(behind(lag("a", 3, Some(40_000), Some(90_000))), Some(10), "an idle partition got a message");
        assert_eq!(behind(lag("a", 3, Some(95_000), Some(90_000))), Some(5));
        assert_eq!(behind(lag("a", 3, None, None)), None);
        assert_eq!(behind(lag("a", 3, Some(200_000), None)), Some(0), "a time ahead of the clock");
    }

    #[test]
    fn a_status_sums_the_workers_and_lists_topics_by_their_lag() {
        let monitor = KafkaMonitor::default();
        (0..2).for_each(|worker| monitor.start(worker, Millis(5)));
        monitor.set_connected(0, true, NOW);
        monitor.set_partitions(0, vec![lag("a", 2, Some(90_000), None), lag("b", 30, Some(80_000), None)]);
        monitor.set_partitions(1, vec![lag("b", 5, Some(70_000), None)]);
        monitor.set_refusal(1, Some("disk full".to_owned()));
        (0..3).for_each(|_| monitor.count_undecoded("c"));
        monitor.fail(NOW, "no\nbroker");
        let status = monitor.status(NOW);
        let topic = |name: &str, partitions, lag, behind: Option<u64>, undecoded| TopicStatus {
            topic: name.to_owned(),
            partitions,
            lag,
            behind: behind.map(Duration::from_secs),
            undecoded,
        };
        let want = KafkaStatus {
            workers: 2,
            connected_workers: 1,
            disconnected_since: Some(Millis(5)),
            refusal: Some("disk full".to_owned()),
            last_failure: Some((NOW, "nobroker".to_owned())),
            partitions: 3,
            lag: 37,
            behind: Some(Duration::from_secs(30)),
            undecoded: 3,
            topics: vec![topic("b", 2, 35, Some(30), 0), topic("a", 1, 2, Some(10), 0), topic("c", 0, 0, None, 3)],
            topics_left_out: 0,
        };
        assert_eq!(status, want);
        monitor.set_connected(1, true, NOW);
        monitor.set_refusal(1, None);
        monitor.end(0);
        let status = monitor.status(NOW);
        assert_eq!((status.workers, status.connected_workers, status.disconnected_since), (1, 1, None));
        assert_eq!((status.lag, status.refusal), (5, None));
    }

    #[test]
    fn few_of_many_topics_are_listed() {
        let monitor = KafkaMonitor::default();
        monitor.start(0, NOW);
        monitor.set_partitions(0, (0..60).map(|number| lag(&format!("t{number}"), number, None, None)).collect());
        let status = monitor.status(NOW);
        assert_eq!((status.topics.len(), status.topics_left_out, status.partitions), (TOPICS_MAX, 10, 60));
        assert_eq!((status.topics[0].lag, status.behind), (59, None));
    }
}
