//! What is to go wrong with one call, drawn when it is made.

use std::time::Duration;

use super::network_conditions::NetworkConditions;
use crate::sim::Entropy;

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStage {
    /// Nothing was sent.
    Connect,
    /// Its body is under way.
    Request,
    /// It was answered, and nothing of that was sent.
    Reply,
    /// The answer is under way.
    Answer,
}

/// Bodies break behind at most so many pieces, or at their end if that comes before.
const FAULT_PIECE_MAX: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct CallFault {
    stage: CallStage,
    pieces: usize,
    /// For how long it stops; without that it breaks.
    pub(super) stall: Option<Duration>,
}

impl CallFault {
    pub(super) fn sample(rng: &Entropy, weather: &NetworkConditions, stages: [CallStage; 2]) -> Option<Self> {
        let breaks = rng.with_probability(weather.break_share);
        if !breaks && !rng.with_probability(weather.stall_share) {
            return None;
        }
        let stall = if breaks { None } else { Some(weather.stall_time.sample(rng)) };
        let [first, second] = stages;
        Some(Self { stage: if rng.one_in(2) { first } else { second }, pieces: rng.below(FAULT_PIECE_MAX), stall })
    }

    /// Whether it does so now, with so many pieces gone over, and before the last.
    pub(super) fn triggers_at(&self, stage: CallStage, pieces: usize, last: bool) -> bool {
        self.stage == stage && (pieces == self.pieces || (last && pieces < self.pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_triggers_once_for_any_body_length() {
        for seed in 0..100 {
            let dice = Entropy::seeded(seed);
            let weather = NetworkConditions { break_share: 1.0, ..NetworkConditions::HEALTHY };
            let flaw = CallFault::sample(&dice, &weather, [CallStage::Request, CallStage::Request]).unwrap();
            for last in 0..20 {
                let strikes = (0..=last).filter(|piece| flaw.triggers_at(CallStage::Request, *piece, *piece == last));
                assert_eq!(strikes.count(), 1, "{flaw:?} {last}");
                assert!(!flaw.triggers_at(CallStage::Answer, last, true));
            }
        }
    }

    #[test]
    fn healthy_links_have_no_faults() {
        let dice = Entropy::seeded(1);
        assert!((0..1_000).all(|_| {
            CallFault::sample(&dice, &NetworkConditions::HEALTHY, [CallStage::Reply, CallStage::Answer]).is_none()
        }));
    }
}
