//! One run: faults, then healing, then the final checks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_env::sim::World;

use crate::check;
use crate::claims::RepairClaims;
use crate::client::AppendClient;
use crate::erasure_probe::{self, ErasureProbe};
use crate::fault_injector::SimFaultInjector;
use crate::injected_bug::InjectedBug;
use crate::ledger::{RecordLedger, SentStatus, Violation};
use crate::pending_query::{PendingQuery, QueryStatus};
use crate::query_kind::QueryKind;
use crate::rng::SeededRng;
use crate::scenario::Scenario;
use crate::sim_cluster::SimCluster;
use crate::tail::TailSession;
use crate::trace;

/// Time until all pending segments are stored in a healthy cluster.
const HEAL_MAX: Duration = Duration::from_secs(600);

/// Time until the last appends of the clients end.
const CLIENTS_END_MAX: Duration = Duration::from_secs(100);

/// Interval of the checks.
const STEP_TIME: Duration = Duration::from_millis(500);

/// Time until appends with each durability are acknowledged in a healthy cluster.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Time until the nodes of a healthy cluster agree on the members.
const AGREE_MAX: Duration = Duration::from_secs(60);

/// Time until each record has all its replicas in a healthy cluster: a store counts as lost after 20 s, and the second pass
/// finds a damaged block.
const REPLICATE_MAX: Duration = Duration::from_secs(600);

/// Interval of the check of replicas.
const REPLICATE_STEP: Duration = Duration::from_secs(5);

/// Time until a healthy cluster has completed an erasure: requests are repeated, and queue segments have a grace period.
const ERASE_MAX: Duration = Duration::from_secs(300);

/// Time until a query is answered in a healthy cluster.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Maximum concurrent random queries.
const PENDING_QUERIES_MAX: usize = 3;

/// Duration of a tail.
const TAIL_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Time until a tail is connected to all nodes of a healthy cluster; new records then arrive within the same time.
const TAIL_CONNECT_MAX: Duration = Duration::from_secs(10);

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// The violations.
    pub violations: Vec<Violation>,
    /// Simulated time.
    pub time: Duration,
    /// Records that were sent.
    pub sent: usize,
    /// Records that were acknowledged and are not excused.
    pub acknowledged: usize,
    /// Answers checked during the faults.
    pub answers: usize,
    /// Complete ones among them.
    pub complete: usize,
    /// Power cuts of single machines.
    pub power_cuts: u64,
    /// Damaged queue segments and member files.
    pub damaged_files: usize,
    /// Columnar blocks on all stores at the end of the run.
    pub columnar_blocks: usize,
    /// The run hash.
    pub fingerprint: u64,
}

/// Runs a scenario under a seed, with an injected bug if one is given.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario, bug: Option<InjectedBug>) -> RunOutcome {
    run_in(&World::new(seed), seed, scenario, bug)
}

fn run_in(world: &World, seed: u64, scenario: &Scenario, bug: Option<InjectedBug>) -> RunOutcome {
    let _traced = trace::attach(world);
    let ledger = RecordLedger::default();
    let without_repair =
        Scenario { faulty_stores: Vec::new(), destroys_store: false, loses_disk: false, ..scenario.clone() };
    let scenario = if bug.is_some_and(InjectedBug::is_repaired) { &without_repair } else { scenario };
    // Few runs damage a queue segment that no store has yet, so each run with this bug damages files.
    let damaging = Scenario { damage_seed: scenario.damage_seed.or(Some(seed)), ..scenario.clone() };
    let scenario = if bug == Some(InjectedBug::SealNotChecked) { &damaging } else { scenario };
    let erasing = Scenario { erases: true, ..scenario.clone() };
    let scenario = if bug == Some(InjectedBug::ErasureForgotten) { &erasing } else { scenario };
    let ran = catch_unwind(AssertUnwindSafe(|| ScenarioRun::new(world, seed, scenario, &ledger, bug).run()));
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        (vec![Violation::Panicked(panic_message(&*panic))], AnswerCounts::default())
    };
    let (violations, answers) = ran.unwrap_or_else(panicked);
    let entries = ledger.lock();
    let acknowledged = entries.entries.values().filter(|entry| entry.fate == SentStatus::Acknowledged).count();
    RunOutcome {
        violations,
        time: world.now(),
        sent: entries.entries.len(),
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
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// Counts of a run.
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
    cluster: SimCluster,
    /// Queries without answer yet.
    pending: Vec<PendingQuery>,
    /// The running tail and its end.
    tail: Option<(Duration, TailSession)>,
    answers: AnswerCounts,
    violations: Vec<Violation>,
    claims: RepairClaims,
    erasure: Option<ErasureProbe>,
}

impl<'a> ScenarioRun<'a> {
    fn new(
        world: &'a World,
        seed: u64,
        scenario: &'a Scenario,
        ledger: &'a RecordLedger,
        bug: Option<InjectedBug>,
    ) -> Self {
        let cluster = SimCluster::build(world, scenario, bug);
        let rng = SeededRng::new(seed);
        Self {
            world,
            scenario,
            ledger,
            bug,
            rng,
            cluster,
            pending: Vec::new(),
            tail: None,
            answers: AnswerCounts::default(),
            violations: Vec::new(),
            claims: RepairClaims::new(scenario),
            erasure: scenario.erases.then(|| ErasureProbe::at(world.now() + scenario.time / 2)),
        }
    }

    fn run(mut self) -> (Vec<Violation>, AnswerCounts) {
        if self.scenario.erases {
            self.ledger.expect_erasure();
        }
        self.cluster.start_all();
        self.world.run_for(Duration::from_secs(5));
        let stop = Arc::new(AtomicBool::new(false));
        self.start_clients(&stop);
        self.world.network().set_conditions(self.scenario.conditions);
        let fault_rng = SeededRng::new(self.rng.next_u64());
        let mut faults = SimFaultInjector::new(self.world, &fault_rng, self.ledger, self.scenario);
        let until = self.world.now() + self.scenario.time;
        let mut next = self.world.now() + self.scenario.fault_interval;
        while self.world.now() < until && self.violations.is_empty() {
            self.step();
            faults.end_expired(&mut self.cluster);
            let early = self.claims.check(&self.cluster, self.ledger);
            self.violations.extend(early);
            if self.world.now() >= next {
                faults.inject(&mut self.cluster);
                next = self.world.now()
                    + self.rng.duration(self.scenario.fault_interval / 2, self.scenario.fault_interval * 2);
            }
        }
        stop.store(true, Ordering::Relaxed);
        faults.end_all(&mut self.cluster);
        self.heal(&mut faults);
        self.answers.damaged_files = faults.damaged_files();
        self.answers.columnar_blocks = self.cluster.columnar_blocks().len();
        self.answers.power_cuts = self.cluster.machines.iter().map(|machine| machine.power_cuts).sum();
        (self.violations, self.answers)
    }

    /// Waits for the cluster to heal, then checks it. The first violation ends the run.
    fn heal(&mut self, faults: &mut SimFaultInjector<'_>) {
        self.run_until(CLIENTS_END_MAX, |_| false, faults);
        let tail = self.any_up().and_then(|at| TailSession::start(self.cluster.machines.get(at)?));
        self.run_until(TAIL_CONNECT_MAX, |_| false, faults);
        let probes = check::probe_appends(self.world, &self.cluster, self.ledger);
        self.run_until(PROBE_MAX, |_| probes.is_done(), faults);
        self.run_until(HEAL_MAX, |cluster| cluster.pending_segments() == 0, faults);
        self.run_until(AGREE_MAX, |cluster| check::check_membership(cluster).is_empty(), faults);
        self.run_until_replicated(faults);
        check::forget_lost_nodes(self.world, &self.cluster);
        self.run_until(AGREE_MAX, check::are_lost_nodes_forgotten, faults);
        if self.erasure.is_some() {
            self.run_until(ERASE_MAX, erasure_probe::is_complete, faults);
        }
        if !self.violations.is_empty() {
            return;
        }
        if let Some(tail) = tail {
            self.violations.extend(tail.check_all(self.ledger, &probes.required(self.ledger)));
        }
        self.violations.extend(check::check_up(&self.cluster));
        self.violations.extend(probes.check());
        if self.cluster.pending_segments() > 0 {
            self.violations.push(Violation::Stuck(format!(
                "{} segments are still pending in queues",
                self.cluster.pending_segments()
            )));
        }
        self.violations.extend(check::check_stored(&self.cluster, self.ledger));
        self.violations.extend(check::check_consumed(&self.cluster));
        self.violations.extend(check::check_damage(&self.cluster, faults.may_have_damaged_queue()));
        self.violations.extend(check::check_membership(&self.cluster));
        if self.erasure.is_some() {
            self.violations.extend(erasure_probe::check(&self.cluster));
        }
        if self.violations.is_empty() {
            self.query_all(faults);
        }
    }

    fn run_until_replicated(&mut self, faults: &mut SimFaultInjector<'_>) {
        let until = self.world.now() + REPLICATE_MAX;
        while self.violations.is_empty()
            && !check::is_replicated(&self.cluster, self.ledger)
            && self.world.now() < until
        {
            self.run_until(REPLICATE_STEP, |_| false, faults);
        }
    }

    /// The final queries to each node, and the queries that are still pending.
    fn query_all(&mut self, faults: &mut SimFaultInjector<'_>) {
        let nodes: Vec<usize> = self.cluster.nodes().map(|(at, _)| at).collect();
        let mut open: Vec<PendingQuery> = std::mem::take(&mut self.pending);
        for at in nodes {
            for kind in QueryKind::FINAL {
                open.extend(PendingQuery::final_check(self.world, &self.cluster, self.ledger, at, kind));
            }
        }
        let until = self.world.now() + ANSWER_MAX;
        while !open.is_empty() && self.world.now() < until {
            self.world.run_for(STEP_TIME);
            faults.end_expired(&mut self.cluster);
            let statuses: Vec<QueryStatus> = open.drain(..).map(PendingQuery::poll).collect();
            for status in statuses {
                match status {
                    QueryStatus::Pending(query) => open.push(query),
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

    /// A random machine that is up.
    fn any_up(&self) -> Option<usize> {
        let up: Vec<usize> = self.cluster.nodes().map(|(at, _)| at).collect();
        self.rng.choose(&up).copied()
    }

    fn run_until(
        &mut self,
        limit: Duration,
        condition: impl Fn(&SimCluster) -> bool,
        faults: &mut SimFaultInjector<'_>,
    ) {
        let until = self.world.now() + limit;
        while self.violations.is_empty() && !condition(&self.cluster) && self.world.now() < until {
            self.step();
            faults.end_expired(&mut self.cluster);
            let early = self.claims.check(&self.cluster, self.ledger);
            self.violations.extend(early);
        }
    }

    /// Advances the time by one step, with queries and tails.
    fn step(&mut self) {
        // Nodes that have just started are queried, too.
        for at in self.cluster.take_just_started() {
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
        self.update_erasure();
        self.world.run_for(STEP_TIME);
        let statuses: Vec<QueryStatus> = self.pending.drain(..).map(PendingQuery::poll).collect();
        for standing in statuses {
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
            self.pending.extend(PendingQuery::random(self.world, &self.cluster, self.ledger, at, &self.rng));
        }
    }

    /// Requests an erasure when it is due.
    fn update_erasure(&mut self) {
        let now = self.world.now();
        let is_due = self.erasure.as_ref().is_some_and(|erasure| erasure.is_due(now));
        let at = if is_due { self.any_up() } else { None };
        let Some(erasure) = &mut self.erasure else { return };
        if let Some(at) = at {
            erasure.request(now, &self.cluster, at);
        }
        erasure.update(now, &mut self.cluster);
    }

    /// Starts or ends a tail.
    fn update_tail(&mut self) {
        let now = self.world.now();
        match self.tail.take() {
            Some((until, tail)) if now >= until => self.violations.extend(tail.check(self.ledger)),
            None if self.rng.percent(1) => {
                let until = now + self.rng.duration(TAIL_TIME.0, TAIL_TIME.1);
                let tail = self.any_up().and_then(|at| TailSession::start(self.cluster.machines.get(at)?));
                self.tail = tail.map(|tail| (until, tail));
            }
            tail => self.tail = tail,
        }
    }

    fn start_clients(&self, stop: &Arc<AtomicBool>) {
        let machines = self.cluster.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
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
        for (seed, bug) in [(0, None), (1, None), (6, Some(InjectedBug::AckForgotten))] {
            let world = World::new(seed);
            let observer = world.observer();
            run_in(&world, seed, &Scenario::random(seed), bug);
            assert!(observer.time_and_running_host().is_some());
            drop(world);
            assert!(observer.time_and_running_host().is_none(), "seed {seed}");
        }
    }
}
