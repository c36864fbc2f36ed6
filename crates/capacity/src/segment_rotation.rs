//! What a full queue segment costs group commits: a second sync.
//!
//! A group whose first records are in one segment and its last ones in the next syncs both files. The name of the next file is synced
//! before it is needed, and the seal of the full one beside the commits. On a fast disk the second sync hardly matters; if syncs are
//! slow and the rate is high, commits have many requests, and a good part of them has a new segment.
//!
//! Assumption: the syncs of one commit take about the same time. Segments that are closed by their age count as none: their syncs are a
//! part of what was measured on a node that is hardly used.

use bucksaw_model::{Distribution, GroupCommit, commits_per_second};

/// Size and age at which a queue segment is closed, by default.
pub(crate) const QUEUE_SEGMENT_BYTES: f64 = (16_u32 << 20) as f64;
pub(crate) const QUEUE_SEGMENT_SECONDS: f64 = 3.0;

/// Group commits of requests in queue segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedCommits {
    pub(crate) requests_per_second: f64,
    pub(crate) request_bytes: f64,
    /// Seconds that the data of each request takes.
    pub(crate) write_seconds: f64,
}

impl SegmentedCommits {
    /// The share of commits with records in two segments; `None` if there is no steady state with syncs of this mean.
    fn double_share(&self, sync_seconds: f64) -> Option<f64> {
        let segments_per_request = (self.request_bytes / QUEUE_SEGMENT_BYTES).min(1.0);
        if self.requests_per_second <= 0.0 {
            return Some(0.0);
        }
        let write_seconds = self.write_seconds + segments_per_request * sync_seconds;
        let commits_per_request =
            commits_per_second(self.requests_per_second, sync_seconds, write_seconds)? / self.requests_per_second;
        // The first request of a group begins as many segments as the others, but none within the group.
        Some((segments_per_request / commits_per_request * (1.0 - commits_per_request)).clamp(0.0, 1.0))
    }

    /// The group commits, of the times of one sync; `None` if there is no steady state.
    pub(crate) fn group_commit(&self, sync: &Distribution) -> Option<GroupCommit> {
        let share = self.double_share(sync.mean())?;
        let sync = Distribution::mixture(&[(1.0 - share, sync), (share, &sync.scaled(2.0).ok()?)]).ok()?;
        Some(GroupCommit { writes_per_second: self.requests_per_second, sync, write_seconds: self.write_seconds })
    }

    /// Commits per second with syncs of this mean, by an estimate that takes less time; `None` if there is no steady state.
    pub(crate) fn commits_per_second(&self, sync_seconds: f64) -> Option<f64> {
        let commit = sync_seconds * (1.0 + self.double_share(sync_seconds)?);
        commits_per_second(self.requests_per_second, commit, self.write_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean syncs of a commit of requests that fill this many segments per second.
    fn syncs(requests_per_second: f64, write_seconds: f64, segments_per_second: f64) -> Option<f64> {
        let request_bytes = segments_per_second / requests_per_second * QUEUE_SEGMENT_BYTES;
        let commits = SegmentedCommits { requests_per_second, request_bytes, write_seconds };
        Some(commits.group_commit(&Distribution::constant(0.02).unwrap())?.sync.mean() / 0.02)
    }

    #[track_caller]
    fn near(found: Option<f64>, want: f64) {
        assert!((found.unwrap() / want - 1.0).abs() < 0.01, "{found:?} {want}");
    }

    #[test]
    fn a_group_with_a_new_segment_takes_two_syncs() {
        // Busy: what time is left after 5 second syncs of 20 ms and 200 ms of data is for commits of 20 ms, of 57 requests each.
        let commits = (1.0 - 0.1 - 0.2) / 0.02;
        near(syncs(2_000.0, 1e-4, 5.0), 1.0 + 5.0 / commits * (1.0 - commits / 2_000.0));
        // Idle: a commit per request.
        near(syncs(1.0, 0.0, 0.01), 1.0);
        // A segment per request.
        near(syncs(0.1, 0.0, 0.1), 1.0);
    }

    #[test]
    fn the_estimate_of_commits_is_near_their_steady_state() {
        for (requests_per_second, segments) in [(10.0, 0.1), (500.0, 3.0), (2_000.0, 7.0)] {
            let request_bytes = segments / requests_per_second * QUEUE_SEGMENT_BYTES;
            let commits = SegmentedCommits { requests_per_second, request_bytes, write_seconds: 1e-4 };
            let exact = commits.group_commit(&Distribution::constant(0.01).unwrap()).unwrap().solve().unwrap();
            let estimate = commits.commits_per_second(0.01).unwrap();
            assert!((estimate / exact.commits_per_second - 1.0).abs() < 0.1, "{estimate} {}", exact.commits_per_second);
        }
    }

    #[test]
    fn rotations_alone_can_take_all_the_time() {
        assert!(syncs(2_000.0, 0.0, 51.0).is_none() && syncs(2_000.0, 0.0, 49.0).is_some());
    }
}
