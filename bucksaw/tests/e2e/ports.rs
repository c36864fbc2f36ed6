//! Ports that keep free for the process that is to listen on them, also while it is restarted.
//!
//! They are below the ephemeral ports of the system: another process may be given one of those, and a client that connects to a
//! stopped node could get its port as source port, and connect to itself.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// How many ports this process has looked at.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// A port of loopback that is free now, and that this process has given to no other test.
pub(crate) fn free_port() -> u16 {
    // Processes with neighbouring ids start far apart.
    let first = (std::process::id() * 997 % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let port = FIRST + first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// The same as an address.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}
