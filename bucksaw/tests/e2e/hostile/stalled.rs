//! Hundreds of bodies that stall in the middle.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use super::assert_healthy;
use crate::client::StreamingResponse;
use crate::node::TestServer;
use crate::wait::wait_until;

const CLIENTS: usize = 500;

/// Half of a body that is stored whole or not at all. All halves together are several times the body memory.
const HALF_BYTES: usize = 500_000;

/// The minimum body memory.
const SMALL: [&str; 2] = ["--max-bodies-bytes", "1MB"];

/// Memory limit of a node with `SMALL`: about 32 MB of bodies, read buffers, and other work. The halves have 250 MB.
const MEMORY_MAX: u64 = 160 << 20;

/// Opens connections that send half a body and stall. Threads send what does not fit into socket buffers.
fn stall(node: &TestServer, headers: &str, half: &[u8]) -> Vec<TcpStream> {
    let head = format!(
        "POST /api/v1/ingest?label=from=stalled HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n{headers}\r\n",
        half.len() * 2
    );
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| node.connect("http")).collect();
    for stream in &streams {
        let (mut stream, head, half) = (stream.try_clone().unwrap(), head.clone(), half.to_vec());
        // The node closes it on a timeout.
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

/// Bodies of other clients, which need memory too, are accepted meanwhile.
fn assert_others_are_served(node: &mut TestServer) {
    let body = lines(900_000);
    for _ in 0..20 {
        let mut refused = 0;
        wait_until("a healthy body is accepted", || {
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
        // Perhaps after a wait.
        assert!(refused < 5, "refused {refused} times");
    }
    assert_eq!(node.count("from=healthy"), 20 * 30_000);
    let peak = node.peak_bytes();
    assert!(peak < MEMORY_MAX, "the node held {} MB", peak >> 20);
    assert_healthy(node);
}

#[test]
fn stalled_bodies_share_bounded_memory_and_time_out() {
    let mut node = TestServer::start(&SMALL);
    let streams =
        stall(&node, "", &b"x".repeat(99).into_iter().chain([b'\n']).collect::<Vec<u8>>().repeat(HALF_BYTES / 100));
    wait_until("bodies wait for memory", || node.metric("bucksaw_api_bodies_waiting") > 0.0);
    assert_others_are_served(&mut node);
    // Each gets a reply: some held memory and stalled, some waited for memory.
    let mut answers: Vec<StreamingResponse> =
        streams.into_iter().filter_map(|stream| StreamingResponse::read(stream).ok()).collect();
    assert!(answers.len() > CLIENTS / 2, "{} replies to {CLIENTS} clients", answers.len());
    let mut slow = 0;
    for answer in &mut answers {
        let mut text = String::new();
        // The connection may be reset after the head, because of unread bytes.
        let _ = answer.body.read_to_string(&mut text);
        slow += u32::from(answer.status == 503 && text.contains("too slowly"));
    }
    assert!(slow > 0, "no body timed out");
    assert_eq!(node.count("from=stalled"), 0);
    wait_until("all memory is released", || node.metric("bucksaw_api_body_bytes") == 0.0);
}

#[test]
fn snappy_blocks_count_with_their_decompressed_length() {
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
    // A body that can never fit is refused at once.
    let huge = snap::raw::Encoder::new().compress_vec(&vec![b'\n'; 100_000_000]).unwrap();
    let answer = node.post("/api/v1/ingest", &headers, &huge).expect(413);
    assert!(answer.text().contains("send it in several"), "{}", answer.text());
    assert_healthy(&mut node);
}
