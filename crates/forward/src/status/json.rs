//! The state of an agent as JSON.

use std::time::Duration;

use bucksaw_tailer::Gap;
use serde_json::{Map, Value, json};

use super::agent_info::AgentInfo;
use super::agent_status::{AgentStatus, FileLag, FilesStatus, PodLabelStatus};

/// The answer of `/status`.
pub(super) fn status_json(status: &AgentStatus, info: &AgentInfo) -> Value {
    let connection = &status.connection;
    let mut answer = json!({
        "version": info.version,
        "host": info.host,
        "running_seconds": seconds(status.running),
        "is_ready": status.is_ready(),
        "node": {
            "address": connection.address,
            "unaccepted_seconds": seconds(status.unaccepted()),
            "connections": connection.connections,
            "reconnects": connection.connections.saturating_sub(1),
            "last_error": status.last_error,
        },
        "window": {
            "batches": status.window_batches,
            "bytes": status.window_bytes,
            "bytes_max": status.window_bytes_max,
        },
        "oldest_batch_seconds": seconds(status.oldest_batch),
        "acknowledged": { "records": status.acked_records, "bytes": status.acked_bytes },
    });
    if let (Some(files), Some(answer)) = (&status.files, answer.as_object_mut()) {
        add_files(files, answer);
    }
    answer
}

fn add_files(files: &FilesStatus, answer: &mut Map<String, Value>) {
    let counters = &files.counters;
    let states: Map<String, Value> =
        files.states.iter().map(|(state, count)| (state.name().to_owned(), (*count).into())).collect();
    let parts = json!({
        "read": { "records": files.read_records, "bytes": files.read_bytes },
        "buffer": {
            "batches": files.buffer_batches,
            "bytes": files.buffer_bytes,
            "disk_bytes": files.buffer_disk_bytes,
            "bytes_max": files.buffer_bytes_max,
        },
        "lag": { "bytes": files.lag_bytes, "seconds": seconds(files.lag) },
        "dropped_records": files.dropped_records,
        "damaged_batches": files.damaged_batches,
        "queue_segments": files.queue_segments,
        "lines": {
            "filtered": files.lines.dropped,
            "sampled_out": files.lines.sampled_out,
            "redacted": files.lines.redacted,
            "undecoded": files.lines.undecoded,
        },
        "gaps": {
            "truncated": counters.gaps_truncated,
            "vanished": counters.gaps_vanished,
            "damaged": counters.gaps_damaged,
            "too_long": counters.gaps_too_long,
            "bytes": counters.gap_bytes,
            "newest": files.newest_gaps.iter().map(gap_json).collect::<Vec<_>>(),
        },
        "files": {
            "count": files.files(),
            "states": states,
            "slowest": files.slowest.iter().map(file_json).collect::<Vec<_>>(),
        },
        "unreadable": files.unreadable.iter().map(|(path, reason)| {
            json!({ "path": path.to_string_lossy(), "reason": reason })
        }).collect::<Vec<_>>(),
    });
    if let Value::Object(parts) = parts {
        answer.extend(parts);
    }
    if let Some(pods) = &files.pods {
        answer.insert("kubernetes".to_owned(), kubernetes_json(pods));
    }
}

fn kubernetes_json(pods: &PodLabelStatus) -> Value {
    let watch = &pods.watch;
    json!({
        "synced": watch.is_synced,
        "pods": watch.pods,
        "deleted_pods": watch.deleted_pods,
        "refused_pods": watch.refused_pods,
        "last_event_age_seconds": watch.last_event_age.map(seconds),
        "reconnects": watch.reconnects,
        "unreadable_events": watch.unreadable_events,
        "error": watch.error,
        "unlabelled_records": pods.unlabelled_records,
        "waiting_files": pods.waiting_files,
        "left_out_labels": pods.left_out_labels,
    })
}

fn file_json(file: &FileLag) -> Value {
    json!({
        "path": file.path.to_string_lossy(),
        "state": file.state.name(),
        "position": file.position,
        "acknowledged": file.acked,
        "size": file.size,
        "lag_bytes": file.lag_bytes,
        "lag_seconds": seconds(file.lag),
    })
}

fn gap_json(gap: &Gap) -> Value {
    json!({
        "path": gap.path.to_string_lossy(),
        "reason": gap.reason.to_string(),
        "bytes_known": gap.bytes,
        "unix_ms": gap.unix_ms,
    })
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
