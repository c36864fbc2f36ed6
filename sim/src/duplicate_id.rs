//! A node's disk is copied, and both are started: whatever one of them acknowledged is in each answer that calls itself
//! complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_cluster::JoinState;
use bucksaw_env::sim::World;
use bucksaw_node::Roles;

use crate::client::AppendClient;
use crate::ledger::RecordLedger;
use crate::machine::Machine;
use crate::pending_query::{PendingQuery, QueryStatus};
use crate::rng::SeededRng;
use crate::settings::NodeSettings;
use crate::sim_cluster::SimCluster;

const BOTH: Roles = Roles { ingest: true, store: true };

/// The machine whose disk is copied, and the one that has the copy.
const ORIGINAL: usize = 2;
const COPY: usize = 3;

struct DuplicateIdTest {
    world: World,
    fleet: SimCluster,
    ledger: RecordLedger,
    rng: SeededRng,
    stop: Arc<AtomicBool>,
    pending: Vec<PendingQuery>,
    /// Answers to questions that were asked since then, by whether they called themselves complete.
    since: Duration,
    answers: BTreeMap<bool, usize>,
}

impl DuplicateIdTest {
    /// Three nodes, and one that is not up. Clients write to all of them.
    fn new(seed: u64) -> Self {
        let (world, rng) = (World::new(seed), SeededRng::new(seed));
        let join = (0..3).map(|number| format!("n{number}:7659")).collect();
        let settings = NodeSettings::for_simulation(2, 0, join, None);
        let machine = |number| Machine::new(world.add_host(&format!("n{number}")), number, BOTH, settings.clone());
        let mut machines: Vec<Machine> = (0..=COPY).map(machine).collect();
        machines[COPY].cannot_start = true;
        machines[COPY].host.kill();
        let mut fleet = SimCluster::from_machines(machines, 2);
        fleet.start_all();
        let bench = Self {
            world,
            fleet,
            ledger: RecordLedger::default(),
            rng,
            stop: Arc::default(),
            pending: Vec::new(),
            since: Duration::ZERO,
            answers: BTreeMap::new(),
        };
        let machines = bench.fleet.machines.iter().enumerate();
        let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
        for number in 0..4 {
            let client = AppendClient {
                host: bench.world.add_host(&format!("c{number}")),
                number,
                seed: bench.rng.next_u64(),
                batch_interval: Duration::from_millis(50),
                nodes: nodes.clone(),
                ledger: bench.ledger.clone(),
                stop: Arc::clone(&bench.stop),
                bug: None,
            };
            client.host.clone().spawn(client.run());
        }
        bench
    }

    /// Lets time pass while questions are asked of all, and checks the answers.
    fn run_and_query(&mut self, seconds: u64) {
        for _ in 0..seconds * 20 {
            self.world.run_for(Duration::from_millis(50));
            for question in std::mem::take(&mut self.pending) {
                match question.poll() {
                    QueryStatus::Pending(question) => self.pending.push(question),
                    QueryStatus::Cancelled => {}
                    QueryStatus::Failed(violation) => panic!("{violation:?}"),
                    QueryStatus::Answered(answer) => {
                        if answer.asked_at >= self.since {
                            *self.answers.entry(answer.is_complete()).or_insert(0) += 1;
                        }
                        let violations = answer.check(&self.ledger);
                        assert!(violations.is_empty(), "{violations:?} {:?}", answer.stats);
                    }
                }
            }
            for at in 0..=COPY {
                // A node that has not taken its place serves no client.
                if self.place(at) == Some(JoinState::Joined) && self.rng.percent(50) {
                    let asked = PendingQuery::random(&self.world, &self.fleet, &self.ledger, at, &self.rng);
                    self.pending.extend(asked);
                }
            }
        }
    }

    /// Puts a copy of the disk into the other machine. It is the same node then.
    fn clone_disk(&mut self) {
        let [.., original, copy] = &mut self.fleet.machines[..] else { unreachable!() };
        copy.clone_disk_from(original);
    }

    fn reset_counts(&mut self) {
        (self.since, self.answers) = (self.world.now(), BTreeMap::new());
    }

    fn place(&self, at: usize) -> Option<JoinState> {
        self.fleet.machines[at].node().map(|node| node.cluster.join_state())
    }
}

#[test]
fn complete_answers_have_all_records_of_two_nodes_with_one_id() {
    for seed in 0..12 {
        let mut bench = DuplicateIdTest::new(seed);
        bench.run_and_query(15);
        assert!(bench.answers[&true] > 50, "answers are complete before: {:?}", bench.answers);
        // Neither is up when the other looks for it.
        bench.fleet.machines[ORIGINAL].kill();
        bench.clone_disk();
        bench.world.run_for(bench.rng.duration(Duration::ZERO, Duration::from_secs(10)));
        let (first, second) = if seed % 2 == 0 { (ORIGINAL, COPY) } else { (COPY, ORIGINAL) };
        bench.fleet.machines[first].start();
        bench.world.run_for(bench.rng.duration(Duration::ZERO, Duration::from_millis(3)));
        bench.fleet.machines[second].start();
        bench.run_and_query(3);
        let placed = [ORIGINAL, COPY].map(|at| bench.place(at));
        bench.reset_counts();
        bench.run_and_query(20);
        if placed == [Some(JoinState::Joined); 2] {
            assert_eq!(bench.answers.get(&true), None, "seed {seed}: while there are two no answer is complete");
        } else {
            assert!(placed.iter().any(|place| matches!(place, Some(JoinState::Refused(_)))), "seed {seed}: {placed:?}");
        }
        bench.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_duplicate_node_is_refused_while_the_original_is_alive() {
    for seed in 20..24 {
        let mut bench = DuplicateIdTest::new(seed);
        bench.run_and_query(15);
        bench.clone_disk();
        bench.fleet.machines[COPY].start();
        bench.reset_counts();
        bench.run_and_query(10);
        assert!(matches!(bench.place(COPY), Some(JoinState::Refused(_))), "seed {seed}: {:?}", bench.place(COPY));
        assert!(bench.answers[&true] > 50, "seed {seed}: {:?}", bench.answers);
        bench.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_moved_disk_keeps_its_node_id() {
    for seed in 40..44 {
        let mut bench = DuplicateIdTest::new(seed);
        bench.run_and_query(15);
        bench.fleet.machines[ORIGINAL].kill();
        bench.clone_disk();
        bench.fleet.machines[COPY].start();
        bench.run_and_query(8);
        bench.reset_counts();
        bench.run_and_query(10);
        assert_eq!((bench.place(COPY), bench.answers.get(&false)), (Some(JoinState::Joined), None), "seed {seed}");
        bench.stop.store(true, Ordering::Relaxed);
    }
}
