//! Several equal servers with one queue: M/G/c, and one server that is shared evenly by all requests.
//!
//! Stands for the workers that fetch queue segments, the scan pool of a node, and the cores of a machine.

use crate::distribution::Distribution;
use crate::number::{crossing, non_negative};

/// Most servers of one queue; more make no result.
pub const SERVERS_MAX: u32 = 10_000;

/// Servers that take requests from one queue in the order of arrival.
///
/// Assumption: Poisson arrivals, service times independent of arrivals and of each other, equal servers.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedServers {
    /// Mean number of arriving requests per second, for all servers together.
    pub arrivals_per_second: f64,
    /// Number of servers, from 1 to [`SERVERS_MAX`].
    pub servers: u32,
    /// Service time of one request in seconds, on one server.
    pub service: Distribution,
}

/// Probability that all servers are busy at an arrival, if `load` servers are busy on average. Source: Erlang, 1917.
pub(crate) fn erlang_c(servers: u32, load: f64) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    // The blocking probability of Erlang B, by the recursion over the number of servers.
    let blocked = (1..=servers).fold(1.0, |blocked, count| load * blocked / (f64::from(count) + load * blocked));
    let utilisation = load / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

impl SharedServers {
    /// The share of time in which a server is busy; 1 or more means that the queue grows without limit.
    /// Infinite if the rate is negative or not finite, or the number of servers is out of its range.
    pub fn utilisation(&self) -> f64 {
        let is_valid = (1..=SERVERS_MAX).contains(&self.servers);
        let rate = non_negative(self.arrivals_per_second).filter(|_| is_valid);
        rate.map_or(f64::INFINITY, |rate| rate * self.service.mean() / f64::from(self.servers))
    }

    /// Probability that a request waits because all servers are busy; `None` if the utilisation is 1 or more.
    ///
    /// Exact for exponential service times. Source: Erlang's formula C, 1917, in Kleinrock, "Queueing Systems", volume 1, 1975.
    pub fn wait_probability(&self) -> Option<f64> {
        let utilisation = self.utilisation();
        (utilisation < 1.0).then(|| erlang_c(self.servers, utilisation * f64::from(self.servers)))
    }

    /// Mean time in seconds that a request waits; `None` if the utilisation is 1 or more.
    ///
    /// The mean wait of exponential servers times `(1 + variation²) / 2`. Exact for exponential service times and for one
    /// server. Source: Lee and Longton, 1959; with Poisson arrivals it equals the formula of Allen and Cunneen, 1990.
    pub fn mean_wait(&self) -> Option<f64> {
        Some(self.mean_wait_at(self.utilisation(), self.wait_probability()?))
    }

    fn mean_wait_at(&self, utilisation: f64, wait_probability: f64) -> f64 {
        let variation = self.service.variation();
        let wait = wait_probability * self.service.mean() / (f64::from(self.servers) * (1.0 - utilisation));
        wait * (1.0 + variation * variation) / 2.0
    }

    /// The time in seconds that a request waits; `None` if the utilisation is 1 or more.
    ///
    /// Approximation: while all *c* servers are busy they work as one that is *c* times faster. So a request waits with the
    /// probability of Erlang C, and then as long as one that waits at the single faster server. Exact for exponential service
    /// times and for one server; the mean is that of [`mean_wait`](Self::mean_wait).
    /// Source: Nozaki and Ross, 1978; Tijms, "A First Course in Stochastic Models", 2003, section 9.6.
    pub fn wait(&self) -> Option<Distribution> {
        let probability = self.wait_probability()?;
        let residual = self.service.residual().scaled(1.0 / f64::from(self.servers)).ok()?;
        let delayed = residual.plus(&residual.geometric_sum(self.utilisation())?);
        let none = Distribution::constant(0.0).ok()?;
        Distribution::mixture(&[(1.0 - probability, &none), (probability, &delayed)]).ok()
    }

    /// The time in seconds that a request waits if the time between arrivals has this squared coefficient of variation instead of
    /// 1: [`wait`](Self::wait), scaled. `None` as for that, and if the number is negative or not finite.
    ///
    /// The mean is `(arrivals + variation²) / (1 + variation²)` times that of Poisson arrivals (Allen and Cunneen, 1990), times a
    /// correction for a low utilisation (Krämer and Langenbach-Belz, 1976):
    /// `exp(−2/3 · (1 − ρ)/ρ · (1 − arrivals)² / (arrivals + variation²))` for even arrivals, and
    /// `exp(−(1 − ρ) · (arrivals − 1) / (arrivals + 4 variation²))` for uneven ones. Only the wait is scaled, and not its
    /// probability, so it is an approximation of the distribution.
    pub fn wait_of_arrivals(&self, arrival_variation_squared: f64) -> Option<Distribution> {
        let (arrivals, variation) = (non_negative(arrival_variation_squared)?, self.service.variation());
        let (service, load) = (variation * variation, self.utilisation());
        let exponent = if arrivals < 1.0 {
            2.0 / 3.0 * (1.0 - load) / load * (1.0 - arrivals).powi(2) / (arrivals + service)
        } else {
            (1.0 - load) * (arrivals - 1.0) / (arrivals + 4.0 * service)
        };
        // Constant times between arrivals and of service make no queue, and an exponent without limit.
        let correction = if exponent.is_nan() { 0.0 } else { (-exponent).exp() };
        self.wait()?.scaled((arrivals + service) / (1.0 + service) * correction).ok()
    }

    /// The time in seconds from the arrival of a request to the end of its service; `None` if the utilisation is 1 or more.
    /// The approximation is that of [`wait`](Self::wait).
    pub fn response(&self) -> Option<Distribution> {
        Some(self.wait()?.plus(&self.service))
    }

    /// The knee: arrivals per second at which the mean response is twice the mean service time.
    ///
    /// With more servers it is closer to the capacity. `None` if the number of servers is out of its range; infinite if the
    /// service time is zero.
    pub fn knee(&self) -> Option<f64> {
        if !(1..=SERVERS_MAX).contains(&self.servers) {
            return None;
        }
        let servers = f64::from(self.servers);
        let utilisation = crossing(0.0, 1.0, self.service.mean(), |utilisation| {
            self.mean_wait_at(utilisation, erlang_c(self.servers, utilisation * servers))
        });
        Some(utilisation * servers / self.service.mean())
    }
}

/// Mean response in seconds of a request with the service time `service_seconds` at a server that all present requests share
/// evenly: `service / (1 − utilisation)`. `None` if the utilisation is not at least 0 and below 1, or the time is invalid.
///
/// It holds for any distribution of service times (it is insensitive), and for the requests of each service time by
/// themselves, so a short request is not delayed by the variation of long ones.
/// Source: M/G/1 with processor sharing, in Kleinrock, "Queueing Systems", volume 2, 1976, section 4.4.
pub fn processor_sharing_mean(utilisation: f64, service_seconds: f64) -> Option<f64> {
    let service = non_negative(service_seconds)?;
    (0.0..1.0).contains(&utilisation).then(|| service / (1.0 - utilisation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    /// Waits and responses of a simulated queue: each request takes the server that is free first.
    fn simulate(servers: usize, rate: f64, service: fn(&mut OracleRandom) -> f64) -> (Vec<f64>, Vec<f64>) {
        let mut random = OracleRandom::new(11);
        let mut free = vec![0.0_f64; servers];
        let mut now = 0.0;
        let one = |_| {
            now += random.exponential(1.0 / rate);
            let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begin = first.max(now);
            *first = begin + service(&mut random);
            (begin - now, *first - now)
        };
        (0..800_000).map(one).unzip()
    }

    #[test]
    fn waits_and_responses_are_those_of_a_simulated_queue() {
        let check =
            |name: &str, servers: u32, utilisation: f64, service: Distribution, sample, tolerances: [f64; 4]| {
                let rate = utilisation * f64::from(servers) / service.mean();
                let model = SharedServers { arrivals_per_second: rate, servers, service };
                let (waits, mut responses) = simulate(servers as usize, rate, sample);
                let name = format!("M/G/c {name}, {servers} servers at {utilisation}");
                let [probability, wait, response_mean, response_quantile] = tolerances;
                let waiting = waits.iter().filter(|wait| **wait > 0.0).count() as f64 / waits.len() as f64;
                assert_near(&format!("{name}, P(wait)"), model.wait_probability().unwrap(), waiting, probability);
                assert_near(&format!("{name}, mean wait"), model.mean_wait().unwrap(), mean(&waits), wait);
                let response = model.response().unwrap();
                assert_near(&format!("{name}, mean response"), response.mean(), mean(&responses), response_mean);
                for at in [0.5, 0.9, 0.99] {
                    let simulated = quantile(&mut responses, at);
                    let what = format!("{name}, quantile {at} of response");
                    assert_near(&what, response.quantile(at), simulated, response_quantile);
                }
            };
        let exponential = || Distribution::exponential(0.01).unwrap();
        check("exponential", 2, 0.8, exponential(), |random| random.exponential(0.01), [0.01, 0.02, 0.01, 0.02]);
        check("exponential", 8, 0.9, exponential(), |random| random.exponential(0.01), [0.02, 0.05, 0.02, 0.03]);
        check("constant", 4, 0.8, Distribution::constant(0.01).unwrap(), |_| 0.01, [0.1, 0.1, 0.02, 0.06]);
        let lognormal = Distribution::lognormal(0.01, 2.0).unwrap();
        check("lognormal 2", 4, 0.7, lognormal, |random| random.lognormal(0.01, 2.0), [0.1, 0.25, 0.1, 0.15]);
    }

    #[test]
    fn one_server_is_a_single_server() {
        let service = Distribution::lognormal(0.01, 1.5).unwrap();
        let one = SharedServers { arrivals_per_second: 70.0, servers: 1, service: service.clone() };
        let single = crate::SingleServer { arrivals_per_second: 70.0, service };
        assert_near("one server", one.mean_wait().unwrap(), single.mean_wait().unwrap(), 1e-9);
        assert_near("knee of one server", one.knee().unwrap(), single.knee(), 1e-9);
        let (a, b) = (one.response().unwrap(), single.response().unwrap());
        assert_near("p99 of one server", a.quantile(0.99), b.quantile(0.99), 0.002);
    }

    #[test]
    fn erlang_c_equals_its_sum() {
        // 10 servers, 8 busy: the terms of the sum are load^k / k!.
        let mut term = 1.0;
        let mut sum = 0.0;
        for k in 1..=10 {
            sum += term;
            term *= 8.0 / f64::from(k);
        }
        let queued = term / (1.0 - 0.8);
        assert_near("Erlang C", erlang_c(10, 8.0), queued / (sum + queued), 1e-12);
    }

    #[test]
    fn the_mean_response_at_the_knee_is_twice_the_service_time() {
        for servers in [1, 2, 16, 1_000] {
            let service = Distribution::exponential(0.02).unwrap();
            let mut model = SharedServers { arrivals_per_second: 0.0, servers, service };
            model.arrivals_per_second = model.knee().unwrap();
            assert_near("knee of M/G/c", model.mean_wait().unwrap(), model.service.mean(), 1e-6);
        }
    }

    #[test]
    fn processor_sharing_equals_a_simulated_server() {
        for (name, sample) in [
            ("exponential", (|random| random.exponential(1.0)) as fn(&mut OracleRandom) -> f64),
            ("lognormal 2", |random| random.lognormal(1.0, 2.0)),
        ] {
            let mut random = OracleRandom::new(5);
            let (mut now, mut next, mut total, mut done) = (0.0, 0.0, 0.0, 0);
            // Arrival and rest of the service time of each present request.
            let mut present: Vec<(f64, f64)> = Vec::new();
            while done < 400_000 {
                let least = present.iter().map(|(_, rest)| *rest).fold(f64::INFINITY, f64::min);
                let count = present.len() as f64;
                let step = (least * count).min(next - now);
                present.iter_mut().for_each(|(_, rest)| *rest -= step / count);
                now += step;
                let before = present.len();
                present.retain(|(arrival, rest)| {
                    let ends = *rest <= 1e-12;
                    total += if ends { now - arrival } else { 0.0 };
                    !ends
                });
                done += before - present.len();
                if now >= next {
                    present.push((now, sample(&mut random)));
                    next = now + random.exponential(1.0 / 0.7);
                }
            }
            let simulated = total / f64::from(done as u32);
            let formula = processor_sharing_mean(0.7, 1.0).unwrap();
            assert_near(&format!("processor sharing, {name}"), formula, simulated, 0.03);
        }
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for arrivals_per_second in ODD_NUMBERS {
            for servers in ODD_COUNTS {
                for mean in [0.0, 1e-9, 1.0, 1e5] {
                    let service = Distribution::constant(mean).unwrap();
                    let model = SharedServers { arrivals_per_second, servers, service };
                    let _ = (model.knee(), model.mean_wait(), model.wait_probability());
                    let waits = model.response().is_some();
                    assert_eq!(waits, model.utilisation() < 1.0, "{model:?}");
                }
            }
            for service in ODD_NUMBERS {
                let mean = processor_sharing_mean(arrivals_per_second, service);
                assert!(mean.is_none_or(|mean| mean >= 0.0), "{arrivals_per_second} {service}");
            }
        }
    }
}
