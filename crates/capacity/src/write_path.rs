//! The time from a request to its acknowledgement, and the time until a record is found.

use bucksaw_model::{Distribution, GroupCommit, SharedServers, commits_per_second};

use crate::input::AckPoint;
use crate::planned_node::{BACKGROUND_SHARE, PlannedNode};
use crate::segment_rotation::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS, SegmentedCommits};

/// Mean seconds that a request waits while a question uses all cores: about a time slice of Linux, at whose end its threads run.
pub(crate) const CORE_WAIT_SECONDS: f64 = 3e-3;

/// Bytes of text of most group commits of the measurement of costs.
const MEASURED_COMMIT_BYTES: f64 = 65_536.0;

impl PlannedNode<'_> {
    /// By how much other requests on the node stretch the acceptance of one; infinite if there is no capacity left.
    /// Gathers and merges run at a lower priority, so they do not count.
    fn accept_stretch(&self) -> f64 {
        let free = self.input.node.cpu() - self.accept_cores() - self.search_cores();
        if free > 0.0 { 1.0 / (1.0 - self.accept_cores() / self.input.node.cores) } else { f64::INFINITY }
    }

    /// The time of a request beside its group commit, while no question runs: processor sharing of its CPU time and its latency. `None`
    /// if there is no capacity left.
    pub(crate) fn write_time(&self) -> Option<Distribution> {
        let stretch = self.accept_stretch();
        if stretch.is_infinite() {
            return None;
        }
        let has_commit = self.input.ack_point != AckPoint::Written;
        let latency = self.calibration.requests.latency(self.requests_to_one(), has_commit)?;
        let text = Distribution::constant(self.input.request_bytes * self.text_cost()).ok()?;
        latency.plus(&text).scaled(stretch).ok()
    }

    /// The share of the time in which a question uses all cores, so that only one runs at a time. 0 if a CPU limit leaves it fewer threads
    /// than there are cores.
    pub(crate) fn searching_share(&self) -> f64 {
        let node = &self.input.node;
        if node.question_threads() < node.cores { 0.0 } else { (self.search_cores() / node.cores).min(1.0) }
    }

    /// The time that a request waits for a core: none, or an exponential time if it arrives while a question uses all of them. Waits end
    /// with the question or with a time slice of the scheduler, at moments that do not depend on the request.
    fn core_wait(&self) -> Option<Distribution> {
        let share = self.searching_share();
        let none = Distribution::constant(0.0).ok()?;
        Distribution::mixture(&[(1.0 - share, &none), (share, &Distribution::exponential(CORE_WAIT_SECONDS).ok()?)])
            .ok()
    }

    /// Requests per second at the peak to each ingest node.
    fn requests_to_one(&self) -> f64 {
        self.accepted_by_one() / self.input.request_bytes
    }

    /// The times of syncs without the data of their requests, which depends on the planned disk; `None` if the measured times are none.
    pub(crate) fn sync_alone(&self) -> Option<Distribution> {
        let (times, requests) = (&self.calibration.requests, self.requests_to_one());
        let syncs =
            commits_per_second(requests, times.busy.sync.mean_seconds, self.write_seconds()).unwrap_or(requests);
        times.sync(syncs, MEASURED_COMMIT_BYTES / self.calibration.disk_bytes_per_second)
    }

    /// Seconds in which the disk writes the data of a request.
    fn write_seconds(&self) -> f64 {
        self.input.request_bytes / self.input.node.disk_bytes_per_second
    }

    fn commits(&self) -> SegmentedCommits {
        SegmentedCommits {
            requests_per_second: self.requests_to_one(),
            request_bytes: self.input.request_bytes,
            write_seconds: self.write_seconds(),
        }
    }

    /// The group commits of one ingest node; `None` if it is overloaded.
    pub(crate) fn group_commit(&self) -> Option<GroupCommit> {
        self.commits().group_commit(&self.sync_alone()?)
    }

    /// Group commits per request: one on an idle node, fewer under load, and none if requests do not wait for them.
    pub(crate) fn commits_per_request(&self) -> f64 {
        if self.input.ack_point == AckPoint::Written {
            return 0.0;
        }
        let requests = self.requests_to_one();
        let commits = self.sync_alone().and_then(|sync| self.commits().commits_per_second(sync.mean()));
        commits.map_or(1.0, |commits| commits / requests)
    }

    /// The time of a request until its acknowledgement; `None` if the node is overloaded.
    pub(crate) fn ack(&self) -> Option<Distribution> {
        let write = self.write_time()?.plus(&self.core_wait()?);
        let commit = || {
            let commits = self.group_commit()?;
            if commits.writes_per_second > 0.0 {
                commits.ack()
            } else {
                // A single request on a node without load.
                Some(Distribution::constant(commits.write_seconds).ok()?.plus(&commits.sync))
            }
        };
        let ack = match self.input.ack_point {
            AckPoint::Written => write,
            AckPoint::Synced => write.plus(&commit()?).plus(&self.write_delay()?),
            AckPoint::Stored => {
                // The request is one queue segment, which is gathered at once, and whose copies are made one after the other.
                let gather = self.input.request_bytes * self.gather_cost() * self.accept_stretch();
                let delay = self.write_delay()?;
                write.plus(&commit()?).plus(&delay).plus(&Distribution::constant(gather).ok()?).plus(&delay)
            }
        };
        self.limited_request(ack)
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
        let seconds = bytes * self.store_cost() / self.input.node.background_speed();
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
