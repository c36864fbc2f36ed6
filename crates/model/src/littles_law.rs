//! Little's law as a check of measurements: requests in flight = rate · time in the system.
//!
//! It holds for every system whose measurements are from the same long interval, whatever its distributions are. A large
//! error means that one of the three numbers is wrong, not that the system is unusual.

/// Three measurements of one system over the same interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Mean number of requests in the system.
    pub in_flight: f64,
    /// Requests that leave it per second.
    pub per_second: f64,
    /// Mean time of a request in the system, in seconds.
    pub seconds: f64,
}

impl Flow {
    /// The difference between `in_flight` and `per_second · seconds`, as a share of the larger one, from 0 to 1.
    /// Infinite if a number is negative or not finite.
    ///
    /// Source: Little, "A proof for the queuing formula L = λW", 1961.
    pub fn relative_error(&self) -> f64 {
        let product = self.per_second * self.seconds;
        let numbers = [self.in_flight, self.per_second, self.seconds, product];
        if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0) {
            return f64::INFINITY;
        }
        let larger = self.in_flight.max(product);
        if larger == 0.0 { 0.0 } else { (self.in_flight - product).abs() / larger }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near};

    #[test]
    fn a_simulated_queue_obeys_the_law() {
        let mut random = OracleRandom::new(21);
        let (mut now, mut wait, mut total) = (0.0, 0.0_f64, 0.0);
        let mut events = Vec::new();
        for _ in 0..100_000 {
            let step = random.exponential(1.0);
            now += step;
            wait = (wait - step).max(0.0) + random.lognormal(0.7, 1.5);
            total += wait;
            events.push((now, 1.0));
            events.push((now + wait, -1.0));
        }
        events.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (mut present, mut before, mut area) = (0.0, 0.0, 0.0);
        for (at, change) in events {
            area += present * (at - before);
            (present, before) = (present + change, at);
        }
        let flow = Flow { in_flight: area / before, per_second: 1e5 / before, seconds: total / 1e5 };
        assert!(flow.relative_error() < 1e-9, "{flow:?}");
        assert_near("error of 5 %", Flow { seconds: flow.seconds * 0.95, ..flow }.relative_error(), 0.05, 1e-6);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for in_flight in ODD_NUMBERS {
            for per_second in ODD_NUMBERS {
                for seconds in ODD_NUMBERS {
                    let error = Flow { in_flight, per_second, seconds }.relative_error();
                    assert!(error == f64::INFINITY || (0.0..=1.0).contains(&error), "{error}");
                }
            }
        }
    }
}
