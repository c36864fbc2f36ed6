//! Gaps over kills of the agent.

use std::path::Path;

use bucksaw_env::Fs as _;
use bucksaw_fixtures::Random;

use super::agent_machine::AgentMachine;
use super::log_files::LOG_DIR;

/// Scans until lost files are given up, and reads; returns the gaps that all agents so far have counted.
fn gaps_after_scans(machine: &mut AgentMachine) -> u64 {
    for _ in 0..3 {
        machine.scan();
        machine.step();
    }
    machine.counted().gaps
}

#[test]
fn a_gap_that_was_reported_is_not_counted_again_after_a_kill() {
    let mut machine = AgentMachine::new(Random::new(1), true, false);
    let path = Path::new(LOG_DIR).join("a.log");
    machine.fs.append_to(&path, b"a line\n").unwrap();
    machine.start();
    machine.drain().unwrap();
    machine.kill();
    machine.fs.remove(&path).unwrap();
    machine.start();
    assert_eq!(gaps_after_scans(&mut machine), 1);
    // It is found again until it was reported.
    machine.kill();
    machine.start();
    assert_eq!(gaps_after_scans(&mut machine), 2);
    machine.write_ack();
    machine.kill();
    machine.start();
    assert_eq!(gaps_after_scans(&mut machine), 2);
}
