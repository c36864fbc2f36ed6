//! A proxy between clients and a node that applies link conditions: delays and connection resets.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// The interval at which a side checks the conditions.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// The proxy of one node. It runs until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) at: SocketAddr,
    conditions: Arc<LinkConditions>,
}

#[derive(Debug, Default)]
struct LinkConditions {
    /// The delay in milliseconds.
    delay_ms: AtomicU64,
    /// Connections opened at a lower value are reset.
    reset_generation: AtomicU64,
}

impl Proxy {
    /// Listens at one address and forwards to another.
    pub(crate) fn start(at: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        let conditions = Arc::new(LinkConditions::default());
        let proxy = Self { at, conditions: Arc::clone(&conditions) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), conditions) = (stream, Arc::clone(&conditions)) else { continue };
                // The proxy closes connections to a node that is down, as the node would.
                thread::spawn(move || drop(forward_connection(stream, to, &conditions)));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.conditions.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Resets all open connections.
    pub(crate) fn reset(&self) {
        self.conditions.reset_generation.fetch_add(1, Ordering::Relaxed);
    }
}

fn forward_connection(client: TcpStream, to: SocketAddr, conditions: &Arc<LinkConditions>) -> io::Result<()> {
    let generation = conditions.reset_generation.load(Ordering::Relaxed);
    let node = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
    for stream in [&client, &node] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(POLL_PERIOD))?;
    }
    let (client_too, node_too, conditions_back) = (client.try_clone()?, node.try_clone()?, Arc::clone(conditions));
    let back = thread::spawn(move || forward_bytes(&node_too, &client_too, &conditions_back, generation));
    let forward = forward_bytes(&client, &node, conditions, generation);
    // A panicking thread has closed its sockets.
    let _ = back.join();
    forward
}

fn forward_bytes(
    mut from: &TcpStream,
    mut to: &TcpStream,
    conditions: &LinkConditions,
    generation: u64,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        if conditions.reset_generation.load(Ordering::Relaxed) != generation {
            // Closing a socket with linger 0 resets the connection.
            set_socket_linger(from, Some(Duration::ZERO))?;
            set_socket_linger(to, Some(Duration::ZERO))?;
            return Ok(());
        }
        let count = match from.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        thread::sleep(Duration::from_millis(conditions.delay_ms.load(Ordering::Relaxed)));
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other direction ends when its source does.
    let _ = to.shutdown(std::net::Shutdown::Write);
    let _ = from.shutdown(std::net::Shutdown::Read);
    Ok(())
}
