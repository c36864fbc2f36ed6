//! Whether records are kept as often as promised, in plain words.
//!
//! The page says the same in `ui/src/nodes/copies.ts`.

use serde_json::{Map, Value};

use super::{RATE, cell, text};
use crate::print::{human_bytes, human_seconds};

/// A line for each thing that concerns all nodes.
pub(super) fn lines(cluster: &Value) -> Vec<String> {
    let Some(copies) = cluster.get("copies") else { return Vec::new() };
    let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (wanted, lost) = (number(cluster, "replication_factor"), number(copies, "lost_stores"));
    let mut lines = Vec::new();
    if wanted > 1 && lost >= wanted {
        lines.push(format!(
            "{lost} stores are lost at once, and there are {wanted} copies of each record: some records may be nowhere until \
             one is back; 'bucksaw forget' those that are gone for good"
        ));
    }
    let (bytes, records) = (number(copies, "short_bytes"), number(copies, "missing_records"));
    if bytes > 0 || records > 0 {
        lines.push(format!(
            "about {} are kept by fewer than {wanted} stores{}",
            human_bytes(bytes),
            progress(copies).unwrap_or_default()
        ));
    }
    lines
}

/// How far it has come, and what is still to be done, as it goes on after what is missing.
fn progress(copies: &Value) -> Option<String> {
    let done = copies.get("progress").and_then(Value::as_f64)?;
    let speed = copies.get("bytes_per_second").map(|speed| cell(RATE, speed)).unwrap_or_default();
    let left = copies.get("left_seconds").and_then(Value::as_f64);
    Some(match left {
        Some(left) => format!(": {} looked through at {speed}, about {} left", percent(done), human_seconds(left)),
        None if done > 0.0 => format!(": {} looked through", percent(done)),
        None => ": restoring begins when a store has been gone for a minute".to_owned(),
    })
}

/// How far a store has come with looking for copies that are missing.
pub(super) fn percent(done: f64) -> String {
    format!("{:.0}%", done * 100.0)
}

/// What stops a node from restoring copies, as it goes on after its name.
pub(super) fn repair_blocker(node: &Map<String, Value>) -> Option<String> {
    Some(match text(node, "repair_hindered_by")? {
        "too_few_stores" => "cannot restore copies: there are too few stores that take them".to_owned(),
        "no_room" => "cannot restore copies: no other store has room for them".to_owned(),
        "silent" => {
            let store = text(node, "repair_hindered_by_store").unwrap_or_default();
            format!("cannot look for missing copies: the store {store} does not tell what it has")
        }
        "not_taken" => "cannot restore copies: other stores do not take them; its log says why".to_owned(),
        "unreadable" => "cannot restore copies: it cannot read what it has; its log says why".to_owned(),
        // That a store is gone is said of that store.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_short_is_a_line() {
        let check = |copies: Value, want: &[&str]| {
            assert_eq!(lines(&json!({"replication_factor": 2, "copies": copies})), want);
        };
        check(json!({"kept": true, "short_bytes": 0, "missing_records": 0, "lost_stores": 0}), &[]);
        // The daily pass.
        check(json!({"short_bytes": 0, "progress": 0.5, "bytes_per_second": 1024, "left_seconds": 60}), &[]);
        check(
            json!({"short_bytes": 8_u64 << 30, "progress": 0.43, "bytes_per_second": 30 << 20, "left_seconds": 1_200}),
            &["about 8.0 GB are kept by fewer than 2 stores: 43% looked through at 30.0 MB/s, about 20m left"],
        );
        check(
            json!({"short_bytes": 1024, "progress": 0.0, "bytes_per_second": 0, "left_seconds": null}),
            &["about 1.0 KB are kept by fewer than 2 stores: restoring begins when a store has been gone for a minute"],
        );
        check(
            json!({"short_bytes": 1024, "progress": 0.2, "bytes_per_second": 0, "left_seconds": null}),
            &["about 1.0 KB are kept by fewer than 2 stores: 20% looked through"],
        );
        check(
            json!({"short_bytes": 7, "missing_records": 1, "lost_stores": 2}),
            &[
                "2 stores are lost at once, and there are 2 copies of each record: some records may be nowhere until one is \
                 back; 'bucksaw forget' those that are gone for good",
                "about 7 B are kept by fewer than 2 stores",
            ],
        );
        assert_eq!(lines(&json!({"nodes": []})), [""; 0]);
    }

    #[test]
    fn what_stops_it_is_told_of_the_node() {
        let check = |why: &str, want: Option<&str>| {
            let node = json!({"repair_hindered_by": why, "repair_hindered_by_store": "s"});
            assert_eq!(repair_blocker(node.as_object().unwrap()).as_deref(), want, "{why}");
        };
        check("silent", Some("cannot look for missing copies: the store s does not tell what it has"));
        check("awaited", None);
        check("of a later version", None);
        for why in ["too_few_stores", "no_room", "not_taken", "unreadable"] {
            let node = json!({"repair_hindered_by": why});
            assert!(repair_blocker(node.as_object().unwrap()).unwrap().starts_with("cannot restore copies: "), "{why}");
        }
    }
}
