//! `Idempotency-Key`: a body that is sent again is the same records.

use std::io::Write as _;

use bucksaw_generate::{Config, Format};

use crate::corpus::lines;
use crate::node::Node;
use crate::wait::wait_until;

/// Bytes of a line, its LF included.
const LINE_BYTES: usize = 201;

const KEY: (&str, &str) = ("Idempotency-Key", "shipment 17");

/// Bodies, each with a key and a stream of its own.
struct Shipments {
    text: Vec<u8>,
    /// Name, durability, how many lines of the text.
    list: Vec<(String, &'static str, u64)>,
}

impl Shipments {
    /// Sends them all; each time that is the same records.
    fn send(&self, node: &Node, when: &str) {
        for (name, durability, lines) in &self.list {
            let target = format!("/api/v1/ingest?durability={durability}&label=sent={name}");
            let answer = node.post(&target, &[("Idempotency-Key", name)], self.text(*lines)).expect(200);
            assert_eq!(answer.json()["accepted"].as_u64(), Some(*lines), "{name}, {when}");
            assert_eq!(node.count(format!("sent={name}")), *lines, "{name}, {when}");
        }
        self.check(node, when);
    }

    /// Looks that each is there once.
    fn check(&self, node: &Node, when: &str) {
        for (name, _, lines) in &self.list {
            let back = node.cli(&["query", &format!("sent={name}")]).stdout;
            assert!(back == self.text(*lines), "{name}, {when}: {} bytes came back", back.len());
        }
        assert_eq!(node.count(""), self.list.iter().map(|(_, _, lines)| lines).sum::<u64>(), "{when}");
    }

    fn text(&self, lines: u64) -> &[u8] {
        &self.text[..lines as usize * LINE_BYTES]
    }
}

#[test]
fn a_retry_is_the_same_records() {
    let text = lines(Config { format: Format::Text, size: Some(LINE_BYTES - 1), seed: 5 }, 12_000);
    // One that is appended at once, and one that takes several pieces.
    let list = [50, 12_000].into_iter().flat_map(|lines| {
        ["fast", "durable", "bulk"].map(|durability| (format!("{lines}-{durability}"), durability, lines))
    });
    let shipments = Shipments { text, list: list.collect() };
    let mut node = Node::start(&["--segment-max-age", "200ms"]);
    shipments.send(&node, "first");
    shipments.send(&node, "at once");
    node.kill();
    node.restart();
    shipments.check(&node, "after a kill");
    shipments.send(&node, "after a kill");
    node.wait_stored();
    shipments.send(&node, "with the first in the store");
    node.wait_stored();
    shipments.check(&node, "in the store");
    assert!(node.terminate().success());
    node.restart();
    shipments.send(&node, "after a stop");
}

#[test]
fn a_retry_completes_what_was_begun() {
    let mut node = Node::start(&[]);
    let text = lines(Config { format: Format::Text, size: Some(200), seed: 6 }, 12_000);
    // A connection that breaks in the middle of the body: more or less of it has been taken.
    let head = "POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    let mut stream = node.connect("http");
    let begun = format!("{head}Content-Length: {}\r\n{}: {}\r\n\r\n", text.len(), KEY.0, KEY.1);
    stream.write_all(&[begun.as_bytes(), &text[..2_000_000]].concat()).unwrap();
    wait_until("a part of the body is taken", || node.count("") > 0);
    drop(stream);
    node.kill();
    node.restart();
    assert!((1..12_000).contains(&node.count("")), "{} records", node.count(""));
    assert_eq!(node.post("/api/v1/ingest", &[KEY], &text).expect(200).json()["accepted"], 12_000);
    assert_eq!(node.count(""), 12_000);
    assert!(node.cli(&["query"]).stdout == text, "other text came back");
    // Without a key, what is sent again is more.
    node.post("/api/v1/ingest", &[], &text).expect(200);
    node.post("/api/v1/ingest", &[("Idempotency-Key", "shipment 18")], &text).expect(200);
    assert_eq!(node.count(""), 36_000);
}

/// A key stands for one body. What else is sent with it is taken for the same records, as far as there are as many.
#[test]
fn another_body_with_the_same_key_is_not_kept_beside_the_first() {
    let node = Node::start(&["--segment-max-age", "200ms"]);
    for body in ["first 0\nfirst 1\n", "other 0\nother 1\nother 2\n"] {
        node.post("/api/v1/ingest", &[KEY], body.as_bytes()).expect(200);
    }
    let check = |when: &str| {
        let lines = String::from_utf8(node.cli(&["query"]).stdout).unwrap();
        let numbers: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(numbers, ["0", "1", "2"], "{when}: {lines}");
        assert_eq!(node.count(""), 3, "{when}");
    };
    check("in the queue");
    node.wait_stored();
    check("in the store");
}
