//! One port for datagrams and connections, and the address that others are told.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, UdpSocket};

use super::Config;

/// Ports tried until one is free for both.
const PORTS_TRIED: usize = 64;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1_024;

/// Why a node cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The operating system says no.
    #[error("cannot listen for other nodes at {address} ({protocol})")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// UDP or TCP.
        protocol: &'static str,
        /// What it says.
        #[source]
        source: io::Error,
    },
    /// Others would be told an address that leads nowhere.
    #[error(
        "a node that listens at {address}, which is every address of this machine, must be told the one at which other \
         nodes reach it: advertise it, or listen there"
    )]
    Unspecified {
        /// Where it would listen, or what it would tell.
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
            // The port that TCP was given may be taken for UDP.
            Err(BindError::Listen { source, .. })
                if listen.port() == 0 && tried < PORTS_TRIED && source.kind() == io::ErrorKind::AddrInUse =>
            {
                tried += 1;
            }
            done => return done,
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
    // A node that was restarted finds connections of its former life still closing.
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

/// The address that others are told.
pub(super) fn advertised_address(config: &Config, bound: SocketAddr) -> Result<SocketAddr, BindError> {
    let mut address = config.advertise.unwrap_or(bound);
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
    async fn one_port_serves_both() {
        let bound = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_ne!(bound.address.port(), 0);
        assert_eq!(bound.datagrams_in.local_addr().unwrap(), bound.address);
        assert!(matches!(bind(bound.address).unwrap_err(), BindError::Listen { protocol: "TCP", .. }));
    }

    #[tokio::test]
    async fn a_port_in_use_for_udp_is_refused() {
        // Now and then somebody else has the port for TCP.
        let errors = (0..PORTS_TRIED).map(|_| {
            let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            bind(taken.local_addr().unwrap()).unwrap_err()
        });
        let of_datagrams = |error: &BindError| matches!(error, BindError::Listen { protocol: "UDP", .. });
        assert!(errors.into_iter().any(|error| of_datagrams(&error)));
    }

    #[test]
    fn the_advertised_address_is_reachable() {
        let check = |advertise: Option<&str>, bound: &str| {
            let advertise = advertise.map(|address| address.parse().unwrap());
            advertised_address(&Config { advertise, ..Config::default() }, bound.parse().unwrap())
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
