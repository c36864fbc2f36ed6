//! Arguments of the Kafka source.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_ingest::Durability;
use bucksaw_kafka::ClientOption;
use bucksaw_record::time::parse_duration;
use clap::{Args, ValueEnum};

use crate::values::{HostPort, durability, worker_count};

/// What is read from Kafka, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct KafkaArgs {
    /// Brokers of Kafka whose topics are read, such as 127.0.0.1:9092; off by default
    ///
    /// One is enough: it names the others. See docs/senders/kafka.md.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) kafka_brokers: Vec<HostPort>,

    /// Topics to read; a name that begins with ^ is a regular expression
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    pub(crate) kafka_topics: Vec<String>,

    /// Consumer group, whose members share the partitions of the topics
    #[arg(long, value_name = "NAME", default_value = "bucksaw")]
    pub(crate) kafka_group: String,

    /// Property of librdkafka, such as security.protocol=SASL_SSL; repeatable
    ///
    /// For TLS, SASL and tuning. Properties that other flags or the source itself set are refused.
    #[arg(long, value_name = "NAME=VALUE", value_parser = ClientOption::parse)]
    pub(crate) kafka_option: Vec<ClientOption>,

    /// File with such properties, one a line: the place for passwords
    #[arg(long, value_name = "FILE")]
    pub(crate) kafka_options_file: Option<PathBuf>,

    /// Members of the consumer group that this node runs
    ///
    /// Each is a thread with connections of its own, and reads some of the partitions.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = worker_count)]
    pub(crate) kafka_workers: usize,

    /// Where a consumer group begins that has not read the topics yet
    ///
    /// `earliest`: at the oldest messages that Kafka has, `latest`: at those that are produced from then on.
    #[arg(long, value_name = "PLACE", default_value = "earliest")]
    pub(crate) kafka_start: KafkaStart,

    /// When offsets count as read: what must have happened to the records before them
    ///
    /// `fast`: written, `durable`: synced to disk, `bulk`: replicated. After a crash everything behind the committed offsets is
    /// read again and stored once.
    #[arg(long, value_name = "DURABILITY", default_value = "durable")]
    #[arg(value_parser = durability(&["fast", "durable", "bulk"]))]
    pub(crate) kafka_durability: Durability,

    /// Time between two commits of offsets
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) kafka_commit_interval: Duration,

    /// What the values of messages are: lines, or one JSON object each
    #[arg(long, value_name = "FORMAT", default_value = "plain")]
    pub(crate) kafka_format: KafkaValueFormat,

    /// Members of JSON values with the time, the preferred one first
    ///
    /// Without the flag, time, timestamp, @timestamp and ts are tried; else the time is that of the message.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kafka_time_field: Vec<String>,

    /// Members of JSON values with the message, the preferred one first
    ///
    /// The message becomes the line, and the other members become attributes. Without the flag, the line is the object.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kafka_message_field: Vec<String>,

    /// Members of JSON values that are labels
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kafka_label_fields: Vec<String>,

    /// Headers that are labels; all others are attributes
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kafka_label_headers: Vec<String>,

    /// Label that has the key of the message; without the flag the key is an attribute
    #[arg(long, value_name = "LABEL")]
    pub(crate) kafka_key_label: Option<String>,

    /// Store partition and offset of each message as attributes
    #[arg(long)]
    pub(crate) kafka_position: bool,
}

/// Where a group without committed offsets begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KafkaStart {
    /// At the oldest message.
    Earliest,
    /// At the next message.
    Latest,
}

/// What the values of messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KafkaValueFormat {
    /// Lines.
    Plain,
    /// One JSON object each.
    Json,
}
