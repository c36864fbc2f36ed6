//! Random bytes on every port.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use super::assert_healthy;
use crate::node::TestServer;
use bucksaw_faults::Random;

const BLOBS: usize = 200;

/// Maximum log lines about all of them.
const LOG_LINES_MAX: usize = 20;

/// Valid beginnings before the garbage.
const STARTS: [&[u8]; 8] = [
    b"",
    b"",
    b"\x89BSW\r\n\x1a\n",
    b"\x89BSW\r\n\x1a\n\x01\x00\x00\x00\x00\x00\x00\x00BSWF",
    b"#labels ",
    b"GET /api/v1/query?q=",
    b"POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: zstd\r\nContent-Length: 9\r\n\r\n",
];

#[test]
fn garbage_on_every_port_affects_no_other_client() {
    let mut node = TestServer::start(&[]);
    let before = node.log().lines().count();
    let mut random = Random::new(7);
    for port in ["http", "fast", "durable", "bulk"] {
        for _ in 0..BLOBS {
            let mut blob = random.pick(&STARTS).to_vec();
            let length = random.below(3_000);
            blob.extend((0..length).map(|_| random.next_u64() as u8));
            let mut stream = node.connect(port);
            // The node may close or reset the connection at any time.
            let _ = stream.write_all(&blob);
            let _ = stream.shutdown(Shutdown::Write);
            let mut said = Vec::new();
            let read = stream.read_to_end(&mut said);
            let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            assert!(!read.as_ref().is_err_and(timed_out), "{port} does not close after {blob:?}");
        }
        assert_healthy(&mut node);
    }
    let log = node.log();
    let said = log.lines().count() - before;
    assert!(said <= LOG_LINES_MAX, "{said} lines about garbage:\n{log}");
}
