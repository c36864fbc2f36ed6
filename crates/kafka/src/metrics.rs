//! Metrics of the source. The queue counts its records, too, with the source `kafka`.

use bucksaw_env::{MetricLabel, create_series, metrics};
use bucksaw_protocols::kafka::Undecoded;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::monitor::KafkaMonitor;

/// The labels of a partition: `topic` and `partition`.
pub(crate) type PartitionLabels = [(&'static str, String); 2];

metrics! {
    /// Counters and gauges of all workers.
    pub struct Metrics {
        pub(crate) messages: Counter = "Messages read from Kafka and appended to the queue";
        pub(crate) bytes: Counter = "Bytes of the values of these messages";
        pub(crate) undecoded: Family<MetricLabel, Counter> = "Messages of Kafka stored as they are because they do not fit the mapping, by reason";
        pub(crate) skipped_offsets: Counter = "Offsets between two messages of a partition that Kafka did not deliver: compacted, markers of transactions, or removed by its retention";
        pub(crate) times_ahead: Counter = "Messages of Kafka with a time more than an hour ahead of the clock of the node, which is kept";
        pub(crate) lag: Family<PartitionLabels, Gauge> = "Messages of the partitions of this node between what is stored with its durability and the end of the partition";
        pub(crate) behind_seconds: Gauge = "Seconds that the oldest message of Kafka that is not stored has waited at most, by the times of messages; 0 if it is unknown";
        pub(crate) partitions: Gauge = "Partitions that the consumer group has assigned to this node";
        pub(crate) commits: Counter = "Commits of offsets that the broker acknowledged";
        pub(crate) failed_commits: Counter = "Commits of offsets that failed; they are repeated";
        pub(crate) rebalances: Family<MetricLabel, Counter> = "Assignments and revocations of partitions by the consumer group";
        pub(crate) connected_workers: Gauge = "Workers of the Kafka source with a connection to a broker";
        pub(crate) workers: Gauge = "Workers of the Kafka source";
        pub(crate) paused_workers: Gauge = "Workers of the Kafka source that do not read because the queue refuses records";
        pub(crate) client_restarts: Counter = "Consumers of Kafka that were closed and made again after a failure";
        /// What status and page show.
        pub monitor: KafkaMonitor;
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::register(registry.sub_registry_with_prefix("kafka"));
        create_series(&metrics.undecoded, "reason", Undecoded::ALL.map(Undecoded::name));
        create_series(&metrics.rebalances, "kind", ["assigned", "revoked"]);
        metrics
    }
}

/// The labels of a partition.
pub(crate) fn partition_labels(topic: &str, partition: i32) -> PartitionLabels {
    [("topic", topic.to_owned()), ("partition", partition.to_string())]
}
