//! One run: things go wrong, all is healed, everything must have come right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::sim::World;
use bucksaw_record::Id;

use crate::chance::Chance;
use crate::client::Client;
use crate::faults::Trouble;
use crate::fleet::Fleet;
use crate::ledger::{Fate, Ledger, Violation};
use crate::scenario::Scenario;

/// When all is healed, everything has come right within so much time.
const HEAL_MAX: Duration = Duration::from_secs(600);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was wrong.
    pub violations: Vec<Violation>,
    /// Time that passed in the world.
    pub time: Duration,
    /// Records that were sent, and that were acknowledged.
    pub sent: usize,
    /// Records that were acknowledged and not excused.
    pub acknowledged: usize,
    /// The same for equal runs.
    pub fingerprint: u64,
}

/// Runs a scenario. The seed decides all that is left open.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario) -> Outcome {
    let (world, chance, ledger) = (World::new(seed), Chance::new(seed), Ledger::default());
    let mut fleet = Fleet::build(&world, scenario);
    fleet.start_all();
    world.run_for(Duration::from_secs(5));
    let stop = Arc::new(AtomicBool::new(false));
    start_clients(&world, &chance, scenario, &fleet, &ledger, &stop);
    world.network().set_weather(scenario.weather);
    let mut trouble = Trouble::new(&world, &chance, &ledger);
    let until = world.now() + scenario.time;
    let mut next = world.now() + scenario.trouble;
    while world.now() < until {
        world.run_for(Duration::from_millis(500));
        trouble.pass(&mut fleet);
        if world.now() >= next {
            trouble.strike(&mut fleet);
            next = world.now() + chance.time(scenario.trouble / 2, scenario.trouble * 2);
        }
    }
    stop.store(true, Ordering::Relaxed);
    trouble.end(&mut fleet);
    let mut violations = Vec::new();
    let healed = world.now();
    // Clients that wait for an answer first come to their end.
    world.run_for(Duration::from_secs(100));
    let is_over = || fleet.waiting() == 0;
    if !world.run_until(is_over, HEAL_MAX.saturating_sub(world.now() - healed)) {
        violations.push(Violation::Stuck(format!("{} segments wait in queues", fleet.waiting())));
    }
    violations.extend(check_stored(&fleet, &ledger));
    let entries = ledger.entries();
    let acknowledged = entries.values().filter(|entry| entry.fate == Fate::Acknowledged).count();
    Outcome { violations, time: world.now(), sent: entries.len(), acknowledged, fingerprint: world.fingerprint() }
}

fn start_clients(
    world: &World,
    chance: &Chance,
    scenario: &Scenario,
    fleet: &Fleet,
    ledger: &Ledger,
    stop: &Arc<AtomicBool>,
) {
    let machines = fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
    let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
    for number in 0..scenario.clients {
        let host = world.add_node(&format!("c{number}"));
        let client = Client {
            host: host.clone(),
            number,
            seed: chance.any(),
            pace: scenario.pace,
            nodes: nodes.clone(),
            ledger: ledger.clone(),
            stop: Arc::clone(stop),
        };
        host.spawn(client.run());
    }
}

/// Looks at what lies on all disks, as no client can.
fn check_stored(fleet: &Fleet, ledger: &Ledger) -> Vec<Violation> {
    let (stored, queued) = (fleet.stored(), fleet.queued());
    let mut found: Vec<(Id, String)> = stored.iter().map(|(id, (_, text))| (*id, text.clone())).collect();
    found.extend(queued.into_iter().filter(|(id, _)| !stored.contains_key(id)));
    let due = ledger.due();
    let mut violations = ledger.check(&due, &found);
    let under = |id: &&Id| stored.get(id).is_some_and(|(count, _)| *count < fleet.copies);
    violations
        .extend(due.iter().filter(under).map(|id| Violation::Underkept(*id, stored.get(id).map_or(0, |kept| kept.0))));
    violations
}
