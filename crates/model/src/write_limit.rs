//! Limits of writes to a disk, as of a container or a control group: the kernel lets the bytes of a window of time pass at once, and
//! stops further writes until the next window begins.
//!
//! ```text
//!   written   ▲            ┌───────── limit of all windows so far
//!             │      ┌─────┘ ● waits for the next window
//!             │ ┌────┘  ● passes at once
//!             └─┴────┴─────┴──► windows
//! ```
//!
//! Linux, `block/blk-throttle.c`: `tg_within_bps_limit` rounds the time since the begin of a slice up to whole slices of a tenth of a
//! second. So a throttled disk is no slow disk: writes that fit into a window take no longer than without a limit.
//!
//! Left out: a window begins with the first write after the last one has ended, and here they follow each other.

use crate::distribution::Distribution;
use crate::group_commit::poisson;
use crate::number::{non_negative, positive};

/// Above this share of the limit a steady state takes too long to matter, and counts as none.
const LOAD_MAX: f64 = 0.99;

/// Most windows until the bytes that wait at the end of one are stable, and the relative change of their second moment at which they
/// are.
const WINDOWS_MAX: u32 = 300;
const CHANGE_MIN: f64 = 1e-6;

/// Moments of a window at which a write may arrive: as many, evenly spread, are taken for all.
const ARRIVALS: u32 = 16;

/// Writes of one size that arrive independently (Poisson).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitedWrites {
    /// How many arrive per second.
    pub per_second: f64,
    /// Seconds in which the limit lets the bytes of one pass.
    pub seconds: f64,
}

/// A limit of the bytes per window, and all writes below it. They pass in the order in which they arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteLimit {
    /// Seconds of a window.
    pub window_seconds: f64,
    /// The writes, by size.
    pub writes: Vec<LimitedWrites>,
}

impl WriteLimit {
    /// The share of the limit that is used; 1 or more means that the writes that wait grow without limit. Infinite if a number is
    /// negative or not finite.
    pub fn utilisation(&self) -> f64 {
        let of = |writes: &LimitedWrites| Some(non_negative(writes.per_second)? * non_negative(writes.seconds)?);
        self.writes.iter().map(|writes| of(writes).unwrap_or(f64::INFINITY)).sum()
    }

    /// The time for which a write of `seconds` is stopped. `None` if a number is out of its domain, or the utilisation is above 99 %.
    ///
    /// What waits at the end of a window is `max(0, waited before + arrived - window)`, the recursion of Lindley in steps of a window. A
    /// write that arrives at the moment `u` of a window and with which `x` has arrived since the last window, passes at once if
    /// `x ≤ window`, and else waits for the begin of the window in which its last bytes pass: `window · (⌈x / window⌉ - 1) - u`.
    pub fn delay(&self, seconds: f64) -> Option<Distribution> {
        let (window, own) = (positive(self.window_seconds)?, non_negative(seconds)?);
        if self.utilisation() > LOAD_MAX {
            return None;
        }
        let before = self.waiting(window)?.plus(&Distribution::constant(own).ok()?);
        let mut delays = Vec::new();
        for arrival in 0..ARRIVALS {
            let moment = window * (f64::from(arrival) + 0.5) / f64::from(ARRIVALS);
            let arrived = before.plus(&self.arrived_in(moment)?);
            let of = |seconds: f64| (window * ((seconds / window).ceil() - 1.0) - moment).max(0.0);
            delays.extend(arrived.iter().map(|(seconds, mass)| (of(seconds), mass)));
        }
        Some(Distribution::from_weighted(delays.into_iter()))
    }

    /// What waits at the end of a window, in seconds of the limit.
    fn waiting(&self, window: f64) -> Option<Distribution> {
        let arrived = self.arrived_in(window)?;
        // Near the limit the mean is this one (Kingman, "The single server queue in heavy traffic", 1961), so that few steps remain.
        let variance = arrived.second_moment() - arrived.mean() * arrived.mean();
        let heavy = variance / (2.0 * (window - arrived.mean()));
        let mut waiting = Distribution::exponential(heavy).or_else(|_| Distribution::constant(0.0)).ok()?;
        for _ in 0..WINDOWS_MAX {
            // What is below zero counts as zero.
            let left = |(seconds, mass)| (seconds - window, mass);
            let next = Distribution::from_weighted(waiting.plus(&arrived).iter().map(left));
            let (before, after) = (waiting.second_moment(), next.second_moment());
            waiting = next;
            if (after - before).abs() <= CHANGE_MIN * after {
                break;
            }
        }
        Some(waiting)
    }

    /// The bytes that arrive in some time, in seconds of the limit.
    fn arrived_in(&self, time: f64) -> Option<Distribution> {
        let of_size = |writes: &LimitedWrites| {
            let counts = poisson(writes.per_second * time).into_iter();
            Distribution::from_weighted(counts.map(|(count, mass)| (count * writes.seconds, mass)))
        };
        let arrived = self.writes.iter().filter(|writes| writes.per_second > 0.0).map(of_size);
        arrived.reduce(|sum, size| sum.plus(&size)).or_else(|| Distribution::constant(0.0).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    /// Delays of the writes of the first size, with windows as the kernel has them.
    fn simulate(limit: &WriteLimit, count: usize) -> Vec<f64> {
        let mut random = OracleRandom::new(5);
        let window = limit.window_seconds;
        let mut next: Vec<f64> =
            limit.writes.iter().map(|writes| random.exponential(1.0 / writes.per_second)).collect();
        // The number of the window up to which the limit is used up, and what was written in it.
        let (mut at, mut used) = (0.0_f64, 0.0_f64);
        let mut delays = Vec::new();
        while delays.len() < count {
            let which = (0..next.len()).min_by(|a, b| next[*a].total_cmp(&next[*b])).unwrap();
            let (now, writes) = (next[which], limit.writes[which]);
            next[which] += random.exponential(1.0 / writes.per_second);
            let current = (now / window).floor();
            if current > at {
                (at, used) = (current, 0.0);
            }
            used += writes.seconds;
            while used > window {
                used -= window;
                at += 1.0;
            }
            if which == 0 {
                delays.push((at * window - now).max(0.0));
            }
        }
        delays
    }

    #[test]
    fn delays_are_those_of_simulated_windows() {
        for (utilisation, seconds, large) in [
            (0.5, 0.0066, 0.0),
            (0.7, 0.0066, 0.0),
            (0.9, 0.0066, 0.0),
            (0.6, 0.0066, 0.2),
            (0.8, 0.02, 0.0),
            (0.8, 0.0016, 0.4),
        ] {
            let mut writes = vec![LimitedWrites { per_second: utilisation / seconds, seconds }];
            if large > 0.0 {
                writes.push(LimitedWrites { per_second: 0.1, seconds: large });
            }
            let limit = WriteLimit { window_seconds: 0.1, writes };
            let (delay, mut simulated) = (limit.delay(seconds).unwrap(), simulate(&limit, 1_000_000));
            let name = format!("limit used to {utilisation}, writes of {seconds} s and {large} s");
            assert_near(&format!("{name}, mean delay"), delay.mean(), mean(&simulated), 0.2);
            let p99 = quantile(&mut simulated, 0.99);
            if p99 > 0.0 {
                assert_near(&format!("{name}, p99"), delay.quantile(0.99), p99, 0.1);
            }
        }
    }

    #[test]
    fn a_single_write_passes_at_once_if_it_fits_into_a_window() {
        let limit = WriteLimit { window_seconds: 0.1, writes: Vec::new() };
        assert_eq!(limit.delay(0.05).unwrap().mean(), 0.0);
        // From a random moment of the first window to the begin of the third one.
        assert_near("large", limit.delay(0.25).unwrap().mean(), 0.15, 1e-3);
        assert_eq!(limit.utilisation(), 0.0);
    }

    #[test]
    fn a_limit_that_is_used_up_has_no_delay() {
        let of =
            |per_second| WriteLimit { window_seconds: 0.1, writes: vec![LimitedWrites { per_second, seconds: 0.01 }] };
        assert!(of(100.0).delay(0.01).is_none() && of(98.0).delay(0.01).is_some());
        assert_near("utilisation", of(50.0).utilisation(), 0.5, 1e-9);
    }

    #[test]
    fn no_input_panics() {
        for window_seconds in [f64::NAN, 0.0, 5e-324, 0.1, f64::MAX] {
            for per_second in ODD_NUMBERS {
                for seconds in ODD_NUMBERS {
                    let limit = WriteLimit { window_seconds, writes: vec![LimitedWrites { per_second, seconds }] };
                    if let Some(delay) = limit.delay(seconds) {
                        assert!(delay.mean() >= 0.0 && limit.utilisation() < 1.0, "{limit:?} {delay:?}");
                    }
                }
            }
        }
    }
}
