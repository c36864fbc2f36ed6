//! How long requests and group commits take at two loads.
//!
//! A node that is hardly used sleeps, and so does its processor: each thread that takes part in a request has to be woken, which takes
//! longer than on a node that has just worked. A disk that stalls now and then does so at moments of its own, so fewer of many syncs
//! are stalled than of few.

use bucksaw_model::Distribution;
use serde::{Deserialize, Serialize};

use crate::time_histogram::TimeHistogram;

/// The times of requests at two loads. Between them each time is one of both, with probabilities that are linear in the rate of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestTimes {
    /// On a node that is hardly used.
    pub quiet: TimesAtLoad,
    /// On a node that is used more.
    pub busy: TimesAtLoad,
}

/// The times of requests at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesAtLoad {
    /// Requests per second that the node answered.
    pub requests_per_second: f64,
    /// Seconds by which a request takes longer if it waits for a group commit, beside this commit: the threads that wake up for it.
    pub commit_seconds: f64,
    /// A request beside the CPU of its text, if it waits for no group commit: calls of the system, threads that wake up, and waits for a
    /// core. Gathers and merges of the load are in its tail.
    pub latency: TimeHistogram,
    /// One `fsync` of a queue segment.
    pub sync: TimeHistogram,
}

impl RequestTimes {
    /// The latency of a request at this rate, which waits for a group commit or not; `None` if the times are none.
    pub(crate) fn latency(&self, requests_per_second: f64, has_commit: bool) -> Option<Distribution> {
        self.mixture(requests_per_second, |times| {
            let commit = if has_commit { times.commit_seconds } else { 0.0 };
            Some(times.latency.distribution()?.plus(&Distribution::constant(commit).ok()?))
        })
    }

    /// The time of a sync at this rate without this many seconds for its data; `None` if the times are none.
    pub(crate) fn sync(&self, requests_per_second: f64, data_seconds: f64) -> Option<Distribution> {
        self.mixture(requests_per_second, |times| times.sync.without(data_seconds).distribution())
    }

    fn mixture(
        &self,
        requests_per_second: f64,
        of: impl Fn(&TimesAtLoad) -> Option<Distribution>,
    ) -> Option<Distribution> {
        let busy_share = self.busy_share(requests_per_second);
        Distribution::mixture(&[(1.0 - busy_share, &of(&self.quiet)?), (busy_share, &of(&self.busy)?)]).ok()
    }

    /// The probability that a time is one of the busy load.
    fn busy_share(&self, requests_per_second: f64) -> f64 {
        let (quiet, busy) = (self.quiet.requests_per_second, self.busy.requests_per_second);
        if requests_per_second >= busy {
            1.0
        } else if requests_per_second <= quiet {
            0.0
        } else {
            (requests_per_second - quiet) / (busy - quiet)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_with_the_rate_of_requests() {
        let of = |requests_per_second, millis: f64| {
            let times = TimeHistogram::of_times(&[millis * 1e-3]).unwrap();
            TimesAtLoad { requests_per_second, commit_seconds: 1e-4, latency: times.clone(), sync: times }
        };
        let times = RequestTimes { quiet: of(20.0, 1.0), busy: of(100.0, 0.6) };
        let check = |found: Option<Distribution>, want: f64| {
            let mean = found.unwrap().mean();
            assert!((mean - want).abs() < 1e-6, "{mean} {want}");
        };
        for (rate, want) in [(0.0, 1e-3), (20.0, 1e-3), (60.0, 0.8e-3), (100.0, 0.6e-3), (900.0, 0.6e-3)] {
            check(times.latency(rate, false), want);
            check(times.latency(rate, true), want + 1e-4);
            check(times.sync(rate, 0.0), want);
            check(times.sync(rate, 2e-4), want - 2e-4);
        }
        let same_load = RequestTimes { busy: of(20.0, 0.6), ..times };
        check(same_load.latency(20.0, false), 0.6e-3);
    }
}
