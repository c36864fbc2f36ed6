//! Cluster status, metrics, health, and the page at `/`.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::json;

use crate::node::TestServer;
use crate::wait::wait_until;

#[test]
fn a_single_node_is_its_cluster() {
    let node = TestServer::start(&["--segment-max-age", "200ms"]);
    let addresses: serde_json::Value =
        serde_json::from_slice(&std::fs::read(node.dir().join("addresses.json")).unwrap()).unwrap();
    let status = node.status();
    assert_eq!(status["addresses"], addresses);
    assert_eq!((&status["roles"], &status["state"]), (&json!(["ingest", "store"]), &json!("ready")));
    assert_eq!((&status["damaged"], status["id"].as_str().unwrap().len()), (&json!([]), 26));
    assert!(status["disk_free_bytes"].as_u64().unwrap() > 0 && status["uptime_seconds"].is_u64(), "{status}");
    assert!(!status["host"].as_str().unwrap().is_empty(), "{status}");
    assert_eq!((&status["queue"]["segments"], &status["store"]["records"]), (&json!(0), &json!(0)));
    // It is not known during the first half minute.
    assert_eq!(status.get("head_room"), Some(&json!(null)));
    let text = b"a line\n".repeat(1_000);
    node.post("/api/v1/ingest", &[], &text).expect(200);
    node.wait_stored();
    let store = &node.status()["store"];
    assert_eq!((&store["records"], &store["text_bytes"]), (&json!(1_000), &json!(7_000)));
    assert!((1..7_000).contains(&store["stored_bytes"].as_u64().unwrap()), "{store}");
    assert!(store["oldest"].as_str().unwrap() <= store["newest"].as_str().unwrap(), "{store}");
}

#[test]
fn health_and_readiness() {
    let node = TestServer::start(&[]);
    assert_eq!(node.get("/-/healthy").expect(200).text(), "healthy\n");
    assert_eq!(node.get("/-/ready").expect(200).text(), "ready\n");
    let calls = node.get("/api/v1").expect(200).text();
    for call in ["ingest", "query", "tail", "count", "histogram", "fields", "context", "cluster", "history"] {
        assert!(calls.contains(&format!("/api/v1/{call}")), "{calls}");
    }
}

#[test]
fn the_history_has_the_values_of_the_metrics() {
    let node = TestServer::start(&[]);
    let history = || node.get("/api/v1/history").expect(200).json();
    wait_until("the metrics are sampled", || history()["times"].as_array().unwrap().len() == 1);
    let first = history();
    assert_eq!(first["step_seconds"], 5);
    assert_eq!(first["series"]["bucksaw_ingest_records_total"], json!([0.0]));
    assert!(first["series"]["bucksaw_disk_free_bytes"][0].as_f64().is_some(), "{first}");
    node.post("/api/v1/ingest", &[], b"a\nb\n").expect(200);
    wait_until("they are sampled again", || history()["times"].as_array().unwrap().len() == 2);
    assert_eq!(history()["series"]["bucksaw_ingest_records_total"], json!([0.0, 2.0]));
}

/// The values of the metrics, by name with labels.
fn metrics(node: &TestServer) -> BTreeMap<String, f64> {
    let answer = node.get("/metrics").expect(200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let value = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line}: {error}")))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(value).collect()
}

#[test]
fn metrics_count_what_happened() {
    let node = TestServer::start(&["--segment-max-age", "200ms"]);
    node.post("/api/v1/ingest", &[], b"by HTTP\n").expect(200);
    node.post("/api/v1/ingest", &[("Content-Type", "application/x-ndjson")], b"{}\nno\n").expect(200);
    node.post("/api/v1/ingest?durability=durable", &[], &vec![b'x'; (1 << 20) + 1]).expect(200);
    let mut stream = node.connect("fast");
    stream.write_all(b"by TCP\nby TCP\n").unwrap();
    let mut idle = node.connect("durable");
    idle.write_all(b"by").unwrap();
    assert!(node.forward("durable", &[], b"by forward\n".repeat(3).as_slice()).status.success());
    wait_until("both lines are accepted", || node.count("\"by TCP\"") == 2);
    drop(stream);
    let counted = [
        ("ingest_records_total{source=\"http\"}", 4.0),
        ("ingest_records_total{source=\"tcp\"}", 2.0),
        ("ingest_records_total{source=\"forward\"}", 3.0),
        ("ingest_bytes_total{source=\"http\"}", 8.0 + 3.0 + f64::from((1 << 20) + 3)),
        ("ingest_bytes_total{source=\"tcp\"}", 14.0),
        ("ingest_bytes_total{source=\"forward\"}", 33.0),
        ("ingest_rejected_records_total{source=\"http\"}", 1.0),
        ("ingest_cut_records_total{source=\"http\"}", 1.0),
        ("ingest_cut_records_total{source=\"tcp\"}", 0.0),
        ("ingest_refused_appends_total", 0.0),
        ("sources_connections{listener=\"durable\"}", 1.0),
        ("sources_connections_opened_total{listener=\"durable\"}", 2.0),
        ("disk_full", 0.0),
        ("query_tails", 0.0),
        ("store_damaged", 0.0),
    ];
    let have = metrics(&node);
    for (name, want) in counted {
        assert_eq!(have.get(&format!("bucksaw_{name}")), Some(&want), "{name}");
    }
    assert_eq!(have[&format!("bucksaw_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    assert!(have["bucksaw_ingest_syncs_total"] >= 1.0 && have["bucksaw_disk_free_bytes"] > 0.0);
    for state in ["active", "pending", "reserved", "committed", "damaged"] {
        assert!(have.contains_key(&format!("bucksaw_ingest_segments{{state=\"{state}\"}}")), "{state}");
    }
    for name in
        ["ingest_pending_bytes", "ingest_oldest_pending_seconds", "store_compacted_bytes_total", "query_in_flight"]
    {
        assert!(have.contains_key(&format!("bucksaw_{name}")), "{name}");
    }
    for name in
        ["store_expired_bytes_total", "query_seconds_count", "query_scanned_bytes_total", "query_skipped_bytes_total"]
    {
        assert!(have.contains_key(&format!("bucksaw_{name}")), "{name}");
    }
    // When everything is stored, the consumed bytes equal the accepted ones.
    node.wait_stored();
    let accepted: f64 =
        have.iter().filter(|(name, _)| name.starts_with("bucksaw_ingest_bytes_total")).map(|(_, n)| n).sum();
    wait_until("the metrics follow", || metrics(&node)["bucksaw_ingest_consumed_ratio"] == 1.0);
    let have = metrics(&node);
    assert_eq!(have["bucksaw_ingest_consumed_bytes_total"], accepted);
    assert_eq!(have["bucksaw_store_gathered_bytes_total"], accepted);
    assert_eq!(have["bucksaw_store_text_bytes"], accepted);
    assert!(have["bucksaw_store_segments"] >= 1.0 && have["bucksaw_store_stored_bytes"] > 0.0);
}
