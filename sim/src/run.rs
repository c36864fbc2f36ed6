//! One run: things go wrong, all is healed, everything must have come right.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::sim::World;

use crate::answer::Answer;
use crate::chance::Chance;
use crate::check;
use crate::client::Client;
use crate::faults::Trouble;
use crate::fleet::Fleet;
use crate::ledger::{Fate, Ledger, Violation};
use crate::plant::Mutation;
use crate::scenario::Scenario;
use crate::trace;

/// When all is healed, everything has come right within so much time.
const HEAL_MAX: Duration = Duration::from_secs(600);

/// Clients that wait for an answer come to their end within so much time.
const CLIENTS_END: Duration = Duration::from_secs(100);

/// How often things are looked at.
const STEP: Duration = Duration::from_millis(500);

/// When all is well, every promise is kept within so much time.
const KNOCK_MAX: Duration = Duration::from_secs(60);

/// When all is well, nodes agree on who is there within so much time.
const AGREE_MAX: Duration = Duration::from_secs(60);

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was wrong.
    pub violations: Vec<Violation>,
    /// Time that passed in the world.
    pub time: Duration,
    /// Records that were sent, and that were acknowledged.
    pub sent: usize,
    /// Records that were acknowledged and not excused.
    pub acknowledged: usize,
    /// Answers that were looked at while things went wrong.
    pub answers: usize,
    /// The same for equal runs.
    pub fingerprint: u64,
}

/// Runs a scenario. The seed decides all that is left open; `planted` is what is wrong on purpose.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario, planted: Option<Mutation>) -> Outcome {
    let world = World::new(seed);
    let _traced = trace::watch(&world);
    let ledger = Ledger::default();
    let ran = catch_unwind(AssertUnwindSafe(|| Run::new(&world, seed, scenario, &ledger, planted).run()));
    let (violations, answers) = ran.unwrap_or_else(|panic| (vec![Violation::Panicked(words(&*panic))], 0));
    let known = ledger.known();
    let acknowledged = known.entries.values().filter(|entry| entry.fate == Fate::Acknowledged).count();
    Outcome {
        violations,
        time: world.now(),
        sent: known.entries.len(),
        acknowledged,
        answers,
        fingerprint: world.fingerprint(),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

struct Run<'a> {
    world: &'a World,
    scenario: &'a Scenario,
    ledger: &'a Ledger,
    planted: Option<Mutation>,
    chance: Chance,
    fleet: Fleet,
    /// The answer that is being put together.
    answer: Option<Answer>,
    answers: usize,
    violations: Vec<Violation>,
}

impl<'a> Run<'a> {
    fn new(world: &'a World, seed: u64, scenario: &'a Scenario, ledger: &'a Ledger, planted: Option<Mutation>) -> Self {
        let fleet = Fleet::build(world, scenario, planted);
        let chance = Chance::new(seed);
        Self { world, scenario, ledger, planted, chance, fleet, answer: None, answers: 0, violations: Vec::new() }
    }

    fn run(mut self) -> (Vec<Violation>, usize) {
        self.fleet.start_all();
        self.world.run_for(Duration::from_secs(5));
        let stop = Arc::new(AtomicBool::new(false));
        self.start_clients(&stop);
        self.world.network().set_weather(self.scenario.weather);
        let dice = Chance::new(self.chance.any());
        let mut trouble = Trouble::new(self.world, &dice, self.ledger, self.scenario);
        let until = self.world.now() + self.scenario.time;
        let mut next = self.world.now() + self.scenario.trouble;
        while self.world.now() < until && self.violations.is_empty() {
            self.step();
            trouble.pass(&mut self.fleet);
            if self.world.now() >= next {
                trouble.strike(&mut self.fleet);
                next = self.world.now() + self.chance.time(self.scenario.trouble / 2, self.scenario.trouble * 2);
            }
        }
        stop.store(true, Ordering::Relaxed);
        trouble.end(&mut self.fleet);
        self.heal(&mut trouble);
        (self.violations, self.answers)
    }

    /// Sees to it that everything comes right. The first thing that is wrong is enough.
    fn heal(&mut self, trouble: &mut Trouble<'_>) {
        self.until(CLIENTS_END, |_| false, trouble);
        let knocking = check::knock(self.world, &self.fleet, self.ledger);
        self.until(KNOCK_MAX, |_| knocking.is_done(), trouble);
        self.until(HEAL_MAX, |fleet| fleet.waiting() == 0, trouble);
        self.until(AGREE_MAX, |fleet| check::agreed(fleet).is_empty(), trouble);
        if !self.violations.is_empty() {
            return;
        }
        self.violations.extend(check::up(&self.fleet));
        self.violations.extend(knocking.check());
        if self.fleet.waiting() > 0 {
            self.violations.push(Violation::Stuck(format!("{} segments wait in queues", self.fleet.waiting())));
        }
        self.violations.extend(check::stored(&self.fleet, self.ledger));
        self.violations.extend(check::consumed(&self.fleet));
        self.violations.extend(check::agreed(&self.fleet));
    }

    fn until(&mut self, at_most: Duration, is_so: impl Fn(&Fleet) -> bool, trouble: &mut Trouble<'_>) {
        let until = self.world.now() + at_most;
        while self.violations.is_empty() && !is_so(&self.fleet) && self.world.now() < until {
            self.step();
            trouble.pass(&mut self.fleet);
        }
    }

    /// Lets a little time pass, and reads meanwhile.
    fn step(&mut self) {
        self.world.run_for(STEP);
        let chance = &self.chance;
        match self.answer.take() {
            None if chance.percent(5) => {
                self.answer = Some(Answer::begin(&self.fleet, self.ledger, chance));
            }
            None => {}
            Some(mut answer) => {
                if answer.next(&self.fleet, chance.within(0, 2)) {
                    self.answers += 1;
                    self.violations.extend(answer.check(self.ledger, self.planted));
                } else {
                    self.answer = Some(answer);
                }
            }
        }
    }

    fn start_clients(&self, stop: &Arc<AtomicBool>) {
        let machines = self.fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
        let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
        for number in 0..self.scenario.clients {
            let host = self.world.add_node(&format!("c{number}"));
            let client = Client {
                host: host.clone(),
                number,
                seed: self.chance.any(),
                pace: self.scenario.pace,
                nodes: nodes.clone(),
                ledger: self.ledger.clone(),
                stop: Arc::clone(stop),
                planted: self.planted,
            };
            host.spawn(client.run());
        }
    }
}
