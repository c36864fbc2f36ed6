//! The conditions of a network, set by a test, and how they are sampled.

use std::time::Duration;

use crate::Entropy as _;
use crate::sim::Entropy;

/// A random duration: usually between two bounds, sometimes much longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Lower bound.
    pub min: Duration,
    /// Upper bound, unless late.
    pub max: Duration,
    /// The share of late cases, `0.0..=1.0`.
    pub tail_share: f64,
    /// Maximum addition in late cases: half to all of it in half of the cases, a quarter to half of it in a quarter, and so
    /// on.
    pub tail_max: Duration,
}

impl Delay {
    /// A delay from `min` to `max`, without late cases.
    pub const fn uniform(min: Duration, max: Duration) -> Self {
        Self { min, max, tail_share: 0.0, tail_max: Duration::ZERO }
    }

    pub(super) fn sample(&self, rng: &Entropy) -> Duration {
        let usual = self.min + rng.duration_up_to(self.max.saturating_sub(self.min));
        if !rng.with_probability(self.tail_share) {
            return usual;
        }
        let mut late = self.tail_max;
        while rng.one_in(2) && !late.is_zero() {
            late /= 2;
        }
        usual.saturating_add(late / 2).saturating_add(rng.duration_up_to(late / 2))
    }
}

/// The quality of a link in one direction. Shares are `0.0..=1.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkConditions {
    /// The delay of a datagram or a piece of a body. Datagrams may be reordered, pieces not.
    pub delay: Delay,
    /// The share of lost datagrams. Pieces of calls are retransmitted after a delay.
    pub loss: f64,
    /// The share of duplicated datagrams.
    pub duplication: f64,
    /// The share of calls that break: in this direction before or during the request, in the other after the work or during the
    /// reply.
    pub break_share: f64,
    /// The share of calls that stall for a while at one of these points.
    pub stall_share: f64,
    /// The duration of stalls.
    pub stall_time: Delay,
    /// Bandwidth of each call.
    pub bytes_per_second: u64,
}

impl NetworkConditions {
    /// A network without faults.
    pub const HEALTHY: Self = Self {
        delay: Delay::uniform(Duration::from_micros(100), Duration::from_millis(1)),
        loss: 0.0,
        duplication: 0.0,
        break_share: 0.0,
        stall_share: 0.0,
        stall_time: Delay::uniform(Duration::from_secs(1), Duration::from_secs(60)),
        bytes_per_second: 1 << 30,
    };

    /// From a host to itself.
    pub(super) const LOOPBACK: Self =
        Self { delay: Delay::uniform(Duration::from_micros(10), Duration::from_micros(50)), ..Self::HEALTHY };
}

impl Default for NetworkConditions {
    fn default() -> Self {
        Self::HEALTHY
    }
}

impl Entropy {
    /// True with this probability.
    pub(in crate::sim) fn with_probability(&self, share: f64) -> bool {
        // A float has 53 bits. Probability 0 draws no number, which keeps healthy worlds fast.
        share > 0.0 && ((self.next_u64() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// A duration of at most `max`.
    pub(in crate::sim) fn duration_up_to(&self, max: Duration) -> Duration {
        let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.next_u64() % nanos.saturating_add(1).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_met() {
        let dice = Entropy::seeded(3);
        let count = |share: f64| (0..10_000).filter(|_| dice.with_probability(share)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        assert!((800..1_200).contains(&count(0.1)));
        assert!((4_800..5_200).contains(&count(0.5)));
    }

    #[test]
    fn delays_keep_their_bounds_and_have_a_tail() {
        let dice = Entropy::seeded(3);
        let ms = Duration::from_millis;
        let calm = Delay::uniform(ms(2), ms(4));
        assert!((0..1_000).map(|_| calm.sample(&dice)).all(|delay| (ms(2)..=ms(4)).contains(&delay)));
        let tailed = Delay { tail_share: 0.5, tail_max: ms(10_000), ..calm };
        let drawn: Vec<Duration> = (0..10_000).map(|_| tailed.sample(&dice)).collect();
        assert!(drawn.iter().all(|delay| (ms(2)..=ms(10_004)).contains(delay)));
        let later_than = |bound: u64| drawn.iter().filter(|delay| **delay > ms(bound)).count();
        assert!((2_200..2_800).contains(&later_than(5_004)), "{}", later_than(5_004));
        assert!((1_050..1_450).contains(&(later_than(2_504) - later_than(5_004))));
        assert_eq!(Delay::uniform(ms(1), ms(1)).sample(&dice), ms(1));
        Delay::uniform(Duration::ZERO, Duration::MAX).sample(&dice);
    }
}
