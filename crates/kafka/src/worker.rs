//! One member of the consumer group: polls, appends, commits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_env::{LogLimits, lock, log_limited};
use bucksaw_ingest::IngestError;
use bucksaw_protocols::kafka::KafkaMessage;
use bucksaw_sources::intake::EventTarget;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::client_settings::client_settings;
use crate::committer::Committer;
use crate::config::Config;
use crate::consumed_records::{CommitOffset, ConsumedRecords};
use crate::group_events::{GroupConsumer, GroupEvents};
use crate::metrics::Metrics;

/// The longest wait of a poll: how soon a stop and acknowledgements are noticed.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// The delay of an append that the queue refused. The poll meanwhile keeps the member in the group.
const REFUSED_PAUSE: Duration = Duration::from_millis(250);

/// Delay and number of appends while the disk syncs, before the partitions are paused: what is fetched already is dropped then.
const SYNC_PAUSE: Duration = Duration::from_millis(10);
const SYNC_RETRIES_MAX: u32 = 100;

/// How long a broker may take to tell committed offsets.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// How long librdkafka is asked at once for the id of the cluster: it may miss the answer and wait to the end of that time.
const CLUSTER_WAIT: Duration = Duration::from_millis(50);

/// The time without a broker after which that is logged.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// The pause before a consumer is made again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long a stop waits for the durability of the last records, and as long again for their commit.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Why a consumer is closed.
enum ConsumeEnd {
    Stopped,
    Failed(String),
}

/// One member of the group.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) config: Config,
    pub(crate) target: EventTarget,
    pub(crate) metrics: Metrics,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) log_limits: LogLimits,
}

/// What a worker remembers between two polls.
#[derive(Default)]
struct PollState {
    /// Whether messages wait for an append.
    has_unappended: bool,
    /// Whether the partitions are paused because the queue refuses records.
    is_paused: bool,
    /// The uptime of the last commit.
    committed_at: Duration,
}

impl Worker {
    /// A consumer with the settings of this worker.
    ///
    /// # Errors
    /// librdkafka does not accept the settings.
    pub(crate) fn consumer(&self) -> Result<GroupConsumer, KafkaError> {
        let clock = self.target.intake.env.clock.clone();
        let events = GroupEvents::new(self.config.start, self.number, self.metrics.clone(), clock);
        client_settings(&self.config, self.number).create_with_context(events)
    }

    /// Reads until the stop. Begins with `consumer`, and makes others after failures.
    pub(crate) fn run(&self, consumer: GroupConsumer) {
        self.metrics.workers.inc();
        self.metrics.monitor.start(self.number, self.target.intake.now());
        let mut next = Some(consumer);
        while !self.is_stopping() {
            let consumer = match next.take().map_or_else(|| self.consumer(), Ok) {
                Ok(consumer) => consumer,
                Err(error) => {
                    self.fail(&format!("cannot make a consumer: {error}"));
                    log_limited!(self.log_limits, warn, %error, "cannot make a consumer of Kafka; trying again");
                    self.pause(RESTART_PAUSE);
                    continue;
                }
            };
            let consumer = Arc::new(consumer);
            let ended = match Committer::start(Arc::clone(&consumer)) {
                Ok(committer) => {
                    // A panic of the client must not end the reading.
                    let ended = catch_unwind(AssertUnwindSafe(|| self.consume(&consumer, &committer)));
                    self.stop_committer(committer);
                    ended.unwrap_or_else(|_| ConsumeEnd::Failed("a panic, which is a bug".to_owned()))
                }
                Err(error) => ConsumeEnd::Failed(error.to_string()),
            };
            if let ConsumeEnd::Failed(reason) = &ended {
                self.metrics.client_restarts.inc();
                self.fail(reason);
                log_limited!(
                    self.log_limits,
                    warn,
                    reason,
                    "the consumer of Kafka starts again from the committed offsets"
                );
            }
            consumer.context().is_closing.store(true, Ordering::Relaxed);
            let events = consumer.context().clone();
            // Leaves the group, unless a commit at a stop has not finished.
            drop(consumer);
            events.reset();
            if matches!(ended, ConsumeEnd::Failed(_)) {
                self.pause(RESTART_PAUSE);
            }
        }
        self.metrics.workers.dec();
        self.metrics.monitor.end(self.number);
    }

    /// Notes a failure for the status.
    fn fail(&self, reason: &str) {
        self.metrics.monitor.fail(self.target.intake.now(), reason);
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    fn uptime(&self) -> Duration {
        self.target.intake.env.clock.uptime()
    }

    /// Waits, or until the stop.
    fn pause(&self, time: Duration) {
        let end = self.uptime() + time;
        while self.uptime() < end && !self.is_stopping() {
            self.target.intake.env.clock.sleep(IDLE_WAIT);
        }
    }

    /// Waits until a running commit has finished; at a stop not for long, because the coordinator may be away.
    fn stop_committer(&self, committer: Committer) {
        let mut end = None;
        committer.stop(|| {
            self.target.intake.env.clock.sleep(SYNC_PAUSE);
            let now = self.uptime();
            !self.is_stopping() || now < *end.get_or_insert(now + STOP_WAIT)
        });
    }

    fn consume(&self, consumer: &GroupConsumer, committer: &Committer) -> ConsumeEnd {
        let Some(cluster_id) = self.wait_for_cluster(consumer) else { return ConsumeEnd::Stopped };
        info!(worker = self.number, cluster = cluster_id, "connected to Kafka");
        consumer.context().set_connected(true);
        let Config { mapping, record_bytes_max, topics, .. } = &self.config;
        let (target, metrics) = (self.target.clone(), self.metrics.clone());
        let records = ConsumedRecords::new(target, *record_bytes_max, cluster_id, mapping.clone(), metrics);
        *lock(&consumer.context().records) = Some(records);
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        if let Err(error) = consumer.subscribe(&topics) {
            return ConsumeEnd::Failed(error.to_string());
        }
        let mut state = PollState { committed_at: self.uptime(), ..PollState::default() };
        let ended = self.poll_until_stopped(consumer, committer, &mut state);
        if state.is_paused {
            self.metrics.paused_workers.dec();
            self.metrics.monitor.set_refusal(self.number, None);
        }
        if matches!(ended, ConsumeEnd::Stopped) {
            self.finish(consumer, committer);
        }
        ended
    }

    /// The id of the cluster; `None` at a stop.
    fn wait_for_cluster(&self, consumer: &GroupConsumer) -> Option<String> {
        let since = self.uptime();
        while !self.is_stopping() {
            if let Some(id) = consumer.client().fetch_cluster_id(CLUSTER_WAIT) {
                return Some(id);
            }
            // Reports errors of connections.
            let _ = consumer.poll(Duration::ZERO);
            if self.uptime().saturating_sub(since) > CONNECT_WAIT {
                let brokers = self.config.brokers.join(",");
                log_limited!(self.log_limits, warn, brokers, "no broker of Kafka answers; trying again");
            }
        }
        None
    }

    fn poll_until_stopped(&self, consumer: &GroupConsumer, committer: &Committer, state: &mut PollState) -> ConsumeEnd {
        loop {
            let wait = match state {
                PollState { is_paused: true, .. } => REFUSED_PAUSE,
                PollState { has_unappended: true, .. } => Duration::ZERO,
                _ => IDLE_WAIT,
            };
            let is_due = match consumer.poll(wait) {
                Some(Ok(message)) => {
                    state.has_unappended = true;
                    self.message(consumer, &message)
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                    return ConsumeEnd::Failed(error.to_string());
                }
                Some(Err(error)) => {
                    // Reported by the callback for errors, too.
                    if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
                        self.fail(&format!("cannot read: {error}"));
                        log_limited!(self.log_limits, warn, %error, "cannot read from Kafka; trying again");
                    }
                    true
                }
                None => true,
            };
            if !is_due {
                continue;
            }
            // Not at each message, for each of which it would take two locks.
            if self.is_stopping() {
                return ConsumeEnd::Stopped;
            }
            self.begin_assigned(consumer, state);
            self.append(consumer, state);
            if let Some(Err(lost)) = with_records(consumer, ConsumedRecords::settle) {
                return ConsumeEnd::Failed(lost.to_string());
            }
            if self.uptime().saturating_sub(state.committed_at) >= self.config.commit_interval {
                state.committed_at = self.uptime();
                committer.commit(to_commit(consumer));
            }
        }
    }

    /// Adds the record of a message. Returns whether the batch is full.
    fn message(&self, consumer: &GroupConsumer, message: &BorrowedMessage<'_>) -> bool {
        let mut headers = Vec::new();
        let mut has_unreadable_headers = false;
        if let Some(found) = message.headers() {
            for number in 0..found.count() {
                // The library panics at a name that is not UTF-8.
                match catch_unwind(AssertUnwindSafe(|| found.try_get(number))) {
                    Ok(header) => headers.extend(header.map(|header| (header.key, header.value))),
                    Err(_) => has_unreadable_headers = true,
                }
            }
        }
        let decoded = KafkaMessage {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis(),
            key: message.key(),
            value: message.payload(),
            headers: &headers,
            has_unreadable_headers,
        };
        let is_full = with_records(consumer, |records| {
            records.message(message.topic(), &decoded);
            records.is_full()
        });
        is_full.unwrap_or(true)
    }

    /// Notes the committed offsets of partitions that were just assigned. No message of them was read yet.
    fn begin_assigned(&self, consumer: &GroupConsumer, state: &PollState) {
        let assigned = consumer.context().take_assigned();
        if assigned.is_empty() {
            return;
        }
        let mut list = TopicPartitionList::with_capacity(assigned.len());
        for (topic, partition) in &assigned {
            list.add_partition(topic, *partition);
        }
        if state.is_paused {
            self.log_failure("pause", consumer.pause(&list));
        }
        let committed = consumer.committed_offsets(list, ANSWER_WAIT).ok();
        for (topic, partition) in assigned {
            let found = committed.as_ref().and_then(|list| list.find_partition(&topic, partition));
            let next = found.and_then(|found| match found.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            with_records(consumer, |records| {
                // A message was read already if the rebalance was handled between two messages.
                if records.table.get_mut(&topic, partition).is_none() {
                    records.table.assign(&topic, partition, next);
                }
            });
        }
    }

    /// Appends what was read. While the queue refuses it, the partitions are paused.
    fn append(&self, consumer: &GroupConsumer, state: &mut PollState) {
        let append = || with_records(consumer, ConsumedRecords::append).unwrap_or(Ok(()));
        let mut appended = append();
        for _ in 0..SYNC_RETRIES_MAX {
            if appended != Err(IngestError::SyncBacklog) || state.is_paused || self.is_stopping() {
                break;
            }
            self.target.intake.env.clock.sleep(SYNC_PAUSE);
            appended = append();
        }
        match appended {
            Ok(()) => {
                state.has_unappended = false;
                if state.is_paused {
                    state.is_paused = false;
                    self.metrics.monitor.set_refusal(self.number, None);
                    self.metrics.paused_workers.dec();
                    info!(worker = self.number, "the queue accepts records again; reading from Kafka");
                    self.log_failure("resume", consumer.assignment().and_then(|all| consumer.resume(&all)));
                }
            }
            Err(reason) if !state.is_paused => {
                state.is_paused = true;
                self.metrics.monitor.set_refusal(self.number, Some(reason.to_string()));
                self.metrics.paused_workers.inc();
                warn!(worker = self.number, %reason, "the queue refuses records; not reading from Kafka");
                self.log_failure("pause", consumer.assignment().and_then(|all| consumer.pause(&all)));
            }
            Err(_) => {}
        }
    }

    fn log_failure(&self, action: &str, result: Result<(), KafkaError>) {
        if let Err(error) = result {
            log_limited!(self.log_limits, warn, action, %error, "a call of the consumer of Kafka failed");
        }
    }

    /// Appends and commits the last messages, for a limited time. What remains is read again after the next start.
    fn finish(&self, consumer: &GroupConsumer, committer: &Committer) {
        let end = self.uptime() + STOP_WAIT;
        let is_settled = |records: &mut ConsumedRecords| {
            records.append().is_ok() && records.settle().is_ok() && records.is_settled()
        };
        while self.uptime() < end && !with_records(consumer, is_settled).unwrap_or(true) {
            self.target.intake.env.clock.sleep(SYNC_PAUSE);
        }
        let end = self.uptime() + STOP_WAIT;
        while self.uptime() < end {
            let offsets = to_commit(consumer);
            if offsets.is_empty() {
                break;
            }
            committer.commit(offsets);
            self.target.intake.env.clock.sleep(SYNC_PAUSE);
        }
    }
}

fn to_commit(consumer: &GroupConsumer) -> Vec<CommitOffset> {
    with_records(consumer, |records| records.to_commit()).unwrap_or_default()
}

fn with_records<T>(consumer: &GroupConsumer, with: impl FnOnce(&mut ConsumedRecords) -> T) -> Option<T> {
    lock(&consumer.context().records).as_mut().map(with)
}
