//! Problems of a cluster and of its nodes, one line each.
//!
//! The page shows the same problems: `ui/src/nodes/health.ts`.

use serde_json::Value;

use super::fields::{NodeFields, length, number, plain_text, shown, text};
use super::{head_room, replication};
use crate::one_line::one_line;
use crate::print::{human_bytes, human_seconds, plural};

/// Age of the oldest pending records, in seconds, above which the stores do not keep up with a queue.
/// `docs/operating.md` and `docs/alerts.yml` use the same limit.
const PENDING_SECONDS_MAX: f64 = 30.0;

/// How long rows may wait for ClickHouse beside the segments, in seconds.
const SINK_WAITING_SECONDS_MAX: f64 = 30.0;

/// How long a message of Kafka may wait, in seconds.
const KAFKA_BEHIND_SECONDS_MAX: f64 = 30.0;

/// The state of a node in one word: its own report while it is a live member, else its membership state.
pub(super) fn node_state(node: &NodeFields) -> Option<String> {
    match text(node, "membership") {
        None | Some("alive") => text(node, "state").map(str::to_owned),
        Some(membership) => Some(membership.to_owned()),
    }
}

/// Sort key of a node in the table: nodes with problems first, nodes that left last.
pub(super) fn rank(node: &NodeFields) -> u8 {
    match (problems(node).is_empty(), text(node, "membership")) {
        (false, _) => 0,
        (true, Some("left")) => 2,
        (true, _) => 1,
    }
}

/// A summary, then one line per problem, and one per note: a risk that was accepted at the start, or little head-room. Empty
/// if the cluster lists no nodes.
pub(super) fn lines(cluster: &Value, nodes: &[NodeFields]) -> Vec<String> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let (factor, stores) = (cluster["replication_factor"].as_u64().unwrap_or(1), cluster["stores_alive"].as_u64());
    let (mut found, mut notes) = (Vec::<String>::new(), Vec::<String>::new());
    if let (Some(missing @ 1..), Some(stores)) = (cluster["stores_missing"].as_u64(), stores) {
        found.push(format!(
            "{stores} of {factor} stores {} alive: until {missing} more {}, nothing is gathered; records stay in their queues \
             and are found there",
            if stores == 1 { "is" } else { "are" },
            if missing == 1 { "joins" } else { "join" },
        ));
    }
    found.extend(replication::lines(cluster));
    for node in nodes {
        let (id, http) = (shown(node, "id"), shown(node, "addresses_http"));
        let parts = [shown(node, "host"), id, http];
        let mut parts = parts.iter().filter(|part| !part.is_empty());
        let name = parts.next().cloned().unwrap_or_default();
        let more: Vec<&str> = parts.map(String::as_str).collect();
        let name = if more.is_empty() { name } else { format!("{name} ({})", more.join(", ")) };
        found.extend(problems(node).into_iter().map(|problem| format!("{name} {problem}")));
        notes.extend(head_room::warning(node).map(|warning| format!("note: {name} {warning}\n")));
        if let Some(listeners) = node.get("insecure_listeners").and_then(Value::as_array).filter(|all| !all.is_empty())
        {
            let listeners: Vec<String> = listeners.iter().map(plain_text).collect();
            let listeners = listeners.join(", ");
            notes.push(format!(
                "note: {name} lets other machines connect without authentication or encryption: {listeners}\n"
            ));
        }
    }
    found.extend(cluster["incompatible_peers"].as_array().into_iter().flatten().map(|peer| {
        let address = peer["address"].as_str().map_or("an unknown address".to_owned(), one_line);
        let (protocol, own) = (plain_text(&peer["protocol"]), plain_text(&cluster["protocol"]));
        format!("incompatible peer at {address}: protocol version {protocol}, this node {own}")
    }));
    let left = nodes.iter().filter(|node| text(node, "membership") == Some("left")).count();
    let mut head = plural(nodes.len() - left, "node");
    if left > 0 {
        head.push_str(&format!(" and {left} that left"));
    }
    if !found.is_empty() {
        let count = plural(found.len(), "problem");
        let found = found.iter().map(|problem| format!("- {problem}\n"));
        return std::iter::once(format!("{head}, {count}:\n")).chain(found).chain(notes).collect();
    }
    let replication = match stores {
        Some(stores @ 2..) => format!(": replication factor {factor}, {stores} stores alive"),
        _ => String::new(),
    };
    std::iter::once(format!("{head}, all well{replication}\n")).chain(notes).collect()
}

/// The problems of a node, each as a predicate to follow its name.
fn problems(node: &NodeFields) -> Vec<String> {
    let mut problems = Vec::new();
    let is = |key: &str| node.get(key).and_then(Value::as_bool) == Some(true);
    let seconds = |key: &str| node.get(key).and_then(Value::as_f64);
    let (membership, state) = (text(node, "membership"), text(node, "state"));
    let since = text(node, "since").map(|since| format!(" since {since}")).unwrap_or_default();
    match (membership, state) {
        (Some("down"), _) => {
            let roles = node.get("roles").and_then(Value::as_array);
            let is_ingesting = roles.is_some_and(|roles| roles.iter().any(|role| role == "ingest"));
            let effect = match (is("re_replicated"), is_ingesting) {
                (false, _) => "records that only it holds are missing from answers",
                (true, true) => {
                    "its stored records are re-replicated, records in its queue are missing from answers; 'bucksaw forget' \
                     removes it from the list"
                }
                (true, false) => "its records are re-replicated; 'bucksaw forget' removes it from the list",
            };
            problems.push(format!("is down{since}: {effect}"));
        }
        (Some("suspect"), _) => problems.push(format!("does not answer{since}: it will soon be marked down")),
        (_, Some("unresponsive")) => {
            problems.push("is alive but does not report its status: it is slow or was paused".to_owned());
        }
        (_, Some("disk full")) => problems.push("accepts nothing: its disk is full".to_owned()),
        (_, Some("halted")) => problems.push(format!("accepts nothing: {}", text(node, "halted").unwrap_or_default())),
        (_, Some("stopping")) => problems.push("is stopping".to_owned()),
        _ => {}
    }
    if let Some(address) = text(node, "duplicate_address") {
        problems.push(format!("has the same node id as {address}: a data directory was copied; stop one of the two"));
    }
    problems.extend(text(node, "version_skew").map(str::to_owned));
    if let Some(ahead) = seconds("retention_suspended_clock_ahead_seconds") {
        problems.push(format!(
            "removes nothing by age: its clock is {} ahead, as after a long stop or a jump; set it right if it is wrong, or retention resumes in {}",
            human_seconds(ahead),
            human_seconds(seconds("retention_suspended_remaining_seconds").unwrap_or_default())
        ));
    }
    if let Some(failure) = text(node, "database_failure") {
        let since = text(node, "database_failing_since").map(|since| format!(" since {since}")).unwrap_or_default();
        problems.push(format!("keeps records in its queue{since}: {failure}"));
    }
    if let Some(failure) = text(node, "sink_failure") {
        let since = text(node, "sink_failing_since").map(|since| format!(" since {since}")).unwrap_or_default();
        let waiting = human_bytes(number(node, "sink_waiting_bytes"));
        problems.push(format!("has {waiting} on disk for ClickHouse{since}: {failure}"));
    } else if let Some(age) = seconds("sink_waiting_seconds").filter(|age| *age > SINK_WAITING_SECONDS_MAX) {
        let waiting = human_bytes(number(node, "sink_waiting_bytes"));
        problems
            .push(format!("has {waiting} on disk for ClickHouse, the oldest for {}: it is slow", human_seconds(age)));
    }
    problems.extend(kafka(node));
    for reload in node.get("failed_reloads").and_then(Value::as_array).into_iter().flatten() {
        let [file, path, failure] = ["file", "path", "failure"].map(|key| plain_text(&reload[key]));
        problems.push(format!("cannot use the changed {file} {path}, and keeps its previous content: {failure}"));
    }
    // A full index halts ingest, which the state reports.
    if is("store_index_memory_high") && state != Some("halted") {
        problems.push(
            "uses more than three quarters of its memory for the index of stored segments, and accepts nothing once that is \
             used up: raise --memory-limit, or lower --retention-bytes or --retention-age"
                .to_owned(),
        );
    }
    if length(node, "damaged") > 0 || number(node, "segments_with_damaged_blocks") > 0 {
        problems.push("has damaged files: answers over their time are partial; see 'bucksaw verify'".to_owned());
    }
    let files = length(node, "damaged_re_replicated");
    if files > 0 {
        let (files, pronoun) = (plural(files, "damaged file"), if files == 1 { "it" } else { "they" });
        problems.push(format!("has {files} whose records are all re-replicated: {pronoun} may be deleted"));
    }
    problems.extend(encryption(node));
    let keys = number(node, "damaged_keys");
    if keys > 0 {
        let keys = plural(usize::try_from(keys).unwrap_or(usize::MAX), "idempotency key");
        problems.push(format!(
            "could not read {keys}: a retry of such a batch may be stored as new records; check its disk"
        ));
    }
    let segments = length(node, "segments_re_replicated");
    if segments > 0 {
        let (segments, pronoun) = (plural(segments, "segment"), if segments == 1 { "it" } else { "them" });
        problems.push(format!(
            "has {segments} with damaged blocks whose records are all re-replicated: do not delete {pronoun}, other blocks may \
             be intact; stop the node, and 'bucksaw verify --repair' saves these"
        ));
    }
    if number(node, "segments_rebuilt") > 0 {
        problems.push("has files with rebuilt damage; no record is missing, but check its disk".to_owned());
    }
    if let Some(age) = seconds("queue_oldest_pending_seconds").filter(|age| *age > PENDING_SECONDS_MAX) {
        problems.push(format!("has records that have been pending for {}", human_seconds(age)));
    }
    problems.extend(replication::repair_blocker(node));
    problems
}

/// Files that cannot be read for want of a key, or not after a restart.
fn encryption(node: &NodeFields) -> Vec<String> {
    let mut problems = Vec::new();
    let keyless = length(node, "encryption_segments_without_key");
    let keys = node.get("encryption_keys").and_then(Value::as_array);
    for usage in keys.into_iter().flatten() {
        let files = [("segments", "segment"), ("erasures", "erasure")].map(|(field, one)| {
            let number = usage[field].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
            (number > 0).then(|| plural(number, one))
        });
        let files = files.into_iter().flatten().collect::<Vec<String>>().join(" and ");
        let key = usage["key"].as_str().map(one_line);
        if let (Some(key), false, false) = (key, usage["named"].as_bool().unwrap_or(true), files.is_empty()) {
            problems.push(format!(
                "has {files} encrypted with key {key}, which is not among its keys: add it to them again{}",
                if keyless == 0 { ", or they cannot be read after a restart" } else { "" },
            ));
        }
    }
    if keyless > 0 {
        problems.push(format!(
            "cannot read {} for want of a key: answers over their time are partial",
            plural(keyless, "segment")
        ));
    }
    problems
}

/// Why a node does not read from Kafka, or how far it is behind.
fn kafka(node: &NodeFields) -> Option<String> {
    if let Some(since) = text(node, "kafka_disconnected_since") {
        let reason = text(node, "kafka_last_failure").map(|reason| format!(": {reason}")).unwrap_or_default();
        return Some(format!("has had no connection to Kafka since {since}{reason}"));
    }
    if let Some(refusal) = text(node, "kafka_refusal") {
        return Some(format!("reads nothing from Kafka, as its queue refuses records: {refusal}"));
    }
    let behind = node.get("kafka_behind_seconds").and_then(Value::as_f64)?;
    (behind > KAFKA_BEHIND_SECONDS_MAX).then(|| {
        let topics = node.get("kafka_topics").and_then(Value::as_array);
        let lagging = topics.into_iter().flatten().find(|topic| topic["lag"].as_u64().is_some_and(|lag| lag > 0));
        let topic = lagging.and_then(|topic| topic["topic"].as_str()).map(one_line).unwrap_or_default();
        let lag = number(node, "kafka_lag");
        format!("is {} behind Kafka: {lag} messages are not stored, most of topic {topic}", human_seconds(behind))
    })
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
        let node = |member: &str| json!({"id": "n", "membership": member, "state": "ready"});
        check(json!({"nodes": [node("alive")], "replication_factor": 1, "stores_alive": 1}), &["1 node, all well"]);
        check(
            json!({
                "nodes": [node("alive"), node("alive"), node("left")],
                "replication_factor": 2, "stores_alive": 2, "stores_missing": 0,
            }),
            &["2 nodes and 1 that left, all well: replication factor 2, 2 stores alive"],
        );
        check(json!({"nodes": []}), &[]);
        check(
            json!({"nodes": [{"id": "n", "state": "ready", "insecure_listeners": ["fast", "http"]}]}),
            &[
                "1 node, all well",
                "note: n lets other machines connect without authentication or encryption: fast, http",
            ],
        );
    }

    #[test]
    fn each_problem_is_one_line() {
        check(
            json!({
                "nodes": [
                    {"id": "a", "addresses_http": "a:1", "membership": "down", "since": "T", "state": "down"},
                    {"id": "b", "membership": "suspect", "since": "T", "state": "ready", "queue_oldest_pending_seconds": 90.0},
                    {"id": "c", "membership": "alive", "state": "unresponsive", "duplicate_address": "h:2"},
                    {"addresses_http": "d:1", "state": "disk full", "damaged": [], "segments_with_damaged_blocks": 1},
                    {"id": "e", "state": "stopping", "damaged": ["x"], "queue_oldest_pending_seconds": 29.0,
                        "segments_rebuilt": 2, "damaged_keys": 3, "damaged_re_replicated": ["y"],
                        "segments_re_replicated": ["store/z.seg"]},
                    {"id": "g", "state": "halted", "halted": "no file descriptor is left", "store_index_memory_high": true},
                    {"id": "h", "state": "ready", "store_index_memory_high": true},
                    {"id": "f", "state": "ready", "version_skew": "speaks version 1.9",
                        "retention_suspended_clock_ahead_seconds": 691_200, "retention_suspended_remaining_seconds": 86_388,
                        "database_failure": "no answer", "database_failing_since": "T", "sink_failure": "no way",
                        "sink_waiting_bytes": 0},
                    {"id": "i", "state": "ready", "kafka_disconnected_since": "T", "kafka_last_failure": "refused"},
                    {"id": "j", "state": "ready", "kafka_refusal": "no space", "kafka_disconnected_since": null},
                    {"id": "k", "state": "ready", "kafka_refusal": null, "kafka_behind_seconds": 90.5, "kafka_lag": 70,
                        "kafka_topics": [{"topic": "orders", "lag": 60}, {"topic": "audit", "lag": 10}]},
                    {"id": "l", "state": "ready", "kafka_behind_seconds": 30.0, "kafka_lag": 7},
                    {"id": "m", "state": "ready", "sink_failure": null, "sink_waiting_seconds": 90.0, "sink_waiting_bytes": 2048},
                    {"id": "o", "state": "ready",
                        "failed_reloads": [{"file": "auth file", "path": "/a.toml", "failure": "line 2: no"}]},
                    {"id": "n", "state": "ready", "encryption_segments_without_key": ["store/x.seg"], "encryption_keys": [
                        {"key": "b585208aaaf4bee7", "segments": 9, "bytes": 9, "writing": true, "named": true},
                        {"key": "51df6e00a2f0b6e7", "segments": 1, "erasures": 2, "bytes": 9, "writing": false, "named": false},
                        {"key": null, "segments": 3, "bytes": 9, "writing": false, "named": true}]},
                ],
                "protocol": "1.0",
                "incompatible_peers": [{"address": "h:3", "protocol": 2}, {"address": null, "protocol": 0}],
                "replication_factor": 3, "stores_alive": 1, "stores_missing": 2,
            }),
            &[
                "15 nodes, 29 problems:",
                "- 1 of 3 stores is alive: until 2 more join, nothing is gathered; records stay in their queues and are found \
                 there",
                "- a (a:1) is down since T: records that only it holds are missing from answers",
                "- b does not answer since T: it will soon be marked down",
                "- b has records that have been pending for 2m",
                "- c is alive but does not report its status: it is slow or was paused",
                "- c has the same node id as h:2: a data directory was copied; stop one of the two",
                "- d:1 accepts nothing: its disk is full",
                "- d:1 has damaged files: answers over their time are partial; see 'bucksaw verify'",
                "- e is stopping",
                "- e has damaged files: answers over their time are partial; see 'bucksaw verify'",
                "- e has 1 damaged file whose records are all re-replicated: it may be deleted",
                "- e could not read 3 idempotency keys: a retry of such a batch may be stored as new records; check its disk",
                "- e has 1 segment with damaged blocks whose records are all re-replicated: do not delete it, other \
                 blocks may be intact; stop the node, and 'bucksaw verify --repair' saves these",
                "- e has files with rebuilt damage; no record is missing, but check its disk",
                "- g accepts nothing: no file descriptor is left",
                "- h uses more than three quarters of its memory for the index of stored segments, and accepts nothing once \
                 that is used up: raise --memory-limit, or lower --retention-bytes or --retention-age",
                "- f speaks version 1.9",
                "- f removes nothing by age: its clock is 8d0h ahead, as after a long stop or a jump; set it right if it is wrong, or retention resumes in 1d0h",
                "- f keeps records in its queue since T: no answer",
                "- f has 0 B on disk for ClickHouse: no way",
                "- i has had no connection to Kafka since T: refused",
                "- j reads nothing from Kafka, as its queue refuses records: no space",
                "- k is 2m behind Kafka: 70 messages are not stored, most of topic orders",
                "- m has 2.0 KB on disk for ClickHouse, the oldest for 2m: it is slow",
                "- o cannot use the changed auth file /a.toml, and keeps its previous content: line 2: no",
                "- n has 1 segment and 2 erasures encrypted with key 51df6e00a2f0b6e7, which is not among its keys: add it to them again",
                "- n cannot read 1 segment for want of a key: answers over their time are partial",
                "- incompatible peer at h:3: protocol version 2, this node 1.0",
                "- incompatible peer at an unknown address: protocol version 0, this node 1.0",
            ],
        );
    }

    #[test]
    fn a_re_replicated_store_may_be_forgotten() {
        let node = |roles: Value, re_replicated: bool| json!({"id": "a", "membership": "down", "roles": roles, "re_replicated": re_replicated});
        let check = |roles: Value, re_replicated: bool, want: &str| {
            let want = format!("- a is down: {want}");
            check(json!({"nodes": [node(roles, re_replicated)]}), &["1 node, 1 problem:", &want]);
        };
        check(json!(["store"]), false, "records that only it holds are missing from answers");
        check(json!(["store"]), true, "its records are re-replicated; 'bucksaw forget' removes it from the list");
        check(
            json!(["ingest", "store"]),
            true,
            "its stored records are re-replicated, records in its queue are missing from answers; 'bucksaw forget' removes \
             it from the list",
        );
    }

    #[test]
    fn the_membership_state_wins_unless_the_node_is_alive() {
        let state = |node: Value| super::node_state(node.as_object().unwrap());
        assert_eq!(state(json!({"state": "ready"})).unwrap(), "ready");
        assert_eq!(state(json!({"membership": "alive", "state": "unresponsive"})).unwrap(), "unresponsive");
        assert_eq!(state(json!({"membership": "suspect", "state": "ready"})).unwrap(), "suspect");
        assert_eq!(state(json!({})), None);
    }
}
