//! Background work with a guaranteed share of the cores: encoding and compaction beside queries.
//!
//! Background work yields to foreground work, but only down to its guaranteed share. Price: under full foreground load the
//! foreground is slower by that share, and the sustainable ingest is limited by it.

use crate::number::{non_negative, positive, share};

/// Background work that is guaranteed a share of the cores.
///
/// Assumption: no core is idle while there is work of either kind, and only cores limit both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundShare {
    /// Number of cores, which may be a fraction, as under a quota.
    pub cores: f64,
    /// Share of the cores that background work gets at least if it has work, from 0 to 1.
    pub share_min: f64,
    /// Seconds of one core that a byte of ingest costs in the background.
    pub seconds_per_byte: f64,
}

impl BackgroundShare {
    /// Cores that background work can use while the foreground demands the share `foreground_load` of all cores; more than
    /// 1 means that the foreground has more work than cores.
    ///
    /// `max(share_min, 1 − foreground_load) · cores`, by conservation of work: Kleinrock, "Queueing Systems", volume 2, 1976,
    /// section 3.4. `None` if an input is out of its domain.
    pub fn cores_available(&self, foreground_load: f64) -> Option<f64> {
        let load = non_negative(foreground_load)?;
        Some(share(self.share_min)?.max(1.0 - load) * positive(self.cores)?)
    }

    /// Largest rate of ingest in bytes per second whose background work keeps up with the given foreground load.
    /// `None` if an input is out of its domain, infinite if a byte costs nothing.
    pub fn bytes_per_second_max(&self, foreground_load: f64) -> Option<f64> {
        let seconds = non_negative(self.seconds_per_byte)?;
        let cores = self.cores_available(foreground_load)?;
        Some(if seconds == 0.0 { f64::INFINITY } else { cores / seconds })
    }

    /// Whether the backlog stays bounded at a rate of ingest and a foreground load; false also for an invalid input.
    pub fn is_stable(&self, bytes_per_second: f64, foreground_load: f64) -> bool {
        let max = self.bytes_per_second_max(foreground_load);
        non_negative(bytes_per_second).zip(max).is_some_and(|(rate, max)| rate <= max)
    }

    /// Factor by which foreground work that uses all cores takes longer because of the background work of a rate of ingest:
    /// `1 / (1 − used)`, where `used` is the demand as a share of all cores, at most `share_min`.
    ///
    /// `None` if an input is out of its domain, or background work takes all cores.
    pub fn foreground_slowdown(&self, bytes_per_second: f64) -> Option<f64> {
        let demand = non_negative(bytes_per_second)? * non_negative(self.seconds_per_byte)? / positive(self.cores)?;
        let used = demand.min(share(self.share_min)?);
        (used < 1.0).then(|| 1.0 / (1.0 - used))
    }

    /// Seconds until a backlog is done, while ingest and foreground load continue. `None` if it never is, or an input is
    /// out of its domain.
    pub fn backlog_seconds(&self, backlog_bytes: f64, bytes_per_second: f64, foreground_load: f64) -> Option<f64> {
        let backlog = non_negative(backlog_bytes)? * non_negative(self.seconds_per_byte)?;
        if backlog == 0.0 {
            return Some(0.0);
        }
        let demand = non_negative(bytes_per_second)? * self.seconds_per_byte;
        let spare = self.cores_available(foreground_load)? - demand;
        (spare > 0.0).then(|| backlog / spare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near};

    struct SimulatedBacklog {
        backlog_seconds: f64,
        /// Foreground work done, as a share of the cores, until the backlog was done.
        foreground: f64,
    }

    /// Time slices of each core go to one kind of work. The background gets one if it had less than its share of the slices
    /// in which the foreground had work too, or if there is no foreground work.
    fn simulate(model: &BackgroundShare, backlog_bytes: f64, bytes_per_second: f64, load: f64) -> SimulatedBacklog {
        const SLICE: f64 = 0.001;
        let mut random = OracleRandom::new(9);
        let (mut backlog, mut foreground, mut done, mut now) = (backlog_bytes * model.seconds_per_byte, 0.0, 0.0, 0.0);
        let (mut contended, mut granted) = (0.0, 0.0);
        let mut arrival = 0.0;
        while backlog > 0.0 {
            // Foreground jobs of 20 ms on average arrive at random.
            while arrival <= now {
                foreground += random.exponential(0.02);
                arrival += random.exponential(0.02 / (load * model.cores));
            }
            for _ in 0..model.cores as u32 {
                if foreground > 0.0 {
                    contended += 1.0;
                    if granted < model.share_min * contended && backlog > 0.0 {
                        granted += 1.0;
                        backlog -= SLICE;
                    } else {
                        foreground -= SLICE;
                        done += SLICE;
                    }
                } else {
                    backlog -= SLICE;
                }
            }
            backlog += bytes_per_second * model.seconds_per_byte * SLICE;
            now += SLICE;
        }
        SimulatedBacklog { backlog_seconds: now, foreground: done / (now * model.cores) }
    }

    #[test]
    fn a_backlog_is_done_when_the_simulated_one_is() {
        let model = BackgroundShare { cores: 4.0, share_min: 0.25, seconds_per_byte: 1e-8 };
        for (rate, load) in [(50e6, 2.0), (80e6, 1.5), (50e6, 0.9), (100e6, 0.5), (0.0, 0.3)] {
            let simulated = simulate(&model, 3e10, rate, load);
            let name = format!("background at {rate} bytes/s and load {load}");
            let formula = model.backlog_seconds(3e10, rate, load).unwrap();
            assert_near(&format!("{name}, backlog"), formula, simulated.backlog_seconds, 0.03);
            assert_near(&format!("{name}, foreground"), load.min(0.75), simulated.foreground, 0.03);
        }
    }

    #[test]
    fn the_largest_rate_is_the_bound_of_stability() {
        let model = BackgroundShare { cores: 2.0, share_min: 0.1, seconds_per_byte: 7e-9 };
        let max = model.bytes_per_second_max(1.0).unwrap();
        assert_near("largest rate", max, 0.2 / 7e-9, 1e-12);
        assert!(model.is_stable(max * 0.999, 1.0) && !model.is_stable(max * 1.001, 1.0));
        assert!(model.is_stable(max * 1.001, 0.8));
        assert_eq!(model.backlog_seconds(1.0, max * 1.001, 1.0), None);
        // All of the share is used at this rate, so the foreground has nine tenths.
        assert_near("slow-down", model.foreground_slowdown(max * 5.0).unwrap(), 1.0 / 0.9, 1e-12);
        assert_near("slow-down at half", model.foreground_slowdown(max / 2.0).unwrap(), 1.0 / 0.95, 1e-12);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for cores in ODD_NUMBERS {
            for share_min in ODD_NUMBERS {
                for seconds_per_byte in ODD_NUMBERS {
                    let model = BackgroundShare { cores, share_min, seconds_per_byte };
                    for number in ODD_NUMBERS {
                        let slowdown = model.foreground_slowdown(number);
                        assert!(slowdown.is_none_or(|factor| factor >= 1.0), "{model:?} {number}");
                        let _ = (model.is_stable(number, 1.0), model.backlog_seconds(number, 1.0, number));
                    }
                }
            }
        }
    }
}
