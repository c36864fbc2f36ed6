//! `bucksaw status`: problems of the cluster, a table of its nodes, and one of the agents, as the queried node sees them.

mod agents;
mod fields;
mod head_room;
mod health;
mod pipeline;
mod replication;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value};

use crate::args::{DocumentFormat, NodeArgs};
use crate::exit::Exit;
use crate::interrupt;
use crate::node_client::{self, NodeClient};
use crate::print::{Out, human_bytes};
use crate::text_table::TextTable;
use fields::{NodeFields, cell, number, plain_text, shown, text, title};

/// Columns of the table and the keys they show. A column without any value is omitted. A full table is at most 120
/// characters wide; `-o json` has the other fields.
const COLUMNS: [(&str, &str); 12] = [
    ("host", "host"),
    ("id", "id"),
    ("state", STATE_KEY),
    ("roles", "roles"),
    ("load", "load_level"),
    ("in", "load_bytes_per_second"),
    ("backlog", "queue_pending_bytes"),
    ("stored", "store_stored_bytes"),
    ("repair", "repair_progress"),
    ("disk free", "disk_free_bytes"),
    ("up", "uptime_seconds"),
    ("http", "addresses_http"),
];

/// Key under which [`flatten_fields`] adds [`health::node_state`].
const STATE_KEY: &str = "node_state";

/// Keys of the answer that the summary and the problems cover; other keys are printed below the table.
const CLUSTER_KEYS: [&str; 8] = [
    "nodes",
    "queried_node",
    "replication_factor",
    "stores_alive",
    "stores_missing",
    "replication",
    "protocol",
    "incompatible_peers",
];

/// Show the cluster as the queried node sees it
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// Output format: text is a summary and tables, json is the complete answer of the node, with its agents
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text", hide_possible_values = true)]
    output: DocumentFormat,

    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let runtime = node_client::runtime()?;
    let client = NodeClient::new(&args.node)?;
    let answer = runtime.block_on(client.get("/api/v1/cluster"))?;
    let cluster: Value = serde_json::from_slice(&answer)
        .with_context(|| format!("cannot parse the answer of {}: is it a bucksaw node?", args.node.addr))?;
    // An older node does not know the call.
    let agents = runtime.block_on(client.get_json("/api/v1/agents")).ok();
    let text = match args.output {
        DocumentFormat::Text => render(&cluster) + &agents.as_ref().map(agents::table).unwrap_or_default(),
        _ => format!("{}\n", with_agents(cluster, agents)),
    };
    let mut out = Out::stdout()?;
    out.write_sanitised(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Done)
}

/// The answer for a cluster, with that for its agents under `agents`.
fn with_agents(mut cluster: Value, agents: Option<Value>) -> Value {
    if let (Some(fields), Some(agents)) = (cluster.as_object_mut(), agents) {
        fields.insert("agents".to_owned(), agents);
    }
    cluster
}

/// Summary and problems, the table of nodes, damaged files, trash, and any other field of the answer.
fn render(cluster: &Value) -> String {
    let nodes = cluster.get("nodes").and_then(Value::as_array).into_iter().flatten();
    let mut nodes: Vec<NodeFields> = nodes.filter_map(Value::as_object).map(flatten_fields).collect();
    nodes.sort_by_cached_key(|node| (health::rank(node), shown(node, "id")));
    let mut text = health::lines(cluster, &nodes).concat();
    let columns: Vec<_> = COLUMNS.iter().filter(|(_, key)| nodes.iter().any(|node| node.contains_key(*key))).collect();
    let mut table = TextTable::new(columns.iter().map(|(name, _)| *name).collect());
    for node in &nodes {
        table.push(columns.iter().map(|(_, key)| node.get(*key).map(|value| cell(key, value))).collect());
    }
    text.push_str(&table.to_string());
    for node in &nodes {
        for damage in node.get("damaged").and_then(Value::as_array).into_iter().flatten() {
            text.push_str(&format!("damaged on {}: {}\n", shown(node, "id"), plain_text(damage)));
        }
    }
    text.extend(nodes.iter().filter_map(trash));
    text.extend(nodes.iter().flat_map(pipeline::lines));
    let fields = cluster.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| !CLUSTER_KEYS.contains(&key.as_str())) {
        text.push_str(&format!("{}: {}\n", title(key), cell(key, value)));
    }
    text
}

/// One line about the trash of a node; `None` if it is empty.
fn trash(node: &NodeFields) -> Option<String> {
    let segments = number(node, "trash_segments");
    (segments > 0).then(|| {
        format!(
            "trash on {}: {segments} segments, {} records, {}, from {} to {}; not in answers, deleted after --trash-age\n",
            shown(node, "id"),
            number(node, "trash_records"),
            human_bytes(number(node, "trash_bytes")),
            text(node, "trash_oldest").unwrap_or("?"),
            text(node, "trash_newest").unwrap_or("?"),
        )
    })
}

/// The flattened fields of a node, and [`STATE_KEY`].
fn flatten_fields(node: &Map<String, Value>) -> NodeFields {
    let mut flat = NodeFields::new();
    for (key, value) in node {
        if let Value::Object(fields) = value {
            flat.extend(fields.iter().map(|(name, value)| (format!("{key}_{name}"), value.clone())));
        } else {
            flat.insert(key.clone(), value.clone());
        }
    }
    if let Some(state) = health::node_state(&flat) {
        flat.insert(STATE_KEY.to_owned(), state.into());
    }
    flat
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn render_prints_problems_nodes_and_other_fields() {
        let check = |cluster: Value, want: &[&str]| {
            let shown = render(&cluster);
            let lines: Vec<&str> = shown.lines().collect();
            assert_eq!(lines, want);
        };
        check(
            json!({"nodes": [
                {
                    "damaged": ["a.seg: torn"], "disk_free_bytes": 2_u64 << 30, "id": "n1", "roles": ["ingest", "store"],
                    "addresses": {"http": "a:1", "fast": "a:2"}, "state": "ready", "new": 1, "uptime_seconds": 90,
                    "queue": {"pending_bytes": 1536}, "load": {"bytes_per_second": 2048}, "store": {"stored_bytes": 7},
                },
                {"id": "node2", "state": "joining", "damaged": []},
            ], "new_bytes": 0}),
            &[
                "2 nodes, 1 problem:",
                "- n1 (a:1) has damaged files: answers over their time are partial; see 'bucksaw verify'",
                "ID     STATE    ROLES         IN        BACKLOG  STORED  DISK FREE  UP  HTTP",
                "n1     ready    ingest,store  2.0 KB/s  1.5 KB   7 B     2.0 GB     2m  a:1",
                "node2  joining  -             -         -        -       -          -   -",
                "damaged on n1: a.seg: torn",
                "new: 0 B",
            ],
        );
        check(json!({}), &[]);
        check(json!({"nodes": []}), &[]);
        check(json!({"nodes": [1, {"id": "a\nb"}], "x": null}), &["1 node, all well", "ID", "a b", "x: -"]);
        check(json!([1]), &[]);
    }

    #[test]
    fn agents_are_a_part_of_the_json() {
        let found = with_agents(json!({"nodes": []}), Some(json!({"agents": [], "count": 0})));
        assert_eq!(found, json!({"nodes": [], "agents": {"agents": [], "count": 0}}));
        assert_eq!(with_agents(json!({"nodes": []}), None), json!({"nodes": []}));
    }

    #[test]
    fn nodes_are_named_by_their_host_where_it_is_known() {
        let shown = render(&json!({"nodes": [
            {"id": "n1", "host": "logs-1", "state": "stopping", "addresses": {"http": "10.0.0.1:7650"}},
            {"id": "n2", "state": "stopping", "addresses": {"http": "10.0.0.2:7650"}},
        ]}));
        let lines: Vec<&str> = shown.lines().skip(1).collect();
        assert_eq!(lines[..2], ["- logs-1 (n1, 10.0.0.1:7650) is stopping", "- n2 (10.0.0.2:7650) is stopping"]);
        assert!(lines[3].starts_with("logs-1  n1") && lines[4].starts_with("-       n2"), "{shown}");
    }

    #[test]
    fn nodes_with_problems_come_first() {
        let node =
            |id: &str, membership: &str, state: &str| json!({"id": id, "membership": membership, "state": state});
        let cluster = json!({
            "nodes": [
                node("a", "left", "left"),
                node("b", "alive", "ready"),
                node("c", "alive", "unresponsive"),
                node("d", "down", "down"),
            ],
            "queried_node": "b", "replication_factor": 2, "stores_alive": 2, "stores_missing": 0,
        });
        let shown = render(&cluster);
        let rows: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("ID")).collect();
        assert_eq!(rows, ["ID  STATE", "c   unresponsive", "d   down", "b   ready", "a   left"]);
    }

    #[test]
    fn a_typical_table_fits_into_120_columns() {
        let node = json!({
            "id": "01KAN5V1ZZZZZZZZZZZZZZZZZZ", "membership": "alive", "state": "disk full", "roles": ["ingest", "store"],
            "load": {"bytes_per_second": 123_u64 << 20}, "queue": {"pending_bytes": 1_000_u64 << 20},
            "store": {"stored_bytes": 1_000_u64 << 30}, "disk_free_bytes": 1_000_u64 << 30, "uptime_seconds": 8_640_000,
            "addresses": {"http": "10.0.0.1:7650", "fast": "10.0.0.1:7651"},
        });
        let shown = render(&json!({"nodes": [node]}));
        let rows: Vec<usize> = shown.lines().skip(2).map(|line| line.chars().count()).collect();
        assert!(rows.len() == 2 && rows.iter().all(|row| *row <= 120), "{rows:?}\n{shown}");
    }
}
