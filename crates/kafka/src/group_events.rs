//! What librdkafka reports to a worker: rebalances, statistics, errors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Clock, LogLimits, lock, log_limited, set_gauge};
use bucksaw_record::Millis;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use tracing::{debug, info};

use crate::config::StartOffset;
use crate::consumed_records::{CommitOffset, ConsumedRecords};
use crate::metrics::{Metrics, partition_labels};
use crate::monitor::PartitionLag;

/// The consumer of a worker.
pub(crate) type GroupConsumer = BaseConsumer<GroupEvents>;

/// The state that a worker shares with the callbacks of librdkafka, which run on its thread within a poll, and with its
/// committer.
#[derive(Debug)]
pub(crate) struct GroupEvents {
    /// `None` until a broker has reported the id of its cluster.
    pub(crate) records: Mutex<Option<ConsumedRecords>>,
    /// Partitions that were assigned since the worker last looked.
    assigned: Mutex<Vec<(String, i32)>>,
    /// Set when the worker has committed what it can, and leaves the group.
    pub(crate) is_closing: AtomicBool,
    is_connected: AtomicBool,
    start: StartOffset,
    /// The number of the worker.
    worker: usize,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
    log_limits: LogLimits,
}

impl GroupEvents {
    pub(crate) fn new(start: StartOffset, worker: usize, metrics: Metrics, clock: Arc<dyn Clock>) -> Self {
        Self {
            records: Mutex::default(),
            assigned: Mutex::default(),
            is_closing: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            start,
            worker,
            metrics,
            log_limits: LogLimits::new(Arc::clone(&clock)),
            clock,
        }
    }

    /// The partitions that were assigned since the last call.
    pub(crate) fn take_assigned(&self) -> Vec<(String, i32)> {
        std::mem::take(&mut lock(&self.assigned))
    }

    fn now(&self) -> Millis {
        Millis(self.clock.unix_ms())
    }

    /// Notes a failure for the status.
    fn fail(&self, reason: &str) {
        self.metrics.monitor.fail(self.now(), reason);
    }

    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.metrics.monitor.set_connected(self.worker, is_connected, self.now());
        if self.is_connected.swap(is_connected, Ordering::Relaxed) != is_connected {
            let gauge = &self.metrics.connected_workers;
            if is_connected {
                gauge.inc()
            } else {
                gauge.dec()
            };
        }
    }

    /// Calls `with` with the records of the worker, if a broker has answered.
    fn with_records<T>(&self, with: impl FnOnce(&mut ConsumedRecords) -> T) -> Option<T> {
        lock(&self.records).as_mut().map(with)
    }

    /// Stores what was read of the partitions and commits it, before another member reads them. What has no durability yet is
    /// read again by that member, and gets the same ids.
    fn revoke(&self, consumer: &GroupConsumer, revoked: &[(String, i32)]) {
        let is_revoked = |offset: &CommitOffset| {
            revoked.iter().any(|(topic, partition)| **topic == *offset.topic && *partition == offset.partition)
        };
        let offsets = self.with_records(|records| {
            // A refusal is no reason to keep the partition.
            let _ = records.append();
            let _ = records.settle();
            records.to_commit().into_iter().filter(is_revoked).collect::<Vec<_>>()
        });
        let offsets = offsets.unwrap_or_default();
        // A commit of a lost assignment would be refused, and may be waited for long.
        let may_commit = !self.is_closing.load(Ordering::Relaxed) && !consumer.assignment_lost();
        if may_commit && !offsets.is_empty() {
            let committed = consumer.commit(&topic_list(&offsets), CommitMode::Sync);
            self.end_commit(&offsets, committed);
        }
        self.forget(revoked);
    }

    /// Notes the result of a commit.
    pub(crate) fn end_commit(&self, offsets: &[CommitOffset], result: KafkaResult<()>) {
        if let Err(error) = result {
            self.metrics.failed_commits.inc();
            self.fail(&format!("cannot commit offsets: {error}"));
            log_limited!(self.log_limits, warn, %error, "cannot commit offsets to Kafka; they are committed again, or their messages are read again");
            return;
        }
        self.metrics.commits.inc();
        self.with_records(|records| {
            for CommitOffset { topic, partition, offset } in offsets {
                records.set_committed(topic, *partition, *offset);
            }
        });
    }

    /// Passes the lags on to the status.
    fn report(&self, partitions: Vec<PartitionLag>) {
        let monitor = &self.metrics.monitor;
        monitor.set_partitions(self.worker, partitions);
        let behind = monitor.status(self.now()).behind.unwrap_or_default();
        set_gauge(&self.metrics.behind_seconds, behind.as_secs());
    }

    /// Removes partitions, without a commit.
    fn forget(&self, revoked: &[(String, i32)]) {
        self.with_records(|records| {
            for (topic, partition) in revoked {
                records.table.revoke(topic, *partition);
            }
        });
        for (topic, partition) in revoked {
            self.metrics.lag.remove(&partition_labels(topic, *partition));
        }
    }

    /// Ends the use of a consumer that is closed.
    pub(crate) fn reset(&self) {
        let partitions = self.with_records(|records| {
            let partitions = records.table.partitions.iter();
            partitions.map(|partition| (partition.topic.to_string(), partition.partition)).collect::<Vec<_>>()
        });
        let partitions = partitions.unwrap_or_default();
        self.forget(&partitions);
        self.metrics.partitions.dec_by(i64::try_from(partitions.len()).unwrap_or_default());
        *lock(&self.records) = None;
        self.report(Vec::new());
        lock(&self.assigned).clear();
        self.set_connected(false);
    }
}

/// Offsets as librdkafka takes them.
pub(crate) fn topic_list(offsets: &[CommitOffset]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for CommitOffset { topic, partition, offset } in offsets {
        // Fails for offsets that are negative, which messages do not have.
        let _ = list.add_partition_offset(topic, *partition, Offset::Offset(*offset));
    }
    list
}

fn names(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}

impl ClientContext for GroupEvents {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                debug!(facility, message, "librdkafka");
            }
            _ => log_limited!(self.log_limits, warn, facility, message, "librdkafka"),
        }
    }

    fn stats(&self, statistics: Statistics) {
        self.set_connected(statistics.brokers.values().any(|broker| broker.state == "UP"));
        let now = self.now();
        let lags = self.with_records(|records| {
            let mut lags = Vec::new();
            for partition in &mut records.table.partitions {
                let topic = statistics.topics.get(&*partition.topic);
                let Some(stated) = topic.and_then(|topic| topic.partitions.get(&partition.partition)) else { continue };
                // Negative until it is known.
                if stated.ls_offset >= 0 {
                    partition.end = Some(stated.ls_offset);
                }
                if self.start == StartOffset::Earliest && stated.lo_offset >= 0 {
                    partition.begin = Some(stated.lo_offset);
                }
                let Some(lag) = partition.lag() else { continue };
                let labels = partition_labels(&partition.topic, partition.partition);
                set_gauge(&self.metrics.lag.get_or_create(&labels), lag);
                if lag == 0 {
                    partition.caught_up_at = Some(now);
                }
                let (read_time, caught_up_at) = (partition.read_time, partition.caught_up_at);
                lags.push(PartitionLag { topic: Arc::clone(&partition.topic), lag, read_time, caught_up_at });
            }
            lags
        });
        self.report(lags.unwrap_or_default());
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.set_connected(false);
        } else {
            self.fail(reason);
        }
        log_limited!(self.log_limits, warn, %error, reason, "the connection to Kafka failed; it is repeated");
    }
}

impl ConsumerContext for GroupEvents {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            let revoked = names(list);
            self.metrics.rebalances.get_or_create(&[("kind", "revoked")]).inc();
            self.metrics.partitions.dec_by(i64::try_from(revoked.len()).unwrap_or_default());
            info!(partitions = revoked.len(), "the consumer group revoked partitions of Kafka");
            self.revoke(consumer, &revoked);
            lock(&self.assigned).retain(|assigned| !revoked.contains(assigned));
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                let assigned = names(list);
                self.metrics.rebalances.get_or_create(&[("kind", "assigned")]).inc();
                self.metrics.partitions.inc_by(i64::try_from(assigned.len()).unwrap_or_default());
                // A rebalance that moves nothing here.
                if !assigned.is_empty() {
                    info!(partitions = assigned.len(), "the consumer group assigned partitions of Kafka");
                }
                lock(&self.assigned).extend(assigned);
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => {
                self.fail(&format!("a rebalance failed: {error}"));
                log_limited!(self.log_limits, warn, %error, "a rebalance of the consumer group failed");
            }
        }
    }
}
