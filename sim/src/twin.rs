//! A node's disk is copied, and both are started: whatever one of them acknowledged is in each answer that calls itself
//! complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_cluster::Place;
use bucksaw_doors::sim::World;
use bucksaw_node::Roles;

use crate::chance::Chance;
use crate::client::Client;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::machine::Machine;
use crate::question::{Question, Standing};
use crate::settings::Settings;

const BOTH: Roles = Roles { ingest: true, store: true };

/// The machine whose disk is copied, and the one that has the copy.
const ORIGINAL: usize = 2;
const COPY: usize = 3;

struct Bench {
    world: World,
    fleet: Fleet,
    ledger: Ledger,
    chance: Chance,
    stop: Arc<AtomicBool>,
    questions: Vec<Question>,
    /// Answers to questions that were asked since then, by whether they called themselves complete.
    since: Duration,
    answers: BTreeMap<bool, usize>,
}

impl Bench {
    /// Three nodes, and one that is not up. Clients write to all of them.
    fn new(seed: u64) -> Self {
        let (world, chance) = (World::new(seed), Chance::new(seed));
        let join = (0..3).map(|number| format!("n{number}:7659")).collect();
        let settings = Settings::small(2, 0, join, None);
        let machine = |number| Machine::new(world.add_node(&format!("n{number}")), number, BOTH, settings.clone());
        let mut machines: Vec<Machine> = (0..=COPY).map(machine).collect();
        machines[COPY].away = true;
        machines[COPY].host.kill();
        let mut fleet = Fleet::of(machines, 2);
        fleet.start_all();
        let bench = Self {
            world,
            fleet,
            ledger: Ledger::default(),
            chance,
            stop: Arc::default(),
            questions: Vec::new(),
            since: Duration::ZERO,
            answers: BTreeMap::new(),
        };
        let machines = bench.fleet.machines.iter().enumerate();
        let nodes: Vec<_> = machines.map(|(at, machine)| (at, machine.host.address())).collect();
        for number in 0..4 {
            let client = Client {
                host: bench.world.add_node(&format!("c{number}")),
                number,
                seed: bench.chance.any(),
                pace: Duration::from_millis(50),
                nodes: nodes.clone(),
                ledger: bench.ledger.clone(),
                stop: Arc::clone(&bench.stop),
                planted: None,
            };
            client.host.clone().spawn(client.run());
        }
        bench
    }

    /// Lets time pass while questions are asked of all, and checks the answers.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 20 {
            self.world.run_for(Duration::from_millis(50));
            for question in std::mem::take(&mut self.questions) {
                match question.look() {
                    Standing::Open(question) => self.questions.push(question),
                    Standing::Void => {}
                    Standing::Wrong(violation) => panic!("{violation:?}"),
                    Standing::Answered(answer) => {
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
                if self.place(at) == Some(Place::Taken) && self.chance.percent(50) {
                    let asked = Question::drawn(&self.world, &self.fleet, &self.ledger, at, &self.chance);
                    self.questions.extend(asked);
                }
            }
        }
    }

    /// Puts a copy of the disk into the other machine. It is the same node then.
    fn copy(&mut self) {
        let [.., original, copy] = &mut self.fleet.machines[..] else { unreachable!() };
        copy.be_copy_of(original);
    }

    fn count_anew(&mut self) {
        (self.since, self.answers) = (self.world.now(), BTreeMap::new());
    }

    fn place(&self, at: usize) -> Option<Place> {
        self.fleet.machines[at].node().map(|node| node.cluster.place())
    }
}

#[test]
fn what_either_of_two_with_one_disk_acknowledges_is_in_each_complete_answer() {
    for seed in 0..12 {
        let mut bench = Bench::new(seed);
        bench.pass(15);
        assert!(bench.answers[&true] > 50, "answers are complete before: {:?}", bench.answers);
        // Neither is up when the other looks for it.
        bench.fleet.machines[ORIGINAL].kill();
        bench.copy();
        bench.world.run_for(bench.chance.time(Duration::ZERO, Duration::from_secs(10)));
        let (first, second) = if seed % 2 == 0 { (ORIGINAL, COPY) } else { (COPY, ORIGINAL) };
        bench.fleet.machines[first].start();
        bench.world.run_for(bench.chance.time(Duration::ZERO, Duration::from_millis(3)));
        bench.fleet.machines[second].start();
        bench.pass(3);
        let placed = [ORIGINAL, COPY].map(|at| bench.place(at));
        bench.count_anew();
        bench.pass(20);
        if placed == [Some(Place::Taken); 2] {
            assert_eq!(bench.answers.get(&true), None, "seed {seed}: while there are two no answer is complete");
        } else {
            assert!(placed.iter().any(|place| matches!(place, Some(Place::Refused(_)))), "seed {seed}: {placed:?}");
        }
        bench.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_copy_is_refused_while_the_original_is_there_and_has_acknowledged_nothing() {
    for seed in 20..24 {
        let mut bench = Bench::new(seed);
        bench.pass(15);
        bench.copy();
        bench.fleet.machines[COPY].start();
        bench.count_anew();
        bench.pass(10);
        assert!(matches!(bench.place(COPY), Some(Place::Refused(_))), "seed {seed}: {:?}", bench.place(COPY));
        assert!(bench.answers[&true] > 50, "seed {seed}: {:?}", bench.answers);
        bench.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_node_that_moves_is_itself_again() {
    for seed in 40..44 {
        let mut bench = Bench::new(seed);
        bench.pass(15);
        bench.fleet.machines[ORIGINAL].kill();
        bench.copy();
        bench.fleet.machines[COPY].start();
        bench.pass(8);
        bench.count_anew();
        bench.pass(10);
        assert_eq!((bench.place(COPY), bench.answers.get(&false)), (Some(Place::Taken), None), "seed {seed}");
        bench.stop.store(true, Ordering::Relaxed);
    }
}
