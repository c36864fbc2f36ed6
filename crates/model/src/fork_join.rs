//! Response of a query that every node answers: as slow as the slowest node.
//!
//! Price of asking every node: with 100 nodes, slow answers that are 1 % of the answers of each node delay 63 % of the queries.

use crate::distribution::Distribution;
use crate::number::{non_negative, share};

/// A query that is sent to all nodes and ends with the last answer.
///
/// Assumption: with the probability `correlated_share` a query is as slow, by its rank, on every node, because the cause is
/// the query itself; otherwise the nodes are independent of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkJoin {
    /// Response of each node in seconds. A node that has several ways to answer (kept result, skipped, scanned, cold) has a
    /// [`mixture`](Distribution::mixture) of them.
    pub nodes: Vec<Distribution>,
    /// Share of the queries that are as slow on every node, from 0 to 1.
    pub correlated_share: f64,
    /// Seconds to send the query and to merge the answers.
    pub fixed_seconds: f64,
}

impl ForkJoin {
    /// Time in seconds from the query to the merged answer. `None` if there is no node, the share is not from 0 to 1, or the
    /// fixed time is out of the range of a [`Distribution`].
    ///
    /// The distribution function is the product of those of the nodes for independent queries (Dean and Barroso, "The Tail at
    /// Scale", 2013), and the least of them for correlated ones (the bound of Fréchet and Hoeffding, 1940).
    pub fn response(&self) -> Option<Distribution> {
        let correlated = share(self.correlated_share)?;
        let fixed = Distribution::constant(non_negative(self.fixed_seconds)?).ok()?;
        if self.nodes.is_empty() {
            return None;
        }
        let (same, independent) = (Distribution::slowest_correlated(&self.nodes), Distribution::slowest(&self.nodes));
        let slowest = Distribution::mixture(&[(correlated, &same), (1.0 - correlated, &independent)]).ok()?;
        Some(slowest.plus(&fixed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_NUMBERS, OracleRandom, assert_near, mean, quantile};

    /// A tenth of the answers are cold.
    fn answer(random: &mut OracleRandom, is_cold: bool) -> f64 {
        if is_cold { random.lognormal(0.2, 0.5) } else { random.exponential(0.01) }
    }

    #[test]
    fn responses_equal_those_of_simulated_queries() {
        let warm = Distribution::exponential(0.01).unwrap();
        let cold = Distribution::lognormal(0.2, 0.5).unwrap();
        let node = Distribution::mixture(&[(0.9, &warm), (0.1, &cold)]).unwrap();
        for (count, correlated_share) in [(1, 0.0), (3, 0.0), (10, 0.0), (50, 0.0), (10, 0.5), (10, 1.0)] {
            let model = ForkJoin { nodes: vec![node.clone(); count], correlated_share, fixed_seconds: 0.002 };
            let mut random = OracleRandom::new(13);
            let query = |_| {
                // A correlated query is the same on all nodes, so one answer stands for all.
                let nodes = if random.unit() < correlated_share { 1 } else { count };
                let answers = (0..nodes).map(|_| {
                    let is_cold = random.unit() < 0.1;
                    answer(&mut random, is_cold)
                });
                0.002 + answers.fold(0.0, f64::max)
            };
            let mut simulated: Vec<f64> = (0..200_000).map(query).collect();
            let response = model.response().unwrap();
            let name = format!("fork-join of {count} nodes, correlated {correlated_share}");
            assert_near(&format!("{name}, mean"), response.mean(), mean(&simulated), 0.01);
            for probability in [0.5, 0.9, 0.99] {
                let want = quantile(&mut simulated, probability);
                assert_near(&format!("{name}, quantile {probability}"), response.quantile(probability), want, 0.03);
            }
        }
    }

    #[test]
    fn different_nodes_are_as_slow_as_the_slowest() {
        let nodes = [0.01, 0.02, 0.05].map(|mean| Distribution::exponential(mean).unwrap()).to_vec();
        let model = ForkJoin { nodes: nodes.clone(), correlated_share: 0.0, fixed_seconds: 0.0 };
        // P(max ≤ t) is a product of three, whose mean has seven terms.
        let rates = [100.0, 50.0, 20.0];
        let pairs = 1.0 / 150.0 + 1.0 / 120.0 + 1.0 / 70.0;
        let exact = rates.iter().map(|rate| 1.0 / rate).sum::<f64>() - pairs + 1.0 / 170.0;
        assert_near("slowest of three nodes", model.response().unwrap().mean(), exact, 0.002);
        let correlated = ForkJoin { correlated_share: 1.0, ..model }.response().unwrap();
        assert_near("slowest correlated node", correlated.mean(), 0.05, 1e-3);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        let node = Distribution::exponential(1.0).unwrap();
        for correlated_share in ODD_NUMBERS {
            for fixed_seconds in ODD_NUMBERS {
                for count in [0, 1, 3] {
                    let model = ForkJoin { nodes: vec![node.clone(); count], correlated_share, fixed_seconds };
                    assert!(model.response().is_none_or(|response| count > 0 && response.mean() >= 1.0 - 1e-3));
                }
            }
        }
    }
}
