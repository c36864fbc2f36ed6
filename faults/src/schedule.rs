//! What goes wrong one after the other, drawn by a seed.

use std::time::Duration;

use crate::fault::{Capabilities, Fault, FaultKind};
use crate::fleet::FleetRole;
use crate::random::Random;

/// Things that go wrong together, for a while.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledFaults {
    pub(crate) faults: Vec<Fault>,
    pub(crate) hold: Duration,
}

impl ScheduledFaults {
    /// What it is called: the kinds, and the nodes that they befall.
    pub(crate) fn name(&self, names: &[String]) -> String {
        let told = |blow: &Fault| match blow.kind.has_target() {
            true => format!("{} {}", names[blow.target], blow.kind.name()),
            false => blow.kind.name().to_owned(),
        };
        self.faults.iter().map(told).collect::<Vec<String>>().join(" + ")
    }
}

use FleetRole::{Ingest, Store};

/// Single faults of the whole run; the role is that of the node that is hit.
const SINGLE_FAULTS: [(FaultKind, FleetRole); 20] = [
    (FaultKind::Kill, Ingest),
    (FaultKind::Kill, Store),
    (FaultKind::Pause, Ingest),
    (FaultKind::Pause, Store),
    (FaultKind::CutOff, Ingest),
    (FaultKind::CutOff, Store),
    (FaultKind::Split, Store),
    (FaultKind::OneWay, Ingest),
    (FaultKind::OneWay, Store),
    (FaultKind::Loss, Store),
    (FaultKind::Delay, Ingest),
    (FaultKind::Resets, Ingest),
    (FaultKind::FullDisk, Ingest),
    (FaultKind::FullDisk, Store),
    (FaultKind::SlowSync, Ingest),
    (FaultKind::SlowSync, Store),
    (FaultKind::FailedSync, Ingest),
    (FaultKind::FailedSync, Store),
    (FaultKind::Clock, Ingest),
    (FaultKind::Clock, Store),
];

/// Two at a time.
const FAULT_PAIRS: [[(FaultKind, FleetRole); 2]; 4] = [
    [(FaultKind::Kill, Ingest), (FaultKind::Pause, Store)],
    [(FaultKind::Kill, Store), (FaultKind::Loss, Store)],
    [(FaultKind::Pause, Ingest), (FaultKind::SlowSync, Store)],
    [(FaultKind::Kill, Ingest), (FaultKind::Kill, Store)],
];

/// The small run: what needs no root, and is over soon.
const SHORT_SCHEDULE: [(FaultKind, FleetRole); 4] =
    [(FaultKind::Kill, Ingest), (FaultKind::Kill, Store), (FaultKind::Pause, Ingest), (FaultKind::Pause, Store)];

/// Draws what happens; nodes with a small disk of their own are the first of each role. Returns what has to be left out,
/// too, and why.
pub(crate) fn random_schedule(
    random: &mut Random,
    roles: &[FleetRole],
    small: bool,
    hold: Duration,
    means: &Capabilities,
) -> (Vec<ScheduledFaults>, Vec<String>) {
    let mut drawn: Vec<Vec<(FaultKind, FleetRole)>> = if small {
        SHORT_SCHEDULE.iter().map(|single| vec![*single]).collect()
    } else {
        SINGLE_FAULTS.iter().map(|single| vec![*single]).chain(FAULT_PAIRS.iter().map(|pair| pair.to_vec())).collect()
    };
    random.shuffle(&mut drawn);
    // All nodes are started anew when much has happened, and what is lost for good comes last.
    drawn.push(vec![(FaultKind::Rolling, Ingest)]);
    if !small {
        drawn.push(vec![(FaultKind::EmptyDisk, Store)]);
    }
    drawn.push(vec![(FaultKind::Destroy, Store)]);
    let mut left_out = Vec::new();
    drawn.retain(|kinds| {
        let lack = kinds.iter().find_map(|(kind, _)| Some((kind, means.missing_for(*kind)?)));
        lack.iter().for_each(|(kind, why)| left_out.push(format!("{}: {why}", kind.name())));
        lack.is_none()
    });
    left_out.dedup();
    let mut step = |kinds: Vec<(FaultKind, FleetRole)>| {
        let blow = |(kind, role): &(FaultKind, FleetRole)| {
            let mut places = roles.iter().enumerate().filter(|(_, have)| *have == role).map(|(place, _)| place);
            let count = roles.iter().filter(|have| *have == role).count().max(1);
            let drawn = if *kind == FaultKind::FullDisk { 0 } else { random.below(count) };
            Fault { kind: *kind, target: places.nth(drawn).unwrap_or(0) }
        };
        ScheduledFaults { faults: kinds.iter().map(blow).collect(), hold }
    };
    (drawn.into_iter().map(&mut step).collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [FleetRole; 6] = [Ingest, Ingest, Ingest, Store, Store, Store];

    fn drawn(seed: u64, means: &Capabilities) -> (Vec<ScheduledFaults>, Vec<String>) {
        random_schedule(&mut Random::new(seed), &ROLES, false, Duration::from_secs(1), means)
    }

    #[test]
    fn the_seed_decides() {
        let means = Capabilities { root: true, nft: true, strace: true, faketime: Some("x".into()) };
        let all = |seed| drawn(seed, &means).0.into_iter().map(|step| step.faults).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert_eq!(all(1).len(), SINGLE_FAULTS.len() + FAULT_PAIRS.len() + 3);
        assert_eq!(all(1).last().unwrap()[0].kind, FaultKind::Destroy);
        assert!(all(3).iter().flatten().all(|blow| !blow.kind.loses_copies() || ROLES[blow.target] == Store));
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let (steps, left_out) = drawn(1, &Capabilities::default());
        assert!(
            steps
                .iter()
                .flat_map(|step| &step.faults)
                .all(|blow| Capabilities::default().missing_for(blow.kind).is_none())
        );
        assert!(left_out.iter().any(|line| line.contains("nft")), "{left_out:?}");
        assert!(left_out.iter().any(|line| line.contains("strace")), "{left_out:?}");
    }
}
