//! `tail` and `status`.

use std::io::Write as _;

use serde_json::Value;

use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

/// Waits until `clients` tails run.
fn followed(node: &TestServer, clients: u64) {
    wait_until("the tail runs", || node.get("/metrics").text().contains(&format!("bucksaw_query_tails {clients}\n")));
}

#[test]
fn a_tail_shows_records_as_they_are_accepted() {
    let mut node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"wanted before\n").expect(200);
    let mut tail = ChildProcess::start(&mut bucksaw(["tail", "--addr", &node.url(), "wanted app=web"]));
    followed(&node, 1);
    let mut stream = node.connect("fast");
    stream.write_all(b"#labels app=web\n").unwrap();
    for round in 0..10 {
        // The next record is sent after this one is shown.
        stream.write_all(format!("other {round}\nwanted {round}\n").as_bytes()).unwrap();
        assert_eq!(tail.line(), format!("wanted {round}"));
    }
    node.kill();
    // The end of the node is an error.
    let (status, out, said) = tail.wait_with_output();
    assert_eq!((status.code(), &*out), (Some(2), ""), "{said}");
    assert!(said.starts_with("bucksaw: the answer of ") && said.contains("ended early"), "{said}");
}

#[test]
fn a_tail_ends_at_its_limit() {
    let node = TestServer::start(&[]);
    let tail =
        ChildProcess::start(&mut bucksaw(["tail", "--addr", &node.url(), "-m", "2", "-v", "-o", "json", "other"]));
    followed(&node, 1);
    node.post("/api/v1/ingest", &[], b"one\nother\ntwo\nthree\n").expect(200);
    let (status, out, said) = tail.wait_with_output();
    assert_eq!((status.code(), &*said), (Some(0), ""));
    let objects = out.lines().map(|object| serde_json::from_str::<Value>(object).unwrap());
    assert_eq!(objects.map(|object| object["line"].clone()).collect::<Vec<_>>(), ["one", "two"]);
    followed(&node, 0);
}

#[test]
fn status_shows_the_node() {
    let mut node = TestServer::start(&[]);
    let output = node.cli(&["status"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text.starts_with("1 node, all well\n"), "{text}");
    let id = node.status()["id"].as_str().unwrap().to_owned();
    for word in ["ID", "STATE", "BACKLOG", "STORED", "DISK FREE", "HTTP", &id, "ready", node.address("http")] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    let json: Value = serde_json::from_slice(&node.cli(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["nodes"][0]["id"], id.as_str());
    node.kill();
    let output = node.cli(&["status"]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("bucksaw: cannot reach"));
}
