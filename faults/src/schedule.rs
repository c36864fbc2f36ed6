//! What goes wrong one after the other, drawn by a seed.

use std::time::Duration;

use crate::fault::{Blow, Kind, Means};
use crate::fleet::Role;
use crate::random::Random;

/// Things that go wrong together, for a while.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) blows: Vec<Blow>,
    pub(crate) hold: Duration,
}

impl Step {
    /// What it is called: the kinds, and the nodes that they befall.
    pub(crate) fn name(&self, names: &[String]) -> String {
        let told = |blow: &Blow| match blow.kind.has_target() {
            true => format!("{} {}", names[blow.target], blow.kind.name()),
            false => blow.kind.name().to_owned(),
        };
        self.blows.iter().map(told).collect::<Vec<String>>().join(" + ")
    }
}

use Role::{Ingest, Store};

/// Single faults of the whole run; the role is that of the node that is hit.
const SINGLE: [(Kind, Role); 20] = [
    (Kind::Kill, Ingest),
    (Kind::Kill, Store),
    (Kind::Pause, Ingest),
    (Kind::Pause, Store),
    (Kind::CutOff, Ingest),
    (Kind::CutOff, Store),
    (Kind::Split, Store),
    (Kind::OneWay, Ingest),
    (Kind::OneWay, Store),
    (Kind::Loss, Store),
    (Kind::Delay, Ingest),
    (Kind::Resets, Ingest),
    (Kind::FullDisk, Ingest),
    (Kind::FullDisk, Store),
    (Kind::SlowSync, Ingest),
    (Kind::SlowSync, Store),
    (Kind::FailedSync, Ingest),
    (Kind::FailedSync, Store),
    (Kind::Clock, Ingest),
    (Kind::Clock, Store),
];

/// Two at a time.
const PAIRS: [[(Kind, Role); 2]; 4] = [
    [(Kind::Kill, Ingest), (Kind::Pause, Store)],
    [(Kind::Kill, Store), (Kind::Loss, Store)],
    [(Kind::Pause, Ingest), (Kind::SlowSync, Store)],
    [(Kind::Kill, Ingest), (Kind::Kill, Store)],
];

/// The small run: what needs no root, and is over soon.
const SMALL: [(Kind, Role); 4] =
    [(Kind::Kill, Ingest), (Kind::Kill, Store), (Kind::Pause, Ingest), (Kind::Pause, Store)];

/// Draws what happens; nodes with a small disk of their own are the first of each role. Returns what has to be left out,
/// too, and why.
pub(crate) fn draw(
    random: &mut Random,
    roles: &[Role],
    small: bool,
    hold: Duration,
    means: &Means,
) -> (Vec<Step>, Vec<String>) {
    let mut drawn: Vec<Vec<(Kind, Role)>> = if small {
        SMALL.iter().map(|single| vec![*single]).collect()
    } else {
        SINGLE.iter().map(|single| vec![*single]).chain(PAIRS.iter().map(|pair| pair.to_vec())).collect()
    };
    random.shuffle(&mut drawn);
    // All nodes are started anew when much has happened, and what is lost for good comes last.
    drawn.push(vec![(Kind::Rolling, Ingest)]);
    if !small {
        drawn.push(vec![(Kind::EmptyDisk, Store)]);
    }
    drawn.push(vec![(Kind::Destroy, Store)]);
    let mut left_out = Vec::new();
    drawn.retain(|kinds| {
        let lack = kinds.iter().find_map(|(kind, _)| Some((kind, means.lack(*kind)?)));
        lack.iter().for_each(|(kind, why)| left_out.push(format!("{}: {why}", kind.name())));
        lack.is_none()
    });
    left_out.dedup();
    let mut step = |kinds: Vec<(Kind, Role)>| {
        let blow = |(kind, role): &(Kind, Role)| {
            let mut places = roles.iter().enumerate().filter(|(_, have)| *have == role).map(|(place, _)| place);
            let count = roles.iter().filter(|have| *have == role).count().max(1);
            let drawn = if *kind == Kind::FullDisk { 0 } else { random.below(count) };
            Blow { kind: *kind, target: places.nth(drawn).unwrap_or(0) }
        };
        Step { blows: kinds.iter().map(blow).collect(), hold }
    };
    (drawn.into_iter().map(&mut step).collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 6] = [Ingest, Ingest, Ingest, Store, Store, Store];

    fn drawn(seed: u64, means: &Means) -> (Vec<Step>, Vec<String>) {
        draw(&mut Random::new(seed), &ROLES, false, Duration::from_secs(1), means)
    }

    #[test]
    fn the_seed_decides() {
        let means = Means { root: true, nft: true, strace: true, faketime: Some("x".into()) };
        let all = |seed| drawn(seed, &means).0.into_iter().map(|step| step.blows).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        assert_eq!(all(1).len(), SINGLE.len() + PAIRS.len() + 3);
        assert_eq!(all(1).last().unwrap()[0].kind, Kind::Destroy);
        assert!(all(3).iter().flatten().all(|blow| !blow.kind.loses_copies() || ROLES[blow.target] == Store));
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let (steps, left_out) = drawn(1, &Means::default());
        assert!(steps.iter().flat_map(|step| &step.blows).all(|blow| Means::default().lack(blow.kind).is_none()));
        assert!(left_out.iter().any(|line| line.contains("nft")), "{left_out:?}");
        assert!(left_out.iter().any(|line| line.contains("strace")), "{left_out:?}");
    }
}
