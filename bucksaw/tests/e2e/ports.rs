//! Ports that keep free for the process that is to listen on them, also while it is restarted.
//!
//! They are below the ephemeral ports of the system: another process may be given one of those, and a client that connects to a
//! stopped node could get its port as source port, and connect to itself.

use std::fs;
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
        if !is_taken(port) {
            return port;
        }
    }
    panic!("no port is free");
}

/// Whether a socket of this system has the port, by the kernel's tables (proc(5), `/proc/net/tcp`).
///
/// Binding a socket would tell too. But a process that another test starts at that moment inherits the socket until it runs its
/// program, and the node that is to listen on the port may come first.
fn is_taken(port: u16) -> bool {
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| {
        // A system without IPv6 has no tables of it.
        let table = fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
        // `  0: 0100007F:1F90 00000000:0000 0A …`
        let local_ports = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)?.rsplit(':').next());
        local_ports.map(|local| u16::from_str_radix(local, 16)).any(|local| local == Ok(port))
    })
}

/// The same as an address.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

#[test]
fn the_port_of_a_socket_is_taken() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("[::1]:0").or_else(|_| std::net::UdpSocket::bind("127.0.0.1:0")).unwrap();
    assert!(is_taken(listener.local_addr().unwrap().port()));
    assert!(is_taken(socket.local_addr().unwrap().port()));
    assert!(!is_taken(free_port()));
}
