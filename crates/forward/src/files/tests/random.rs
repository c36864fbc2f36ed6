//! Random histories: programs write and rotate logs while the agent reads, is killed, loses power, finds its disk full or its buffer
//! damaged, and a node takes, acknowledges, refuses and forgets its connection.
//!
//! Afterwards each line is stored. It is missing only if a gap, a drop or damage was counted. Without a power cut or damage it is
//! stored under one id, so that answers have it once, and no gap is counted unless a log was removed or truncated.
//!
//! `BUCKSAW_AGENT_SEEDS=5000` runs 5,000 histories, `BUCKSAW_AGENT_SEED=7` only this one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bucksaw_fixtures::{Random, SeededRuns, first_failing_seed};

use super::agent_machine::AgentMachine;
use super::injected_bug::AgentBug;

/// The histories of an ordinary test run.
const SEEDS: u64 = 150;

struct AgentHistory {
    machine: AgentMachine,
    /// Which faults happen.
    cuts_power: bool,
    damages: bool,
    fills_disk: bool,
    may_lose: bool,
    /// Whether the agent ends now and then, in order or not.
    ends: bool,
    /// Decides when the pod of the logs is known; `None` if they are of no pod.
    pod_rng: Option<Random>,
}

impl AgentHistory {
    fn new(seed: u64, bug: Option<AgentBug>) -> Self {
        Self::with_pod(seed, bug, None)
    }

    fn with_pod(seed: u64, bug: Option<AgentBug>, pod_rng: Option<Random>) -> Self {
        let mut rng = Random::new(seed);
        let (cuts_power, damages) = (rng.one_in(4), rng.one_in(4));
        let (fills_disk, may_lose) = (rng.one_in(4), rng.one_in(4));
        let mut machine = AgentMachine::new(rng, may_lose, pod_rng.is_some());
        machine.bug = bug;
        machine.node.forgets = false;
        machine.node.skips_first = bug == Some(AgentBug::FirstBatchSkipped);
        let ends = !machine.logs.copies();
        let cuts_power = cuts_power && ends;
        Self { machine, cuts_power, damages, fills_disk, may_lose, ends, pod_rng }
    }

    fn run(&mut self) -> Result<(), String> {
        self.machine.start();
        for number in 0..80 {
            self.step()?;
            if self.pod_rng.as_mut().is_some_and(|rng| rng.one_in(15)) {
                self.machine.label_pod(number);
            }
            self.machine.clock.advance(Duration::from_millis(10));
        }
        let machine = &mut self.machine;
        machine.fs.set_capacity(None);
        machine.logs.complete_lines(&machine.fs, &mut machine.rng);
        machine.drain()?;
        if machine.unacked_batches() > 0 && self.damages {
            // The last batches are damaged, so a start reads their lines again.
            machine.kill();
            machine.drain()?;
        }
        self.check()
    }

    fn step(&mut self) -> Result<(), String> {
        let machine = &mut self.machine;
        let at = machine.rng.below(machine.logs.logs.len());
        match machine.rng.below(24) {
            0..6 => {
                let lines = 1 + machine.rng.below(8);
                machine.trace(&format!("write {lines} lines to log {at}"));
                machine.logs.write(&machine.fs, at, lines, &mut machine.rng);
            }
            6 => machine.logs.begin_line(&machine.fs, at, &mut machine.rng),
            7 => {
                machine.trace(&format!("rotate {:?}", machine.logs.logs[at]));
                machine.logs.rotate(&machine.fs, at);
            }
            8 => machine.scan(),
            9..14 => {
                machine.notice_growth();
                machine.step();
            }
            14..17 => {
                let (receive, acknowledge) = (machine.rng.below(6), machine.rng.below(6) as u64);
                machine.node.forgets = machine.bug == Some(AgentBug::AckedUnstored) && machine.rng.one_in(4);
                machine.exchange(receive, acknowledge)?;
                machine.node.forgets = false;
            }
            17 => machine.node.disconnect(),
            18 => machine.write_ack(),
            19 | 20 if !self.ends => {}
            19 => {
                machine.kill();
                machine.start();
            }
            20 => match machine.is_running() {
                true if machine.rng.one_in(2) => machine.kill(),
                true => machine.stop(),
                false => machine.start(),
            },
            21 => {
                let milliseconds = *machine.rng.pick(&[100, 5_000, 400_000]);
                machine.clock.advance(Duration::from_millis(milliseconds));
            }
            _ => self.fault(),
        }
        Ok(())
    }

    fn fault(&mut self) {
        let machine = &mut self.machine;
        match machine.rng.below(3) {
            0 if self.cuts_power => {
                if machine.rng.one_in(2) {
                    // In the middle of a step, at a sync.
                    machine.fs.halt_at_sync(machine.fs.sync_count());
                    machine.scan();
                    machine.step();
                }
                machine.cut_power();
                machine.start();
            }
            // One place: what a second one does to the recovery from the first is not promised.
            1 if self.damages && !machine.is_damaged => machine.damage_buffer(),
            2 if self.fills_disk => {
                let free = machine.rng.below(3_000) as u64;
                machine.fs.fill(free);
                machine.trace("the disk is full");
                machine.notice_growth();
                machine.step();
                machine.write_ack();
                if self.ends && machine.rng.one_in(3) {
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
        let counted = machine.counted();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        machine.node.stored.values().for_each(|line| *times.entry(line).or_default() += 1);
        let written: BTreeSet<&str> = machine.logs.written.iter().map(String::as_str).collect();
        let removed: BTreeSet<&str> = machine.logs.removed.iter().map(String::as_str).collect();
        for (line, times) in &times {
            let is_cut = counted.gaps > 0 && removed.iter().any(|removed| removed.starts_with(line));
            if !written.contains(line) && !is_cut {
                return Err(format!(
                    "{:?} of {} bytes was never written, {counted:?}",
                    &line[..line.len().min(40)],
                    line.len()
                ));
            }
            if *times > 1 && !machine.may_repeat && !is_cut {
                return Err(format!("{:?} is stored {times} times", &line[..line.len().min(40)]));
            }
        }
        let missing: Vec<&str> = written.into_iter().filter(|line| !times.contains_key(line)).collect();
        let may_miss = |line: &str| {
            machine.logs.unended.iter().any(|unended| unended == line) || self.may_lose && removed.contains(line)
        };
        let unexplained: Vec<&&str> = missing.iter().filter(|line| !may_miss(line)).collect();
        if unexplained.len() as u64 > counted.dropped_records && counted.damaged_batches == 0 {
            let first = unexplained.first().map(|line| line.get(..6));
            return Err(format!("{} lines are missing from {first:?} on, {counted:?}", unexplained.len()));
        }
        if !self.may_lose && !self.damages && !self.cuts_power && counted.gaps > 0 {
            return Err(format!("{} gaps are counted, and all lines were to be found", counted.gaps));
        }
        if machine.unacked_batches() > 0 {
            return Err(format!("{} batches are unacknowledged", machine.unacked_batches()));
        }
        Ok(())
    }
}

#[test]
fn random_histories_lose_nothing_uncounted() {
    SeededRuns { prefix: "BUCKSAW_AGENT", seeds: SEEDS }.check(|seed, is_only| {
        let mut history = AgentHistory::new(seed, None);
        history.machine.is_traced = is_only;
        history.run()
    });
}

#[test]
fn records_of_pods_are_stored_once_with_the_labels_of_their_first_sending() {
    let (mut labels, mut unlabelled) = (BTreeSet::new(), 0);
    for seed in 0..SEEDS {
        let mut history = AgentHistory::with_pod(seed, None, Some(Random::new(seed + 1)));
        history.run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let of_records = history.machine.node.labels.values().map(|labels| labels.get("k8s.pod.label.v"));
        of_records.for_each(|label| match label {
            Some(label) => drop(labels.insert(label.to_owned())),
            None => unlabelled += 1,
        });
    }
    // Some were not labelled in time, and most labels were on records.
    assert!(labels.len() > 40 && unlabelled > 1_000, "{} labels, {unlabelled} records without", labels.len());
}

#[test]
fn equal_seeds_give_equal_histories() {
    let stored = || {
        let mut history = AgentHistory::new(3, None);
        history.run().unwrap();
        history.machine.node.stored
    };
    let first = stored();
    assert!(!first.is_empty());
    assert_eq!(first, stored());
}

#[test]
fn every_injected_bug_is_found() {
    for (bug, seeds) in AgentBug::ALL {
        let found = first_failing_seed(seeds, |seed| AgentHistory::new(seed, Some(bug)).run());
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found within {seeds} seeds");
    }
}
