//! Random histories: senders append while the agent ships, is killed, loses power, finds its disk full or a segment damaged, and
//! a node takes, acknowledges and forgets its connection.
//!
//! Afterwards each acknowledged record is stored under its id with its labels, unless the promise of its durability does not
//! cover it after a power cut, or its loss was counted or reported. No id has two texts, and the queue is empty.
//!
//! `BUCKSAW_AGENT_SEEDS=5000` runs 5,000 histories, `BUCKSAW_AGENT_SEED=7` only this one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bucksaw_fixtures::{Random, SeededRuns, first_failing_seed};

use super::queue_machine::{QueueBug, QueueMachine};

/// The histories of an ordinary test run.
const SEEDS: u64 = 300;

/// The seeds within which every injected bug is found.
const SEEDS_WITH_BUG: u64 = 300;

/// The fault of a history besides kills. One, because damage after a power cut counts as a consequence of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueFault {
    None,
    PowerCut,
    Damage,
    FullDisk,
}

struct QueueHistory {
    machine: QueueMachine,
    fault: QueueFault,
    is_damaged: bool,
}

impl QueueHistory {
    fn new(seed: u64, bug: Option<QueueBug>) -> Self {
        let mut rng = Random::new(seed);
        let fault = *rng.pick(&[QueueFault::None, QueueFault::PowerCut, QueueFault::Damage, QueueFault::FullDisk]);
        Self { machine: QueueMachine::new(rng, bug), fault, is_damaged: false }
    }

    fn run(&mut self) -> Result<(), String> {
        self.machine.start();
        for _ in 0..120 {
            self.step()?;
            self.machine.clock.advance(Duration::from_millis(20));
        }
        self.machine.drain()?;
        self.check()
    }

    fn step(&mut self) -> Result<(), String> {
        let machine = &mut self.machine;
        match machine.rng.below(25) {
            0..8 => machine.append(),
            8..11 => machine.commit_group(),
            11..13 => machine.tick(),
            13..16 => machine.step(),
            16..19 => {
                let (receive, acknowledge) = (machine.rng.below(6), machine.rng.below(6) as u64);
                machine.exchange(receive, acknowledge)?;
            }
            19 => machine.disconnect(),
            20 => {
                let milliseconds = *machine.rng.pick(&[100, 4_000, 60_000]);
                machine.clock.advance(Duration::from_millis(milliseconds));
            }
            21 => match machine.rng.below(3) {
                0 => machine.start(),
                1 => {
                    machine.kill();
                    machine.start();
                }
                _ => {
                    machine.stop();
                    machine.start();
                }
            },
            22 => machine.rotate_files(),
            _ => self.fail(),
        }
        Ok(())
    }

    fn fail(&mut self) {
        let machine = &mut self.machine;
        match self.fault {
            QueueFault::PowerCut if machine.rng.one_in(3) => {
                if machine.rng.one_in(2) {
                    // In the middle of a sync.
                    machine.fs.halt_at_sync(machine.fs.sync_count());
                    match machine.rng.below(3) {
                        0 => machine.rotate_files(),
                        _ => machine.commit_group(),
                    }
                    machine.tick();
                }
                machine.cut_power();
                machine.start();
            }
            QueueFault::Damage if !self.is_damaged => self.is_damaged = machine.damage(),
            QueueFault::FullDisk => {
                let free = machine.rng.below(80_000) as u64;
                machine.fs.fill(free);
                for _ in 0..4 {
                    machine.append();
                    machine.tick();
                    machine.step();
                }
                if machine.rng.one_in(3) {
                    machine.kill();
                    machine.start();
                }
                machine.fs.set_capacity(None);
            }
            _ => {}
        }
    }

    fn check(&self) -> Result<(), String> {
        let machine = &self.machine;
        let mut missing = 0;
        for sent in &machine.sent {
            match machine.stored.get(&sent.id) {
                Some((labels, line)) => {
                    let stream = sent.line.split(' ').nth(1).unwrap_or_default();
                    if *line != sent.line || (*labels != format!("app=a{stream},site=s") && !self.is_damaged) {
                        return Err(format!("{:?} is stored as {line:?} of {labels}", sent.line));
                    }
                }
                None if sent.is_acked.load(Ordering::Relaxed) && !sent.may_be_lost => missing += 1,
                None => {}
            }
        }
        let known = machine.stored.keys().filter(|id| machine.sent.iter().any(|sent| sent.id == **id)).count();
        if known != machine.stored.len() {
            return Err("records are stored that were never sent".to_owned());
        }
        let dropped = if machine.bug == Some(QueueBug::DropsUncounted) { 0 } else { machine.dropped_records };
        let is_reported = machine.has_reported_damage && machine.bug != Some(QueueBug::DamageUnreported);
        if missing > dropped && !(self.is_damaged && is_reported) {
            return Err(format!("{missing} acknowledged records are missing, {dropped} were dropped"));
        }
        Ok(())
    }
}

#[test]
fn random_histories_lose_nothing_uncounted() {
    SeededRuns { prefix: "BUCKSAW_AGENT", seeds: SEEDS }.check(|seed, is_only| {
        let mut history = QueueHistory::new(seed, None);
        let result = history.run();
        if is_only {
            println!("{:?}, {:?}", history.fault, history.machine.durability);
        }
        result
    });
}

#[test]
fn every_injected_bug_is_found() {
    for bug in QueueBug::ALL {
        let found = first_failing_seed(SEEDS_WITH_BUG, |seed| QueueHistory::new(seed, Some(bug)).run());
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found within {SEEDS_WITH_BUG} seeds");
    }
}
