//! A start on a full disk: the node answers queries, refuses records, frees space by retention, and recovers.

use std::fs;
use std::path::PathBuf;

use super::mounted::MountedDisk;
use super::{Random, noise};
use crate::client::call;
use crate::node::{TestServer, run, serve};
use crate::ports::free_address;
use crate::wait::wait_until;

/// Flags with fixed ports: the node may not be able to write its addresses.
fn fixed_ports() -> Vec<String> {
    ["--listen", "--listen-fast"].into_iter().flat_map(|flag| [flag.to_owned(), free_address()]).collect()
}

/// A stopped node with records on a disk that was filled afterwards, and the file that fills it.
fn stopped_on_a_full_disk(disk: &MountedDisk, ports: &[String], batches: usize) -> (TestServer, PathBuf) {
    let flags: Vec<&str> = ports.iter().map(String::as_str).collect();
    let mut node = TestServer::start_in(&disk.path().join("data"), &flags);
    let mut random = Random::new(31);
    for number in 0..batches {
        node.post("/api/v1/ingest?durability=bulk", &[], &noise(number, &mut random)).expect(200);
    }
    assert!(node.terminate().success());
    fs::remove_file(node.dir().join("addresses.json")).unwrap();
    (node, disk.fill_up())
}

/// Starts the node and waits until it reports the full disk.
fn start_full(node: &mut TestServer, ports: &[String], more: &[&str]) {
    let flags: Vec<&str> = ports.iter().map(String::as_str).chain(more.iter().copied()).collect();
    node.spawn_with(&flags);
    wait_until("it runs and reports a full disk", || {
        assert_eq!(node.try_wait(), None, "{}", node.log());
        // Retention may make room within milliseconds.
        let has_reported = node.log().contains("halt=the disk is full");
        call(node.address("http"), "GET", "/-/ready", &[], b"").is_ok_and(|answer| answer.status == 503 || has_reported)
    });
}

fn reads_and_recovers(disk: Option<MountedDisk>) {
    let Some(disk) = disk else { return };
    let ports = fixed_ports();
    let (mut node, filler) = stopped_on_a_full_disk(&disk, &ports, 20);
    start_full(&mut node, &ports, &[]);
    assert_eq!(node.count("/^batch/"), 400 * 20);
    for durability in ["fast", "durable", "bulk"] {
        let answer = node.post(&format!("/api/v1/ingest?durability={durability}"), &[], b"refused\n").expect(503);
        assert!(answer.header("retry-after").is_some() && answer.text().contains("disk is full"), "{}", answer.text());
    }
    assert!(node.metric("bucksaw_ingest_refused_appends_total") >= 3.0);
    assert_eq!(node.status()["state"], "disk full");
    fs::remove_file(filler).unwrap();
    wait_until("it accepts again", || node.post("/api/v1/ingest", &[], b"there is room\n").status == 200);
    let addresses = node.dir().join("addresses.json");
    wait_until("the addresses are written", || {
        fs::read_to_string(&addresses).is_ok_and(|text| text.contains(node.address("http")))
    });
    assert!(node.terminate().success());
    node.restart();
    assert_eq!((node.count("/^batch/"), node.count("\"there is room\""), node.count("refused")), (400 * 20, 1, 0));
}

#[test]
fn a_node_reads_and_recovers_on_tmpfs() {
    reads_and_recovers(MountedDisk::mount(64));
}

#[test]
fn a_node_on_full_ext4_answers_and_recovers() {
    reads_and_recovers(MountedDisk::mount_ext4(64));
}

fn retention_makes_room(disk: Option<MountedDisk>) {
    let Some(disk) = disk else { return };
    let ports = fixed_ports();
    let (mut node, _filler) = stopped_on_a_full_disk(&disk, &ports, 200);
    let before = node_bytes(&node);
    // Segments within the limit stay.
    start_full(&mut node, &ports, &["--retention-bytes", "2MB", "--min-free-bytes", "1MB"]);
    wait_until("retention makes room", || node.post("/api/v1/ingest", &[], b"there is room\n").status == 200);
    assert!(node_bytes(&node) < before);
    let left = node.count("/^batch/");
    assert!(left > 0 && left < 400 * 200, "{left}");
    assert_eq!(node.count("\"batch199 \""), 400, "the newest stays");
}

fn node_bytes(node: &TestServer) -> u64 {
    // Retention removes files meanwhile.
    super::store_files(node, "seg").iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).sum()
}

#[test]
fn retention_makes_room_on_tmpfs() {
    retention_makes_room(MountedDisk::mount(64));
}

#[test]
fn retention_makes_room_on_ext4() {
    retention_makes_room(MountedDisk::mount_ext4(64));
}

#[test]
fn a_new_node_on_a_full_or_tiny_disk_reports_it() {
    let Some(disk) = MountedDisk::mount(64) else { return };
    let _filler = disk.fill_up();
    let output = run(&mut serve(&disk.path().join("data"), ["--log-level", "error"]), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("data directory") && said.contains("No space left"), "{said}");
    let Some(disk) = MountedDisk::mount(16) else { return };
    let output = run(&mut serve(&disk.path().join("data"), ["--log-level", "error"]), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("16 MB") && said.contains("at least 32 MB"), "{said}");
}
