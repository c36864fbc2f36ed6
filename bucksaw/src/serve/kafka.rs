//! The Kafka source of a node, from its arguments.

use std::path::Path;

use anyhow::{Context as _, bail};
use bucksaw_kafka::{ClientOption, Config, KafkaSource, Metrics, StartOffset};
use bucksaw_protocols::json::JsonNames;
use bucksaw_protocols::kafka::{KafkaFormat, KafkaMapping};
use bucksaw_record::Labels;
use bucksaw_sources::Intake;
use tokio::sync::watch;
use tracing::info;

use super::settings::bytes;
use crate::args::{KafkaArgs, KafkaStart, KafkaValueFormat, Role, ServeArgs};

/// Part of the memory limit for fetched messages, and its bounds.
const FETCHED_SHARE: u64 = 32;
const FETCHED_BYTES_MIN: u64 = 4 << 20;
const FETCHED_BYTES_MAX: u64 = 64 << 20;

/// The settings of the source; none if it is off.
pub(super) fn config(args: &ServeArgs, memory_limit: u64) -> anyhow::Result<Option<Config>> {
    let kafka = &args.kafka;
    if kafka.kafka_brokers.is_empty() {
        if !kafka.kafka_topics.is_empty() {
            bail!("--kafka-topics needs --kafka-brokers");
        }
        return Ok(None);
    }
    if kafka.kafka_topics.iter().all(String::is_empty) {
        bail!("--kafka-brokers needs --kafka-topics");
    }
    if !args.roles.contains(&Role::Ingest) {
        bail!("--kafka-brokers: only a node with the role ingest reads from Kafka");
    }
    if kafka.kafka_group.is_empty() {
        bail!("--kafka-group is empty");
    }
    let file = kafka.kafka_options_file.as_deref().map(options_of_file).transpose()?.unwrap_or_default();
    let config = Config {
        brokers: kafka.kafka_brokers.iter().map(ToString::to_string).collect(),
        topics: kafka.kafka_topics.clone(),
        group: kafka.kafka_group.clone(),
        options: file.into_iter().chain(kafka.kafka_option.iter().cloned()).collect(),
        workers: kafka.kafka_workers,
        start: match kafka.kafka_start {
            KafkaStart::Earliest => StartOffset::Earliest,
            KafkaStart::Latest => StartOffset::Latest,
        },
        durability: kafka.kafka_durability,
        commit_interval: kafka.kafka_commit_interval,
        mapping: mapping(kafka)?,
        record_bytes_max: bytes(args.max_record_bytes.0),
        fetched_bytes_max: (memory_limit / FETCHED_SHARE).clamp(FETCHED_BYTES_MIN, FETCHED_BYTES_MAX),
    };
    config.check().context("--kafka-option")?;
    Ok(Some(config))
}

fn mapping(kafka: &KafkaArgs) -> anyhow::Result<KafkaMapping> {
    let fields = [&kafka.kafka_time_field, &kafka.kafka_message_field, &kafka.kafka_label_fields];
    let format = match kafka.kafka_format {
        KafkaValueFormat::Plain if fields.iter().any(|names| !names.is_empty()) => {
            bail!("--kafka-time-field, --kafka-message-field and --kafka-label-fields need --kafka-format json")
        }
        KafkaValueFormat::Plain => KafkaFormat::Plain,
        KafkaValueFormat::Json => {
            let [time, message, labels] = fields.map(|names| names.join(","));
            KafkaFormat::Json(JsonNames::new(&time, &message, &labels))
        }
    };
    if let Some(label) = &kafka.kafka_key_label {
        Labels::new([(label.as_str(), "x")]).context("--kafka-key-label")?;
    }
    Ok(KafkaMapping {
        format,
        key_label: kafka.kafka_key_label.clone(),
        label_headers: kafka.kafka_label_headers.clone(),
        with_position: kafka.kafka_position,
    })
}

fn options_of_file(file: &Path) -> anyhow::Result<Vec<ClientOption>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("--kafka-options-file: cannot read {shown}"))?;
    ClientOption::parse_lines(&text)
        .map_err(|(line, error)| anyhow::anyhow!("--kafka-options-file: {shown}:{line}: {error}"))
}

/// Starts the source, if it is on.
pub(super) fn start(
    config: Option<&Config>,
    intake: &Intake,
    metrics: &Metrics,
    stopping: &watch::Receiver<bool>,
) -> anyhow::Result<Option<KafkaSource>> {
    let Some(config) = config else { return Ok(None) };
    let source = KafkaSource::start(config, intake, metrics, stopping)?;
    let Config { group, workers, .. } = config;
    info!(brokers = config.brokers.join(","), topics = config.topics.join(","), group, workers, "reading from Kafka");
    Ok(Some(source))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct KafkaProgram {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parsed(flags: &[&str]) -> anyhow::Result<Option<Config>> {
        let args = KafkaProgram::try_parse_from(["serve"].iter().chain(flags)).unwrap().args;
        config(&args, 1 << 30)
    }

    #[test]
    fn the_source_is_off_unless_brokers_are_given() {
        assert!(parsed(&[]).unwrap().is_none());
        let on = parsed(&["--kafka-brokers", "a:1,b:2", "--kafka-topics", "x,y"]).unwrap().unwrap();
        assert_eq!(
            (on.brokers, on.topics),
            (vec!["a:1".to_owned(), "b:2".to_owned()], vec!["x".to_owned(), "y".to_owned()])
        );
        assert_eq!(on.fetched_bytes_max, 32 << 20);
    }

    #[test]
    fn flags_that_have_no_effect_are_refused() {
        let on = ["--kafka-brokers", "a:1", "--kafka-topics", "x"];
        let check = |flags: &[&str], want: &str| {
            assert_eq!(parsed(flags).unwrap_err().to_string(), want);
        };
        check(&on[..2], "--kafka-brokers needs --kafka-topics");
        check(&on[2..], "--kafka-topics needs --kafka-brokers");
        check(
            &[&on[..], &["--kafka-message-field", "m"]].concat(),
            "--kafka-time-field, --kafka-message-field and --kafka-label-fields need --kafka-format json",
        );
        check(
            &[&on[..], &["--roles", "store"]].concat(),
            "--kafka-brokers: only a node with the role ingest reads from Kafka",
        );
        check(&[&on[..], &["--kafka-key-label", "a b"]].concat(), "--kafka-key-label");
    }

    #[test]
    fn options_of_a_file_come_before_those_of_flags() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kafka.properties");
        std::fs::write(&file, "sasl.password=p\nclient.id=a\n").unwrap();
        let file = file.to_str().unwrap();
        let flags = [
            "--kafka-brokers",
            "a:1",
            "--kafka-topics",
            "x",
            "--kafka-options-file",
            file,
            "--kafka-option",
            "client.id=b",
        ];
        let options = parsed(&flags).unwrap().unwrap().options;
        let shown: Vec<String> = options.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["sasl.password=<hidden>", "client.id=a", "client.id=b"]);
        std::fs::write(file, "\nhunter2").unwrap();
        let error = parsed(&flags).unwrap_err().to_string();
        assert!(error.ends_with(":2: write an option as NAME=VALUE, such as security.protocol=SSL"), "{error}");
    }
}
