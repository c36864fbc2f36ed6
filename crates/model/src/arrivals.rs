//! How uneven the arrivals of several sources are together.
//!
//! Sealed queue segments of one node are more even than Poisson arrivals, because each collects a fixed number of appends. With
//! more nodes their sum comes closer to Poisson arrivals.

use crate::number::{non_negative, positive};

/// The squared coefficient of variation of the time between arrivals of `sources` equal and independent sources, each of which has
/// intervals with the coefficient `variation`, as a queue with this `utilisation` sees it: 1 for Poisson arrivals. `None` if the
/// utilisation is not at least 0 and below 1, or another input is out of its domain.
///
/// A segment of *k* appends, which arrive independently, has intervals with the variation `1 / √k`.
/// Approximation: `w · variation² + 1 − w` with `w = 1 / (1 + 4 (1 − utilisation)² (sources − 1))`. At a high utilisation the queue sees
/// long sums of intervals, whose variation is that of each source. Exact for one source, and for Poisson arrivals. Made for one
/// server: many servers see the evenness more than it says, so waits that follow from it are too long.
/// Source: Albin, 1984, in Whitt, "The queueing network analyzer", 1983, section 4.3.
pub fn superposed_variation_squared(sources: u32, variation: f64, utilisation: f64) -> Option<f64> {
    let (sources, variation) = (positive(f64::from(sources))?, non_negative(variation)?);
    let free = (0.0..1.0).contains(&utilisation).then_some(1.0 - utilisation)?;
    let weight = 1.0 / (1.0 + 4.0 * free * free * (sources - 1.0));
    Some(weight * variation * variation + 1.0 - weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near, mean};
    use crate::{Distribution, SharedServers};

    /// Waits at `servers` servers of segments of `appends` appends each from `sources` queues.
    fn simulate(servers: usize, sources: usize, appends: u32, rate: f64) -> Vec<f64> {
        let mut random = OracleRandom::new(41);
        let interval = |random: &mut OracleRandom| {
            (0..appends).map(|_| random.exponential(sources as f64 / rate / f64::from(appends))).sum::<f64>()
        };
        let mut next: Vec<f64> = (0..sources).map(|_| interval(&mut random) * 0.5).collect();
        let mut free = vec![0.0_f64; servers];
        let one = |_| {
            let source = (0..sources).min_by(|a, b| next[*a].total_cmp(&next[*b])).unwrap();
            let now = next[source];
            next[source] += interval(&mut random);
            let first = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begin = first.max(now);
            *first = begin + random.lognormal(0.7, 0.5);
            begin - now
        };
        (0..400_000).map(one).collect()
    }

    #[test]
    fn waits_equal_those_of_simulated_queues_of_segments() {
        let service = Distribution::lognormal(0.7, 0.5).unwrap();
        for (servers, sources, utilisation, tolerance) in
            [(2_u32, 1_u32, 0.6, 0.15), (2, 1, 0.85, 0.1), (7, 3, 0.85, 0.8), (20, 10, 0.85, 3.0), (20, 10, 0.95, 1.5)]
        {
            let rate = f64::from(servers) * utilisation / 0.7;
            let model = SharedServers { arrivals_per_second: rate, servers, service: service.clone() };
            let variation = superposed_variation_squared(sources, 1.0 / 8_f64.sqrt(), utilisation).unwrap();
            let wait = model.wait_of_arrivals(variation).unwrap().mean();
            let simulated = mean(&simulate(servers as usize, sources as usize, 8, rate));
            let name = format!("wait of segments of {sources} queues at {servers} stores, load {utilisation}");
            println!("{name}: Poisson {:.4}", model.mean_wait().unwrap());
            assert_near(&name, wait, simulated, tolerance);
        }
    }

    #[test]
    fn many_sources_are_like_poisson_arrivals_and_one_is_not() {
        assert_eq!(superposed_variation_squared(1, 0.5, 0.7), Some(0.25));
        let check = |sources, utilisation| superposed_variation_squared(sources, 0.5, utilisation).unwrap();
        assert!(check(100, 0.5) > 0.99 && check(100, 0.999) < 0.3 && check(10, 0.5) < check(100, 0.5));
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for sources in ODD_COUNTS {
            for variation in ODD_NUMBERS {
                for utilisation in ODD_NUMBERS {
                    let squared = superposed_variation_squared(sources, variation, utilisation);
                    assert!(squared.is_none_or(|squared| squared >= 0.0), "{sources} {variation} {utilisation}");
                }
            }
        }
    }
}
