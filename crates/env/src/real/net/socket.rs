//! Options of TCP between nodes.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

/// Who has not answered the kernel, or not read anything of what waits for it, for so long is gone.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends at once what there is, and notices a peer that vanished.
#[cfg(target_os = "linux")]
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // An idle one is asked after a sixth of the time, and then so often that the time is used up.
    sockopt::set_tcp_keepidle(stream, PEER_TIMEOUT / 6)?;
    sockopt::set_tcp_keepintvl(stream, PEER_TIMEOUT / 6)?;
    sockopt::set_tcp_keepcnt(stream, 5)?;
    // What was sent and not acknowledged. Linux counts a window that stays shut as well.
    sockopt::set_tcp_user_timeout(stream, u32::try_from(PEER_TIMEOUT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Sends at once what there is. Who vanished is noticed when the system does.
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
    async fn a_peer_that_vanished_is_noticed() {
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
