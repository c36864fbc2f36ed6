//! How long it takes to re-replicate what a lost node held.

use crate::planned_node::PlannedNode;

/// Bytes per second of segment files that one store copies to restore lost replicas.
const REPAIR_BYTES_PER_SECOND: f64 = (32_u32 << 20) as f64;

/// Seconds after which an unreachable store counts as lost.
pub(crate) const LOST_AFTER_SECONDS: f64 = 60.0;

/// Seconds until the records of a lost node have their copies again, the time until it counts as lost included; 0 with
/// one copy, of which nothing is re-replicated.
pub(crate) fn repair_seconds(node: &PlannedNode<'_>) -> f64 {
    if node.input.copies < 2 {
        return 0.0;
    }
    LOST_AFTER_SECONDS + node.stored_bytes() / (others(node) * repair_rate(node))
}

/// Bytes per second that one store restores: half of its disk or network at most.
pub(crate) fn repair_rate(node: &PlannedNode<'_>) -> f64 {
    let size = &node.input.node;
    REPAIR_BYTES_PER_SECOND.min(size.disk_bytes_per_second / 2.0).min(size.network_bytes_per_second / 2.0)
}

/// The stores that are left after the loss of one.
pub(crate) fn others(node: &PlannedNode<'_>) -> f64 {
    node.store_nodes.map_or(1.0, |nodes| (nodes - 1.0).max(1.0))
}
