//! The workers of a node.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use bucksaw_env::LogLimits;
use bucksaw_ingest::Source;
use bucksaw_sources::Intake;
use bucksaw_sources::intake::EventTarget;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use tokio::sync::watch;

use crate::client_settings::client_settings;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::options::is_secret;
use crate::worker::Worker;

/// Why the source does not start. No message has the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum KafkaStartError {
    /// librdkafka has no such property, or does not accept its value.
    #[error("the property `{name}` of librdkafka: {reason}")]
    Property {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The settings together are not accepted.
    #[error("cannot make a consumer of Kafka: {0}")]
    Client(String),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl From<KafkaError> for KafkaStartError {
    fn from(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientConfig(_, _, name, _) if is_secret(&name) => {
                Self::Property { name, reason: "not accepted".to_owned() }
            }
            KafkaError::ClientConfig(_, reason, name, _) => Self::Property { name, reason },
            error => Self::Client(error.to_string()),
        }
    }
}

impl Config {
    /// Checks what librdkafka can check without a broker: names and values of properties, and files that they name.
    ///
    /// # Errors
    /// [`KafkaStartError`].
    pub fn check(&self) -> Result<(), KafkaStartError> {
        let consumer: BaseConsumer = client_settings(self, 0).create()?;
        drop(consumer);
        Ok(())
    }
}

/// The running workers of a node.
#[derive(Debug)]
pub struct KafkaSource {
    threads: Vec<JoinHandle<()>>,
}

impl KafkaSource {
    /// Starts the workers. They read until `stop` is true. No broker needs to be reachable.
    ///
    /// # Errors
    /// [`KafkaStartError`].
    pub fn start(
        config: &Config,
        intake: &Intake,
        metrics: &Metrics,
        stop: &watch::Receiver<bool>,
    ) -> Result<Self, KafkaStartError> {
        let mut consumers = Vec::new();
        for number in 0..config.workers.max(1) {
            let (intake, durability) = (intake.clone(), config.durability);
            let log_limits = LogLimits::new(Arc::clone(&intake.env.clock));
            let worker = Worker {
                number,
                config: config.clone(),
                target: EventTarget { intake, source: Source::Kafka, durability },
                metrics: metrics.clone(),
                stop: stop.clone(),
                log_limits,
            };
            consumers.push((worker.consumer()?, worker));
        }
        let threads = consumers.into_iter().map(|(consumer, worker)| {
            let name = format!("kafka-{}", worker.number);
            std::thread::Builder::new().name(name).spawn(move || worker.run(consumer))
        });
        Ok(Self { threads: threads.collect::<io::Result<_>>()? })
    }

    /// Waits until the workers have ended, which takes some seconds after the stop at most.
    pub fn join(self) {
        for thread in self.threads {
            // A worker that panicked has ended, too.
            let _ = thread.join();
        }
    }
}
