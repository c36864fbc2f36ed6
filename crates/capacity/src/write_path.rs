//! The time from a request to its acknowledgement, and the time until a record is found.

use bucksaw_model::{Distribution, GroupCommit, SharedServers};

use crate::input::AckPoint;
use crate::planned_node::{BACKGROUND_SHARE, PlannedNode};

/// Size and age at which a queue segment is closed, by default.
pub(crate) const QUEUE_SEGMENT_BYTES: f64 = (16_u32 << 20) as f64;
pub(crate) const QUEUE_SEGMENT_SECONDS: f64 = 3.0;

impl PlannedNode<'_> {
    /// By how much other work on the node stretches the acceptance of a request; infinite if there is no capacity left.
    /// Gathers and merges run at a lower priority, so they do not count.
    fn accept_stretch(&self) -> f64 {
        let free = 1.0 - (self.accept_cores() + self.search_cores()) / self.input.node.cores;
        if free > 0.0 { 1.0 / free } else { f64::INFINITY }
    }

    /// Seconds from the arrival of a request to the write of its records: processor sharing of its CPU time.
    pub(crate) fn write_seconds(&self) -> f64 {
        let slow_core = self.input.node.cores.min(1.0);
        self.input.request_bytes * self.accept_cost() / slow_core * self.accept_stretch()
    }

    /// The time of a request until its acknowledgement; `None` if the node is overloaded.
    pub(crate) fn ack(&self) -> Option<Distribution> {
        let write = self.write_seconds();
        if write.is_infinite() {
            return None;
        }
        let write = Distribution::constant(write).ok()?;
        let sync = &self.calibration.sync;
        let commit = || {
            let sync = sync.distribution()?;
            let write_seconds = self.input.request_bytes / self.input.node.disk_bytes_per_second;
            GroupCommit { writes_per_second: self.requests(), sync, write_seconds }.ack()
        };
        match self.input.ack_point {
            AckPoint::Written => Some(write),
            AckPoint::Synced => Some(write.plus(&commit()?)),
            AckPoint::Stored => {
                // The request is one queue segment, which is gathered at once, and whose copies are made one after the other.
                let store = self.store_cost() / self.input.node.cores.min(1.0);
                let gather = self.input.request_bytes * store * self.accept_stretch();
                Some(write.plus(&commit()?).plus(&Distribution::constant(gather).ok()?))
            }
        }
    }

    /// Queue segments that one ingest node closes per second at the peak, and the bytes of each: by size, or by age if the load
    /// is low.
    pub(crate) fn queue_segments(&self) -> (f64, f64) {
        let accepted = self.accepted_by_one();
        let per_second = (accepted / QUEUE_SEGMENT_BYTES).max(1.0 / QUEUE_SEGMENT_SECONDS);
        (per_second, accepted / per_second)
    }

    /// All closed queue segments of the cluster and the stores that gather them, one batch each at a time. The cost of later merges
    /// counts as part of a gather, so times are upper bounds.
    /// `None` if a gather never ends.
    pub(crate) fn gathers(&self) -> Option<SharedServers> {
        let (per_second, bytes) = self.queue_segments();
        let seconds = bytes * self.store_cost() / self.input.node.cores.min(1.0);
        Some(SharedServers {
            arrivals_per_second: per_second * self.ingest_nodes,
            servers: self.store_nodes as u32,
            service: Distribution::constant(seconds * self.accept_stretch().min(1.0 / BACKGROUND_SHARE)).ok()?,
        })
    }

    /// The mean of [`PlannedNode::ack`] in seconds; infinite if the node is overloaded.
    pub(crate) fn ack_mean(&self) -> f64 {
        self.ack().map_or(f64::INFINITY, |ack| ack.mean())
    }
}
