//! Binds the listeners of flags.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpSocket, UdpSocket, lookup_host};

use crate::values::{HostPort, ListenAddress};

/// Connections that wait to be accepted, within the limit of the kernel.
const BACKLOG: u32 = 4_096;

/// Attempts to find a port that is free for TCP and UDP, with port 0.
const FREE_PORT_ATTEMPTS: u32 = 20;

/// Binds an address, if there is one. Errors name `flag`.
pub(crate) async fn bind(flag: &str, listen: &ListenAddress) -> anyhow::Result<Option<TcpListener>> {
    let Some(at) = &listen.0 else { return Ok(None) };
    let address = resolve(flag, at).await?;
    Ok(Some(bind_tcp(address).with_context(|| cannot_listen(flag, at, "TCP"))?))
}

/// Binds TCP and UDP on one port.
pub(crate) async fn bind_both(flag: &str, listen: &ListenAddress) -> anyhow::Result<Option<(TcpListener, UdpSocket)>> {
    let Some(at) = &listen.0 else { return Ok(None) };
    let address = resolve(flag, at).await?;
    let mut attempts = if address.port() == 0 { FREE_PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let listener = bind_tcp(address).with_context(|| cannot_listen(flag, at, "TCP"))?;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok(Some((listener, socket))),
            // Another process has the port for UDP.
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts > 0 => {}
            Err(error) => return Err(error).with_context(|| cannot_listen(flag, at, "UDP")),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn cannot_listen(flag: &str, at: &HostPort, transport: &str) -> String {
    format!("cannot listen on {at} ({transport}): choose another address with {flag}")
}

/// The first address of a host.
pub(crate) async fn resolve(flag: &str, at: &HostPort) -> anyhow::Result<SocketAddr> {
    let wanted = at.to_string();
    let found = lookup_host(&wanted).await.with_context(|| format!("{flag} {wanted}: cannot resolve the host"))?.next();
    found.with_context(|| format!("{flag} {wanted}: the host has no address"))
}
