//! Nodes on copies of a data directory.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{flags, flags_and, id, members, start};
use crate::node::TestServer;
use crate::wait::{wait_for, wait_until};

/// Copies a directory recursively.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if let Err(error) = fs::copy(entry.path(), &target) {
            // The running node removes files.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }
}

fn signal(node: &TestServer, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(node.pid()).unwrap()).unwrap(), signal).unwrap();
}

/// Whether the member file of a node has the others.
fn sees_alive(node: &TestServer, others: &[TestServer]) -> bool {
    let list = fs::read_to_string(node.dir().join("members.json")).unwrap_or_default();
    others.iter().all(|other| list.contains(other.address("cluster")))
}

fn counted(node: &TestServer) -> (Value, String) {
    let counted = node.get("/api/v1/count?from=30d").expect(200).json();
    (counted["stats"]["partial"].clone(), counted["stats"]["partial_reasons"].to_string())
}

#[test]
fn a_copy_of_a_running_node_is_refused() {
    let nodes = start(3);
    nodes[2].post("/api/v1/ingest", &[], b"one\n").expect(200);
    wait_until("the member file is written", || sees_alive(&nodes[2], &nodes[..2]));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("copy");
    copy(nodes[2].dir(), &dir);
    for join in [&["--join", nodes[0].address("cluster")][..], &[]] {
        let Err((status, log)) = TestServer::try_start_in(&dir, &flags_and(&flags(), join)) else { panic!("it runs") };
        let node = id(&nodes[2]);
        let said = format!("node {node} already runs at {}: ", nodes[2].address("cluster"));
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(&said) && log.contains(&format!("move {}/node.json away", dir.display())), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    }
    for node in &nodes {
        assert_eq!((node.count("one"), members(node, "alive")), (1, 3), "the others have not noticed");
    }
    // As the message says: with its own id it is a normal node.
    fs::remove_file(dir.join("node.json")).unwrap();
    let fourth = TestServer::start_in(&dir, &flags_and(&flags(), &["--join", nodes[0].address("cluster")]));
    wait_until("all are members", || nodes.iter().chain([&fourth]).all(|node| members(node, "alive") == 4));
    wait_until("the record is counted once", || nodes.iter().chain([&fourth]).all(|node| node.count("one") == 1));
}

#[test]
fn no_answer_is_complete_while_a_node_runs_twice() {
    let nodes = start(3);
    let [first, second, third] = &nodes[..] else { unreachable!() };
    wait_until("the member file is written", || sees_alive(third, &nodes[..2]));
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("copy");
    copy(third.dir(), &dir);
    // Like a machine whose image is being taken: it is paused and answers no probe.
    signal(third, Signal::STOP);
    let copy = TestServer::start_in(&dir, &flags_and(&flags(), &["--join", first.address("cluster")]));
    signal(third, Signal::CONT);
    copy.post("/api/v1/ingest", &[], b"one\n").expect(200);
    third.post("/api/v1/ingest", &[], b"other\n").expect(200);
    let node = id(third);
    for asked in [first, second, third, &copy] {
        let words = format!("node {node} is used by two processes, at ");
        wait_until("answers name both addresses", || counted(asked).1.contains(&words));
        let (partial, reasons) = counted(asked);
        assert_eq!(partial, true, "{reasons}");
        for one in [third, &copy] {
            assert!(reasons.contains(one.address("cluster")), "{reasons}");
        }
        wait_until("the alert fires", || (asked.metric("bucksaw_cluster_duplicate_ids") - 1.0).abs() < f64::EPSILON);
    }
    let line = wait_for("status reports it", || {
        let said = String::from_utf8(first.cli(&["status"]).stdout).unwrap();
        said.contains("has the same node id as").then_some(said)
    });
    assert!(line.contains(&node), "{line}");
    drop(copy);
    wait_until("one node remains, and answers are complete", || {
        [first, second, third].iter().all(|node| counted(node).0 == false)
    });
}

#[test]
fn a_moved_node_is_no_duplicate() {
    let mut nodes = start(3);
    nodes[2].post("/api/v1/ingest", &[], b"one\n").expect(200);
    // It has another port, and for a while the other members have the old one.
    for _ in 0..2 {
        nodes[2].restart();
        wait_until("answers are complete", || {
            nodes.iter().all(|node| counted(node).0 == false && node.count("one") == 1)
        });
        assert!(nodes.iter().all(|node| members(node, "alive") == 3));
    }
}
