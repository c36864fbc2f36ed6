//! The settings of librdkafka.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::config::{Config, StartOffset};

/// The smallest memory for fetched messages of a worker, in KiB: some fetches of 1 MiB, so that decoding does not wait for the network.
const FETCHED_KIB_MIN: u64 = 4 << 10;

/// Most bytes of one answer of a broker. A message that is longer comes alone.
const FETCH_BYTES_MAX: u64 = 16 << 20;

/// The settings of the worker with this number, from 0.
pub(crate) fn client_settings(config: &Config, worker: usize) -> ClientConfig {
    let workers = config.workers.max(1) as u64;
    let fetched_kib = (config.fetched_bytes_max / workers / 1_024).max(FETCHED_KIB_MIN);
    let start = match config.start {
        StartOffset::Earliest => "earliest",
        StartOffset::Latest => "latest",
    };
    let mut settings = ClientConfig::new();
    settings.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in [
        ("client.id", "bucksaw"),
        // Only partitions that move are interrupted by a rebalance.
        ("partition.assignment.strategy", "cooperative-sticky"),
        // New topics and partitions are found within this time.
        ("topic.metadata.refresh.interval.ms", "30000"),
        // A full queue of fetched messages is normal here, and a second without fetching would empty it.
        ("fetch.queue.backoff.ms", "20"),
        // A broker that is back is soon found.
        ("reconnect.backoff.max.ms", "2000"),
        ("fetch.max.bytes", &(fetched_kib * 1_024).min(FETCH_BYTES_MAX).to_string()),
        ("queued.max.messages.kbytes", &fetched_kib.to_string()),
    ] {
        settings.set(name, value);
    }
    for option in &config.options {
        settings.set(&option.name, &option.value);
    }
    // Two members of one name would exclude each other.
    if let Some(name) = settings.get("group.instance.id").map(ToOwned::to_owned) {
        settings.set("group.instance.id", format!("{name}-{worker}"));
    }
    for (name, value) in [
        ("bootstrap.servers", &*config.brokers.join(",")),
        ("group.id", &config.group),
        ("auto.offset.reset", start),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "false"),
        ("statistics.interval.ms", "2000"),
    ] {
        settings.set(name, value);
    }
    settings
}
