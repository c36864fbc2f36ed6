//! One server with a queue: M/G/1, Poisson arrivals, any service time, first come first served.
//!
//! Stands for one writer of a queue segment, one disk, or one thread that takes jobs in turn.

use crate::distribution::Distribution;
use crate::number::non_negative;

/// A server that serves one request at a time, in the order of arrival, and never pauses while one waits.
///
/// Assumption: arrivals are independent of each other (Poisson), and service times are independent of arrivals and of each
/// other. Arrivals in bursts wait longer than this model predicts.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleServer {
    /// Mean number of arriving requests per second.
    pub arrivals_per_second: f64,
    /// Service time of one request in seconds, without its wait.
    pub service: Distribution,
}

impl SingleServer {
    /// The share of time in which the server is busy; 1 or more means that the queue grows without limit.
    /// Infinite if the rate is negative or not finite.
    pub fn utilisation(&self) -> f64 {
        non_negative(self.arrivals_per_second).map_or(f64::INFINITY, |rate| rate * self.service.mean())
    }

    /// Mean time in seconds from the arrival of a request to the begin of its service; `None` if the utilisation is 1 or more.
    ///
    /// Source: the formula of Pollaczek and Khinchine, in Kleinrock, "Queueing Systems", volume 1, 1975, section 5.6:
    /// `rate · second_moment / (2 (1 − utilisation))`.
    pub fn mean_wait(&self) -> Option<f64> {
        let utilisation = self.utilisation();
        let wait = self.arrivals_per_second * self.service.second_moment() / (2.0 * (1.0 - utilisation));
        (utilisation < 1.0).then_some(wait)
    }

    /// The time in seconds that a request waits for its service; `None` if the utilisation is 1 or more.
    ///
    /// Exact but for the grid: the wait is the sum of *n* independent residual service times with the probability
    /// `(1 − utilisation) · utilisation^n`. Source: Beneš, "On queues with Poisson arrivals", 1957.
    pub fn wait(&self) -> Option<Distribution> {
        self.service.residual().geometric_sum(self.utilisation())
    }

    /// The time in seconds from the arrival of a request to the end of its service; `None` if the utilisation is 1 or more.
    pub fn response(&self) -> Option<Distribution> {
        Some(self.wait()?.plus(&self.service))
    }

    /// The knee: arrivals per second at which the mean response is twice the mean service time.
    ///
    /// It depends on the service time only: `1 / (mean · (1 + (1 + variation²) / 2))`, half of the capacity if service times are
    /// exponential, and two thirds if they are constant. Infinite if the service time is zero.
    pub fn knee(&self) -> f64 {
        let variation = self.service.variation();
        1.0 / (self.service.mean() * (1.0 + (1.0 + variation * variation) / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    /// Responses of a simulated queue, by the recursion of Lindley: each wait follows from the one before.
    fn simulate(rate: f64, count: usize, mut service: impl FnMut(&mut OracleRandom) -> f64) -> Vec<f64> {
        let mut random = OracleRandom::new(7);
        let mut wait = 0.0_f64;
        let responses = (0..count).map(|_| {
            let response = wait + service(&mut random);
            wait = (response - random.exponential(1.0 / rate)).max(0.0);
            response
        });
        responses.collect()
    }

    #[test]
    fn responses_equal_those_of_a_simulated_queue() {
        let check = |name: &str, utilisation: f64, service: Distribution, sample: fn(&mut OracleRandom) -> f64| {
            let server = SingleServer { arrivals_per_second: utilisation / 0.01, service };
            let response = server.response().unwrap();
            let mut values = simulate(server.arrivals_per_second, 1_500_000, sample);
            let name = format!("M/G/1 {name} at {utilisation}");
            assert_near(&format!("{name}, mean wait"), server.mean_wait().unwrap(), mean(&values) - 0.01, 0.02);
            assert_near(&format!("{name}, mean of response"), response.mean(), mean(&values), 0.02);
            for (probability, tolerance) in [(0.5, 0.025), (0.9, 0.025), (0.99, 0.04)] {
                let simulated = quantile(&mut values, probability);
                let what = format!("{name}, quantile {probability}");
                assert_near(&what, response.quantile(probability), simulated, tolerance);
            }
        };
        check("exponential", 0.5, Distribution::exponential(0.01).unwrap(), |random| random.exponential(0.01));
        check("exponential", 0.8, Distribution::exponential(0.01).unwrap(), |random| random.exponential(0.01));
        check("constant", 0.8, Distribution::constant(0.01).unwrap(), |_| 0.01);
        check("lognormal 2", 0.3, Distribution::lognormal(0.01, 2.0).unwrap(), |random| random.lognormal(0.01, 2.0));
        check("lognormal 1", 0.7, Distribution::lognormal(0.01, 1.0).unwrap(), |random| random.lognormal(0.01, 1.0));
        check("uniform", 0.7, Distribution::uniform(0.0, 0.02).unwrap(), |random| 0.02 * random.unit());
    }

    #[test]
    fn an_exponential_server_has_exponential_responses() {
        for utilisation in [0.1, 0.5, 0.9, 0.99] {
            let service = Distribution::exponential(0.001).unwrap();
            let server = SingleServer { arrivals_per_second: utilisation * 1_000.0, service };
            let (response, exact) = (server.response().unwrap(), 0.001 / (1.0 - utilisation));
            assert_near("M/M/1 mean", response.mean(), exact, 1e-3 / (1.0 - utilisation).min(0.5));
            for probability in [0.1_f64, 0.5, 0.9, 0.99, 0.999_9] {
                let what = format!("M/M/1 at {utilisation}, quantile {probability}");
                assert_near(&what, response.quantile(probability), -exact * (1.0 - probability).ln(), 0.006);
            }
        }
    }

    #[test]
    fn the_mean_response_at_the_knee_is_twice_the_service_time() {
        for variation in [0.0, 0.5, 1.0, 3.0] {
            let service = Distribution::lognormal(0.004, variation).unwrap();
            let mut server = SingleServer { arrivals_per_second: 0.0, service };
            server.arrivals_per_second = server.knee();
            assert_near("knee of M/G/1", server.mean_wait().unwrap(), server.service.mean(), 1e-9);
        }
        let idle = Distribution::constant(0.0).unwrap();
        assert_eq!(SingleServer { arrivals_per_second: 1.0, service: idle }.knee(), f64::INFINITY);
    }

    #[test]
    fn a_full_or_invalid_server_has_no_steady_state() {
        let service = Distribution::constant(0.01).unwrap();
        for rate in [100.0, 1e9, -1.0, f64::NAN, f64::INFINITY] {
            let server = SingleServer { arrivals_per_second: rate, service: service.clone() };
            assert_eq!((server.mean_wait(), server.response()), (None, None), "{rate}");
        }
        for rate in ODD_NUMBERS {
            let server = SingleServer { arrivals_per_second: rate, service: service.clone() };
            let _ = (server.utilisation(), server.knee(), server.wait());
        }
    }
}
