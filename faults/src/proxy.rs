//! A way between clients and a node on which there is weather: delays, and connections that are reset.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// How long a side waits before it looks at the weather again.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// The way to one node. It is there as long as this process.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) at: SocketAddr,
    conditions: Arc<LinkConditions>,
}

#[derive(Debug, Default)]
struct LinkConditions {
    /// What is sent arrives so many milliseconds later.
    delay_ms: AtomicU64,
    /// Connections that were opened when this was less are reset.
    reset_generation: AtomicU64,
}

impl Proxy {
    /// Listens at one address for connections to another.
    pub(crate) fn start(at: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        let weather = Arc::new(LinkConditions::default());
        let proxy = Self { at, conditions: Arc::clone(&weather) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), weather) = (stream, Arc::clone(&weather)) else { continue };
                // A node that is not there closes its connections; so does the way to it.
                thread::spawn(move || drop(forward_connection(stream, to, &weather)));
            }
        });
        Ok(proxy)
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.conditions.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Resets every connection that is open.
    pub(crate) fn reset(&self) {
        self.conditions.reset_generation.fetch_add(1, Ordering::Relaxed);
    }
}

fn forward_connection(client: TcpStream, to: SocketAddr, weather: &Arc<LinkConditions>) -> io::Result<()> {
    let storm = weather.reset_generation.load(Ordering::Relaxed);
    let node = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
    for stream in [&client, &node] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(POLL_PERIOD))?;
    }
    let (client_too, node_too, weather_too) = (client.try_clone()?, node.try_clone()?, Arc::clone(weather));
    let back = thread::spawn(move || forward_bytes(&node_too, &client_too, &weather_too, storm));
    let there = forward_bytes(&client, &node, weather, storm);
    // A panic there has closed what it had.
    let _ = back.join();
    there
}

fn forward_bytes(mut from: &TcpStream, mut to: &TcpStream, weather: &LinkConditions, storm: u64) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        if weather.reset_generation.load(Ordering::Relaxed) != storm {
            // Closed with nothing to linger for, a connection is reset.
            set_socket_linger(from, Some(Duration::ZERO))?;
            set_socket_linger(to, Some(Duration::ZERO))?;
            return Ok(());
        }
        let count = match from.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        thread::sleep(Duration::from_millis(weather.delay_ms.load(Ordering::Relaxed)));
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side ends by itself when what it carries has come to its end.
    let _ = to.shutdown(std::net::Shutdown::Write);
    let _ = from.shutdown(std::net::Shutdown::Read);
    Ok(())
}
