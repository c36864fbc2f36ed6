//! CPU quotas, such as the CPU limit of a container: the kernel stops a process that has used its share of a period until the next
//! period begins.
//!
//! Turner, Rao and Rao, "CPU bandwidth control for CFS", Linux Symposium 2010. A quota is no slow core. Work that fits into what is
//! left of the period runs at full speed; other work also waits for the rest of the period.
//!
//! Left out: the kernel finds out at its next tick, so a process runs up to 4 ms longer, and is then stopped for longer. Quotas of
//! a few milliseconds per period are worse than predicted here.

use crate::distribution::{Distribution, SECONDS_MAX};
use crate::number::{non_negative, positive};

/// The moments of a period at which work may arrive: as many, evenly spread, are taken for all.
const ARRIVALS: u32 = 64;

/// What a process may run in each period before the kernel stops it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuQuota {
    /// Seconds of a period.
    pub period_seconds: f64,
    /// Seconds of it in which the process runs if it has work at all times: the CPU time of the quota over the cores that it uses
    /// meanwhile. As long as the period or longer without an effect.
    pub open_seconds: f64,
}

impl CpuQuota {
    /// The time that work takes which is the only one of its process, from its arrival at a random moment; `work` is its time
    /// without a quota. The process has its whole quota left in the period of the arrival.
    ///
    /// `None` if the quota lets nothing run or a number is out of its domain.
    pub fn alone(&self, work: &Distribution) -> Option<Distribution> {
        self.elapsed(work, |quota, arrival| quota.open_seconds.min(quota.period_seconds - arrival))
    }

    /// The same for work of a process that runs at all other times, and so uses up its quota in each period: only the first
    /// part of each period is left for it, and work that arrives later waits.
    pub fn beside(&self, work: &Distribution) -> Option<Distribution> {
        self.elapsed(work, |quota, arrival| (quota.open_seconds - arrival).max(0.0))
    }

    /// The share of the time in which a process that always has work is stopped.
    pub fn stopped_share(&self) -> f64 {
        (1.0 - self.open_seconds / self.period_seconds).max(0.0)
    }

    /// `first` says for how long work may run in the period in which it arrives, that many seconds after its begin.
    fn elapsed(&self, work: &Distribution, first: impl Fn(&Self, f64) -> f64) -> Option<Distribution> {
        let (period, open) = (positive(self.period_seconds)?, non_negative(self.open_seconds)?);
        if open >= period {
            return Some(work.clone());
        }
        if open == 0.0 {
            return None;
        }
        let arrivals = || (0..ARRIVALS).map(|at| (f64::from(at) + 0.5) / f64::from(ARRIVALS) * period);
        let seconds = |work: f64, arrival: f64| {
            let left = work - first(self, arrival);
            if left <= 0.0 {
                return work;
            }
            // The last period is the one in which it ends.
            let whole = (left / open).ceil() - 1.0;
            let end = period - arrival + whole * period + (left - whole * open);
            // Not a number, if there are more periods than numbers.
            end.min(SECONDS_MAX)
        };
        let of_work = |(work, mass): (f64, f64)| arrivals().map(move |arrival| (seconds(work, arrival), mass));
        Some(Distribution::from_weighted(work.iter().flat_map(of_work)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    /// Runs work in steps of a thousandth of the period. `is_busy`: other work uses what is left of each period.
    fn simulate(quota: CpuQuota, work: f64, is_busy: bool, random: &mut OracleRandom) -> f64 {
        let step = quota.period_seconds / 1_000.0;
        let arrival = (random.unit() * 1_000.0) as u64;
        let (mut done, mut used, mut now) = (0.0, 0.0, 0_u64);
        loop {
            if now.is_multiple_of(1_000) {
                used = 0.0;
            }
            let may_run = used < quota.open_seconds;
            if now >= arrival && may_run {
                done += step;
            }
            if may_run && (is_busy || now >= arrival) {
                used += step;
            }
            now += 1;
            if done >= work {
                return (now - arrival) as f64 * step;
            }
        }
    }

    #[test]
    fn times_are_those_of_a_simulation() {
        let mut random = OracleRandom::new(7);
        for (open, work) in [(0.025, 0.002), (0.025, 0.04), (0.0125, 0.2), (0.08, 0.05), (0.08, 0.3)] {
            let quota = CpuQuota { period_seconds: 0.1, open_seconds: open };
            let of_work = Distribution::constant(work).unwrap();
            for (is_busy, formula) in [(false, quota.alone(&of_work)), (true, quota.beside(&of_work))] {
                let mut times: Vec<f64> = (0..4_000).map(|_| simulate(quota, work, is_busy, &mut random)).collect();
                let (formula, name) = (formula.unwrap(), format!("open {open}, work {work}, busy {is_busy}"));
                assert_near(&format!("{name}, mean"), formula.mean(), mean(&times), 0.03);
                let simulated = quantile(&mut times, 0.99);
                assert_near(&format!("{name}, p99"), formula.quantile(0.99), simulated, 0.09);
            }
        }
    }

    #[test]
    fn a_short_request_waits_for_the_next_period_or_not_at_all() {
        let quota = CpuQuota { period_seconds: 0.1, open_seconds: 0.02 };
        let work = Distribution::constant(1e-6).unwrap();
        assert_near("alone", quota.alone(&work).unwrap().mean(), 1e-6, 1e-3);
        // Four of five arrive while the process is stopped, and wait for 40 ms on average.
        assert_near("beside", quota.beside(&work).unwrap().mean(), 0.8 * 0.04, 0.01);
        assert!((quota.stopped_share() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn long_work_takes_its_share() {
        let quota = CpuQuota { period_seconds: 0.1, open_seconds: 0.02 };
        let work = Distribution::constant(10.0).unwrap();
        for time in [quota.alone(&work), quota.beside(&work)] {
            assert_near("long work", time.unwrap().mean(), 50.0, 0.003);
        }
    }

    #[test]
    fn no_input_panics() {
        let work = Distribution::constant(1.0).unwrap();
        for period_seconds in ODD_NUMBERS {
            for open_seconds in ODD_NUMBERS {
                let quota = CpuQuota { period_seconds, open_seconds };
                for time in [quota.alone(&work), quota.beside(&work)].into_iter().flatten() {
                    assert!(time.mean() >= 0.99 && open_seconds > 0.0 && period_seconds > 0.0, "{quota:?} {time:?}");
                }
                let _ = quota.stopped_share();
            }
        }
    }
}
