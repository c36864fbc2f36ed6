//! Lines about what a node reads from Kafka and sends to ClickHouse.

use serde_json::Value;

use super::fields::{NodeFields, number, shown, text};
use crate::one_line::one_line;
use crate::print::{human_bytes, human_seconds};

/// Topics that are named.
const TOPICS_MAX: usize = 3;

/// A line about the Kafka source of a node, if it has one, and one about what waits for ClickHouse beside its segments.
pub(super) fn lines(node: &NodeFields) -> Vec<String> {
    let kafka = node.contains_key("kafka_lag").then(|| kafka(node));
    let sink = node.contains_key("sink_waiting_inserts").then(|| sink(node));
    kafka.into_iter().chain(sink).collect()
}

fn kafka(node: &NodeFields) -> String {
    let behind = node.get("kafka_behind_seconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    let mut line = format!(
        "kafka on {}: {} of {} partitions{}",
        shown(node, "id"),
        messages(number(node, "kafka_lag"), "to store"),
        number(node, "kafka_partitions"),
        behind.map(|seconds| format!(", {} behind", human_seconds(seconds))).unwrap_or_default(),
    );
    let topics = node.get("kafka_topics").and_then(Value::as_array).into_iter().flatten();
    let lagging =
        topics.filter_map(|topic| Some((topic["topic"].as_str()?, topic["lag"].as_u64().filter(|lag| *lag > 0)?)));
    let lagging: Vec<String> =
        lagging.take(TOPICS_MAX).map(|(name, lag)| format!("{} {lag}", one_line(name))).collect();
    if !lagging.is_empty() {
        line.push_str(&format!(" ({})", lagging.join(", ")));
    }
    let undecoded = number(node, "kafka_undecoded");
    if undecoded > 0 {
        line.push_str(&format!("; {} in another form, see messaging.kafka.undecoded", messages(undecoded, "stored")));
    }
    if let Some((failure, at)) = text(node, "kafka_last_failure").zip(text(node, "kafka_last_failure_at")) {
        line.push_str(&format!("; last failure at {at}: {}", one_line(failure)));
    }
    line + "\n"
}

fn sink(node: &NodeFields) -> String {
    let (id, inserts) = (shown(node, "id"), number(node, "sink_waiting_inserts"));
    match inserts {
        0 => format!("clickhouse on {id}: nothing waits\n"),
        _ => format!(
            "clickhouse on {id}: {inserts} inserts of {} wait\n",
            human_bytes(number(node, "sink_waiting_bytes"))
        ),
    }
}

fn messages(count: u64, what: &str) -> String {
    format!("{count} message{} {what}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_say_what_is_behind() {
        let check = |node: Value, want: &[&str]| {
            let lines = lines(node.as_object().unwrap()).concat();
            assert_eq!(lines.lines().collect::<Vec<_>>(), want);
        };
        check(json!({"id": "n"}), &[]);
        check(
            json!({"id": "n", "kafka_lag": 0, "kafka_partitions": 4, "kafka_behind_seconds": 0.0, "sink_waiting_inserts": 0}),
            &["kafka on n: 0 messages to store of 4 partitions", "clickhouse on n: nothing waits"],
        );
        let topic = |name: &str, lag: u64| json!({"topic": name, "lag": lag});
        check(
            json!({
                "id": "n", "kafka_lag": 9, "kafka_partitions": 2, "kafka_behind_seconds": 90.0, "kafka_undecoded": 1,
                "kafka_topics": [topic("a\nb", 7), topic("c", 1), topic("d", 1), topic("e", 0)],
                "kafka_last_failure": "no broker", "kafka_last_failure_at": "T",
                "sink_waiting_inserts": 2, "sink_waiting_bytes": 2048,
            }),
            &[
                "kafka on n: 9 messages to store of 2 partitions, 2m behind (a b 7, c 1, d 1); 1 message stored in another form, \
                 see messaging.kafka.undecoded; last failure at T: no broker",
                "clickhouse on n: 2 inserts of 2.0 KB wait",
            ],
        );
    }
}
