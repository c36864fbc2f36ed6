//! Time until the bytes of a lost node have all their copies again.
//!
//! Each store copies by its own decision, to and from random nodes. Price of no coordination: the busiest node has more to do
//! than the mean, so repair takes longer than with an even plan; the more segments a node has, the less.

use crate::number::positive;
use crate::special::poisson_cdf;

/// Most nodes of a cluster in this model.
const NODES_MAX: u32 = 1_000_000;

/// Points of the distribution of the busiest node per standard deviation; fewer segments are counted one by one.
const POINTS_PER_DEVIATION: f64 = 20.0;

/// Above this number of segments per node all nodes have the same load, to a millionth.
const LOAD_EVEN: f64 = 1e14;

/// Re-replication of the bytes of one lost node by the nodes that remain.
///
/// Assumption: the holders of a segment are random nodes. Each segment of the lost node is sent once, from a random holder to a
/// random node. All nodes work at once, each with `node_bytes_per_second` to send and as much to receive, and the network
/// between them is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepairTime {
    /// Number of nodes before the loss.
    pub nodes: u32,
    /// Number of copies of each segment.
    pub copies: u32,
    /// Bytes on the lost node.
    pub bytes: f64,
    /// Bytes of one segment.
    pub segment_bytes: f64,
    /// Bytes per second that a node sends, and as much that it receives, for repair.
    pub node_bytes_per_second: f64,
}

impl RepairTime {
    /// The number of nodes that remain, if they suffice for all copies, and a copy remains.
    fn survivors(&self) -> Option<f64> {
        let survivors = self.nodes.min(NODES_MAX).checked_sub(1)?;
        (self.copies >= 2 && survivors >= self.copies).then(|| f64::from(survivors))
    }

    /// Seconds with an even plan, the lower bound: `bytes / (remaining nodes · bandwidth)`.
    ///
    /// `None` if the remaining nodes are fewer than the copies, there is only one copy, or an input is 0, negative or not
    /// finite. Source: declustered placement, in Ghemawat, Gobioff, Leung, "The Google File System", 2003, section 4.3.
    pub fn seconds_min(&self) -> Option<f64> {
        Some(positive(self.bytes)? / (self.survivors()? * positive(self.node_bytes_per_second)?))
    }

    /// Mean seconds until the busiest node is done. `None` as for [`seconds_min`](Self::seconds_min).
    ///
    /// The segments that a node sends and that it receives are nearly independent Poisson numbers, so the largest of them has a
    /// known distribution. Source: balls into bins, in Mitzenmacher and Upfal, "Probability and Computing", 2005, section 5.4.
    pub fn seconds(&self) -> Option<f64> {
        let (survivors, segment_bytes) = (self.survivors()?, positive(self.segment_bytes)?);
        let seconds_min = self.seconds_min()?;
        let segments = positive((self.bytes / segment_bytes).max(1.0))?;
        let load = segments / survivors;
        Some(
            seconds_min
                .max(largest_of_poisson(load, 2.0 * survivors) * self.bytes / segments / self.node_bytes_per_second),
        )
    }
}

/// Mean of the largest of `count` independent Poisson numbers with the mean `load`: the sum of P(largest > k) over k.
fn largest_of_poisson(load: f64, count: f64) -> f64 {
    if load > LOAD_EVEN {
        return load;
    }
    let deviation = load.sqrt();
    let stride = (deviation / POINTS_PER_DEVIATION).floor().max(1.0);
    let mut at = (load - 10.0 * deviation).floor().max(0.0);
    let mut mean = at;
    loop {
        let exceeded = 1.0 - poisson_cdf(at + (stride - 1.0) / 2.0, load).powf(count);
        mean += exceeded * stride;
        at += stride;
        if exceeded < 1e-9 && at > load {
            return mean;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near};

    #[test]
    fn the_busiest_node_is_done_when_the_simulated_one_is() {
        for (nodes, segments, runs) in
            [(4, 100, 2_000), (10, 30, 2_000), (10, 1_000, 1_000), (100, 2_000, 300), (30, 60_000, 60)]
        {
            let model = RepairTime {
                nodes,
                copies: 3,
                bytes: f64::from(segments) * 1e8,
                segment_bytes: 1e8,
                node_bytes_per_second: 5e7,
            };
            let mut random = OracleRandom::new(4);
            let survivors = nodes as usize - 1;
            let run = |_| {
                let (mut sent, mut received) = (vec![0_u32; survivors], vec![0_u32; survivors]);
                for _ in 0..segments {
                    let source = random.below(survivors);
                    let target = (source + 1 + random.below(survivors - 1)) % survivors;
                    sent[source] += 1;
                    received[target] += 1;
                }
                f64::from(*sent.iter().chain(&received).max().unwrap()) * 1e8 / 5e7
            };
            let simulated = (0..runs).map(run).sum::<f64>() / f64::from(runs);
            let name = format!("repair by {survivors} nodes, {segments} segments");
            assert_near(&name, model.seconds().unwrap(), simulated, 0.05);
            assert!(model.seconds_min().unwrap() <= simulated);
        }
    }

    #[test]
    fn too_few_nodes_repair_nothing() {
        let model =
            |nodes, copies| RepairTime { nodes, copies, bytes: 1e12, segment_bytes: 1e8, node_bytes_per_second: 1e8 };
        assert_eq!((model(3, 3).seconds(), model(1, 1).seconds(), model(5, 1).seconds()), (None, None, None));
        assert_near("even plan", model(5, 3).seconds_min().unwrap(), 2_500.0, 1e-12);
        assert!(model(5, 3).seconds().unwrap() < 2_700.0);
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for nodes in ODD_COUNTS {
            for copies in ODD_COUNTS {
                for bytes in ODD_NUMBERS {
                    for segment_bytes in ODD_NUMBERS {
                        let model = RepairTime { nodes, copies, bytes, segment_bytes, node_bytes_per_second: 1e6 };
                        let (least, mean) = (model.seconds_min(), model.seconds());
                        assert!(mean.is_none_or(|mean| mean >= least.unwrap()), "{model:?} {mean:?}");
                    }
                }
            }
        }
    }
}
