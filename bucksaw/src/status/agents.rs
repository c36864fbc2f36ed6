//! The agents that report to the nodes, as a table.

use serde_json::Value;

use super::fields::{cell, number, plain_text, text};
use crate::text_table::TextTable;

/// Columns of the table and the keys that they show.
const COLUMNS: [(&str, &str); 10] = [
    ("agent", "host"),
    ("version", "version"),
    ("files", "files"),
    ("unreadable", "unreadable_files"),
    ("lag", "lag_bytes"),
    ("waits", "lag_seconds"),
    ("buffer", "buffer_bytes"),
    ("gaps", "gaps"),
    ("dropped", "dropped_records"),
    ("seen", "seen_seconds"),
];

/// The table, behind an empty line; empty if there are no agents. Nodes whose agents are missing are named below.
pub(super) fn table(answer: &Value) -> String {
    let agents: Vec<_> = answer["agents"].as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let silent: Vec<_> = answer["unresponsive_nodes"].as_array().into_iter().flatten().map(plain_text).collect();
    let missing = match silent.is_empty() {
        true => String::new(),
        false => format!("without the agents of nodes that did not answer: {}\n", silent.join(", ")),
    };
    if agents.is_empty() {
        return missing;
    }
    let mut table = TextTable::new(COLUMNS.iter().map(|(name, _)| *name).collect());
    for agent in &agents {
        let row = COLUMNS.iter().map(|(name, key)| match *name {
            "agent" if text(agent, key).is_none_or(str::is_empty) => {
                text(agent, "id").map(|id| id.chars().take(12).collect())
            }
            "waits" if number(agent, "lag_bytes") == 0 => None,
            "seen" if agent.get("connected") == Some(&Value::Bool(true)) => Some("now".to_owned()),
            "seen" => agent.get(*key).map(|value| format!("{} ago", cell(key, value))),
            _ => agent.get(*key).map(|value| cell(key, value)),
        });
        table.push(row.collect());
    }
    let mut shown = format!("\n{table}");
    let left_out = answer["count"].as_u64().unwrap_or_default().saturating_sub(agents.len() as u64);
    if left_out > 0 {
        shown.push_str(&format!("{left_out} more agents without problems are not listed\n"));
    }
    shown + &missing
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_are_a_table() {
        assert_eq!(table(&json!({"agents": []})), "");
        assert_eq!(table(&json!({"error": "no such path"})), "");
        let silent = json!({"agents": [], "unresponsive_nodes": ["n2", "n3"]});
        assert_eq!(table(&silent), "without the agents of nodes that did not answer: n2, n3\n");
        let answer = json!({"count": 5, "unresponsive_nodes": ["n4"], "agents": [
            {"id": "0123456789abcdef", "host": "web-1", "version": "0.1.0", "files": 3, "unreadable_files": 0, "lag_bytes": 2048,
                "lag_seconds": 1.5, "buffer_bytes": 0, "gaps": 1, "dropped_records": 0, "seen_seconds": 2.0, "connected": true},
            {"id": "0123456789abcdef", "host": "", "lag_bytes": 0, "lag_seconds": 0.0, "seen_seconds": 61.0, "connected": false},
        ]});
        let shown = table(&answer);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "",
                "AGENT         VERSION  FILES  UNREADABLE  LAG     WAITS  BUFFER  GAPS  DROPPED  SEEN",
                "web-1         0.1.0    3      0           2.0 KB  1.5 s  0 B     1     0        now",
                "0123456789ab  -        -      -           0 B     -      -       -     -        1m ago",
                "3 more agents without problems are not listed",
                "without the agents of nodes that did not answer: n4",
            ]
        );
    }
}
