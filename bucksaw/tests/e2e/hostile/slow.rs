//! Clients that send a few bytes at a time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::assert_healthy;
use crate::node::TestServer;

/// Request heads time out after ten seconds. Real time is what is tested here, and no setting shortens it.
const HEAD_TIME: std::ops::Range<Duration> = Duration::from_secs(8)..Duration::from_secs(25);

/// Each piece arrives within the time of a slow client, so only the limit of the whole head ends it.
const DRIP: Duration = Duration::from_millis(500);

#[test]
fn slow_request_heads_are_cut_off() {
    let mut node = TestServer::start(&[]);
    let started = Instant::now();
    let mut open: Vec<TcpStream> = (0..50).map(|_| node.connect("http")).collect();
    open.iter_mut()
        .for_each(|stream| stream.write_all(b"GET /api/v1/query?q=x HTTP/1.1\r\nHost: 127.0.0.1\r\n").unwrap());
    while !open.is_empty() {
        assert!(started.elapsed() < HEAD_TIME.end, "{} heads are still open", open.len());
        node.get("/-/ready").expect(200);
        thread::sleep(DRIP);
        let before = open.len();
        open.retain_mut(|stream| stream.write_all(b"X-Drip: 1\r\n").is_ok() && is_open(stream));
        assert!(open.len() == before || started.elapsed() >= HEAD_TIME.start, "cut off too soon");
    }
    assert_healthy(&mut node);
}

/// Whether the node has not closed the connection.
fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 1_024]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn slow_bodies_block_no_thread() {
    let mut node = TestServer::start(&[]);
    let mut open: Vec<TcpStream> = (0..100).map(|_| node.connect("http")).collect();
    let head = b"POST /api/v1/ingest?label=from=drips HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n";
    open.iter_mut().for_each(|stream| stream.write_all(head).unwrap());
    for _ in 0..5 {
        open.iter_mut().for_each(|stream| stream.write_all(b"x").unwrap());
        node.post("/api/v1/ingest", &[], b"a line\n").expect(200);
        assert!(threads(&node) < 60, "{} threads", threads(&node));
    }
    assert_eq!(node.count("from=drips"), 0);
    // Slow bodies are accepted in the end.
    open.iter_mut().for_each(|stream| stream.write_all(&[b'y'; 95]).unwrap());
    for stream in open {
        assert_eq!(crate::client::StreamingResponse::read(stream).unwrap().status, 200);
    }
    assert_eq!(node.count("from=drips xxxxxyyy"), 100);
    assert_healthy(&mut node);
}

fn threads(node: &TestServer) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap().count()
}
