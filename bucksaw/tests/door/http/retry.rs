//! `Idempotency-Key`: a body that is sent again is the same records.

use bucksaw_generate::{Config, Format};

use crate::corpus::lines;
use crate::node::Node;

const KEY: (&str, &str) = ("Idempotency-Key", "shipment 17");

#[test]
fn a_retry_is_the_same_records() {
    let mut node = Node::start(&["--segment-max-age", "200ms"]);
    let text = lines(Config { format: Format::Text, size: Some(200), seed: 5 }, 12_000);
    // Longer than what is appended together, and one that is not.
    for (label, text) in [("long", &text[..]), ("short", &text[..201 * 50])] {
        for durability in ["fast", "durable", "bulk"] {
            let name = format!("{label}-{durability}");
            let key = ("Idempotency-Key", name.as_str());
            let target = format!("/api/v1/ingest?durability={durability}&label=sent={name}");
            let count = text.len() as u64 / 201;
            let send = |node: &Node, when: &str| {
                let accepted = &node.post(&target, &[key], text).expect(200).json()["accepted"];
                assert_eq!(accepted.as_u64(), Some(count), "{name}, {when}");
                assert_eq!(node.count(format!("sent={name}")), count, "{name}, {when}");
            };
            send(&node, "first");
            send(&node, "at once");
            node.kill();
            node.restart();
            assert_eq!(node.count(format!("sent={name}")), count, "{name}, after a kill");
            send(&node, "after a kill");
            node.wait_stored();
            send(&node, "with the first in the store");
            node.wait_stored();
            assert_eq!(node.count(format!("sent={name}")), count, "{name}, in the store");
            assert!(node.terminate().success());
            node.restart();
            send(&node, "after a stop");
            let back = node.cli(&["query", &format!("sent={name}")]).stdout;
            assert!(back == text, "{name}: {} bytes of {} came back", back.len(), text.len());
        }
    }
}

#[test]
fn a_retry_completes_what_was_begun() {
    let mut node = Node::start(&[]);
    let text = lines(Config { format: Format::Text, size: Some(200), seed: 6 }, 12_000);
    // A connection that breaks in the middle of the body: more or less of it has been taken.
    let head = "POST /api/v1/ingest HTTP/1.1\r\nHost: a\r\n";
    let mut stream = node.connect("http");
    let begun = format!("{head}Content-Length: {}\r\n{}: {}\r\n\r\n", text.len(), KEY.0, KEY.1);
    std::io::Write::write_all(&mut stream, &[begun.as_bytes(), &text[..2_000_000]].concat()).unwrap();
    crate::wait::wait_until("a part of the body is taken", || node.count("") > 0);
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
