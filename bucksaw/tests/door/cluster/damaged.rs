//! A segment of a store is damaged beyond reading, and the others have all that was in it.

use std::fs;
use std::path::PathBuf;

use super::{start, status};
use crate::node::Node;
use crate::wait::wait_until;

const LINES: u64 = 500;

/// The files of a node's shelf with this extension.
fn files(node: &Node, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.dir().join("shelf")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == extension)).collect()
}

fn counted(node: &Node) -> (u64, bool) {
    let counted = node.get("/api/v1/count?from=30d&q=line").expect(200).json();
    (counted["count"].as_u64().unwrap(), counted["stats"]["partial"].as_bool().unwrap())
}

fn metric(node: &Node, name: &str) -> u64 {
    node.metric(name) as u64
}

#[test]
fn answers_are_whole_again_when_a_damaged_file_was_made_good() {
    let mut nodes = start(3);
    let lines: String = (0..LINES).map(|line| format!("line {line}\n")).collect();
    nodes[0].post("/api/v1/ingest?durability=bulk", &[], lines.as_bytes()).expect(200);
    nodes.iter().for_each(Node::wait_stored);
    // The first one joins no other, and may not have written yet where they are.
    let at = nodes.iter().rposition(|node| !files(node, "seg").is_empty()).unwrap();
    nodes[at].kill();
    for file in files(&nodes[at], "seg") {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, vec![7; bytes.len()]).unwrap();
    }
    nodes[at].restart();
    let damaged = files(&nodes[at], "damaged");
    assert!(!damaged.is_empty());
    let count = damaged.len() as u64;
    assert_eq!(counted(&nodes[at]), (LINES, true), "it is not known yet what was in the file");
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), count);
    wait_until("the file is made good", || metric(&nodes[at], "bucksaw_store_damaged_made_good") == count);
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), 0);
    let told = "whose records are all kept by other stores";
    for node in &nodes {
        assert_eq!(counted(node), (LINES, false));
        wait_until("status says so", || status(node).iter().any(|line| line.contains(told)));
    }
    // It is remembered; and when the file is deleted nothing is left of it.
    nodes[at].restart();
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged_made_good"), count);
    wait_until("answers are whole", || counted(&nodes[at]) == (LINES, false));
    nodes[at].kill();
    damaged.iter().for_each(|file| fs::remove_file(file).unwrap());
    nodes[at].restart();
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged_made_good"), 0);
    assert!(files(&nodes[at], "proof").is_empty());
    wait_until("answers are whole", || counted(&nodes[at]) == (LINES, false));
}
