//! Binds one port for datagrams and connections.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, UdpSocket};

/// Ports tried until one is free for UDP and TCP.
const PORTS_TRIED: usize = 64;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1_024;

/// Why a node cannot listen for other nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The operating system refused.
    #[error("cannot listen for other nodes at {address} ({protocol})")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// UDP or TCP.
        protocol: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The advertised address would be unspecified.
    #[error(
        "a node that listens at {address}, on all interfaces, needs the address at which other nodes reach it: advertise it, \
         or listen there"
    )]
    Unspecified {
        /// The address to listen at or to advertise.
        address: SocketAddr,
    },
}

#[derive(Debug)]
pub(super) struct BoundSockets {
    pub(super) address: SocketAddr,
    pub(super) listener: TcpListener,
    pub(super) datagrams_in: UdpSocket,
    pub(super) datagrams_out: std::net::UdpSocket,
}

pub(super) fn bind(listen: SocketAddr) -> Result<BoundSockets, BindError> {
    let mut tried = 1;
    loop {
        match bind_both(listen) {
            // The port chosen for TCP may be in use for UDP.
            Err(BindError::Listen { source, .. })
                if listen.port() == 0 && tried < PORTS_TRIED && source.kind() == io::ErrorKind::AddrInUse =>
            {
                tried += 1;
            }
            bound => return bound,
        }
    }
}

fn bind_both(listen: SocketAddr) -> Result<BoundSockets, BindError> {
    let failed = |address, protocol| move |source| BindError::Listen { address, protocol, source };
    let listener = bind_tcp(listen).map_err(failed(listen, "TCP"))?;
    let address = listener.local_addr().map_err(failed(listen, "TCP"))?;
    let (datagrams_in, datagrams_out) = bind_udp(address).map_err(failed(address, "UDP"))?;
    Ok(BoundSockets { address, listener, datagrams_in, datagrams_out })
}

fn bind_tcp(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of the previous process may still be closing.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

fn bind_udp(address: SocketAddr) -> io::Result<(UdpSocket, std::net::UdpSocket)> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let out = socket.try_clone()?;
    Ok((UdpSocket::from_std(socket)?, out))
}

/// The address at which other nodes reach this one.
pub(super) fn advertised_address(advertise: Option<SocketAddr>, bound: SocketAddr) -> Result<SocketAddr, BindError> {
    let mut address = advertise.unwrap_or(bound);
    if address.port() == 0 {
        address.set_port(bound.port());
    }
    if address.ip().is_unspecified() {
        return Err(BindError::Unspecified { address });
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_port_serves_datagrams_and_connections() {
        let bound = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(bound.address.port(), 0);
        assert_eq!(bound.datagrams_in.local_addr().unwrap(), bound.address);
        assert!(matches!(bind(bound.address).unwrap_err(), BindError::Listen { protocol: "TCP", .. }));
    }

    #[tokio::test]
    async fn a_port_in_use_for_udp_is_refused() {
        // Another process may have the port for TCP: try several.
        let errors = (0..PORTS_TRIED).map(|_| {
            let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            bind(taken.local_addr().unwrap()).unwrap_err()
        });
        let is_of_udp = |error: &BindError| matches!(error, BindError::Listen { protocol: "UDP", .. });
        assert!(errors.into_iter().any(|error| is_of_udp(&error)));
    }

    #[test]
    fn the_advertised_address_is_reachable() {
        let check = |advertise: Option<&str>, bound: &str| {
            let advertise = advertise.map(|address| address.parse().unwrap());
            advertised_address(advertise, bound.parse().unwrap())
                .map(|address| address.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(None, "10.0.0.1:7659").unwrap(), "10.0.0.1:7659");
        assert_eq!(check(Some("192.0.2.1:80"), "0.0.0.0:7659").unwrap(), "192.0.2.1:80");
        assert_eq!(check(Some("192.0.2.1:0"), "0.0.0.0:7659").unwrap(), "192.0.2.1:7659");
        assert!(check(None, "0.0.0.0:7659").unwrap_err().contains("advertise it"));
        assert!(check(Some("0.0.0.0:1"), "127.0.0.1:7659").unwrap_err().contains("advertise it"));
        assert!(check(None, "[::]:7659").unwrap_err().contains("advertise it"));
    }
}
