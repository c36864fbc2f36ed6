//! `bucksaw status`: the cluster as the asked node sees it.

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value};

use crate::args::Format;
use crate::exit::Exit;
use crate::print::{Out, human_bytes, human_seconds, sanitise};
use crate::table::Table;
use crate::values::NodeUrl;
use crate::{interrupt, node};

/// The columns and the keys that they show, the first that a node has; an object's members are `object_member`. Columns
/// that no node has anything for are left out. Addresses are long, so they come last.
const COLUMNS: [(&str, &[&str]); 12] = [
    ("id", &["id"]),
    ("state", &["state"]),
    ("roles", &["roles"]),
    ("load", &["load_level"]),
    ("backlog", &["queue_pending_bytes", "queue_backlog_bytes"]),
    ("oldest", &["queue_oldest_pending_seconds"]),
    ("stored", &["store_stored_bytes", "stored_bytes"]),
    ("segments", &["store_segments", "segments"]),
    ("disk free", &["disk_free_bytes"]),
    ("damaged", &["damaged"]),
    ("up", &["uptime_seconds"]),
    ("addresses", &["addresses"]),
];

/// Show the cluster as the asked node sees it
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// Node to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    addr: NodeUrl,

    /// How it is printed: text is a table of what matters most, raw and json are all that the node sent
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text", hide_possible_values = true)]
    output: Format,
}

pub(crate) fn run(args: StatusArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let answer = node::runtime()?.block_on(node::ask(&args.addr, "/api/v1/cluster"))?;
    let mut out = Out::stdout()?;
    let text = if args.output == Format::Text {
        let cluster: Value = serde_json::from_slice(&answer)
            .with_context(|| format!("the answer of {} cannot be read: is it a bucksaw node?", args.addr))?;
        shown(&cluster).into_bytes()
    } else {
        let mut text = answer.to_vec();
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        text
    };
    if out.terminal {
        let mut harmless = Vec::with_capacity(text.len());
        sanitise(&text, &mut harmless);
        out.write(&harmless)?;
    } else {
        out.write(&text)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// A table of the nodes; below it what is damaged, and what the answer says besides.
fn shown(cluster: &Value) -> String {
    let nodes = cluster.get("nodes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let nodes: Vec<Map<String, Value>> = nodes.iter().filter_map(Value::as_object).map(flat).collect();
    let columns: Vec<_> =
        COLUMNS.iter().filter(|(_, keys)| nodes.iter().any(|node| pick(node, keys).is_some())).collect();
    let mut table = Table::new(columns.iter().map(|(name, _)| *name).collect());
    for node in &nodes {
        table.push(columns.iter().map(|(_, keys)| pick(node, keys)).collect());
    }
    let mut text = table.to_string();
    for node in &nodes {
        for damage in node.get("damaged").and_then(Value::as_array).into_iter().flatten() {
            text.push_str(&format!(
                "damaged on {}: {}\n",
                node.get("id").map_or_else(String::new, plain),
                plain(damage)
            ));
        }
    }
    for (key, value) in cluster.as_object().into_iter().flatten().filter(|(key, _)| *key != "nodes") {
        text.push_str(&format!("{}: {}\n", unitless(key).replace('_', " "), cell(key, value)));
    }
    text
}

/// The members of a node, and those of its objects as `object_member`. Addresses stay together.
fn flat(node: &Map<String, Value>) -> Map<String, Value> {
    let mut flat = Map::new();
    for (key, value) in node {
        match value {
            Value::Object(members) if key != "addresses" => {
                flat.extend(members.iter().map(|(name, value)| (format!("{key}_{name}"), value.clone())));
            }
            value => {
                flat.insert(key.clone(), value.clone());
            }
        }
    }
    flat
}

fn pick(node: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let (key, value) = keys.iter().find_map(|key| node.get(*key).map(|value| (*key, value)))?;
    match value {
        Value::Array(places) if key == "damaged" => Some(places.len().to_string()),
        value => Some(cell(key, value)),
    }
}

/// A value with the unit that its key names.
fn cell(key: &str, value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(size), _) if key.ends_with(BYTES) => human_bytes(size),
        (_, Some(seconds)) if key.ends_with(SECONDS) => human_seconds(seconds),
        _ => plain(value),
    }
}

const BYTES: &str = "_bytes";
const SECONDS: &str = "_seconds";

fn unitless(key: &str) -> &str {
    key.strip_suffix(BYTES).or_else(|| key.strip_suffix(SECONDS)).unwrap_or(key)
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => node::one_line(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Object(members) => {
            let pairs = members.iter().map(|(name, value)| format!("{name}={}", plain(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clusters_are_shown() {
        let check = |cluster: Value, want: &[&str]| {
            let shown = shown(&cluster);
            let lines: Vec<&str> = shown.lines().collect();
            assert_eq!(lines, want);
        };
        check(
            json!({"nodes": [
                {
                    "damaged": ["a.seg: torn"], "disk_free_bytes": 2_u64 << 30, "id": "n1", "roles": ["ingest", "store"],
                    "addresses": {"http": "a:1", "fast": "a:2"}, "state": "ready", "new": 1,
                    "queue": {"pending_bytes": 1536, "oldest_pending_seconds": 90.0}, "segments": 7,
                },
                {"id": "node2", "state": "joining", "damaged": 12, "store": {"segments": 3}},
            ], "replication_factor": 2, "under_replicated_bytes": 0}),
            &[
                "ID     STATE    ROLES         BACKLOG  OLDEST  SEGMENTS  DISK FREE  DAMAGED  ADDRESSES",
                "n1     ready    ingest,store  1.5 KB   2m      7         2.0 GB     1        fast=a:2 http=a:1",
                "node2  joining  -             -        -       3         -          12       -",
                "damaged on n1: a.seg: torn",
                "replication factor: 2",
                "under replicated: 0 B",
            ],
        );
        check(json!({}), &[]);
        check(json!({"nodes": []}), &[]);
        check(json!({"nodes": [1, {"id": "a\nb"}], "x": null}), &["ID", "a b", "x: -"]);
        check(json!([1]), &[]);
    }
}
