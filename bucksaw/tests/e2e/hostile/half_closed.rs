//! Clients that close their sending side.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use super::assert_healthy;
use super::framed::{FramedReply, batch, hello, replies};
use crate::node::TestServer;

#[test]
fn half_closed_lines_are_stored_and_the_connection_is_closed() {
    let mut node = TestServer::start(&[]);
    for (port, durability) in ["fast", "durable", "bulk"].into_iter().enumerate() {
        let mut stream = node.connect(durability);
        stream.write_all(format!("#labels port={durability}\none\ntwo\nthree").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"", "{durability}");
        // The lines are in the queue before the node closes its side.
        assert_eq!(node.count(format!("port={durability}")), 3);
        assert_eq!(node.count(""), 3 * (port as u64 + 1));
    }
    assert_healthy(&mut node);
}

#[test]
fn a_half_closed_client_of_the_framed_protocol_gets_its_acknowledgements() {
    let mut node = TestServer::start(&[]);
    for durability in ["fast", "durable", "bulk"] {
        let mut stream = node.connect(durability);
        let label = format!("port={durability}");
        stream.write_all(&[hello(&label), batch(b"one\ntwo\n", 2), batch(b"three\n", 1)].concat()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let heard = replies(&mut stream);
        assert_eq!(heard.first(), Some(&FramedReply::Welcome), "{durability}");
        assert_eq!(heard.last(), Some(&FramedReply::Acked(2)), "{durability}");
        assert_eq!(node.count(&label), 3);
    }
    assert_healthy(&mut node);
}

#[test]
fn a_half_closed_http_client_is_disconnected() {
    let mut node = TestServer::start(&[]);
    let mut stream = node.connect("http");
    // Less than half of the announced body arrives.
    stream
        .write_all(b"POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf a body\n")
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert!(!said.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(node.count(""), 0, "half a body is not kept");
    assert_healthy(&mut node);
}
