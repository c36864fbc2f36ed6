//! Full disks: nothing is accepted, no accepted record is lost, reads work, and the node recovers by itself.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::mounted::MountedDisk;
use super::{Random, noise};
use crate::node::TestServer;
use crate::wait::{wait_for, wait_until};

const DISK_MB: usize = 48;
const BALLAST_MB: usize = 39;

/// The default reserve of a disk of this size; as much is left free besides.
const RESERVE_MB: usize = 8;

/// A connection that cannot be written to for this time is not being read.
const BLOCKED: Duration = Duration::from_secs(1);

/// Maximum bytes in socket buffers.
const SOCKETS_MAX: usize = 16 << 20;

/// Sends batches until one is refused; returns the total of accepted ones.
fn fill(node: &TestServer, durability: &str, accepted: usize, random: &mut Random) -> usize {
    let target = format!("/api/v1/ingest?durability={durability}");
    for number in accepted..5_000 {
        let answer = node.post(&target, &[], &noise(number, random));
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
            assert!(answer.text().contains("disk is full"), "{}", answer.text());
            return number;
        }
    }
    panic!("a disk of {DISK_MB} MB does not fill up");
}

/// Fills until the store cannot free space by compressing the queue.
fn fill_until_refused(node: &TestServer, durability: &str, random: &mut Random) -> usize {
    let mut accepted = fill(node, durability, 0, random);
    wait_until("nothing more fits", || {
        // Makes the store gather at once.
        accepted = fill(node, "bulk", accepted, random);
        segments_in_queue(node) == 0 && node.metric("bucksaw_disk_full") == 1.0
    });
    accepted
}

fn segments_in_queue(node: &TestServer) -> usize {
    let names = fs::read_dir(node.dir().join("queue")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some()).count()
}

/// Each accepted batch is found whole and once.
fn assert_all_found(node: &TestServer, batches: usize) {
    assert_eq!(node.count("/^batch/"), 400 * batches as u64);
    for number in [0, batches / 2, batches - 1] {
        assert_eq!(node.count(format!("\"batch{number} \"")), 400, "batch {number} of {batches}");
    }
}

/// Writes until the node does not read; returns the number of written bytes.
fn push(stream: &mut TcpStream) -> usize {
    let line = [vec![b'p'; 99], vec![b'\n']].concat();
    stream.set_nonblocking(true).unwrap();
    let (mut written, mut moved) = (0, Instant::now());
    while moved.elapsed() < BLOCKED {
        assert!(written < SOCKETS_MAX, "a full node reads on");
        match stream.write(&line[written % line.len()..]) {
            Ok(count) => (written, moved) = (written + count, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("a full node closes the connection: {error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    // The rest of the line is written later.
    written
}

fn fill_and_recover(durability: &str) {
    let Some(disk) = MountedDisk::mount(DISK_MB) else { return };
    let ballast = disk.ballast(BALLAST_MB);
    let arguments = ["--min-free-bytes", "2M", "--segment-max-bytes", "512K", "--segment-max-age", "200ms"];
    let mut node = TestServer::start_in(&disk.path().join("data"), &arguments);
    let mut stream = node.connect("fast");
    let accepted = fill_until_refused(&node, durability, &mut Random::new(24));
    assert!(accepted > 100, "only {accepted} batches fit");

    assert_eq!(node.status()["state"], "disk full");
    let unready = node.get("/-/ready").expect(503).text();
    assert!(unready.starts_with("disk full"), "{unready}");
    node.get("/-/healthy").expect(200);
    let written = push(&mut stream);
    assert_all_found(&node, accepted);

    fs::remove_file(ballast).unwrap();
    wait_until("it accepts again", || node.post("/api/v1/ingest", &[], b"there is room\n").status == 200);
    wait_until("the metric is reset", || node.metric("bucksaw_disk_full") == 0.0);
    node.get("/-/ready").expect(200);
    stream.write_all(&vec![b'p'; 99][..(99 - written % 100).min(99)]).unwrap();
    stream.write_all(b"\n").unwrap();
    drop(stream);
    let pushed = (written / 100 + 1) as u64;
    wait_until("unread lines arrive", || node.count("/^p+$/") == pushed);
    assert_all_found(&node, accepted);
    node.kill();
    node.restart();
    assert_eq!((node.count("/^p+$/"), node.count("\"there is room\"")), (pushed, 1));
    assert_all_found(&node, accepted);
    let logged = |what: &str| node.log().lines().filter(|line| line.contains(what)).count();
    assert!(logged("the disk is full") >= 1 && node.log().lines().count() < 60, "{}", node.log());
}

#[test]
fn a_full_disk_loses_nothing_and_recovers_fast() {
    fill_and_recover("fast");
}

#[test]
fn a_full_disk_loses_nothing_and_recovers_durable() {
    fill_and_recover("durable");
}

#[test]
fn the_default_reserve_lets_the_store_empty_the_queue() {
    let Some(disk) = MountedDisk::mount(DISK_MB) else { return };
    let _ballast = disk.ballast(BALLAST_MB - RESERVE_MB);
    let mut node = TestServer::start_in(&disk.path().join("data"), &["--segment-max-bytes", "512K"]);
    let accepted = fill(&node, "fast", 0, &mut Random::new(25));
    wait_until("the store empties the queue although the disk is nearly full", || {
        node.status()["queue"]["segments"] == 0
    });
    assert_all_found(&node, accepted);
    // The stored segments are smaller than the removed queue files.
    let more = wait_for("it accepts again", || {
        let answer = node.post("/api/v1/ingest", &[], b"there is room\n");
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(more.json()["accepted"], 1);
    assert!(node.terminate().success());
    node.restart();
    assert_all_found(&node, accepted);
}

#[test]
fn a_write_that_fails_on_a_full_disk_is_not_acknowledged() {
    let Some(disk) = MountedDisk::mount(DISK_MB) else { return };
    let ballast = disk.ballast(BALLAST_MB);
    // Without a reserve the operating system refuses writes.
    let mut node =
        TestServer::start_in(&disk.path().join("data"), &["--min-free-bytes", "0", "--segment-max-bytes", "1M"]);
    let accepted = fill(&node, "durable", 0, &mut Random::new(26));
    assert_all_found(&node, accepted);
    node.kill();
    fs::remove_file(ballast).unwrap();
    node.restart();
    assert_all_found(&node, accepted);
    node.post("/api/v1/ingest?durability=bulk", &[], b"there is room\n").expect(200);
    node.wait_stored();
    assert_all_found(&node, accepted);
}
