//! The metrics and the state of an agent, over HTTP.

use std::collections::BTreeSet;

use serde_json::Value;

use super::TailedDir;
use crate::client::call;
use crate::node::bucksaw;
use crate::wait::wait_until;

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/grafana/bucksaw-agents.json");
const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");
pub(crate) const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/forward.md");

impl TailedDir {
    /// The address of the agent's listener, from its log.
    pub(crate) fn listener(&mut self) -> String {
        let agent = self.agent.as_mut().unwrap();
        loop {
            let line = agent.stderr_line();
            if let Some((_, address)) = line.split_once("metrics and status address=") {
                return address.trim().to_owned();
            }
        }
    }
}

pub(crate) fn status(address: &str) -> Value {
    call(address, "GET", "/status", &[], b"").unwrap().expect(200).json()
}

pub(crate) fn metrics(address: &str) -> String {
    call(address, "GET", "/metrics", &[], b"").unwrap().expect(200).text()
}

/// The value of a series.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
}

/// The names of all series that there can be.
pub(crate) fn names(metrics: &str) -> BTreeSet<String> {
    let kinds = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let suffix = |kind| match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    kinds.map(|(name, kind)| format!("{name}{}", suffix(kind))).collect()
}

#[test]
fn an_agent_tells_its_lag_its_node_and_its_counts() {
    let mut tailed = TailedDir::new(&["--listen", "127.0.0.1:0"]);
    tailed.node.kill();
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    tailed.start_agent("*.log");
    let agent = tailed.listener();
    // No node has accepted yet.
    wait_until("the lines are read", || status(&agent)["read"]["records"] == 100);
    let waiting = status(&agent);
    let size = std::fs::metadata(tailed.logs().join("one.log")).unwrap().len();
    assert_eq!(
        [&waiting["lag"]["bytes"], &waiting["files"]["slowest"][0]["size"], &waiting["buffer"]["batches"]],
        [&Value::from(size), &Value::from(size), &Value::from(1)],
        "{waiting}"
    );
    assert!(waiting["lag"]["seconds"].as_f64().unwrap() > 0.0, "{waiting}");
    assert_eq!(
        [&waiting["files"]["slowest"][0]["acknowledged"], &waiting["node"]["address"], &waiting["is_ready"]],
        [&Value::from(0), &Value::Null, &Value::from(false)],
        "{waiting}"
    );
    let path = tailed.logs().join("one.log").display().to_string();
    let text = metrics(&agent);
    assert_eq!(value(&text, &format!("bucksaw_forward_file_lag_bytes{{path=\"{path}\"}}")), size as f64);
    assert_eq!(value(&text, "bucksaw_forward_connected"), 0.0);
    let get = |path: &str| call(&agent, "GET", path, &[], b"").unwrap();
    assert!(get("/-/ready").expect(503).text().starts_with("no node has accepted"));
    get("/-/healthy").expect(200);
    get("/nothing").expect(404);
    call(&agent, "GET", "/status", &[("host", "page.example")], b"").unwrap().expect(421);

    tailed.node.restart();
    tailed.expect(&[&one]);
    wait_until("the lines are acknowledged", || status(&agent)["lag"]["bytes"] == 0);
    get("/-/ready").expect(200);
    let text = metrics(&agent);
    let node = format!("bucksaw_forward_node{{address=\"{}\"}}", tailed.node.address("fast"));
    for (series, want) in [
        (&node[..], 1.0),
        ("bucksaw_forward_connected", 1.0),
        ("bucksaw_forward_acked_records_total", 100.0),
        ("bucksaw_forward_read_records_total", 100.0),
        ("bucksaw_forward_lag_bytes", 0.0),
        ("bucksaw_forward_lag_seconds", 0.0),
        ("bucksaw_forward_buffer_batches", 0.0),
        ("bucksaw_forward_buffer_bytes", 0.0),
        ("bucksaw_forward_dropped_records_total", 0.0),
        ("bucksaw_forward_gaps_total{reason=\"truncated\"}", 0.0),
    ] {
        assert_eq!(value(&text, series), want, "{series}");
    }
    // Acknowledged batches are on the disk until their file is removed.
    assert!(value(&text, "bucksaw_forward_buffer_disk_bytes") > 0.0);
    assert!(value(&text, "process_cpu_seconds_total") > 0.0 && value(&text, "process_resident_memory_bytes") > 1e6);
    // A line without its end waits for it, and is no lag.
    one.write(b"half a line");
    wait_until("it is read", || {
        let status = status(&agent);
        status["files"]["slowest"][0]["size"] == size + 11 && status["lag"]["bytes"] == 0
    });

    // Metrics are documented, and the dashboard uses no others.
    let names = names(&text);
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for name in &names {
        assert!(document.contains(&format!("`{name}`")), "docs/forward.md does not list {name}");
    }
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(DASHBOARD).unwrap()).unwrap();
    let mut queried = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let words =
                target["expr"].as_str().unwrap().split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            queried.extend(words.filter(|word| word.starts_with("bucksaw_") || word.starts_with("process_")));
        }
    }
    assert!(queried.len() > 15, "{queried:?}");
    let alerts = std::fs::read_to_string(ALERTS).unwrap();
    let words = alerts.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let alerting: BTreeSet<_> = words.filter(|word| word.starts_with("bucksaw_forward_")).collect();
    assert!(alerting.len() > 5, "{alerting:?}");
    for name in queried.into_iter().chain(alerting) {
        assert!(names.contains(name), "the dashboard or an alert queries {name}, which is no metric of an agent");
    }
}

#[test]
fn a_node_knows_its_agents() {
    let mut tailed = TailedDir::new(&[]);
    let mut one = tailed.writer("one.log");
    one.write_lines(100);
    let agents = |tailed: &TailedDir| tailed.node.get("/api/v1/agents").expect(200).json();
    assert_eq!(agents(&tailed), serde_json::json!({"agents": [], "count": 0, "unresponsive_nodes": []}));
    tailed.start_agent("*.log");
    // A report may fall between the count of acknowledged records and that of the lag.
    wait_until("the agent reports what was acknowledged", || {
        let agent = &agents(&tailed)["agents"][0];
        agent["acked_records"] == 100 && agent["lag_bytes"] == 0
    });
    let known = agents(&tailed);
    let agent = &known["agents"][0];
    let id = std::fs::read_to_string(tailed.home.path().join("state/agent.id")).unwrap();
    assert_eq!(agent["id"], id.trim());
    for (field, want) in [
        ("connected", Value::from(true)),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("files", 1.into()),
        ("lag_bytes", 0.into()),
        ("gaps", 0.into()),
        ("address", "127.0.0.1".into()),
    ] {
        assert_eq!(agent[field], want, "{field} of {agent}");
    }
    assert!(!agent["host"].as_str().unwrap().is_empty(), "{agent}");
    let text = tailed.node.get("/metrics").expect(200).text();
    assert_eq!((value(&text, "bucksaw_agents"), value(&text, "bucksaw_agents_lag_max_seconds")), (1.0, 0.0));
    let shown = bucksaw(["status", "--addr", tailed.node.address("http")]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("AGENT") && shown.contains(agent["host"].as_str().unwrap()), "{shown}");
    let json = bucksaw(["status", "-o", "json", "--addr", tailed.node.address("http")]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["agents"]["agents"][0]["id"], &json["agents"]["count"]), (&agent["id"], &1.into()));
    assert!(json["nodes"][0]["id"].is_string(), "{json}");
    // The same agent after a restart.
    tailed.stop_agent();
    wait_until("the end is noticed", || agents(&tailed)["agents"][0]["connected"] == false);
    tailed.start_agent("*.log");
    wait_until("it is back", || agents(&tailed)["agents"][0]["connected"] == true);
    assert_eq!((&agents(&tailed)["count"], &agents(&tailed)["agents"][0]["id"]), (&1.into(), &agent["id"]));
}
