//! Fixed ports of a restarted node.
//!
//! They are below the ephemeral ports of the system: otherwise a client that connects to a stopped node could get its port as
//! source port, and connect to itself.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use bucksaw_faults::Random;

const FIRST: usize = 10_000;
const COUNT: usize = 20_000;

/// Ports in use by concurrent tests of this process.
static GIVEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Arguments that set every listener of a node to a free port.
pub(crate) fn listeners(random: &mut Random) -> Vec<String> {
    let mut arguments = Vec::new();
    for listener in ["--listen", "--listen-fast", "--listen-durable", "--listen-bulk"] {
        arguments.extend([listener.to_owned(), format!("127.0.0.1:{}", free(random))]);
    }
    arguments
}

fn free(random: &mut Random) -> usize {
    loop {
        let port = FIRST + random.below(COUNT);
        let is_free = TcpListener::bind(("127.0.0.1", port as u16)).is_ok();
        if is_free && GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}
