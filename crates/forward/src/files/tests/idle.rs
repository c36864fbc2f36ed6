//! An agent without work.

use std::path::Path;

use bucksaw_fixtures::Random;

use super::agent_machine::AgentMachine;
use super::log_files::LOG_DIR;

#[test]
fn an_agent_waits_for_acknowledgements_only_while_batches_have_none() {
    let mut machine = AgentMachine::new(Random::new(1), false, false);
    machine.fs.append_to(Path::new(LOG_DIR).join("a.log"), b"a line\n").unwrap();
    machine.start();
    machine.step();
    assert!(machine.report.has_unacked);
    machine.drain().unwrap();
    machine.step();
    assert!(!machine.report.has_unacked && !machine.report.has_more, "{:?}", machine.report);
}
