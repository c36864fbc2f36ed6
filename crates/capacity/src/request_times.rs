//! How long requests and group commits take at two loads.
//!
//! A node that is hardly used sleeps, and so does its processor: each thread that takes part in a request has to be woken, which takes
//! longer than on a node that has just worked. A disk that stalls now and then does so at moments of its own, so fewer of many syncs
//! are stalled than of few, and above the higher load there are as many stalls per second as with it.

use bucksaw_model::Distribution;
use serde::{Deserialize, Serialize};

use crate::time_histogram::TimeHistogram;

/// The times of requests at two loads. Between them each time is one of both, with probabilities that are linear in the rate of requests or
/// syncs.
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
    /// Syncs of queue segments per second.
    pub syncs_per_second: f64,
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
        let of = |times: &TimesAtLoad| {
            let commit = if has_commit { times.commit_seconds } else { 0.0 };
            Some(times.latency.distribution()?.plus(&Distribution::constant(commit).ok()?))
        };
        let rates = (self.quiet.requests_per_second, self.busy.requests_per_second);
        mixture((&of(&self.quiet)?, &of(&self.busy)?), busy_share(requests_per_second, rates))
    }

    /// The time of a sync at this rate of syncs without this many seconds for its data; `None` if the times are none.
    pub(crate) fn sync(&self, syncs_per_second: f64, data_seconds: f64) -> Option<Distribution> {
        let rates = (self.quiet.syncs_per_second, self.busy.syncs_per_second);
        let stalls = if syncs_per_second > rates.1 { rates.1 / syncs_per_second } else { 1.0 };
        let quiet = self.quiet.sync.without(data_seconds).distribution()?;
        let busy = self.busy.sync.without(data_seconds).distribution_with_stalls(stalls)?;
        mixture((&quiet, &busy), busy_share(syncs_per_second, rates))
    }
}

fn mixture((quiet, busy): (&Distribution, &Distribution), busy_share: f64) -> Option<Distribution> {
    Distribution::mixture(&[(1.0 - busy_share, quiet), (busy_share, busy)]).ok()
}

/// The probability that a time is one of the busy load, at a rate and with those of both loads.
fn busy_share(rate: f64, (quiet, busy): (f64, f64)) -> f64 {
    if rate >= busy {
        1.0
    } else if rate <= quiet {
        0.0
    } else {
        (rate - quiet) / (busy - quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_with_the_rate_of_requests() {
        let of = |requests_per_second, millis: f64| {
            let times = TimeHistogram::of_times(&[millis * 1e-3]).unwrap();
            TimesAtLoad {
                requests_per_second,
                syncs_per_second: requests_per_second,
                commit_seconds: 1e-4,
                latency: times.clone(),
                sync: times,
            }
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

    #[test]
    fn more_syncs_have_as_many_stalls_per_second() {
        let times = |syncs_per_second| TimesAtLoad {
            requests_per_second: 2.0 * syncs_per_second,
            syncs_per_second,
            commit_seconds: 0.0,
            latency: TimeHistogram::of_times(&[1e-3]).unwrap(),
            sync: TimeHistogram {
                mean_seconds: 3e-3,
                bounds: vec![0.99e-3, 1e-3, 0.2, 0.201],
                counts: vec![0.0, 99.0, 0.0, 1.0],
            },
        };
        let times = RequestTimes { quiet: times(20.0), busy: times(100.0) };
        let stalled = |rate| times.sync(rate, 0.0).unwrap().tail(0.1);
        for (rate, want) in [(10.0, 0.01), (100.0, 0.01), (400.0, 0.0025)] {
            assert!((stalled(rate) / want - 1.0).abs() < 0.01, "{rate}: {}", stalled(rate));
        }
    }
}
