//! UDP and Unix datagram sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::net::{UdpSocket, UnixDatagram};

/// Bytes that the kernel may hold for a socket where there is memory for them; it may allow less. What does not fit is dropped.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// A socket that receives datagrams.
#[derive(Debug)]
pub enum DatagramSocket {
    /// UDP.
    Udp(UdpSocket),
    /// A Unix datagram socket, such as `/dev/log`.
    Unix(UnixDatagram),
}

impl DatagramSocket {
    /// Waits until a datagram may be readable.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.readable().await,
            Self::Unix(socket) => socket.readable().await,
        }
    }

    /// Reads a datagram without waiting. A longer one than the buffer is cut.
    pub(super) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
        match self {
            Self::Udp(socket) => socket.try_recv_from(buffer).map(|(bytes, sender)| (bytes, Some(sender))),
            Self::Unix(socket) => socket.try_recv(buffer).map(|bytes| (bytes, None)),
        }
    }

    /// Lets the kernel hold many datagrams, for bursts: of at most `bytes_max` bytes.
    pub(super) fn enlarge_buffer(&self, bytes_max: usize) {
        let bytes = RECEIVE_BUFFER_BYTES.min(bytes_max);
        // Beyond the limit of the system only with a privilege.
        let is_forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(self.as_fd(), bytes);
        if is_forced.is_err()
            && let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(self.as_fd(), bytes)
        {
            tracing::debug!(%error, "cannot enlarge the receive buffer of a socket");
        }
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}
