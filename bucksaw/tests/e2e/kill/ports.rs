//! Ports that stay the same when a node is started again.
//!
//! They are taken from below those that the system hands out by itself: else a client that tries to reach a node that is
//! down could be given that very port, and reach itself.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

use bucksaw_faults::Random;

const FIRST: usize = 10_000;
const COUNT: usize = 20_000;

/// What this process has given away, for tests that run at the same time.
static GIVEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Arguments that set every listener of a node to a port that is free now.
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
