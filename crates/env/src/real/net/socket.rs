//! Options of TCP connections between nodes.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// A peer that acknowledges nothing, or reads nothing of what waits for it, for this time is disconnected.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends without delay, and detects a vanished peer after [`PEER_TIMEOUT`].
#[cfg(target_os = "linux")]
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // First probe after a sixth of the timeout, then five more at the same interval.
    sockopt::set_tcp_keepidle(stream, PEER_TIMEOUT / 6)?;
    sockopt::set_tcp_keepintvl(stream, PEER_TIMEOUT / 6)?;
    sockopt::set_tcp_keepcnt(stream, 5)?;
    // For unacknowledged bytes. Linux counts a closed window, too.
    sockopt::set_tcp_user_timeout(stream, u32::try_from(PEER_TIMEOUT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Sends without delay, and detects a vanished peer after the time of the system.
#[cfg(not(target_os = "linux"))]
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt;

    use super::*;

    #[tokio::test]
    async fn sockets_detect_a_vanished_peer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(10));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
    }
}
