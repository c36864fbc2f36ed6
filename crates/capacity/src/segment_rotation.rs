//! What a full queue segment costs group commits: more syncs than one.
//!
//! The commit with the first records of the next segment also syncs the directory, for the name of the file. A later commit syncs the seal
//! of the full one, renames it, and syncs the directory again. On a fast disk these syncs are few beside those of requests; if syncs are
//! slow and the rate is high, commits have many requests, and a good part of them has a new segment.
//!
//! Assumption: the syncs of one commit take about the same time. Segments that are closed by their age count as none: their syncs are a
//! part of what was measured on a node that is hardly used.

use bucksaw_model::{Distribution, GroupCommit, commits_per_second};

/// Size and age at which a queue segment is closed, by default.
pub(crate) const QUEUE_SEGMENT_BYTES: f64 = (16_u32 << 20) as f64;
pub(crate) const QUEUE_SEGMENT_SECONDS: f64 = 3.0;

/// Syncs of a rotation beside those of its two commits: one in the first, two in the second.
const ROTATION_SYNCS: f64 = 3.0;

/// Group commits of requests in queue segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedCommits {
    pub(crate) requests_per_second: f64,
    pub(crate) request_bytes: f64,
    /// Seconds that the data of each request takes.
    pub(crate) write_seconds: f64,
}

impl SegmentedCommits {
    /// The share of commits with the first records of a segment, which is that of commits with the seal of one; `None` if there is no
    /// steady state with syncs of this mean.
    fn first_share(&self, sync_seconds: f64) -> Option<f64> {
        let segments_per_request = (self.request_bytes / QUEUE_SEGMENT_BYTES).min(1.0);
        let rotation_seconds = segments_per_request * ROTATION_SYNCS * sync_seconds;
        let commits_per_request = if self.requests_per_second > 0.0 {
            let write_seconds = self.write_seconds + rotation_seconds;
            commits_per_second(self.requests_per_second, sync_seconds, write_seconds)? / self.requests_per_second
        } else {
            1.0
        };
        Some((segments_per_request / commits_per_request).min(0.5))
    }

    /// The group commits, of the times of one sync; `None` if there is no steady state.
    pub(crate) fn group_commit(&self, sync: &Distribution) -> Option<GroupCommit> {
        let share = self.first_share(sync.mean())?;
        let (two, three) = (sync.scaled(2.0).ok()?, sync.scaled(3.0).ok()?);
        let sync = Distribution::mixture(&[(1.0 - 2.0 * share, sync), (share, &two), (share, &three)]).ok()?;
        Some(GroupCommit { writes_per_second: self.requests_per_second, sync, write_seconds: self.write_seconds })
    }

    /// Commits per second with syncs of this mean, by an estimate that takes less time; `None` if there is no steady state.
    pub(crate) fn commits_per_second(&self, sync_seconds: f64) -> Option<f64> {
        let commit = sync_seconds * (1.0 + ROTATION_SYNCS * self.first_share(sync_seconds)?);
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
    fn rotations_add_three_syncs_each() {
        // Busy: what time is left after 5 rotations of 60 ms and 200 ms of data is for commits of 20 ms.
        near(syncs(2_000.0, 1e-4, 5.0), 1.0 + 3.0 * 5.0 / ((1.0 - 0.3 - 0.2) / 0.02));
        // Idle: a commit per request.
        near(syncs(1.0, 0.0, 0.01), 1.03);
        // A segment per request.
        near(syncs(0.1, 0.0, 0.1), 2.5);
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
        assert!(syncs(2_000.0, 0.0, 17.0).is_none() && syncs(2_000.0, 0.0, 16.0).is_some());
    }
}
