//! Stores that all wait for the next pending segment, which a lease gives to one of them: how often the others fetch in vain.
//!
//! ```text
//!   store   ├ waits ┤├ fetches, gathers, acknowledges, pauses ┤├ waits …     it got the lease
//!           ├ waits ┤├ asks all queues in vain, pauses ┤├ waits …            it did not
//!                    ▲ a segment is pending
//! ```
//! Price of no coordination with leases: a segment is gathered once, but each idle store asks for it. So the requests in vain
//! grow with the number of idle stores, and vanish under load. [`Collision`](crate::Collision) is the price without leases.

use crate::number::{non_negative, positive};
use crate::shared_servers::{SERVERS_MAX, erlang_c};

/// Stores without work that wake up together at each pending segment.
///
/// Assumption: segments become pending independently of each other (Poisson), and every waiting store tries each. One gets it; the
/// others are in vain for `vain_seconds`, and then wait again, or take a segment that is pending meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeaseRace {
    /// Number of stores, from 1 to [`SERVERS_MAX`].
    pub stores: u32,
    /// Segments that become pending per second.
    pub segments_per_second: f64,
    /// Mean time in seconds that a store is busy with a segment, with the calls and pauses before it waits again.
    pub busy_seconds: f64,
    /// Mean time in seconds of an attempt in vain, with the pause after it.
    pub vain_seconds: f64,
}

impl LeaseRace {
    /// Mean number of stores that are not busy, waiting or in vain; `None` if an input is out of its domain, or the stores cannot
    /// keep up. Exact, by Little's law.
    pub fn idle_stores(&self) -> Option<f64> {
        let busy = positive(self.segments_per_second)? * positive(self.busy_seconds)?;
        let stores = f64::from(self.stores);
        ((1..=SERVERS_MAX).contains(&self.stores) && busy < stores).then_some(stores - busy)
    }

    /// Attempts in vain per gathered segment: `(idle − p) / (1 + rate · vain_seconds)`, with the probability *p* that a store
    /// waits for a segment. `None` as for [`idle_stores`](Self::idle_stores), and for an invalid time in vain.
    ///
    /// Derivation: a segment finds *w* waiting stores on average (Poisson arrivals see time averages, Wolff 1982), of which
    /// *w* − *p* are in vain. By Little's law `rate · (w − p) · vain_seconds` stores are in vain at a time, and
    /// `w = idle −` this number. Approximation of *p*, with Erlang C and `x = rate · vain_seconds`:
    /// `1 − C − (1 − C/ρ) · (1 − e^(−x)) / (1 + x)`. Not all stores are busy with `1 − C`. The idle ones are in vain together after a
    /// segment that found two of them, which has the probability `1 − C/ρ`. A share `x / (1 + x)` of the segments comes within
    /// this time, and finds no store that has ended its work since with `(1 − e^(−x)) / x`.
    pub fn vain_per_segment(&self) -> Option<f64> {
        let (idle, vain) = (self.idle_stores()?, non_negative(self.vain_seconds)?);
        let all_busy = erlang_c(self.stores, f64::from(self.stores) - idle);
        let within = self.segments_per_second * vain;
        let found = 1.0 - all_busy - self.two_idle()? * -(-within).exp_m1() / (1.0 + within);
        Some(((idle - found) / (1.0 + within)).max(0.0))
    }

    /// Mean time in seconds that a segment waits because the idle stores are in vain at its arrival, over all segments. It comes on
    /// top of the wait for busy stores. `None` as for [`vain_per_segment`](Self::vain_per_segment).
    ///
    /// With the terms of that formula: `(1 − C/ρ) · (1 − e^(−x) (1 + x)) / (rate · (1 + x))`, the mean of the rest of the time in
    /// vain and the time until a store ends its work, whichever is shorter. It leaves out that several segments may come within
    /// that time, so it is too short if `rate · vain_seconds` is large.
    pub fn vain_wait_seconds(&self) -> Option<f64> {
        let rate = self.segments_per_second;
        let within = rate * non_negative(self.vain_seconds)?;
        let none_until_end = 1.0 - (-within).exp() * (1.0 + within);
        let wait = self.two_idle()? * none_until_end.max(0.0) / (rate * (1.0 + within));
        Some(if wait.is_nan() { 0.0 } else { wait })
    }

    /// Probability that a segment finds two idle stores, by the probabilities of exponential service.
    fn two_idle(&self) -> Option<f64> {
        let busy = f64::from(self.stores) - self.idle_stores()?;
        Some((1.0 - erlang_c(self.stores, busy) * f64::from(self.stores) / busy).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near};

    #[derive(Clone, Copy, PartialEq)]
    enum RacingStore {
        Waiting,
        Until(f64),
    }

    /// Attempts in vain per segment of simulated stores, and the mean wait of a segment in seconds.
    fn simulate(model: &LeaseRace, variation: f64) -> (f64, f64) {
        let mut random = OracleRandom::new(31);
        let mut stores = vec![RacingStore::Waiting; model.stores as usize];
        let (mut next, mut pending, mut vain, mut waited) = (0.0, VecDeque::new(), 0_u32, 0.0);
        let segments = 200_000;
        let mut arrived = 0;
        while arrived < segments {
            let first_end = stores.iter().enumerate().filter_map(|(at, store)| match store {
                RacingStore::Waiting => None,
                RacingStore::Until(end) => Some((at, *end)),
            });
            let ends = first_end.min_by(|a, b| a.1.total_cmp(&b.1));
            match ends {
                Some((at, end)) if end <= next => {
                    stores[at] = RacingStore::Waiting;
                    if let Some(arrival) = pending.pop_front() {
                        waited += end - arrival;
                        stores[at] = RacingStore::Until(end + random.lognormal(model.busy_seconds, variation));
                    }
                }
                _ => {
                    arrived += 1;
                    let mut is_taken = false;
                    for store in stores.iter_mut().filter(|store| **store == RacingStore::Waiting) {
                        let took =
                            if is_taken { model.vain_seconds } else { random.lognormal(model.busy_seconds, variation) };
                        vain += u32::from(is_taken);
                        is_taken = true;
                        *store = RacingStore::Until(next + took);
                    }
                    pending.extend((!is_taken).then_some(next));
                    next += random.exponential(1.0 / model.segments_per_second);
                }
            }
        }
        (f64::from(vain) / f64::from(segments), waited / f64::from(segments))
    }

    #[test]
    fn attempts_in_vain_equal_those_of_simulated_stores() {
        for (stores, utilisation, vain_seconds, tolerance) in [
            (2, 0.3, 0.05, 0.05),
            (2, 0.85, 0.05, 0.2),
            (7, 0.3, 0.05, 0.03),
            (7, 0.6, 0.05, 0.03),
            (7, 0.85, 0.05, 0.2),
            (20, 0.6, 0.08, 0.03),
            (20, 0.85, 0.08, 0.15),
            (67, 0.3, 0.1, 0.03),
            (67, 0.85, 0.1, 0.15),
        ] {
            let segments_per_second = f64::from(stores) * utilisation / 0.7;
            let model = LeaseRace { stores, segments_per_second, busy_seconds: 0.7, vain_seconds };
            let name = format!("lease race of {stores} stores at {utilisation}");
            let (vain, wait) = simulate(&model, 0.5);
            assert_near(&name, model.vain_per_segment().unwrap(), vain, tolerance);
            if utilisation < 0.5 && stores > 2 {
                // Few segments wait for busy stores.
                assert_near(&format!("{name}, wait"), model.vain_wait_seconds().unwrap(), wait, 0.6);
            }
        }
    }

    #[test]
    fn a_single_or_a_busy_store_never_fetches_in_vain() {
        let one = LeaseRace { stores: 1, segments_per_second: 1.0, busy_seconds: 0.5, vain_seconds: 0.1 };
        assert!(one.vain_per_segment().unwrap() < 1e-12);
        assert_eq!(LeaseRace { segments_per_second: 2.0, ..one }.vain_per_segment(), None);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for stores in ODD_COUNTS {
            for segments_per_second in ODD_NUMBERS {
                for busy_seconds in ODD_NUMBERS {
                    for vain_seconds in ODD_NUMBERS {
                        let model = LeaseRace { stores, segments_per_second, busy_seconds, vain_seconds };
                        let vain = model.vain_per_segment();
                        assert!(
                            vain.is_none_or(|vain| vain >= 0.0 && vain <= f64::from(stores)),
                            "{model:?}: {vain:?}"
                        );
                    }
                }
            }
        }
    }
}
