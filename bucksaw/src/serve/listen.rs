//! The listeners: bound before anything else is begun, so that a port in use is told at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Context as _;
use bucksaw_cluster::Roles;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::runtime::Runtime;

use crate::args::ServeArgs;
use crate::values::{HostPort, Listen};

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
    /// Binds each on the runtime that will serve it. A node that takes no records in has none for them.
    pub(super) fn bind(args: &ServeArgs, roles: Roles, net: &Runtime, http: &Runtime) -> anyhow::Result<Self> {
        let records = |flag, listen| if roles.ingest { net.block_on(bind(flag, listen)) } else { Ok(None) };
        Ok(Self {
            http: http.block_on(bind("--listen", &args.listen))?,
            fast: records("--listen-fast", &args.listen_fast)?,
            durable: records("--listen-durable", &args.listen_durable)?,
            bulk: records("--listen-bulk", &args.listen_bulk)?,
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
    let (wanted, address) = (at.to_string(), look_up(flag, at).await?);
    let bound = || -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let bound = bound();
    let listener = bound.with_context(|| format!("cannot listen on {wanted}: choose another address with {flag}"))?;
    Ok(Some(listener))
}

/// The first address of a host.
pub(super) async fn look_up(flag: &str, at: &HostPort) -> anyhow::Result<SocketAddr> {
    let wanted = at.to_string();
    let found = lookup_host(&wanted).await.with_context(|| format!("{flag} {wanted}: cannot find that host"))?.next();
    found.with_context(|| format!("{flag} {wanted}: that host has no address"))
}
