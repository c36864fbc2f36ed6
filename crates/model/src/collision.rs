//! Stores that pick pending segments at random without coordination: how often two pick the same one.
//!
//! Price of no coordination: the work on a segment that another store picked too is wasted. The price falls as the backlog
//! grows, so a loaded cluster wastes nothing, and the backlog of an idle one is short anyway: the system stabilises itself.

use crate::number::{crossing, positive};

/// Backlogs above this number of segments count as this one.
const PENDING_MAX: f64 = 1e15;

/// Stores that each pick one of the pending segments, all equally likely and independently of each other.
///
/// Assumption: all stores pick at once, and of those with the same segment one does useful work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Collision {
    /// Number of stores that pick.
    pub stores: u32,
    /// Number of pending segments; below 1, or not a number, counts as 1.
    pub pending: f64,
}

impl Collision {
    fn pending(&self) -> f64 {
        if self.pending.is_nan() { 1.0 } else { self.pending.clamp(1.0, PENDING_MAX) }
    }

    /// The chance that one store misses a given segment, to the power of `stores`; by logarithms, as it is close to 1.
    fn missed_by(&self, stores: f64) -> f64 {
        let pending = self.pending();
        if stores <= 0.0 { 1.0 } else { (stores * (-1.0 / pending).ln_1p()).exp() }
    }

    /// Probability that another store picks the segment that one store picked: `1 − (1 − 1/pending)^(stores − 1)`.
    ///
    /// Exact under the assumption. Source: the birthday problem, in Feller, "An Introduction to Probability Theory and Its
    /// Applications", volume 1, 1968, section II.3.
    pub fn probability(&self) -> f64 {
        1.0 - self.missed_by(f64::from(self.stores) - 1.0)
    }

    /// Mean number of different segments among the picks: `pending · (1 − (1 − 1/pending)^stores)`.
    pub fn useful_picks(&self) -> f64 {
        let pending = self.pending();
        if pending == 1.0 {
            return f64::from(self.stores.min(1));
        }
        -pending * (f64::from(self.stores) * (-1.0 / pending).ln_1p()).exp_m1()
    }

    /// Mean share of the picks that is wasted, from 0 to 1.
    pub fn wasted_share(&self) -> f64 {
        if self.stores == 0 { 0.0 } else { (1.0 - self.useful_picks() / f64::from(self.stores)).clamp(0.0, 1.0) }
    }

    /// Segments fetched per segment that is stored: 1 without collisions, at most `stores`.
    pub fn fetched_per_stored(&self) -> f64 {
        if self.stores == 0 { 1.0 } else { f64::from(self.stores) / self.useful_picks() }
    }

    /// The backlog that settles if `stores` stores need `pick_seconds` for a segment, wasted or not, and
    /// `segments_per_second` segments arrive: the one at which as many are stored as arrive.
    ///
    /// `None` if the stores could not keep up even without collisions, or an input is 0, negative or not finite. If less than one
    /// segment arrives per round of picks, the backlog is 1: stores are idle for a part of the time.
    /// Approximation: the mean backlog stands for its distribution. At short backlogs the mean backlog is longer by up to 40 %,
    /// and the share of wasted picks smaller.
    pub fn settled(stores: u32, pick_seconds: f64, segments_per_second: f64) -> Option<Self> {
        let arrivals = positive(positive(pick_seconds)? * positive(segments_per_second)?)?;
        if arrivals >= f64::from(stores) {
            return None;
        }
        // The logarithm of the backlog is halved, as it spans fifteen factors of 10.
        let exponent = crossing(0.0, PENDING_MAX.ln(), arrivals, |exponent| {
            Self { stores, pending: exponent.exp() }.useful_picks()
        });
        Some(Self { stores, pending: if arrivals <= 1.0 { 1.0 } else { exponent.exp() } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near};

    /// The different segments among the picks of one round.
    fn useful(random: &mut OracleRandom, stores: u32, pending: usize) -> usize {
        let mut picks: Vec<usize> = (0..stores).map(|_| random.below(pending)).collect();
        picks.sort_unstable();
        picks.dedup();
        picks.len()
    }

    #[test]
    fn collisions_equal_those_of_simulated_picks() {
        let mut random = OracleRandom::new(1);
        for (stores, pending) in [(2, 2), (3, 10), (10, 10), (10, 200), (5, 1)] {
            let model = Collision { stores, pending: pending as f64 };
            let (mut collided, mut different) = (0, 0);
            for _ in 0..200_000 {
                let first = random.below(pending);
                collided += u32::from((1..stores).any(|_| random.below(pending) == first));
                different += useful(&mut random, stores, pending);
            }
            let name = format!("collision of {stores} stores at {pending} segments");
            assert_near(&format!("{name}, probability"), model.probability(), f64::from(collided) / 2e5, 0.02);
            assert_near(&format!("{name}, useful picks"), model.useful_picks(), different as f64 / 2e5, 0.005);
        }
    }

    #[test]
    fn the_backlog_settles_where_the_simulated_one_does() {
        for (stores, load) in [(3, 0.6), (5, 0.8), (10, 0.9), (10, 0.98)] {
            let arrivals = f64::from(stores) * load;
            let model = Collision::settled(stores, 0.5, arrivals / 0.5).unwrap();
            let mut random = OracleRandom::new(2);
            let (mut pending, mut sum, mut rounds, mut picks, mut stored) = (0, 0, 0_u32, 0_u32, 0);
            let mut next = 0.0;
            for round in 0..300_000 {
                while next < f64::from(round) {
                    pending += 1;
                    next += random.exponential(1.0 / arrivals);
                }
                if pending > 0 {
                    let useful = useful(&mut random, stores, pending);
                    (sum, rounds, picks) = (sum + pending, rounds + 1, picks + stores);
                    (pending, stored) = (pending - useful, stored + useful);
                }
            }
            let name = format!("backlog of {stores} stores at load {load}");
            assert_near(&name, model.pending, sum as f64 / f64::from(rounds), 0.4);
            let ratio = f64::from(picks) / stored as f64;
            assert_near(&format!("{name}, fetched per stored"), model.fetched_per_stored(), ratio, 0.25);
        }
        assert_eq!(Collision::settled(3, 0.5, 6.0), None);
    }

    #[test]
    fn collisions_vanish_as_the_backlog_grows() {
        let wasted = |pending| Collision { stores: 10, pending }.wasted_share();
        assert!((wasted(1.0) - 0.9).abs() < 1e-12);
        assert!(wasted(10.0) > wasted(100.0) && wasted(100.0) > wasted(1e4));
        assert_near("waste at a large backlog", wasted(1e9), 4.5e-9, 1e-5);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for stores in ODD_COUNTS {
            for pending in ODD_NUMBERS {
                let model = Collision { stores, pending };
                for share in [model.probability(), model.wasted_share()] {
                    assert!((0.0..=1.0).contains(&share), "{model:?}: {share}");
                }
                assert!(model.fetched_per_stored() >= 1.0 - 1e-9, "{model:?}");
                for rate in ODD_NUMBERS {
                    let _ = Collision::settled(stores, pending, rate);
                }
            }
        }
    }
}
