//! Failed nodes: which share of the records is unavailable, and how likely records are lost for ever.
//!
//! Copies are placed at random. Price of no coordination: with many segments, every group of nodes that fails together holds
//! all copies of some segment. The expected loss of bytes is the same as with fixed groups, but a loss is more frequent and
//! smaller.

use crate::number::positive;
use crate::special::ln_choose;

/// Seconds of a year of 365.25 days.
const YEAR_SECONDS: f64 = 31_557_600.0;

/// Most copies of a record in this model.
const COPIES_MAX: u32 = 1_000;

/// Copies of records on random nodes.
///
/// Assumption: each segment is on `copies` different nodes, and all groups of that number of nodes are equally likely,
/// independently of other segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFailures {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of copies of each segment, at most the number of nodes.
    pub copies: u32,
}

impl NodeFailures {
    fn is_valid(&self) -> bool {
        (1..=self.nodes.min(COPIES_MAX)).contains(&self.copies)
    }

    /// Probability that all copies of a given record are on `down` given nodes, which is the expected share of the records that
    /// is unavailable: `C(down, copies) / C(nodes, copies)`. `None` if the copies are 0, more than the nodes, or more than 1,000.
    ///
    /// Exact under the assumption. Source: the hypergeometric distribution, in Feller, "An Introduction to Probability Theory
    /// and Its Applications", volume 1, 1968, section II.6.
    pub fn unavailable_share(&self, down: u32) -> Option<f64> {
        let down = f64::from(down.min(self.nodes));
        let factor = |copy: u32| ((down - f64::from(copy)) / (f64::from(self.nodes) - f64::from(copy))).max(0.0);
        self.is_valid().then(|| (0..self.copies).map(factor).product())
    }

    /// Probability that some of `segments` segments is unavailable while `down` nodes are down: `1 − (1 − share)^segments`.
    /// `None` as for [`unavailable_share`](Self::unavailable_share), or if the number of segments is 0, negative or not finite.
    pub fn some_unavailable(&self, down: u32, segments: f64) -> Option<f64> {
        let share = self.unavailable_share(down)?;
        let segments = positive(segments)?;
        Some(if share >= 1.0 { 1.0 } else { -(segments * (-share).ln_1p()).exp_m1() })
    }

    /// Mean seconds until a given record is lost for ever. `None` if the copies are invalid or a time is 0, negative or not
    /// finite. Infinite if the number exceeds all floats.
    ///
    /// Assumption: nodes fail for ever, independently, after exponential times with the mean `mttf_seconds`. Each lost copy is
    /// replaced after an exponential time with the mean `repair_seconds`, all at once. Exact then: with *i* lost copies the time
    /// to the next loss is `t_i = (1 + i/repair · t_(i−1)) / ((copies − i)/mttf)`, and the result is the sum of all `t_i`.
    /// Failures that have a common cause, such as a defective batch of disks or an operator, are not in it.
    /// Source: the birth-death process, in Trivedi, "Probability and Statistics with Reliability, Queuing, and Computer Science
    /// Applications", 2001, chapter 8; used by Patterson, Gibson, Katz, "A Case for RAID", 1988.
    pub fn record_mean_seconds(&self, mttf_seconds: f64, repair_seconds: f64) -> Option<f64> {
        let (mttf, repair) = (positive(mttf_seconds)?, positive(repair_seconds)?);
        if !self.is_valid() {
            return None;
        }
        let (mut total, mut step) = (0.0, 0.0);
        for lost in 0..self.copies {
            let repaired = if lost == 0 { 0.0 } else { f64::from(lost) * (step / repair) };
            step = (1.0 + repaired) * (mttf / f64::from(self.copies - lost));
            total += step;
        }
        Some(total)
    }

    /// Probability that a given record is lost within a year, which is the expected share of the records that is lost.
    /// `None` as for [`record_mean_seconds`](Self::record_mean_seconds), with its assumption.
    pub fn record_loss_per_year(&self, mttf_seconds: f64, repair_seconds: f64) -> Option<f64> {
        Some(-(-YEAR_SECONDS / self.record_mean_seconds(mttf_seconds, repair_seconds)?).exp_m1())
    }

    /// Probability that any of `segments` segments is lost within a year. `None` as for
    /// [`record_mean_seconds`](Self::record_mean_seconds), or if the number of segments is 0, negative or not finite.
    ///
    /// Approximation: groups of `copies` nodes fail together at the rate `C(nodes, copies) / record_mean_seconds`, and each of them
    /// holds all copies of some segment with the probability `1 − (1 − 1/C(nodes, copies))^segments`. It is an upper
    /// bound, because groups that overlap fail together: 15 % too high with 6 nodes, 3 copies and a repair of 2 % of the mean
    /// life of a node, and close with the usual repair of less than 0.1 %.
    /// Source: Cidon et al., "Copysets: Reducing the Frequency of Data Loss in Cloud Storage", 2013.
    pub fn any_loss_per_year(&self, mttf_seconds: f64, repair_seconds: f64, segments: f64) -> Option<f64> {
        let seconds = self.record_mean_seconds(mttf_seconds, repair_seconds)?;
        let segments = positive(segments)?;
        let groups = ln_choose(f64::from(self.nodes), f64::from(self.copies)).exp();
        // Groups that hold a segment: never more than segments, nor than groups.
        let held = if groups <= 1.0 { 1.0 } else { -groups * (segments * (-1.0 / groups).ln_1p()).exp_m1() };
        let held = if groups.is_finite() { held.min(segments) } else { segments };
        Some(-(-YEAR_SECONDS * (held.max(f64::MIN_POSITIVE) / seconds)).exp_m1())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ODD_COUNTS, ODD_NUMBERS, OracleRandom, assert_near};

    #[test]
    fn unavailable_shares_equal_a_count_of_all_groups() {
        for nodes in 1..=9_u32 {
            for copies in 1..=nodes {
                for down in 0..=nodes {
                    // A group of nodes is a bit mask; the first nodes are down.
                    let groups = (0_u32..1 << nodes).filter(|group| group.count_ones() == copies);
                    let (mut all, mut lost) = (0_u32, 0_u32);
                    for group in groups {
                        all += 1;
                        lost += u32::from(group >> down == 0);
                    }
                    let share = NodeFailures { nodes, copies }.unavailable_share(down).unwrap();
                    assert!(
                        (share - f64::from(lost) / f64::from(all)).abs() < 1e-12,
                        "{nodes} {copies} {down}: {share}"
                    );
                }
            }
        }
    }

    /// A random group of nodes as a bit mask.
    fn group(random: &mut OracleRandom, nodes: usize, copies: u32) -> u64 {
        let mut group = 0_u64;
        while group.count_ones() < copies {
            group |= 1 << random.below(nodes);
        }
        group
    }

    #[test]
    fn some_segment_is_unavailable_as_often_as_in_random_placements() {
        let mut random = OracleRandom::new(10);
        for (nodes, copies, down, segments) in [(10, 2, 2, 20), (10, 3, 3, 100), (20, 3, 5, 50)] {
            let runs = 20_000;
            let is_down = (1_u64 << down) - 1;
            let is_lost = |_| (0..segments).any(|_| group(&mut random, nodes, copies) & !is_down == 0);
            let simulated = (0..runs).map(is_lost).filter(|lost| *lost).count() as f64 / f64::from(runs);
            let model = NodeFailures { nodes: nodes as u32, copies };
            let formula = model.some_unavailable(down, f64::from(segments)).unwrap();
            assert_near(
                &format!("{down} of {nodes} nodes down, {copies} copies, {segments} segments"),
                formula,
                simulated,
                0.04,
            );
        }
    }

    #[test]
    fn a_record_lives_as_long_as_a_simulated_one() {
        for (copies, mttf, repair) in [(1, 100.0, 5.0), (2, 100.0, 5.0), (3, 100.0, 10.0), (2, 100.0, 100.0)] {
            let mut random = OracleRandom::new(12);
            let runs = if copies == 3 { 1_500 } else { 10_000 };
            let mut total = 0.0;
            for _ in 0..runs {
                let mut lost = 0;
                while lost < copies {
                    let failure = random.exponential(mttf / f64::from(copies - lost));
                    let repaired = if lost == 0 { f64::INFINITY } else { random.exponential(repair / f64::from(lost)) };
                    total += failure.min(repaired);
                    lost = if failure < repaired { lost + 1 } else { lost - 1 };
                }
            }
            let model = NodeFailures { nodes: 10, copies };
            let formula = model.record_mean_seconds(mttf, repair).unwrap();
            assert_near(&format!("life of {copies} copies, repair {repair}"), formula, total / f64::from(runs), 0.06);
        }
    }

    #[test]
    fn a_cluster_loses_a_segment_as_often_as_a_simulated_one() {
        for (nodes, copies, segments, mttf, repair) in
            [(8, 2, 10, 6.0, 0.02), (8, 2, 1_000, 12.0, 0.02), (6, 3, 30, 1.0, 0.02)]
        {
            let (mttf, repair) = (mttf * YEAR_SECONDS, repair * YEAR_SECONDS);
            let mut random = OracleRandom::new(14);
            let runs = if segments > 100 { 40_000 } else { 200_000 };
            let mut years_with_loss = 0;
            for _ in 0..runs {
                let groups: Vec<u64> = (0..segments).map(|_| group(&mut random, nodes, copies)).collect();
                let (mut now, mut down) = (0.0, 0_u64);
                loop {
                    let failed = f64::from(down.count_ones());
                    let (failures, repairs) = ((nodes as f64 - failed) / mttf, failed / repair);
                    now += random.exponential(1.0 / (failures + repairs));
                    if now > YEAR_SECONDS {
                        break;
                    }
                    let fails = random.unit() < failures / (failures + repairs);
                    let node = loop {
                        let node = 1_u64 << random.below(nodes);
                        if (down & node == 0) == fails {
                            break node;
                        }
                    };
                    down ^= node;
                    if fails && groups.iter().any(|group| group & !down == 0) {
                        years_with_loss += 1;
                        break;
                    }
                }
            }
            let model = NodeFailures { nodes: nodes as u32, copies };
            let formula = model.any_loss_per_year(mttf, repair, f64::from(segments)).unwrap();
            let name = format!("loss per year, {nodes} nodes, {copies} copies, {segments} segments");
            assert_near(&name, formula, f64::from(years_with_loss) / f64::from(runs), 0.2);
        }
    }

    #[test]
    fn odd_numbers_give_no_panic() {
        for nodes in ODD_COUNTS {
            for copies in ODD_COUNTS {
                let model = NodeFailures { nodes, copies };
                for a in ODD_NUMBERS {
                    for down in ODD_COUNTS {
                        let share = model.some_unavailable(down, a);
                        assert!(
                            share.is_none_or(|share| (0.0..=1.0).contains(&share)),
                            "{model:?} {down} {a}: {share:?}"
                        );
                    }
                    for b in ODD_NUMBERS {
                        let loss = [model.record_loss_per_year(a, b), model.any_loss_per_year(a, b, a)];
                        let is_valid = |loss: &Option<f64>| loss.is_none_or(|loss| (0.0..=1.0).contains(&loss));
                        assert!(loss.iter().all(is_valid), "{model:?} {a} {b}: {loss:?}");
                    }
                }
            }
        }
    }
}
