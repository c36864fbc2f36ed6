//! The network between nodes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_cluster::Clients;
use bucksaw_env::real::Counters;
use bucksaw_env::{Env, Fs, Net, Reload, Reloads, real};
use tokio::net::lookup_host;
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::args::ServeArgs;
use crate::bind::resolve;
use crate::small_files;
use crate::values::{HostPort, ListenAddress};

const FLAG: &str = "--listen-cluster";

/// The default of [`FLAG`].
const DEFAULT_LISTEN: &str = "127.0.0.1:7659";

/// How often the file of the secret is checked for changes.
const SECRET_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for resolving a name of a seed at the start.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The network between nodes.
pub(super) struct ClusterNetwork {
    pub(super) net: Arc<dyn Net>,
    /// The address at which other nodes reach this one; `None` if it does not listen.
    pub(super) address: Option<SocketAddr>,
    /// The address that it listens on.
    pub(super) listens_on: Option<SocketAddr>,
}

impl ClusterNetwork {
    /// For a node that runs alone.
    fn offline() -> Self {
        Self { net: Arc::new(real::OfflineNet), address: None, listens_on: None }
    }
}

/// Binds the network between nodes, if it listens.
pub(super) async fn network(
    args: &ServeArgs,
    env: &Env,
    connections_max: usize,
    counters: Counters,
    reloads: &Reloads,
) -> anyhow::Result<ClusterNetwork> {
    let at = match &args.listen_cluster {
        Some(ListenAddress(Some(at))) => at.clone(),
        None => DEFAULT_LISTEN.parse::<HostPort>().map_err(anyhow::Error::msg)?,
        Some(ListenAddress(None)) if args.join.is_empty() => return Ok(ClusterNetwork::offline()),
        Some(ListenAddress(None)) => bail!("--join: a node that joins others must listen to them: omit {FLAG} \"\""),
    };
    let listen = resolve(FLAG, &at).await?;
    let advertise = match &args.advertise_cluster {
        Some(at) => Some(resolve("--advertise-cluster", at).await?),
        None => None,
    };
    let secrets = secrets(args, &*env.fs)?;
    let default = real::NetConfig::default();
    let connections_max = default.connections_max.min(connections_max);
    let config = real::NetConfig { listen, advertise, secrets, connections_max, counters, ..default };
    match real::Net::bind(config).await {
        Ok(net) => {
            let (address, net) = (net.address(), Arc::new(net));
            tokio::spawn(watch_secrets(args.clone(), env.clone(), Arc::clone(&net), reloads.clone()));
            let listens_on =
                SocketAddr::new(listen.ip(), if listen.port() == 0 { address.port() } else { listen.port() });
            Ok(ClusterNetwork { net, address: Some(address), listens_on: Some(listens_on) })
        }
        Err(error) if args.listen_cluster.is_none() && args.join.is_empty() => {
            warn!(%error, "this node runs alone: choose an address for other nodes with {FLAG}");
            Ok(ClusterNetwork::offline())
        }
        Err(error) => Err(error).with_context(|| format!("{FLAG} {at}")),
    }
}

/// The secrets of `--cluster-secret-file`; none without the flag.
fn secrets(args: &ServeArgs, fs: &dyn Fs) -> anyhow::Result<Vec<real::Secret>> {
    let Some(path) = &args.cluster_secret_file else { return Ok(Vec::new()) };
    let shown = path.display();
    small_files::check_private(fs, path, "--cluster-secret-file")?;
    let bytes = small_files::read(fs, path).with_context(|| format!("--cluster-secret-file: cannot read {shown}"))?;
    real::Secret::parse_file(&bytes).with_context(|| format!("--cluster-secret-file {shown}"))
}

/// Reads the secrets again when their file changes, until it is dropped. A file that cannot be used changes nothing.
async fn watch_secrets(args: ServeArgs, env: Env, net: Arc<real::Net>, reloads: Reloads) {
    let Some(path) = args.cluster_secret_file.clone() else { return };
    let stamp = |fs: &dyn Fs| fs.stat(&path).ok().map(|stat| (stat.identity, stat.size, stat.modified_ms));
    let mut known = stamp(&*env.fs);
    loop {
        tokio::time::sleep(SECRET_CHECK_INTERVAL).await;
        // A stat of a local file.
        let found = stamp(&*env.fs);
        if found == known {
            continue;
        }
        known = found;
        let report = |failure| reloads.report(&Reload { name: "cluster secret", path: &path, failure });
        match secrets(&args, &*env.fs) {
            Ok(secrets) => {
                info!(secrets = secrets.len(), "the changed cluster secret is in use");
                net.replace_secrets(secrets);
                report(None);
            }
            Err(error) => {
                let error = format!("{error:#}");
                error!(error, "the changed cluster secret cannot be used: the previous one stays in use");
                report(Some(&error));
            }
        }
    }
}

/// Whether a seed may be another node: its name cannot be resolved, or to other addresses than this node's.
pub(super) async fn has_other_seeds(hosts: &[HostPort], own_address: Option<SocketAddr>) -> bool {
    for host in hosts {
        // A name of this machine resolves in time.
        let is_own = match timeout(RESOLVE_TIMEOUT, lookup_host(host.to_string())).await {
            Ok(Ok(mut found)) => found.all(|address| Some(address) == own_address),
            Ok(Err(_)) | Err(_) => false,
        };
        if !is_own {
            return true;
        }
    }
    false
}

/// The addresses to which other nodes redirect clients.
pub(super) fn clients(addresses: &BTreeMap<String, String>, cluster_address: Option<SocketAddr>) -> Clients {
    let address = |name: &str| {
        let bound: SocketAddr = addresses.get(name)?.parse().ok()?;
        // A listener on all interfaces is reached at the address of the cluster listener.
        let ip = cluster_address.map(|at| at.ip()).filter(|_| bound.ip().is_unspecified()).unwrap_or(bound.ip());
        Some(SocketAddr::new(ip, bound.port()).to_string())
    };
    Clients { http: address("http"), fast: address("fast"), durable: address("durable"), bulk: address("bulk") }
}
