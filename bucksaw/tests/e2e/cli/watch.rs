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
    let node = TestServer::start(&[]);
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
    drop(tail);
}

#[test]
fn a_tail_reconnects_and_shows_what_it_missed_once() {
    let mut node = TestServer::start(&[]);
    // A restart keeps the address.
    let addr = node.address("http").to_owned();
    let fixed = ["--listen", addr.as_str()];
    node.restart_with(&fixed);
    let arguments = ["tail", "--addr", &node.url(), "-n", "2", "wanted"];
    node.post("/api/v1/ingest", &[], b"wanted 0\nwanted 1\nother\nwanted 2\n").expect(200);
    let mut tail = ChildProcess::start(&mut bucksaw(arguments));
    assert_eq!((tail.line().as_str(), tail.line().as_str()), ("wanted 1", "wanted 2"));
    followed(&node, 1);
    node.post("/api/v1/ingest", &[], b"wanted 3\n").expect(200);
    assert_eq!(tail.line(), "wanted 3");
    for round in 0..2 {
        node.kill();
        assert!(tail.stderr_line().ends_with(": reconnecting"));
        node.restart();
        // Accepted before or after the tail is back: it is shown once.
        node.post("/api/v1/ingest", &[], format!("wanted back {round}\n").as_bytes()).expect(200);
        assert_eq!(tail.line(), format!("wanted back {round}"));
        let said = tail.stderr_line();
        assert!(said.contains("reconnected to http://") && said.contains("may be missing"), "{said}");
    }
    node.post("/api/v1/ingest", &[], b"wanted last\n").expect(200);
    assert_eq!(tail.line(), "wanted last");
}

#[test]
fn a_tail_shows_its_history_first() {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"one\ntwo\nthree\n").expect(200);
    let check = |arguments: &[&str], want: &[&str]| {
        let mut tail = ChildProcess::start(&mut bucksaw(["tail", "--addr", &node.url()].iter().chain(arguments)));
        for line in want {
            assert_eq!(tail.line(), *line, "{arguments:?}");
        }
    };
    check(&["-n", "2"], &["two", "three"]);
    check(&["--since", "10m"], &["one", "two", "three"]);
    check(&["--since", "10m", "-n", "1", "-o", "{line}!"], &["three!"]);
    check(&["-n", "9", "-v", "two"], &["one", "three"]);
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
