//! Whether each record is kept as often as promised, and if not, how far that is from being mended: of one store, as it
//! knows it, and of all together.
//!
//! A store knows what it has compared with others and what it could not copy. How much is missing copies before it has been
//! compared is known to nobody; but it is no more than what stores had that are gone. So that is told, times the part that
//! has not been gone through yet.

use bucksaw_record::Millis;
use bucksaw_store::repair::{Repair, RepairStatus};
use serde_json::{Value, json};

use crate::node::format_time;

/// How a store is getting on with looking for copies that are missing, and restoring them.
pub(crate) fn store_status(repair: &Repair, stored_bytes: u64) -> Value {
    status_json(&repair.status(), stored_bytes)
}

fn status_json(status: &RepairStatus, stored_bytes: u64) -> Value {
    let at = |at: Option<Millis>| format_time(at);
    let gone = [&status.awaited_stores[..], &status.unrepaired_stores].concat();
    let mut told = json!({
        "walked": at(status.last_pass_started_at),
        "missing_records": status.under_replicated_records,
        "missing_bytes": status.under_replicated_bytes,
        "gone_bytes": status.lost_bytes_max,
        "gone_stores": gone,
        "lost_stores": status.unrepaired_stores.len(),
        "put_off_windows": status.deferred_ranges,
        "restored_records": status.restored_records,
        "restored_bytes": status.restored_bytes,
    });
    if status.began.is_some() {
        told["began"] = at(status.began).into();
        told["left_bytes"] = status.remaining_bytes.into();
        told["bytes_per_second"] = status.bytes_per_second.into();
        told["left_seconds"] = status.remaining_seconds().into();
        told["progress"] = fraction_done(status.remaining_bytes, stored_bytes).into();
    }
    if let Some(hindrance) = status.blocked_by {
        told["hindered_by"] = hindrance.name().into();
        if let Some(store) = hindrance.store() {
            told["hindered_by_store"] = store.to_string().into();
        }
    }
    told
}

/// The same of all stores that have told of themselves. `stores_missing` is how many more are needed for as many copies as
/// are wanted.
pub(crate) fn cluster_status(nodes: &[Value], stores_missing: usize) -> Value {
    let stores = || nodes.iter().filter(|node| node["repair"].is_object());
    let repair = |node: &Value, name: &str| node["repair"][name].as_u64().unwrap_or_default();
    let sum = |name: &str| stores().map(|node| repair(node, name)).sum::<u64>();
    let most = |name: &str| stores().map(|node| repair(node, name)).max().unwrap_or_default();
    // Who has not begun has everything before it.
    let left = |node: &Value| match node["repair"]["left_bytes"].as_u64() {
        None if repair(node, "gone_bytes") > 0 => stored_bytes(node),
        left => left.unwrap_or_default(),
    };
    let (left_bytes, all_bytes) = (stores().map(left).sum::<u64>(), stores().map(stored_bytes).sum::<u64>());
    let (gone_bytes, missing) = (most("gone_bytes"), sum("missing_records"));
    let done = fraction_done(left_bytes, all_bytes);
    let mut told = json!({
        "kept": stores_missing == 0 && gone_bytes == 0 && missing == 0,
        "short_bytes": (gone_bytes as f64 * (1.0 - done)) as u64 + sum("missing_bytes"),
        "missing_records": missing,
        "lost_stores": most("lost_stores"),
    });
    if left_bytes > 0 {
        told["progress"] = done.into();
        told["bytes_per_second"] = sum("bytes_per_second").into();
        // All go on side by side, so the slowest says how long it takes; when one gets nowhere, nobody can.
        let times = stores().filter(|node| left(node) > 0).map(|node| node["repair"]["left_seconds"].as_u64());
        told["left_seconds"] = times.collect::<Option<Vec<u64>>>().and_then(|times| times.into_iter().max()).into();
    }
    told
}

fn stored_bytes(node: &Value) -> u64 {
    node["store"]["stored_bytes"].as_u64().unwrap_or_default()
}

/// The part that is done when so much of a whole is left, 0 to 1, in hundredths: 1 only when nothing is left.
fn fraction_done(left: u64, whole: u64) -> f64 {
    if left == 0 {
        return 1.0;
    }
    let done = whole.saturating_sub(left) as f64 / whole.max(1) as f64;
    (done * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Id, Producer};
    use bucksaw_store::repair::RepairBlocker;

    use super::*;

    fn store(number: u64, status: &RepairStatus, stored_bytes: u64) -> Value {
        json!({"id": number, "store": {"stored_bytes": stored_bytes}, "repair": status_json(status, stored_bytes)})
    }

    fn id(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    #[test]
    fn all_is_well_when_nothing_is_missing_anywhere() {
        let check = |nodes: &[Value], missing: usize, want: Value| assert_eq!(cluster_status(nodes, missing), want);
        let walked = RepairStatus { last_pass_started_at: Some(Millis(5)), ..RepairStatus::default() };
        let well = json!({"kept": true, "short_bytes": 0, "missing_records": 0, "lost_stores": 0});
        // A node that stores nothing, or is of another version, does not tell of it.
        check(&[store(1, &walked, 10), store(2, &walked, 10), json!({"id": 3})], 0, well.clone());
        check(&[], 0, well.clone());
        check(&[], 1, json!({"kept": false, "short_bytes": 0, "missing_records": 0, "lost_stores": 0}));
        // The daily pass is nothing to worry about.
        let daily = RepairStatus { began: Some(Millis(9)), remaining_bytes: 5, bytes_per_second: 1, ..walked };
        let told = cluster_status(&[store(1, &daily, 10), store(2, &daily, 10)], 0);
        assert_eq!((&told["kept"], &told["progress"], &told["left_seconds"]), (&true.into(), &0.5.into(), &5.into()));
    }

    #[test]
    fn a_loss_is_reported_by_remaining_bytes() {
        let gone = |left_bytes, bytes_per_second| RepairStatus {
            began: Some(Millis(9)),
            lost_bytes_max: 1_000,
            unrepaired_stores: vec![id(9)],
            remaining_bytes: left_bytes,
            bytes_per_second,
            ..RepairStatus::default()
        };
        let told = cluster_status(&[store(1, &gone(25, 5), 100), store(2, &gone(75, 5), 100)], 0);
        let want = json!({
            "kept": false, "short_bytes": 500, "missing_records": 0, "lost_stores": 1,
            "progress": 0.5, "bytes_per_second": 10, "left_seconds": 15,
        });
        assert_eq!(told, want);
        // One has not begun yet, and one gets nowhere.
        let awaited = RepairStatus { awaited_stores: vec![id(9)], lost_bytes_max: 1_000, ..RepairStatus::default() };
        let told = cluster_status(&[store(1, &awaited, 100), store(2, &gone(100, 0), 100)], 0);
        assert_eq!((&told["short_bytes"], &told["left_seconds"]), (&1_000.into(), &Value::Null), "{told}");
        // What is left over cannot be copied.
        let stuck = RepairStatus {
            under_replicated_records: 3,
            under_replicated_bytes: 30,
            blocked_by: Some(RepairBlocker::Unreachable(id(7))),
            ..RepairStatus::default()
        };
        let node = store(1, &stuck, 100);
        let repair = &node["repair"];
        assert_eq!(
            (&repair["hindered_by"], &repair["hindered_by_store"]),
            (&"silent".into(), &id(7).to_string().into())
        );
        let told = cluster_status(&[node], 0);
        assert_eq!((&told["kept"], &told["short_bytes"]), (&false.into(), &30.into()), "{told}");
    }
}
