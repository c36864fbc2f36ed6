//! A batch whose key carries its time gets the same ids at every node.

use std::time::{SystemTime, UNIX_EPOCH};

use bucksaw_record::{Id, Millis, Producer};

use super::start;
use crate::node::TestServer;
use crate::wait::wait_until;

const HOUR_MS: u64 = 3_600_000;

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A UUID version 7 of this time.
fn uuid(at: u64, number: u64) -> String {
    format!("{:08x}-{:04x}-7000-8000-{number:012x}", at >> 16, at & 0xffff)
}

fn ulid(at: u64, number: u64) -> String {
    Id::new(Millis(at), Producer::new(number), 7).to_string()
}

/// Sends a batch, which must be accepted.
fn send(node: &TestServer, key: &str, body: &str) {
    let kind = if body.starts_with('{') { "application/x-ndjson" } else { "text/plain" };
    let headers = [("Idempotency-Key", key), ("Content-Type", kind)];
    let answer = node.post("/api/v1/ingest?durability=durable&label=app=retry", &headers, body.as_bytes()).expect(200);
    assert_eq!(answer.json()["accepted"].as_u64(), Some(body.lines().count() as u64), "{key}");
}

/// The lines of an answer, equal at every node.
fn found(nodes: &[TestServer]) -> Vec<String> {
    let of = |node: &TestServer| {
        let mut lines: Vec<String> = String::from_utf8(node.cli(&["query", "--since", "30d", "app=retry"]).stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(node.count("app=retry"), lines.len() as u64, "what is counted is what is found");
        lines.sort();
        lines
    };
    let answers: Vec<_> = nodes.iter().map(of).collect();
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "the nodes do not agree: {answers:?}");
    answers.into_iter().next().unwrap()
}

#[test]
fn a_batch_sent_to_two_nodes_is_stored_once() {
    let mut nodes = start(2);
    let at = now();
    let lines = |name: &str| (0..500).map(|number| format!("{name} {number}\n")).collect::<String>();
    // Stated event times, some close to the clamp of one hour ahead.
    let stated: String = (0..50)
        .map(|number| format!("{{\"ts\":{},\"stated\":{number}}}\n", at + HOUR_MS - 2_000 + number * 100))
        .collect();
    let batches = [
        (uuid(at, 1), lines("uuid")),
        (ulid(at, 2), lines("ulid")),
        (format!("\"{}\"", uuid(at - 24 * 6 * HOUR_MS, 3)), lines("kept for six days")),
        (uuid(at, 4), stated),
    ];
    let mut sent: Vec<&str> = batches.iter().flat_map(|(_, body)| body.lines()).collect();
    sent.sort_unstable();
    let check = |nodes: &[TestServer], when: &str| {
        for (key, body) in &batches {
            nodes.iter().for_each(|node| send(node, key, body));
        }
        assert!(found(nodes) == sent, "{when}");
    };
    check(&nodes, "in the queues of both");
    // Times close to the clamp at the first attempt are within it at the last.
    for node in &nodes {
        wait_until("the queues are empty", || {
            let cluster = node.get("/api/v1/cluster").expect(200).json();
            cluster["nodes"].as_array().unwrap().iter().all(|node| node["queue"]["segments"] == 0)
        });
    }
    check(&nodes, "once more, with the first in the stores");
    nodes[0].kill();
    nodes[0].restart();
    wait_until("they are members", || super::members(&nodes[1], "alive") == 2);
    check(&nodes, "after a kill");
}

#[test]
fn a_key_with_a_wrong_time_does_not_move_records_in_time() {
    let nodes = start(1);
    let at = now();
    // The years 1970, 2004 and 10889, eight days ahead and ago, and two hours ahead.
    let far = [0, 1_100_000_000_000, Millis::MAX.0, at + 8 * 24 * HOUR_MS, at - 8 * 24 * HOUR_MS, at + 2 * HOUR_MS];
    let keys = far.into_iter().flat_map(|far| [ulid(far, 1), uuid(far, 2)]);
    for (number, key) in (0_u64..).zip(keys) {
        for _ in 0..2 {
            send(&nodes[0], &key, &format!("hostile {number}\n"));
        }
        let soon = at / 1_000 + 60;
        let recent = nodes[0].get(&format!("/api/v1/count?from=1h&to={soon}&q=hostile")).expect(200).json();
        assert_eq!(recent["count"].as_u64(), Some(number + 1), "{key}");
    }
    assert_eq!(nodes[0].count("hostile"), 12);
}

#[test]
fn different_bodies_with_one_key_at_two_nodes_are_both_stored() {
    let nodes = start(2);
    let key = uuid(now(), 1);
    let bodies = ["one 0\none 1\n", "two 0\ntwo 1\ntwo 2\n"];
    let sent: Vec<&str> = bodies.iter().flat_map(|body| body.lines()).collect();
    for _ in 0..2 {
        nodes.iter().zip(bodies).for_each(|(node, body)| send(node, &key, body));
        assert_eq!(found(&nodes), sent);
    }
    let answer = nodes[0].post("/api/v1/ingest?label=app=retry", &[("Idempotency-Key", &key)], bodies[1].as_bytes());
    assert_eq!(answer.expect(422).json()["accepted"], 0);
    assert_eq!(found(&nodes), sent);
}

/// If the second node does not have the key, the batch is stored twice, in counts and answers.
#[test]
fn a_batch_that_is_stored_twice_is_counted_twice() {
    let nodes = start(2);
    let body = "one 0\none 1\n";
    nodes.iter().for_each(|node| send(node, "no time in it", body));
    assert_eq!(found(&nodes), ["one 0", "one 0", "one 1", "one 1"]);
}
