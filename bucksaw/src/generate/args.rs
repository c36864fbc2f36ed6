//! Flags of `bucksaw generate`.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_forward::Config as ForwardConfig;
use bucksaw_generate::{Config, SampleFormat};
use bucksaw_ingest::Durability;
use bucksaw_kafka::ClientOption;
use bucksaw_record::Labels;
use clap::{Args, ValueEnum};
use tokio::sync::watch;

use super::producer::{LineProducer, ProducerConfig};
use super::target::LoadTarget;
use crate::args::{ClientTlsArgs, PresentedTokenArgs};
use crate::failure::UsageError;
use crate::layers::Layer;
use crate::values::{ByteSize, ListenAddress, all_labels, count, durability};

/// Longest line in bytes, far beyond the longest record of a node.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Longest line to a node in bytes: that of a record by default. Longer lines would become several records.
const SENT_LINE_BYTES_MAX: usize = 1 << 20;

/// How long a node may acknowledge nothing before the command fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// Write realistic log lines, or send them to a node at a rate
///
/// The lines resemble those of a small fleet: web access, logfmt, Java, database and system lines, with bursts of
/// errors. Equal seeds give equal lines, except for what depends on the time.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Lines per second; 0 for as fast as possible
    #[arg(long, value_name = "LINES/S", default_value = "10", value_parser = rate)]
    rate: f64,

    /// Length of every line; defaults to natural lengths
    #[arg(long, value_name = "BYTES", value_parser = line_bytes)]
    size: Option<usize>,

    /// Stop after N lines; defaults to never
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,

    /// Seed of the lines; other seeds give other lines
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    seed: u64,

    /// Format of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: LineFormat,

    /// Where to send to, instead of standard output: http://HOST:PORT, https://HOST:PORT or grpc://HOST:PORT of a node, bucksaw://HOST:PORT for the
    /// framed protocol, or kafka://HOST:PORT/TOPIC
    ///
    /// Each line becomes one record, also if the node restarts meanwhile, or one message of the topic. Ends when all of them are
    /// acknowledged.
    #[arg(long, value_name = "URL")]
    pub(super) to: Option<LoadTarget>,

    #[command(flatten)]
    pub(super) token: PresentedTokenArgs,

    /// Encrypt bucksaw:// by TLS; --ca and --cert imply it
    #[arg(long = "tls")]
    is_encrypted: bool,

    #[command(flatten)]
    pub(super) tls: ClientTlsArgs,

    /// Label of the records, such as app=sample; repeatable, or several with commas
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    labels: Vec<Labels>,

    /// When a record counts as acknowledged
    ///
    /// `fast`: when the node has written it, `durable`: when the node has synced it to disk, `bulk`: when it is in the store.
    /// With bucksaw:// the port decides; without a port it is the one of this durability: 7651, 7652 or 7653.
    #[arg(long, value_name = "WHEN", default_value = "fast")]
    #[arg(value_parser = durability(&["fast", "durable", "bulk"]))]
    pub(super) durability: Durability,

    /// Property of librdkafka for kafka://, such as security.protocol=SSL; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = ClientOption::parse)]
    pub(super) kafka_option: Vec<ClientOption>,

    /// File for the rate: a line of CSV per second with the records and bytes written and acknowledged in it
    ///
    /// An existing file is replaced. `bucksaw-bench plot` draws it.
    #[arg(long, value_name = "FILE")]
    pub(super) rate_log: Option<PathBuf>,

    /// Address for the same figures as metrics, /metrics; empty for none
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen: ListenAddress,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LineFormat {
    /// Lines of many kinds
    Text,
    /// One JSON object per line
    Json,
}

/// Flags that have no effect on standard output, and those that have none on messages of Kafka.
const NOT_FOR_STANDARD_OUTPUT: [(&str, &str); 4] =
    [("labels", "--label"), ("durability", "--durability"), ("listen", "--listen"), ("token_file", "--token-file")];
const NOT_FOR_KAFKA: [(&str, &str); 3] =
    [("labels", "--label"), ("durability", "--durability"), ("token_file", "--token-file")];

impl GenerateArgs {
    /// Refuses typed flags that have no effect.
    pub(crate) fn apply_layers(&self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        let typed = |flags: &[(&str, &'static str)]| {
            flags.iter().find(|(id, _)| layer(id) == Layer::Flag).map(|(_, flag)| *flag)
        };
        let for_kafka_only = typed(&[("kafka_option", "--kafka-option")])
            .map(|flag| format!("{flag} has no effect: name a topic with --to kafka://HOST:PORT/TOPIC"));
        let message = match &self.to {
            None => typed(&NOT_FOR_STANDARD_OUTPUT)
                .map(|flag| format!("{flag} has no effect on standard output: name a node with --to"))
                .or(for_kafka_only),
            Some(LoadTarget::Kafka { .. }) => typed(&NOT_FOR_KAFKA).map(|flag| {
                format!("{flag} has no effect on messages of Kafka: it is a setting of the node that reads them")
            }),
            Some(_) => for_kafka_only,
        };
        message.map_or(Ok(()), |message| Err(UsageError(message)))
    }

    /// Refuses lines that a node would cut.
    pub(super) fn check_network(&self) -> Result<(), UsageError> {
        if self.size.is_some_and(|size| size > SENT_LINE_BYTES_MAX) {
            return Err(UsageError(
                "--size: a node cuts lines of more than 1M by default: choose at most 1M".to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) fn labels(&self) -> Result<Labels, UsageError> {
        all_labels(&self.labels)
    }

    pub(super) fn producer(&self, stop: watch::Receiver<bool>) -> LineProducer {
        let format = match self.format {
            LineFormat::Text => SampleFormat::Text,
            LineFormat::Json => SampleFormat::Json,
        };
        let (lines, pace) = (Config { format, size: self.size, seed: self.seed }, LoadTarget::pace(self.to.as_ref()));
        let rate = (self.rate > 0.0).then_some(self.rate);
        LineProducer::new(ProducerConfig { lines, rate, count: self.count, pace }, stop)
    }

    /// The settings of the agent that sends.
    pub(super) fn forward_config(&self, target: &LoadTarget) -> anyhow::Result<ForwardConfig> {
        let is_encrypted = self.is_encrypted || self.tls.is_any();
        Ok(ForwardConfig {
            tls: is_encrypted.then(|| self.tls.load(&[])).transpose()?,
            addresses: target.framed_address(self.durability).into_iter().collect(),
            labels: self.labels()?,
            token: self.token.token()?,
            give_up_after: Some(GIVE_UP_AFTER),
            ..ForwardConfig::default()
        })
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or("expected lines per second such as 10 or 0.5, or 0 for as fast as possible")
}

fn line_bytes(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse()?;
    if size.0 == 0 || size.0 > LINE_BYTES_MAX {
        return Err(format!("expected a size from 1 to {LINE_BYTES_MAX} bytes"));
    }
    usize::try_from(size.0).map_err(|_| "expected a smaller size".to_owned())
}
