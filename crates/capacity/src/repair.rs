//! How long it takes to re-replicate what a lost node held.

use bucksaw_model::RepairTime;

use crate::planned_node::{PlannedNode, SEGMENT_TEXT_BYTES};

/// Bytes per second of segment files that one store copies to restore lost replicas.
const REPAIR_BYTES_PER_SECOND: f64 = (32_u32 << 20) as f64;

/// Seconds after which an unreachable store counts as lost.
pub(crate) const LOST_AFTER_SECONDS: f64 = 60.0;

/// Seconds until the records of a lost node have their copies again, the time until it counts as lost included; 0 with
/// one copy, of which nothing is re-replicated; infinite if the other nodes are fewer than the copies.
pub(crate) fn repair_seconds(node: &PlannedNode<'_>) -> f64 {
    if node.input.copies < 2 {
        return 0.0;
    }
    LOST_AFTER_SECONDS + repair(node).seconds().unwrap_or(f64::INFINITY)
}

/// The re-replication after the loss of a store. If the plan has nodes that are down, the lost one is one of them.
pub(crate) fn repair(node: &PlannedNode<'_>) -> RepairTime {
    let size = &node.input.node;
    let nodes = if node.input.failed_nodes > 0 { node.store_nodes + 1.0 } else { node.store_nodes };
    RepairTime {
        nodes: nodes as u32,
        copies: node.input.copies,
        bytes: node.stored_bytes() * node.store_nodes / nodes,
        segment_bytes: SEGMENT_TEXT_BYTES * node.calibration.store.stored_per_byte,
        // Half of its disk or network at most.
        node_bytes_per_second: REPAIR_BYTES_PER_SECOND
            .min(size.write_bytes_per_second() / 2.0)
            .min(size.network_bytes_per_second / 2.0),
    }
}
