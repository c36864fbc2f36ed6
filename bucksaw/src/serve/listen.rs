//! The listeners: bound before anything else is begun, so that a port in use is told at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::runtime::Runtime;

use crate::args::ServeArgs;
use crate::values::Listen;

/// Clients that connect all at once wait here. The kernel bounds it by its own limit.
const BACKLOG: u32 = 4_096;

/// One for each port that is on.
pub(super) struct Listeners {
    pub(super) http: Option<TcpListener>,
    pub(super) fast: Option<TcpListener>,
    pub(super) durable: Option<TcpListener>,
    pub(super) bulk: Option<TcpListener>,
}

impl Listeners {
    /// Binds each on the runtime that will serve it.
    pub(super) fn bind(args: &ServeArgs, net: &Runtime, http: &Runtime) -> anyhow::Result<Self> {
        Ok(Self {
            http: http.block_on(bind("--listen", &args.listen))?,
            fast: net.block_on(bind("--listen-fast", &args.listen_fast))?,
            durable: net.block_on(bind("--listen-durable", &args.listen_durable))?,
            bulk: net.block_on(bind("--listen-bulk", &args.listen_bulk))?,
        })
    }

    /// The addresses in use, by name.
    pub(super) fn addresses(&self) -> BTreeMap<String, String> {
        let all = [("http", &self.http), ("fast", &self.fast), ("durable", &self.durable), ("bulk", &self.bulk)];
        let address = |(name, listener): (&str, &Option<TcpListener>)| {
            Some((name.to_owned(), listener.as_ref()?.local_addr().ok()?.to_string()))
        };
        all.into_iter().filter_map(address).collect()
    }
}

async fn bind(flag: &str, listen: &Listen) -> anyhow::Result<Option<TcpListener>> {
    let Some(at) = &listen.0 else { return Ok(None) };
    let wanted = at.to_string();
    let addresses: Vec<SocketAddr> =
        lookup_host(&wanted).await.with_context(|| format!("{flag} {wanted}: cannot find that host"))?.collect();
    let Some(address) = addresses.first() else { bail!("{flag} {wanted}: that host has no address") };
    let bound = || -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(*address)?;
        socket.listen(BACKLOG)
    };
    let bound = bound();
    let listener = bound.with_context(|| format!("cannot listen on {wanted}: choose another address with {flag}"))?;
    Ok(Some(listener))
}
