//! Replication status of a store and of the cluster: under-replicated records, and the progress of repair.
//!
//! For records that a store has compared, the number of under-replicated ones is exact. For the others there is only an
//! upper bound: the bytes of the absent stores, times the fraction of the pass that remains.

use bucksaw_store::repair::RepairStatus;
use serde_json::{Value, json};

use crate::render::format_time;

/// The repair status of this store.
pub(crate) fn store_status(status: &RepairStatus, stored_bytes: u64) -> Value {
    let absent_stores = [&status.awaited_stores[..], &status.unrepaired_stores].concat();
    let mut repair = json!({
        "last_pass": format_time(status.last_pass_started_at),
        "under_replicated_records": status.under_replicated_records,
        "under_replicated_bytes": status.under_replicated_bytes,
        "lost_bytes_max": status.lost_bytes_max,
        "absent_stores": absent_stores,
        "lost_stores": status.unrepaired_stores.len(),
        "deferred_ranges": status.deferred_ranges,
        "re_replicated_records": status.restored_records,
        "re_replicated_bytes": status.restored_bytes,
    });
    if status.began.is_some() {
        repair["started"] = format_time(status.began).into();
        repair["remaining_bytes"] = status.remaining_bytes.into();
        repair["bytes_per_second"] = status.bytes_per_second.into();
        repair["remaining_seconds"] = status.remaining_seconds().into();
        repair["progress"] = fraction_done(status.remaining_bytes, stored_bytes).into();
    }
    if let Some(blocker) = status.blocked_by {
        repair["blocked_by"] = blocker.name().into();
        if let Some(store) = blocker.store() {
            repair["blocked_by_store"] = store.to_string().into();
        }
    }
    repair
}

/// The replication status of all stores that reported theirs. `stores_missing` is the number of live stores below the
/// replication factor.
pub(crate) fn cluster_status(nodes: &[Value], stores_missing: usize) -> Value {
    let stores = || nodes.iter().filter(|node| node["repair"].is_object());
    let repair = |node: &Value, name: &str| node["repair"][name].as_u64().unwrap_or_default();
    let sum = |name: &str| stores().map(|node| repair(node, name)).sum::<u64>();
    let max = |name: &str| stores().map(|node| repair(node, name)).max().unwrap_or_default();
    // While a store is awaited, no pass that compares its records has begun.
    let is_awaiting = |node: &Value| {
        let absent = node["repair"]["absent_stores"].as_array().map_or(0, Vec::len) as u64;
        absent > repair(node, "lost_stores")
    };
    // A store that has not started its pass still has all its bytes to compare.
    let remaining = |node: &Value| match node["repair"]["remaining_bytes"].as_u64() {
        left if repair(node, "lost_bytes_max") > 0 && (left.is_none() || is_awaiting(node)) => stored_bytes(node),
        left => left.unwrap_or_default(),
    };
    let (remaining_bytes, all_bytes) = (stores().map(remaining).sum::<u64>(), stores().map(stored_bytes).sum::<u64>());
    let (lost_bytes_max, under_replicated) = (max("lost_bytes_max"), sum("under_replicated_records"));
    let done = fraction_done(remaining_bytes, all_bytes);
    let mut status = json!({
        "fully_replicated": stores_missing == 0 && lost_bytes_max == 0 && under_replicated == 0,
        "under_replicated_bytes": (lost_bytes_max as f64 * (1.0 - done)) as u64 + sum("under_replicated_bytes"),
        "under_replicated_records": under_replicated,
        "lost_stores": max("lost_stores"),
    });
    if remaining_bytes > 0 {
        status["progress"] = done.into();
        status["bytes_per_second"] = sum("bytes_per_second").into();
        // Stores compare in parallel, so the slowest decides. Without an estimate of one store the time is unknown.
        let times =
            stores().filter(|node| remaining(node) > 0).map(|node| node["repair"]["remaining_seconds"].as_u64());
        status["remaining_seconds"] =
            times.collect::<Option<Vec<u64>>>().and_then(|times| times.into_iter().max()).into();
    }
    status
}

fn stored_bytes(node: &Value) -> u64 {
    node["store"]["stored_bytes"].as_u64().unwrap_or_default()
}

/// The fraction of `whole` that is done, rounded down to hundredths: 1 only if nothing remains.
fn fraction_done(remaining: u64, whole: u64) -> f64 {
    if remaining == 0 {
        return 1.0;
    }
    let done = whole.saturating_sub(remaining) as f64 / whole.max(1) as f64;
    (done * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Id, Millis, Producer};
    use bucksaw_store::repair::RepairBlocker;

    use super::*;

    fn store(number: u64, status: &RepairStatus, stored_bytes: u64) -> Value {
        json!({"id": number, "store": {"stored_bytes": stored_bytes}, "repair": store_status(status, stored_bytes)})
    }

    fn id(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    #[test]
    fn a_cluster_without_under_replicated_records_is_fully_replicated() {
        let check = |nodes: &[Value], missing: usize, want: Value| assert_eq!(cluster_status(nodes, missing), want);
        let passed = RepairStatus { last_pass_started_at: Some(Millis(5)), ..RepairStatus::default() };
        let healthy = json!({"fully_replicated": true, "under_replicated_bytes": 0, "under_replicated_records": 0, "lost_stores": 0});
        // A node without the store role, or of another version, reports no repair status.
        check(&[store(1, &passed, 10), store(2, &passed, 10), json!({"id": 3})], 0, healthy.clone());
        check(&[], 0, healthy.clone());
        check(
            &[],
            1,
            json!({"fully_replicated": false, "under_replicated_bytes": 0, "under_replicated_records": 0, "lost_stores": 0}),
        );
        // A daily pass without findings.
        let daily = RepairStatus { began: Some(Millis(9)), remaining_bytes: 5, bytes_per_second: 1, ..passed };
        let status = cluster_status(&[store(1, &daily, 10), store(2, &daily, 10)], 0);
        assert_eq!(
            (&status["fully_replicated"], &status["progress"], &status["remaining_seconds"]),
            (&true.into(), &0.5.into(), &5.into())
        );
    }

    #[test]
    fn the_progress_of_an_earlier_pass_hides_no_loss() {
        // A pass that began before the store went down has compared all but deferred records.
        let earlier = RepairStatus {
            began: Some(Millis(9)),
            lost_bytes_max: 1_000,
            awaited_stores: vec![id(9)],
            ..RepairStatus::default()
        };
        let status = cluster_status(&[store(1, &earlier, 10), store(2, &earlier, 10)], 0);
        assert_eq!(
            (&status["fully_replicated"], &status["under_replicated_bytes"]),
            (&false.into(), &1_000.into()),
            "{status}"
        );
    }

    #[test]
    fn a_loss_is_reported_by_remaining_bytes() {
        let lost = |remaining_bytes, bytes_per_second| RepairStatus {
            began: Some(Millis(9)),
            lost_bytes_max: 1_000,
            unrepaired_stores: vec![id(9)],
            remaining_bytes,
            bytes_per_second,
            ..RepairStatus::default()
        };
        let status = cluster_status(&[store(1, &lost(25, 5), 100), store(2, &lost(75, 5), 100)], 0);
        let want = json!({
            "fully_replicated": false, "under_replicated_bytes": 500, "under_replicated_records": 0, "lost_stores": 1,
            "progress": 0.5, "bytes_per_second": 10, "remaining_seconds": 15,
        });
        assert_eq!(status, want);
        // One store has not started, the other makes no progress.
        let awaited = RepairStatus { awaited_stores: vec![id(9)], lost_bytes_max: 1_000, ..RepairStatus::default() };
        let status = cluster_status(&[store(1, &awaited, 100), store(2, &lost(100, 0), 100)], 0);
        assert_eq!(
            (&status["under_replicated_bytes"], &status["remaining_seconds"]),
            (&1_000.into(), &Value::Null),
            "{status:?}"
        );
        // Records that repair could not copy.
        let stuck = RepairStatus {
            under_replicated_records: 3,
            under_replicated_bytes: 30,
            blocked_by: Some(RepairBlocker::Unreachable(id(7))),
            ..RepairStatus::default()
        };
        let node = store(1, &stuck, 100);
        let repair = &node["repair"];
        assert_eq!(
            (&repair["blocked_by"], &repair["blocked_by_store"]),
            (&"unreachable".into(), &id(7).to_string().into())
        );
        let status = cluster_status(&[node], 0);
        assert_eq!(
            (&status["fully_replicated"], &status["under_replicated_bytes"]),
            (&false.into(), &30.into()),
            "{status:?}"
        );
    }
}
