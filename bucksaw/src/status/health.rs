//! What has to be seen to in a cluster, in plain words.
//!
//! The page says the same in `ui/src/nodes/health.ts`.

use serde_json::{Map, Value};

use super::{plain_text, replication, text};
use crate::print::human_seconds;

/// A queue whose oldest records wait for longer than this is one that the stores do not keep up with; as in
/// `docs/operating.md`.
const WAITS_MAX_SECONDS: f64 = 30.0;

/// How a node is, in a word: what it says of itself, or how it is seen when it says nothing.
pub(super) fn node_state(node: &Map<String, Value>) -> Option<String> {
    match text(node, "member") {
        None | Some("alive") => text(node, "state").map(str::to_owned),
        Some(member) => Some(member.to_owned()),
    }
}

/// Who is in trouble comes first, who left last.
pub(super) fn rank(node: &Map<String, Value>) -> u8 {
    match (problems(node).is_empty(), text(node, "member")) {
        (false, _) => 0,
        (true, Some("left")) => 2,
        (true, _) => 1,
    }
}

/// How all is, and a line for each thing that has to be seen to. Nothing where there are no nodes.
pub(super) fn lines(cluster: &Value, nodes: &[Map<String, Value>]) -> Vec<String> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let number = |key: &str| cluster.get(key).and_then(Value::as_u64);
    let mut things: Vec<String> = Vec::new();
    let (wanted, stores) = (number("replication_factor").unwrap_or(1), number("stores_alive"));
    if let (Some(missing @ 1..), Some(stores)) = (number("stores_missing"), stores) {
        things.push(format!(
            "{stores} of {wanted} stores {} there: until {missing} more {}, nothing is gathered, and records stay where they \
             were taken in and are found there",
            if stores == 1 { "is" } else { "are" },
            if missing == 1 { "comes" } else { "come" },
        ));
    }
    things.extend(replication::lines(cluster));
    for node in nodes {
        let name = match (node.get("id").map(plain_text), node.get("addresses_http").map(plain_text)) {
            (id, None) => id.unwrap_or_default(),
            (None, Some(http)) => http,
            (Some(id), Some(http)) => format!("{id} ({http})"),
        };
        things.extend(problems(node).into_iter().map(|trouble| format!("{name} {trouble}")));
    }
    things.extend(cluster.get("strangers").and_then(Value::as_array).into_iter().flatten().map(|stranger| {
        let told = |key: &str| stranger.get(key).filter(|told| !told.is_null()).map(plain_text);
        let (at, theirs) = (told("address"), told("protocol").unwrap_or_default());
        let own = cluster.get("protocol").map(plain_text).unwrap_or_default();
        format!(
            "incompatible peer at {}: protocol version {theirs}, this node {own}",
            at.as_deref().unwrap_or("an unknown address"),
        )
    }));
    let left = nodes.iter().filter(|node| text(node, "member") == Some("left")).count();
    let mut head = plural(nodes.len() - left, "node");
    if left > 0 {
        head.push_str(&format!(" and {left} that left"));
    }
    if !things.is_empty() {
        let things = things.iter().map(|thing| format!("- {thing}\n"));
        let count = plural(things.len(), "thing");
        return std::iter::once(format!("{head}, {count} to see to:\n")).chain(things).collect();
    }
    let kept = match stores {
        Some(stores @ 2..) => format!(": replication factor {wanted}, {stores} stores alive"),
        _ => String::new(),
    };
    vec![format!("{head}, all well{kept}\n")]
}

/// What is wrong with a node, as it goes on after its name.
fn problems(node: &Map<String, Value>) -> Vec<String> {
    let mut troubles = Vec::new();
    let since = text(node, "since").map(|since| format!(" since {since}")).unwrap_or_default();
    match (text(node, "member"), text(node, "state")) {
        (Some("down"), _) => {
            let what = if node.get("made_good").and_then(Value::as_bool) != Some(true) {
                "what it alone holds is missing from answers"
            } else if is_ingesting(node) {
                "what it stored is kept elsewhere, what was in its queue is missing from answers; 'bucksaw forget' takes it \
                 from the list"
            } else {
                "its records are kept elsewhere; 'bucksaw forget' takes it from the list"
            };
            troubles.push(format!("is down{since}: {what}"));
        }
        (Some("suspect"), _) => troubles.push(format!("does not answer{since}: it counts as down in a moment")),
        (_, Some("silent")) => {
            troubles.push("is there, and does not tell how it is: it is slow, or was paused".to_owned());
        }
        (_, Some("disk full")) => troubles.push("accepts nothing: its disk is full".to_owned()),
        (_, Some("halted")) => troubles.push(format!("accepts nothing: {}", text(node, "halted").unwrap_or_default())),
        (_, Some("stopping")) => troubles.push("is stopping".to_owned()),
        _ => {}
    }
    if let Some(twin) = text(node, "twin") {
        troubles.push(format!("has the same node id as {twin}: a data directory was copied; stop one of the two"));
    }
    if let Some(apart) = text(node, "apart") {
        troubles.push(apart.to_owned());
    }
    let seconds = |key: &str| node.get(key).and_then(Value::as_f64);
    if let Some(ahead) = seconds("retention_suspended_clock_ahead_seconds") {
        let left = seconds("retention_suspended_left_seconds").unwrap_or_default();
        troubles.push(format!(
            "removes nothing by age: its clock jumped {} ahead; set it right, or retention goes on in {}",
            human_seconds(ahead),
            human_seconds(left)
        ));
    }
    // Where it is used up already, the state says so.
    if node.get("store_index_is_high").and_then(Value::as_bool) == Some(true) && text(node, "state") != Some("halted") {
        troubles.push(
            "needs more than three quarters of its memory for the index of stored segments, and accepts nothing when that is \
             used up: raise --memory-limit, or lower --retention-bytes or --retention-age"
                .to_owned(),
        );
    }
    let damaged = node.get("damaged").and_then(Value::as_array).is_some_and(|files| !files.is_empty());
    let broken = node.get("segments_with_damaged_blocks").and_then(Value::as_u64).is_some_and(|segments| segments > 0);
    if damaged || broken {
        troubles.push("has damaged files: answers over their time are partial; see 'bucksaw verify'".to_owned());
    }
    let made_good = node.get("damaged_made_good").and_then(Value::as_array).map_or(0, Vec::len);
    if made_good > 0 {
        let (files, them) = (plural(made_good, "damaged file"), if made_good == 1 { "it" } else { "they" });
        troubles.push(format!("has {files} whose records are all kept by other stores: {them} may be deleted"));
    }
    if let Some(keys) = node.get("damaged_keys").and_then(Value::as_u64).filter(|keys| *keys > 0) {
        let keys = plural(usize::try_from(keys).unwrap_or(usize::MAX), "batch key");
        troubles.push(format!(
            "could not read {keys}: a retry of such a batch may be stored as new records; check its disk"
        ));
    }
    let made_good = node.get("segments_made_good").and_then(Value::as_array).map_or(0, Vec::len);
    if made_good > 0 {
        let (segments, them) = (plural(made_good, "segment"), if made_good == 1 { "it" } else { "them" });
        troubles.push(format!(
            "has {segments} with damaged blocks whose records are all kept by other stores: do not delete {them}, other \
             blocks may be sound; stop the node, and 'bucksaw verify --repair' saves these"
        ));
    }
    if node.get("segments_rebuilt").and_then(Value::as_u64).is_some_and(|segments| segments > 0) {
        troubles.push("has files with damage that was rebuilt, and no record is missing: check its disk".to_owned());
    }
    if let Some(waits) = node.get("queue_oldest_pending_seconds").and_then(Value::as_f64)
        && waits > WAITS_MAX_SECONDS
    {
        troubles.push(format!("has records that have waited for the stores for {}", human_seconds(waits)));
    }
    troubles.extend(replication::repair_blocker(node));
    troubles
}

fn is_ingesting(node: &Map<String, Value>) -> bool {
    let roles = node.get("roles").and_then(Value::as_array);
    roles.is_some_and(|roles| roles.iter().any(|role| role == "ingest"))
}

fn plural(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(cluster: Value, want: &[&str]) {
        let nodes: Vec<_> =
            cluster["nodes"].as_array().unwrap().iter().map(|node| node.as_object().unwrap().clone()).collect();
        let lines = lines(&cluster, &nodes);
        assert_eq!(lines.concat().lines().collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_healthy_cluster_is_one_line() {
        let node = |member: &str| json!({"id": "n", "member": member, "state": "ready"});
        check(json!({"nodes": [node("alive")], "replication_factor": 1, "stores_alive": 1}), &["1 node, all well"]);
        check(
            json!({
                "nodes": [node("alive"), node("alive"), node("left")],
                "replication_factor": 2, "stores_alive": 2, "stores_missing": 0,
            }),
            &["2 nodes and 1 that left, all well: replication factor 2, 2 stores alive"],
        );
        check(json!({"nodes": []}), &[]);
    }

    #[test]
    fn each_problem_is_one_line() {
        check(
            json!({
                "nodes": [
                    {"id": "a", "addresses_http": "a:1", "member": "down", "since": "T", "state": "down"},
                    {"id": "b", "member": "suspect", "since": "T", "state": "ready", "queue_oldest_pending_seconds": 90.0},
                    {"id": "c", "member": "alive", "state": "silent", "twin": "h:2"},
                    {"addresses_http": "d:1", "state": "disk full", "damaged": [], "segments_with_damaged_blocks": 1},
                    {"id": "e", "state": "stopping", "damaged": ["x"], "queue_oldest_pending_seconds": 29.0,
                        "segments_rebuilt": 2, "damaged_keys": 3, "damaged_made_good": ["y"],
                        "segments_made_good": ["store/z.seg"]},
                    {"id": "g", "state": "halted", "halted": "no file descriptor is left", "store_index_is_high": true},
                    {"id": "h", "state": "ready", "store_index_is_high": true},
                    {"id": "f", "state": "ready", "apart": "speaks version 1.9",
                        "retention_suspended_clock_ahead_seconds": 691_200, "retention_suspended_left_seconds": 86_388},
                ],
                "protocol": "1.0",
                "strangers": [{"address": "h:3", "protocol": 2}, {"address": null, "protocol": 0}],
                "replication_factor": 3, "stores_alive": 1, "stores_missing": 2,
            }),
            &[
                "8 nodes, 20 things to see to:",
                "- 1 of 3 stores is there: until 2 more come, nothing is gathered, and records stay where they were taken in \
                 and are found there",
                "- a (a:1) is down since T: what it alone holds is missing from answers",
                "- b does not answer since T: it counts as down in a moment",
                "- b has records that have waited for the stores for 2m",
                "- c is there, and does not tell how it is: it is slow, or was paused",
                "- c has the same node id as h:2: a data directory was copied; stop one of the two",
                "- d:1 accepts nothing: its disk is full",
                "- d:1 has damaged files: answers over their time are partial; see 'bucksaw verify'",
                "- e is stopping",
                "- e has damaged files: answers over their time are partial; see 'bucksaw verify'",
                "- e has 1 damaged file whose records are all kept by other stores: it may be deleted",
                "- e could not read 3 batch keys: a retry of such a batch may be stored as new records; check its disk",
                "- e has 1 segment with damaged blocks whose records are all kept by other stores: do not delete it, \
                 other blocks may be sound; stop the node, and 'bucksaw verify --repair' saves these",
                "- e has files with damage that was rebuilt, and no record is missing: check its disk",
                "- g accepts nothing: no file descriptor is left",
                "- h needs more than three quarters of its memory for the index of stored segments, and accepts nothing when \
                 that is used up: raise --memory-limit, or lower --retention-bytes or --retention-age",
                "- f speaks version 1.9",
                "- f removes nothing by age: its clock jumped 8d0h ahead; set it right, or retention goes on in 1d0h",
                "- incompatible peer at h:3: protocol version 2, this node 1.0",
                "- incompatible peer at an unknown address: protocol version 0, this node 1.0",
            ],
        );
    }

    #[test]
    fn a_store_that_was_made_good_can_be_forgotten() {
        let node = |roles: Value, made_good: bool| json!({"id": "a", "member": "down", "roles": roles, "made_good": made_good});
        let check = |roles: Value, made_good: bool, want: &str| {
            let want = format!("- a is down: {want}");
            check(json!({"nodes": [node(roles, made_good)]}), &["1 node, 1 thing to see to:", &want]);
        };
        check(json!(["store"]), false, "what it alone holds is missing from answers");
        check(json!(["store"]), true, "its records are kept elsewhere; 'bucksaw forget' takes it from the list");
        check(
            json!(["ingest", "store"]),
            true,
            "what it stored is kept elsewhere, what was in its queue is missing from answers; 'bucksaw forget' takes it from \
             the list",
        );
    }

    #[test]
    fn a_word_says_how_a_node_is() {
        let seen = |node: Value| super::node_state(node.as_object().unwrap());
        assert_eq!(seen(json!({"state": "ready"})).unwrap(), "ready");
        assert_eq!(seen(json!({"member": "alive", "state": "silent"})).unwrap(), "silent");
        assert_eq!(seen(json!({"member": "suspect", "state": "ready"})).unwrap(), "suspect");
        assert_eq!(seen(json!({})), None);
    }
}
