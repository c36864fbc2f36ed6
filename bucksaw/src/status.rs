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

/// What is shown of every node, in this order; whatever else a node tells comes behind it.
const FIRST: [&str; 5] = ["id", "addresses", "roles", "state", "queue"];

/// Show the cluster as the asked node sees it
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    /// Node to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    addr: NodeUrl,

    /// How it is printed: text is a table, raw and json are what the node sent
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

/// A table of the nodes, and below it what the answer says besides.
fn shown(cluster: &Value) -> String {
    let nodes = cluster.get("nodes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<(String, String)>> =
        nodes.iter().filter_map(Value::as_object).map(|node| row(node, &FIRST)).collect();
    let mut table = Table::default();
    rows.into_iter().for_each(|row| table.push(row));
    let mut text = table.to_string();
    let mut rest = cluster.as_object().cloned().unwrap_or_default();
    rest.remove("nodes");
    for (name, value) in row(&rest, &[]) {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text
}

/// Names and values for people. An object's members come as columns of their own, but for addresses.
fn row(node: &Map<String, Value>, first: &[&str]) -> Vec<(String, String)> {
    let mut keys: Vec<&String> = node.keys().collect();
    keys.sort_by_key(|key| first.iter().position(|name| key.starts_with(name)).unwrap_or(first.len()));
    let mut row = Vec::new();
    for (key, value) in keys.into_iter().filter_map(|key| node.get(key).map(|value| (key, value))) {
        match value {
            Value::Object(members) if key != "addresses" => {
                row.extend(members.iter().map(|(name, value)| cell(&format!("{key}_{name}"), value)));
            }
            value => row.push(cell(key, value)),
        }
    }
    row
}

/// One name and value; the unit moves from the name into the value.
fn cell(key: &str, value: &Value) -> (String, String) {
    let whole = value.as_u64();
    let (name, text) = match (key.strip_suffix("_bytes"), whole, key.strip_suffix("_seconds"), value.as_f64()) {
        (Some(name), Some(size), ..) => (name, human_bytes(size)),
        (_, _, Some(name), Some(seconds)) => (name, human_seconds(seconds)),
        _ => (key, plain(value)),
    };
    (name.replace('_', " "), text)
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
                    "damaged": 0, "disk": {"free_bytes": 2_u64 << 30}, "id": "n1", "roles": ["ingest", "store"],
                    "addresses": {"http": "a:1", "fast": "a:2"}, "state": "ready", "queue_bytes": 1536,
                    "queue_oldest_seconds": 90.0,
                },
                {"id": "node2", "state": "joining", "damaged": 12},
            ], "replication_factor": 2, "under_replicated_bytes": 0}),
            &[
                "ID     ADDRESSES          ROLES         STATE    QUEUE   QUEUE OLDEST  DAMAGED  DISK FREE",
                "n1     fast=a:2 http=a:1  ingest,store  ready    1.5 KB  2m            0        2.0 GB",
                "node2  -                  -             joining  -       -             12       -",
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
