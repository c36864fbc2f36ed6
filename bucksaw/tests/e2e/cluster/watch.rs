//! A lost node as reported by tails and by the replication status.

use serde_json::Value;

use super::{id, members, start, status};
use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw};
use crate::wait::{wait_for, wait_until};

fn copies(node: &TestServer) -> Value {
    node.get("/api/v1/cluster").expect(200).json()["replication"].clone()
}

#[test]
fn a_tail_reports_lost_nodes() {
    let mut nodes = start(2);
    let [first, second] = &mut nodes[..] else { unreachable!() };
    let follow = |node: &TestServer| ChildProcess::start(&mut bucksaw(["tail", "--addr", &node.url(), "-m", "1"]));
    let followed = |node: &TestServer, clients: f64| {
        wait_until("the tail is connected", || (node.metric("bucksaw_query_tails") - clients).abs() < f64::EPSILON);
    };
    let mut tail = follow(first);
    followed(second, 1.0);
    let lost = format!("bucksaw: node {} ", second.address("cluster"));
    second.kill();
    let said = tail.stderr_line();
    assert!(said.starts_with(&lost) && said.ends_with("its records are not followed until it returns"), "{said}");
    wait_until("it is down", || members(first, "down") == 1);
    // A new tail reports it, too.
    let mut late = follow(first);
    let said = late.stderr_line();
    assert!(said.starts_with(&lost) && said.contains(" is down: "), "{said}");
    second.restart();
    assert!(
        tail.stderr_line().ends_with(" is followed from now on")
            && late.stderr_line().ends_with(" is followed from now on")
    );
    second.post("/api/v1/ingest", &[], b"one\n").expect(200);
    for tail in [tail, late] {
        let (exit, out, said) = tail.wait_with_output();
        assert_eq!((exit.code(), &*out, &*said), (Some(0), "one\n", ""));
    }
}

/// The bytes per second that a node has published.
fn published_rate(asked: &TestServer, of: &str) -> f64 {
    let cluster = asked.get("/api/v1/cluster").expect(200).json();
    let node = cluster["nodes"].as_array().unwrap().iter().find(|node| node["id"] == of).unwrap();
    node["load"]["bytes_per_second"].as_f64().unwrap()
}

#[test]
fn under_replicated_records_are_reported() {
    let mut nodes = start(3);
    let text: String = (0..2_000).map(|number| format!("record {number} of a cluster that loses a store\n")).collect();
    // Each batch becomes a segment, and of twenty every store has some.
    for _ in 0..20 {
        nodes[2].post("/api/v1/ingest?durability=bulk", &[], text.as_bytes()).expect(200);
    }
    let [first, _, third] = &mut nodes[..] else { unreachable!() };
    let replication = wait_for("everything is replicated", || {
        Some(copies(first)).filter(|copies| copies["fully_replicated"] == true)
    });
    assert_eq!(
        (&replication["under_replicated_bytes"], &replication["under_replicated_records"]),
        (&0.into(), &0.into()),
        "{replication}"
    );
    let stores = first.get("/api/v1/cluster").expect(200).json();
    let repairs: Vec<&Value> = stores["nodes"].as_array().unwrap().iter().map(|node| &node["repair"]).collect();
    assert!(
        repairs.iter().all(|repair| repair["last_pass"].is_null() && repair["blocked_by"].is_null()),
        "{repairs:?}"
    );
    let gone = id(third);
    // Nodes publish their stored bytes by gossip, together with their rate, which alone is shown of a live node. A node begins
    // with a rate of 0, and with the stored bytes that it has found.
    third.kill();
    wait_until("it is down", || members(first, "down") == 1);
    third.restart();
    wait_until("it begins again", || members(first, "alive") == 3 && published_rate(first, &gone) == 0.0);
    wait_until("its rate is published", || {
        third.post("/api/v1/ingest?durability=bulk", &[], text.as_bytes()).expect(200);
        published_rate(first, &gone) > 0.0
    });
    third.kill();
    let replication =
        wait_for("the loss is reported", || Some(copies(first)).filter(|copies| copies["fully_replicated"] == false));
    assert!(replication["under_replicated_bytes"].as_u64().unwrap() > 0, "{replication}");
    wait_until("all stores report it", || {
        let is_reported = |line: &String| {
            let short = line.starts_with("- about ") && line.contains(" are on fewer than 2 stores: ");
            short && line.ends_with("repair starts when a store has been down for a minute")
        };
        status(first).iter().any(is_reported)
    });
    let cluster = first.get("/api/v1/cluster").expect(200).json();
    let asked = cluster["nodes"].as_array().unwrap().iter().find(|node| node["id"] == cluster["queried_node"]).unwrap();
    assert_eq!(asked["repair"]["absent_stores"], serde_json::json!([gone]), "{asked}");
    assert!(first.metric("bucksaw_store_repair_lost_bytes_max") > 0.0);
    // It returns within the minute, and nothing is copied.
    third.restart();
    wait_until("everything is replicated again", || {
        copies(first)["fully_replicated"] == true && members(first, "alive") == 3
    });
    assert!(first.metric("bucksaw_store_repair_restored_bytes_total") < 1.0);
    assert!((first.metric("bucksaw_store_replication_factor") - 2.0).abs() < f64::EPSILON);
    for name in ["bucksaw_net_received_bytes_total", "bucksaw_net_sent_bytes_total", "bucksaw_net_connections"] {
        assert!(first.metric(name) > 0.0, "{name}");
    }
}
