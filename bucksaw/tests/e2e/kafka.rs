//! Topics of a real broker, read by nodes of one consumer group, while nodes and broker are killed.

use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

mod broker;

use crate::node::{TestServer, bucksaw, run};
use crate::senders::{SenderRecord, python, stored};
use crate::wait::wait_until;
pub(crate) use broker::KafkaBroker;
use broker::{PASSWORD, USER};

/// Messages that are sent while node and broker are killed, while partitions move, and while both nodes have some.
const KILLED: Range<usize> = 0..15_000;
const MOVED: Range<usize> = 15_000..25_000;
const SHARED: Range<usize> = 25_000..26_000;

/// Starts the client: messages with these numbers and of this kind.
pub(crate) fn produce(address: &str, topic: &str, kind: &str, numbers: &Range<usize>) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../senders/clients/kafka.py");
    let mut command = Command::new(python());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args([address, topic, kind]);
    command.args([numbers.start, numbers.len()].map(|number| number.to_string()));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Sends messages, and calls `after` with the number of those that the broker has acknowledged, after each 500.
fn produce_all(address: &str, numbers: &Range<usize>, mut after: impl FnMut(usize)) {
    let mut client = produce(address, "orders", "plain", numbers);
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        after(line.unwrap().parse().unwrap());
    }
    assert!(client.wait().unwrap().success());
}

/// Arguments of a node that reads a topic. A short session, so that the partitions of a killed node are soon read.
pub(crate) fn reads<'a>(address: &'a str, topic: &'a str) -> Vec<&'a str> {
    let on = ["--kafka-brokers", address, "--kafka-topics", topic, "--kafka-commit-interval", "100ms"];
    let options = ["--kafka-option", "session.timeout.ms=2000", "--kafka-option", "heartbeat.interval.ms=500"];
    [&on[..], &options, &["--kafka-option", "topic.metadata.refresh.interval.ms=1000"]].concat()
}

/// Waits until all messages of the nodes are stored and committed.
fn wait_read(nodes: &[&TestServer], messages: usize) {
    wait_until("all messages are stored", || nodes[0].count("") >= messages as u64);
    // Each node updates the lags of its partitions every 2 s.
    let has_no_lag = |node: &&TestServer| {
        let text = node.get("/metrics").expect(200).text();
        let lags = text.lines().filter(|line| line.starts_with("bucksaw_kafka_lag{"));
        let lags: Vec<&str> = lags.map(|line| line.rsplit_once(' ').unwrap().1).collect();
        lags.len() as f64 == node.metric("bucksaw_kafka_partitions") && lags.iter().all(|lag| *lag == "0")
    };
    wait_until("there is no lag", || nodes.iter().all(has_no_lag));
}

#[test]
fn each_message_is_found_once_while_nodes_and_broker_are_killed() {
    let mut broker = KafkaBroker::start();
    let address = broker.address.clone();
    let flags = reads(&address, "orders");
    let mut first = TestServer::start(&[&flags[..], &["--kafka-workers", "2"]].concat());
    produce_all(&address, &KILLED, |acknowledged| match acknowledged {
        5_000 => first.restart(),
        10_000 => broker.restart(),
        _ => {}
    });
    let cluster = first.address("cluster").to_owned();
    let mut second = TestServer::start(&[&flags[..], &["--join", &cluster]].concat());
    let partitions = |node: &TestServer| node.metric("bucksaw_kafka_partitions");
    let are_shared = |nodes: [&TestServer; 2]| {
        let counts = nodes.map(partitions);
        counts.iter().sum::<f64>() == 4.0 && counts.iter().all(|count| *count > 0.0)
    };
    wait_until("both nodes have partitions", || are_shared([&first, &second]));
    // The partitions of the killed node move to the first one, and some of them back.
    produce_all(&address, &MOVED, |acknowledged| match acknowledged {
        2_000 => second.kill(),
        6_000 => second.restart(),
        _ => {}
    });
    wait_until("both nodes have partitions again", || are_shared([&first, &second]));
    // The second node commits some of these, however long its return took.
    produce_all(&address, &SHARED, |_| ());
    wait_read(&[&first, &second], SHARED.end);

    let mut lines: Vec<String> = stored(&first).iter().map(|record| record.line().to_owned()).collect();
    let mut wanted: Vec<String> =
        (0..SHARED.end).map(|number| format!("order {number} of \"Müller & Söhne\"")).collect();
    lines.sort();
    wanted.sort();
    assert_eq!(lines.len(), wanted.len(), "each message is found once");
    assert!(lines == wanted);
    assert_eq!(first.count(""), SHARED.end as u64, "counted once");
    assert!(second.metric("bucksaw_kafka_commits_total") > 0.0);

    keys_headers_and_json_over_tls(&broker);
    generated_messages_are_records(broker);
}

/// One broker serves both tests, as it takes seconds to start.
fn keys_headers_and_json_over_tls(broker: &KafkaBroker) {
    assert!(produce(&broker.address, "typed", "json", &(0..4)).wait().unwrap().success());
    let secrets = tempfile::NamedTempFile::new().unwrap();
    let certificate = broker.certificate();
    let of = |mechanism: &str, password: &str| {
        std::fs::write(
            secrets.path(),
            format!(
                "security.protocol=SASL_SSL\nssl.ca.location={certificate}\nsasl.mechanisms={mechanism}\n\
                 sasl.username={USER}\nsasl.password={password}\n"
            ),
        )
        .unwrap();
    };
    let secrets_path = secrets.path().to_str().unwrap();
    let mapping = ["--kafka-format", "json", "--kafka-message-field", "msg", "--kafka-label-fields", "app"];
    let more = ["--kafka-label-headers", "host", "--kafka-position", "--kafka-options-file", secrets_path];
    let flags = [&reads(&broker.secure_address, "typed")[..], &mapping, &more].concat();
    of("SCRAM-SHA-512", PASSWORD);
    let mut node = TestServer::start(&flags);
    wait_read(&[&node], 4);
    let mut records = stored(&node);
    records.sort_by_key(|record| record.line().to_owned());
    let wanted = SenderRecord(json!({
        "line": "paid 0",
        "labels": {"topic": "typed", "app": "shop", "host": "h0"},
        "attributes": {
            "messaging.kafka.message.key": "customer 0",
            "trace_id": "4bf9",
            "amount.eur": "7",
            "messaging.destination.partition.id": records[1].0["attributes"]["messaging.destination.partition.id"],
            "messaging.kafka.offset": records[1].0["attributes"]["messaging.kafka.offset"],
        },
    }));
    assert!(records[1].has_all_of(&wanted), "{:?}", records[1]);
    assert!(records[1].0["time"].as_str().unwrap().ends_with(".123456Z"), "{:?}", records[1]);
    assert_eq!(records[0].0["attributes"]["messaging.kafka.message.tombstone"], "true", "{:?}", records[0]);
    assert_eq!(records[2].line(), "{\"broken\":", "{:?}", records[2]);
    assert_eq!(records[2].0["attributes"]["messaging.kafka.undecoded"], "invalid_json");
    assert_eq!(records[3].line(), "{\"no\":\"message\"}");
    assert_eq!(node.metric("bucksaw_kafka_undecoded_total"), 2.0);

    let topic = json!({"topic": "typed", "partitions": 4, "lag": 0, "behind_seconds": 0.0, "undecoded": 2});
    wait_until("the status has the topic", || node.status()["kafka"]["topics"] == json!([topic]));
    let kafka = node.status()["kafka"].clone();
    assert_eq!(kafka["undecoded"], 2, "{kafka}");
    assert_eq!((&kafka["connected_workers"], &kafka["disconnected_since"]), (&json!(1), &json!(null)), "{kafka}");

    // Another group, and the other mechanism: the same messages, the same ids.
    of("PLAIN", PASSWORD);
    node.restart_with(&[&flags[..], &["--kafka-group", "again"]].concat());
    wait_until("all is read again", || node.metric("bucksaw_kafka_messages_total") == 4.0);
    assert_eq!(node.count(""), 4);

    // A wrong password keeps the node waiting, and ready; no log has it.
    of("PLAIN", "wrong-sesame");
    node.restart_with(&flags);
    wait_until("the failure is logged", || node.log().contains("no broker of Kafka answers"));
    assert_eq!(node.metric("bucksaw_kafka_connected_workers"), 0.0);
    let kafka = node.status()["kafka"].clone();
    assert!(kafka["disconnected_since"].is_string() && kafka["last_failure"].is_string(), "{kafka}");
    assert!(!kafka.to_string().contains("sesame"), "{kafka}");
    assert!(node.terminate().success());
    assert!(!node.log().contains("sesame"), "{}", node.log());
}

fn generated_messages_are_records(mut broker: KafkaBroker) {
    const COUNT: usize = 20_000;
    let count = COUNT.to_string();
    let flags = ["--rate", "0", "--count", &count, "--size", "150", "--format", "json"];
    let want = run(bucksaw(["generate"]).args(flags), b"").stdout;
    let (dir, to) = (tempfile::tempdir().unwrap(), format!("kafka://{}/generated", broker.address));
    let log = dir.path().join("rate.csv");
    let sent = run(bucksaw(["generate", "--to", &to, "--rate-log"]).arg(&log).args(flags), b"");
    let said = String::from_utf8(sent.stderr).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("{COUNT} records (2.9 MB) sent, {COUNT} acknowledged in ")), "{said}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.ends_with(&format!(",{COUNT},{0},{COUNT},{0}\n", 151 * COUNT)), "{log}");
    let refused = run(&mut bucksaw(["generate", "--to", &to, "--label", "a=b"]), b"");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--label has no effect on messages of Kafka"));

    let node = TestServer::start(&reads(&broker.address, "generated"));
    wait_read(&[&node], COUNT);
    // Without the times, which differ.
    let texts = |lines: Vec<String>| {
        let mut texts: Vec<String> = lines.iter().map(|line| line[34..].to_owned()).collect();
        texts.sort();
        texts
    };
    let found = stored(&node).iter().map(|record| record.line().to_owned()).collect();
    let want = String::from_utf8(want).unwrap().lines().map(str::to_owned).collect();
    assert!(texts(found) == texts(want));

    // The status says that nothing is read while the broker is away.
    broker.kill();
    wait_until("the status says so", || {
        let status = String::from_utf8(node.cli(&["status"]).stdout).unwrap();
        status.contains("has had no connection to Kafka since")
            && status.contains("0 messages to store of 4 partitions")
    });
}
