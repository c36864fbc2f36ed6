//! One run: things go wrong, all is healed, everything must have come right.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_env::sim::World;

use crate::check;
use crate::claims::RepairClaims;
use crate::client::AppendClient;
use crate::fault_injector::SimFaultInjector;
use crate::injected_bug::InjectedBug;
use crate::ledger::{RecordLedger, SentStatus, Violation};
use crate::pending_query::{PendingQuery, QueryKind, QueryStatus};
use crate::rng::SeededRng;
use crate::scenario::Scenario;
use crate::sim_cluster::SimCluster;
use crate::tail::TailSession;
use crate::trace;

/// When all is healed, everything has come right within so much time.
const HEAL_MAX: Duration = Duration::from_secs(600);

/// Clients that wait for an answer come to their end within so much time.
const CLIENTS_END_MAX: Duration = Duration::from_secs(100);

/// How often things are looked at.
const STEP_TIME: Duration = Duration::from_millis(500);

/// When all is well, every promise is kept within so much time.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// When all is well, nodes agree on who is there within so much time.
const AGREE_MAX: Duration = Duration::from_secs(60);

/// When all is well, each record is kept as often as promised within so much time: a store that went is lost after twenty
/// seconds, and a damaged block is found by the second pass over everything.
const REPLICATE_MAX: Duration = Duration::from_secs(600);

/// How often that is looked at.
const REPLICATE_STEP: Duration = Duration::from_secs(5);

/// When all is well, a question is answered within so much time.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// So many questions are open at the same time.
const PENDING_QUERIES_MAX: usize = 3;

/// For how long somebody follows.
const TAIL_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// When all is well, one who follows has found all nodes within so much time, and is shown within as much what they accept.
const TAIL_CONNECT_MAX: Duration = Duration::from_secs(10);

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
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
    /// Columnar blocks on all stores at the end.
    pub columnar_blocks: usize,
    /// The same for equal runs.
    pub fingerprint: u64,
}

/// Runs a scenario. The seed decides all that is left open; `planted` is what is wrong on purpose.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario, planted: Option<InjectedBug>) -> RunOutcome {
    run_in(&World::new(seed), seed, scenario, planted)
}

fn run_in(world: &World, seed: u64, scenario: &Scenario, planted: Option<InjectedBug>) -> RunOutcome {
    let _traced = trace::attach(world);
    let ledger = RecordLedger::default();
    let sound = Scenario { faulty_stores: Vec::new(), destroys_store: false, loses_disk: false, ..scenario.clone() };
    let scenario = if planted.is_some_and(InjectedBug::is_repaired) { &sound } else { scenario };
    // Few runs damage a queue segment that no store has yet, so each run with this bug damages files.
    let damaging = Scenario { damage_seed: scenario.damage_seed.or(Some(seed)), ..scenario.clone() };
    let scenario = if planted == Some(InjectedBug::SealNotChecked) { &damaging } else { scenario };
    let ran = catch_unwind(AssertUnwindSafe(|| ScenarioRun::new(world, seed, scenario, &ledger, planted).run()));
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        (vec![Violation::Panicked(panic_message(&*panic))], AnswerCounts::default())
    };
    let (violations, answers) = ran.unwrap_or_else(panicked);
    let known = ledger.lock();
    let acknowledged = known.entries.values().filter(|entry| entry.fate == SentStatus::Acknowledged).count();
    RunOutcome {
        violations,
        time: world.now(),
        sent: known.entries.len(),
        acknowledged,
        answers: answers.checked,
        complete: answers.complete,
        power_cuts: answers.power_cuts,
        damaged_files: answers.damaged_files,
        columnar_blocks: answers.columnar_blocks,
        fingerprint: world.fingerprint(),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

/// How many answers there were, and what went wrong.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerCounts {
    checked: usize,
    complete: usize,
    power_cuts: u64,
    damaged_files: usize,
    columnar_blocks: usize,
}

struct ScenarioRun<'a> {
    world: &'a World,
    scenario: &'a Scenario,
    ledger: &'a RecordLedger,
    bug: Option<InjectedBug>,
    rng: SeededRng,
    fleet: SimCluster,
    /// What was asked and is not answered yet.
    pending: Vec<PendingQuery>,
    /// Who follows, and until when.
    tail: Option<(Duration, TailSession)>,
    answers: AnswerCounts,
    violations: Vec<Violation>,
    claims: RepairClaims,
}

impl<'a> ScenarioRun<'a> {
    fn new(
        world: &'a World,
        seed: u64,
        scenario: &'a Scenario,
        ledger: &'a RecordLedger,
        planted: Option<InjectedBug>,
    ) -> Self {
        let fleet = SimCluster::build(world, scenario, planted);
        let rng = SeededRng::new(seed);
        Self {
            world,
            scenario,
            ledger,
            bug: planted,
            rng,
            fleet,
            pending: Vec::new(),
            tail: None,
            answers: AnswerCounts::default(),
            violations: Vec::new(),
            claims: RepairClaims::new(scenario),
        }
    }

    fn run(mut self) -> (Vec<Violation>, AnswerCounts) {
        self.fleet.start_all();
        self.world.run_for(Duration::from_secs(5));
        let stop = Arc::new(AtomicBool::new(false));
        self.start_clients(&stop);
        self.world.network().set_conditions(self.scenario.conditions);
        let fault_rng = SeededRng::new(self.rng.next_u64());
        let mut trouble = SimFaultInjector::new(self.world, &fault_rng, self.ledger, self.scenario);
        let until = self.world.now() + self.scenario.time;
        let mut next = self.world.now() + self.scenario.fault_interval;
        while self.world.now() < until && self.violations.is_empty() {
            self.step();
            trouble.end_expired(&mut self.fleet);
            let early = self.claims.check(&self.fleet, self.ledger);
            self.violations.extend(early);
            if self.world.now() >= next {
                trouble.inject(&mut self.fleet);
                next = self.world.now()
                    + self.rng.duration(self.scenario.fault_interval / 2, self.scenario.fault_interval * 2);
            }
        }
        stop.store(true, Ordering::Relaxed);
        trouble.end_all(&mut self.fleet);
        self.heal(&mut trouble);
        self.answers.damaged_files = trouble.damaged_files();
        self.answers.columnar_blocks = self.fleet.columnar_blocks().len();
        self.answers.power_cuts = self.fleet.machines.iter().map(|machine| machine.power_cuts).sum();
        (self.violations, self.answers)
    }

    /// Sees to it that everything comes right. The first thing that is wrong is enough.
    fn heal(&mut self, trouble: &mut SimFaultInjector<'_>) {
        self.run_until(CLIENTS_END_MAX, |_| false, trouble);
        let follow = self.any_up().and_then(|at| TailSession::start(self.fleet.machines.get(at)?));
        self.run_until(TAIL_CONNECT_MAX, |_| false, trouble);
        let knocking = check::probe_appends(self.world, &self.fleet, self.ledger);
        self.run_until(PROBE_MAX, |_| knocking.is_done(), trouble);
        self.run_until(HEAL_MAX, |fleet| fleet.pending_segments() == 0, trouble);
        self.run_until(AGREE_MAX, |fleet| check::check_membership(fleet).is_empty(), trouble);
        self.run_until_replicated(trouble);
        check::forget_lost_nodes(self.world, &self.fleet);
        self.run_until(AGREE_MAX, check::are_lost_nodes_forgotten, trouble);
        if !self.violations.is_empty() {
            return;
        }
        if let Some(follow) = follow {
            self.violations.extend(follow.check_all(self.ledger, &knocking.required(self.ledger)));
        }
        self.violations.extend(check::check_up(&self.fleet));
        self.violations.extend(knocking.check());
        if self.fleet.pending_segments() > 0 {
            self.violations.push(Violation::Stuck(format!(
                "{} segments are still pending in queues",
                self.fleet.pending_segments()
            )));
        }
        self.violations.extend(check::check_stored(&self.fleet, self.ledger));
        self.violations.extend(check::check_consumed(&self.fleet));
        self.violations.extend(check::check_damage(&self.fleet, trouble.may_have_damaged_queue()));
        self.violations.extend(check::check_membership(&self.fleet));
        if self.violations.is_empty() {
            self.query_all(trouble);
        }
    }

    fn run_until_replicated(&mut self, trouble: &mut SimFaultInjector<'_>) {
        let until = self.world.now() + REPLICATE_MAX;
        while self.violations.is_empty() && !check::is_replicated(&self.fleet, self.ledger) && self.world.now() < until
        {
            self.run_until(REPLICATE_STEP, |_| false, trouble);
        }
    }

    /// The last questions, of each node; and what was asked before must be answered by now.
    fn query_all(&mut self, trouble: &mut SimFaultInjector<'_>) {
        let nodes: Vec<usize> = self.fleet.nodes().map(|(at, _)| at).collect();
        let mut open: Vec<PendingQuery> = std::mem::take(&mut self.pending);
        for at in nodes {
            for kind in QueryKind::FINAL {
                open.extend(PendingQuery::final_check(self.world, &self.fleet, self.ledger, at, kind));
            }
        }
        let until = self.world.now() + ANSWER_MAX;
        while !open.is_empty() && self.world.now() < until {
            self.world.run_for(STEP_TIME);
            trouble.end_expired(&mut self.fleet);
            let looked: Vec<QueryStatus> = open.drain(..).map(PendingQuery::poll).collect();
            for standing in looked {
                match standing {
                    QueryStatus::Pending(question) => open.push(question),
                    QueryStatus::Cancelled => {}
                    QueryStatus::Answered(answer) => self.violations.extend(answer.check(self.ledger)),
                    QueryStatus::Failed(violation) => self.violations.push(violation),
                }
            }
        }
        if !open.is_empty() {
            self.violations.push(Violation::Unanswered(format!("{} queries in a healthy cluster", open.len())));
        }
    }

    /// One of the machines that are up.
    fn any_up(&self) -> Option<usize> {
        let up: Vec<usize> = self.fleet.nodes().map(|(at, _)| at).collect();
        self.rng.choose(&up).copied()
    }

    fn run_until(
        &mut self,
        at_most: Duration,
        is_so: impl Fn(&SimCluster) -> bool,
        trouble: &mut SimFaultInjector<'_>,
    ) {
        let until = self.world.now() + at_most;
        while self.violations.is_empty() && !is_so(&self.fleet) && self.world.now() < until {
            self.step();
            trouble.end_expired(&mut self.fleet);
            let early = self.claims.check(&self.fleet, self.ledger);
            self.violations.extend(early);
        }
    }

    /// Lets a little time pass, and asks meanwhile.
    fn step(&mut self) {
        // Also who has begun in this very moment is asked.
        for at in self.fleet.take_just_started() {
            if self.rng.percent(30) {
                self.send_query(at);
            }
        }
        if self.rng.percent(5)
            && let Some(at) = self.any_up()
        {
            self.send_query(at);
        }
        self.update_tail();
        self.world.run_for(STEP_TIME);
        let looked: Vec<QueryStatus> = self.pending.drain(..).map(PendingQuery::poll).collect();
        for standing in looked {
            match standing {
                QueryStatus::Pending(question) => self.pending.push(question),
                QueryStatus::Cancelled => {}
                QueryStatus::Answered(answer) => {
                    answer.log();
                    self.answers.checked += 1;
                    self.answers.complete += usize::from(answer.is_complete());
                    self.violations.extend(answer.check(self.ledger));
                }
                QueryStatus::Failed(violation) => self.violations.push(violation),
            }
        }
    }

    fn send_query(&mut self, at: usize) {
        if self.pending.len() < PENDING_QUERIES_MAX {
            self.pending.extend(PendingQuery::random(self.world, &self.fleet, self.ledger, at, &self.rng));
        }
    }

    /// Somebody follows for a while, now and then.
    fn update_tail(&mut self) {
        let now = self.world.now();
        match self.tail.take() {
            Some((until, follow)) if now >= until => self.violations.extend(follow.check(self.ledger)),
            None if self.rng.percent(1) => {
                let until = now + self.rng.duration(TAIL_TIME.0, TAIL_TIME.1);
                let follow = self.any_up().and_then(|at| TailSession::start(self.fleet.machines.get(at)?));
                self.tail = follow.map(|follow| (until, follow));
            }
            going => self.tail = going,
        }
    }

    fn start_clients(&self, stop: &Arc<AtomicBool>) {
        let machines = self.fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
        let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
        for number in 0..self.scenario.clients {
            let host = self.world.add_host(&format!("c{number}"));
            let client = AppendClient {
                host: host.clone(),
                number,
                seed: self.rng.next_u64(),
                batch_interval: self.scenario.batch_interval,
                nodes: nodes.clone(),
                ledger: self.ledger.clone(),
                stop: Arc::clone(stop),
                bug: self.bug,
            };
            if self.scenario.has_keyed_clients {
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
    fn a_dropped_world_frees_everything() {
        for seed in 0..8 {
            let world = World::new(seed);
            let witness = world.observer();
            let planted = (seed > 5).then_some(InjectedBug::AckForgotten);
            run_in(&world, seed, &Scenario::random(seed), planted);
            assert!(witness.time_and_running_host().is_some());
            drop(world);
            assert!(witness.time_and_running_host().is_none(), "seed {seed}");
        }
    }
}
