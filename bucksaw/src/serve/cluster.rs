//! The network between nodes.
#![allow(clippy::disallowed_methods, reason = "the program itself runs on a real machine")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_cluster::Clients;
use bucksaw_env::real::Counters;
use bucksaw_env::{Env, Net, real};
use tokio::net::lookup_host;
use tokio::time::timeout;
use tracing::warn;

use super::data_dir;
use super::listen::resolve;
use crate::args::ServeArgs;
use crate::values::{HostPort, ListenAddress};

const FLAG: &str = "--listen-cluster";

/// Where other nodes reach a node that was told nothing.
const DEFAULT_LISTEN: &str = "127.0.0.1:7659";

/// How long it may take at a start to find out where a name leads.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The network between nodes, and where it listens, if it does.
pub(super) async fn network(
    args: &ServeArgs,
    env: &Env,
    connections_max: usize,
    counters: Arc<Counters>,
) -> anyhow::Result<(Arc<dyn Net>, Option<SocketAddr>)> {
    let (at, told) = match &args.listen_cluster {
        Some(ListenAddress(Some(at))) => (at.clone(), true),
        None => (DEFAULT_LISTEN.parse::<HostPort>()?, false),
        Some(ListenAddress(None)) if args.join.is_empty() => return Ok((Arc::new(real::OfflineNet), None)),
        Some(ListenAddress(None)) => bail!("--join: a node that joins others listens to them: leave out {FLAG} \"\""),
    };
    let listen = resolve(FLAG, &at).await?;
    let advertise = match &args.advertise_cluster {
        Some(at) => Some(resolve("--advertise-cluster", at).await?),
        None => None,
    };
    let secret = secret(args, env)?;
    let plain = secret.is_none();
    let usual = real::NetConfig::default();
    let connections_max = usual.connections_max.min(connections_max);
    let config = real::NetConfig { listen, advertise, secret, connections_max, counters, ..usual };
    match real::Net::bind(config).await {
        Ok(net) => {
            let address = net.address();
            if plain && !address.ip().is_loopback() {
                warn!(%address, "whoever reaches the cluster's address is taken for a node: give all nodes a --cluster-secret-file");
            }
            Ok((Arc::new(net), Some(address)))
        }
        Err(error) if !told && args.join.is_empty() => {
            warn!(%error, "this node goes on alone: choose an address for other nodes with {FLAG}");
            Ok((Arc::new(real::OfflineNet), None))
        }
        Err(error) => Err(error).with_context(|| format!("{FLAG} {at}")),
    }
}

fn secret(args: &ServeArgs, env: &Env) -> anyhow::Result<Option<real::Secret>> {
    let Some(path) = &args.cluster_secret_file else { return Ok(None) };
    let shown = path.display();
    if let Ok(mode) = env.fs.mode(path) {
        if mode & 0o007 != 0 {
            bail!(
                "--cluster-secret-file: every user of this machine may use {shown} (mode {mode:04o}): run chmod 600 {shown}"
            );
        }
        if mode & 0o070 != 0 {
            warn!(file = %shown, mode = format!("{mode:04o}"), "the group of the cluster's secret may use it: chmod 600 is safer");
        }
    }
    let bytes = data_dir::read(env, path).with_context(|| format!("--cluster-secret-file: cannot read {shown}"))?;
    let secret = real::Secret::new(&bytes).with_context(|| format!("--cluster-secret-file {shown}"))?;
    Ok(Some(secret))
}

/// Whether there are others to join: names that do not lead back here, or nowhere yet.
pub(super) async fn has_other_seeds(hosts: &[HostPort], reached_at: Option<SocketAddr>) -> bool {
    for host in hosts {
        // Names that take long to find are not of this machine.
        let leads_here = match timeout(RESOLVE_TIMEOUT, lookup_host(host.to_string())).await {
            Ok(Ok(mut found)) => found.all(|address| Some(address) == reached_at),
            Ok(Err(_)) | Err(_) => false,
        };
        if !leads_here {
            return true;
        }
    }
    false
}

/// The addresses that other nodes name to clients.
pub(super) fn clients(addresses: &BTreeMap<String, String>, cluster_address: Option<SocketAddr>) -> Clients {
    let address = |name: &str| {
        let bound: SocketAddr = addresses.get(name)?.parse().ok()?;
        // A listener on all interfaces is reached at the address of the cluster listener.
        let ip = cluster_address.map(|at| at.ip()).filter(|_| bound.ip().is_unspecified()).unwrap_or(bound.ip());
        Some(SocketAddr::new(ip, bound.port()).to_string())
    };
    Clients { http: address("http"), fast: address("fast"), durable: address("durable"), bulk: address("bulk") }
}
