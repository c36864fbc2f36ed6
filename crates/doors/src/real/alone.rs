//! The network of a node that has no place in one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use crate::{Body, Incoming, Waiting};

/// Reaches nobody, and is reached by nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl crate::Net for Alone {
    fn address(&self) -> SocketAddr {
        // Facts of a node have an address that could be one.
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
    }

    fn resolve(&self, _host: &str) -> Waiting<io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) })
    }

    fn send(&self, _to: SocketAddr, _datagram: Vec<u8>) {}

    fn receive(&self) -> Waiting<(SocketAddr, Vec<u8>)> {
        Box::pin(std::future::pending())
    }

    fn call(&self, _to: SocketAddr, _name: &str, _body: Body) -> Waiting<io::Result<Body>> {
        Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) })
    }

    fn accept(&self) -> Waiting<Incoming> {
        Box::pin(std::future::pending())
    }
}
