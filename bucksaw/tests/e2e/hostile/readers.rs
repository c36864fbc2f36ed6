//! Clients that do not read their answers.

use std::io::{BufRead as _, BufReader, Write as _};

use super::{MEMORY_MAX, assert_healthy};
use crate::client::{StreamingResponse, encode, open};
use crate::node::TestServer;
use crate::wait::wait_until;

/// Maximum growth by two tails during 40 MB of ingest, one of which reads nothing.
const FOLLOWED_MAX: u64 = 192 << 20;

/// Maximum growth by all stalled readers: the memory of queries, socket buffers, and the search threads.
const STALLED_MAX: u64 = 448 << 20;

/// Maximum bytes that they hold for records not sent yet.
const HELD_MAX: f64 = (STALLED << 19) as f64;

/// More stalled readers than concurrent queries.
const STALLED: usize = 24;

/// Defeats a lazy DFA: every position may begin a match, and many stay open.
const EXPENSIVE: &str = "/[^x]{1,60}x[^y]{1,60}y[^q]{1,60}Q{9}/";

const LINE: &str = "the quick brown fox jumps over the lazy dog, yet another xyz follows and yields to xerxes\n";

/// The number of lines in `megabytes`.
fn filled(megabytes: usize) -> usize {
    megabytes * ((1 << 20) / LINE.len())
}

fn fill(node: &TestServer, megabytes: usize) {
    let text = LINE.repeat(filled(1));
    (0..megabytes).for_each(|_| drop(node.post("/api/v1/ingest", &[], text.as_bytes()).expect(200)));
}

#[test]
fn an_abandoned_query_ends() {
    let mut node = TestServer::start(&[]);
    fill(&node, 150);
    let in_flight = || node.metric("bucksaw_query_in_flight");
    for call in ["query", "count", "histogram", "fields"] {
        let mut stream = node.connect("http");
        let target = format!("/api/v1/{call}?from=1h&q={}", encode(EXPENSIVE));
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
        wait_until("the query runs", || in_flight() == 1.0);
        drop(stream);
        wait_until("the query has ended", || in_flight() == 0.0);
    }
    assert!(node.metric("bucksaw_query_cancelled_total") >= 4.0);
    assert_healthy(&mut node);
}

fn follow(node: &TestServer) -> StreamingResponse {
    let tail = open(node.address("http"), "GET", "/api/v1/tail", &[]).unwrap();
    assert_eq!(tail.status, 200);
    tail
}

#[test]
fn a_stalled_tail_delays_no_other() {
    let mut node = TestServer::start(&[]);
    fill(&node, 40);
    let before = node.peak_bytes();
    let stalled = follow(&node);
    let mut reader = follow(&node);
    wait_until("both tails run", || node.metric("bucksaw_query_tails") == 2.0);
    std::thread::scope(|scope| {
        let node = &node;
        scope.spawn(move || {
            fill(node, 40);
            node.post("/api/v1/ingest", &[], b"the last line\n").expect(200);
        });
        // Fails if nothing arrives any more. A slow tail may show the newest records first.
        let lines = BufReader::new(&mut reader.body).lines().map(|line| line.unwrap());
        let last = lines.take(filled(40) + 1).filter(|line| line.contains("\"the last line\"")).count();
        assert_eq!(last, 1);
    });
    assert_eq!(node.metric("bucksaw_query_tails"), 2.0, "the one that stalled is still there");
    let grown = node.peak_bytes() - before;
    assert!(grown < FOLLOWED_MAX, "two followers made the node grow by {} MB", grown >> 20);
    drop((stalled, reader));
    wait_until("closed tails are removed", || node.metric("bucksaw_query_tails") == 0.0);
    assert_eq!(node.try_wait(), None);
}

#[test]
fn an_unread_answer_is_not_held_in_memory() {
    let mut node = TestServer::start(&[]);
    fill(&node, 300);
    let before = node.peak_bytes();
    let mut stalled = node.connect("http");
    stalled.write_all(b"GET /api/v1/query?from=1h HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    wait_until("it is being answered", || node.metric("bucksaw_query_in_flight") == 1.0);
    assert_eq!(node.count("xerxes") as usize, filled(300), "others are answered");
    assert_eq!(node.metric("bucksaw_query_in_flight"), 1.0, "it waits for its reader");
    // The answer has 300 MB as text, more than twice that as JSON.
    let grown = node.peak_bytes() - before;
    assert!(grown < MEMORY_MAX, "it made the node grow by {} MB", grown >> 20);
    drop(stalled);
    wait_until("it is removed", || node.metric("bucksaw_query_in_flight") == 0.0);
    assert_eq!(node.try_wait(), None);
}

#[test]
fn unread_answers_hold_little_memory_and_block_no_other_query() {
    let mut node = TestServer::start(&[]);
    fill(&node, 100);
    let before = node.peak_bytes();
    let ask = |order: &str| {
        let mut stalled = node.connect("http");
        let target = format!("/api/v1/query?from=1h&order={order}");
        stalled.write_all(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
        stalled
    };
    let stalled: Vec<_> = (0..STALLED).map(|at| ask(if at % 2 == 0 { "asc" } else { "desc" })).collect();
    let in_flight = || node.metric("bucksaw_query_in_flight");
    wait_until("all are being answered", || in_flight() == STALLED as f64);
    assert_eq!(node.count("xerxes") as usize, filled(100), "others are answered");
    let answer = node.call("GET", "/api/v1/query?q=xerxes", &[("Accept", "text/plain")], b"").expect(200);
    assert_eq!(answer.body.len(), filled(100) * LINE.len(), "also when they want all");
    wait_until("they hold little", || node.metric("bucksaw_query_result_bytes") < HELD_MAX);
    assert_eq!(in_flight(), STALLED as f64, "they wait for their readers");
    let grown = node.peak_bytes() - before;
    assert!(grown < STALLED_MAX, "they made the node grow by {} MB", grown >> 20);
    let mut read_on = 0;
    for stream in stalled.into_iter().take(2) {
        let mut answer = StreamingResponse::read(stream).unwrap();
        let lines = BufReader::new(&mut answer.body).lines().map(|line| line.unwrap());
        read_on += lines.take(filled(100)).filter(|line| line.contains("xerxes")).count();
    }
    assert_eq!(read_on, 2 * filled(100), "who reads on gets all");
    wait_until("they are removed", || in_flight() == 0.0);
    assert_eq!(node.try_wait(), None);
}
