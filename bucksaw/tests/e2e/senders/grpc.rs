//! The service `bucksaw.v1` with clients whose code is made of the published `.proto`, while their node is killed and started
//! again: every record is stored with all that it states, and none twice.

use std::process::Command;

use super::{RECORDS, every_record_of, node_js, python, stored};

const LISTENER: &str = "--listen-otlp";

fn python_client() -> Command {
    let mut command = Command::new(python());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn records_of_python_are_stored_once_while_the_node_restarts() {
    let node = every_record_of(python_client(), "bucksaw_grpc.py", &["write"], LISTENER, &[], true);
    assert_eq!(stored(&node).len(), RECORDS);
}

/// Its tail would end with the node, so that stays.
#[test]
fn python_queries_counts_and_tails() {
    every_record_of(python_client(), "bucksaw_grpc.py", &["read"], LISTENER, &[], false);
}

#[test]
fn records_of_node_js_are_stored_once_while_the_node_restarts() {
    let node = every_record_of(node_js(), "bucksaw_grpc.js", &[], LISTENER, &[], true);
    assert_eq!(stored(&node).len(), RECORDS);
}
