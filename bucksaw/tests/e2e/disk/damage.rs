//! Damaged files of the store: named, left out of answers, which are then partial, and never removed.

use std::fs;
use std::path::{Path, PathBuf};

use bucksaw_faults::Random;

use super::{corrupt_block, flip_bit, store_files};
use crate::node::TestServer;
use crate::wait::wait_until;

/// A load is larger than a segment, so that segments are not merged.
const ARGUMENTS: [&str; 4] = ["--store-segment-bytes", "64K", "--segment-max-bytes", "1M"];

const BATCHES: usize = 3;
const LINES: usize = 1_000;

/// The time of the first load, some days ago, in seconds. The loads are an hour apart.
const START: u64 = 1_000_000;

/// A stopped node with a few segments of disjoint time ranges.
fn node_with_data() -> TestServer {
    let mut node = TestServer::start(&[&ARGUMENTS[..], &["--retention-age", "none"]].concat());
    for load in 0..BATCHES {
        let json = [("Content-Type", "application/x-ndjson")];
        node.post("/api/v1/ingest?durability=bulk", &json, &objects(load)).expect(200);
    }
    // Each segment is recompressed alone, and the old file and the new one exist together until that is done.
    wait_until("each segment is recompressed", || node.metric("bucksaw_store_compactions_total") == BATCHES as f64);
    assert_eq!(store_files(&node, "seg").len(), BATCHES);
    assert!(node.terminate().success());
    // Stored records stay readable in the queue for ten seconds, where they would be found.
    let queue_files = fs::read_dir(node.dir().join("queue")).unwrap();
    queue_files.for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    node
}

fn second(load: usize) -> u64 {
    1_700_000_000 - START + 3_600 * load as u64
}

fn objects(load: usize) -> Vec<u8> {
    let time = second(load);
    // Incompressible: most of a file is its block, so that half of the file lacks records.
    let mut random = Random::new(load as u64);
    (0..LINES)
        .flat_map(|line| {
            let noise: String = (0..4).map(|_| format!("{:016x}", random.next_u64())).collect();
            format!("{{\"ts\":{time},\"load\":{load},\"n\":{line},\"x\":\"{noise}\"}}\n").into_bytes()
        })
        .collect()
}

/// The count, exit code and standard error of `query -c` over the hour of a load.
fn ask(node: &TestServer, load: usize) -> (String, i32, Vec<String>) {
    let (from, to) = ((second(load) - 60).to_string(), (second(load) + 60).to_string());
    let output = node.cli(&["query", "-c", "--from", &from, "--to", &to, "load"]);
    let said = String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap().trim().to_owned(), output.status.code().unwrap(), said)
}

fn assert_whole(node: &TestServer, load: usize) {
    assert_eq!(ask(node, load), (LINES.to_string(), 0, Vec::new()), "load {load}");
}

/// Nothing of the load is found, and the partial answer names the file once.
fn assert_partial(node: &TestServer, load: usize, name: &str) {
    let (count, code, said) = ask(node, load);
    // As with grep: trouble.
    assert_eq!((count.as_str(), code), ("0", 2), "{said:?}");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("partial") && said[0].contains(name), "{said:?}");
    let (from, to) = (second(load) - 60, second(load) + 60);
    for call in ["count", "histogram", "fields"] {
        let stats = node.get(&format!("/api/v1/{call}?q=load&from={from}&to={to}")).expect(200).json()["stats"].clone();
        assert_eq!(stats["partial"], true, "{call}: {stats}");
        assert!(stats["partial_reasons"].to_string().contains(name), "{call}: {stats}");
    }
    let answer = node.get(&format!("/api/v1/query?q=load&from={from}&to={to}")).expect(200);
    assert_eq!(answer.objects().last().unwrap()["stats"]["partial"], true);
    // Over all time records are found: the exit code is 0 if a partial answer is allowed.
    let output = node.cli(&["query", "-c", "--allow-partial", "--from", &second(0).to_string(), "load"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), (LINES * (BATCHES - 1)).to_string());
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn assert_verify_finds_one(node: &TestServer) {
    let output = crate::node::bucksaw(["verify".as_ref(), node.dir()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("1 damaged"));
}

#[test]
fn a_flipped_bit_costs_no_record_and_is_reported() {
    for at in [-1, -10, -20, -40, 0, 20, 100] {
        let mut node = node_with_data();
        let files = store_files(&node, "seg");
        flip_bit(&files[1], at);
        assert_verify_finds_one(&node);
        node.restart();
        (0..BATCHES).for_each(|load| assert_whole(&node, load));
        // A merge may have rewritten it meanwhile.
        assert!(node.log().contains("was rebuilt, no record is lost"), "{}", node.log());
        assert!(store_files(&node, "damaged").is_empty(), "byte {at}");
    }
}

#[test]
fn a_file_without_an_intact_footer_is_quarantined() {
    for case in ["overwritten", "its header", "half", "nothing"] {
        let mut node = node_with_data();
        let files = store_files(&node, "seg");
        let mut damaged = fs::read(&files[1]).unwrap();
        // The length differs between runs, and only the trailer may be lost without loss of records.
        let half = damaged.len() / 2;
        match case {
            "overwritten" => damaged[40..].fill(b'x'),
            "its header" => damaged.truncate(40),
            "half" => damaged.truncate(half),
            _ => damaged.clear(),
        }
        fs::write(&files[1], &damaged).unwrap();
        let quarantined = files[1].with_extension("damaged");
        for run in 0..3 {
            node.restart();
            assert_eq!(store_files(&node, "damaged"), std::slice::from_ref(&quarantined), "{case}, run {run}");
            assert_whole(&node, 0);
            assert_partial(&node, 1, &name(&quarantined));
            assert_whole(&node, 2);
            assert_eq!(node.metric("bucksaw_store_damaged"), 1.0);
            assert_eq!(node.status()["damaged"], serde_json::json!([format!("store/{}", name(&quarantined))]));
            if run == 1 {
                node.kill();
            } else {
                assert!(node.terminate().success());
            }
            assert_verify_finds_one(&node);
            assert_eq!(fs::read(&quarantined).unwrap(), damaged, "{case}, run {run}");
        }
        let logged =
            node.log().lines().filter(|line| line.contains("a segment cannot be read: it is quarantined")).count();
        assert_eq!(logged, 1, "not logged once:\n{}", node.log());
    }
}

#[test]
fn a_damaged_block_is_left_out() {
    let mut node = node_with_data();
    let files: Vec<PathBuf> = store_files(&node, "seg");
    corrupt_block(&files[1]);
    let damaged = fs::read(&files[1]).unwrap();
    for run in 0..3 {
        node.restart();
        assert_whole(&node, 0);
        assert_partial(&node, 1, &name(&files[1]));
        assert_whole(&node, 2);
        node.post("/api/v1/ingest?durability=bulk", &[], b"meanwhile others come\n").expect(200);
        assert_eq!(node.status()["segments_with_damaged_blocks"], 1);
        if run == 1 {
            node.kill();
        } else {
            assert!(node.terminate().success());
        }
        assert_verify_finds_one(&node);
        assert_eq!(fs::read(&files[1]).unwrap(), damaged, "run {run}");
    }
    let logged = node.log().lines().filter(|line| line.contains("a block is damaged")).count();
    assert_eq!(logged, 3, "not logged once per run:\n{}", node.log());
}

#[test]
fn a_damaged_block_outlives_merging_and_retention() {
    // Small adjacent segments, which are merged.
    let bulk = |node: &TestServer, lines: std::ops::Range<usize>| {
        for line in lines {
            let line = format!("line {line}\n");
            node.post("/api/v1/ingest?durability=bulk", &[], line.as_bytes()).expect(200);
        }
    };
    let mut node = TestServer::start(&["--trash-age", "1s"]);
    bulk(&node, 0..3);
    node.kill();
    let file = store_files(&node, "seg").remove(0);
    corrupt_block(&file);
    let damaged = fs::read(&file).unwrap();
    node.restart();
    // The merge finds the damage before a query.
    bulk(&node, 3..12);
    wait_until("the other segments are merged", || node.metric("bucksaw_store_compactions_total") > 0.0);
    assert_eq!(fs::read(&file).unwrap(), damaged);
    assert_eq!(counted(&node), (11, true));
    node.kill();

    let mut node = TestServer::start_in(node.dir(), &["--retention-bytes", "30K", "--trash-age", "1s"]);
    // Damaged segments are not moved to the trash.
    assert_eq!(counted(&node), (11, true));
    let quarantined = file.with_extension("damaged");
    let mut line = 12;
    wait_until("retention removes the damaged segment and keeps the file", || {
        bulk(&node, line..line + 10);
        line += 10;
        fs::read(&quarantined).is_ok_and(|bytes| bytes == damaged)
    });
    assert!(!file.exists());
    assert!(node.terminate().success());
    node.restart();
    assert_eq!(fs::read(&quarantined).unwrap(), damaged);
}

/// The number of found lines, and whether the answer is partial.
fn counted(node: &TestServer) -> (u64, bool) {
    let answer = node.get("/api/v1/count?q=line").expect(200).json();
    (answer["count"].as_u64().unwrap(), answer["stats"]["partial"].as_bool().unwrap())
}
