//! How bad things are: plain numbers that a test sets, and the dice that are thrown by them.

use std::time::Duration;

use crate::Entropy as _;
use crate::sim::Entropy;

/// How long something takes: mostly between two bounds, sometimes far longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// It never takes less.
    pub min: Duration,
    /// It takes no more, if it is not late.
    pub max: Duration,
    /// The share that is late, `0.0..=1.0`.
    pub tail_share: f64,
    /// What is late takes up to so much more: half of it to all of it in half of the cases, a quarter to half of it in
    /// half of the others, and so on.
    pub tail_max: Duration,
}

impl Delay {
    /// A delay that is never late.
    #[must_use]
    pub const fn uniform(least: Duration, most: Duration) -> Self {
        Self { min: least, max: most, tail_share: 0.0, tail_max: Duration::ZERO }
    }

    pub(super) fn sample(&self, rng: &Entropy) -> Duration {
        let usual = self.min + rng.duration_up_to(self.max.saturating_sub(self.min));
        if !rng.with_probability(self.tail_share) {
            return usual;
        }
        let mut most = self.tail_max;
        while rng.one_in(2) && !most.is_zero() {
            most /= 2;
        }
        usual.saturating_add(most / 2).saturating_add(rng.duration_up_to(most / 2))
    }
}

/// What the network does to all that passes from one node to another. Shares are `0.0..=1.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkConditions {
    /// How long a datagram or a piece of a body is under way. Datagrams overtake each other, pieces do not.
    pub delay: Delay,
    /// The share of datagrams that is lost. Of a call nothing is lost, but it is sent again, after a while.
    pub loss: f64,
    /// The share of datagrams that arrives twice.
    pub duplication: f64,
    /// The share of calls that breaks: before it was made, with its body (this direction), when it was done and before it
    /// is answered, or with its answer (the other direction).
    pub break_share: f64,
    /// The share of calls that stops somewhere for a while, as [`Self::breaks`] would have it end.
    pub stall_share: f64,
    /// For how long calls stop.
    pub stall_time: Delay,
    /// How much passes in a second, in each call by itself.
    pub bytes_per_second: u64,
}

impl NetworkConditions {
    /// A network that works.
    pub const HEALTHY: Self = Self {
        delay: Delay::uniform(Duration::from_micros(100), Duration::from_millis(1)),
        loss: 0.0,
        duplication: 0.0,
        break_share: 0.0,
        stall_share: 0.0,
        stall_time: Delay::uniform(Duration::from_secs(1), Duration::from_secs(60)),
        bytes_per_second: 1 << 30,
    };

    /// From a node to itself.
    pub(super) const LOOPBACK: Self =
        Self { delay: Delay::uniform(Duration::from_micros(10), Duration::from_micros(50)), ..Self::HEALTHY };
}

impl Default for NetworkConditions {
    fn default() -> Self {
        Self::HEALTHY
    }
}

impl Entropy {
    /// True for this share of the throws.
    pub(in crate::sim) fn with_probability(&self, share: f64) -> bool {
        // 53 bits are what a float holds. Nothing is thrown for what cannot be, which keeps calm worlds fast.
        share > 0.0 && ((self.next_u64() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// A time from zero to `most`.
    pub(in crate::sim) fn duration_up_to(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
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
