//! The Kafka source in the status of the node; `docs/http.md` lists the fields.

use std::sync::Arc;

use bucksaw_api::StatusPart;
use bucksaw_env::{Clock, Env};
use bucksaw_kafka::{Config, KafkaMonitor, KafkaStatus, TopicStatus};
use bucksaw_record::{Millis, time};
use serde_json::{Value, json};

/// The part of a source with this configuration.
pub(super) fn part(config: &Config, monitor: &KafkaMonitor, env: &Env) -> Arc<dyn StatusPart> {
    Arc::new(KafkaPart {
        brokers: config.brokers.join(","),
        group: config.group.clone(),
        monitor: monitor.clone(),
        clock: Arc::clone(&env.clock),
    })
}

#[derive(Debug)]
struct KafkaPart {
    brokers: String,
    group: String,
    monitor: KafkaMonitor,
    clock: Arc<dyn Clock>,
}

impl StatusPart for KafkaPart {
    fn key(&self) -> &'static str {
        "kafka"
    }

    fn value(&self) -> Value {
        let status = self.monitor.status(Millis(self.clock.unix_ms()));
        let mut value = describe(&status);
        value["brokers"] = self.brokers.as_str().into();
        value["group"] = self.group.as_str().into();
        value
    }
}

fn describe(status: &KafkaStatus) -> Value {
    let format = |at: Millis| time::format_rfc3339(at, 0);
    let (failed_at, last_failure) = status.last_failure.clone().unzip();
    json!({
        "workers": status.workers,
        "connected_workers": status.connected_workers,
        "disconnected_since": status.disconnected_since.map(format),
        "refusal": status.refusal,
        "last_failure": last_failure,
        "last_failure_at": failed_at.map(format),
        "partitions": status.partitions,
        "lag": status.lag,
        "behind_seconds": status.behind.map(|time| time.as_secs_f64()),
        "undecoded": status.undecoded,
        "topics": status.topics.iter().map(describe_topic).collect::<Vec<_>>(),
        "topics_left_out": status.topics_left_out,
    })
}

fn describe_topic(topic: &TopicStatus) -> Value {
    json!({
        "topic": topic.topic,
        "partitions": topic.partitions,
        "lag": topic.lag,
        "behind_seconds": topic.behind.map(|time| time.as_secs_f64()),
        "undecoded": topic.undecoded,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fields_are_those_of_the_document() {
        let topic = TopicStatus {
            topic: "t".to_owned(),
            partitions: 2,
            lag: 3,
            behind: Some(Duration::from_millis(1_500)),
            undecoded: 4,
        };
        let status = KafkaStatus {
            workers: 2,
            connected_workers: 1,
            disconnected_since: Some(Millis(0)),
            refusal: Some("disk full".to_owned()),
            last_failure: Some((Millis(1), "no broker".to_owned())),
            partitions: 2,
            lag: 3,
            behind: None,
            undecoded: 4,
            topics: vec![topic],
            topics_left_out: 5,
        };
        let want = json!({
            "workers": 2, "connected_workers": 1, "disconnected_since": "1970-01-01T00:00:00.000000Z",
            "refusal": "disk full", "last_failure": "no broker", "last_failure_at": "1970-01-01T00:00:00.001000Z",
            "partitions": 2, "lag": 3, "behind_seconds": null, "undecoded": 4,
            "topics": [{"topic": "t", "partitions": 2, "lag": 3, "behind_seconds": 1.5, "undecoded": 4}],
            "topics_left_out": 5,
        });
        assert_eq!(describe(&status), want);
        let document = include_str!("../../../docs/http.md");
        let missing = |name: &&String| !document.contains(&format!("`{name}`"));
        let fields = want.as_object().unwrap().keys();
        assert_eq!(fields.filter(missing).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
