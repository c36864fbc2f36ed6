//! An endless line.

use std::io::Write as _;
use std::net::Shutdown;

use super::assert_healthy;
use crate::node::TestServer;
use crate::wait::wait_until;
use bucksaw_faults::Random;

const RECORD_BYTES_MAX: usize = 1 << 20;

#[test]
fn a_line_of_100_mb_is_cut_counted_and_kept() {
    let mut node = TestServer::start(&[]);
    let bytes = without_line_ends(100_000_000);
    let records = bytes.len().div_ceil(RECORD_BYTES_MAX) as u64;

    let mut stream = node.connect("fast");
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    wait_until("all parts of the line are found", || node.count("") == records);

    // The last part is not cut: the stream ended.
    assert_eq!(node.metric("bucksaw_ingest_cut_records_total"), (records - 1) as f64);
    let answer = node.call("GET", "/api/v1/query?from=1h", &[("Accept", "text/plain")], b"").expect(200);
    assert_eq!(answer.body.len(), bytes.len());
    assert!(answer.body == bytes, "the bytes came back changed");
    assert_healthy(&mut node);
}

/// All byte values except LF.
fn without_line_ends(count: usize) -> Vec<u8> {
    let mut random = Random::new(100);
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        bytes.extend(random.next_u64().to_le_bytes().map(|byte| if byte == b'\n' { b'x' } else { byte }));
    }
    bytes.truncate(count);
    bytes
}
