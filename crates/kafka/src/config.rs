//! Settings of the source.

use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_protocols::kafka::KafkaMapping;

use crate::options::ClientOption;

/// Where a group without committed offsets begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOffset {
    /// At the oldest message that Kafka has.
    Earliest,
    /// At the messages that are produced from then on.
    Latest,
}

/// Settings of the source.
#[derive(Clone, Debug)]
pub struct Config {
    /// The first brokers to ask, `HOST:PORT` each.
    pub brokers: Vec<String>,
    /// Names of topics; one that begins with `^` is a regular expression of librdkafka.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Further properties of librdkafka.
    pub options: Vec<ClientOption>,
    /// Members of the group that this node runs, each a thread with connections of its own.
    pub workers: usize,
    /// Where a group without committed offsets begins.
    pub start: StartOffset,
    /// What must have happened to records before their offsets are committed.
    pub durability: Durability,
    /// The time between two commits.
    pub commit_interval: Duration,
    /// How messages become records.
    pub mapping: KafkaMapping,
    /// The maximum of a record in bytes, with its attributes. A longer line is cut.
    pub record_bytes_max: usize,
    /// Memory of all workers for fetched messages, in bytes.
    pub fetched_bytes_max: u64,
}
