//! Misbehaving clients: each has a stated outcome, and the node keeps working.

mod bodies;
mod crowds;
mod descriptors;
mod expressions;
mod framed;
mod garbage;
mod half_closed;
mod line_ports;
mod long_lines;
mod queries;
mod readers;
mod slow;
mod stalled;

use crate::node::TestServer;

/// Memory limit of a node under attack.
const MEMORY_MAX: u64 = 256 << 20;

/// Asserts that the node runs within its memory limit, accepts records and answers queries.
fn assert_healthy(node: &mut TestServer) {
    assert_eq!(node.try_wait(), None, "the node ended");
    let peak = node.peak_bytes();
    assert!(peak < MEMORY_MAX, "the node held {} MB", peak >> 20);
    node.get("/-/ready").expect(200);
    let before = node.count("wellbeing=asked");
    node.post("/api/v1/ingest?label=wellbeing=asked", &[], b"how are you?\n").expect(200);
    assert_eq!(node.count("wellbeing=asked"), before + 1);
}
