//! The listeners for clients, bound before anything is opened, so that a port in use is reported at once.
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

/// Connections that wait to be accepted, within the limit of the kernel.
const BACKLOG: u32 = 4_096;

/// The listeners that are turned on.
pub(super) struct Listeners {
    http: Option<TcpListener>,
    /// The listeners for records.
    records: Vec<(Durability, TcpListener)>,
    /// OTLP over gRPC.
    otlp: Option<TcpListener>,
    otlp_http: Option<TcpListener>,
}

impl Listeners {
    /// Binds each listener on the runtime that serves it. Only the ingest role has listeners for records.
    pub(super) fn bind(args: &ServeArgs, roles: Roles, runtimes: &Runtimes) -> anyhow::Result<Self> {
        let http = runtimes.http.block_on(bind("--listen", &args.listen))?;
        let ports = [
            (Durability::Fast, "--listen-fast", &args.listen_fast),
            (Durability::Durable, "--listen-durable", &args.listen_durable),
            (Durability::Bulk, "--listen-bulk", &args.listen_bulk),
        ];
        let mut records = Vec::new();
        for (durability, flag, listen) in ports.into_iter().filter(|_| roles.ingest) {
            let listener = runtimes.net.block_on(bind(flag, listen))?;
            records.extend(listener.map(|listener| (durability, listener)));
        }
        let bind_otlp = |flag, listen: &Option<ListenAddress>| match listen {
            Some(listen) if roles.ingest => runtimes.http.block_on(bind(flag, listen)),
            _ => Ok(None),
        };
        let otlp = bind_otlp("--listen-otlp", &args.listen_otlp)?;
        let otlp_http = bind_otlp("--listen-otlp-http", &args.listen_otlp_http)?;
        Ok(Self { http, records, otlp, otlp_http })
    }

    /// The addresses in use, by name.
    pub(super) fn addresses(&self) -> BTreeMap<String, String> {
        let records = self.records.iter().map(|(durability, listener)| (durability.name(), listener));
        let others = [("http", &self.http), ("otlp", &self.otlp), ("otlp-http", &self.otlp_http)];
        let all = others.into_iter().filter_map(|(name, listener)| Some((name, listener.as_ref()?))).chain(records);
        all.filter_map(|(name, listener)| Some((name.to_owned(), listener.local_addr().ok()?.to_string()))).collect()
    }

    /// Serves until `stopping`.
    pub(super) fn serve(
        self,
        runtimes: &Runtimes,
        intake: &TcpIntake,
        app: &App,
        stopping: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let records = self.records.into_iter().map(|(durability, listener)| {
            runtimes.net.spawn(bucksaw_sources::serve(listener, durability, intake.clone(), stopping.clone()))
        });
        let (app, stop, http) = (|| app.clone(), || stopping.clone(), &runtimes.http);
        let all = self.http.map(|listener| http.spawn(bucksaw_api::serve(listener, app(), stop())));
        let otlp = self.otlp.map(|listener| http.spawn(bucksaw_api::serve_otlp_grpc(listener, app(), stop())));
        let otlp_http =
            self.otlp_http.map(|listener| http.spawn(bucksaw_api::serve_otlp_http(listener, app(), stop())));
        records.chain(all).chain(otlp).chain(otlp_http).collect()
    }
}

/// The HTTP address for clients that speak HTTP to another port.
pub(super) fn http_address(addresses: &BTreeMap<String, String>) -> Option<String> {
    let address: SocketAddr = addresses.get("http")?.parse().ok()?;
    let port = address.port();
    Some(if address.ip().is_unspecified() { format!("port {port}") } else { address.to_string() })
}

/// Warns of each listener that other machines can reach, because no listener authenticates.
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
    let found = lookup_host(&wanted).await.with_context(|| format!("{flag} {wanted}: cannot resolve the host"))?.next();
    found.with_context(|| format!("{flag} {wanted}: the host has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_address_is_one_that_a_client_can_use() {
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
