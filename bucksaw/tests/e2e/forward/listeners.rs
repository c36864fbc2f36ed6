//! Local listeners: what an agent acknowledges arrives once, also if it or its node is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::agent::AgentNode;
use crate::client::call;
use crate::node::{bucksaw, run};
use crate::ports::free_address;
use crate::senders::{RECORDS, SenderRecord, all_are_stored, python};
use crate::wait::{wait_for, wait_until};

/// A request of OTLP with one record.
fn export(line: &str) -> Vec<u8> {
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let record = json!({
        "timeUnixNano": "1795000000123456789",
        "body": {"stringValue": line},
        "attributes": [attribute("order", line.rsplit(' ').next().unwrap())],
    });
    let resource = json!({"attributes": [attribute("service.name", "shop")]});
    json!({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}).to_string().into_bytes()
}

/// Sends a record with a key, and returns the status; `None` if the agent is away.
fn try_send(address: &str, line: &str) -> Option<u16> {
    let key = line.replace("xx", "");
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", &*key)];
    Some(call(address, "POST", "/v1/logs", &headers, &export(line)).ok()?.status)
}

/// Sends a record until it is acknowledged.
fn send(address: &str, line: &str) {
    wait_until("the agent acknowledges", || try_send(address, line) == Some(200));
}

#[test]
fn what_is_acknowledged_is_stored_once_over_kills() {
    for durability in ["fast", "durable"] {
        let address = free_address();
        let durability = ["--durability", durability, "--listen-otlp-http", &address];
        let labels = ["--label", "site=s1", "--label", "service.name=other"];
        let mut agent = AgentNode::start(&[&durability[..], &labels].concat());
        let mut written = Vec::new();
        for number in 0..300 {
            match number {
                40 | 110 | 170 | 260 => agent.restart(),
                80 => agent.node.kill(),
                200 => agent.node.restart(),
                _ => {}
            }
            let line = format!("order {number}");
            send(&address, &line);
            written.push(line);
        }
        agent.expect(&written);
        let answer = agent.node.get("/api/v1/query?from=900d&to=2100-01-01T00:00:00Z&q=order").expect(200).objects();
        let record = answer.iter().find(|record| record["line"] == "order 7").unwrap();
        let labels = &record["labels"];
        assert_eq!((&labels["site"], &labels["service.name"]), (&"s1".into(), &"shop".into()), "{record}");
        assert_eq!((&record["attributes"]["order"], labels["host.name"].is_string()), (&"7".into(), true), "{record}");
    }
}

/// Runs a script of `senders/clients` against the listener of an agent. The node is killed midway, and the agent if the client
/// repeats what is not acknowledged.
fn every_record_is_stored(flag: &str, script: &str, arguments: &[&str], is_agent_killed: bool) {
    let address = free_address();
    let mut agent = AgentNode::start(&[flag, &address]);
    wait_until("the agent listens", || std::net::TcpStream::connect(&address).is_ok());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../senders/clients").join(script);
    let mut command = Command::new(python());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args([address.as_str(), &RECORDS.to_string()]);
    let mut client = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut stated: Vec<SenderRecord> = Vec::new();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        // Libraries print their troubles among what the client states.
        let Ok(record) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        stated.push(SenderRecord(record));
        match stated.len() {
            50 => agent.node.kill(),
            100 if is_agent_killed => agent.restart(),
            150 => agent.node.restart(),
            _ => {}
        }
    }
    assert!(client.wait().unwrap().success());
    assert_eq!(stated.len(), RECORDS);
    all_are_stored(&agent.node, &stated);
}

#[test]
fn an_sdk_of_otlp_over_grpc() {
    every_record_is_stored("--listen-otlp", "otlp.py", &["grpc", "fast"], true);
}

#[test]
fn an_sdk_of_otlp_over_http() {
    every_record_is_stored("--listen-otlp-http", "otlp.py", &["http"], true);
}

/// This client has no acknowledgements, so its agent stays.
#[test]
fn fluent_logger_for_python() {
    every_record_is_stored("--listen-fluent", "fluentd.py", &[], false);
}

#[test]
fn logger_over_syslog_beside_a_followed_file() {
    let address = free_address();
    let dir = tempfile::tempdir().unwrap();
    let (file, messages) = (dir.path().join("a.log"), dir.path().join("messages"));
    let mut written: Vec<String> = (0..500).map(|number| format!("message {number}")).collect();
    std::fs::write(&messages, written.join("\n") + "\n").unwrap();
    let mut agent = AgentNode::start(&["--listen-syslog", &address, file.to_str().unwrap()]);
    wait_until("the agent listens", || std::net::TcpStream::connect(&address).is_ok());
    let port = address.rsplit_once(':').unwrap().1;
    let to = ["-n", "127.0.0.1", "-P", port, "-T", "--octet-count", "--rfc5424", "-t", "shop", "-f"];
    let mut logger = Command::new("logger").args(to).arg(&messages).spawn().unwrap();
    let mut lines = std::fs::File::create(&file).unwrap();
    for number in 0..500 {
        let line = format!("file {number}");
        writeln!(lines, "{line}").unwrap();
        written.push(line);
        if number == 250 {
            agent.node.restart();
        }
    }
    assert!(logger.wait().unwrap().success());
    wait_until("some messages are stored", || agent.node.count("message") > 0);
    agent.node.kill();
    // Everything waits in the state directory.
    agent.stop();
    agent.node.restart();
    agent.restart();
    agent.expect(&written);
    assert_eq!(agent.node.count("service.name=shop host.name=~/./"), 500);
}

#[test]
fn a_full_queue_refuses_or_drops_the_oldest_records() {
    for policy in ["block", "drop-oldest"] {
        let address = free_address();
        let arguments = ["--buffer-bytes", "4M", "--when-full", policy, "--listen-otlp-http", &address];
        let mut agent = AgentNode::start(&arguments);
        send(&address, "first 0");
        wait_until("the first record is stored", || agent.node.count("first") == 1);
        agent.node.kill();
        let text = "x".repeat(100_000);
        let mut sent = 0;
        let refused = loop {
            let status = wait_for("the agent answers", || try_send(&address, &format!("{text} {sent}")));
            if status != 200 || sent == RECORDS as u64 {
                break status;
            }
            sent += 1;
        };
        let bytes: u64 = std::fs::read_dir(agent.state_dir().join("queue"))
            .unwrap()
            .filter_map(|entry| entry.ok()?.metadata().ok())
            .map(|metadata| metadata.len())
            .sum();
        // What arrives between two checks comes on top.
        assert!(bytes < 12 << 20, "{bytes}");
        agent.node.restart();
        if policy == "block" {
            assert_eq!(refused, 503);
            assert!((38..120).contains(&sent), "{sent}");
            send(&address, "last 0");
            wait_until("all are stored", || agent.node.count("") == sent + 2);
        } else {
            assert_eq!((refused, sent), (200, RECORDS as u64));
            send(&address, "last 0");
            wait_until("the newest are stored", || agent.node.count("last") == 1);
            let said = agent.stop();
            assert!(said.contains("dropped the oldest records"), "{said}");
            let stored = agent.stored();
            assert!(stored.len() < RECORDS && stored.values().all(|count| *count == 1), "{}", stored.len());
        }
    }
}

#[test]
fn events_are_filtered_and_what_is_dropped_is_acknowledged_and_counted() {
    let (otlp, fluent) = (free_address(), free_address());
    let rules =
        ["--drop", "noise", "--keep", "order OR card", "--redact", "s/card=[0-9]+/card=*/", "--attribute", "team=shop"];
    let listeners = ["--listen-otlp-http", &otlp, "--listen-fluent", &fluent];
    let mut agent = AgentNode::start(&[&rules[..], &listeners].concat());
    for line in ["order 1", "order noise 2", "other 3", "card=123 4"] {
        send(&otlp, line);
    }
    // A chunk with one event, which is dropped.
    let mut client = std::net::TcpStream::connect(&fluent).unwrap();
    client.write_all(b"\x93\xa1t\x91\x92\x01\x81\xa3log\xa5noise\x81\xa5chunk\xa3abc").unwrap();
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"\x81\xa3ack\xa3abc");
    agent.expect(&["order 1".to_owned(), "card=* 4".to_owned()]);
    let said = agent.stop();
    assert!(said.contains("filtered=3") && said.contains("redacted=1"), "{said}");
    assert_eq!(agent.node.count("team=shop"), 2);
}

#[test]
fn mistakes_are_reported() {
    let check = |arguments: &[&str], want: &str| {
        let dir = tempfile::tempdir().unwrap();
        let output =
            run(bucksaw(["forward", "--to", "127.0.0.1:1", "--state-dir"]).arg(dir.path()).args(arguments), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(want), "{arguments:?}: {said}");
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // A port alone is one of the loopback address.
    check(&["--listen-otlp", &port], &format!("cannot listen on 127.0.0.1:{port} (TCP)"));
    check(&["--listen-otlp", "x"], "--listen-otlp");
    check(&["--listen-otlp", "0", "--", "true"], "has no effect on a command: leave it out");
}
