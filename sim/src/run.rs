//! One run: things go wrong, all is healed, everything must have come right.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::sim::World;

use crate::chance::Chance;
use crate::check;
use crate::claims::Claims;
use crate::client::Client;
use crate::faults::Trouble;
use crate::fleet::Fleet;
use crate::follow::Follow;
use crate::ledger::{Fate, Ledger, Violation};
use crate::plant::Mutation;
use crate::question::{Kind, Question, Standing};
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

/// When all is well, each record is kept as often as promised within so much time: a store that went is lost after twenty
/// seconds, and a damaged block is found by the second pass over everything.
const KEEP_MAX: Duration = Duration::from_secs(600);

/// How often that is looked at.
const KEEP_STEP: Duration = Duration::from_secs(5);

/// When all is well, a question is answered within so much time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// So many questions are open at the same time.
const QUESTIONS: usize = 3;

/// For how long somebody follows.
const FOLLOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// When all is well, one who follows has found all nodes within so much time, and is shown within as much what they accept.
const FOUND_MAX: Duration = Duration::from_secs(10);

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
    /// Those of them that called themselves complete.
    pub complete: usize,
    /// How often the power of a machine was cut.
    pub power_cuts: u64,
    /// Queue segments and lists of nodes that were damaged.
    pub damaged_files: usize,
    /// The same for equal runs.
    pub fingerprint: u64,
}

/// Runs a scenario. The seed decides all that is left open; `planted` is what is wrong on purpose.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario, planted: Option<Mutation>) -> Outcome {
    run_in(&World::new(seed), seed, scenario, planted)
}

fn run_in(world: &World, seed: u64, scenario: &Scenario, planted: Option<Mutation>) -> Outcome {
    let _traced = trace::watch(world);
    let ledger = Ledger::default();
    let sound = Scenario { victims: Vec::new(), destroys: false, empties: false, ..scenario.clone() };
    let scenario = if planted.is_some_and(Mutation::is_mended) { &sound } else { scenario };
    let ran = catch_unwind(AssertUnwindSafe(|| Run::new(world, seed, scenario, &ledger, planted).run()));
    let panicked =
        |panic: Box<dyn std::any::Any + Send>| (vec![Violation::Panicked(words(&*panic))], Answers::default());
    let (violations, answers) = ran.unwrap_or_else(panicked);
    let known = ledger.known();
    let acknowledged = known.entries.values().filter(|entry| entry.fate == Fate::Acknowledged).count();
    Outcome {
        violations,
        time: world.now(),
        sent: known.entries.len(),
        acknowledged,
        answers: answers.all,
        complete: answers.complete,
        power_cuts: answers.power_cuts,
        damaged_files: answers.damaged_files,
        fingerprint: world.fingerprint(),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

/// How many answers there were, and what went wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    all: usize,
    complete: usize,
    power_cuts: u64,
    damaged_files: usize,
}

struct Run<'a> {
    world: &'a World,
    scenario: &'a Scenario,
    ledger: &'a Ledger,
    planted: Option<Mutation>,
    chance: Chance,
    fleet: Fleet,
    /// What was asked and is not answered yet.
    questions: Vec<Question>,
    /// Who follows, and until when.
    follow: Option<(Duration, Follow)>,
    answers: Answers,
    violations: Vec<Violation>,
    claims: Claims,
}

impl<'a> Run<'a> {
    fn new(world: &'a World, seed: u64, scenario: &'a Scenario, ledger: &'a Ledger, planted: Option<Mutation>) -> Self {
        let fleet = Fleet::build(world, scenario, planted);
        let chance = Chance::new(seed);
        Self {
            world,
            scenario,
            ledger,
            planted,
            chance,
            fleet,
            questions: Vec::new(),
            follow: None,
            answers: Answers::default(),
            violations: Vec::new(),
            claims: Claims::new(scenario),
        }
    }

    fn run(mut self) -> (Vec<Violation>, Answers) {
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
            let early = self.claims.check(&self.fleet, self.ledger);
            self.violations.extend(early);
            if self.world.now() >= next {
                trouble.strike(&mut self.fleet);
                next = self.world.now() + self.chance.time(self.scenario.trouble / 2, self.scenario.trouble * 2);
            }
        }
        stop.store(true, Ordering::Relaxed);
        trouble.end(&mut self.fleet);
        self.heal(&mut trouble);
        self.answers.damaged_files = trouble.rotten();
        self.answers.power_cuts = self.fleet.machines.iter().map(|machine| machine.power_cuts).sum();
        (self.violations, self.answers)
    }

    /// Sees to it that everything comes right. The first thing that is wrong is enough.
    fn heal(&mut self, trouble: &mut Trouble<'_>) {
        self.until(CLIENTS_END, |_| false, trouble);
        let follow = self.any_up().and_then(|at| Follow::begin(self.fleet.machines.get(at)?));
        self.until(FOUND_MAX, |_| false, trouble);
        let knocking = check::knock(self.world, &self.fleet, self.ledger);
        self.until(KNOCK_MAX, |_| knocking.is_done(), trouble);
        self.until(HEAL_MAX, |fleet| fleet.waiting() == 0, trouble);
        self.until(AGREE_MAX, |fleet| check::agreed(fleet).is_empty(), trouble);
        self.until_kept(trouble);
        check::forget(self.world, &self.fleet);
        self.until(AGREE_MAX, check::is_forgotten, trouble);
        if !self.violations.is_empty() {
            return;
        }
        if let Some(follow) = follow {
            self.violations.extend(follow.check_all(self.ledger, &knocking.due(self.ledger)));
        }
        self.violations.extend(check::up(&self.fleet));
        self.violations.extend(knocking.check());
        if self.fleet.waiting() > 0 {
            self.violations.push(Violation::Stuck(format!("{} segments wait in queues", self.fleet.waiting())));
        }
        self.violations.extend(check::stored(&self.fleet, self.ledger));
        self.violations.extend(check::consumed(&self.fleet));
        self.violations.extend(check::damage(&self.fleet, trouble.has_spoilt()));
        self.violations.extend(check::agreed(&self.fleet));
        if self.violations.is_empty() {
            self.ask_all(trouble);
        }
    }

    fn until_kept(&mut self, trouble: &mut Trouble<'_>) {
        let until = self.world.now() + KEEP_MAX;
        while self.violations.is_empty() && !check::is_kept(&self.fleet, self.ledger) && self.world.now() < until {
            self.until(KEEP_STEP, |_| false, trouble);
        }
    }

    /// The last questions, of each node; and what was asked before must be answered by now.
    fn ask_all(&mut self, trouble: &mut Trouble<'_>) {
        let nodes: Vec<usize> = self.fleet.nodes().map(|(at, _)| at).collect();
        let mut open: Vec<Question> = std::mem::take(&mut self.questions);
        for at in nodes {
            for kind in Kind::WHOLE {
                open.extend(Question::last(self.world, &self.fleet, self.ledger, at, kind));
            }
        }
        let until = self.world.now() + ANSWER_MAX;
        while !open.is_empty() && self.world.now() < until {
            self.world.run_for(STEP);
            trouble.pass(&mut self.fleet);
            let looked: Vec<Standing> = open.drain(..).map(Question::look).collect();
            for standing in looked {
                match standing {
                    Standing::Open(question) => open.push(question),
                    Standing::Void => {}
                    Standing::Answered(answer) => self.violations.extend(answer.check(self.ledger)),
                    Standing::Wrong(violation) => self.violations.push(violation),
                }
            }
        }
        if !open.is_empty() {
            self.violations.push(Violation::Unanswered(format!("{} questions, though all is well", open.len())));
        }
    }

    /// One of the machines that are up.
    fn any_up(&self) -> Option<usize> {
        let up: Vec<usize> = self.fleet.nodes().map(|(at, _)| at).collect();
        self.chance.one(&up).copied()
    }

    fn until(&mut self, at_most: Duration, is_so: impl Fn(&Fleet) -> bool, trouble: &mut Trouble<'_>) {
        let until = self.world.now() + at_most;
        while self.violations.is_empty() && !is_so(&self.fleet) && self.world.now() < until {
            self.step();
            trouble.pass(&mut self.fleet);
            let early = self.claims.check(&self.fleet, self.ledger);
            self.violations.extend(early);
        }
    }

    /// Lets a little time pass, and asks meanwhile.
    fn step(&mut self) {
        // Also who has begun in this very moment is asked.
        for at in self.fleet.take_fresh() {
            if self.chance.percent(30) {
                self.ask(at);
            }
        }
        if self.chance.percent(5)
            && let Some(at) = self.any_up()
        {
            self.ask(at);
        }
        self.follow();
        self.world.run_for(STEP);
        let looked: Vec<Standing> = self.questions.drain(..).map(Question::look).collect();
        for standing in looked {
            match standing {
                Standing::Open(question) => self.questions.push(question),
                Standing::Void => {}
                Standing::Answered(answer) => {
                    answer.tell();
                    self.answers.all += 1;
                    self.answers.complete += usize::from(answer.is_complete());
                    self.violations.extend(answer.check(self.ledger));
                }
                Standing::Wrong(violation) => self.violations.push(violation),
            }
        }
    }

    fn ask(&mut self, at: usize) {
        if self.questions.len() < QUESTIONS {
            self.questions.extend(Question::drawn(self.world, &self.fleet, self.ledger, at, &self.chance));
        }
    }

    /// Somebody follows for a while, now and then.
    fn follow(&mut self) {
        let now = self.world.now();
        match self.follow.take() {
            Some((until, follow)) if now >= until => self.violations.extend(follow.check(self.ledger)),
            None if self.chance.percent(1) => {
                let until = now + self.chance.time(FOLLOW.0, FOLLOW.1);
                let follow = self.any_up().and_then(|at| Follow::begin(self.fleet.machines.get(at)?));
                self.follow = follow.map(|follow| (until, follow));
            }
            going => self.follow = going,
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
            if self.scenario.keyed {
                host.spawn(client.clone().run_keyed());
            }
            host.spawn(client.run());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_world_when_it_is_over() {
        for seed in 0..8 {
            let world = World::new(seed);
            let witness = world.witness();
            let planted = (seed > 5).then_some(Mutation::SettleForgotten);
            run_in(&world, seed, &Scenario::drawn(seed), planted);
            assert!(witness.moment().is_some());
            drop(world);
            assert!(witness.moment().is_none(), "seed {seed}");
        }
    }
}
