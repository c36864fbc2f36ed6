//! Unreadable segments and blocks whose records have replicas on other stores.

use std::fs;
use std::path::{Path, PathBuf};

use bucksaw_faults::Random;
use serde_json::Value;

use super::{flags, flags_and, id, start, status};
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

const LINES: u64 = 500;

/// The files of a node's store with this extension.
fn files(node: &TestServer, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.dir().join("store")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == extension)).collect()
}

fn counted(node: &TestServer) -> (u64, bool) {
    let counted = node.get("/api/v1/count?from=30d&q=line").expect(200).json();
    (counted["count"].as_u64().unwrap(), counted["stats"]["partial"].as_bool().unwrap())
}

fn metric(node: &TestServer, name: &str) -> u64 {
    node.metric(name) as u64
}

#[test]
fn answers_are_complete_after_a_damaged_file_is_re_replicated() {
    let mut nodes = start(3);
    let lines: String = (0..LINES).map(|line| format!("line {line}\n")).collect();
    nodes[0].post("/api/v1/ingest?durability=bulk", &[], lines.as_bytes()).expect(200);
    nodes.iter().for_each(TestServer::wait_stored);
    // Not the first node: it has no seeds, and perhaps no member file yet.
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
    assert_eq!(counted(&nodes[at]), (LINES, true), "the records of the file are unknown");
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), count);
    wait_until("the file is re-replicated", || metric(&nodes[at], "bucksaw_store_damaged_re_replicated") == count);
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), 0);
    let reported = "whose records are all re-replicated";
    for node in &nodes {
        assert_eq!(counted(node), (LINES, false));
        wait_until("status reports it", || status(node).iter().any(|line| line.contains(reported)));
    }
    // The proof is persisted. After the file is deleted, nothing is reported.
    nodes[at].restart();
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged_re_replicated"), count);
    wait_until("answers are complete", || counted(&nodes[at]) == (LINES, false));
    nodes[at].kill();
    damaged.iter().for_each(|file| fs::remove_file(file).unwrap());
    nodes[at].restart();
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged_re_replicated"), 0);
    assert!(files(&nodes[at], "proof").is_empty());
    wait_until("answers are complete", || counted(&nodes[at]) == (LINES, false));
}

/// Damages two pages of the first block of a file, and its recovery record.
fn corrupt_two_pages(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let record = bytes.windows(4).position(|window| window == b"BSWR").unwrap();
    let block = 32..record;
    assert!(block.len() > 4 * 4_096, "{} bytes", block.len());
    let pages = [block.start + 4_096..block.start + 8_192, block.end - 8_192..block.end - 4_096, record..record + 8];
    pages.into_iter().flatten().for_each(|at| bytes[at] ^= 0x55);
    fs::write(file, bytes).unwrap();
}

/// Incompressible lines, larger than two pages.
fn incompressible_text() -> String {
    let mut random = Random::new(7);
    let line = |line| {
        let words: Vec<String> = (0..8).map(|_| format!("{:016x}", random.next_u64())).collect();
        format!("line {line} {}\n", words.concat())
    };
    (0..LINES).map(line).collect()
}

/// The node's own entry in the cluster status.
fn node_status(node: &TestServer) -> Value {
    let cluster = node.get("/api/v1/cluster").expect(200).json();
    let nodes = cluster["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["id"] == cluster["queried_node"]).unwrap().clone()
}

/// Nodes with two replicas of 500 lines. The node at the returned index has a damaged block.
fn with_a_damaged_block(size: usize) -> (Vec<TestServer>, usize, PathBuf) {
    let mut nodes = start(size);
    nodes[0].post("/api/v1/ingest?durability=bulk", &[], incompressible_text().as_bytes()).expect(200);
    nodes.iter().for_each(TestServer::wait_stored);
    let at = nodes.iter().rposition(|node| !files(node, "seg").is_empty()).unwrap();
    nodes[at].kill();
    let size = |file: &PathBuf| fs::metadata(file).unwrap().len();
    let file = files(&nodes[at], "seg").into_iter().max_by_key(size).unwrap();
    corrupt_two_pages(&file);
    nodes[at].restart();
    (nodes, at, file)
}

#[test]
fn answers_are_complete_after_a_damaged_block_is_re_replicated() {
    let (mut nodes, at, file) = with_a_damaged_block(3);
    // Each node divides a search by its own order of the stores, so one of them leaves the block to the damaged store.
    wait_until("the damage is found", || {
        nodes.iter().for_each(|node| assert_eq!(counted(node).0, LINES));
        node_status(&nodes[at])["segments_with_damaged_blocks"] == 1
    });
    assert_eq!(counted(&nodes[at]), (LINES, true), "it is not known yet whether all was in the others");
    wait_until("the block is re-replicated", || metric(&nodes[at], "bucksaw_store_damaged_re_replicated") == 1);
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), 0);
    let name = format!("store/{}", file.file_name().unwrap().to_string_lossy());
    let reported = "1 segment with damaged blocks whose records are all re-replicated: do not delete it";
    for node in &nodes {
        wait_until("answers are complete", || counted(node) == (LINES, false));
        wait_until("status reports it", || status(node).iter().any(|line| line.contains(reported)));
    }
    // The proof is persisted.
    nodes[at].restart();
    let facts = node_status(&nodes[at]);
    assert_eq!(facts["segments_re_replicated"], serde_json::json!([name]));
    assert_eq!(
        (&facts["segments_with_damaged_blocks"], metric(&nodes[at], "bucksaw_store_damaged_re_replicated")),
        (&0.into(), 1)
    );
    for node in &nodes {
        // While the addresses of before and after the restart are known, an answer may be partial after a complete one.
        wait_until("counts are complete", || counted(node) == (LINES, false));
        wait_until("queries are complete", || {
            let found = node.get("/api/v1/query?from=30d&q=line&limit=1000").expect(200).objects();
            assert_eq!(found.len() as u64, LINES + 1);
            found[LINES as usize]["stats"]["partial"] == false
        });
        for call in ["histogram", "fields"] {
            wait_until(call, || {
                node.get(&format!("/api/v1/{call}?from=30d&q=line")).expect(200).json()["stats"]["partial"] == false
            });
        }
    }
    // As `status` says: the quarantined file is re-replicated as a whole, and may be deleted.
    assert!(nodes[at].terminate().success());
    bucksaw(["verify".as_ref(), nodes[at].dir(), "--repair".as_ref()]).output().unwrap();
    assert!(!file.exists() && !files(&nodes[at], "damaged").is_empty());
    nodes[at].restart();
    wait_until("the file is re-replicated", || {
        node_status(&nodes[at])["damaged_re_replicated"].as_array().unwrap().len() == 1
    });
    wait_until("answers are complete", || counted(&nodes[at]) == (LINES, false));
    assert_eq!(node_status(&nodes[at])["segments_re_replicated"], serde_json::json!([]));
    nodes[at].kill();
    files(&nodes[at], "damaged").iter().for_each(|file| fs::remove_file(file).unwrap());
    nodes[at].restart();
    assert_eq!(
        (files(&nodes[at], "proof"), metric(&nodes[at], "bucksaw_store_damaged_re_replicated")),
        (Vec::new(), 0)
    );
    wait_until("answers are complete", || counted(&nodes[at]) == (LINES, false));
}

#[test]
fn a_damaged_block_makes_answers_partial_while_the_store_with_the_replica_is_down() {
    let (mut nodes, at, _) = with_a_damaged_block(3);
    // The other node that has the lines.
    let other = (0..3).rposition(|other| other != at && !files(&nodes[other], "seg").is_empty()).unwrap();
    let down = id(&nodes[other]);
    nodes[other].kill();
    // The damaged store has asked all others for a pass, and each pass waits for the store that is down.
    let awaited = Value::from(down);
    for live in (0..3).filter(|live| *live != other) {
        wait_until("its pass waits for the store", || {
            assert!(counted(&nodes[at]).1);
            let repair = node_status(&nodes[live])["repair"].clone();
            repair["blocked_by"] == "awaited" && repair["blocked_by_store"] == awaited
        });
    }
    assert!(counted(&nodes[at]).1);
    assert_eq!(metric(&nodes[at], "bucksaw_store_damaged"), 1);
    // The first node has no seeds.
    let join = nodes[at].address("cluster").to_owned();
    nodes[other].restart_with(&flags_and(&flags(), &["--join", &join]));
    wait_until("the block is re-replicated", || metric(&nodes[at], "bucksaw_store_damaged_re_replicated") == 1);
    wait_until("answers are complete", || counted(&nodes[at]) == (LINES, false));
}
