//! Group commit: writes that share one sync.
//!
//! A write waits until the running commit ends, and then for the commit that contains it. A commit contains all writes that
//! arrived while the one before ran, so under load commits grow instead of the queue.
//!
//! ```text
//!   write arrives        ▼
//!   commits     ├── running ──┤├── own: work of each write, sync ──┤ acknowledged
//!                        └ rest ┘
//! ```
//!
//! Price: a write that arrives during a commit waits half of a commit longer on average than with a sync of its own.

use crate::distribution::Distribution;
use crate::number::{non_negative, positive};

/// Above this share of the maximum rate a steady state takes too long to matter, and counts as none.
const LOAD_MAX: f64 = 0.99;

/// Most repetitions until the distribution of commits is stable.
const ROUNDS_MAX: u32 = 1_000;

/// Relative change of the second moment at which it counts as stable.
const CHANGE_MIN: f64 = 1e-8;

/// Up to this mean all counts of a Poisson distribution are enumerated; above it a normal distribution stands for it.
const POISSON_MEAN_MAX: f64 = 40.0;

/// Equal parts of a commit at which a write may arrive.
const ARRIVAL_PARTS: u32 = 16;

/// Writes that arrive independently of each other (Poisson) and are acknowledged by group commits.
///
/// Assumption: at most one commit runs. It takes the work of each of its writes, one after the other, and one sync. A write that
/// arrives while none runs starts one at once.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupCommit {
    /// Mean number of writes per second.
    pub writes_per_second: f64,
    /// Duration of one sync in seconds, however many writes it has.
    pub sync: Distribution,
    /// Seconds that each write adds to its commit.
    pub write_seconds: f64,
}

/// Group commits per second, as if each sync took its mean time; `None` as for [`GroupCommit::solve`], which is exact and takes much
/// longer.
///
/// A commit lasts for its sync and the work of the writes that arrive during a commit. The next one begins at once if a write
/// has arrived, else with the next write (renewal reward).
pub fn commits_per_second(writes_per_second: f64, sync_seconds: f64, write_seconds: f64) -> Option<f64> {
    let rate = positive(writes_per_second)?;
    let load = rate * non_negative(write_seconds)?;
    if load > LOAD_MAX {
        return None;
    }
    let commit = positive(sync_seconds)? / (1.0 - load);
    positive(1.0 / (commit + (-rate * commit).exp() / rate))
}

/// The steady state of a [`GroupCommit`].
#[derive(Clone, Debug, PartialEq)]
pub struct CommitCycle {
    /// Duration of a commit in seconds.
    pub commit: Distribution,
    /// Commits per second.
    pub commits_per_second: f64,
    /// Mean number of writes in a commit.
    pub batch_mean: f64,
    /// Share of time in which no commit runs, which is also the share of writes that start one at once.
    pub idle_share: f64,
    /// Time in seconds from the arrival of a write to its acknowledgement.
    pub ack: Distribution,
}

/// Counts of a Poisson distribution with their probabilities, which sum up to 1.
pub(crate) fn poisson(mean: f64) -> Vec<(f64, f64)> {
    let weights: Vec<(f64, f64)> = if mean <= POISSON_MEAN_MAX {
        let terms = (0..120_u32).scan((-mean).exp(), |term, count| {
            let weight = *term;
            *term *= mean / f64::from(count + 1);
            Some((f64::from(count), weight))
        });
        terms.filter(|(_, weight)| *weight > 1e-13).collect()
    } else {
        (-8..=8).map(|at| f64::from(at) / 2.0).map(|z| (mean + z * mean.sqrt(), (-z * z / 2.0).exp())).collect()
    };
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    weights.into_iter().map(|(count, weight)| (count, weight / sum)).collect()
}

impl GroupCommit {
    /// Writes per second that no steady state can reach: one per `write_seconds`, as a sync is shared by any number of writes.
    /// Infinite if a write adds nothing; 0 if `write_seconds` is invalid.
    pub fn writes_per_second_max(&self) -> f64 {
        non_negative(self.write_seconds).map_or(0.0, |seconds| 1.0 / seconds)
    }

    /// The steady state. `None` if an input is negative or not finite, the rate or the duration of a sync is 0, or the rate is
    /// above 99 % of [`writes_per_second_max`](Self::writes_per_second_max), or so small that the time between writes is infinite.
    ///
    /// Exact but for the grid: the duration of a commit depends on that of the one before only, by the number of writes that
    /// arrive meanwhile, so its distribution is the fixed point of one step of this chain. Shares of time follow from the mean
    /// cycle of a commit and the idle time after it (renewal reward). A write is in a commit of a length in proportion to that
    /// length, at a uniform position.
    /// Source: the queue with service of all waiting requests at once (Bailey, "On queueing processes with bulk service", 1954),
    /// with a service time that depends on the size of the batch.
    pub fn solve(&self) -> Option<CommitCycle> {
        let rate = positive(self.writes_per_second)?;
        let work = non_negative(self.write_seconds)?;
        let load = rate * work;
        if load > LOAD_MAX || self.sync.mean() <= 0.0 {
            return None;
        }
        let commit = self.commit_duration(rate, work, load)?;
        let commit_mean = commit.mean();
        let idle_seconds: f64 = commit.iter().map(|(seconds, mass)| mass * (-rate * seconds).exp()).sum::<f64>() / rate;
        let cycle = commit_mean + idle_seconds;
        positive(cycle)?;
        let idle_share = idle_seconds / cycle;
        let mut waits = vec![(work, idle_share)];
        for (seconds, mass) in commit.iter().filter(|(_, mass)| *mass > 1e-12) {
            let weight = (1.0 - idle_share) * mass * seconds / commit_mean / f64::from(ARRIVAL_PARTS);
            for (others, probability) in poisson(rate * seconds) {
                let parts = (0..ARRIVAL_PARTS).map(|part| seconds * (f64::from(part) + 0.5) / f64::from(ARRIVAL_PARTS));
                waits.extend(parts.map(|rest| (rest + work * (1.0 + others), weight * probability)));
            }
        }
        let ack = Distribution::from_weighted(waits.into_iter()).plus(&self.sync);
        Some(CommitCycle { commit, commits_per_second: 1.0 / cycle, batch_mean: rate * cycle, idle_share, ack })
    }

    /// The fixed point of the duration of a commit.
    fn commit_duration(&self, rate: f64, work: f64, load: f64) -> Option<Distribution> {
        if work == 0.0 {
            return Some(self.sync.clone());
        }
        // Near the maximum rate the mean is this one, so that few steps remain.
        let sync_mean = self.sync.mean();
        let extra = Distribution::constant((sync_mean / (1.0 - load) - sync_mean).min(crate::SECONDS_MAX)).ok()?;
        let mut commit = self.sync.plus(&extra);
        for _ in 0..ROUNDS_MAX {
            let batches = commit.iter().filter(|(_, mass)| *mass > 1e-12).flat_map(|(seconds, mass)| {
                let counts = poisson(rate * seconds).into_iter();
                counts.map(move |(count, probability)| (work * count.max(1.0), mass * probability))
            });
            let next = Distribution::from_weighted(batches).plus(&self.sync);
            let (before, after) = (commit.second_moment(), next.second_moment());
            commit = next;
            if (after - before).abs() <= CHANGE_MIN * after {
                break;
            }
        }
        Some(commit)
    }

    /// The time in seconds from the arrival of a write to its acknowledgement; `None` as for [`solve`](Self::solve).
    pub fn ack(&self) -> Option<Distribution> {
        Some(self.solve()?.ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    struct SimulatedCommits {
        acks: Vec<f64>,
        commits_per_second: f64,
        idle_share: f64,
    }

    fn simulate(rate: f64, work: f64, sync: impl Fn(&mut OracleRandom) -> f64) -> SimulatedCommits {
        let mut random = OracleRandom::new(3);
        let (mut acks, mut commits, mut busy) = (Vec::new(), 0, 0.0);
        let mut arrival = random.exponential(1.0 / rate);
        let mut now = 0.0_f64;
        while acks.len() < 2_000_000 {
            now = now.max(arrival);
            let mut batch = Vec::new();
            while arrival <= now {
                batch.push(arrival);
                arrival += random.exponential(1.0 / rate);
            }
            let duration = sync(&mut random) + work * batch.len() as f64;
            now += duration;
            busy += duration;
            commits += 1;
            acks.extend(batch.into_iter().map(|arrival| now - arrival));
        }
        SimulatedCommits { acks, commits_per_second: f64::from(commits) / now, idle_share: 1.0 - busy / now }
    }

    #[test]
    fn acks_equal_those_of_simulated_commits() {
        for (rate, work, variation) in [
            (10.0, 1e-4, 0.5),
            (200.0, 1e-4, 0.5),
            (200.0, 0.0, 1.0),
            (1_000.0, 5e-4, 0.5),
            (5_000.0, 1e-4, 1.0),
            (8_000.0, 1e-4, 0.5),
        ] {
            let sync = Distribution::lognormal(0.004, variation).unwrap();
            let model = GroupCommit { writes_per_second: rate, sync, write_seconds: work };
            let cycle = model.solve().unwrap();
            let mut simulated = simulate(rate, work, |random| random.lognormal(0.004, variation));
            let name = format!("group commit, {rate} writes/s of {work} s, variation {variation}");
            assert_near(&format!("{name}, mean ack"), cycle.ack.mean(), mean(&simulated.acks), 0.025);
            let commits = cycle.commits_per_second;
            assert_near(&format!("{name}, commits"), commits, simulated.commits_per_second, 0.02);
            let estimate = commits_per_second(rate, 0.004, work).unwrap();
            assert_near(&format!("{name}, commits by the mean sync"), estimate, simulated.commits_per_second, 0.2);
            let idle = (cycle.idle_share - simulated.idle_share).abs();
            assert!(idle < 0.005, "{name}: idle {} {}", cycle.idle_share, simulated.idle_share);
            for probability in [0.5, 0.9, 0.99] {
                let want = quantile(&mut simulated.acks, probability);
                assert_near(&format!("{name}, quantile {probability}"), cycle.ack.quantile(probability), want, 0.03);
            }
        }
    }

    #[test]
    fn an_idle_disk_acknowledges_after_one_sync_and_a_busy_one_after_one_and_a_half() {
        let sync = Distribution::constant(0.01).unwrap();
        let at = |rate| GroupCommit { writes_per_second: rate, sync: sync.clone(), write_seconds: 0.0 };
        assert_near("idle", at(1e-3).ack().unwrap().mean(), 0.01, 1e-4);
        assert_near("busy", at(1e5).ack().unwrap().mean(), 0.015, 1e-3);
        assert_near("batch", at(1e5).solve().unwrap().batch_mean, 1_000.0, 1e-3);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for writes_per_second in ODD_NUMBERS {
            for write_seconds in ODD_NUMBERS {
                for sync in [0.0, 1e-6, 1.0, 1e5] {
                    let sync = Distribution::constant(sync).unwrap();
                    let model = GroupCommit { writes_per_second, sync, write_seconds };
                    let (max, cycle) = (model.writes_per_second_max(), model.solve());
                    let is_valid =
                        cycle.as_ref().is_none_or(|cycle| cycle.batch_mean >= 1.0 - 1e-9 && max >= writes_per_second);
                    assert!(is_valid, "{model:?} {cycle:?}");
                }
            }
        }
    }
}
