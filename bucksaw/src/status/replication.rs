//! Whether all records are fully replicated, and what blocks repair.
//!
//! The page shows the same: `ui/src/nodes/replication.ts`.

use serde_json::Value;

use super::fields::{NodeFields, RATE, cell, percent, text};
use crate::print::{human_bytes, human_seconds};

/// One line per replication problem of the whole cluster.
pub(super) fn lines(cluster: &Value) -> Vec<String> {
    let Some(replication) = cluster.get("replication") else { return Vec::new() };
    let number = |key: &str| replication[key].as_u64().unwrap_or_default();
    let (factor, lost) = (cluster["replication_factor"].as_u64().unwrap_or_default(), number("lost_stores"));
    let mut lines = Vec::new();
    if factor > 1 && lost >= factor {
        lines.push(format!(
            "{lost} stores are lost at the same time and the replication factor is {factor}: some records may have no copy \
             until one returns; 'bucksaw forget' those that will not return"
        ));
    }
    let bytes = number("under_replicated_bytes");
    if bytes > 0 || number("under_replicated_records") > 0 {
        let progress = progress(replication).unwrap_or_default();
        lines.push(format!("about {} are on fewer than {factor} stores{progress}", human_bytes(bytes)));
    }
    lines
}

/// Progress and remaining time of repair, as the end of a sentence.
fn progress(replication: &Value) -> Option<String> {
    let done = replication["progress"].as_f64()?;
    let rate = replication.get("bytes_per_second").map(|rate| cell(RATE, rate)).unwrap_or_default();
    Some(match replication["remaining_seconds"].as_f64() {
        Some(remaining) => format!(": {} compared at {rate}, about {} left", percent(done), human_seconds(remaining)),
        None if done > 0.0 => format!(": {} compared", percent(done)),
        None => ": repair starts when a store has been down for a minute".to_owned(),
    })
}

/// Why repair of a node does not progress, as a predicate to follow its name.
pub(super) fn repair_blocker(node: &NodeFields) -> Option<String> {
    Some(match text(node, "repair_blocked_by")? {
        "too_few_stores" => "cannot re-replicate: too few stores accept copies".to_owned(),
        "no_space" => "cannot re-replicate: no other store has space".to_owned(),
        "unreachable" => {
            let store = text(node, "repair_blocked_by_store").unwrap_or_default();
            format!("cannot compare its records: the store {store} does not answer")
        }
        "copy_failed" => "cannot re-replicate: sending copies to other stores fails; see its log".to_owned(),
        "unreadable" => "cannot re-replicate: it cannot read its own records; see its log".to_owned(),
        // An awaited store has a line of its own.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn under_replicated_bytes_are_one_line() {
        let check = |replication: Value, want: &[&str]| {
            assert_eq!(lines(&json!({"replication_factor": 2, "replication": replication})), want);
        };
        check(
            json!({"fully_replicated": true, "under_replicated_bytes": 0, "under_replicated_records": 0, "lost_stores": 0}),
            &[],
        );
        // A daily pass without findings.
        check(
            json!({"under_replicated_bytes": 0, "progress": 0.5, "bytes_per_second": 1024, "remaining_seconds": 60}),
            &[],
        );
        check(
            json!({"under_replicated_bytes": 8_u64 << 30, "progress": 0.43, "bytes_per_second": 30 << 20, "remaining_seconds": 1_200}),
            &["about 8.0 GB are on fewer than 2 stores: 43% compared at 30.0 MB/s, about 20m left"],
        );
        check(
            json!({"under_replicated_bytes": 1024, "progress": 0.0, "bytes_per_second": 0, "remaining_seconds": null}),
            &["about 1.0 KB are on fewer than 2 stores: repair starts when a store has been down for a minute"],
        );
        check(
            json!({"under_replicated_bytes": 1024, "progress": 0.2, "bytes_per_second": 0, "remaining_seconds": null}),
            &["about 1.0 KB are on fewer than 2 stores: 20% compared"],
        );
        check(
            json!({"under_replicated_bytes": 7, "under_replicated_records": 1, "lost_stores": 2}),
            &[
                "2 stores are lost at the same time and the replication factor is 2: some records may have no copy until one \
                 returns; 'bucksaw forget' those that will not return",
                "about 7 B are on fewer than 2 stores",
            ],
        );
        assert_eq!(lines(&json!({"nodes": []})), [""; 0]);
    }

    #[test]
    fn a_repair_blocker_is_a_problem_of_its_node() {
        let check = |reason: &str, want: Option<&str>| {
            let node = json!({"repair_blocked_by": reason, "repair_blocked_by_store": "s"});
            assert_eq!(repair_blocker(node.as_object().unwrap()).as_deref(), want, "{reason}");
        };
        check("unreachable", Some("cannot compare its records: the store s does not answer"));
        check("awaited", None);
        check("added in a later version", None);
        for reason in ["too_few_stores", "no_space", "copy_failed", "unreadable"] {
            let node = json!({"repair_blocked_by": reason});
            assert!(
                repair_blocker(node.as_object().unwrap()).unwrap().starts_with("cannot re-replicate: "),
                "{reason}"
            );
        }
    }
}
