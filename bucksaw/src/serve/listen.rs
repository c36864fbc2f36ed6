//! The listeners for clients, bound before anything is opened, so that a port in use is reported at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bucksaw_api::App;
use bucksaw_cluster::Roles;
use bucksaw_ingest::Durability;
use bucksaw_sources::{DatagramSocket, ListenerProtocol, ListenerSetup, SharedKey, TcpIntake, serve_datagrams};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::runtimes::Runtimes;
use super::socket_file::SocketFile;
use crate::args::ServeArgs;
use crate::bind::{bind, bind_both};
use crate::open_listeners::OpenListener;

/// The listeners that are turned on.
#[derive(Default)]
pub(super) struct Listeners {
    http: Option<TcpListener>,
    /// The listeners for records over TCP.
    tcp: Vec<(ListenerSetup, TcpListener)>,
    /// The sockets for records in datagrams.
    datagrams: Vec<(ListenerSetup, DatagramSocket)>,
    syslog_socket: Option<SocketFile>,
    /// Answers heartbeats of Fluentd's protocol.
    heartbeats: Option<UdpSocket>,
    /// OTLP over gRPC, and over HTTP.
    otlp: Option<TcpListener>,
    otlp_http: Option<TcpListener>,
}

impl Listeners {
    /// Binds each listener on the runtime that serves it. Only the ingest role has listeners for records.
    pub(super) fn bind(args: &ServeArgs, roles: Roles, runtimes: &Runtimes) -> anyhow::Result<Self> {
        let http = runtimes.http.block_on(bind("--listen", &args.listen))?;
        let mut listeners = Self { http, ..Self::default() };
        if roles.ingest {
            listeners.otlp = runtimes.http.block_on(bind("--listen-otlp", &args.listen_otlp))?;
            listeners.otlp_http = runtimes.http.block_on(bind("--listen-otlp-http", &args.listen_otlp_http))?;
            runtimes.net.block_on(listeners.bind_records(args))?;
        }
        Ok(listeners)
    }

    async fn bind_records(&mut self, args: &ServeArgs) -> anyhow::Result<()> {
        let lines = [
            (Durability::Fast, "--listen-fast", &args.listen_fast),
            (Durability::Durable, "--listen-durable", &args.listen_durable),
            (Durability::Bulk, "--listen-bulk", &args.listen_bulk),
        ];
        for (durability, flag, listen) in lines {
            let listener = bind(flag, listen).await?;
            let zone = args.time_from.of(durability.name()).line_zone(&args.time_zone);
            let setup = ListenerSetup { protocol: ListenerProtocol::Lines(zone), ..ListenerSetup::lines(durability) };
            self.tcp.extend(listener.map(|listener| (setup, listener)));
        }
        let durability = args.sender_durability;
        let endpoint = |name, protocol| ListenerSetup { name, durability, protocol };
        let syslog = endpoint("syslog", ListenerProtocol::Syslog(args.time_zone.zone().clone()));
        let both = [
            ("--listen-syslog", &args.listen_syslog, syslog.clone()),
            ("--listen-gelf", &args.listen_gelf, endpoint("gelf", ListenerProtocol::Gelf)),
        ];
        for (flag, listen, endpoint) in both {
            if args.auth_file.is_some() && !args.insecure_listen {
                // A datagram has no credential.
                let listener = bind(flag, listen).await?;
                self.tcp.extend(listener.map(|listener| (endpoint, listener)));
                continue;
            }
            let Some((listener, socket)) = bind_both(flag, listen).await? else { continue };
            self.tcp.push((endpoint.clone(), listener));
            self.datagrams.push((endpoint, DatagramSocket::Udp(socket)));
        }
        if let Some((listener, socket)) = bind_both("--listen-fluent", &args.listen_fluent).await? {
            let key = args.fluent_shared_key_file.as_deref().map(read_shared_key).transpose()?;
            self.tcp.push((endpoint("fluent", ListenerProtocol::Fluent(key)), listener));
            self.heartbeats = Some(socket);
        }
        if let Some(path) = &args.listen_syslog_socket {
            let (file, socket) = SocketFile::bind(path)?;
            self.syslog_socket = Some(file);
            self.datagrams.push((ListenerSetup { name: "syslog-socket", ..syslog }, DatagramSocket::Unix(socket)));
        }
        Ok(())
    }

    /// The addresses in use, by name.
    pub(super) fn addresses(&self) -> BTreeMap<String, String> {
        let tcp = self.tcp.iter().map(|(endpoint, listener)| (endpoint.name, listener));
        let http = [("http", &self.http), ("otlp", &self.otlp), ("otlp-http", &self.otlp_http)];
        let http = http.into_iter().filter_map(|(name, listener)| Some((name, listener.as_ref()?)));
        let all = http.chain(tcp);
        let all = all.filter_map(|(name, listener)| Some((name, listener.local_addr().ok()?.to_string())));
        let file = self.syslog_socket.iter().map(|file| ("syslog-socket", file.0.display().to_string()));
        all.chain(file).map(|(name, address)| (name.to_owned(), address)).collect()
    }

    /// Serves until `stopping`.
    pub(super) fn serve(
        self,
        runtimes: &Runtimes,
        intake: &TcpIntake,
        app: &App,
        stopping: &watch::Receiver<bool>,
    ) -> Vec<JoinHandle<()>> {
        let Self { http, tcp, datagrams, mut syslog_socket, heartbeats, otlp, otlp_http } = self;
        let tcp = tcp.into_iter().map(|(endpoint, listener)| {
            runtimes.net.spawn(bucksaw_sources::serve(listener, endpoint, intake.clone(), stopping.clone()))
        });
        let datagrams = datagrams.into_iter().map(|(endpoint, socket)| {
            let file = if matches!(socket, DatagramSocket::Unix(_)) { syslog_socket.take() } else { None };
            let served = serve_datagrams(socket, endpoint, intake.clone(), stopping.clone());
            runtimes.net.spawn(async move {
                served.await;
                drop(file);
            })
        });
        let heartbeats = heartbeats.into_iter().map(|socket| {
            let clock = Arc::clone(&intake.intake.env.clock);
            runtimes.net.spawn(bucksaw_sources::serve_heartbeats(socket, clock, stopping.clone()))
        });
        let (app, stop, runtime) = (|| app.clone(), || stopping.clone(), &runtimes.http);
        let http = http.map(|listener| runtime.spawn(bucksaw_api::serve(listener, app(), stop())));
        let otlp = otlp.map(|listener| runtime.spawn(bucksaw_api::serve_grpc(listener, app(), stop())));
        let otlp_http = otlp_http.map(|listener| runtime.spawn(bucksaw_api::serve_otlp_http(listener, app(), stop())));
        tcp.chain(datagrams).chain(heartbeats).chain(http).chain(otlp).chain(otlp_http).collect()
    }
}

/// The HTTP address for clients that speak HTTP to another port.
pub(super) fn http_address(addresses: &BTreeMap<String, String>, is_encrypted: bool) -> Option<String> {
    let address: SocketAddr = addresses.get("http")?.parse().ok()?;
    let port = address.port();
    Some(match (address.ip().is_unspecified(), is_encrypted) {
        (true, false) => format!("port {port}"),
        (true, true) => format!("port {port}, over TLS"),
        (false, false) => address.to_string(),
        (false, true) => format!("https://{address}"),
    })
}

/// The listeners that other machines can reach and that do not authenticate clients, or not by an encrypted connection. `cluster` is what the network between nodes
/// listens on.
pub(super) fn open_listeners(
    args: &ServeArgs,
    addresses: &BTreeMap<String, String>,
    cluster: Option<SocketAddr>,
) -> Vec<OpenListener> {
    let of_clients = addresses.iter().filter_map(|(name, address)| {
        let address: SocketAddr = address.parse().ok()?;
        match name.as_str() {
            // There is no TLS for datagrams.
            "syslog" | "gelf" if args.auth_file.is_some() && args.insecure_listen => {
                OpenListener::new(name, &format!("--listen-{name}"), address, "write records by UDP")
            }
            _ if args.auth_file.is_some() && args.tls.is_on() => None,
            name if args.auth_file.is_some() => {
                let flag = if name == "http" { "--listen".to_owned() } else { format!("--listen-{name}") };
                OpenListener::new(name, &flag, address, "read tokens and records on their way")
            }
            name if args.tls.authenticates_clients() && name != "syslog" && name != "gelf" => None,
            "http" => OpenListener::new(name, "--listen", address, "read and write all records"),
            // The service for gRPC answers queries there, too.
            "otlp" => OpenListener::new(name, "--listen-otlp", address, "read and write all records"),
            "fluent" if args.fluent_shared_key_file.is_some() => None,
            name => OpenListener::new(name, &format!("--listen-{name}"), address, "write records"),
        }
    });
    let cluster = cluster.filter(|_| args.cluster_secret_file.is_none());
    let of_nodes = cluster.and_then(|address| {
        OpenListener::new(
            "cluster",
            "--listen-cluster",
            address,
            "act as a node, unless there is a --cluster-secret-file",
        )
    });
    of_clients.chain(of_nodes).collect()
}

/// The key in a file, without the line end behind it.
fn read_shared_key(file: &Path) -> anyhow::Result<SharedKey> {
    let shown = file.display();
    let key = std::fs::read(file).with_context(|| format!("--fluent-shared-key-file: cannot read {shown}"))?;
    let key = key.trim_ascii_end();
    if key.is_empty() {
        bail!("--fluent-shared-key-file: {shown} is empty");
    }
    Ok(SharedKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_http_address_is_one_that_a_client_can_use() {
        let http = |address: &str| BTreeMap::from([("http".to_owned(), address.to_owned())]);
        let words = |address: &str| http_address(&http(address), false);
        assert_eq!(words("127.0.0.1:7650").as_deref(), Some("127.0.0.1:7650"));
        assert_eq!(words("0.0.0.0:7650").as_deref(), Some("port 7650"));
        assert_eq!(http_address(&http("127.0.0.1:7650"), true).as_deref(), Some("https://127.0.0.1:7650"));
        assert_eq!(http_address(&BTreeMap::new(), false), None);
    }
}
