//! Sends lines as messages of a topic.
//!
//! librdkafka batches, compresses and retries them. With `enable.idempotence` the broker stores a message once, whatever fails
//! in between. A full buffer delays the producer of lines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bucksaw_env::{Env, lock};
use bucksaw_kafka::ClientOption;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::mpsc;
use tracing::warn;

use super::load_totals::LoadCounters;
use super::producer::LineBatch;
use crate::values::HostPort;

/// How long the broker may take to acknowledge a message before the command fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// How long a full buffer is waited for before it is tried again.
const FULL_WAIT: Duration = Duration::from_millis(10);

/// Memory for messages that are not acknowledged, in KiB.
const BUFFERED_KIB_MAX: &str = "65536";

/// Produces to one topic.
pub(super) struct TopicProducer {
    producer: ThreadedProducer<Deliveries>,
    deliveries: Deliveries,
    topic: String,
    broker: String,
}

/// Counts acknowledgements, and keeps the first failure.
#[derive(Clone)]
struct Deliveries {
    counters: LoadCounters,
    failure: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        warn!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        warn!(%error, reason, "the connection to Kafka failed; it is repeated");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            // With the line end, as it was counted before.
            Ok(message) => self.counters.add_acked(1, message.payload_len() as u64 + 1),
            Err((error, _)) => _ = lock(&self.failure).get_or_insert_with(|| error.to_string()),
        }
    }
}

impl TopicProducer {
    /// A producer; no broker needs to answer yet.
    pub(super) fn new(
        broker: &HostPort,
        topic: &str,
        options: &[ClientOption],
        counters: LoadCounters,
    ) -> anyhow::Result<Self> {
        let broker = broker.to_string();
        let mut settings = ClientConfig::new();
        settings.set_log_level(RDKafkaLogLevel::Warning);
        let give_up_ms = GIVE_UP_AFTER.as_millis().to_string();
        for (name, value) in [
            ("client.id", "bucksaw-generate"),
            ("compression.type", "lz4"),
            ("linger.ms", "20"),
            ("batch.size", "1000000"),
            ("queue.buffering.max.kbytes", BUFFERED_KIB_MAX),
            ("message.timeout.ms", &give_up_ms),
            ("reconnect.backoff.max.ms", "2000"),
        ] {
            settings.set(name, value);
        }
        for option in options {
            settings.set(&option.name, &option.value);
        }
        settings.set("bootstrap.servers", &broker).set("enable.idempotence", "true");
        let deliveries = Deliveries { counters, failure: Arc::default() };
        // The reason names the property; a value that is a secret is not in it.
        let producer = settings.create_with_context(deliveries.clone()).map_err(|error| match error {
            KafkaError::ClientConfig(_, _, name, _) => anyhow!("--kafka-option: the property `{name}` is not accepted"),
            error => anyhow!("cannot make a producer of Kafka: {error}"),
        })?;
        Ok(Self { producer, deliveries, topic: topic.to_owned(), broker })
    }

    /// Sends all batches and waits for their acknowledgement. Blocks.
    pub(super) fn send(self, mut batches: mpsc::Receiver<LineBatch>) -> anyhow::Result<()> {
        let clock = Env::real().clock;
        while let Some(batch) = batches.blocking_recv() {
            self.deliveries.counters.add_written(batch.lines, batch.text.len() as u64);
            let now = i64::try_from(clock.unix_ms()).unwrap_or_default();
            for line in batch.text.split_inclusive(|byte| *byte == b'\n') {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                self.produce(BaseRecord::<(), [u8]>::to(&self.topic).payload(line).timestamp(now))?;
            }
            self.check()?;
        }
        self.producer
            .flush(GIVE_UP_AFTER)
            .with_context(|| format!("{} does not acknowledge all messages", self.broker))?;
        self.check()
    }

    fn produce(&self, mut record: BaseRecord<'_, (), [u8]>) -> anyhow::Result<()> {
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) => {
                    self.check()?;
                    record = unsent;
                    self.producer.poll(FULL_WAIT);
                }
                Err((error, _)) => bail!("cannot send to {}: {error}", self.broker),
            }
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        match &*lock(&self.deliveries.failure) {
            None => Ok(()),
            Some(reason) => bail!("{} did not take all messages of topic {}: {reason}", self.broker, self.topic),
        }
    }
}
