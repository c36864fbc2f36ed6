//! Balancing of clients between nodes.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

/// A cluster of three nodes; `first` are further arguments of the first one.
fn cluster(first: &[&str], all: &[&str]) -> [TestServer; 3] {
    let first = TestServer::start(&[first, all].concat());
    let join = first.address("cluster").to_owned();
    let more = || TestServer::start(&[&["--join", &join], all].concat());
    let nodes = [first, more(), more()];
    for node in &nodes {
        wait_until("all are members", || {
            let cluster = node.get("/api/v1/cluster").expect(200).json();
            // Only a node that answers reports its load.
            let answers = |node: &Value| node["uptime_seconds"].is_u64();
            cluster["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3 && nodes.iter().all(answers))
        });
    }
    nodes
}

/// The load that a node reports.
fn load(node: &TestServer) -> Value {
    let cluster = node.get("/api/v1/cluster").expect(200).json();
    let nodes = cluster["nodes"].as_array().unwrap();
    let own = nodes.iter().find(|node| node["id"] == cluster["queried_node"]).unwrap();
    own["load"].clone()
}

fn sent(node: &TestServer, kind: &str) -> f64 {
    node.metric(&format!("bucksaw_steering_redirected_total{{kind=\"{kind}\"}}"))
}

/// The number of bytes that a node has accepted.
fn accepted(node: &TestServer) -> f64 {
    node.metric("bucksaw_ingest_bytes_total")
}

/// The records of all nodes by id, without duplicates.
fn records(nodes: &[TestServer]) -> BTreeMap<String, String> {
    let mut records = BTreeMap::new();
    for node in nodes {
        for object in node.get("/api/v1/query?q=&from=1h").expect(200).objects() {
            if let Some(id) = object["id"].as_str() {
                let line = object["line"].as_str().unwrap().to_owned();
                let before = records.insert(id.to_owned(), line.clone());
                assert!(before.is_none_or(|before| before == line), "one id, two records");
            }
        }
    }
    records
}

/// Writes numbered lines until `stop` is set; returns their number.
fn feed(mut pipe: ChildStdin, name: usize, stop: Arc<AtomicBool>) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let lines: String =
                (count..count + 5).map(|number| format!("{name} {number} {}\n", "x".repeat(100))).collect();
            pipe.write_all(lines.as_bytes()).unwrap();
            count += 5;
            thread::sleep(Duration::from_millis(100));
        }
        count
    })
}

#[test]
fn a_busy_node_redirects_its_forwarders_and_no_record_is_lost_or_duplicated() {
    let mut nodes = cluster(&[], &["--busy-bytes-per-second", "4000"]);
    let first = nodes[0].address("fast").to_owned();
    let stop = Arc::new(AtomicBool::new(false));
    let mut agents = Vec::new();
    let start = |agents: &mut Vec<(ChildProcess, JoinHandle<usize>)>| {
        // They have the address of one node only.
        let mut forward = ChildProcess::start(&mut bucksaw(["forward", "--to", &first]));
        let feeding = feed(forward.input.take().unwrap(), agents.len(), Arc::clone(&stop));
        agents.push((forward, feeding));
    };
    for _ in 0..6 {
        start(&mut agents);
    }
    wait_until("the node is overloaded and may refuse", || {
        let load = load(&nodes[0]);
        load["level"] == 2 && load["refusing"] == true
    });
    // A new client is refused with a redirect, and HTTP replies name other nodes.
    start(&mut agents);
    wait_until("the new client is refused", || sent(&nodes[0], "refused") > 0.0);
    let answer = nodes[0].post("/api/v1/ingest", &[], b"http\n").expect(200);
    let others = answer.header("bucksaw-redirect").unwrap().to_owned();
    assert!(others.split(',').all(|other| nodes[1..].iter().any(|node| node.address("http") == other)), "{others}");
    // The refusal quota of three nodes is one.
    assert!(nodes[1..].iter().all(|node| load(node)["refusing"] == false));
    wait_until("the other nodes have their share", || {
        let connections = nodes.each_ref().map(|node| load(node)["connections"].as_u64().unwrap());
        connections.iter().sum::<u64>() == 7 && connections[0] <= 3 && connections[1] > 0 && connections[2] > 0
    });
    // Three of seven clients are slightly more than its share, which may keep the node busy.
    wait_until("the node accepts clients", || {
        let load = load(&nodes[0]);
        load["level"].as_u64() <= Some(1) && load["refusing"] == false
    });
    assert!(nodes.iter().all(|node| accepted(node) > 0.0));
    assert!(sent(&nodes[0], "suggested") > 0.0 && sent(&nodes[0], "disconnected") == 0.0);
    let table = String::from_utf8(nodes[0].cli(&["status"]).stdout).unwrap();
    assert!(table.lines().any(|heads| heads.starts_with("HOST ") && heads.contains(" LOAD ")), "{table}");

    // The first node stops and redirects its clients.
    let before = nodes[1..].iter().map(accepted).sum::<f64>();
    assert!(nodes[0].terminate().success());
    wait_until("the other nodes have the whole load", || {
        nodes[1..].iter().map(|node| load(node)["connections"].as_u64().unwrap()).sum::<u64>() == 7
    });
    wait_until("further records arrive", || nodes[1..].iter().map(accepted).sum::<f64>() > before + 10_000.0);
    stop.store(true, Ordering::Relaxed);
    let mut want = vec!["http".to_owned()];
    for (name, (forward, feeding)) in agents.into_iter().enumerate() {
        let count = feeding.join().unwrap();
        want.extend((0..count).map(|number| format!("{name} {number} {}", "x".repeat(100))));
        let (status, _, said) = forward.wait_with_output();
        assert!(status.success() && !said.contains("WARN"), "{said}");
    }
    nodes[0].restart();
    let mut have: Vec<String> = records(&nodes).into_values().collect();
    have.sort();
    want.sort();
    assert!(have == want, "{} of {} records", have.len(), want.len());
}

#[test]
fn a_joining_node_gets_its_share_of_the_clients() {
    // The load is below the busy rate and above a 64th of it.
    let all = ["--busy-bytes-per-second", "640000"];
    let first = TestServer::start(&all);
    let stop = Arc::new(AtomicBool::new(false));
    let agents: Vec<(ChildProcess, JoinHandle<usize>)> = (0..6)
        .map(|name| {
            let mut forward = ChildProcess::start(&mut bucksaw(["forward", "--to", first.address("fast")]));
            let feeding = feed(forward.input.take().unwrap(), name, Arc::clone(&stop));
            (forward, feeding)
        })
        .collect();
    wait_until("all are connected", || load(&first)["connections"] == 6);
    let nodes = [TestServer::start(&[&["--join", first.address("cluster")], &all[..]].concat()), first];
    let mut named = 0;
    wait_until("it has its share", || {
        let answer = nodes[1].post("/api/v1/ingest", &[], b"http\n").expect(200);
        if let Some(others) = answer.header("bucksaw-redirect") {
            assert_eq!(others, nodes[0].address("http"));
            named += 1;
        }
        load(&nodes[0])["connections"].as_u64() >= Some(2)
    });
    assert!((1..50).contains(&named), "{named} answers named it");
    assert!(nodes.iter().all(|node| load(node)["level"] == 0));
    stop.store(true, Ordering::Relaxed);
    let mut want = Vec::new();
    for (name, (forward, feeding)) in agents.into_iter().enumerate() {
        let count = feeding.join().unwrap();
        want.extend((0..count).map(|number| format!("{name} {number} {}", "x".repeat(100))));
        let (status, _, said) = forward.wait_with_output();
        assert!(status.success() && !said.contains("WARN"), "{said}");
    }
    let mut have: Vec<String> = records(&nodes).into_values().filter(|line| line != "http").collect();
    have.sort();
    want.sort();
    assert!(have == want, "{} of {} records", have.len(), want.len());
}

#[test]
fn an_overloaded_node_refuses_clients_that_can_be_redirected() {
    // Its disk is full from the start.
    let nodes = cluster(&["--min-free-bytes", "1000000G"], &[]);
    wait_until("the node may refuse", || {
        let load = load(&nodes[0]);
        load["level"] == 3 && load["refusing"] == true
    });
    let answer = nodes[0].post("/api/v1/ingest", &[], b"http\n").expect(503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(answer.header("bucksaw-redirect").is_some_and(|others| others.split(',').count() == 2), "{answer:?}");
    // Connections for lines are closed: their protocol has no redirect.
    let mut lines = nodes[0].connect("fast");
    lines.write_all(b"a line without a receiver\n").unwrap();
    assert!(lines.read(&mut [0]).map_or(true, |count| count == 0));
    let output = nodes[0].forward("durable", &[], b"one\ntwo\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(accepted(&nodes[0]), 0.0);
    let have: Vec<String> = records(&nodes[1..]).into_values().collect();
    assert_eq!(have, ["one", "two"]);
}
