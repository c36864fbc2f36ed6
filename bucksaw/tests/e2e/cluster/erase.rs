//! `bucksaw erase`: on all nodes, also on one that is down meanwhile.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{id, members, start_with};
use crate::client::encode;
use crate::node::TestServer;
use crate::wait::wait_until;

/// Bytes of erased records that the expression does not have.
const NEEDLE: &str = "4929-0000-1111";

/// A cluster whose files have the bytes of records as they are.
fn start_plain(size: usize) -> Vec<TestServer> {
    start_with(size, &["--store-codec", "none"])
}

/// The files below a directory that have these bytes.
fn files_with(dir: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if fs::read(&path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes)) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The number of matching records, also of a partial answer.
fn found(node: &TestServer, q: &str) -> u64 {
    let counted = node.get(&format!("/api/v1/count?from=30d&q={}", encode(q))).expect(200).json();
    counted["count"].as_u64().unwrap()
}

fn erase(node: &TestServer, arguments: &[&str]) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } = node.cli(&[&["erase", "-o", "json"], arguments].concat());
    let document = serde_json::from_slice(&stdout);
    let document = document.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&stderr)));
    (status.code(), document)
}

/// The committed segments of a queue that other nodes read stay for half a minute, so this test takes longer than others.
#[test]
fn erased_records_are_on_no_node_also_after_one_returns() {
    let mut nodes = start_plain(3);
    for (number, node) in nodes.iter().enumerate() {
        let lines: String = (0..20)
            .map(|line| format!("user={} card={NEEDLE} node {number}\n", if line % 4 == 0 { "alice" } else { "bob" }))
            .collect();
        let lines = lines.replace(&format!("user=bob card={NEEDLE}"), "user=bob card=none");
        node.post("/api/v1/ingest?durability=bulk&label=app=shop", &[("Content-Type", "text/plain")], lines.as_bytes())
            .expect(200);
    }
    assert_eq!((nodes[0].count("user=alice"), nodes[0].count("user=bob")), (15, 45));
    for node in &nodes {
        assert!(!files_with(node.dir(), NEEDLE.as_bytes()).is_empty(), "the check finds what is there");
    }
    let (code, preview) = erase(&nodes[0], &["user=alice"]);
    assert_eq!((code, preview["count"].as_u64(), preview["erased"].as_bool()), (Some(0), Some(15), Some(false)));
    assert_eq!(nodes[0].count("user=alice"), 15, "nothing was erased");

    let third = id(&nodes[2]);
    nodes[2].kill();
    let (code, erased) = erase(&nodes[0], &["user=alice", "--yes", "--wait", "0s"]);
    assert_eq!((code, erased["complete"].as_bool()), (Some(2), Some(false)), "{erased}");
    let states = erased["erasure"]["nodes"].as_array().unwrap();
    assert!(states.iter().any(|state| state["node"] == *third && state["state"] == "not reached"), "{erased}");
    assert!(nodes[..2].iter().all(|node| found(node, "user=alice") == 0), "from the acknowledgement on");
    nodes[2].restart();
    assert_eq!(found(&nodes[2], "user=alice"), 0, "it learns of it before it answers");
    for node in &nodes {
        wait_until("all are members again", || members(node, "alive") == 3);
        assert_eq!((node.count("user=alice"), node.count("user=bob")), (0, 45));
    }
    let state = |node: &TestServer| node.get("/api/v1/erasures").expect(200).json();
    wait_until("all nodes are done", || state(&nodes[1])["erasures"][0]["done"] == true);
    for node in &nodes {
        let left = files_with(node.dir(), NEEDLE.as_bytes());
        assert!(left.is_empty(), "{left:?}: {}", state(node));
        assert_eq!((node.count("user=alice"), node.count("user=bob")), (0, 45));
    }
    let (code, again) = erase(&nodes[2], &["user=alice", "--yes"]);
    assert_eq!((code, again["complete"].as_bool(), again["remaining"].as_u64()), (Some(0), Some(true), Some(0)));
}
