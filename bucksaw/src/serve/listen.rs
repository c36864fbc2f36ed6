//! The listeners for clients. They are bound before anything is opened, so that a port in use is reported at once.
#![allow(clippy::disallowed_methods, reason = "the program itself runs on a real machine")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Context as _;
use bucksaw_api::App;
use bucksaw_cluster::Roles;
use bucksaw_ingest::Durability;
use bucksaw_sources::TcpIntake;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use super::runtimes::Runtimes;

use crate::args::ServeArgs;
use crate::values::{HostPort, ListenAddress};

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
    /// Binds each on the runtime that serves it. A node without the ingest role has none for records.
    pub(super) fn bind(args: &ServeArgs, roles: Roles, runtimes: &Runtimes) -> anyhow::Result<Self> {
        let records = |flag, listen| if roles.ingest { runtimes.net.block_on(bind(flag, listen)) } else { Ok(None) };
        Ok(Self {
            http: runtimes.http.block_on(bind("--listen", &args.listen))?,
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

    /// Serves until `stopping`.
    pub(super) fn serve(
        self,
        runtimes: &Runtimes,
        intake: &TcpIntake,
        app: &App,
        stopping: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let records =
            [(Durability::Fast, self.fast), (Durability::Durable, self.durable), (Durability::Bulk, self.bulk)];
        let records = records.into_iter().filter_map(|(durability, listener)| Some((durability, listener?)));
        let mut servers: Vec<JoinHandle<()>> = records
            .map(|(durability, listener)| {
                runtimes.net.spawn(bucksaw_sources::serve(listener, durability, intake.clone(), stopping.clone()))
            })
            .collect();
        servers.extend(
            self.http.map(|listener| runtimes.http.spawn(bucksaw_api::serve(listener, app.clone(), stopping.clone()))),
        );
        servers
    }
}

/// Where HTTP is served, in words for a client that came to another port.
pub(super) fn http_address(addresses: &BTreeMap<String, String>) -> Option<String> {
    let address: SocketAddr = addresses.get("http")?.parse().ok()?;
    let port = address.port();
    Some(if address.ip().is_unspecified() { format!("port {port}") } else { address.to_string() })
}

/// Warns of each listener that other machines can reach. There is no authentication.
pub(super) fn warn_exposed(addresses: &BTreeMap<String, String>) {
    for (listener, address) in exposed(addresses) {
        warn!(
            listener,
            address,
            "THIS LISTENER IS OPEN TO OTHER MACHINES AND HAS NO AUTHENTICATION: every machine that can connect can read and write all records; restrict it by a firewall, or listen on 127.0.0.1"
        );
    }
}

/// The listeners that are not on loopback.
fn exposed(addresses: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let is_exposed = |address: &str| address.parse().is_ok_and(|at: SocketAddr| !at.ip().to_canonical().is_loopback());
    let named = addresses.iter().map(|(name, address)| (name.as_str(), address.as_str()));
    named.filter(move |(_, address)| is_exposed(address))
}

async fn bind(flag: &str, listen: &ListenAddress) -> anyhow::Result<Option<TcpListener>> {
    let Some(at) = &listen.0 else { return Ok(None) };
    let (wanted, address) = (at.to_string(), resolve(flag, at).await?);
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
pub(super) async fn resolve(flag: &str, at: &HostPort) -> anyhow::Result<SocketAddr> {
    let wanted = at.to_string();
    let found = lookup_host(&wanted).await.with_context(|| format!("{flag} {wanted}: cannot find that host"))?.next();
    found.with_context(|| format!("{flag} {wanted}: that host has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_http_is_one_that_can_be_called() {
        let words = |address: &str| http_address(&BTreeMap::from([("http".to_owned(), address.to_owned())]));
        assert_eq!(words("127.0.0.1:7650").as_deref(), Some("127.0.0.1:7650"));
        assert_eq!(words("0.0.0.0:7650").as_deref(), Some("port 7650"));
        assert_eq!(http_address(&BTreeMap::new()), None);
    }

    #[test]
    fn listeners_beyond_loopback_are_exposed() {
        let check = |address: &str, want: bool| {
            let addresses = BTreeMap::from([("http".to_owned(), address.to_owned())]);
            assert_eq!(exposed(&addresses).count() == 1, want, "{address}");
        };
        for near in ["127.0.0.1:7650", "127.8.8.8:1", "[::1]:7650", "[::ffff:127.0.0.1]:7650"] {
            check(near, false);
        }
        for far in ["0.0.0.0:7650", "[::]:7650", "10.0.0.1:7650", "[::ffff:10.0.0.1]:7650", "[2001:db8::1]:1"] {
            check(far, true);
        }
    }
}
