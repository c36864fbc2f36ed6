//! The network of a node that is in no cluster.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use crate::{Body, BoxFuture, IncomingCall};

/// A network without other nodes: calls fail, and nothing arrives.
#[derive(Clone, Copy, Debug)]
pub struct OfflineNet;

impl crate::Net for OfflineNet {
    fn address(&self) -> SocketAddr {
        // Published facts need a valid address.
        SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
    }

    fn resolve(&self, _host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) })
    }

    fn send(&self, _to: SocketAddr, _datagram: Vec<u8>) {}

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        Box::pin(std::future::pending())
    }

    fn call(&self, _to: SocketAddr, _name: &str, _body: Body) -> BoxFuture<io::Result<Body>> {
        Box::pin(async { Err(io::ErrorKind::HostUnreachable.into()) })
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        Box::pin(std::future::pending())
    }
}
