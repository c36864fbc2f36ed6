//! Bodies that begin and do not go on, by the hundred.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use super::assert_healthy;
use crate::client::StreamingResponse;
use crate::node::TestServer;
use crate::wait::wait_until;

const CLIENTS: usize = 500;

/// Half of what a body says that it has: one that is taken whole or not at all. All halves together are several times what
/// the node may take for them.
const HALF_BYTES: usize = 500_000;

/// What the node may take for bodies: the least that there is.
const SMALL: [&str; 2] = ["--max-bodies-bytes", "1MB"];

/// What a node may hold that has `SMALL`: about 32 MB of bodies, what the connections read ahead, and its other work. The
/// halves are 250 MB.
const MEMORY_MAX: u64 = 160 << 20;

/// Opens connections that each send half a body and stall. What does not fit into the sockets is sent from threads.
fn stall(node: &TestServer, headers: &str, half: &[u8]) -> Vec<TcpStream> {
    let head = format!(
        "POST /api/v1/ingest?label=from=stalled HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n{headers}\r\n",
        half.len() * 2
    );
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| node.connect("http")).collect();
    for stream in &streams {
        let (mut stream, head, half) = (stream.try_clone().unwrap(), head.clone(), half.to_vec());
        // A node that gives it up closes it.
        thread::spawn(move || stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&half)));
    }
    streams
}

fn lines(bytes: usize) -> Vec<u8> {
    (0..)
        .map(|line| format!("line {line} of a healthy client\n").into_bytes())
        .take(bytes / 30)
        .collect::<Vec<_>>()
        .concat()
}

/// Ingest goes on meanwhile, of bodies that need memory themselves.
fn assert_others_are_served(node: &mut TestServer) {
    let body = lines(900_000);
    for _ in 0..20 {
        let mut refused = 0;
        wait_until("a healthy body is taken", || {
            let answer = node.post("/api/v1/ingest?label=from=healthy", &[], &body);
            refused += u32::from(answer.status == 503);
            assert!(
                answer.status == 200 || answer.header("retry-after").is_some(),
                "{}: {}",
                answer.status,
                answer.text()
            );
            answer.status == 200
        });
        // Slow, but not for ever.
        assert!(refused < 5, "refused {refused} times");
    }
    assert_eq!(node.count("from=healthy"), 20 * 30_000);
    let peak = node.peak_bytes();
    assert!(peak < MEMORY_MAX, "the node held {} MB", peak >> 20);
    assert_healthy(node);
}

#[test]
fn halves_of_bodies_are_bounded_together_and_give_way() {
    let mut node = TestServer::start(&SMALL);
    let streams =
        stall(&node, "", &b"x".repeat(99).into_iter().chain([b'\n']).collect::<Vec<u8>>().repeat(HALF_BYTES / 100));
    wait_until("bodies wait for memory", || node.metric("bucksaw_api_bodies_waiting") > 0.0);
    assert_others_are_served(&mut node);
    // Those that were given up were told so: some held memory and did not go on, some found none.
    let mut answers: Vec<StreamingResponse> =
        streams.into_iter().filter_map(|stream| StreamingResponse::read(stream).ok()).collect();
    assert!(answers.len() > CLIENTS / 2, "{} of {CLIENTS} were told", answers.len());
    let mut slow = 0;
    for answer in &mut answers {
        let mut text = String::new();
        // The connection may be reset behind the head, for what was not read.
        let _ = answer.body.read_to_string(&mut text);
        slow += u32::from(answer.status == 503 && text.contains("too slowly"));
    }
    assert!(slow > 0, "nobody gave way");
    assert_eq!(node.count("from=stalled"), 0);
    wait_until("all memory is given back", || node.metric("bucksaw_api_body_bytes") == 0.0);
}

#[test]
fn snappy_blocks_count_as_what_they_unpack_to() {
    let mut node = TestServer::start(&[]);
    let text = lines(20_000_000);
    let packed = snap::raw::Encoder::new().compress_vec(&text).unwrap();
    let headers = [("Content-Encoding", "snappy")];
    let statuses: Vec<u16> = thread::scope(|scope| {
        let post = || node.post("/api/v1/ingest?label=from=snappy", &headers, &packed).status;
        let posts: Vec<_> = (0..8).map(|_| scope.spawn(post)).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    let taken = statuses.iter().filter(|status| **status == 200).count() as u64;
    assert!(taken > 0);
    assert_eq!(node.count("from=snappy"), taken * 666_666);
    // What can never fit is refused at once.
    let huge = snap::raw::Encoder::new().compress_vec(&vec![b'\n'; 100_000_000]).unwrap();
    let answer = node.post("/api/v1/ingest", &headers, &huge).expect(413);
    assert!(answer.text().contains("send it in several"), "{}", answer.text());
    assert_healthy(&mut node);
}
