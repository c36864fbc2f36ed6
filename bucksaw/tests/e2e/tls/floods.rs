//! Connections that never complete their handshake.

use std::io::Write as _;
use std::net::TcpStream;

use super::authority::TestAuthority;
use super::connection::TlsConnection;
use crate::node::{bucksaw, run};
use crate::wait::wait_until;

#[test]
fn silent_and_refused_handshakes_keep_no_client_out() {
    let authority = TestAuthority::with_node();
    let (ca, node) = (authority.file("ca.pem"), authority.node(&[]));
    let mut established = TlsConnection::open(node.address("fast"), &authority.path("ca.pem"), &[]);
    established.send(b"before the flood\n");
    // More than there are slots: with 20,000 descriptors 256, of which one address has half.
    let mut silent = Vec::new();
    for at in 0..300 {
        let listener = if at % 2 == 0 { "http" } else { "fast" };
        let mut stream = TcpStream::connect(node.address(listener)).unwrap();
        match at % 3 {
            0 => {}
            // The begin of a handshake.
            1 => stream.write_all(&[22, 3, 1]).unwrap(),
            // One that is refused.
            _ => stream.write_all(&[22, 3, 1, 0, 4, 1, 0, 0, 0]).unwrap(),
        }
        silent.push(stream);
        if at % 50 == 49 {
            let forward = ["forward", "--to", node.address("durable"), "--ca", &ca, "--durability", "durable"];
            let sent = run(&mut bucksaw(forward), b"during the flood\n");
            assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        }
    }
    assert_eq!(authority.count(&node, "flood"), 7);
    established.send(b"after the flood\n");
    wait_until("the open connection is read", || authority.count(&node, "flood") == 8);
    let results =
        |result: &str| authority.metric(&node, &format!("bucksaw_tls_handshakes_total{{result=\"{result}\"}} "));
    let refused = || ["failed", "evicted", "timed_out"].map(results).iter().sum::<f64>();
    wait_until("the refused are counted", || refused() >= 150.0);
    assert!(results("completed") >= 13.0);
}
