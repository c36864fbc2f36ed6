//! HTTP requests to a line port: refused, counted and not stored.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use super::assert_healthy;
use crate::node::TestServer;
use crate::wait::wait_until;

#[test]
fn http_at_a_line_port_is_refused_and_not_stored() {
    let mut node = TestServer::start(&[]);
    let requests = [
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 17\r\n\r\nwritten by a page",
        "GET /written HTTP/1.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nwritten\n",
    ];
    let mut sent = 0;
    for listener in ["fast", "durable", "bulk"] {
        for request in requests {
            // In one piece, and with a split request line.
            for cut in [request.len(), 5] {
                let mut stream = node.connect(listener);
                stream.set_nodelay(true).unwrap();
                let (first, second) = request.split_at(cut);
                stream.write_all(first.as_bytes()).unwrap();
                stream.write_all(second.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
                assert!(answer.contains(node.address("http")), "{answer}");
                sent += 1;
            }
        }
    }
    assert_eq!(node.metric("bucksaw_sources_http_refused_total"), f64::from(sent));
    assert_eq!(node.count(""), 0);
    assert_healthy(&mut node);
}

#[test]
fn lines_about_http_are_lines() {
    let node = TestServer::start(&[]);
    let lines = ["GET /x took 3 ms", "GET / HTTP/1.1 200 13", "ERROR / HTTP/1.1x", "GET", "POST / HTTP/1.1"];
    for (number, line) in lines.iter().enumerate() {
        let mut stream = node.connect("fast");
        // The last has no line end, so it is no request line.
        let end = if number + 1 == lines.len() { "" } else { "\n" };
        stream.write_all(format!("{line}{end}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    }
    let mut late = node.connect("fast");
    late.write_all(b"a line\nGET / HTTP/1.1\r\n").unwrap();
    wait_until("all lines are found", || node.count("") == lines.len() as u64 + 2);
    assert_eq!(node.metric("bucksaw_sources_http_refused_total"), 0.0);
}
