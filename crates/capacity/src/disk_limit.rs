//! How a limit of writes to the disk, such as that of a container, delays requests.
//!
//! Writes of gathers and merges come before those of later requests, and may be larger than what the limit lets pass at once.

use bucksaw_model::{Distribution, LimitedWrites, WriteLimit};

use crate::planned_node::PlannedNode;
use crate::range_text::MERGE_INPUTS;

/// Seconds of a window of the limit: a slice of the throttling of Linux.
const WINDOW_SECONDS: f64 = 0.1;

impl PlannedNode<'_> {
    /// The time for which the limit stops the write of a request, which is not in the time of its group commit; `None` if the limit is
    /// used up.
    pub(crate) fn write_delay(&self) -> Option<Distribution> {
        let Some(limit) = self.input.node.disk_write_limit else { return Distribution::constant(0.0).ok() };
        let (store, batch) = (&self.calibration.store, self.batch_bytes());
        let of = |per_second: f64, bytes: f64| LimitedWrites { per_second, seconds: bytes / limit };
        let request = of(self.requests(), self.written_per_request());
        let mut writes = vec![request];
        if batch > 0.0 {
            let (batches, merged) = (self.copied() / batch, MERGE_INPUTS * batch);
            writes.push(of(batches, batch * store.written_per_byte));
            writes.push(of(batches * self.merges() / MERGE_INPUTS, merged * store.stored_per_byte));
        }
        WriteLimit { window_seconds: WINDOW_SECONDS, writes }.delay(request.seconds)
    }
}

#[cfg(test)]
mod tests {
    use crate::capacity::Capacity;
    use crate::input::{AckPoint, CapacityInput, NodeSize};
    use crate::resource::Resource;
    use crate::tests::{calibration, input};
    use crate::tier::PlannedNodes;

    /// A node of 4 MB/s in requests of 100 kB, of which each 10 s become a segment of 10 MB.
    fn plan(disk_write_limit: Option<f64>, ack_point: AckPoint) -> Capacity {
        let node = NodeSize { disk_write_limit, ..input().node };
        let (bytes_per_second, nodes) = (4e6, PlannedNodes::Both(1));
        let planned = CapacityInput { bytes_per_second, peak_factor: 1.0, ack_point, node, nodes, ..input() };
        Capacity::of(&planned, &calibration()).unwrap()
    }

    fn ack(capacity: &Capacity, which: &str) -> f64 {
        let name = format!("acknowledgement, {which}");
        capacity.figures.iter().find(|figure| figure.name == name).unwrap().value
    }

    #[test]
    fn what_fits_into_a_window_passes_at_once() {
        let (without, with) = (plan(None, AckPoint::Synced), plan(Some(2e8), AckPoint::Synced));
        assert!((ack(&with, "mean") / ack(&without, "mean") - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_large_segment_stops_requests() {
        let (without, with) = (plan(None, AckPoint::Synced), plan(Some(1e7), AckPoint::Synced));
        // A segment uses up ten windows, of which requests leave 58 of 100: for about 1.6 of 10 s requests wait, for half of it in
        // the mean.
        let more = ack(&with, "mean") - ack(&without, "mean");
        assert!((0.08..0.3).contains(&more), "{more}");
        assert!(ack(&with, "p50") < 2.0 * ack(&without, "p50"));
    }

    #[test]
    fn only_requests_that_wait_for_the_disk_are_stopped() {
        let of = |ack_point| (ack(&plan(None, ack_point), "mean"), ack(&plan(Some(1e7), ack_point), "mean"));
        let (without, with) = of(AckPoint::Written);
        assert_eq!(without, with);
        let (without, with) = of(AckPoint::Stored);
        assert!(with > without);
    }

    #[test]
    fn a_limit_is_the_bandwidth_of_writes() {
        let capacity = plan(Some(1e7), AckPoint::Synced);
        let disk = capacity.limits.iter().find(|limit| limit.resource == Resource::DiskBandwidth).unwrap();
        // 4 MB/s of text, a quarter more for segments, and a page per commit.
        assert!((disk.utilisation - 0.516).abs() < 0.001, "{disk:?}");
        assert!(plan(Some(4e6), AckPoint::Synced).figures.iter().any(|figure| figure.value.is_infinite()));
    }
}
