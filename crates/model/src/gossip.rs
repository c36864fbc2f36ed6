//! Gossip: time until all nodes know a rumour, and until a failed node is found.
//!
//! No node knows which ones are informed. Price of no coordination: most messages of the last rounds reach nodes that know the
//! rumour already; in total a node receives it `fanout · rounds` times instead of once.

use crate::number::{non_negative, positive, share};

/// Most rounds that are computed; a rumour that needs more has no result.
const ROUNDS_MAX: u32 = 10_000;

/// A rumour that each informed node sends to a number of random other nodes in every round.
///
/// Assumption: nodes send at the same times and independently of each other, to `fanout` different nodes, and never stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rumour {
    /// Number of nodes, with the one that knows the rumour at first.
    pub nodes: u32,
    /// Number of nodes to which an informed node sends in one round.
    pub fanout: u32,
    /// Share of the messages that are lost, from 0 to 1.
    pub loss: f64,
    /// Duration of a round in seconds.
    pub round_seconds: f64,
}

impl Rumour {
    /// Mean numbers of uninformed nodes after 0, 1, 2, … rounds, down to one in a billion; `None` if there are too many rounds.
    ///
    /// An uninformed node stays so if it is missed by all informed ones: `(1 − fanout (1 − loss) / (nodes − 1))^informed`.
    fn uninformed(&self) -> Option<Vec<f64>> {
        let others = f64::from(self.nodes.checked_sub(1)?);
        let mut uninformed = vec![others];
        if others == 0.0 {
            return Some(uninformed);
        }
        let reach = (f64::from(self.fanout) / others).min(1.0) * (1.0 - share(self.loss)?);
        let mut last = others;
        for _ in 0..ROUNDS_MAX {
            if last < 1e-9 {
                return Some(uninformed);
            }
            last *= ((others + 1.0 - last) * (-reach).ln_1p()).exp();
            uninformed.push(last);
        }
        None
    }

    /// Mean number of rounds until all nodes are informed. `None` if there is no node, the fanout is 0, the loss is not from 0
    /// to 1, or more than 10,000 rounds are needed.
    ///
    /// The mean numbers of uninformed nodes follow from round to round; the rumour is complete in a round with the probability
    /// `e^(−uninformed)`, as the last nodes are rare and independent (Poisson). Source: the epidemic of Demers et al.,
    /// "Epidemic Algorithms for Replicated Database Maintenance", 1987, with push only.
    pub fn rounds(&self) -> Option<f64> {
        Some(self.uninformed()?.into_iter().map(|uninformed| -(-uninformed).exp_m1()).sum())
    }

    /// The growth of [`rounds`](Self::rounds) with the number of nodes: `ln n / ln(1 + fanout) + ln n / fanout`, exact to a
    /// constant number of rounds, without loss. `None` if there is no node or the fanout is 0.
    /// Source: Pittel, "On spreading a rumor", 1987.
    pub fn rounds_by_logarithm(&self) -> Option<f64> {
        let (nodes, fanout) = (f64::from(self.nodes), f64::from(self.fanout));
        (nodes >= 1.0 && fanout >= 1.0).then(|| nodes.ln() / fanout.ln_1p() + nodes.ln() / fanout)
    }

    /// Mean seconds until all nodes are informed. `None` as for [`rounds`](Self::rounds), or if the duration is invalid.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.rounds()? * non_negative(self.round_seconds)?)
    }
}

/// Detection of a failed node by probes, as in SWIM.
///
/// Assumption: every live node probes one other per period, all others in random order before any of them again; the nodes begin
/// their periods independently of each other. No message is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureDetection {
    /// Number of nodes, with the failed one.
    pub nodes: u32,
    /// Seconds between two probes of one node.
    pub period_seconds: f64,
    /// Seconds from a probe to the suspicion of a node that does not answer, indirect probes included.
    pub probe_timeout_seconds: f64,
    /// Seconds in which a suspected node may refute the suspicion.
    pub suspicion_seconds: f64,
}

impl FailureDetection {
    /// Mean seconds from the failure to the first probe of the failed node: `period · (n − 1) / n`, for any number of nodes at
    /// most one period. `None` with fewer than two nodes or an invalid period.
    ///
    /// The source, Das, Gupta, Motivala, "SWIM", 2002, counts whole periods of random probes: 1.58 of them.
    pub fn first_probe_seconds(&self) -> Option<f64> {
        let nodes = f64::from(self.nodes);
        Some(positive(self.period_seconds)? * (nodes - 1.0) / nodes).filter(|_| self.nodes >= 2)
    }

    /// Mean seconds from the failure until the first node marks the failed one as down: first probe, its timeout, and the time
    /// for a refutation. `None` with fewer than two nodes or an invalid time. All nodes know it after the time of a [`Rumour`].
    pub fn seconds(&self) -> Option<f64> {
        let timeouts = non_negative(self.probe_timeout_seconds)? + non_negative(self.suspicion_seconds)?;
        Some(self.first_probe_seconds()? + timeouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near};

    fn rounds_simulated(random: &mut OracleRandom, nodes: usize, fanout: usize, loss: f64) -> f64 {
        let mut is_informed = vec![false; nodes];
        is_informed[0] = true;
        let mut rounds = 0.0;
        while is_informed.contains(&false) {
            let before = is_informed.clone();
            for sender in (0..nodes).filter(|node| before[*node]) {
                let mut targets: Vec<usize> = Vec::new();
                while targets.len() < fanout {
                    let target = (sender + 1 + random.below(nodes - 1)) % nodes;
                    if !targets.contains(&target) {
                        targets.push(target);
                        is_informed[target] |= random.unit() >= loss;
                    }
                }
            }
            rounds += 1.0;
        }
        rounds
    }

    #[test]
    fn rumours_spread_as_simulated_ones() {
        let mut random = OracleRandom::new(6);
        for (nodes, fanout, loss, runs) in [
            (5, 2, 0.0, 2_000),
            (10, 3, 0.0, 2_000),
            (100, 3, 0.0, 500),
            (100, 3, 0.2, 500),
            (1_000, 1, 0.0, 60),
            (1_000, 4, 0.0, 60),
        ] {
            let model = Rumour { nodes, fanout, loss, round_seconds: 0.2 };
            let run = |_| rounds_simulated(&mut random, nodes as usize, fanout as usize, loss);
            let simulated = (0..runs).map(run).sum::<f64>() / f64::from(runs);
            assert_near(
                &format!("rumour to {nodes} nodes, fanout {fanout}, loss {loss}"),
                model.rounds().unwrap(),
                simulated,
                0.1,
            );
        }
    }

    #[test]
    fn rounds_grow_with_the_logarithm() {
        let at = |nodes| Rumour { nodes, fanout: 3, loss: 0.0, round_seconds: 0.2 };
        let grown = at(1_000_000).rounds().unwrap() - at(1_000).rounds().unwrap();
        let by_logarithm = at(1_000_000).rounds_by_logarithm().unwrap() - at(1_000).rounds_by_logarithm().unwrap();
        assert_near("rounds from 1,000 to 1,000,000 nodes", by_logarithm, grown, 0.05);
        assert_eq!(at(1).seconds(), Some(0.0));
        assert_eq!(Rumour { fanout: 0, ..at(3) }.rounds(), None);
    }

    #[test]
    fn a_failed_node_is_probed_when_the_simulated_one_is() {
        let mut random = OracleRandom::new(8);
        for nodes in [2, 3, 10, 50] {
            let others = nodes as usize - 1;
            let run = |_| {
                // A random moment in a round of probes of each other node; the failed node has a random place in each round.
                let probe = |random: &mut OracleRandom| {
                    let (now, place) = (random.unit() * others as f64, random.below(others) as f64);
                    let next = others as f64 + random.below(others) as f64;
                    // All nodes have a phase of their own, so the place in the round is that of the begin of a period.
                    if place >= now { place - now } else { next - now }
                };
                (0..others).map(|_| probe(&mut random)).fold(f64::INFINITY, f64::min)
            };
            let runs = 100_000;
            let simulated = (0..runs).map(run).sum::<f64>() / f64::from(runs);
            let model =
                FailureDetection { nodes, period_seconds: 1.0, probe_timeout_seconds: 0.5, suspicion_seconds: 3.0 };
            let name = format!("first probe among {nodes} nodes");
            assert_near(&name, model.first_probe_seconds().unwrap(), simulated, 0.05);
            assert_near(&name, model.seconds().unwrap(), simulated + 3.5, 0.02);
        }
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for nodes in ODD_COUNTS {
            for number in ODD_NUMBERS {
                for fanout in ODD_COUNTS {
                    let model = Rumour { nodes, fanout, loss: number, round_seconds: number };
                    assert!(model.rounds().is_none_or(|rounds| rounds >= 0.0), "{model:?}");
                    let _ = (model.rounds_by_logarithm(), model.seconds());
                }
                let model = FailureDetection {
                    nodes,
                    period_seconds: number,
                    probe_timeout_seconds: number,
                    suspicion_seconds: number,
                };
                assert!(model.seconds().is_none_or(|seconds| seconds >= 0.0), "{model:?}");
            }
        }
    }
}
