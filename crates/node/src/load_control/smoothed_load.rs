//! What the nodes have taken in over the last while, so that loads that come and go are no reason to send clients anywhere.

use std::collections::BTreeMap;

use bucksaw_record::Id;

/// Moves by one in so many of the way, each second.
const SMOOTHING_DIVISOR: i128 = 16;

/// The next value of an average that moves by one `divisor`-th of the way to `now`, and reaches it.
pub(super) fn smoothed(before: u64, now: u64, divisor: i128) -> u64 {
    let step = i128::from(now) - i128::from(before);
    let part = step / divisor;
    let part = if part == 0 { step.signum() } else { part };
    u64::try_from(i128::from(before) + part).unwrap_or(now)
}

/// Bytes a second of each node. One that was not there before begins with what it has: a node that joins has nothing at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct SmoothedLoad(BTreeMap<Id, u64>);

impl SmoothedLoad {
    /// Takes another second of all nodes that are there.
    pub(crate) fn step(&mut self, rates: impl Iterator<Item = (Id, u64)>) {
        let step =
            |(node, rate)| (node, self.0.get(&node).map_or(rate, |before| smoothed(*before, rate, SMOOTHING_DIVISOR)));
        self.0 = rates.map(step).collect();
    }

    /// What a node has taken in.
    pub(crate) fn rate(&self, node: Id) -> u64 {
        self.0.get(&node).copied().unwrap_or_default()
    }

    /// What each of them has taken in on the average.
    pub(crate) fn mean(&self) -> u64 {
        let sum: u128 = self.0.values().copied().map(u128::from).sum();
        u64::try_from(sum / self.0.len().max(1) as u128).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    #[test]
    fn bursts_hardly_show_and_newcomers_do() {
        let node = |number| Id::new(Millis(number), Producer::new(1), 0);
        let mut calm = SmoothedLoad::default();
        (0..100).for_each(|_| calm.step([(node(1), 1_000)].into_iter()));
        (0..4).for_each(|_| calm.step([(node(1), 0), (node(2), 0)].into_iter()));
        assert_eq!((calm.rate(node(1)), calm.rate(node(2))), (774, 0));
        calm.step([(node(2), 0)].into_iter());
        calm.step([(node(1), 50), (node(2), 160)].into_iter());
        assert_eq!((calm.rate(node(1)), calm.rate(node(2))), (50, 10));
        assert_eq!((calm.mean(), SmoothedLoad::default().mean()), (30, 0));
    }

    #[test]
    fn an_average_reaches_a_constant_value() {
        let mut rate = 0;
        let rates: Vec<u64> = (0..4)
            .map(|_| {
                rate = smoothed(rate, 1_000, 4);
                rate
            })
            .collect();
        assert_eq!(rates, [250, 437, 577, 682]);
        for want in [1_000, 0, 3] {
            for _ in 0..60 {
                rate = smoothed(rate, want, 4);
            }
            assert_eq!(rate, want);
        }
        assert_eq!(smoothed(u64::MAX, 0, 4), u64::MAX - u64::MAX / 4);
    }
}
