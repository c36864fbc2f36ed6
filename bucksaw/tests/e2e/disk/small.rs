//! Small disks with default settings: under continuous ingest a node accepts until the disk is full, empties its queue, reports
//! the halt, and keeps what it acknowledged, except for configured retention.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::mounted::MountedDisk;
use super::{Random, noise};
use crate::node::TestServer;
use crate::wait::wait_until;

/// Bytes of a line over TCP.
const LINE: usize = 98;

/// Stops the feeds when dropped, so that a test that fails does not wait for them.
struct FeedStop<'a>(&'a AtomicBool);

impl Drop for FeedStop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends batches over HTTP until `stop`; returns the number of accepted ones.
fn feed_http(node: &TestServer, seed: u64, from: usize, stop: &AtomicBool) -> usize {
    let mut random = Random::new(seed);
    let mut accepted = from;
    while !stop.load(Ordering::Relaxed) {
        let batch = noise(accepted, &mut random);
        let answer = node.post("/api/v1/ingest", &[], &batch);
        match answer.status {
            200 => accepted += 1,
            503 => {
                assert!(answer.header("retry-after").is_some());
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => panic!("{}: {}", answer.status, answer.text()),
        }
    }
    accepted
}

/// A line that compresses little: most accepted bytes may be of such lines, and the store has to become full of them.
fn line(random: &mut Random) -> String {
    let words: Vec<String> = (0..6).map(|_| format!("{:016x}", random.next_u64())).collect();
    format!("p{}\n", words.join(""))
}

/// Sends lines over TCP until `stop`; returns the written bytes.
fn feed_tcp(stream: &mut TcpStream, seed: u64, stop: &AtomicBool) -> usize {
    let mut random = Random::new(seed);
    let mut pending = line(&mut random);
    stream.set_nonblocking(true).unwrap();
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.write(pending.as_bytes()) {
            Ok(count) => {
                written += count;
                pending.drain(..count);
                if pending.is_empty() {
                    pending = line(&mut random);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("a full node closes the connection: {error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    written
}

fn queue_bytes(node: &TestServer) -> u64 {
    let files = std::fs::read_dir(node.dir().join("queue")).unwrap();
    // Files are removed meanwhile.
    files.filter_map(|file| file.unwrap().metadata().ok()).map(|file| file.len()).sum()
}

fn ingest_until_trimmed(disk: Option<MountedDisk>, megabytes: u64) {
    let Some(disk) = disk else { return };
    let mut node = TestServer::start_in(&disk.path().join("data"), &[]);
    let mut stream = node.connect("fast");
    let stop = AtomicBool::new(false);
    let (accepted, written) = std::thread::scope(|scope| {
        let http = scope.spawn(|| feed_http(&node, 5, 0, &stop));
        let tcp = scope.spawn(|| feed_tcp(&mut stream, 7, &stop));
        let feeds = FeedStop(&stop);
        wait_until("the store has most of the disk, and the queue little", || {
            let stored = node.status()["store"]["stored_bytes"].as_u64().unwrap();
            stored > (megabytes << 20) * 6 / 10 && queue_bytes(&node) < (megabytes << 20) / 8
        });
        drop(feeds);
        (http.join().unwrap(), tcp.join().unwrap())
    });
    // Lines in socket buffers are not read while the disk is full; their number is unknown.
    let pushed = node.count("/^p[0-9a-f]+$/");
    assert!(pushed * LINE as u64 <= written as u64);
    assert_eq!(node.count("/^batch/"), 400 * accepted as u64);
    let lines = node.log().lines().count();
    assert!(lines < 100, "{lines} lines:\n{}", node.log());
    drop(stream);
    node.kill();
    node.restart();
    assert_eq!(node.count("/^batch/"), 400 * accepted as u64);
    // Retention frees space, and the node recovers.
    assert!(node.terminate().success());
    node.restart_with(&["--retention-bytes", "8MB"]);
    wait_until("there is room", || node.post("/api/v1/ingest", &[], b"there is room\n").status == 200);
    wait_until("it is ready", || node.get("/-/ready").status == 200);
    // Some space may have been free before.
    wait_until("retention takes what is beyond its limit", || node.count("/^batch/") < 400 * accepted as u64);
}

#[test]
fn tmpfs_of_64_megabytes() {
    ingest_until_trimmed(MountedDisk::mount(64), 64);
}

#[test]
fn ext4_of_64_megabytes() {
    ingest_until_trimmed(MountedDisk::mount_ext4(64), 50);
}

#[test]
fn tmpfs_of_300_megabytes() {
    ingest_until_trimmed(MountedDisk::mount(300), 300);
}

#[test]
fn with_retention_by_bytes_a_node_accepts_without_end() {
    let Some(disk) = MountedDisk::mount(64) else { return };
    let node = TestServer::start_in(&disk.path().join("data"), &["--retention-bytes", "16MB"]);
    let (stop, mut last) = (AtomicBool::new(false), 0.0);
    let accepted = std::thread::scope(|scope| {
        let http = scope.spawn(|| feed_http(&node, 6, 0, &stop));
        let feeds = FeedStop(&stop);
        // Three times the size of the disk.
        wait_until("it accepts more than the disk holds", || {
            last = node.metric("bucksaw_ingest_bytes_total");
            last > 200e6
        });
        drop(feeds);
        http.join().unwrap()
    });
    node.wait_stored();
    let newest = accepted - 1;
    assert_eq!(node.count(format!("\"batch{newest} \"")), 400, "the newest is there");
    assert!(node.count("/^batch/") < 400 * accepted as u64);
    let lines = node.log().lines().count();
    assert!(lines < 100, "{lines} lines:\n{}", node.log());
}
