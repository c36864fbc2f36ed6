//! The schedule of faults, derived from a seed.

use std::time::Duration;

use crate::fault::{Capabilities, Fault, FaultKind};
use crate::fleet::FleetRole;
use bucksaw_fixtures::Random;

/// Concurrent faults.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledFaults {
    pub(crate) faults: Vec<Fault>,
    pub(crate) hold: Duration,
}

impl ScheduledFaults {
    /// The name: the kinds and the affected nodes.
    pub(crate) fn name(&self, names: &[String]) -> String {
        let name_of = |fault: &Fault| match fault.kind.has_target() {
            true => format!("{} {}", names[fault.target], fault.kind.name()),
            false => fault.kind.name().to_owned(),
        };
        self.faults.iter().map(name_of).collect::<Vec<String>>().join(" + ")
    }
}

use FleetRole::{Ingest, Store};

/// Single faults of a full run, with the role of the affected node.
const SINGLE_FAULTS: [(FaultKind, FleetRole); 20] = [
    (FaultKind::Kill, Ingest),
    (FaultKind::Kill, Store),
    (FaultKind::Pause, Ingest),
    (FaultKind::Pause, Store),
    (FaultKind::Isolate, Ingest),
    (FaultKind::Isolate, Store),
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

/// Pairs of concurrent faults.
const FAULT_PAIRS: [[(FaultKind, FleetRole); 2]; 4] = [
    [(FaultKind::Kill, Ingest), (FaultKind::Pause, Store)],
    [(FaultKind::Kill, Store), (FaultKind::Loss, Store)],
    [(FaultKind::Pause, Ingest), (FaultKind::SlowSync, Store)],
    [(FaultKind::Kill, Ingest), (FaultKind::Kill, Store)],
];

/// Faults of a small run: short, and without root.
const SHORT_SCHEDULE: [(FaultKind, FleetRole); 4] =
    [(FaultKind::Kill, Ingest), (FaultKind::Kill, Store), (FaultKind::Pause, Ingest), (FaultKind::Pause, Store)];

/// Draws the schedule; the first node of each role has a small disk. Also returns the faults that must be skipped,
/// with reasons.
pub(crate) fn random_schedule(
    random: &mut Random,
    roles: &[FleetRole],
    small: bool,
    hold: Duration,
    capabilities: &Capabilities,
) -> (Vec<ScheduledFaults>, Vec<String>) {
    let mut schedule: Vec<Vec<(FaultKind, FleetRole)>> = if small {
        SHORT_SCHEDULE.iter().map(|single| vec![*single]).collect()
    } else {
        SINGLE_FAULTS.iter().map(|single| vec![*single]).chain(FAULT_PAIRS.iter().map(|pair| pair.to_vec())).collect()
    };
    random.shuffle(&mut schedule);
    // The rolling restart comes late, and permanent losses last.
    schedule.push(vec![(FaultKind::Rolling, Ingest)]);
    if !small {
        schedule.push(vec![(FaultKind::EmptyDisk, Store)]);
    }
    schedule.push(vec![(FaultKind::Destroy, Store)]);
    let mut skipped = Vec::new();
    schedule.retain(|kinds| {
        let missing = kinds.iter().find_map(|(kind, _)| Some((kind, capabilities.missing_for(*kind)?)));
        missing.iter().for_each(|(kind, why)| skipped.push(format!("{}: {why}", kind.name())));
        missing.is_none()
    });
    skipped.dedup();
    let mut step = |kinds: Vec<(FaultKind, FleetRole)>| {
        let fault = |(kind, role): &(FaultKind, FleetRole)| {
            let mut places = roles.iter().enumerate().filter(|(_, have)| *have == role).map(|(place, _)| place);
            let count = roles.iter().filter(|have| *have == role).count().max(1);
            let index = if *kind == FaultKind::FullDisk { 0 } else { random.below(count) };
            Fault { kind: *kind, target: places.nth(index).unwrap_or(0) }
        };
        ScheduledFaults { faults: kinds.iter().map(fault).collect(), hold }
    };
    (schedule.into_iter().map(&mut step).collect(), skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [FleetRole; 6] = [Ingest, Ingest, Ingest, Store, Store, Store];

    fn schedule_of(seed: u64, capabilities: &Capabilities) -> (Vec<ScheduledFaults>, Vec<String>) {
        random_schedule(&mut Random::new(seed), &ROLES, false, Duration::from_secs(1), capabilities)
    }

    #[test]
    fn the_seed_determines_the_schedule() {
        let capabilities = Capabilities { root: true, nft: true, strace: true, faketime: Some("x".into()) };
        let all = |seed| schedule_of(seed, &capabilities).0.into_iter().map(|step| step.faults).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert_eq!(all(1).len(), SINGLE_FAULTS.len() + FAULT_PAIRS.len() + 3);
        assert_eq!(all(1).last().unwrap()[0].kind, FaultKind::Destroy);
        assert!(all(3).iter().flatten().all(|fault| !fault.kind.loses_copies() || ROLES[fault.target] == Store));
    }

    #[test]
    fn skipped_faults_are_listed() {
        let (steps, skipped) = schedule_of(1, &Capabilities::default());
        assert!(
            steps
                .iter()
                .flat_map(|step| &step.faults)
                .all(|fault| Capabilities::default().missing_for(fault.kind).is_none())
        );
        assert!(skipped.iter().any(|line| line.contains("nft")), "{skipped:?}");
        assert!(skipped.iter().any(|line| line.contains("strace")), "{skipped:?}");
    }
}
