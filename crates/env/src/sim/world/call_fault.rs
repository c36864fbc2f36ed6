//! The fault of one call, drawn when the call begins.

use std::time::Duration;

use super::network_conditions::NetworkConditions;
use crate::sim::Entropy;

/// The stages of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStage {
    /// Before anything is sent.
    Connect,
    /// During the request.
    Request,
    /// After the work, before the reply is sent.
    Reply,
    /// During the reply.
    Answer,
}

/// A body breaks after fewer pieces than this, or at its end if that comes first.
const FAULT_PIECE_MAX: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct CallFault {
    stage: CallStage,
    pieces: usize,
    /// The duration of a stall; `None` breaks the call.
    pub(super) stall: Option<Duration>,
}

impl CallFault {
    pub(super) fn sample(rng: &Entropy, conditions: &NetworkConditions, stages: [CallStage; 2]) -> Option<Self> {
        let breaks = rng.with_probability(conditions.break_share);
        if !breaks && !rng.with_probability(conditions.stall_share) {
            return None;
        }
        let stall = if breaks { None } else { Some(conditions.stall_time.sample(rng)) };
        let [first, second] = stages;
        Some(Self { stage: if rng.one_in(2) { first } else { second }, pieces: rng.below(FAULT_PIECE_MAX), stall })
    }

    /// Whether the fault occurs after `pieces` pieces; `last` at the end of the body.
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
            let rng = Entropy::seeded(seed);
            let conditions = NetworkConditions { break_share: 1.0, ..NetworkConditions::HEALTHY };
            let fault = CallFault::sample(&rng, &conditions, [CallStage::Request, CallStage::Request]).unwrap();
            for last in 0..20 {
                let triggers = (0..=last).filter(|piece| fault.triggers_at(CallStage::Request, *piece, *piece == last));
                assert_eq!(triggers.count(), 1, "{fault:?} {last}");
                assert!(!fault.triggers_at(CallStage::Answer, last, true));
            }
        }
    }

    #[test]
    fn healthy_links_have_no_faults() {
        let rng = Entropy::seeded(1);
        assert!((0..1_000).all(|_| {
            CallFault::sample(&rng, &NetworkConditions::HEALTHY, [CallStage::Reply, CallStage::Answer]).is_none()
        }));
    }
}
