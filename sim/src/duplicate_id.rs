//! Two nodes with copies of one disk: every complete answer has the records that either of them acknowledged.

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

/// The machine whose disk is copied, and the machine with the copy.
const ORIGINAL: usize = 2;
const COPY: usize = 3;

struct DuplicateIdTest {
    world: World,
    cluster: SimCluster,
    ledger: RecordLedger,
    rng: SeededRng,
    stop: Arc<AtomicBool>,
    pending: Vec<PendingQuery>,
    /// The number of answers to queries since then, by completeness.
    since: Duration,
    answers: BTreeMap<bool, usize>,
}

impl DuplicateIdTest {
    /// Three nodes, and one that is down. Clients append to all.
    fn new(seed: u64) -> Self {
        let (world, rng) = (World::new(seed), SeededRng::new(seed));
        let join = (0..3).map(|number| format!("n{number}:7659")).collect();
        let settings = NodeSettings::for_simulation(2, 0, join, None);
        let machine = |number| Machine::new(world.add_host(&format!("n{number}")), number, BOTH, settings.clone());
        let mut machines: Vec<Machine> = (0..=COPY).map(machine).collect();
        machines[COPY].cannot_start = true;
        machines[COPY].host.kill();
        let mut cluster = SimCluster::from_machines(machines, 2);
        cluster.start_all();
        let test = Self {
            world,
            cluster,
            ledger: RecordLedger::default(),
            rng,
            stop: Arc::default(),
            pending: Vec::new(),
            since: Duration::ZERO,
            answers: BTreeMap::new(),
        };
        let machines = test.cluster.machines.iter().enumerate();
        let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
        for number in 0..4 {
            let client = AppendClient {
                host: test.world.add_host(&format!("c{number}")),
                number,
                seed: test.rng.next_u64(),
                batch_interval: Duration::from_millis(50),
                nodes: nodes.clone(),
                ledger: test.ledger.clone(),
                stop: Arc::clone(&test.stop),
                bug: None,
            };
            client.host.clone().spawn(client.run());
        }
        test
    }

    /// Queries all nodes for some time and checks the answers.
    fn run_and_query(&mut self, seconds: u64) {
        for _ in 0..seconds * 20 {
            self.world.run_for(Duration::from_millis(50));
            for query in std::mem::take(&mut self.pending) {
                match query.poll() {
                    QueryStatus::Pending(query) => self.pending.push(query),
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
                // A node that has not joined serves no client.
                if self.join_state(at) == Some(JoinState::Joined) && self.rng.percent(50) {
                    let query = PendingQuery::random(&self.world, &self.cluster, &self.ledger, at, &self.rng);
                    self.pending.extend(query);
                }
            }
        }
    }

    /// Copies the disk with its node id to the other machine.
    fn clone_disk(&mut self) {
        let [.., original, copy] = &mut self.cluster.machines[..] else { unreachable!() };
        copy.clone_disk_from(original);
    }

    fn reset_counts(&mut self) {
        (self.since, self.answers) = (self.world.now(), BTreeMap::new());
    }

    fn join_state(&self, at: usize) -> Option<JoinState> {
        self.cluster.machines[at].node().map(|node| node.cluster.join_state())
    }
}

#[test]
fn complete_answers_have_all_records_of_two_nodes_with_one_id() {
    for seed in 0..8 {
        let mut test = DuplicateIdTest::new(seed);
        test.run_and_query(15);
        assert!(test.answers[&true] > 50, "answers are complete before: {:?}", test.answers);
        // Both start while the other is down.
        test.cluster.machines[ORIGINAL].kill();
        test.clone_disk();
        test.world.run_for(test.rng.duration(Duration::ZERO, Duration::from_secs(10)));
        let (first, second) = if seed % 2 == 0 { (ORIGINAL, COPY) } else { (COPY, ORIGINAL) };
        test.cluster.machines[first].start();
        test.world.run_for(test.rng.duration(Duration::ZERO, Duration::from_millis(3)));
        test.cluster.machines[second].start();
        test.run_and_query(3);
        let states = [ORIGINAL, COPY].map(|at| test.join_state(at));
        test.reset_counts();
        test.run_and_query(20);
        if states == [Some(JoinState::Joined); 2] {
            assert_eq!(test.answers.get(&true), None, "seed {seed}: an answer is complete while both run");
        } else {
            assert!(states.iter().any(|state| matches!(state, Some(JoinState::Refused(_)))), "seed {seed}: {states:?}");
        }
        test.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_duplicate_node_is_refused_while_the_original_is_alive() {
    for seed in 20..24 {
        let mut test = DuplicateIdTest::new(seed);
        test.run_and_query(15);
        test.clone_disk();
        test.cluster.machines[COPY].start();
        test.reset_counts();
        test.run_and_query(10);
        assert!(
            matches!(test.join_state(COPY), Some(JoinState::Refused(_))),
            "seed {seed}: {:?}",
            test.join_state(COPY)
        );
        assert!(test.answers[&true] > 50, "seed {seed}: {:?}", test.answers);
        test.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_moved_disk_keeps_its_node_id() {
    for seed in 40..44 {
        let mut test = DuplicateIdTest::new(seed);
        test.run_and_query(15);
        test.cluster.machines[ORIGINAL].kill();
        test.clone_disk();
        test.cluster.machines[COPY].start();
        test.run_and_query(8);
        test.reset_counts();
        test.run_and_query(10);
        assert_eq!((test.join_state(COPY), test.answers.get(&false)), (Some(JoinState::Joined), None), "seed {seed}");
        test.stop.store(true, Ordering::Relaxed);
    }
}
