//! Many clients at once.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::assert_healthy;
use crate::node::TestServer;
use crate::wait::wait_until;

const IDLE: usize = 5_000;

/// Descriptors that the test process needs besides.
const SENDERS: usize = 500;

/// Maximum queue files, independent of the number of clients.
const FILES_MAX: usize = 20;

fn queue_files(node: &TestServer) -> usize {
    fs::read_dir(node.dir().join("queue")).unwrap().count()
}

/// The number of connections, limited by the descriptors of this process.
fn affordable(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let most = limit.maximum.map_or(usize::MAX, |most| most as usize);
    wanted.min(most.saturating_sub(SENDERS) / 2)
}

#[test]
fn five_thousand_idle_connections_cost_little() {
    let count = affordable(IDLE);
    let mut node = TestServer::start(&[]);
    let mut streams: Vec<TcpStream> = (0..count).map(|_| node.connect("fast")).collect();
    wait_until("all are connected", || node.metric("bucksaw_sources_connections") == count as f64);
    assert!(queue_files(&node) < FILES_MAX, "{} files for idle connections", queue_files(&node));
    for (number, stream) in streams.iter_mut().enumerate() {
        stream.write_all(format!("line {number} of the crowd\n").as_bytes()).unwrap();
    }
    wait_until("every line is found", || node.count("crowd") == count as u64);
    assert!(queue_files(&node) < FILES_MAX, "{} files for {count} lines", queue_files(&node));
    let answer = node.call("GET", "/api/v1/query?q=crowd", &[("Accept", "text/plain")], b"").expect(200);
    let mut lines: Vec<&[u8]> = answer.body.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), count, "each line is another");
    assert_healthy(&mut node);
    drop(streams);
    wait_until("all are closed", || node.metric("bucksaw_sources_connections") == 0.0);
}

#[test]
fn lines_of_two_hundred_slow_clients_are_found_while_they_are_connected() {
    let mut node = TestServer::start(&["--segment-max-age", "200ms"]);
    let mut streams: Vec<TcpStream> = (0..200).map(|_| node.connect("fast")).collect();
    let mut sent = 0;
    for turn in 0..15 {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(format!("turn {turn} of client {number}\n").as_bytes()).unwrap();
            sent += 1;
        }
        wait_until("the lines are found", || node.count("client") == sent);
        assert!(queue_files(&node) < FILES_MAX, "{} files", queue_files(&node));
        // The next turn then needs new queue files.
        node.wait_stored();
    }
    assert_healthy(&mut node);
}
